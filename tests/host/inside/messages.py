"""Inside the host: a gateway that gets messages, as from Telegram; the replies as JSON.

Arguments: `SENDER:TEXT`, in order. Senders 111, 222 and 333 are allowed to talk to the agent.
"""

import asyncio
import json
import os
import sys

os.environ["TELEGRAM_ALLOWED_USERS"] = "111,222,333"

from gateway.config import GatewayConfig, Platform, PlatformConfig
from gateway.platforms.base import MessageEvent, MessageType
from gateway.run import GatewayRunner
from gateway.session import SessionSource
from hermes_cli.plugins import discover_plugins


def message(sender, text):
    source = SessionSource(
        platform=Platform.TELEGRAM, chat_id="c1", chat_type="dm", user_id=sender, user_name=sender
    )
    return MessageEvent(text=text, message_type=MessageType.TEXT, source=source)


async def play(said):
    telegram = PlatformConfig(enabled=True, token="x", extra={})
    gateway = GatewayRunner(GatewayConfig(platforms={Platform.TELEGRAM: telegram}))
    replies = []
    for sender, _, text in (argument.partition(":") for argument in said):
        reply = await asyncio.wait_for(gateway._handle_message(message(sender, text)), 90)
        replies.append(None if reply is None else str(reply))
    return replies


discover_plugins()
print("\n" + json.dumps(asyncio.run(play(sys.argv[1:]))), flush=True)
os._exit(0)  # the gateway leaves threads behind that would wait for more messages

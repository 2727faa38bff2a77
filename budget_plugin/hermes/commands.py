"""`/budget` in the host's chats and `hermes budget …`: who asks, and what they may do.

The host hands a chat command nothing but its text. So the sender is noted when the message arrives
(`pre_gateway_dispatch`) and read back by the handler, which runs in the same task.
"""

import argparse
import asyncio
import logging
import sys
import weakref
from collections.abc import Callable, Coroutine, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ..policy.session_ids import sender_of
from .guard import guarded
from .identity import word
from .runtime import Runtime

if TYPE_CHECKING:
    from ..commands.asking import Caller, Host
    from ..messages.diagnosis import Finding

log = logging.getLogger(__name__)

_LOCAL_PLATFORMS: Final = ("", "cli", "tui")
"""Where the person at the machine types; no message arrives there through the gateway."""


@dataclass(frozen=True, slots=True)
class Sender:
    """Who sent the message that this task is about.

    Attributes:
        scope_id: `telegram:123456`, empty for a message without a sender.
        is_host_admin: asks the host's own list of admins.
        task: the task that took the message in: a task that it started inherits the context, but
            speaks for itself.
    """

    scope_id: str
    is_host_admin: Callable[[], bool]
    task: "weakref.ref[asyncio.Task[Any]] | None"


_sender: ContextVar[Sender | None] = ContextVar("budget_sender", default=None)


class Commands:
    """The commands at the host's doors."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._serves_gateway = False

    # ------------------------------------------------------------------ who asks

    @guarded(None)
    def pre_gateway_dispatch(self, **kwargs: Any) -> None:
        """A message has arrived: note its sender, or that it has none."""
        _sender.set(None)
        self._serves_gateway = True
        source = getattr(kwargs.get("event"), "source", None)
        platform = getattr(source, "platform", None)
        _sender.set(
            Sender(
                sender_of(
                    word(getattr(platform, "value", platform)),
                    word(getattr(source, "user_id", None)),
                ),
                lambda: _host_says_admin(kwargs.get("gateway"), source),
                _this_task(),
            )
        )

    def _who(self) -> Sender | None:
        """The sender of the message that is being handled; `None` for the person at the machine.

        Read when the host calls the handler: where it runs the answer on another thread, the
        context is not there any more.
        """
        sender = _sender.get()
        task = _this_task()
        if sender is not None and _same_task(sender.task, task):
            return sender
        return _NOBODY if self._in_gateway(task) else None

    def _in_gateway(self, task: object) -> bool:
        """Whether a command without a known sender can have come from a chat app.

        The gateway calls handlers on its event loop; terminal programs call them from a plain
        thread.
        """
        return self._serves_gateway or (task is not None and "gateway.run" in sys.modules)

    # ------------------------------------------------------------------ the chat command

    def budget(self, raw_args: str = "") -> Coroutine[Any, Any, str]:
        """`/budget …`: the host awaits the answer, and its event loop goes on meanwhile."""
        return self._answer(word(raw_args), self._who())

    async def _answer(self, text: str, sender: Sender | None) -> str:
        try:
            return await asyncio.to_thread(self._carry_out, text, sender)
        except Exception:
            # The host would call it an unknown command, and say nothing.
            log.exception("/budget failed")
            from ..messages import reports

            return reports.command_failed()

    def _carry_out(self, text: str, sender: Sender | None) -> str:
        from ..commands import chat

        return chat.reply(self._runtime.engine, text, self._caller(sender), self._host())

    def _caller(self, sender: Sender | None) -> "Caller":
        from ..commands.asking import Caller
        from ..commands.tree import local_user

        if sender is None:
            return Caller(local_user(), "chat", "/budget")
        return Caller(
            who=sender.scope_id or "unknown",
            via="chat",
            prefix="/budget",
            may_change=bool(sender.scope_id) and self._is_admin(sender),
            sender_id=sender.scope_id,
        )

    def _is_admin(self, sender: Sender) -> bool:
        admins = self._runtime.engine().rules().budget.admins
        return sender.scope_id in map(_folded, admins) or sender.is_host_admin()

    # ------------------------------------------------------------------ while the agent is busy

    @guarded(None)
    def answer_from_text(self, user_message: object, sender_id: str, platform: str) -> str | None:
        """The answer to a `/budget …` that reached the model as text, because the agent was busy.

        Only questions are answered, and of other people's spending nothing is told: whose message
        it is, is not certain here.

        Returns:
            `None` when the message is anything else.
        """
        from ..commands import chat
        from ..commands.asking import Caller
        from ..commands.tree import local_user
        from ..messages import reports

        text = chat.text_of_command(user_message)
        if text is None:
            return None
        if chat.changes_something(text):
            return reports.not_while_busy(f"/budget {text.strip()}")
        if platform in _LOCAL_PLATFORMS and not sender_id and not self._serves_gateway:
            caller = Caller(local_user(), "chat", "/budget")
        else:
            sender = sender_of(platform, sender_id)
            caller = Caller(sender or "unknown", "chat", "/budget", False, sender)
        return chat.reply(self._runtime.engine, text, caller, self._host())

    # ------------------------------------------------------------------ the command line

    def setup_cli(self, parser: argparse.ArgumentParser) -> None:
        """`hermes budget`: add our commands to the host's parser."""
        from ..commands.tree import build_parser

        build_parser(parser)

    def run_cli(self, parsed: argparse.Namespace) -> None:
        """Carry out `hermes budget …`; the host ignores what is returned, so the process ends."""
        from ..commands.tree import run

        sys.exit(run(parsed, self._runtime.engine, self._host()))

    # ------------------------------------------------------------------ what only the host knows

    def _host(self) -> "Host":
        from ..commands.asking import Host
        from .cron_schedules import schedules
        from .job_store import HostJobStore

        home = self._runtime.home
        jobs = HostJobStore(home, self._runtime.profile)
        return Host(self._findings, partial(schedules, home), jobs)

    def _findings(self) -> "Iterable[Finding]":
        from .diagnosis import host_findings
        from .plugin import HOOKS

        expected = ("llm_execution", *HOOKS)
        return host_findings(self._runtime.home, expected)


def _folded(admin: str) -> str:
    """Platform names are written in lower case by the host."""
    platform, colon, user_id = admin.partition(":")
    return f"{platform.lower()}{colon}{user_id}"


def _this_task() -> "weakref.ref[asyncio.Task[Any]] | None":
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop runs on this thread
        return None
    return None if task is None else weakref.ref(task)


def _same_task(noted: object, now: object) -> bool:
    return noted == now


def _host_says_admin(gateway: Any, source: Any) -> bool:
    """Whether the host itself lists the sender as an admin of this chat.

    Without a list of its own the host calls everybody an admin; that is no list to go by.
    """
    try:
        from gateway.slash_access import policy_for_source

        policy = policy_for_source(getattr(gateway, "config", None), source)
        return bool(policy.enabled and policy.is_admin(getattr(source, "user_id", None)))
    except Exception:
        log.exception("the host's list of admins could not be read")
        return False


_NOBODY: Final = Sender("", lambda: False, None)
"""A message whose sender is not known: nobody that may change anything."""

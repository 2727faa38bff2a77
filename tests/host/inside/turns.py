"""Inside the host: one process, several turns of one conversation of the interactive program.

Each argument is a message to the agent, a slash command, `write:PATH:TEXT`, which replaces a file
between two turns, or `title:`, which has the host name the conversation as it does after the first
answer. One JSON list of the answers comes last. Children that were sent into the
background are waited for.
"""

import contextlib
import io
import json
import sys
import threading
from pathlib import Path

sys_argv, sys.argv = sys.argv, ["hermes", "chat"]

import cli as hermes_program  # noqa: E402
from hermes_cli.plugins import discover_plugins  # noqa: E402

WAIT_S = 60


def wait_for_children():
    from tools.async_delegation import active_count

    patience = threading.Event()
    for _ in range(WAIT_S * 50):
        if not active_count():
            return
        patience.wait(0.02)
    raise SystemExit(f"children still run after {WAIT_S} s")


def title(program):
    """The thread that the interactive program starts, and its end."""
    from agent.title_generator import maybe_auto_title

    agent = program.agent
    said = [message["content"] for message in history if message["role"] in ("user", "assistant")]
    runtime = {"model": agent.model, "provider": agent.provider, "base_url": agent.base_url,
               "api_key": agent.api_key, "api_mode": agent.api_mode}  # fmt: skip
    maybe_auto_title(
        program._session_db, agent.session_id, said[0], said[-1], history, main_runtime=runtime
    )
    for thread in threading.enumerate():
        if thread.name == "auto-title":
            thread.join(WAIT_S)
    return program._session_db.get_session_title(agent.session_id)


def play(program, said):
    if said == "title:":
        return title(program)
    if said.startswith("write:"):
        _, path, text = said.split(":", 2)
        Path(path).write_text(text)
        return ""
    if said.startswith("/"):
        with contextlib.redirect_stdout(io.StringIO()) as shown:
            program.process_command(said)
        return shown.getvalue()
    result = program.agent.run_conversation(user_message=said, conversation_history=history)
    history[:] = result.get("messages") or history
    wait_for_children()
    return result.get("final_response")


history = []
discover_plugins()
program = hermes_program.HermesCLI(verbose=False)
program._init_agent()
answers = [play(program, said) for said in sys_argv[1:]]
print("\n" + json.dumps(answers))

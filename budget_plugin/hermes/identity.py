"""Who a hook is about: run, session, cron job, sender, profile, read from what the hook brings.

Hook arguments are read tolerantly: a missing or odd value becomes the empty string, never an error.
"""

import json
import re
import threading
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from ..engine.live_runs import Origin
from ..policy.events import Run
from ..policy.session_ids import cron_job_of, sender_of

_REVIEW_THREAD: Final = "bg-review"
_SKILL: Final = re.compile(r'\[IMPORTANT: The user has invoked the "([^"\n]{1,200})"')
"""How the host begins a message that a skill was loaded into: by a slash command or a cron job."""

_DELEGATION_REPORT: Final = ("[ASYNC DELEGATION COMPLETE", "[ASYNC DELEGATION BATCH COMPLETE")
"""How the host begins the message of a turn that it opens itself, when children have reported."""

_GOES_ON: Final = ("[Continuing toward ", "[IMPORTANT: Background process ")
"""The same when it goes on with a goal or a task, or a process of the run has something to say."""

_LONGEST_LOOKED_AT: Final = 2_000
"""Characters of a first message in which a ticket is looked for."""

DELEGATION: Final = "delegate_task"
"""The host's tool that starts children."""

_MOST_NUMBER: Final = 10**40
"""Greater numbers are nobody's id, and Python refuses to print those of thousands of digits."""


class HookIds(NamedTuple):
    """The ids that a hook carries; empty where it has none. (Made at every tool call.)"""

    turn_id: str
    session_id: str
    task_id: str
    api_request_id: str


def ids_of(kwargs: Mapping[str, Any]) -> HookIds:
    """The ids in a hook's arguments."""
    return HookIds(
        word(kwargs.get("turn_id")),
        word(kwargs.get("session_id")),
        word(kwargs.get("task_id")),
        word(kwargs.get("api_request_id")),
    )


def word(value: object) -> str:
    """A text or number as text; anything else is not an id."""
    if type(value) is str:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return ""
    return f"{value:d}" if abs(value) < _MOST_NUMBER else ""


def run_of(kwargs: Mapping[str, Any], now_ms: int, profile: str) -> Run:
    """The run that a hook's arguments speak of.

    Without a turn id the run is named after its session: such hooks come before or outside a turn.
    """
    ids = ids_of(kwargs)
    session_id = ids.session_id or ids.task_id or "unknown"
    run_id = ids.turn_id or f"{session_id}:session"
    platform = word(kwargs.get("platform"))
    job = cron_job_of(session_id)
    return Run(
        run_id=run_id,
        session_id=session_id,
        root_run_id=run_id,
        kind=_kind(platform, job),
        started_ms=now_ms,
        cron_job_id=job,
        sender_id=sender_of(platform, word(kwargs.get("sender_id"))),
        profile=profile,
        platform=platform,
        model=word(kwargs.get("model")),
    )


def _kind(platform: str, job: str) -> str:
    if threading.current_thread().name.startswith(_REVIEW_THREAD):
        return "review"
    if platform == "subagent":
        return "child"
    return "cron" if job else "chat"


def command_of(message: object) -> str:
    """The skill that a turn carries out, by the host's own opening words; "" for plain talk."""
    found = _SKILL.match(message) if isinstance(message, str) else None
    return found[1] if found else ""


def origin_of(message: object) -> Origin:
    """Who has opened a turn, by the opening words of its message: the host's own are fixed."""
    if not isinstance(message, str):
        return Origin.PERSON
    if message.startswith(_DELEGATION_REPORT):
        return Origin.DELEGATION
    return Origin.HOST if message.startswith(_GOES_ON) else Origin.PERSON


def first_message(kwargs: Mapping[str, Any]) -> str:
    """What a conversation began with: the history's first message of a person, else this turn's."""
    history = kwargs.get("conversation_history")
    for message in history if isinstance(history, list) else ():
        if isinstance(message, Mapping) and message.get("role") == "user":
            return text_of(message.get("content"))
    return text_of(kwargs.get("user_message"))


def text_of(content: object) -> str:
    """The text of a message, its beginning; of one in parts (with pictures) the first text."""
    if isinstance(content, list):
        texts = (part.get("text") for part in content if isinstance(part, Mapping))
        content = next((text for text in texts if isinstance(text, str)), "")
    return content[:_LONGEST_LOOKED_AT] if isinstance(content, str) else ""


def children_of(args: object) -> int:
    """How many children a call of the host's delegation tool starts; a look at them is none."""
    return len(tasks_of(args))


def tasks_of(args: object) -> list[Any]:
    """What the children of a call of the host's delegation tool are each given: a goal and more.

    Only goals and tasks are gone by, as the host does: an `action` beside them changes nothing.
    """
    asked = args if isinstance(args, Mapping) else {}
    tasks = asked.get("tasks")
    if isinstance(tasks, str):  # the host takes the list as JSON text, too
        try:
            tasks = json.loads(tasks)
        except ValueError:
            tasks = None
    if isinstance(tasks, list) and tasks:
        return tasks
    return [asked] if asked.get("goal") else []

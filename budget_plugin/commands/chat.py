"""From the text behind `/budget` to a command; light to import."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from .asking import NO_HOST, Answer, Args, Caller, Host, Usage
from .catalogue import COMMANDS, FIRST
from .grammar import split, take_options

if TYPE_CHECKING:
    from ..engine.engine import Engine

_COMMAND: Final = re.compile(r"\s*/budget(?:@\w+)?(?:\s+(?P<rest>.*))?\s*", re.DOTALL)
"""`/budget …` as it reaches a model that is busy; groups write `/budget@name_of_bot`."""


def reply(engine: "Callable[[], Engine]", text: str, caller: Caller, host: Host = NO_HOST) -> str:
    """The answer to the text behind `/budget`."""
    from . import table

    try:
        name, args, as_json = parse(text, caller)
    except Usage as usage:
        return str(usage)
    return _shown(table.answer(engine, name, replace(args, host=host)), as_json=as_json)


def _shown(answer: Answer, *, as_json: bool) -> str:
    if as_json and answer.data is not None:
        return json.dumps(answer.data, indent=2, ensure_ascii=False)
    return answer.in_a_chat()


def parse(text: str, caller: Caller) -> tuple[str, Args, bool]:
    """The command's name, its arguments, and whether JSON is wanted.

    Raises:
        Usage: a quotation mark is not closed, or an option has no value.
    """
    words, options = take_options(split(text))
    name, *rest = words or [FIRST]
    args = Args(
        caller=caller,
        words=tuple(rest),
        scope_id=options.get("id"),
        check="check" in options,
        partial="partial" in options,
        provider=options.get("provider", ""),
        options=options,
    )
    return name, args, "json" in options


def text_of_command(message: object) -> str | None:
    """What stands behind `/budget` when a whole message is that command, else `None`."""
    match = _COMMAND.fullmatch(message) if isinstance(message, str) else None
    return None if match is None else (match["rest"] or "")


def changes_something(text: str) -> bool:
    """Whether the command is one that only a certain sender may give."""
    name = next(iter(text.split(maxsplit=1)), FIRST)
    command = COMMANDS.get(name.lower())
    return command is not None and command.changes

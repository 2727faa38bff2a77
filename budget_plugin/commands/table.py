"""Carries out a command: finds its function, turns every refusal into an answer."""

import importlib
from collections.abc import Callable

from ..engine.engine import Engine
from ..messages import reports
from ..store.sql.database import LedgerError
from .asking import PROBLEM, USAGE, Answer, Args, Usage
from .catalogue import COMMANDS, Command
from .grammar import near

Function = Callable[[Engine, Args], Answer]


def answer(engine: Callable[[], Engine], name: str, args: Args) -> Answer:
    """What a command says.

    Args:
        engine: makes or finds the engine; asked only when the command may be carried out.
        name: the command's name as it was typed.
    """
    command = COMMANDS.get(name.lower())
    if command is None:
        return Answer(
            reports.unknown_command(name, near(name, COMMANDS), args.caller.prefix), None, USAGE
        )
    if not args.caller.may_change and not command.for_all:
        text = reports.may_not_change() if command.changes else reports.for_admins_only()
        return Answer(text, None, PROBLEM)
    try:
        return _function(command)(engine(), args)
    except Usage as usage:
        return Answer(str(usage), None, USAGE)
    except LedgerError as error:
        return Answer(reports.ledger_silent(str(error)), None, PROBLEM)


def _function(command: Command) -> Function:
    module, name = command.place
    found: Function = getattr(importlib.import_module(f".{module}", __package__), name)
    return found

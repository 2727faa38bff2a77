"""`help`: the commands that the caller may use."""

from ..engine.engine import Engine
from ..messages import reports
from .asking import Answer, Args
from .catalogue import COMMANDS


def help_(engine: Engine, args: Args) -> Answer:
    """A line for each command that the caller may use."""
    caller = args.caller
    shown = [command for command in COMMANDS.values() if caller.may_change or command.for_all]
    lines = [(command.usage, command.summary) for command in shown]
    text = reports.help_text(caller.prefix, lines, may_change=caller.may_change)
    return Answer(text, [{"usage": usage, "summary": summary} for usage, summary in lines])

"""`confirm`: a person's word for edits of budget.yaml that wait."""

from ..engine.engine import Engine
from ..messages import held, reports
from .asking import OK, Answer, Args, Usage


def confirm(engine: Engine, args: Args) -> Answer:
    """Put every change in force that waits, and say which."""
    if args.words:
        raise Usage(reports.too_many_words("confirm", args.words[0]))
    changes = engine.confirm(args.caller.who, args.caller.via)
    return Answer(held.confirmed(changes), [reports.change_data(c) for c in changes], OK)

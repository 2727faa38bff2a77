"""`runs`, `receipt` and `why`: how runs ended, what they used, and what was decided about them."""

from typing import Final

from ..engine.engine import Engine
from ..messages.extensions import request_data, request_short
from ..messages.layout import upper_first
from ..messages.run_reports import (
    checkpoint_data,
    no_such_run,
    reason_data,
    receipt_text,
    run_data,
    runs_text,
    why_text,
)
from ..policy.runs.receipts import rates
from ..store.run_records import EndedRun
from .asking import PROBLEM, Answer, Args
from .spending import tier_costs

SHOWN: Final = 10
"""Runs in a chat's answer."""

MOST: Final = 1_000
"""Runs for programs, and for the shares."""


def runs(engine: Engine, args: Args) -> Answer:
    """The runs that ended last; with `--partial` those that left something for somebody."""
    ended = engine.run_records.latest(MOST, partial_only=args.partial)
    shares = rates([run.receipt for run in ended])
    text = runs_text(
        ended[:SHOWN], shares, engine.rules().zone, tier_costs(engine), partial=args.partial
    )
    return Answer(text, [run_data(run) for run in ended])


def receipt(engine: Engine, args: Args) -> Answer:
    """One receipt; without a name that of the run that ended last."""
    run = _named(engine, args)
    if run is None:
        return Answer(no_such_run(_name(args)), None, PROBLEM)
    request = engine.extensions.requests.of_run(run.run_id)
    asked = "" if request is None else f"\n\n{upper_first(request_short(request))}"
    data = {**run_data(run), "request": None if request is None else request_data(request)}
    return Answer(receipt_text(run, engine.rules().zone) + asked, data)


def why(engine: Engine, args: Args) -> Answer:
    """What was decided about a run, and how it ended."""
    run = _named(engine, args)
    if run is None:
        return Answer(no_such_run(_name(args)), None, PROBLEM)
    reasons = engine.run_records.reasons(run.run_id)
    answers = engine.checkpoints.of(run.run_id)
    data = {
        **run_data(run),
        "decisions": [reason_data(reason) for reason in reasons],
        "checkpoints": [checkpoint_data(answer) for answer in answers],
    }
    return Answer(why_text(run, reasons, answers, engine.rules().zone), data)


def _name(args: Args) -> str:
    return args.scope_id or (args.words[0] if args.words else "")


def _named(engine: Engine, args: Args) -> EndedRun | None:
    name = _name(args)
    if name:
        return engine.run_records.named(name)
    return next(iter(engine.run_records.latest(1)), None)

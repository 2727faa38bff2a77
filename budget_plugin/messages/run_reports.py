"""`runs`, `receipt` and `why` in words: how runs ended, what they used, what was decided."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final
from zoneinfo import ZoneInfo

from ..policy.limits import Limit, Measure, Scope
from ..policy.money import usd_from_nanos
from ..policy.runs.receipts import Rates, Receipt, to_json
from ..policy.runs.run_limits import METERS, Meter
from ..policy.tier_costs import TierCost
from ..policy.windows import Window
from ..store.checkpoints import Checkpoint
from ..store.run_records import EndedRun, Reason
from .layout import many, moment, page, percent, short
from .loops import loop_line
from .parts import amount, limit_name
from .roles import tier_costs
from .run_words import how_it_ended, meter_amount, totals, use_of

_SHORT_ID: Final = 8


def runs_text(
    ended: Sequence[EndedRun],
    shares: Rates,
    zone: ZoneInfo,
    tiers: Sequence[TierCost],
    *,
    partial: bool,
) -> str:
    """The runs that ended last, newest first, the shares over all of them, and costs by tier."""
    if not ended:
        return "No run has ended partial." if partial else "No run has ended yet."
    lines = [_headline(shares)]
    for run in ended:
        lines += ["", *_short_account(run, zone)]
    if tiers:
        lines += ["", tier_costs(tiers)]
    return page(lines)


def _headline(shares: Rates) -> str:
    parts = [many(shares.runs, "run")]
    for name, share in (
        ("partial", shares.partial),
        ("out of budget", shares.exhausted),
        ("near miss", shares.near_miss),
    ):
        if share:
            parts.append(f"{percent(share)} {name}")
    return ", ".join(parts)


def _short_account(run: EndedRun, zone: ZoneInfo) -> Iterator[str]:
    receipt = run.receipt
    yield f"{moment(run.at_ms, zone)} {run.kind or 'run'} {short_id(run.run_id)}"
    yield f"  {how_it_ended(receipt)}"
    yield f"  {totals(receipt)}"
    yield from (f"  {line}" for line in _near_misses(receipt))
    if receipt.next_owner:
        yield f"  next: {short(receipt.next_owner)}"


def short_id(run_id: str) -> str:
    """The end of a run's id, by which a person can name it."""
    return short(run_id[-_SHORT_ID:])


def _near_misses(receipt: Receipt) -> Iterator[str]:
    for meter in receipt.near_misses:
        yield f"! near miss: {use_of(meter, receipt.budgets[meter])}"


def receipt_text(run: EndedRun, zone: ZoneInfo) -> str:
    """One receipt, every meter a line."""
    receipt = run.receipt
    lines = [
        f"Run {short(run.run_id)}",
        f"{run.kind or 'run'}, ended {moment(run.at_ms, zone)}",
        f"{receipt.ending.state}, {how_it_ended(receipt)}",
        *([f"goes on from {short_id(run.linked_run_id)}"] if run.linked_run_id else []),
        *([f"ticket {short(run.ticket_id)}"] if run.ticket_id else []),
        "",
        *(use_of(meter, use) for meter, use in receipt.budgets.items() if use.used or use.limit),
        *(_near_misses(receipt)),
        many(receipt.calls, "model call"),
    ]
    if receipt.unpriced_calls:
        lines.append(f"{many(receipt.unpriced_calls, 'call')} without a known price")
    lines += [f"{name.replace('_', ' ')}: {n}" for name, n in receipt.steps.items() if n]
    circles = [loop_line(seen) for seen in receipt.loops]
    for head, said in (
        ("Circles", circles),
        ("Delivered", receipt.delivered),
        ("Missing", receipt.gaps),
    ):
        lines += ["", f"{head}:", *(f"- {short(text, 200)}" for text in said)] if said else []
    if receipt.next_owner:
        lines += ["", f"Next: {short(receipt.next_owner)}"]
    return page(lines)


def why_text(
    run: EndedRun, reasons: Iterable[Reason], answers: Iterable[Checkpoint], zone: ZoneInfo
) -> str:
    """What was decided about a run, in order, how it ended, and what it said at its checkpoints."""
    lines = [f"Run {short_id(run.run_id)}: {how_it_ended(run.receipt)}"]
    said = [line for reason in reasons for line in ("", *_reason(reason, zone))]
    if not said:
        said = ["", "No limit refused it anything."]
    accounts = [line for answer in answers for line in ("", *_account(answer, zone))]
    return page([*lines, *said, *accounts])


def _account(answer: Checkpoint, zone: ZoneInfo) -> Iterator[str]:
    yield f"{moment(answer.at_ms, zone)} the run's own account:"
    for head, text in (
        ("established", answer.established),
        ("enough", answer.enough),
        ("smallest result", answer.smallest),
        ("draft of", answer.head),
    ):
        if text:
            yield f"  {head}: {short(text, 200)}"


def checkpoint_data(answer: Checkpoint) -> dict[str, Any]:
    """An account at a checkpoint for programs."""
    return {name: value for name, value in asdict(answer).items() if name != "run_id"}


def _reason(reason: Reason, zone: ZoneInfo) -> Iterator[str]:
    yield f"{moment(reason.at_ms, zone)} {reason.gate}: {reason.action}"
    yield f"  {_ceiling(reason) if reason.scope == 'run' else _limit(reason)}"
    if reason.detail and not reason.observed:  # what the run was told, and of this nothing
        yield f"  {reason.detail}"


def _ceiling(reason: Reason) -> str:
    """`tool calls of the run: 38 of 40`; of what has no meter its name."""
    if reason.measure not in METERS or reason.measure == Meter.CONTEXT_PCT:
        return f"{reason.measure.replace('_', ' ')} of the run"
    meter = Meter(reason.measure)
    used, limit = (meter_amount(meter, number) for number in (reason.used, reason.amount))
    return f"{METERS[meter].noun} of the run: {used} of {limit}"


def _limit(reason: Reason) -> str:
    """`the daily limit of $5.00 for everything together: $5.10 used`."""
    measure = Measure(reason.measure)
    limit = Limit(
        Scope(reason.scope), reason.scope_id, Window(reason.window), measure, reason.amount
    )
    return f"{limit_name(limit)}: {amount(reason.used, measure)} used"


def no_such_run(name: str) -> str:
    """Nothing has ended under that id."""
    if not name:
        return "No run has ended yet."
    return f'No ended run is called "{short(name)}". The command runs lists them.'


def run_data(run: EndedRun) -> dict[str, Any]:
    """A run for programs: its receipt, and where it belongs; times in UTC milliseconds."""
    receipt: dict[str, Any] = json.loads(to_json(run.receipt))
    return {
        **receipt,
        "session_id": run.session_id,
        "linked_run_id": run.linked_run_id,
        "ticket_id": run.ticket_id,
        "kind": run.kind,
        "started_ms": run.started_ms,
        "ended_ms": run.at_ms,
    }


def reason_data(reason: Reason) -> dict[str, Any]:
    """A decision for programs."""
    return {
        "at_ms": reason.at_ms,
        "gate": reason.gate,
        "scope": reason.scope,
        "scope_id": reason.scope_id,
        "window": reason.window,
        "measure": reason.measure,
        "used": _number(reason, reason.used),
        "limit": _number(reason, reason.amount),
        "action": reason.action,
        "detail": reason.detail,
    }


def _number(reason: Reason, value: int) -> str | int:
    return f"{usd_from_nanos(value):f}" if reason.measure == Measure.USD else value

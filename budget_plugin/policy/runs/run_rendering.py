"""A run's budget in words, for the model that spends it: what is left, and when to stop.

A rendering only: no function reads it back. A budget that a model can write is not a budget.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from ..money import format_usd
from .run_limits import METERS, Cause, Meter, Number
from .run_state import Reading


def rendered(
    rows: Iterable[Reading],
    cause: Cause | None,
    *,
    soft: bool,
    stop_when: Sequence[str],
    usual: Mapping[Meter, str],
) -> str:
    """The text; the arguments are those of `RunBudget.render`, `cause` is what is spent."""
    lines = [_line(row, usual.get(row.meter, "")) for row in rows if row.limit is not None]
    head = "Budget of this run:" if lines else "This run has no budget of its own."
    return "\n".join((head, *lines, *_stops(stop_when, bool(lines)), *_urgency(cause, soft)))


def deadline_is_near(left_s: float, step_s: float) -> str:
    """Said when the last step of a run took longer than what is left of its time."""
    return (
        f"{int(left_s):,} s are left until the deadline of this run, and its last step took "
        f"{int(step_s):,} s: after one more like it nothing starts any more. Write the final "
        "answer now: what is established, what is not, and what comes next."
    )


def _line(at: Reading, usual: str) -> str:
    noun = METERS[at.meter].noun
    most, left = _amount(at.meter, at.limit or 0), _amount(at.meter, at.left or 0)
    if at.meter is Meter.CONTEXT_PCT:
        return f"- {noun}: {_amount(at.meter, at.used)} of the window filled, {most} at most"
    hint = f" ({most} at most, usually {usual})" if usual else ""
    stop = ", since the run stops before the end" if at.ends_at != at.limit else ""
    return f"- {noun}: {left} of {most} left{stop}{hint}"


_WRITTEN: Final[Mapping[Meter, Callable[[Number], str]]] = {
    Meter.USD: lambda nanos: format_usd(int(nanos)),
    Meter.WALL_CLOCK_S: lambda seconds: f"{int(seconds):,} s",
    Meter.CONTEXT_PCT: lambda share: f"{int(100 * share)} %",
}


def _amount(meter: Meter, number: Number) -> str:
    return _WRITTEN.get(meter, "{:,}".format)(number)


def _stops(stop_when: Sequence[str], bounded: bool) -> list[str]:
    conditions = [*stop_when, *(["one of these budgets is spent"] if bounded else [])]
    return (
        ["Stop as soon as:", *(f"- {condition}" for condition in conditions)] if conditions else []
    )


def _urgency(cause: Cause | None, soft: bool) -> list[str]:
    if cause is not None:
        return [
            f"The {cause} is spent. Start nothing. Write the final answer: what is established, "
            "what is not, what comes next, and that this budget ran out."
        ]
    if not soft:
        return []
    return [
        "The budget runs low. Finish rather than hand on, skip checks that are optional, and "
        "rather resolve with the gaps named than pass on a task whose end you cannot see."
    ]

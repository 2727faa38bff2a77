"""Requests for more: a run that ran out asks, a person grants or denies, a linked run goes on.

What is kept with a request is the whole account of the run, so that whoever carries on, in this
process or another, starts from the same counters and may use exactly what was granted.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from .run_limits import METERS, Cause, Meter, Number, RunLimits, RunRules
from .run_state import RunState, RunUsage, elapsed_s, marks_of
from .run_steps import extended

_VERSION: Final = 1

_METER_OF: Final[Mapping[Cause, Meter]] = MappingProxyType(
    {kind.cause: meter for meter, kind in METERS.items() if meter is not Meter.CONTEXT_PCT}
)
"""What more of can be granted. A full window is not helped by a larger share of it."""


class RequestState(StrEnum):
    """What became of a request."""

    OPEN = "open"
    GRANTED = "granted"
    DENIED = "denied"
    LAPSED = "lapsed"  # a later run of the same conversation or job asked anew


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a run that ran out asks for, money in nano-dollars."""

    cause: Cause
    meter: Meter
    amount: int


def wanted(state: RunState, cause: Cause) -> Wanted | None:
    """Half of the ceiling once more; `None` where more of it would help nobody.

    Half lets the work under way be finished, and asks again before the run has cost twice what it
    was to cost. What was never allowed (a ceiling of 0) did not run out.
    """
    meter = _METER_OF.get(cause)
    limit = state.limits.of(meter) if meter is not None else None
    if meter is None or not limit:
        return None
    return Wanted(cause, meter, max(1, int(limit) // 2))


def to_text(state: RunState, now_s: float) -> str:
    """The account of a run that ran out, as one line of JSON."""
    at_s = elapsed_s(state, now_s) if state.spent_at_s is None else state.spent_at_s
    return json.dumps(
        {
            "version": _VERSION,
            "limits": asdict(state.limits),
            "used": asdict(state.used),
            "counts": [[step, name, count] for (step, name), count in state.counts.items()],
            "elapsed_s": at_s,
        },
        separators=(",", ":"),
    )


def from_text(text: str, rules: RunRules, more: Mapping[Meter, Number], now_s: float) -> RunState:
    """The account with which a linked run starts: exactly so much more of these meters.

    Raises:
        ValueError: the text is no account.
    """
    try:
        return _read(json.loads(text), rules, more, now_s)
    except (KeyError, TypeError, AttributeError) as wrong:
        raise ValueError(f"not an account of a run: {wrong!r}") from wrong


def _read(
    raw: dict[str, Any], rules: RunRules, more: Mapping[Meter, Number], now_s: float
) -> RunState:
    limits = RunLimits(**raw["limits"])
    counts = {(Cause(step), str(name)): int(count) for step, name, count in raw["counts"]}
    at_s = float(raw["elapsed_s"])
    before = RunState(
        limits,
        rules,
        marks_of(limits, rules),
        now_s - at_s,
        RunUsage(**raw["used"]),
        MappingProxyType(counts),
        spent_at_s=at_s,
    )
    return extended(before, more, now_s)

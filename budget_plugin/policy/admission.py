"""Admission: may one more call go to the model, and how long may its answer be.

A call is admitted when spent + reserved + its expected cost fits under every limit that covers the
run. Room is kept for the last answer of every open run on the same limit: a call that would eat
into it becomes the run's own last answer instead. Nothing is ever admitted that does not fit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from .limits import Limit, Measure, OnEstimated, Thresholds
from .verdicts import Level, Spend, Verdict, used
from .windows import Period

SHORTEST_ANSWER_TOKENS: Final = 1024
"""An answer cut below this (or below what is expected, if that is less) is not worth its prompt."""

PICOS_PER_NANO: Final = 1000

_LONGEST_ANSWER_TOKENS: Final = 65_536
"""A request that names no longest answer is taken to allow this much; hosts send it by default."""


@dataclass(frozen=True, slots=True)
class Held:
    """What is set aside under a limit, in all three measures."""

    nanos: int = 0
    tokens: int = 0
    calls: int = 0

    def __add__(self, other: "Held") -> "Held":
        return Held(self.nanos + other.nanos, self.tokens + other.tokens, self.calls + other.calls)

    def __sub__(self, other: "Held") -> "Held":
        return Held(self.nanos - other.nanos, self.tokens - other.tokens, self.calls - other.calls)

    def times(self, count: int) -> "Held":
        """The same, so many times."""
        return Held(self.nanos * count, self.tokens * count, self.calls * count)

    def of(self, measure: Measure) -> int:
        """The part that a measure counts."""
        if measure is Measure.USD:
            return self.nanos
        return self.tokens if measure is Measure.TOKENS else self.calls


NOTHING_HELD: Final = Held()


@dataclass(frozen=True, slots=True)
class Expected:
    """What a call is expected to use.

    Attributes:
        prompt_tokens: size of the request.
        input_nanos: cost of the request.
        output_tokens: length of the answer.
        output_picos: price of one token of the answer, pico-dollars; 0 for a call that is free.
        max_tokens: the longest answer the request allows, `None` when it does not say.
    """

    prompt_tokens: int = 0
    input_nanos: int = 0
    output_tokens: int = 0
    output_picos: int = 0
    max_tokens: int | None = None

    @property
    def held(self) -> Held:
        """What to set aside for it."""
        output_nanos = -(-self.output_tokens * self.output_picos // PICOS_PER_NANO)
        return Held(self.input_nanos + output_nanos, self.prompt_tokens + self.output_tokens, 1)

    def output_that_fits(self, room: int, measure: Measure) -> int | None:
        """The longest answer, in tokens, that a room still holds; `None` when it has no bound."""
        if measure is Measure.CALLS:
            return None
        if measure is Measure.TOKENS:
            return room - self.prompt_tokens
        if self.output_picos == 0:
            return None
        return (room - self.input_nanos) * PICOS_PER_NANO // self.output_picos


@dataclass(frozen=True, slots=True)
class Standing:
    """How one limit stands at the moment of admission.

    Attributes:
        reserved: set aside for calls in flight.
        last_answers: what the last answers of the *other* open runs on this limit will need.
    """

    limit: Limit
    period: Period
    spend: Spend
    reserved: Held = NOTHING_HELD
    last_answers: Held = NOTHING_HELD


class Kind(StrEnum):
    """What became of a request for one more call."""

    NORMAL = "normal"
    LAST = "last"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Admission:
    """The answer: `output_cap` lowers the request's longest answer; `verdict` names what binds."""

    kind: Kind
    output_cap: int | None = None
    verdict: Verdict | None = None


def admit(
    standings: Sequence[Standing],
    expected: Expected,
    *,
    last_answers: int,
    closing: bool,
    thresholds: Thresholds,
    on_estimated: OnEstimated,
) -> Admission:
    """Decide about one call.

    Args:
        last_answers: calls to keep for this run's own end (`wrap_up_calls`).
        closing: the run has been told to finish; this is one of its last answers.
    """

    held = expected.held
    rooms = [(s, room_under(s, thresholds, on_estimated)) for s in standings]
    refusing = [pair for pair in rooms if not _fits_at_all(*pair, expected, held)]
    if refusing:
        return Admission(Kind.REFUSED, verdict=_nothing_fits(_tightest(refusing, held)))
    wanted = held if closing else held.times(1 + last_answers)
    ending = [(s, room) for s, room in rooms if _eats_into_an_end(s, room, wanted)]
    cap = _output_cap(rooms, expected)
    if closing or ending:
        verdict = _nothing_fits(_tightest(ending, held)) if ending else None
        return Admission(Kind.LAST, cap, verdict)
    return Admission(Kind.NORMAL, cap)


def room_under(standing: Standing, thresholds: Thresholds, on_estimated: OnEstimated) -> int:
    """What a limit still holds, in its own unit, after spend and reservations.

    Certain spend and reservations always count, estimated dollars only under `enforce`.
    """
    limit, spend = standing.limit, standing.spend
    spent = used(spend, limit.measure)
    if limit.measure is Measure.USD and on_estimated is OnEstimated.WARN_ONLY:
        spent = spend.certain_nanos
    ceiling = limit.amount
    if thresholds.hard != 1:
        ceiling = ceiling * round(thresholds.hard * 1_000_000) // 1_000_000
    return ceiling - spent - standing.reserved.of(limit.measure)


_Rooms = Sequence[tuple[Standing, int]]


def _output_cap(rooms: _Rooms, expected: Expected) -> int | None:
    """The longest answer that all limits hold, or `None` when the request allows no more anyway."""
    caps = [expected.output_that_fits(room, s.limit.measure) for s, room in rooms]
    bounds = [cap for cap in caps if cap is not None]
    longest = expected.max_tokens or _LONGEST_ANSWER_TOKENS
    return min((cap for cap in bounds if cap < longest), default=None)


def _fits_at_all(standing: Standing, room: int, expected: Expected, held: Held) -> bool:
    limit = standing.limit
    if limit.amount == 0:
        return False
    if held.of(limit.measure) <= room:
        return True
    fits = expected.output_that_fits(room, limit.measure)
    return fits is not None and fits >= min(SHORTEST_ANSWER_TOKENS, expected.output_tokens)


def _eats_into_an_end(standing: Standing, room: int, wanted: Held) -> bool:
    measure = standing.limit.measure
    return room - standing.last_answers.of(measure) < wanted.of(measure)


def _tightest(rooms: _Rooms, held: Held) -> Standing:
    return min(rooms, key=lambda pair: pair[1] / (held.of(pair[0].limit.measure) or 1))[0]


def _nothing_fits(standing: Standing) -> Verdict:
    limit, spend = standing.limit, standing.spend
    reached = limit.amount == 0 or used(spend, limit.measure) >= limit.amount
    return Verdict(limit, standing.period, spend, Level.HARD, nothing_fits=not reached)

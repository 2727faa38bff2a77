"""Admission: may one more call go to the model, and how long may its answer be.

A call is admitted when spent + reserved + its expected cost fits under every limit that covers the
run. Room is kept for the last answer of every open run on the same limit:

    normal    the call fits, and behind it the last answers of this run and of all others
    last      it does not; but the call alone fits into what is kept for this run, or is left over
    refused   not even that

So as long as last answers cost what they were expected to, each run that was admitted once gets its
own, and a run that comes too late is refused before it takes another one's. Nothing is ever
admitted that does not fit.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from .limits import Limit, Measure, OnEstimated, Thresholds
from .verdicts import Level, Spend, Verdict, used
from .windows import Period

SHORTEST_ANSWER_TOKENS: Final = 1024
"""An answer cut below this (or below what is expected, if that is less) is not worth its prompt."""

PICOS_PER_NANO: Final = 1000

_LONGEST_ANSWER_TOKENS: Final = 65_536
"""A request that names no longest answer is taken to allow this much; hosts send it by default."""

_KEPT_AT_MOST: Final = 2
"""The last answers of others keep at most one part in this many of a limit: runs that were left
open without a word must not close it for everybody."""


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
        growth_tokens: by how much the prompt of the run's next call will be longer than this one's.
        growth_nanos: what that growth will cost.
    """

    prompt_tokens: int = 0
    input_nanos: int = 0
    output_tokens: int = 0
    output_picos: int = 0
    max_tokens: int | None = None
    growth_tokens: int = 0
    growth_nanos: int = 0

    @property
    def held(self) -> Held:
        """What to set aside for it."""
        return self.with_output(self.output_tokens)

    @property
    def next_held(self) -> Held:
        """What the run's next call should need: the same, grown as this one has grown."""
        held = self.held
        return Held(held.nanos + self.growth_nanos, held.tokens + self.growth_tokens, 1)

    def with_output(self, tokens: int) -> Held:
        """What the call uses with an answer of this length."""
        output_nanos = -(-tokens * self.output_picos // PICOS_PER_NANO)
        return Held(self.input_nanos + output_nanos, self.prompt_tokens + tokens, 1)

    def output_that_fits(self, room: int, measure: Measure) -> int | None:
        """The longest answer, in tokens, that a room still holds; `None` when it has no bound."""
        if measure is Measure.CALLS:
            return None
        if measure is Measure.TOKENS:
            return room - self.prompt_tokens
        if self.output_picos == 0:
            return None
        return (room - self.input_nanos) * PICOS_PER_NANO // self.output_picos


class Standing(NamedTuple):
    """How one limit stands at the moment of admission.

    Attributes:
        reserved: set aside for calls in flight.
        last_answers: what the last answers of the *other* open runs on this limit will need.
        kept: what is kept for this run's own; nothing before its first call.
    """

    limit: Limit
    period: Period
    spend: Spend
    reserved: Held = NOTHING_HELD
    last_answers: Held = NOTHING_HELD
    kept: Held = NOTHING_HELD

    def for_others(self) -> int:
        """What this run must leave for the ends of others, in the limit's own unit."""
        measure = self.limit.measure
        return min(self.last_answers.of(measure), self.limit.amount // _KEPT_AT_MOST)


class Kind(StrEnum):
    """What became of a request for one more call."""

    NORMAL = "normal"
    LAST = "last"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Admission:
    """The answer to a request for one more call.

    Attributes:
        output_cap: the longest answer to ask for; `None` leaves the request as it is.
        verdict: names what binds; `None` for a normal call.
        held: what to set aside for the call.
        keeps: what to keep for the run's last answers after it.
    """

    kind: Kind
    output_cap: int | None = None
    verdict: Verdict | None = None
    held: Held = NOTHING_HELD
    keeps: Held = NOTHING_HELD


class _Room(NamedTuple):
    """What one limit holds for a call, in its own unit.

    Attributes:
        all: after spend and reservations.
        beside_others: beside the last answers of other runs.
        own: what this run may end with: all, where it has its place already.
    """

    standing: Standing
    measure: Measure
    all: int
    beside_others: int
    own: int


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
        last_answers: calls to keep for this run's own end (`wrap_up_calls`, less those used).
        closing: the run has been told to finish; this is one of its last answers.
    """
    rooms = [_room(standing, thresholds, on_estimated) for standing in standings]
    held, ends = expected.held, expected.next_held.times(last_answers)
    if not closing and _are_wide(rooms, expected, ends):
        return Admission(Kind.NORMAL, held=held, keeps=ends)
    full = [room for room in rooms if not _fits(room, expected, held)]
    if full:
        return Admission(
            Kind.REFUSED, verdict=_nothing_fits(_tightest(full, held), held, thresholds)
        )
    ending = [room for room in rooms if room.beside_others < (held + ends).of(room.measure)]
    if not closing and not ending:
        cap = _normal_cap(rooms, expected, ends)
        return Admission(Kind.NORMAL, cap, held=held, keeps=ends)
    cap = _output_cap(expected, [(room.own, room.measure) for room in rooms])
    if cap is not None:
        held = expected.with_output(min(expected.output_tokens, cap))
    # A run that comes so late that its first call is its last has no place to keep.
    placed = all(room.standing.kept.of(room.measure) for room in rooms)
    keeps = expected.next_held.times(max(0, last_answers - 1)) if placed else NOTHING_HELD
    verdict = _nothing_fits(_tightest(ending, held), held, thresholds) if ending else None
    return Admission(Kind.LAST, cap, verdict, held, keeps)


def _room(standing: Standing, thresholds: Thresholds, on_estimated: OnEstimated) -> _Room:
    measure = standing.limit.measure
    if standing.limit.amount == 0:  # holds not even what costs nothing
        return _Room(standing, measure, -1, -1, -1)
    room = room_under(standing, thresholds, on_estimated)
    beside_others = room - standing.for_others()
    own = room if standing.kept.of(measure) else beside_others
    return _Room(standing, measure, room, beside_others, own)


def _are_wide(rooms: Sequence[_Room], expected: Expected, ends: Held) -> bool:
    """The usual case, told without much ado: even the longest answer leaves room for all ends."""
    longest = expected.with_output(expected.max_tokens or _LONGEST_ANSWER_TOKENS) + ends
    return all(room.beside_others >= longest.of(room.measure) for room in rooms)


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


def _normal_cap(rooms: Sequence[_Room], expected: Expected, ends: Held) -> int | None:
    """An answer longer than expected must not eat the last answers, but a short one stays whole."""
    spare = [(room.beside_others - ends.of(room.measure), room.measure) for room in rooms]
    cap = _output_cap(expected, spare)
    if cap is None or cap >= SHORTEST_ANSWER_TOKENS:
        return cap
    at_all = _output_cap(expected, [(room.own, room.measure) for room in rooms])
    return SHORTEST_ANSWER_TOKENS if at_all is None else min(at_all, SHORTEST_ANSWER_TOKENS)


def _output_cap(expected: Expected, rooms: Iterable[tuple[int, Measure]]) -> int | None:
    """The longest answer that all rooms hold, or `None` when the request allows no more anyway."""
    caps = (expected.output_that_fits(room, measure) for room, measure in rooms)
    longest = expected.max_tokens or _LONGEST_ANSWER_TOKENS
    return min((cap for cap in caps if cap is not None and cap < longest), default=None)


def _fits(room: _Room, expected: Expected, held: Held) -> bool:
    if held.of(room.measure) <= room.own:
        return True
    fits = expected.output_that_fits(room.own, room.measure)
    return fits is not None and fits >= min(SHORTEST_ANSWER_TOKENS, expected.output_tokens)


def _tightest(rooms: Sequence[_Room], held: Held) -> Standing:
    return min(rooms, key=lambda room: room.all / (held.of(room.measure) or 1)).standing


def _nothing_fits(standing: Standing, held: Held, thresholds: Thresholds) -> Verdict:
    limit, spend = standing.limit, standing.spend
    reached = limit.amount == 0 or used(spend, limit.measure) >= limit.amount
    return Verdict(
        limit,
        standing.period,
        spend,
        Level.HARD,
        nothing_fits=not reached,
        next_needs=held.of(limit.measure),
        hard_share=thresholds.hard,
    )

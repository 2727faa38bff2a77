"""The life of a run: how it gets from its first call to exactly one ending.

    running ─→ converging ─→ exhausted ─→ ended
        └────────┴─→ waiting (a delegation is open) ─→ running again, or ended

A life is a value; `step` takes an event and gives the next one. An ending is absorbing: whatever
comes after it changes nothing, and the step says so.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from .endings import Ending, Outcome, TerminalState, ending_of
from .run_limits import Cause, OnExhausted

UNDO_CALLS: Final = 5
"""Tool calls with which an aborted run may undo its effects: enough for a short list."""


class Phase(StrEnum):
    """Where a run is."""

    RUNNING = "running"
    CONVERGING = "converging"
    EXHAUSTED = "exhausted"
    WAITING = "waiting"
    ENDED = "ended"


class Work(StrEnum):
    """What a run may ask to do."""

    CALL = "call"  # to the model
    TOOL_CALL = "tool call"
    LAST_ANSWER = "last answer"  # a call to the model by which an exhausted run finishes
    UNDO = "undo"  # a tool call by which an aborted run takes back an effect


@dataclass(frozen=True, slots=True)
class Asked:
    """The run wants to do one thing."""

    work: Work


@dataclass(frozen=True, slots=True)
class Delegated:
    """The run starts children."""

    count: int = 1


@dataclass(frozen=True, slots=True)
class Returned:
    """Children of the run are done, or lost."""

    count: int = 1


@dataclass(frozen=True, slots=True)
class Converged:
    """Some meter passed its soft share."""


@dataclass(frozen=True, slots=True)
class Exhausted:
    """A budget of the run is spent."""

    cause: Cause


@dataclass(frozen=True, slots=True)
class Resumed:
    """The host goes on with a waiting run by itself, because a delegation came back."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A turn of the run is over."""

    outcome: Outcome
    declared: TerminalState | None = None
    gaps: bool = False


@dataclass(frozen=True, slots=True)
class Released:
    """Nobody goes on with a waiting run: it ends with what its last turn came to."""


Event = Asked | Delegated | Returned | Converged | Exhausted | Resumed | Finished | Released


@dataclass(frozen=True, slots=True)
class Life:
    """Where a run is, as a value.

    Attributes:
        exhausted: the budget that was spent first.
        open_delegations: children that have not come back.
        held: what the last turn came to, while the run waits for children.
        last_answers_left: calls with which it may finish once it is exhausted.
        undos_left: tool calls with which it may undo its effects then.
    """

    converging: bool = False
    exhausted: Cause | None = None
    open_delegations: int = 0
    held: Finished | None = None
    last_answers_left: int = 1
    undos_left: int = 0
    ending: Ending | None = None

    @property
    def phase(self) -> Phase:
        """Where it is, the latest that applies."""
        if self.ending is not None:
            return Phase.ENDED
        if self.held is not None:
            return Phase.WAITING
        if self.exhausted is not None:
            return Phase.EXHAUSTED
        return Phase.CONVERGING if self.converging else Phase.RUNNING

    @property
    def lets_children_go_on(self) -> bool:
        """Whether children that it started may go on, under its budgets."""
        if self.ending is not None:
            return not self.ending.is_breach
        return self.exhausted is None


@dataclass(frozen=True, slots=True)
class Step:
    """What an event led to.

    Attributes:
        accepted: whether it was let through; otherwise `life` is what it was.
        why: in words, when it was not.
    """

    life: Life
    accepted: bool = True
    why: str = ""


def begin(on_exhausted: OnExhausted, last_answers: int = 1) -> Life:
    """A run that starts."""
    undos = UNDO_CALLS if on_exhausted is OnExhausted.ABORT else 0
    return Life(last_answers_left=last_answers, undos_left=undos)


def step(life: Life, event: Event) -> Step:
    """The next life. After the ending every event is told that it comes too late."""
    if life.ending is not None:
        return Step(life, False, f"the run has ended: {life.ending.state}")
    match event:
        case Asked() | Delegated():
            return _wants(life, event)
        case Returned(count):
            left = max(0, life.open_delegations - max(0, count))
            return Step(replace(life, open_delegations=left))
        case Finished():
            return Step(_finished(life, event))
        case Resumed() | Released():
            return _waited(life, event)
        case Converged() | Exhausted():
            return Step(_lower(life, event))


def _wants(life: Life, event: Asked | Delegated) -> Step:
    if life.held is not None:
        return Step(life, False, "the run waits for a delegation; no turn of it is under way")
    if isinstance(event, Delegated):
        return _delegated(life, event.count)
    return _asked(life, event.work)


def _asked(life: Life, work: Work) -> Step:
    if work in (Work.CALL, Work.TOOL_CALL):
        return Step(life) if life.exhausted is None else _no(life)
    if life.exhausted is None:
        return Step(life, False, f"the run is not exhausted: no {work} is due")
    if work is Work.UNDO:
        left = life.undos_left
        return Step(replace(life, undos_left=left - 1)) if left > 0 else _no(life)
    left = life.last_answers_left
    return Step(replace(life, last_answers_left=left - 1)) if left > 0 else _no(life)


def _delegated(life: Life, count: int) -> Step:
    if count <= 0:
        return Step(life)
    if life.exhausted is not None:
        return _no(life)
    return Step(replace(life, open_delegations=life.open_delegations + count))


def _no(life: Life) -> Step:
    return Step(life, False, f"{life.exhausted}: finish with what is there")


def _lower(life: Life, event: Converged | Exhausted) -> Life:
    if isinstance(event, Converged):
        return replace(life, converging=True)
    return replace(life, converging=True, exhausted=life.exhausted or event.cause)


def _finished(life: Life, turn: Finished) -> Life:
    stopped = life.exhausted is not None or turn.outcome in _ENDS_AT_ONCE
    if life.open_delegations and not stopped:
        return replace(life, held=turn)
    return _ended(life, turn)


_ENDS_AT_ONCE: Final = frozenset({Outcome.LOOPED, Outcome.STUCK, Outcome.CRASHED, Outcome.REFUSED})
"""Nothing comes back to these: the run was stopped, or the process that waited is gone."""


def _waited(life: Life, event: Resumed | Released) -> Step:
    if life.held is None:
        return Step(life, False, "the run is not waiting")
    if isinstance(event, Resumed):
        return Step(replace(life, held=None))
    return Step(_ended(life, life.held))


def _ended(life: Life, turn: Finished) -> Life:
    ending = ending_of(turn.outcome, life.exhausted, turn.declared, gaps=turn.gaps)
    return replace(life, held=None, ending=ending)

"""Endings: what happened → one of four terminal states, its cause, complete or partial.

"It just stopped" is no ending: a run that can reach no other one escalates. What a budget ended is
never complete.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from .run_limits import Cause


class TerminalState(StrEnum):
    """The four ways in which a run can end."""

    RESOLVED = "RESOLVED"  # the need was met
    ESCALATED_TO_HUMAN = "ESCALATED_TO_HUMAN"  # a trigger fired; a person takes over
    FOLLOW_UP_TICKET = "FOLLOW_UP_TICKET"  # work goes on elsewhere, and it was said where
    NO_ANSWER_SAFE_FALLBACK = "NO_ANSWER_SAFE_FALLBACK"  # nothing to stand on; said honestly


class Status(StrEnum):
    """Whether all that was asked for is there; a field, and not a tone of voice."""

    COMPLETE = "complete"
    PARTIAL = "partial"


class Outcome(StrEnum):
    """What a turn or a run came to, as far as one can see."""

    ANSWERED = "answered"
    LOOPED = "looped"
    STUCK = "stuck"  # two checkpoints in a row established nothing
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    CRASHED = "crashed"  # found open when the next process started
    REFUSED = "refused"  # its first call to the model was refused
    STOPPED = "stopped"  # no answer, no error: it just stopped


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended.

    Attributes:
        cause: an `Outcome` or a `Cause`, in its words.
        trigger: what a person should know about an escalation beside the cause, or "".

    Raises:
        ValueError: for an ending that is complete without an answer that resolves.
    """

    state: TerminalState
    cause: str
    status: Status
    trigger: str = ""

    def __post_init__(self) -> None:
        whole = self.state is TerminalState.RESOLVED and self.cause == Outcome.ANSWERED
        if self.status is Status.COMPLETE and not whole:
            raise ValueError(f"a run that ended by {self.cause} in {self.state} is never complete")

    @property
    def is_breach(self) -> bool:
        """Whether the run was stopped; children that it started are then refused as well."""
        return self.cause in _BREACHES

    @property
    def is_exhausted(self) -> bool:
        """Whether a budget of the run ended it."""
        return self.cause in _SPENT


_SPENT: Final = frozenset(str(cause) for cause in Cause if cause.ends_run and not cause.is_circle)
_BREACHES: Final = _SPENT | {str(Outcome.LOOPED), str(Outcome.STUCK)}

_BY_OUTCOME: Final[Mapping[Outcome, TerminalState]] = MappingProxyType(
    {
        Outcome.LOOPED: TerminalState.ESCALATED_TO_HUMAN,
        Outcome.STUCK: TerminalState.ESCALATED_TO_HUMAN,
        Outcome.INTERRUPTED: TerminalState.FOLLOW_UP_TICKET,
        Outcome.FAILED: TerminalState.ESCALATED_TO_HUMAN,
        Outcome.CRASHED: TerminalState.ESCALATED_TO_HUMAN,
        Outcome.REFUSED: TerminalState.NO_ANSWER_SAFE_FALLBACK,
        Outcome.STOPPED: TerminalState.ESCALATED_TO_HUMAN,
    }
)
"""Who interrupts a run is there and goes on in the next one, linked to it: a follow-up."""

_ALWAYS_ESCALATE: Final = frozenset(
    {Cause.HOPS, Cause.RETRIAGES, Cause.REJUDGES, Cause.LOOPED, Cause.STUCK}
)
_TRIGGERS: Final[Mapping[Cause, str]] = MappingProxyType({Cause.REJUDGES: "low confidence"})
_HONEST: Final = frozenset({TerminalState.FOLLOW_UP_TICKET, TerminalState.NO_ANSWER_SAFE_FALLBACK})


def ending_of(
    outcome: Outcome,
    exhausted: Cause | None = None,
    declared: TerminalState | None = None,
    *,
    gaps: bool = False,
) -> Ending:
    """The one ending that fits.

    Args:
        exhausted: the budget that was spent before; the run is partial then, whatever it says.
        declared: the state that the run named itself. It holds for an answer; an exhausted run may
            name where work goes on or that there is no answer, never that all is done.
        gaps: something is missing by the run's own account.
    """
    if outcome is Outcome.CRASHED:
        return Ending(_BY_OUTCOME[outcome], outcome, Status.PARTIAL)
    if exhausted is not None:
        return _exhausted(outcome, exhausted, declared)
    if outcome is not Outcome.ANSWERED:
        return Ending(_BY_OUTCOME[outcome], outcome, Status.PARTIAL)
    state = declared or TerminalState.RESOLVED
    whole = state is TerminalState.RESOLVED and not gaps
    return Ending(state, outcome, Status.COMPLETE if whole else Status.PARTIAL)


def _exhausted(outcome: Outcome, cause: Cause, declared: TerminalState | None) -> Ending:
    state = TerminalState.ESCALATED_TO_HUMAN
    if outcome is Outcome.REFUSED:
        state = TerminalState.NO_ANSWER_SAFE_FALLBACK
    elif declared in _HONEST and cause not in _ALWAYS_ESCALATE:
        state = declared
    return Ending(state, cause, Status.PARTIAL, _TRIGGERS.get(cause, ""))


class Consequence(StrEnum):
    """What a spent ceiling leads to."""

    ESCALATES = "the run ends, escalated"
    ENDS = "the run gives its last answer and ends"
    DRAFT_GOES_ON = "the draft goes on as it is; the run does not end"
    SPLIT = "refused whole, to be split into phases; the run does not end"
    REFUSED = "refused; the run does not end"


def consequence(cause: Cause) -> Consequence:
    """What a spent ceiling leads to."""
    if cause in _ALWAYS_ESCALATE:
        return Consequence.ESCALATES
    return _MILD.get(cause, Consequence.ENDS)


_MILD: Final = {
    Cause.CRITIQUES: Consequence.DRAFT_GOES_ON,
    Cause.BATCH: Consequence.SPLIT,
    Cause.RETRIES: Consequence.REFUSED,
    Cause.ENDED: Consequence.REFUSED,
}


def endings_table() -> str:
    """Every way to end, its state, cause and status, as a Markdown table."""
    return _table(
        ("what happened", "state", "cause", "status"),
        ((event, e.state, _said(e), e.status) for event, e in _all_endings()),
    )


def consequences_table() -> str:
    """Every ceiling and what it leads to, as a Markdown table."""
    return _table(
        ("spent", "leads to"),
        ((cause, consequence(cause)) for cause in Cause if cause not in _NO_CEILING),
    )


_NO_CEILING: Final = frozenset({Cause.ENDED, Cause.LOOPED, Cause.STUCK})


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = (head, ("---",) * len(head), *rows)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _said(ending: Ending) -> str:
    return f"{ending.cause} ({ending.trigger})" if ending.trigger else ending.cause


def _all_endings() -> Iterable[tuple[str, Ending]]:
    answered = Outcome.ANSWERED
    yield "answered", ending_of(answered)
    yield "answered, with gaps named", ending_of(answered, gaps=True)
    for state in TerminalState:
        if state is not TerminalState.RESOLVED:
            yield f"answered, and named {state}", ending_of(answered, declared=state)
    for cause in Cause:
        if cause.ends_run and not cause.is_circle:
            yield f"exhausted: {cause}", ending_of(answered, cause)
    for state in sorted(_HONEST):
        event = f"exhausted by tokens, money, time, tools or context, and named {state}"
        yield event, replace(ending_of(answered, Cause.TOKENS, state), cause="the budget")
    yield (
        "refused at its first call by a budget",
        replace(ending_of(Outcome.REFUSED, Cause.SPEND), cause="the budget"),
    )
    for outcome in _BY_OUTCOME:
        yield outcome, ending_of(outcome)
    yield "exhausted, then crashed", ending_of(Outcome.CRASHED, Cause.SPEND)

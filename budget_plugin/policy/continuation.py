"""Continuation: whether a run that has stopped working is sent on, and how that ends.

Five conditions are looked at in strict order, and the first that holds decides:

    1. the run is a named subagent               end: its parent decides
    2. there is no budget, or a budget of zero   end: nothing says how far to go
    3. at least 3 continuations, and fewer than
       500 new tokens since the last one         end: diminishing returns
    4. 90 % of the budget is used                end: the last tenth produces noise
    5. else                                      go on, with the nudge

The state is four numbers, zero at the start and never reset while the loop lasts.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

FEW_NEW_TOKENS: Final = 500
ENOUGH_CONTINUATIONS: Final = 3
BUDGET_USED_PCT: Final = 90

NUDGE: Final = (
    "There is budget left and the task is not finished. Keep working: take the next step now. "
    "Do not summarise, restate or announce what was done."
)
"""One constant text. It names no number, so that a model has nothing to aim at."""


class Condition(StrEnum):
    """Which of the five decided."""

    NAMED_SUBAGENT = "named_subagent"
    NO_BUDGET = "no_budget"
    DIMINISHING_RETURNS = "diminishing_returns"
    BUDGET_USED = "budget_used"
    GOES_ON = "goes_on"


@dataclass(frozen=True, slots=True)
class Continuation:
    """The state of the loop.

    Attributes:
        continuation_count: how often the run was sent on.
        last_delta_tokens: new tokens between the last two looks.
        last_global_turn_tokens: tokens of the turn at the last look.
        started_at: time of the first look, seconds; 0 before it.
    """

    continuation_count: int = 0
    last_delta_tokens: int = 0
    last_global_turn_tokens: int = 0
    started_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Termination:
    """The receipt of an ended loop: the condition that ended it, and how far it had come."""

    condition: Condition
    continuation_count: int
    last_delta_tokens: int
    turn_tokens: int
    budget_tokens: int | None
    used_pct: int | None
    started_at: float
    ended_at: float


@dataclass(frozen=True, slots=True)
class Decision:
    """What follows from one look: the nudge to go on with, or the receipt of the end."""

    condition: Condition
    state: Continuation
    nudge: str = ""
    termination: Termination | None = None

    @property
    def goes_on(self) -> bool:
        """Whether the run is sent on."""
        return self.condition is Condition.GOES_ON


def decide(
    state: Continuation,
    *,
    subagent: str | None,
    budget_tokens: int | None,
    turn_tokens: int,
    now_s: float,
    new_tokens: int | None = None,
) -> Decision:
    """Look once, when the run would stop.

    Args:
        subagent: the name of the subagent that runs, `None` or "" for the main one.
        budget_tokens: tokens that the turn may use; `None` and 0 are no budget.
        turn_tokens: tokens that the turn has used so far, those of its children included.
        now_s: seconds of the clock that `started_at` is in.
        new_tokens: what was written since the last look. Without it, the difference of
            `turn_tokens`: right where those are written ones, too many where each call counts its
            whole prompt again.
    """
    if new_tokens is None:
        new_tokens = turn_tokens - state.last_global_turn_tokens
    delta = max(0, new_tokens)
    condition = _condition(state, subagent, budget_tokens, turn_tokens, delta)
    goes_on = condition is Condition.GOES_ON
    after = Continuation(
        state.continuation_count + goes_on,
        delta,
        max(turn_tokens, state.last_global_turn_tokens),
        state.started_at or now_s,
    )
    if goes_on:
        return Decision(condition, after, NUDGE)
    ended = _termination(condition, after, budget_tokens, turn_tokens, now_s)
    return Decision(condition, after, termination=ended)


def _condition(
    state: Continuation, subagent: str | None, budget: int | None, tokens: int, delta: int
) -> Condition:
    if subagent:
        return Condition.NAMED_SUBAGENT
    if budget is None or budget <= 0:
        return Condition.NO_BUDGET
    if state.continuation_count >= ENOUGH_CONTINUATIONS and delta < FEW_NEW_TOKENS:
        return Condition.DIMINISHING_RETURNS
    if tokens * 100 >= budget * BUDGET_USED_PCT:
        return Condition.BUDGET_USED
    return Condition.GOES_ON


def _termination(
    condition: Condition, state: Continuation, budget: int | None, tokens: int, now_s: float
) -> Termination:
    return Termination(
        condition,
        state.continuation_count,
        state.last_delta_tokens,
        tokens,
        budget,
        tokens * 100 // budget if budget and budget > 0 else None,
        state.started_at,
        now_s,
    )

"""Refusals: why something of a run does not start, and what would.

The words are part of it, since an agent that is told only "no" tries again.
"""

from dataclasses import dataclass
from typing import Final

from ..money import format_usd
from .run_limits import METERS, Cause, Meter, Number
from .run_state import RunState


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why something does not start, whole.

    Attributes:
        cause: what is spent or too large.
        asked: how many were asked for.
        fits: how many would be granted now.
        limit: the ceiling, in its unit.
        phases: sizes into which a batch that is only too large can be split.
        needs: what one more call is expected to use, where that no longer fits.
    """

    cause: Cause
    asked: int = 1
    fits: int = 0
    limit: Number | None = None
    phases: tuple[int, ...] = ()
    needs: int = 0

    @property
    def fact(self) -> str:
        """What is spent, for a person: what to do about it is for the model."""
        if self.needs:
            money = self.cause is Cause.SPEND
            needs = format_usd(self.needs) if money else f"{self.needs:,} tokens"
            return f"The next call needs about {needs}, which the {self.cause} no longer holds."
        of = "" if self.limit is None else f" of {self.limit}"
        return f"The {self.cause}{of} is reached."

    def __str__(self) -> str:
        return _batch_words(self) or _plain_words(self)


def _batch_words(refused: Refusal) -> str:
    asked, fits = refused.asked, refused.fits
    if refused.phases:
        return (
            f"{asked} at once are more than the batch size of {refused.limit}; nothing was "
            f"started. Split them into {len(refused.phases)} phases of at most "
            f"{refused.phases[0]}, and report the split."
        )
    if fits:
        return f"{refused.cause}: {asked} do not fit, {fits} would; nothing was started."
    return ""


def _plain_words(refused: Refusal) -> str:
    if refused.limit == 0:
        return f"The {refused.cause} allows nothing here. Go on without it, or escalate."
    said = _WORDS.get(refused.cause)
    if said is not None:
        return said.format(limit=refused.limit)
    return f"{refused.fact} Escalate, do not spin."


_WORDS: Final = {
    Cause.LOOPED: (
        "The run went in circles, was told so, and went on with it. Say what was tried and what it "
        "came to; do not try it by another way."
    ),
    Cause.STUCK: (
        "Two checkpoints in a row established nothing new. Say what was tried and what it came to."
    ),
    Cause.ENDED: "This run has ended. New work is a new run.",
    Cause.CRITIQUES: "The critique retries are spent: the draft goes on as it is.",
    Cause.RETRIES: (
        "This operation was retried {limit} times. Change the approach or escalate, do not spin."
    ),
}


def refusal_of(state: RunState, asked: int = 1) -> Refusal:
    """The refusal of anything new while a budget is spent."""
    cause = state.cause or Cause.ENDED
    kind = next((kind for kind in METERS.values() if kind.cause is cause), None)
    exact = kind is not None and kind.meter in (Meter.DISPATCHES, Meter.TOOL_CALLS)
    return Refusal(cause, asked, 0, state.limits.of(kind.meter) if kind and exact else None)

"""Checkpoints: at every quarter of the budget a run says what it has, and whether the rest will do.

The mark follows the meter that is used most. A run that answers "nothing" to the first question at
two marks in a row goes in circles and is stuck. No answer is not "nothing": it proves neither.
"""

from dataclasses import dataclass, replace
from typing import Final

QUESTIONS: Final = (
    "What was established since the last checkpoint?",
    "Is what is left of the budget enough to finish?",
    "If not, what is the smallest useful result with what is left?",
)

STUCK_AFTER: Final = 2
"""So many checkpoints in a row without anything new."""

_NOTHING: Final = frozenset({"nothing", "nothing new", "nothing yet", "none", "no new facts"})


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """Which checkpoints a run has passed.

    Attributes:
        every: share of the most used meter between two; 0 for none.
        reached: number of the last mark that was asked about.
        awaits: whether its answer is still to come.
        nothing_in_a_row: marks in a row at which nothing new was established.
    """

    every: float = 0.25
    reached: int = 0
    awaits: bool = False
    nothing_in_a_row: int = 0

    @property
    def stuck(self) -> bool:
        """Whether to escalate at once instead of waiting for a ceiling."""
        return self.nothing_in_a_row >= STUCK_AFTER

    @property
    def reached_pct(self) -> int:
        """The last mark in percent."""
        return round(100 * self.every * self.reached)


def due(points: Checkpoints, share: float) -> int | None:
    """Number of the mark to ask about, or `None`. Of several passed at once it is the last.

    Args:
        share: of the most used meter, 0 to 1. The end of the budget is no checkpoint.
    """
    every, at = round(points.every * 1_000_000), round(share * 1_000_000)
    if every <= 0:
        return None
    passed = min(at, 1_000_000 - 1) // every
    return passed if passed > points.reached else None


def asked(points: Checkpoints, mark: int) -> Checkpoints:
    """The questions of a mark were put. One that still waits for its answer gets none any more."""
    row = 0 if points.awaits else points.nothing_in_a_row
    return replace(points, reached=mark, awaits=True, nothing_in_a_row=row)


def answered(points: Checkpoints, established: str | None) -> Checkpoints:
    """The answer to the first question came; `None` or an empty text is no answer.

    An answer that nobody asked for counts neither way, so that no one is stuck by talking.
    """
    text = (established or "").strip().rstrip(".!").lower()
    if not points.awaits or not text:
        return points
    row = points.nothing_in_a_row + 1 if text in _NOTHING else 0
    return replace(points, awaits=False, nothing_in_a_row=row)


def questions(points: Checkpoints) -> str:
    """What the model is asked at the last mark, one line for each answer."""
    lines = (f"{number}. {question}" for number, question in enumerate(QUESTIONS, 1))
    head = f"Checkpoint: {points.reached_pct} % of the budget is used. Answer with "
    head += "budget_checkpoint, in one line each:"
    return "\n".join((head, *lines))

"""What a run says of itself. A report, never an order: counts only grow, and no ceiling moves."""

from dataclasses import dataclass
from typing import Final

from .endings import TerminalState

MOST_CHARS: Final = 300
"""Of one answer that is kept: a line, not a draft."""


def shortened(text: str) -> str:
    """A text as it is kept: one line, not too long."""
    line = " ".join(text.split())
    return line if len(line) <= MOST_CHARS else f"{line[: MOST_CHARS - 1]}…"


@dataclass(frozen=True, slots=True)
class Progress:
    """An account at a checkpoint, or of a draft.

    Attributes:
        established: what is new; `None` or "" is no answer, and proves nothing.
        enough: whether the rest of the budget will do.
        smallest: the smallest useful result with what is left.
        head, artifact, score: a draft: whose it is, its text, how good it was judged.
        critiques, rejudges, retriages: how often so far, by the run's own count.
    """

    established: str | None = None
    enough: str = ""
    smallest: str = ""
    head: str = ""
    artifact: str = ""
    score: float | None = None
    critiques: int = 0
    rejudges: int = 0
    retriages: int = 0


@dataclass(frozen=True, slots=True)
class Declared:
    """How a run ends by its own account; what it used decides whether that holds."""

    state: TerminalState | None = None
    delivered: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    next_owner: str = ""

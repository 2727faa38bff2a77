"""Effects of a run, as far as the plugin sees them: which tools it ran, and on what.

Kept for runs that are to be aborted when they run out. Nothing of what was written, sent or said is
kept: a tool's name and a digest of its target are enough for the model, which knows its own calls.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from ..protection import reads_by_name

MOST: Final = 50
"""Effects remembered, the latest; what lies further back is counted only."""

_NO_EFFECT: Final = frozenset(
    {
        "web_extract",
        "vision_analyze",
        "clarify",
        "todo",
        "process",
        "delegate_task",  # what children do is seen by itself
        "budget_status",
        "budget_checkpoint",
        "budget_resolve",
    }
)


def changes_something(tool: str) -> bool:
    """Whether there may be something to undo; of a tool that nobody knows it is believed."""
    return tool not in _NO_EFFECT and not reads_by_name(tool)


@dataclass(frozen=True, slots=True)
class SeenEffect:
    """One call that may have changed something.

    Attributes:
        number: among the effects of the run, from 1.
        target: digest of what it was about, or of all its arguments.
        failed: it said so; something may have happened all the same.
    """

    number: int
    tool: str
    target: str
    failed: bool


@dataclass(slots=True)
class Effects:
    """The effects of one run tree, and what is left for undoing them.

    Attributes:
        calls_left: tool calls for it; spent one by one once the run has been told.
        rounds_left: calls to the model for it.
        told: the run has been shown its effects and undoes them now.
    """

    calls_left: int
    latest: deque[SeenEffect] = field(default_factory=lambda: deque(maxlen=MOST))
    count: int = 0
    told: bool = False
    rounds_left: int = field(init=False)

    def __post_init__(self) -> None:
        self.rounds_left = self.calls_left

    def note(self, tool: str, target: str, *, failed: bool) -> None:
        """One more."""
        self.count += 1
        self.latest.append(SeenEffect(self.count, tool, target, failed))

    def newest_first(self) -> tuple[SeenEffect, ...]:
        """In the order in which they are to be undone."""
        return tuple(reversed(self.latest))

    def take_call(self) -> bool:
        """One call to undo something, if there is one left and the run was told what to undo."""
        if not self.told or self.calls_left <= 0:
            return False
        self.calls_left -= 1
        return True

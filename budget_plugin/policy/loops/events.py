"""What the detectors look at, as frozen values. Digests only: nothing can be read back."""

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """How a tool call ended. Calls that were blocked or cancelled did not run and prove nothing."""

    OK = "ok"
    ERROR = "error"
    BLOCKED = "blocked"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class ToolEvent:
    """One tool call that has ended.

    Attributes:
        seq: its number, ascending.
        target: digest of what it is about, or "".
        error_digest: digest of the normalised error, "" for a success or an error without a text.
        at_s: when it ended, seconds of one steady clock.
        step: the model's answer that asked for it. Calls of one answer are judged as one, since the
            model has not seen the result of one when it asked for the next; "" stands alone.
        action: the plain word in the argument `action`, for tools that do several things.
        waits: the call itself waits (`sleep 30 && …`).
    """

    seq: int
    tool: str
    args_digest: str
    target: str
    result_digest: str
    status: Status
    error_digest: str = ""
    at_s: float = 0.0
    step: str = ""
    action: str = ""
    waits: bool = False


@dataclass(frozen=True, slots=True)
class Hop:
    """Work passes from one agent to another: a delegation, a transfer, or the way back.

    Attributes:
        source, target: names of agents or roles, not of runs.
        before, after: digests of what is known before and after it; "" when nobody can say.
        role, goal: of the one who takes over; `goal` is a digest, "" for a plain transfer.
        lineage: `(role, goal)` of those above the new one, nearest first.
    """

    seq: int
    source: str
    target: str
    before: str = ""
    after: str = ""
    role: str = ""
    goal: str = ""
    lineage: tuple[tuple[str, str], ...] = ()

    @property
    def is_blind(self) -> bool:
        """Whether nobody can say if anything was established."""
        return not (self.before and self.after)

    @property
    def is_idle(self) -> bool:
        """Whether it established nothing."""
        return not self.is_blind and self.before == self.after


class Answer(StrEnum):
    """What was said at a checkpoint about new facts. No answer is not "nothing"."""

    SOMETHING = "something"
    NOTHING = "nothing"
    UNANSWERED = "unanswered"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One account of progress; `fact` is the digest of what was said to be new."""

    seq: int
    answer: Answer
    fact: str = ""


@dataclass(frozen=True, slots=True)
class Head:
    """A draft and its score, as the agent that made it reports them; the score may be unknown."""

    seq: int
    head: str
    artifact: str
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Resumed:
    """The run goes on after a pause."""

    seq: int
    at_s: float


@dataclass(frozen=True, slots=True)
class PersonSpoke:
    """A person said something new: what was asked for again may be asked for again."""

    seq: int


Event = ToolEvent | Hop | Checkpoint | Head | Resumed | PersonSpoke

"""Detectors over accounts of progress: checkpoints without a new fact, heads that do not move."""

from typing import Final, NamedTuple

from .events import Answer, Checkpoint, Head
from .settings import Detector, Finding, LoopPolicy, found

ENOUGH_CALLS: Final = 10
"""So many calls without one new outcome speak for themselves when a checkpoint is not answered."""

_HEADS_KEPT: Final = 64


class NoNewFacts:
    """Two checkpoints in a row at which nothing was established.

    The same fact told again is nothing new. No answer is not "nothing"; only if the run has made
    `ENOUGH_CALLS` since the last checkpoint and none had a new outcome is it taken for that.

    Limits: it believes what is said. An invented fact hides a loop from it, not from the others.
    """

    __slots__ = ("_calls", "_fact", "_news", "_policy", "_row")

    def __init__(self, policy: LoopPolicy) -> None:
        self._policy = policy
        self._row = 0
        self._fact = ""
        self._news = 0
        self._calls = 0

    def see(self, checkpoint: Checkpoint, news: int, calls: int) -> Finding | None:
        """Judge one account; `news` and `calls` count new outcomes and calls of the run so far."""
        answer = self._answer(checkpoint, news, calls)
        self._news, self._calls = news, calls
        if answer is Answer.UNANSWERED:
            return None
        self._fact = checkpoint.fact or self._fact
        self._row = self._row + 1 if answer is Answer.NOTHING else 0
        level = self._policy.of(Detector.NO_NEW_FACTS).level(self._row)
        return found(self._policy, Detector.NO_NEW_FACTS, level, self._row, checkpoint.seq, ())

    def _answer(self, checkpoint: Checkpoint, news: int, calls: int) -> Answer:
        if checkpoint.answer is Answer.SOMETHING and checkpoint.fact:
            return Answer.NOTHING if checkpoint.fact == self._fact else Answer.SOMETHING
        silent = checkpoint.answer is Answer.UNANSWERED
        if silent and news == self._news and calls - self._calls >= ENOUGH_CALLS:
            return Answer.NOTHING
        return checkpoint.answer


class _Draft(NamedTuple):
    artifact: str
    best: float | None
    times: int


class StuckHead:
    """The same head hands in the same artifact again, and its score is no better.

    Called at the second: a head has one retry, and that one has changed nothing.

    Limits: an artifact that changes without getting better is not stuck, it may be close.
    """

    __slots__ = ("_last", "_policy")

    def __init__(self, policy: LoopPolicy) -> None:
        self._policy = policy
        self._last: dict[str, _Draft] = {}

    def see(self, head: Head) -> Finding | None:
        """Judge one draft; without an artifact nothing is said."""
        if not head.artifact:
            return None
        draft = _next_draft(self._last.pop(head.head, None), head)
        self._last[head.head] = draft
        if len(self._last) > _HEADS_KEPT:
            del self._last[next(iter(self._last))]
        level = self._policy.of(Detector.STUCK_HEAD).level(draft.times)
        return found(self._policy, Detector.STUCK_HEAD, level, draft.times, head.seq, (head.head,))


def _next_draft(last: _Draft | None, head: Head) -> _Draft:
    if last is None or last.artifact != head.artifact:
        return _Draft(head.artifact, head.score, 1)
    if head.score is not None and last.best is not None and head.score > last.best:
        return _Draft(head.artifact, head.score, 1)
    known = [score for score in (last.best, head.score) if score is not None]
    return _Draft(head.artifact, max(known, default=None), last.times + 1)

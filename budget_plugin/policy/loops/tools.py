"""Detectors over tool calls: what is new, the repeated call, the repeated error, the burst.

All of them go by *new outcomes*: a success of a call with arguments and a result that were not seen
together in the window. Nothing new between two equal calls means that the second had no reason.
"""

from collections import deque
from typing import Final, NamedTuple

from .events import Status, ToolEvent
from .settings import Detector, Finding, Level, LoopPolicy, found

_ERRORS_KEPT: Final = 64
"""Different errors that are remembered at once; the longest unseen is forgotten first."""


class Outcomes:
    """Which outcomes were seen within the window, how many were new, how often the run waited."""

    __slots__ = ("_known", "_order", "_policy", "news", "waits")

    def __init__(self, policy: LoopPolicy) -> None:
        self._policy = policy
        self._known: dict[tuple[str, str, str], int] = {}
        self._order: deque[tuple[str, str, str]] = deque()
        self.news = 0
        self.waits = 0

    def see(self, event: ToolEvent) -> bool:
        """Remember an outcome; whether it is new. A failure and a plan never are."""
        if event.waits:
            self.waits += 1
        if event.status is not Status.OK:
            return False
        key = (event.tool, event.args_digest, event.result_digest)
        known = self._known.get(key, 0)
        self._remember(key, known)
        if known or event.tool in self._policy.no_progress:
            return False
        self.news += 1
        return True

    def _remember(self, key: tuple[str, str, str], known: int) -> None:
        self._known[key] = known + 1
        self._order.append(key)
        if len(self._order) <= self._policy.window:
            return
        oldest = self._order.popleft()
        left = self._known[oldest] - 1
        if left:
            self._known[oldest] = left
        else:
            del self._known[oldest]


class _Seen(NamedTuple):
    """The last time a call was made. `hasty` counts repetitions for which the run did not wait."""

    result: str
    hasty: int
    total: int
    news: int
    waits: int
    step: str
    at_s: float


class RepeatedCall:
    """The same tool with the same arguments gives the same result, and nothing new lies between.

    Warns at the second, acts at the third. Where the run waits in between (the call sleeps, another
    one does, or minutes pass), the same is normal up to `patience` times.

    Limits: a call that is repeated among ever new ones is not seen, nor one whose result differs
    each time by something that looks like content.
    """

    __slots__ = ("_last", "_policy")

    def __init__(self, policy: LoopPolicy) -> None:
        self._policy = policy
        self._last: dict[tuple[str, str], _Seen] = {}

    def see(self, event: ToolEvent, outcomes: Outcomes) -> Finding | None:
        """Judge a call that ended; `outcomes` has seen it already."""
        key = (event.tool, event.args_digest)
        seen = self._now(event, self._last.pop(key, None), outcomes)
        # Taken out and put back: the order of the dictionary is that of the last use.
        self._last[key] = seen
        if len(self._last) > self._policy.window:
            del self._last[next(iter(self._last))]
        if seen.total == 1:
            return None
        level = self._level(seen)
        return found(
            self._policy, Detector.REPEATED_CALL, level, seen.total, event.seq, (event.tool,)
        )

    def _now(self, event: ToolEvent, last: _Seen | None, outcomes: Outcomes) -> _Seen:
        hasty = total = 1
        if last and last.result == event.result_digest and last.news == outcomes.news:
            if event.step and event.step == last.step:
                hasty, total = last.hasty, last.total
            else:
                waited = (
                    last.waits != outcomes.waits or event.at_s - last.at_s >= self._policy.pause_s
                )
                hasty, total = last.hasty + (not waited), last.total + 1
        return _Seen(
            event.result_digest,
            hasty,
            total,
            outcomes.news,
            outcomes.waits,
            event.step,
            event.at_s,
        )

    def _level(self, seen: _Seen) -> Level | None:
        if seen.total >= self._policy.patience:
            return Level.ACT
        return self._policy.of(Detector.REPEATED_CALL).level(seen.hasty)

    def forget(self) -> None:
        """Begin anew."""
        self._last.clear()


class _Failed(NamedTuple):
    """The last time an error came. `streak` counts without, `same` in spite of, news in between."""

    streak: int
    same: int
    result: str
    news: int
    waits: int
    successes: int
    step: str


class RepeatedError:
    """The same error from the same tool, however the arguments were varied.

    Warns at the second, acts at the third. A success of the tool, or anything new, begins the count
    anew. If something new lies between each time but the whole result stays the same to the letter
    (an edit and the same failing test), it is called at `stubborn`.

    Limits: three probes for files that do not exist, one after another, are the same error; probes
    in one answer of the model are one. An error that the tool reports as a success is not seen.
    """

    __slots__ = ("_last", "_policy", "_successes")

    def __init__(self, policy: LoopPolicy) -> None:
        self._policy = policy
        self._last: dict[tuple[str, str], _Failed] = {}
        self._successes: dict[str, int] = {}

    def see(self, event: ToolEvent, outcomes: Outcomes) -> Finding | None:
        """Judge a call that ended; `outcomes` has seen it already."""
        if event.status is Status.OK:
            self._succeeded(event.tool)
            return None
        if not event.error_digest:
            return None
        key = (event.tool, event.error_digest)
        failed = self._now(event, self._last.pop(key, None), outcomes)
        self._last[key] = failed
        if len(self._last) > _ERRORS_KEPT:
            del self._last[next(iter(self._last))]
        count = max(failed.streak, failed.same)
        return found(
            self._policy,
            Detector.REPEATED_ERROR,
            self._level(failed),
            count,
            event.seq,
            (event.tool,),
        )

    def _succeeded(self, tool: str) -> None:
        # A tool that never failed needs no count of its successes, so the dictionary stays small.
        if tool in self._successes:
            self._successes[tool] += 1

    def _now(self, event: ToolEvent, last: _Failed | None, outcomes: Outcomes) -> _Failed:
        successes = self._successes.setdefault(event.tool, 0)
        streak = same = 1
        if last and last.successes == successes:
            more = not event.step or event.step != last.step
            if last.news == outcomes.news and last.waits == outcomes.waits:
                streak = last.streak + more
            if last.result == event.result_digest:
                same = last.same + more
        return _Failed(
            streak,
            same,
            event.result_digest,
            outcomes.news,
            outcomes.waits,
            successes,
            event.step,
        )

    def _level(self, failed: _Failed) -> Level | None:
        if failed.same >= self._policy.stubborn:
            return Level.ACT
        return self._policy.of(Detector.REPEATED_ERROR).level(failed.streak)

    def forget(self) -> None:
        """Begin anew."""
        self._last.clear()
        self._successes.clear()


class Burst:
    """After a pause a run does again, in a hurry, what it had done before.

    Counts calls within `burst_s` of the resume that bring nothing new; a few are honest, since a
    run looks where it stands. Warns at the fifth, acts at the tenth.

    Limits: only what is still in the window is known to be old.
    """

    __slots__ = ("_count", "_policy", "_until_s")

    def __init__(self, policy: LoopPolicy) -> None:
        self._policy = policy
        self._until_s = float("-inf")
        self._count = 0

    def resumed(self, at_s: float) -> None:
        """The run goes on."""
        self._until_s = at_s + self._policy.burst_s
        self._count = 0

    def see(self, event: ToolEvent, *, new: bool) -> Finding | None:
        """Judge a call that ended."""
        if event.at_s > self._until_s or new:
            return None
        self._count += 1
        level = self._policy.of(Detector.BURST).level(self._count)
        return found(self._policy, Detector.BURST, level, self._count, event.seq, (event.tool,))

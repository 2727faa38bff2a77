"""Plays recorded runs under one candidate: what would have been stopped, when, and why.

The flow is that of the live gates. A call is refused while a limit that covers it is reached, and
a run that a ceiling of its own has stopped makes `wrap_up_calls` last answers and no more. What a
refused call cost is saved. A run that was stopped does not come back, and when a tree's own budget
is spent, the whole tree is stopped.

Two things the gates know and a replay does not: what a call was *expected* to cost, and which calls
were on their way at the same moment. So the gates close a little earlier, when nothing more fits; a
replay closes when a limit is reached. docs/replay.md names what else is not replayed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple
from zoneinfo import ZoneInfo

from ..events import IMPORTED
from ..limits import Budget
from ..loops.responses import Action
from ..runs.run_limits import Cause, RunPolicy, RunTerms
from ..verdicts import Spend, Verdict
from .outcome import Cut, Outcome, Tally
from .played_loops import OnFound, PlayedLoops
from .played_runs import PlayedRun, Stop
from .recorded import (
    FORGET_AFTER_MS,
    Event,
    RecordedCall,
    RecordedDispatch,
    RecordedRun,
    RecordedTool,
)
from .spending import LimitWindow, SpendLimits


@dataclass(frozen=True, slots=True)
class Candidate:
    """Limits to try: a budget as budget.yaml would say it, under a name for people.

    Attributes:
        value: its place in a sweep, in the unit that was typed.
        loops: the detectors that its budget switches on look at the recorded tool calls.
    """

    name: str
    budget: Budget
    value: float | None = None
    loops: bool = False


class Reached(NamedTuple):
    """A limit that a call carried to hard, as the ledger notes it: once for each run and window."""

    run_id: str
    verdict: Verdict


class Player:
    """One candidate over a stream of events. Holds the runs of the last day, and nothing older.

    Args:
        on_reached: told of every limit that a call has reached, or found reached.
        on_found: told of every circle that a detector finds.
    """

    def __init__(
        self,
        candidate: Candidate,
        zone: ZoneInfo,
        on_reached: Callable[[Reached], None] | None = None,
        on_found: OnFound | None = None,
    ) -> None:
        self.candidate = candidate
        self._budget = candidate.budget
        self._spending = SpendLimits(candidate.budget, zone)
        self._on_reached = on_reached
        self._loops = PlayedLoops(candidate.budget.loops, on_found) if candidate.loops else None
        self._runs: dict[str, PlayedRun] = {}
        self._terms: dict[tuple[str, str], RunTerms] = {}
        self._tally = Tally()
        self._sweep_at_ms = 0

    def play(self, event: Event) -> None:
        """The next event in time."""
        if type(event) is RecordedCall:
            self._call(event)
        elif type(event) is RecordedRun:
            self._begin(event)
        elif type(event) is RecordedDispatch:
            self._dispatch(event)
        elif type(event) is RecordedTool:
            self._tool(event)

    def outcome(self, days: int) -> Outcome:
        """What has come of it so far; `days` is how many the record spans."""
        open_cuts = [_cut_of(run) for run in self._runs.values() if run.is_cut and _is_root(run)]
        return self._tally.outcome(days, open_cuts)

    # ------------------------------------------------------------------ runs

    def _begin(self, recorded: RecordedRun) -> None:
        if recorded.run_id in self._runs:
            return
        self._forget_old(recorded.started_ms)
        root = self._runs.get(recorded.root_run_id)
        last_answers = self._budget.model_gate.wrap_up_calls
        run = PlayedRun(recorded, root, self._terms_of(recorded), last_answers)
        self._runs[recorded.run_id] = run
        if _is_root(run):
            self._tally.runs += 1

    def _unknown(self, call: RecordedCall) -> PlayedRun:
        """A run that was forgotten, or that nobody wrote down: its money counts all the same."""
        self._begin(RecordedRun(call.run_id, call.run_id, "", call.at_ms))
        return self._runs[call.run_id]

    def _terms_of(self, run: RecordedRun) -> RunTerms:
        key = (run.kind, run.platform)
        found = self._terms.get(key)
        if found is None:
            # An imported session is many runs of which nobody knows where each began.
            policy = RunPolicy() if run.kind == IMPORTED else self._budget.runs
            found = self._terms[key] = policy.terms(*key)
        return found

    def _forget_old(self, now_ms: int) -> None:
        if now_ms < self._sweep_at_ms:
            return
        self._sweep_at_ms = now_ms + FORGET_AFTER_MS // 4
        old = now_ms - FORGET_AFTER_MS
        for run_id, run in list(self._runs.items()):
            if run.last_ms < old and run.root.last_ms < old:
                del self._runs[run_id]
                if run.is_cut and _is_root(run):
                    self._tally.closed(_cut_of(run))

    # ------------------------------------------------------------------ dispatches

    def _dispatch(self, event: RecordedDispatch) -> None:
        run = self._runs.get(event.run_id)
        if run is None:
            return
        run.last_ms = run.root.last_ms = event.at_ms
        if _stop_of(run) is not None:
            _cut(run)
            return
        for each in _chain(run):
            each.look(event.at_ms)
            if each.stop is not None or not each.dispatch(event.children, event.at_ms):
                _cut(run)
                return

    # ------------------------------------------------------------------ tool calls

    def _tool(self, tool: RecordedTool) -> None:
        run = self._runs.get(tool.run_id)
        if run is None or self._loops is None:
            return
        root = run.root
        run.last_ms = root.last_ms = tool.at_ms
        if not root.has_tools:
            root.has_tools = True
            self._tally.runs_watched += 1
        action = self._loops.see(run, tool, runs=not _is_stopped(run))
        if action is Action.REFUSED:
            self._tally.tools_refused += 1
        elif action is Action.ENDED:
            run.looped(tool.at_ms)
            _cut(run)

    # ------------------------------------------------------------------ calls

    def _call(self, call: RecordedCall) -> None:
        tally = self._tally
        tally.calls += 1
        nanos = call.nanos or 0
        tally.spent_nanos += nanos
        run = self._runs.get(call.run_id) or self._unknown(call)
        root = run.root
        run.last_ms = root.last_ms = call.at_ms
        windows = run.windows.get(call.model)
        if windows is None:
            covering = self._spending.covering(run.recorded.scopes(call.model))
            windows = run.windows[call.model] = covering
        for window in windows:
            window.turn_to(call.at_ms)
        if call.gated and not self._may_go(run, call, windows):
            _cut(run)
            root.saved_nanos += nanos
            tally.saved_nanos += nanos
            tally.saved_calls += 1
            return
        if run.is_to_be_told and call.gated:
            run.told_to_finish = True
        run.charge(call, nanos)
        if root is not run:
            root.charge(call, nanos)
        if windows:
            self._spend(run, call, windows)

    def _may_go(self, run: PlayedRun, call: RecordedCall, windows: tuple[LimitWindow, ...]) -> bool:
        at_ms = call.at_ms
        if _was_never_started(run):
            return False
        if run.stop is None:
            for window in windows:
                if window.verdict is not None and not (window.is_usd and call.costs_nothing):
                    run.stop = Stop(at_ms, Cause.WINDOW, window.limit)
                    return False
            for each in _chain(run):
                if each.stop is None:
                    each.look(at_ms)
                    each.try_tools(at_ms)
        stop = _stop_of(run)
        if stop is None:
            return True
        if stop.cause is Cause.WINDOW or run.last_answers <= 0 or _came_after(run, stop):
            return False
        run.last_answers -= 1
        return True

    def _spend(self, run: PlayedRun, call: RecordedCall, windows: tuple[LimitWindow, ...]) -> None:
        nanos, estimated = call.nanos or 0, call.estimated
        spend = Spend(
            0 if estimated else nanos,
            nanos if estimated else 0,
            call.tokens,
            1,
            1 if call.nanos is None else 0,
            1 if estimated else 0,
        )
        for window in windows:
            window.add(spend, call.at_ms)
            if window.verdict is not None and self._on_reached is not None:
                self._on_reached(Reached(run.recorded.run_id, window.verdict))


def _is_root(run: PlayedRun) -> bool:
    return run.root is run


def _chain(run: PlayedRun) -> tuple[PlayedRun, ...]:
    return (run,) if run.root is run else (run, run.root)


def _was_never_started(run: PlayedRun) -> bool:
    """Its root may start nobody."""
    return run.root.refuses_children and run.root is not run


def _is_stopped(run: PlayedRun) -> bool:
    return _stop_of(run) is not None or _was_never_started(run)


def _stop_of(run: PlayedRun) -> Stop | None:
    """What has stopped a run: something of its own, or what has stopped its tree.

    A limit that stopped the root alone stands over each child of its own.
    """
    of_root = run.root.stop
    if run.stop is not None or of_root is None or of_root.cause is Cause.WINDOW:
        return run.stop
    return of_root


def _came_after(run: PlayedRun, stop: Stop) -> bool:
    """A child that began after its tree was stopped was never started."""
    return run.root is not run and run.stop is None and run.recorded.started_ms >= stop.at_ms


def _cut(run: PlayedRun) -> None:
    root = run.root
    run.is_cut = root.is_cut = True
    if root.cut_by is None:
        root.cut_by = _stop_of(run)


def _cut_of(root: PlayedRun) -> Cut:
    recorded, stop = root.recorded, root.cut_by
    return Cut(
        recorded.run_id,
        recorded.kind,
        stop.at_ms if stop else root.last_ms,
        stop.cause if stop else Cause.HOPS,
        stop.limit if stop else None,
        root.saved_nanos,
        recorded.resolved,
    )

"""What a run is told of its own budget: at its start, running low, near its deadline, at a mark.

In the middle of a run at most one thing is told with a call, and each thing once: what stands in a
prompt again and again is not read.
"""

from dataclasses import replace

from ...policy.runs import checkpoints
from ...policy.runs.run_rendering import deadline_is_near
from ..clock import Clock
from ..live_runs import LiveRun
from .guarded_runs import GuardedRun


class RunTelling:
    """Notes for the models of this process's runs; `None` where there is nothing to say."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def briefing(self, live: LiveRun) -> str | None:
        """What a child may use, told at its start; `None` for other runs and without ceilings."""
        run = live.guarded
        if run is None or not run.limited or live.run.kind != "child":
            return None
        now_s = self._clock.monotonic()
        run.told_low = run.budget.soft(now_s)
        return run.budget.render(now_s)

    def note(self, live: LiveRun) -> str | None:
        """What goes with the next call to the model, the most urgent first."""
        run = live.guarded
        if run is None or not run.limited or run.goes_on_unasked:
            return None
        now_s = self._clock.monotonic()
        return (
            self._last_step(run, now_s)
            or self._runs_low(run, now_s)
            or self._checkpoint(run, now_s)
        )

    @staticmethod
    def _last_step(run: GuardedRun, now_s: float) -> str | None:
        """That one more step like the last one will not end in time.

        Told, and nothing taken away: how long a step takes is a guess, the deadline is not.
        """
        step_s = None if run.called_s is None else now_s - run.called_s
        run.called_s = now_s
        if step_s is None or run.told_late:
            return None
        left_s = run.budget.seconds_left(now_s)
        if left_s is None or left_s >= step_s:
            return None
        run.told_late = run.told_low = True
        return deadline_is_near(left_s, step_s)

    @staticmethod
    def _runs_low(run: GuardedRun, now_s: float) -> str | None:
        """What is left and that the run is to finish: once, when it has begun to converge."""
        if run.told_low or not run.budget.soft(now_s):
            return None
        run.told_low = True
        return run.budget.render(now_s)

    @staticmethod
    def _checkpoint(run: GuardedRun, now_s: float) -> str | None:
        """The questions of a mark that was passed; with none in the file there are no marks."""
        if not run.rules.checkpoints:
            return None
        with run.lock:
            points = replace(run.points, every=run.rules.checkpoints)
            mark = checkpoints.due(points, run.budget.most_used(now_s).share)
            if mark is None:
                return None
            run.points = checkpoints.asked(points, mark)
            return checkpoints.questions(run.points)

"""Takes down what runs say of themselves: checkpoints, counts of steps, how they mean to end."""

from functools import partial

from ...policy.digests import digest
from ...policy.loops.settings import LoopPolicy
from ...policy.runs import checkpoints
from ...policy.runs.refusals import Refusal
from ...policy.runs.run_limits import Cause
from ...policy.runs.statements import Declared, Progress, shortened
from ...store.checkpoints import Checkpoint, CheckpointBook
from ..clock import Clock
from ..live_runs import LiveRun
from ..loop_guard import LoopGuard
from ..recorder import Recorder, Write
from .guarded_runs import GuardedRun
from .run_guard import RunGuard


class RunStatements:
    """Statements of the runs of this process."""

    def __init__(
        self,
        book: CheckpointBook,
        guard: RunGuard,
        loops: LoopGuard,
        recorder: Recorder,
        clock: Clock,
    ) -> None:
        self._book = book
        self._guard = guard
        self._loops = loops
        self._recorder = recorder
        self._clock = clock

    def checkpoint(self, live: LiveRun, said: Progress, policy: LoopPolicy) -> None:
        """A run answers a checkpoint, or reports a draft or counts.

        One that answers "nothing" at two marks in a row is stuck, and may only give its last
        answer.
        """
        run = live.guarded
        if run is None or run.budget.receipt is not None:
            return
        artifact = digest(said.artifact) if said.artifact else ""
        self._count(live, run, said)
        self._loops.checkpoint(
            live, policy, said.established, head=said.head, artifact=artifact, score=said.score
        )
        with run.lock:
            run.points = checkpoints.answered(run.points, said.established)
            is_stuck = run.points.stuck
        if is_stuck:
            self._guard.stop(live, Cause.STUCK)
        answer = Checkpoint(
            run_id=live.run.run_id,
            number=run.points.reached,
            at_ms=self._clock.now_ms(),
            established=shortened(said.established or ""),
            enough=shortened(said.enough),
            smallest=shortened(said.smallest),
            head=shortened(said.head),
            artifact=artifact,
            score=said.score,
        )
        self._recorder.later(Write(partial(self._book.add, answer)))

    def judge_is_asked(self, live: LiveRun) -> Refusal | None:
        """May a judge look at the work of a run; the first look is no re-judgement."""
        run = live.guarded
        if run is None or not run.limited:
            return None
        with run.lock:
            is_first, run.judged = not run.judged, True
        return None if is_first else run.budget.try_rejudge(self._clock.monotonic())

    def _count(self, live: LiveRun, run: GuardedRun, said: Progress) -> None:
        if not (said.critiques or said.rejudges or said.retriages):
            return
        run.budget.report(
            self._clock.monotonic(),
            critique_retries=said.critiques,
            rejudges=said.rejudges,
            retriages=said.retriages,
            head=said.head,
        )

    @staticmethod
    def declare(live: LiveRun, declared: Declared) -> None:
        """A run says how it ends; the last word before its final answer holds."""
        run = live.guarded
        if run is not None:
            with run.lock:
                run.declared = Declared(
                    declared.state,
                    tuple(map(shortened, declared.delivered)),
                    tuple(map(shortened, declared.gaps)),
                    shortened(declared.next_owner),
                )

"""Observed limits: they stop nothing, and every run that they would have stopped is written down.

They live beside the limits that hold and meet none of their gates: no tool, no call, no cron job
and no alert asks them, and no room is kept for them. They are judged when a call has been recorded,
from the totals that its transaction has read anyway.
"""

from collections.abc import Iterable
from functools import partial
from typing import Final

from cachetools import LRUCache

from ..policy.charges import ScopeId
from ..policy.events import Run
from ..policy.limits import Limit
from ..policy.verdicts import Verdict
from ..store.journal import Journal
from ..store.ledger import Recorded
from ..store.totals import window_key
from .clock import Clock
from .decisions import WOULD_HAVE, decision_of
from .judge import Judge
from .recorder import Recorder, Write

KEPT: Final = 4_096


class Observer:
    """Notes what observed limits would have done; once for each run, limit and window."""

    def __init__(self, judge: Judge, journal: Journal, recorder: Recorder, clock: Clock) -> None:
        self._judge = judge
        self._journal = journal
        self._recorder = recorder
        self._clock = clock
        self._noted: LRUCache[tuple[str, Limit, str], bool] = LRUCache(KEPT)

    def recorded(self, recorded: Recorded) -> None:
        """A call was written: which observed limits would stop its run now?"""
        rules = self._judge.rules(look_again=False)
        if not rules.observes:
            return
        now_ms = self._clock.now_ms()
        for scope, by_window in recorded.totals.items():
            limits = rules.observed_now(scope, now_ms)
            if all(window_key(period) in by_window for _, period in limits):
                spends = {period: by_window[window_key(period)] for _, period in limits}
                self._note(recorded.run, self._judge.evaluated(scope, limits, spends.get, rules))
            else:  # the totals must be built first, off the agent's thread
                self._recorder.later(Write(partial(self._build, recorded.run, scope)))

    def _build(self, run: Run, scope: ScopeId, _patience_s: float) -> None:
        self._note(run, self._judge.observed(scope))

    def _note(self, run: Run, verdicts: Iterable[Verdict]) -> None:
        for verdict in verdicts:
            key = (run.run_id, verdict.limit, verdict.period.key)
            if verdict.blocks and key not in self._noted:
                self._noted[key] = True
                decision = decision_of(run, verdict, "ledger", WOULD_HAVE, self._clock.now_ms())
                self._recorder.later(Write(partial(self._journal.note_decision, decision)))

"""Retention: calls older than `ledger.keep_days` become sums of days, a few at a time."""

import threading
from typing import Final

from ..policy.windows import Window, period
from ..store.day_sums import IN_ONE_STEP, DaySums
from .clock import Clock
from .judge import Judge
from .recorder import Recorder, Write
from .rules import Rules

_PAUSE_S: Final = 3_600.0
_MOST_STEPS: Final = 50
"""Steps of one look, together a fraction of a second: a process that ends waits for them."""

_DAY_MS: Final = 86_400_000


class Retention:
    """Thins one ledger, on the recorder's thread."""

    def __init__(self, sums: DaySums, judge: Judge, recorder: Recorder, clock: Clock) -> None:
        self._sums = sums
        self._judge = judge
        self._recorder = recorder
        self._clock = clock
        self._lock = threading.Lock()
        self._next_look = 0.0
        self._steps_left = 0
        self._since_ms = 0
        """How far this look has come."""

    def look_now_and_then(self) -> None:
        """Have old calls summed up, once an hour; costs the caller nothing."""
        if self._judge.rules(look_again=False).budget.ledger.keep_days is None:
            return
        now = self._clock.monotonic()
        with self._lock:
            if now < self._next_look:
                return
            self._next_look = now + _PAUSE_S
            self._steps_left, self._since_ms = _MOST_STEPS, 0
        self._recorder.later(Write(self.step))

    def step(self, patience_s: float) -> None:
        """Sum up the oldest calls, and have the next ones follow behind what waits by now.

        Raises:
            LedgerError: the ledger does not answer; doing it again is right.
        """
        rules = self._judge.rules(look_again=False)
        keep_days = rules.budget.ledger.keep_days
        if keep_days is None:  # it was taken back meanwhile
            return
        before_ms = _day_of(self._clock.now_ms() - keep_days * _DAY_MS, rules)
        oldest = self._sums.oldest(self._since_ms, before_ms)
        if not oldest:
            return
        numbers = [number for number, _ in oldest]
        self._sums.sum_up(numbers, before_ms, lambda at_ms: _day_of(at_ms, rules), patience_s)
        _, self._since_ms = oldest[-1]
        self._steps_left -= 1
        if len(oldest) == IN_ONE_STEP and self._steps_left > 0:
            self._recorder.later(Write(self.step))


def _day_of(at_ms: int, rules: Rules) -> int:
    return period(Window.DAILY, at_ms, rules.zone).start_ms

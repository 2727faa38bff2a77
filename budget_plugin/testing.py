"""Helpers for tests of this plugin and of what is built on it."""


class FakeClock:
    """A clock that is turned by hand; see `budget_plugin.engine.clock.Clock`.

    Args:
        now_ms: the wall clock at the start, UTC milliseconds.
    """

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self._monotonic = 1_000.0

    def now_ms(self) -> int:
        """The wall clock."""
        return self._now_ms

    def monotonic(self) -> float:
        """Seconds that have passed."""
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Let time pass: both clocks move."""
        self._now_ms += round(seconds * 1000)
        self._monotonic += seconds

    def set(self, now_ms: int) -> None:
        """Set the wall clock; time passes if it is set forward, and does not if it is set back."""
        self._monotonic += max(0, now_ms - self._now_ms) / 1000
        self._now_ms = now_ms

"""Time, as the engine is given it: wall clock for windows, monotonic for what merely lasts."""

import time
from typing import Protocol


class Clock(Protocol):
    """Two clocks; tests hand over one that they turn by hand (`testing.FakeClock`)."""

    def now_ms(self) -> int:
        """Milliseconds since 1970 UTC; may be set back."""
        ...

    def monotonic(self) -> float:
        """Seconds since some moment; never goes back."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        """Milliseconds since 1970 UTC."""
        return time.time_ns() // 1_000_000

    monotonic = staticmethod(time.monotonic)
    """Seconds since some moment; the system's own function, since it is asked at every tool."""

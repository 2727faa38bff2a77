"""Calls that have left for the provider and of which nothing has come back yet.

A process may end in the middle of one (the review behind a one-shot answer runs on a daemon
thread). The provider bills it all the same, so it is written down as an estimate on the way out; a
report that comes after all replaces it.
"""

import atexit
import logging
import threading
from collections.abc import Callable
from typing import Final

from cachetools import LRUCache

from ..policy.prices.usage import UsageReport
from ..store.sql import forks
from .live_runs import LiveRun
from .permits import Permit, Request

log = logging.getLogger(__name__)

IN_FLIGHT: Final = "in_flight"
"""The flag of a call whose answer nobody has seen: the process ended before."""

_MOST: Final = 1_024

Record = Callable[[LiveRun, Permit, Request, UsageReport], object]


class InFlight:
    """The calls under way in this process.

    Args:
        record: writes a call down; without usage it is charged at what was expected.
    """

    def __init__(self, record: Record) -> None:
        self._record = record
        self._begin()
        # Registered after the recorder's own, so called before it.
        atexit.register(self.write)
        forks.watch(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._calls: LRUCache[str, tuple[LiveRun, Permit, Request]] = LRUCache(_MOST)

    def left(self, live: LiveRun, permit: Permit, request: Request) -> None:
        """A call goes out."""
        with self._lock:
            self._calls[permit.attempt_id] = (live, permit, request)

    def back(self, attempt_id: str) -> None:
        """It is known what became of a call."""
        with self._lock:
            self._calls.pop(attempt_id, None)

    def write(self) -> None:
        """Write down what is under way, flagged as an estimate; never raises."""
        with self._lock:
            calls = list(self._calls.values())
            self._calls.clear()
        for live, permit, request in calls:
            try:
                self._record(live, permit, request, UsageReport(None, flags=(IN_FLIGHT,)))
            except Exception:
                log.exception("a call that was under way is not written down")

    def close(self) -> None:
        """Write them, and leave the exit alone."""
        atexit.unregister(self.write)
        self.write()

    def before_fork(self) -> None:
        """Nothing to wait for."""

    def after_fork(self, *, in_child: bool) -> None:
        """What is under way is the parent's."""
        if in_child:
            self._begin()

"""The log of tool calls: kept in memory until there is a batch, then written by the recorder.

A hook only appends to a list. A batch goes out when it is full, when a run ends, and on the way out
of the process; one that is killed loses what had not gone out.
"""

import atexit
import threading
from functools import partial
from typing import Final

from ..policy.replay.recorded import RecordedTool
from ..store.sql import forks
from ..store.tool_events import ToolEvents
from .clock import Clock
from .recorder import Recorder, Write

BATCH: Final = 64
"""Rows of one write: it takes the ledger's lock for about a millisecond."""

WORTH_KEEPING_MS: Final = 3_600_000
"""While the ledger does not answer for longer than that, further tool calls are not kept: what
waits takes memory, and calls to the model have to wait there too."""


class ToolLog:
    """Safe to call from many threads; never waits for the ledger."""

    def __init__(self, book: ToolEvents, recorder: Recorder, clock: Clock) -> None:
        self._book = book
        self._recorder = recorder
        self._clock = clock
        self._begin()
        # Registered after the recorder's own, so called before it.
        atexit.register(self.flush)
        forks.watch(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._rows: list[RecordedTool] = []

    def add(self, row: RecordedTool) -> None:
        """Keep a tool call that has ended."""
        with self._lock:
            self._rows.append(row)
            is_full = len(self._rows) >= BATCH
        if is_full:
            self.flush()

    def flush(self) -> None:
        """Hand on what is kept, of all runs."""
        with self._lock:
            rows, self._rows = self._rows, []
            now_ms = self._clock.now_ms()
            failing_since_ms = self._recorder.failing_since_ms
            if failing_since_ms is not None and now_ms - failing_since_ms > WORTH_KEEPING_MS:
                return
            if rows:  # handed on under the lock: batches stay in the order of time
                self._recorder.later(Write(partial(self._book.add, rows, now_ms)))

    def close(self) -> None:
        """Hand it on, and leave the exit alone."""
        atexit.unregister(self.flush)
        self.flush()

    def before_fork(self) -> None:
        """Nothing to wait for."""

    def after_fork(self, *, in_child: bool) -> None:
        """What is kept is the parent's to write."""
        if in_child:
            self._begin()

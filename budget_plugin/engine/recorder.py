"""Writes that are never lost: done at once where possible, else kept in memory and tried again.

Every write of the ledger is idempotent, so that trying again is always right. While a call waits,
its spend counts in the verdicts.
"""

import atexit
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ..policy.charges import ScopeId, call_scopes, spend_of
from ..policy.events import Call, Run
from ..policy.verdicts import NOTHING_SPENT, Spend
from ..policy.windows import Period
from ..store.database import LedgerError

log = logging.getLogger(__name__)

PATIENCE_S: Final = 0.1
"""How long a write may hold up the agent's thread before it is put aside."""

_RETRY_PATIENCE_S: Final = 0.5
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 5.0
_EXIT_PATIENCE_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Write:
    """One write: `apply(patience_s)` does it or raises `LedgerError`.

    `call` and `run` are set for a billed call, so that it counts while it waits.
    """

    apply: Callable[[float], object]
    call: Call | None = None
    run: Run | None = None


class Recorder:
    """Applies writes in order; keeps those that cannot be done now."""

    def __init__(self) -> None:
        self._waiting: deque[Write] = deque()
        self._lock = threading.Condition()
        self._applying = threading.Lock()
        self._thread: threading.Thread | None = None
        self._current: Write | None = None
        """The waiting write that is being done: its call is in the ledger, or will be at once."""
        self.failing_since_ms: int | None = None
        self.last_error = ""
        atexit.register(self.flush, _EXIT_PATIENCE_S)

    @property
    def waiting_calls(self) -> int:
        """Billed calls that are not in the ledger yet."""
        return sum(write.call is not None for write in list(self._waiting))

    def now(self, write: Write, now_ms: int) -> bool:
        """Do a write at once; put it aside where that fails or others wait already.

        Returns:
            Whether it is done.
        """
        with self._lock:
            must_wait = bool(self._waiting)
        if not must_wait:
            try:
                write.apply(PATIENCE_S)
                return True
            except LedgerError as error:
                self._note_failure(error, now_ms)
        self.later(write)
        return False

    def later(self, write: Write) -> None:
        """Have a write done by the recorder's own thread."""
        with self._lock:
            self._waiting.append(write)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="budget-recorder", daemon=True
                )
                self._thread.start()
            self._lock.notify()

    def pending(self, scope: ScopeId, period: Period) -> Spend:
        """What waiting calls add to one scope in one period."""
        if not self._waiting:
            return NOTHING_SPENT
        total = NOTHING_SPENT
        for write in list(self._waiting):
            call, run = write.call, write.run
            if call is None or run is None or write is self._current:
                continue
            if not period.contains(call.at_ms):
                continue
            if scope in call_scopes(run, call.model):
                total = total + spend_of(call)
        return total

    def flush(self, patience_s: float) -> bool:
        """Do everything that waits, within `patience_s`; `True` when nothing waits any more."""
        deadline = time.monotonic() + patience_s
        while (left_s := deadline - time.monotonic()) > 0:
            if not self._waiting:
                return True
            if not self._do_first(left_s):
                time.sleep(_FIRST_PAUSE_S)
        if waiting := self.waiting_calls:
            log.error("%d billed calls could not be written to the ledger", waiting)
        return not self._waiting

    def _run(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            with self._lock:
                while not self._waiting:
                    self._lock.wait()
            if self._do_first(_RETRY_PATIENCE_S):
                pause_s = _FIRST_PAUSE_S
            else:
                time.sleep(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    def _do_first(self, patience_s: float) -> bool:
        with self._applying:  # the exit's flush and the thread must not do the same write twice
            return self._do_first_alone(patience_s)

    def _do_first_alone(self, patience_s: float) -> bool:
        with self._lock:
            if not self._waiting:
                return True
            write = self._current = self._waiting[0]
        try:
            write.apply(patience_s)
        except LedgerError as error:
            self._current = None
            self._note_failure(error, None)
            return False
        except Exception:
            log.exception("a write was dropped: it can never succeed")
        with self._lock:
            if self._waiting and self._waiting[0] is write:
                self._waiting.popleft()
            self._current = None
            if not self._waiting and self.failing_since_ms is not None:
                log.warning("the ledger answers again; everything that waited is written")
                self.failing_since_ms = None
        return True

    def _note_failure(self, error: LedgerError, now_ms: int | None) -> None:
        self.last_error = str(error)
        if self.failing_since_ms is None:
            self.failing_since_ms = now_ms or time.time_ns() // 1_000_000
            log.warning("the ledger does not answer (%s); rows wait in memory", error)

"""Writes that are never lost: done at once where possible, else kept in memory and tried again.

Every write of the ledger is idempotent, so that trying again is always right. While a call waits,
its spend counts in the verdicts. What still waits when the process ends goes into a file.
"""

import atexit
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ..policy.charges import ScopeId, call_scopes, spend_of
from ..policy.events import Call, Run
from ..policy.verdicts import NOTHING_SPENT, Spend
from ..policy.windows import Period
from ..store.sql import forks
from ..store.sql.database import LedgerError, LedgerInUse, LedgerReplaced, WriteRefused
from ..store.waiting import WaitingRows

log = logging.getLogger(__name__)

PATIENCE_S: Final = 0.1
"""How long a write may hold up the agent's thread before it is put aside."""

_RETRY_PATIENCE_S: Final = 0.5
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 5.0
_EXIT_PATIENCE_S: Final = 2.0
_FILES_IN_A_ROW: Final = 3


def _nothing(_result: object) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Write:
    """One write: `apply(patience_s)` does it or raises `LedgerError`.

    Attributes:
        call: the billed call that is written, with its `run`: it counts while it waits.
        after: is given the result of `apply`, once the call no longer counts as waiting.
    """

    apply: Callable[[float], Any]
    call: Call | None = None
    run: Run | None = None
    after: Callable[[Any], object] = _nothing


class Recorder:
    """Applies writes; keeps those that cannot be done now, in order.

    Args:
        waiting_rows: where billed calls go that still wait when the process ends.
    """

    def __init__(self, waiting_rows: WaitingRows | None = None) -> None:
        self._waiting_rows = waiting_rows
        self._begin()
        atexit.register(self.finish, _EXIT_PATIENCE_S)
        forks.watch(self)

    def _begin(self) -> None:
        self._waiting: deque[Write] = deque()
        self._lock = threading.Condition()
        self._applying = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()
        self.failing_since_ms: int | None = None
        """Since when the ledger has not taken rows, UTC milliseconds; `None`: it does."""
        self.last_error = ""
        """Why it does not take them."""

    @property
    def waiting_calls(self) -> int:
        """Billed calls that are not in the ledger yet."""
        return sum(write.call is not None for write in list(self._waiting))

    def now(self, write: Write, now_ms: int) -> bool:
        """Do a write at once; put it aside where that fails, or other calls wait already.

        Holds up its caller for `PATIENCE_S` at the first failure, and not at all while it lasts.

        Returns:
            Whether it is done.
        """
        if self.failing_since_ms is None and not self.waiting_calls:
            try:
                result = _applied(write, PATIENCE_S)
            except WriteRefused:
                log.exception("the ledger refused a row; it is dropped")
                return False
            except LedgerError as error:
                self._note_failure(error, now_ms)
            else:
                write.after(result)
                return True
        self.later(write)
        return False

    def later(self, write: Write) -> None:
        """Have a write done by the recorder's own thread."""
        with self._lock:
            self._waiting.append(write)
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="budget-recorder", daemon=True)
                thread.start()
                self._thread = thread
            self._lock.notify()

    def pending(self, scope: ScopeId, period: Period) -> Spend:
        """What waiting calls add to one scope in one period."""
        if not self._waiting:
            return NOTHING_SPENT
        total = NOTHING_SPENT
        for write in list(self._waiting):
            call, run = write.call, write.run
            if call is None or run is None or not period.contains(call.at_ms):
                continue
            if scope in call_scopes(run, call.model):
                total = total + spend_of(call)
        return total

    def flush(self, patience_s: float) -> bool:
        """Do everything that waits, within `patience_s`; `True` when nothing waits any more."""
        deadline = time.monotonic() + patience_s
        while self._waiting and (left_s := deadline - time.monotonic()) > 0:
            if not self._do_first(left_s):
                self._closed.wait(min(_FIRST_PAUSE_S, left_s))
        return not self._waiting

    def finish(self, patience_s: float) -> None:
        """Do everything that waits; what cannot be done goes into a file for the next start."""
        if self.flush(patience_s):
            return
        with self._applying, self._lock:
            rows = [(w.call, w.run) for w in self._waiting if w.call and w.run]
            if rows and not self._kept(rows):
                return
            self._waiting.clear()
            self._recovered()

    def _kept(self, rows: list[tuple[Call, Run]]) -> bool:
        if self._waiting_rows is None:
            return False
        try:
            file = self._waiting_rows.keep(rows)
        except LedgerError as error:
            log.error("%d billed calls could not be written anywhere: %s", len(rows), error)
            return False
        log.warning("%d billed calls wait in %s for the next start", len(rows), file)
        return True

    def close(self, patience_s: float) -> None:
        """Finish, and end the thread."""
        self.finish(patience_s)
        atexit.unregister(self.finish)
        self._closed.set()
        with self._lock:
            self._lock.notify_all()

    # ------------------------------------------------------------------ the recorder's thread

    def _run(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while not self._closed.is_set():
            with self._lock:
                self._lock.wait_for(lambda: self._waiting or self._closed.is_set())
            if self._do_first(_RETRY_PATIENCE_S):
                pause_s = _FIRST_PAUSE_S
            else:
                self._closed.wait(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    def _do_first(self, patience_s: float) -> bool:
        """Do the write that has waited longest; whether it no longer waits."""
        with self._applying:  # the exit's flush and the thread must not do the same write twice
            if not self._waiting:
                return True
            write = self._waiting[0]
            try:
                result = _applied(write, patience_s)
            except WriteRefused:
                log.exception("the ledger refused a row; it is dropped")
                self._take_out()
                return True
            except LedgerError as error:
                self._note_failure(error, None)
                return False
            except Exception:
                log.exception("a write was dropped: it can never succeed")
                self._take_out()
                return True
            self._take_out()
        try:
            write.after(result)
        except Exception:
            log.exception("a row is written, but what follows from it failed")
        return True

    def _take_out(self) -> None:
        with self._lock:
            self._waiting.popleft()
            if not self._waiting:
                self._recovered()

    def _recovered(self) -> None:
        if self.failing_since_ms is not None:
            log.info("the ledger answers again; everything that waited is written")
        self.failing_since_ms = None
        self.last_error = ""

    def _note_failure(self, error: LedgerError, now_ms: int | None) -> None:
        if isinstance(error, LedgerInUse):
            return
        with self._lock:
            self.last_error = str(error)
            if self.failing_since_ms is not None:
                return
            self.failing_since_ms = now_ms or time.time_ns() // 1_000_000
        log.warning("the ledger does not answer (%s); rows wait in memory", error)

    # ------------------------------------------------------------------ forks

    def before_fork(self) -> None:
        """Nothing to wait for."""

    def after_fork(self, *, in_child: bool) -> None:
        """What waits is the parent's to write; a child has neither its rows nor its thread."""
        if in_child:
            self._begin()


def _applied(write: Write, patience_s: float) -> Any:
    """Apply a write, again at once where the file turned out to be another one."""
    for _ in range(_FILES_IN_A_ROW - 1):
        try:
            return write.apply(patience_s)
        except LedgerReplaced as error:
            log.debug("%s: the write goes to the new file", error)
    return write.apply(patience_s)

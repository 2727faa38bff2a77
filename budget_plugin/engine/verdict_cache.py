"""Verdicts by scope, kept for five seconds, and the one thread that reads them from the ledger.

The tool gate never touches SQLite: recording and admission replace entries from the totals that
they read in their own transaction, and what is missing is read by the refresher thread, for which
the gate waits a moment and no longer.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from cachetools import LRUCache, TTLCache

from ..policy.charges import ScopeId
from ..policy.verdicts import Verdict
from ..store.sql import forks
from .clock import Clock

log = logging.getLogger(__name__)

TTL_S: Final = 5.0
PATIENCE_S: Final = 0.040
"""How long the tool gate waits for the refresher; after that the last verdict stands."""

_KEPT: Final = 4_096


@dataclass(frozen=True, slots=True)
class ScopeVerdicts:
    """The verdicts over all limits of one scope; good inside `[start_ms, end_ms)` and `until_s`."""

    verdicts: tuple[Verdict, ...]
    start_ms: int
    end_ms: int
    until_s: float


class VerdictCache:
    """Keyed `(scope, scope_id)`. Entries end after `TTL_S` or with their window, what is first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._fresh: TTLCache[ScopeId, ScopeVerdicts] = TTLCache(
            _KEPT, TTL_S, timer=clock.monotonic
        )
        self._last: LRUCache[ScopeId, ScopeVerdicts] = LRUCache(_KEPT)
        self._changed: LRUCache[ScopeId, int] = LRUCache(_KEPT)
        self._orders: LRUCache[ScopeId, int] = LRUCache(_KEPT)
        self._cleared = 0
        self.generation = 0
        """Grows with every change; a gate that remembers it need not look again."""

    def get(self, scope: ScopeId, now_ms: int) -> ScopeVerdicts | None:
        """The fresh entry, if there is one."""
        with self._lock:
            return _in_time(self._fresh.get(scope), now_ms)

    def last(self, scope: ScopeId, now_ms: int) -> ScopeVerdicts | None:
        """The last entry however old, as long as its window lasts."""
        with self._lock:
            return _in_time(self._last.get(scope), now_ms)

    def changed(self, scope: ScopeId) -> int:
        """The generation of the scope's last change, for `put(…, since=…)`."""
        with self._lock:
            return max(self._changed.get(scope, 0), self._cleared)

    def put(
        self,
        scope: ScopeId,
        verdicts: tuple[Verdict, ...],
        *,
        since: int | None = None,
        order: int | None = None,
    ) -> bool:
        """Replace the entry of one scope.

        Args:
            since: what `changed` said before the verdicts were read; when the scope has changed
                meanwhile, they are older than what is known and the entry stays as it is.
            order: of the transaction that read them; that of a later one stays, too.

        Returns:
            Whether it was replaced.
        """
        now_ms, now_s = self._clock.now_ms(), self._clock.monotonic()
        start_ms = max((v.period.start_ms for v in verdicts), default=0)
        end_ms = min((v.period.end_ms for v in verdicts), default=now_ms + 86_400_000)
        until_s = now_s + min(TTL_S, (end_ms - now_ms) / 1000)
        with self._lock:
            if since is not None and max(self._changed.get(scope, 0), self._cleared) != since:
                return False
            if order is not None:
                if order < self._orders.get(scope, 0):
                    return False
                self._orders[scope] = order
            entry = ScopeVerdicts(verdicts, start_ms, end_ms, until_s)
            self._fresh[scope] = self._last[scope] = entry
            self.generation += 1
            self._changed[scope] = self.generation
            return True

    def drop(self, scopes: Iterable[ScopeId]) -> None:
        """Forget the fresh entries of these scopes; the last ones stay to fall back on."""
        with self._lock:
            self.generation += 1
            for scope in scopes:
                self._fresh.pop(scope, None)
                self._changed[scope] = self.generation

    def clear(self) -> None:
        """Forget everything: the limits have changed."""
        with self._lock:
            self._fresh.clear()
            self._last.clear()
            self.generation += 1
            self._cleared = self.generation


def _in_time(entry: ScopeVerdicts | None, now_ms: int) -> ScopeVerdicts | None:
    return entry if entry is not None and entry.start_ms <= now_ms < entry.end_ms else None


class Refresher:
    """One daemon thread that loads scopes on demand, each once however many ask at a time.

    Who asks while a load is under way waits for the next one: the first may have looked too early.

    Args:
        load: reads one scope and puts it into the cache; may raise, which is logged by its owner.
    """

    def __init__(self, load: Callable[[ScopeId], None]) -> None:
        self._load = load
        self._begin()
        forks.watch(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._asked: queue.SimpleQueue[ScopeId | None] = queue.SimpleQueue()
        self._to_load: dict[ScopeId, threading.Event] = {}
        self._thread: threading.Thread | None = None

    def wait_for(self, scopes: Iterable[ScopeId], patience_s: float) -> bool:
        """Have these scopes loaded and wait until they are, for `patience_s` at most in all.

        Returns:
            Whether they are.
        """
        deadline = time.monotonic() + patience_s
        events = [self._ask(scope) for scope in scopes]
        return all(event.wait(max(0.0, deadline - time.monotonic())) for event in events)

    def close(self) -> None:
        """End the thread."""
        with self._lock:
            if self._thread is not None:
                self._asked.put(None)
                self._thread = None

    def _ask(self, scope: ScopeId) -> threading.Event:
        with self._lock:
            event = self._to_load.get(scope)
            if event is None:
                event = self._to_load[scope] = threading.Event()
                self._asked.put(scope)
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="budget-refresher", daemon=True)
                thread.start()
                self._thread = thread
            return event

    def _run(self) -> None:
        while (scope := self._asked.get()) is not None:
            with self._lock:
                loaded = self._to_load.pop(scope)
            try:
                self._load(scope)
            except Exception:
                log.exception("reading the verdicts of %s failed", scope)
            finally:
                loaded.set()

    def before_fork(self) -> None:
        """Nothing to wait for."""

    def after_fork(self, *, in_child: bool) -> None:
        """The thread stays with the parent."""
        if in_child:
            self._begin()

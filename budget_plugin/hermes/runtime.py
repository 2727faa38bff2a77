"""What lives once per process: the engine, made on first use."""

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..engine.engine import Engine
    from .cron_jobs import CronJobs

log = logging.getLogger(__name__)


class Runtime:
    """The engine of this process, and the configuration before there is one.

    The engine brings SQLAlchemy (about 100 ms), so it is made behind the first turn's preparations
    and never by `register`.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self.profile: Callable[[], str] = lambda: ""
        self.on_engine: Callable[[Engine], None] = lambda engine: None
        self.cron: CronJobs | None = None
        self._lock = threading.RLock()
        self._engine: Engine | None = None
        self._pid = os.getpid()
        self._preloading = False

    @property
    def ready(self) -> bool:
        """Whether the engine exists already."""
        return self._engine is not None and self._pid == os.getpid()

    def engine(self) -> "Engine":
        """The engine; made on first use. A forked process makes its own."""
        if self._engine is not None and self._pid == os.getpid():
            return self._engine
        with self._lock:
            if self._engine is None or self._pid != os.getpid():
                self._engine = self._make()
                self._pid = os.getpid()
            return self._engine

    def preload(self) -> None:
        """Make the engine on a thread of its own, while the host prepares the turn."""
        if self.ready or self._preloading:
            return
        self._preloading = True
        threading.Thread(target=self._preload, name="budget-preload", daemon=True).start()

    def _preload(self) -> None:
        try:
            self.engine()
        except Exception:
            log.exception("the budget engine could not be made")
        finally:
            self._preloading = False

    def _make(self) -> "Engine":
        from ..engine.engine import Engine

        engine = Engine(self.home)
        self.on_engine(engine)
        return engine

    def nothing_configured(self) -> bool:
        """Whether the last look found no budget.yaml: then the tool gate has no work at all."""
        return self._engine is not None and self._engine.nothing_configured

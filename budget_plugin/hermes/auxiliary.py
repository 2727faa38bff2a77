"""The host's auxiliary calls: when to look for them, or what a newer host's hook says of them."""

import atexit
import logging
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ..policy.prices.usage import UsageReport, estimate_usage, read_usage
from .guard import guarded
from .identity import ids_of, run_of, word
from .runs import Runs
from .runtime import Runtime

if TYPE_CHECKING:
    from ..engine.auxiliary import Auxiliary
    from ..policy.events import Run

log = logging.getLogger(__name__)

_SEEN_BY_THE_GATE: Final = frozenset({"moa_aggregator", "background_review"})


class AuxiliaryCalls:
    """Of one process. Where the host has a hook for them, its database is left alone."""

    def __init__(self, runtime: Runtime, runs: Runs) -> None:
        self._runtime = runtime
        self._runs = runs
        self._lock = threading.Lock()
        self._of_engine: Auxiliary | None = None
        self.host_reports = False

    def look(self) -> None:
        """Look for new ones, on the recorder's thread; and once more when the process ends."""
        if not self.host_reports and self._runtime.ready:
            self._auxiliary().look_soon()

    @guarded(None)
    def reported(self, kwargs: Mapping[str, Any]) -> None:
        """`post_auxiliary_call`: an attempt that failed was not billed."""
        task = word(kwargs.get("aux_task")) or word(kwargs.get("task"))
        if task in _SEEN_BY_THE_GATE or kwargs.get("error"):
            return
        self._runtime.engine()
        self._auxiliary().reported(
            self._run(kwargs),
            _usage_of(kwargs),
            provider=word(kwargs.get("provider")),
            model=word(kwargs.get("model")),
            response_model=word(kwargs.get("response_model")),
            base_url=word(kwargs.get("base_url")),
            task=task or "auxiliary",
        )

    def _run(self, kwargs: Mapping[str, Any]) -> "Run":
        live = self._runs.known(kwargs)
        if live is not None:
            return live.run
        now_ms = self._runtime.engine().clock.now_ms()
        return self._auxiliary().own_run(ids_of(kwargs).session_id or "unknown", now_ms)

    def _auxiliary(self) -> "Auxiliary":
        from ..engine.auxiliary import Auxiliary
        from ..store.host_state import HostState

        engine = self._runtime.engine()
        with self._lock:
            found = self._of_engine
            if found is None or found.engine is not engine:
                host = HostState(self._runtime.home / "state.db")
                found = self._of_engine = Auxiliary(engine, host, self._open_run)
                if not self.host_reports:
                    # Registered after the recorder's own, so called before it.
                    atexit.register(found.look_soon)
            return found

    def _open_run(self, session_id: str, at_ms: int) -> "Run":
        return run_of({"session_id": session_id}, at_ms, self._runtime.profile())


def _usage_of(kwargs: Mapping[str, Any]) -> UsageReport:
    """What the host says; of a call whose usage it does not know, the answer's length at least."""
    report = read_usage(kwargs.get("usage"))
    if report.usage is not None:
        return report
    chars = kwargs.get("assistant_content_chars")
    return estimate_usage(0, chars if isinstance(chars, int) else 0, flags=report.flags)

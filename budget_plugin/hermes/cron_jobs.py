"""Cron jobs: paused through the host's own interface when a hard verdict covers them.

The host's job file is guarded by a lock that may take long, so pausing happens on a thread of its
own; the running session is stopped by the gates meanwhile.
"""

import logging
import queue
import threading
from typing import Any, Final

from .. import messages
from ..engine.engine import Engine
from ..policy.events import Run
from ..policy.verdicts import Verdict
from ..store.journal import Pause
from .runtime import guarded

log = logging.getLogger(__name__)

_ATTEMPTS: Final = 5
_RETRY_PAUSE_S: Final = 0.2
_JOURNAL_PATIENCE_S: Final = 2.0


class CronJobs:
    """Pauses the jobs that breach, and remembers which ones it was."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._asked: queue.Queue[tuple[Run, Verdict]] = queue.Queue()
        self._lock = threading.Lock()
        self._worker: threading.Thread | None = None

    def on_hard(self, run: Run, verdict: Verdict) -> None:
        """A hard verdict covers a run: have its cron job paused. Returns at once."""
        if not run.cron_job_id or not self._engine.rules().budget.cron.pause:
            return
        self._asked.put((run, verdict))
        with self._lock:
            if self._worker is None or not self._worker.is_alive():
                # Not a daemon: a one-shot `hermes cron tick` must not exit before the pause is in.
                self._worker = threading.Thread(target=self._work, name="budget-cron-pause")
                self._worker.start()

    def _work(self) -> None:
        while True:
            try:
                run, verdict = self._asked.get(timeout=_RETRY_PAUSE_S)
            except queue.Empty:
                with self._lock:
                    if self._asked.empty():
                        self._worker = None
                        return
                continue
            self._pause(run, verdict)

    @guarded(None)
    def _pause(self, run: Run, verdict: Verdict) -> None:
        job_id = run.cron_job_id
        if self._already_paused(job_id):
            return
        reason = messages.pause_reason(verdict, self._engine.rules().zone)
        job = self._asked_to_pause(job_id, reason)
        if job is None:
            log.warning("cron job %s could not be paused: the host does not know it", job_id)
            return
        pause = Pause(
            cron_job_id=job_id,
            paused_ms=self._engine.clock.now_ms(),
            until_ms=verdict.period.end_ms,
            reason=reason,
            scope=verdict.limit.scope,
            scope_id=verdict.limit.scope_id,
            window=verdict.limit.window,
            host_paused_at=str(job.get("paused_at") or ""),
        )
        self._engine.journal.note_pause(pause, _JOURNAL_PATIENCE_S)
        log.warning("cron job %s was paused: %s", job_id, reason)

    def _already_paused(self, job_id: str) -> bool:
        from cron.jobs import get_job

        job = get_job(job_id)
        return bool(job) and job.get("state") == "paused"

    def _asked_to_pause(self, job_id: str, reason: str) -> dict[str, Any] | None:
        """The paused job, or `None` when there is no such job; tried again on a fault."""
        from cron.jobs import pause_job

        for attempt in range(_ATTEMPTS):
            try:
                job: dict[str, Any] | None = pause_job(job_id, reason=reason)
                return job
            except OSError as error:
                log.debug("pausing cron job %s failed (%s); trying again", job_id, error)
                threading.Event().wait(_RETRY_PAUSE_S * (attempt + 1))
        raise OSError(f"cron job {job_id} could not be paused in {_ATTEMPTS} attempts")

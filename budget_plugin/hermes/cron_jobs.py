"""Cron jobs: paused when a hard verdict covers them, resumed at the reset.

The host's job file is guarded by a lock that may take long, so all of this happens on a thread of
its own; the running session is stopped by the gates meanwhile. No hook fires in an idle gateway:
while jobs of ours are paused, a thread waits for the earliest reset, and a marker file lets the
next process take over (its modification time is the reset).
"""

import logging
import os
import queue
import threading
from dataclasses import dataclass
from typing import Final

from .. import messages
from ..engine.engine import Engine
from ..engine.recorder import Write
from ..policy.events import Run
from ..policy.limits import CronResume, Scope
from ..policy.verdicts import Verdict, strictest
from ..store.journal import Pause
from ..store.sql.database import LedgerError
from . import cron_host
from .cron_marker import MARKER, marker_due_ms
from .guard import guarded

log = logging.getLogger(__name__)

_ATTEMPTS: Final = 5
_RETRY_PAUSE_S: Final = 0.2
_LONGEST_NAP_S: Final = 30.0
_RETRY_RESUME_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class _Breach:
    """A job to be paused, in the home where it lives."""

    run: Run
    verdict: Verdict
    home: str


class CronJobs:
    """Pauses the jobs that breach and resumes the ones that nobody touched since."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._breaches: queue.Queue[_Breach] = queue.Queue()
        self._lock = threading.Lock()
        self._pauser: threading.Thread | None = None
        self._resumer: threading.Thread | None = None
        self._changed = threading.Event()
        self._resuming = threading.Lock()

    # ------------------------------------------------------------------ pausing

    def on_hard(self, run: Run, verdict: Verdict) -> None:
        """A hard verdict covers a run: have its cron job paused. Returns at once."""
        if not run.cron_job_id or not self._engine.rules().budget.cron.pause:
            return
        self._breaches.put(_Breach(run, verdict, cron_host.active_home()))
        with self._lock:
            if self._pauser is None:
                # Not a daemon: a one-shot `hermes cron tick` must not exit before the pause is in.
                self._pauser = threading.Thread(target=self._pause_all, name="budget-cron-pause")
                self._pauser.start()

    def _pause_all(self) -> None:
        while True:
            try:
                breach = self._breaches.get_nowait()
            except queue.Empty:
                with self._lock:
                    if self._breaches.empty():
                        self._pauser = None
                        return
                continue
            self.pause(breach.run, breach.verdict, breach.home)

    @guarded(None)
    def pause(self, run: Run, verdict: Verdict, home: str) -> None:
        """Pause the run's job in this home, and note that it was us. Waits for the host's lock."""
        job_id = run.cron_job_id
        reason = messages.pause_reason(verdict, self._engine.rules().zone)
        with cron_host.store_of(home):
            known = cron_host.find(job_id)
            if known is not None and cron_host.is_paused(known):
                return  # by us, or by a person: theirs to resume
            job = self._paused_by_host(job_id, reason) if known is not None else None
        if job is None:
            log.warning("cron job %s was not paused: the host does not know it", job_id)
            return
        limit = verdict.limit
        self._remember(
            Pause(
                cron_job_id=job_id,
                paused_ms=self._engine.clock.now_ms(),
                until_ms=verdict.period.end_ms,
                reason=reason,
                scope=limit.scope,
                scope_id=limit.scope_id,
                window=limit.window,
                host_paused_at=str(job.get("paused_at") or ""),
                home=home,
                profile=run.profile,
            )
        )
        log.warning("cron job %s was paused: %s", job_id, reason)

    def _paused_by_host(self, job_id: str, reason: str) -> cron_host.Job | None:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return cron_host.pause(job_id, reason)
            except OSError as error:
                log.debug("pausing cron job %s failed (%s); trying again", job_id, error)
                if attempt == _ATTEMPTS:
                    raise
                threading.Event().wait(_RETRY_PAUSE_S * attempt)
        return None

    def _remember(self, pause: Pause) -> None:
        def apply(patience_s: float) -> None:
            self._engine.journal.note_pause(pause, patience_s)
            # Only now: who looks for jobs that are due must find this one.
            known_ms = marker_due_ms(self._engine.folder / MARKER)
            self._mark(min(pause.until_ms, known_ms or pause.until_ms))
            self.wait_for_resets()

        self._engine.recorder.now(Write(apply), self._engine.clock.now_ms())

    # ------------------------------------------------------------------ resuming

    def wait_for_resets(self) -> None:
        """Have a thread resume what is due, now and at each reset, until nothing of ours waits."""
        self._changed.set()
        with self._lock:
            if self._resumer is None:
                self._resumer = threading.Thread(
                    target=self._resume_when_due, name="budget-cron-resume", daemon=True
                )
                self._resumer.start()

    def _resume_when_due(self) -> None:
        while True:
            self._changed.clear()
            due_ms = self.resume_due()
            if due_ms is None:
                with self._lock:
                    if not self._changed.is_set():
                        self._resumer = None
                        return
                continue
            left_s = (due_ms - self._engine.clock.now_ms()) / 1000
            # In short naps: a laptop that slept, or a clock that was set, moves the reset.
            self._changed.wait(min(max(left_s, 1.0), _LONGEST_NAP_S))

    def resume_due(self) -> int | None:
        """Resume the jobs whose reset has passed, one after another.

        Returns:
            When the next one is due (UTC milliseconds), `None` when no job of ours is paused.
        """
        with self._resuming:
            return self._resume_due_alone()

    def _resume_due_alone(self) -> int | None:
        if self._engine.rules().budget.cron.resume is CronResume.MANUAL:
            self._unmark()
            return None
        try:
            left = [again for p in self._engine.journal.pauses() if (again := self._settle(p))]
        except LedgerError as error:
            log.debug("paused jobs could not be read: %s", error)
            return self._engine.clock.now_ms() + _RETRY_RESUME_MS
        if not left:
            self._unmark()
            return None
        self._mark(min(left))
        return min(left)

    def _settle(self, pause: Pause) -> int | None:
        """Resume one job if it is due; returns when to look at it again, `None` for never."""
        now_ms = self._engine.clock.now_ms()
        if now_ms < pause.until_ms:
            return pause.until_ms
        try:
            with cron_host.store_of(pause.home or cron_host.active_home()):
                return self._resume(pause, now_ms)
        except (OSError, RuntimeError) as error:  # its lock, or its file that cannot be read
            log.warning("cron job %s could not be resumed yet: %s", pause.cron_job_id, error)
            return now_ms + _RETRY_RESUME_MS

    def _resume(self, pause: Pause, now_ms: int) -> int | None:
        job = cron_host.find(pause.cron_job_id)
        if job is None or not _is_untouched(job, pause):
            self._forget(pause)
            return None
        verdict = self._engine.strictest_over_job(pause.cron_job_id, pause.profile)
        if verdict is not None and verdict.blocks:
            return verdict.period.end_ms  # another limit still holds it
        try:
            cron_host.resume(job, pause.until_ms, now_ms)
            log.warning("cron job %s was resumed: its budget has reset", pause.cron_job_id)
        except ValueError as error:
            log.warning("cron job %s stays paused: %s", pause.cron_job_id, error)
        self._forget(pause)
        return None

    def _forget(self, pause: Pause) -> None:
        journal = self._engine.journal
        write = Write(lambda patience_s: journal.forget_pause(pause.cron_job_id, patience_s))
        self._engine.recorder.now(write, self._engine.clock.now_ms())

    # ------------------------------------------------------------------ the marker

    def _mark(self, due_ms: int) -> None:
        marker = self._engine.folder / MARKER
        try:
            marker.touch(mode=0o600)
            os.utime(marker, (due_ms / 1000, due_ms / 1000))
        except OSError as error:
            log.debug("the reset could not be marked: %s", error)

    def _unmark(self) -> None:
        try:
            (self._engine.folder / MARKER).unlink(missing_ok=True)
        except OSError as error:
            log.debug("the mark of the reset could not be removed: %s", error)

    # ------------------------------------------------------------------ the model's own cron tool

    def refuses_tool(self, args: object) -> Verdict | None:
        """The hard verdict over the job that a `cronjob` tool call would set going, if any."""
        if not isinstance(args, dict) or args.get("action") not in ("resume", "run"):
            return None
        job_id = cron_host.resolve(str(args.get("job_id") or args.get("name") or ""))
        if not job_id:
            return None
        verdict = strictest(self._engine.judge.verdicts([(Scope.CRON_JOB, job_id)]))
        return verdict if verdict is not None and verdict.blocks else None


def _is_untouched(job: cron_host.Job, pause: Pause) -> bool:
    """Whether the job is still paused by us: the host's own stamp is the one we noted."""
    return cron_host.is_paused(job) and str(job.get("paused_at") or "") == pause.host_paused_at

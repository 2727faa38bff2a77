"""The host's cron jobs as the budget's commands see them: found, paused and resumed by a person."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..commands.asking import CronJob, JobStoreError
from . import cron_host


class HostJobStore:
    """The jobs of one home; see `commands.asking.JobStore`.

    Args:
        profile: the profile under which jobs of this home run.
    """

    def __init__(self, home: Path, profile: Callable[[], str]) -> None:
        self._home = str(home)
        self._profile = profile

    def find(self, job_id: str) -> CronJob | None:
        """The job with this id."""
        with self._opened():
            job = cron_host.find(job_id)
        if job is None:
            return None
        paused = cron_host.is_paused(job)
        return CronJob(
            job_id=str(job["id"]),
            paused=paused,
            paused_at=str(job.get("paused_at") or ""),
            paused_why=str(job.get("paused_reason") or "") if paused else "",
            ended=not paused and not job.get("enabled", True),
            profile=self._profile(),
        )

    def pause(self, job_id: str, why: str) -> None:
        """Pause it, whoever may have paused it before."""
        with self._opened():
            _known(cron_host.pause(job_id, why))

    def resume(self, job_id: str) -> None:
        """Resume it, whoever has paused it."""
        with self._opened():
            _known(cron_host.resume_from_now(job_id))

    @contextmanager
    def _opened(self) -> Iterator[None]:
        try:
            with cron_host.store_of(self._home):
                yield
        except JobStoreError:
            raise
        except Exception as error:  # its lock, its file, a time that has passed, its version
            raise JobStoreError(str(error)) from error


def _known(job: cron_host.Job | None) -> None:
    if job is None:
        raise JobStoreError("the job is gone")

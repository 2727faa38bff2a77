"""Names of the host's cron jobs: limits go by a job's id, people know it by its name.

A model may rename a job, and must not slip out of its limit that way: a name is only ever shown, or
turned into the id at the moment when a person types it.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from .files.watched_file import Parsed, WatchedFile

_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class HostJobs:
    """The jobs of one home, read from the host's own file; never raises."""

    def __init__(self, home: Path) -> None:
        self._file = WatchedFile(home / "cron" / "jobs.json", _parse, _NONE)

    def names(self) -> Mapping[str, str]:
        """Job id → name, as the file stands now; empty where there are no jobs."""
        return self._file.current()

    def ids_of(self, reference: str) -> list[str]:
        """The ids behind what a person wrote: an id itself, else every job of that name.

        Capitals do not matter in a name, as in the host's own commands.
        """
        names = self.names()
        if reference in names:
            return [reference]
        wanted = reference.casefold()
        return [job_id for job_id, name in names.items() if name.casefold() == wanted]


def _parse(raw: bytes) -> Parsed[Mapping[str, str]]:
    jobs: Any = json.loads(raw)["jobs"]
    names = {job["id"]: job.get("name") for job in jobs if isinstance(job.get("id"), str)}
    return Parsed({job_id: name for job_id, name in names.items() if isinstance(name, str)})

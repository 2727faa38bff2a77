"""What is handed to the host: light callbacks that load the plugin when the first one is called.

`register` runs in front of every one of the host's commands. The plugin's parts take about 40 ms to
import (most of it the making of dataclasses), so they come behind the first door that opens.
"""

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .cron_marker import take_over

if TYPE_CHECKING:
    from .parts import Parts

log = logging.getLogger(__name__)

MODEL_GATE: Final = "gate.llm_execution"


class Door:
    """One callback: `Doors.parts().<path>`, looked up when it is first called."""

    __slots__ = ("__name__", "_doors", "_path", "_target")

    def __init__(self, doors: "Doors", path: str) -> None:
        self.__name__ = path.rpartition(".")[2]
        self._doors = doors
        self._path = path
        self._target: Callable[..., Any] = self._first_time

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._target(*args, **kwargs)

    def _first_time(self, *args: Any, **kwargs: Any) -> Any:
        owner, _, name = self._path.partition(".")
        try:
            self._target = getattr(getattr(self._doors.parts(), owner), name)
        except Exception:
            log.exception("the budget could not be loaded; nothing is recorded or limited")
            self._target = _go_on if self._path == MODEL_GATE else _nothing
        return self._target(*args, **kwargs)


def _go_on(**kwargs: Any) -> Any:
    """The model gate of a plugin that could not be loaded: the call goes on."""
    return kwargs["next_call"]()


def _nothing(*_: Any, **__: Any) -> None:
    """Any other callback of a plugin that could not be loaded."""


class Doors:
    """The callbacks of one home; each is made once, so that the host's list can be asked for it."""

    def __init__(self, home: Path) -> None:
        self.profile: Callable[[], str] = lambda: ""
        self.host_reports_auxiliary = False
        """The host has a hook for auxiliary calls; its database is then left alone."""
        self.home = home
        self._lock = threading.Lock()
        self._doors: dict[str, Door] = {}
        self._parts: Parts | None = None
        take_over(home / "budget", self._resume_cron_jobs)

    def door(self, path: str) -> Door:
        """The callback for a method of the parts, e.g. `tools.pre_tool_call`."""
        return self._doors.setdefault(path, Door(self, path))

    def parts(self) -> "Parts":
        """The plugin's parts, loaded on first use."""
        with self._lock:
            if self._parts is None:
                from .parts import Parts

                self._parts = Parts(self.home, self._active_profile)
                self._parts.auxiliary.host_reports = self.host_reports_auxiliary
            return self._parts

    def _active_profile(self) -> str:
        return self.profile()

    def _resume_cron_jobs(self) -> None:
        self.parts().resume_cron_jobs()

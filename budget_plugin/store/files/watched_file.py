"""A configuration file that is read again only when it has changed, and never raises.

The key is the stat signature `(st_ino, st_mtime_ns, st_size)`: an unchanged file costs one stat and
no open. budget.yaml and pricing.yaml are both read through this.
"""

import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from ...policy.limits import Problem

log = logging.getLogger(__name__)

T = TypeVar("T")
Signature = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Parsed(Generic[T]):
    """What a parser made of a file: `value` is `None` when the file must not come into force."""

    value: T | None
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Look(Generic[T]):
    """One look at the file; replaced whole, so that readers need no lock.

    While the file is `failing`, `value` is the last good one and says nothing about its content.
    """

    value: T
    problems: tuple[Problem, ...]
    seen: "Signature | str | None"
    """The signature that was read, `_MISSING`, a stat error's text; `None` before any look."""
    generation: int
    failing: bool


_MISSING = "missing"


class WatchedFile(Generic[T]):
    """The current meaning of one file.

    A missing file means `default`. A file that cannot be read or understood leaves the last good
    value in force (`default` if there was none) and is tried again once its signature changes.

    Args:
        parse: bytes → `Parsed`; may raise anything (a failing import included).
    """

    def __init__(self, path: Path, parse: Callable[[bytes], Parsed[T]], default: T) -> None:
        self.path = path
        self._where = os.fspath(path)  # at every tool call: a Path costs twice as much to look at
        self._parse = parse
        self._default = default
        self._lock = threading.Lock()
        self._state = Look(default, (), None, 0, False)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the file as it was last read; empty when all is well."""
        return self._state.problems

    @property
    def generation(self) -> int:
        """Grows whenever the value in force may have changed."""
        return self._state.generation

    @property
    def missing(self) -> bool:
        """Whether the last look found no file."""
        return self._state.seen == _MISSING

    @property
    def last_look(self) -> Look[T]:
        """The last look as a whole: its parts are of one moment."""
        return self._state

    def current(self, *, look_again: bool = True) -> T:
        """The value in force, after one stat; see `look`."""
        return self.look(look_again=look_again).value

    def look(self, *, look_again: bool = True) -> Look[T]:
        """The file after one stat; the same object as long as nothing has changed.

        With `look_again=False` a file that was missing at the last look is taken to be missing
        still, without touching the disk: the tool gate of an unconfigured process uses this.
        """
        state = self._state
        if state.seen == _MISSING and not look_again:
            return state
        # Taken before the read: a change during the read is then seen by the next call.
        seen = self._signature()
        if seen == state.seen:
            return state
        with self._lock:
            if seen != self._state.seen:
                self._state = self._read(seen)
            return self._state

    def reload(self) -> T:
        """Forget the signature and read the file again, changed or not."""
        with self._lock:
            self._state = self._read(self._signature())
            return self._state.value

    def _signature(self) -> Signature | str:
        try:
            stat = os.stat(self._where)  # noqa: PTH116
        except FileNotFoundError:
            return _MISSING
        except (OSError, ValueError) as error:
            return f"cannot be looked at: {error}"
        return (stat.st_ino, stat.st_mtime_ns, stat.st_size)

    def _read(self, seen: Signature | str) -> Look[T]:
        before = self._state
        if seen == _MISSING:
            return Look(self._default, (), seen, before.generation + 1, False)
        try:
            if isinstance(seen, str):
                raise OSError(seen)
            parsed = self._parse(self.path.read_bytes())
        except Exception as error:  # noqa: BLE001  (never raises: this runs inside the host's hooks)
            parsed = Parsed(None, (Problem(str(self.path), None, "", f"cannot be read: {error}"),))
        failing = parsed.value is None
        if parsed.problems:
            self._tell(parsed.problems, failing=failing, again=before.failing)
        value = before.value if parsed.value is None else parsed.value
        return Look(value, parsed.problems, seen, before.generation + 1, failing)

    def _tell(self, problems: tuple[Problem, ...], *, failing: bool, again: bool) -> None:
        """One WARNING per streak of failures, DEBUG after."""
        level = logging.DEBUG if failing and again else logging.WARNING
        force = "; what was in force before stays so" if failing else ""
        for problem in problems:
            log.log(level, "%s%s", problem, force)

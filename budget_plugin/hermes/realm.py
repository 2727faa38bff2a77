"""Which files are ours, however a path to them is spelled: links, `..`, profiles, patterns."""

import os
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Final

from ..policy import protection
from ..policy.protection import Act

_SIDES: Final = ("", "-wal", "-shm", "-journal")
_GLOB: Final = frozenset("*?[")


class Whose(Enum):
    """What a path leads to; `CONFIG` is the host's file that says which plugins are on."""

    NOBODYS = 0
    OURS = 1
    CONFIG = 2


class Realm:
    """The files that are ours, wherever a path to them leads through.

    Args:
        home: the process's home; the profiles beside or below it are ours too.
        extra: further files, such as a ledger elsewhere.
        folds: whether the file system takes `A` for `a`; found out where it is not given.
    """

    def __init__(
        self,
        home: Path,
        extra: Callable[[], Path] | None = None,
        *,
        package: Path | None = None,
        folds: bool | None = None,
    ) -> None:
        self._folds = _folds_case(home) if folds is None else folds
        root = home.parent.parent if home.parent.name == "profiles" else home
        self._homes = tuple({self._real(str(place)): None for place in (home, root)})
        package = package or Path(__file__).resolve().parents[1]
        is_copied = package.parent.parent.name == "plugins"
        self._package = self._real(str(package.parent if is_copied else package))
        self._extra = extra
        self._extra_path = ""
        self._extra_reals: frozenset[str] = frozenset()
        self.home = home

    def look(self, path: str, act: Act = Act.WRITE) -> Whose:
        """Whose an absolute path is; for a removal what lies below it counts too."""
        real = self._real(path)
        if self._is_in(real) or self._is_linked(path):
            return Whose.OURS
        if act is Act.REMOVE and self._is_above(real):
            return Whose.OURS
        return Whose.CONFIG if self._is_config(real) else Whose.NOBODYS

    def _is_config(self, real: str) -> bool:
        folder, _, name = real.rpartition(os.sep)
        if name != "config.yaml":
            return False
        return any(
            folder == home or folder.rpartition(os.sep)[0] == f"{home}{os.sep}profiles"
            for home in self._homes
        )

    def is_matched(self, pattern: str, act: Act) -> bool:
        """Whether a shell's pattern may stand for something of ours; False for a plain path."""
        if _GLOB.isdisjoint(pattern):
            return False
        parts = pattern.split("/")
        first = next(at for at, part in enumerate(parts) if not _GLOB.isdisjoint(part))
        fixed = _parts(self._real("/".join(parts[:first]) or "/"))
        names = [*fixed, *(self._fold(part) for part in parts[first:] if part)]
        return any(_covers(names, ours, act) for ours in self._patterns())

    def _patterns(self) -> Iterator[list[str]]:
        for home in self._homes:
            base = _parts(home)
            for tail in (["budget"], ["plugins", "budget"]):
                yield [*base, *tail]
                yield [*base, "profiles", "*", *tail]
        yield _parts(self._package)

    def _is_in(self, real: str) -> bool:
        if _below(real, self._package) is not None or real in self._extra_files():
            return True
        for home in self._homes:
            parts = _below(real, home)
            if parts is None:
                continue
            if parts[:1] == ["profiles"]:
                parts = parts[2:]
            if parts[:1] == ["budget"] or parts[:2] == ["plugins", "budget"]:
                return True
        return False

    def _is_above(self, real: str) -> bool:
        if any(_below(home, real) is not None for home in (*self._homes, self._package)):
            return True
        for home in self._homes:
            parts = _below(real, home) or []
            if parts[:1] == ["profiles"] and len(parts) <= 2:
                return True
            if parts == ["plugins"] or (parts[:1] == ["profiles"] and parts[2:] == ["plugins"]):
                return True
        return False

    def _is_linked(self, path: str) -> bool:
        """Whether a file is one of ours under a second name (a hard link)."""
        try:
            stat = os.stat(path)  # noqa: PTH116
        except (OSError, ValueError):
            return False
        if stat.st_nlink < 2:
            return False
        return any(_same(file, stat) for file in self._own_files())

    def _own_files(self) -> Iterator[str]:
        for home in self._homes:
            for name in ("budget.yaml", "pricing.yaml", "ledger.db"):
                yield os.path.join(home, "budget", name)  # noqa: PTH118
        yield from self._extra_files()

    def _extra_files(self) -> frozenset[str]:
        if self._extra is None:
            return frozenset()
        path = str(self._extra())
        if path != self._extra_path:
            real = self._real(path)
            self._extra_path = path
            self._extra_reals = frozenset(real + side for side in _SIDES)
        return self._extra_reals

    def _real(self, path: str) -> str:
        try:
            return self._fold(os.path.realpath(path))
        except (OSError, ValueError):
            return self._fold(os.path.normpath(path))

    def _fold(self, path: str) -> str:
        return path.casefold() if self._folds else path


def _parts(path: str) -> list[str]:
    return [part for part in path.split(os.sep) if part]  # noqa: PTH206


def _below(path: str, folder: str) -> list[str] | None:
    """The parts of a path below a folder; `None` if it lies elsewhere."""
    if path == folder:
        return []
    start = folder if folder.endswith(os.sep) else folder + os.sep
    return _parts(path[len(start) :]) if path.startswith(start) else None


def _covers(names: list[str], ours: list[str], act: Act) -> bool:
    """Whether the parts of a pattern match a path of ours, or (for a removal) one above it."""
    if len(names) < len(ours) and act is not Act.REMOVE:
        return False
    return all(map(_matches, ours, names))


def _matches(name: str, pattern: str) -> bool:
    if name == "*" or pattern == "**":
        return True
    if name.startswith(".") and not pattern.startswith("."):
        return False  # a shell's `*` leaves hidden names out
    return protection.matches(name, pattern)


def _same(file: str, stat: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(file), stat)  # noqa: PTH116
    except OSError:
        return False


def _folds_case(home: Path) -> bool:
    swapped = str(home).swapcase()
    try:
        return os.path.samefile(home, swapped)  # noqa: PTH121
    except OSError:
        return False

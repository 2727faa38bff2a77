"""Sets and unsets one limit in budget.yaml: locked, checked before it is kept, written whole.

Only the value changes: comments, order, quotes and unknown keys stay as they are. The new text is
read again and must mean exactly the old budget with this one change, else nothing is written.

    ConfigRefused    every reason why the file was left as it is
"""

import importlib.util
import os
import re
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

from ...policy.limits import SCOPES, Budget, Key, Measure, Problem, Scope
from ...policy.money import AmountError, written_usd
from .config import parse_budget
from .config_reading import LostLimit
from .config_values import amount_from_text
from .yaml_nodes import Unreadable, dotted, shown
from .yaml_splice import CannotEdit, Step, cut, plain, put, quoted

HEAD: Final = (
    "# Limits of hermes-budget. Every key is explained in budget.yaml.example.\n"
    "# An edit acts at the next check; `hermes budget check` tells what was not understood.\n"
)
LOCK_WAIT_S: Final = 10.0
STALE_LOCK_S: Final = 30.0
"""Age at which a lock file without a kernel lock is taken to be left behind; an edit takes ms."""

_HAS_FLOCK: Final = importlib.util.find_spec("fcntl") is not None
_BOM: Final = b"\xef\xbb\xbf"


class ConfigRefused(Exception):
    """The file was left as it is. The text is for a person; `problems` name places in the file."""

    def __init__(self, message: str, problems: tuple[Problem, ...] = ()) -> None:
        super().__init__(message)
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Change:
    """What an edit did to one limit.

    Attributes:
        scope_id: empty for `global` and for a scope's default.
        before, after: the effective limit, what an override inherits included, in nano-dollars or
            a count; `None` is no limit.
        observed: it blocks nothing: its part of the file has `mode: observe`.
        path_in_file: for people, e.g. `budgets.per_sender.overrides.telegram:1.daily_usd`.
    """

    scope: Scope
    scope_id: str
    key: Key
    before: int | None
    after: int | None
    path_in_file: str
    observed: bool = False


def set_limit(path: Path, scope: Scope, scope_id: str, key: Key, amount: int | None) -> Change:
    """Write one limit; the file and its folder are made if they are missing.

    Args:
        scope_id: empty for `global`, and for the default of every other scope.
        amount: nano-dollars for usd, else a count; `None` is written as `null`: no limit, and in
            an override the default's limit is lifted.

    Raises:
        ConfigRefused: the file is malformed, locked or not writable, the change would alter
            anything else, or `global` was given an id.
    """
    return _change(_Edit(path, scope, scope_id, key, amount))


def unset_limit(path: Path, scope: Scope, scope_id: str, key: Key) -> Change:
    """Remove one limit; an override then inherits the default again. Raises as `set_limit` does."""
    return _change(_Edit(path, scope, scope_id, key, None, remove=True))


def would_be_observed(path: Path, scope: Scope, scope_id: str, key: Key, amount: int) -> bool:
    """Whether a limit set there would block nothing. Raises as `set_limit` does."""
    _, after = planned(_Edit(path, scope, scope_id, key, amount))
    return (scope, scope_id, key) in _observed(after)


def parse_amount(text: str, measure: Measure = Measure.USD) -> tuple[Measure, int | None]:
    """The amount of a command: `7.50`, `900 calls`, `200000 tokens`, `none`.

    Args:
        measure: what a bare number counts.

    Raises:
        AmountError: says what would be right.
    """
    words = _AMOUNT.fullmatch(text.strip())
    if words is None:
        raise AmountError("expected an amount such as 7.50, 900 calls or 200000 tokens")
    if words["measure"]:
        measure = _MEASURES[words["measure"].lower()]
    return measure, amount_from_text(measure, words["number"])


_MEASURES: Final = {
    "call": Measure.CALLS,
    "calls": Measure.CALLS,
    "token": Measure.TOKENS,
    "tokens": Measure.TOKENS,
}
_AMOUNT: Final = re.compile(r"(?P<number>.+?)\s*(?P<measure>calls?|tokens?)?", re.IGNORECASE)


def _written(measure: Measure, amount: int | None) -> str:
    """`7.50`, `3`, `0.0018`; counts as they are; `null` for no limit."""
    if amount is None:
        return "null"
    return written_usd(amount) if measure is Measure.USD else str(amount)


# --- one edit -----------------------------------------------------------------------------------

_Flat = dict[tuple[Scope, str, Key], int | None]
"""Every number of a budget by its place; the id of a default is empty."""


@dataclass(frozen=True, slots=True)
class _Edit:
    """One limit of one file, and what is to become of it."""

    path: Path
    scope: Scope
    scope_id: str
    key: Key
    amount: int | None
    remove: bool = False

    @property
    def steps(self) -> tuple[Step, ...]:
        """The keys that lead to the limit."""
        kind, last = SCOPES[self.scope], plain(str(self.key))
        above = (plain("budgets"), plain(kind.config_key))
        if not kind.takes_id:
            return (*above, last)
        if not self.scope_id:
            return (*above, plain("default"), last)
        return (*above, plain("overrides"), quoted(self.scope_id), last)

    def apply(self, text: str) -> str:
        """The text of the file after the change."""
        if not self.remove:
            return put(text, self.steps, _written(self.key.measure, self.amount))
        return cut(text, self.steps)

    def is_all(self, before: Budget, after: Budget) -> bool:
        """Whether this limit alone is another; what is observed stays so."""
        place = (self.scope, self.scope_id, self.key)
        expected = _flat(before)
        expected.pop(place, None)
        if not self.remove:
            expected[place] = self.amount
        others = _observed(before) - {place} == _observed(after) - {place}
        rest = replace(after, scopes={}) == replace(before, scopes={})
        return _flat(after) == expected and others and rest

    def effective(self, budget: Budget) -> int | None:
        """The limit that holds, what an override inherits included."""
        numbers = _flat(budget)
        own = (self.scope, self.scope_id, self.key)
        return numbers[own] if own in numbers else numbers.get((self.scope, "", self.key))

    def done(self, before: Budget, after: Budget) -> Change:
        """What to tell the person."""
        where = dotted(step.key for step in self.steps)
        was, now = self.effective(before), self.effective(after)
        observed = (self.scope, self.scope_id, self.key) in _observed(after)
        return Change(self.scope, self.scope_id, self.key, was, now, where, observed)


def _flat(budget: Budget) -> _Flat:
    """As it is written, whether a limit holds or is only observed."""
    return {
        (scope, scope_id, key): amount
        for scope, limits in budget.scopes.items()
        for scope_id, key, amount, _ in limits.amounts()
    }


def _observed(budget: Budget) -> set[tuple[Scope, str, Key]]:
    return {(scope, *place) for scope, limits in budget.scopes.items() for place in limits.observed}


def _change(edit: _Edit) -> Change:
    if edit.scope_id and not SCOPES[edit.scope].takes_id:
        raise ConfigRefused(f"{edit.scope} takes no id; leave out {shown(edit.scope_id)}")
    return edit.done(*rewrite(edit))


class FileEdit(Protocol):
    """One change of a file: how its text becomes another, and what that may mean."""

    @property
    def path(self) -> Path:
        """The file."""

    @property
    def remove(self) -> bool:
        """Whether something is taken away; a file that is not there stays so."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """The keys that lead to the value."""

    def apply(self, text: str) -> str:
        """The text of the file after the change."""

    def is_all(self, before: Budget, after: Budget) -> bool:
        """Whether the two budgets differ in this change and in nothing else."""


def rewrite(edit: FileEdit) -> tuple[Budget, Budget]:
    """Carry an edit out, locked and checked; what the file meant before and means now.

    Raises:
        ConfigRefused: the file was left as it is.
    """
    try:
        real = edit.path.resolve()
        if edit.remove and not real.exists():
            return Budget(), Budget()
        real.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _locked(real.with_name(f"{real.name}.lock")):
            return _rewritten(real, edit, write=True)
    except OSError as error:
        raise ConfigRefused(f"{edit.path} cannot be changed: {error}") from error


def planned(edit: FileEdit) -> tuple[Budget, Budget]:
    """What `rewrite` would make of the file as it is; nothing is written. Raises as it does."""
    try:
        return _rewritten(edit.path.resolve(), edit, write=False)
    except OSError as error:
        raise ConfigRefused(f"{edit.path} cannot be read: {error}") from error


def _rewritten(real: Path, edit: FileEdit, *, write: bool) -> tuple[Budget, Budget]:
    data = real.read_bytes() if real.exists() else HEAD.encode()
    before = _understood(data, edit)
    try:
        text = edit.apply(data.decode("utf-8-sig"))
    except (CannotEdit, Unreadable) as error:
        raise ConfigRefused(f"{edit.path} was left as it is: {error}") from error
    changed = (_BOM if data.startswith(_BOM) else b"") + text.encode()
    after = _checked(changed, edit, before)
    if write and changed != data:
        _write_whole(real, changed)
    return before, after


def _understood(data: bytes, edit: FileEdit) -> Budget:
    """The budget as it is; refuses a file that is not understood."""
    parsed = parse_budget(data, str(edit.path))
    if parsed.value is None:
        raise ConfigRefused(
            f"{edit.path} was left as it is, because it is not understood; correct it first",
            parsed.problems,
        )
    misspelt = tuple(problem for problem in parsed.problems if isinstance(problem, LostLimit))
    if edit.remove and misspelt:
        # A running process keeps a limit that vanishes beside a misspelt key (see BudgetFile).
        raise ConfigRefused(
            f"{edit.path} has a key that is not understood; correct it before a limit is removed, "
            "or set the limit to none",
            misspelt,
        )
    return parsed.value


def _checked(changed: bytes, edit: FileEdit, before: Budget) -> Budget:
    """The budget that the new text means; refuses one that differs in anything but this edit."""
    parsed = parse_budget(changed, str(edit.path))
    after = parsed.value
    if after is None or not edit.is_all(before, after):
        raise ConfigRefused(
            f"{edit.path} was left as it is: {dotted(step.key for step in edit.steps)} is written "
            "in a way that a program cannot change alone; edit it by hand",
            parsed.problems if after is None else (),
        )
    return after


# --- the file -----------------------------------------------------------------------------------


def _write_whole(real: Path, data: bytes) -> None:
    """The file is the old one or the new one, also after a crash. Keeps its mode and owner."""
    descriptor, name = tempfile.mkstemp(prefix=f".{real.name}.", suffix=".tmp", dir=real.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            _copy_rights(real, name)
            os.fsync(file.fileno())
        Path(name).replace(real)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    _sync_folder(real.parent)


def _copy_rights(real: Path, name: str) -> None:
    """A fresh temporary file is 0600 and ours; root must not take the file from its user."""
    if not real.exists():
        return
    old = real.stat()
    Path(name).chmod(stat.S_IMODE(old.st_mode))
    if hasattr(os, "chown"):
        with suppress(OSError):
            os.chown(name, old.st_uid, old.st_gid)


def _sync_folder(folder: Path) -> None:
    """Makes the rename last; some systems and file systems cannot, and need not."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def _locked(lock: Path) -> Iterator[None]:
    """One writer at a time, across processes.

    Raises:
        ConfigRefused: another writer kept the lock for `LOCK_WAIT_S`.
    """
    take = _take_flock if _HAS_FLOCK else _take_exclusive_file
    give_up_at = time.monotonic() + LOCK_WAIT_S
    while (release := take(lock)) is None:
        if time.monotonic() > give_up_at:
            raise ConfigRefused(
                f"another writer has held {lock} for {LOCK_WAIT_S:.0f} s; try again"
            )
        time.sleep(0.005)
    try:
        yield
    finally:
        release()


def _take_flock(lock: Path) -> Callable[[], None] | None:
    """The kernel's lock: it ends with its process, so the file may stay. `None`: someone has it."""
    import fcntl

    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:
        os.close(descriptor)
        raise
    return lambda: os.close(descriptor)


def _take_exclusive_file(lock: Path) -> Callable[[], None] | None:
    """Where there is no `flock`: whoever creates the file has the lock, and removes it after."""
    try:
        os.close(os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        with suppress(FileNotFoundError):
            if time.time() - lock.stat().st_mtime > STALE_LOCK_S:
                lock.unlink()
        return None
    return lambda: lock.unlink(missing_ok=True)

"""What of the host's auxiliary calls is in our ledger already, and what was spent before it began.

The host's rows only count up, so that "new" is what they say, less what we have written, less what
they said when this ledger began. The last is kept in a small file beside the ledger.
"""

import json
import logging
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sqlalchemy import bindparam, func, select

from ..policy.prices.usage import REASONING_SEPARATE
from .host_state import AuxiliaryUsage, Counts
from .sql.database import Statement
from .sql.schema import calls, runs

log = logging.getLogger(__name__)

BASELINE: Final = "auxiliary-baseline.json"
_LOCK: Final = "auxiliary.lock"

_RECORDED: Final = Statement(
    select(
        calls.c.input_tokens,
        calls.c.output_tokens,
        calls.c.cache_read_tokens,
        calls.c.cache_write_tokens,
        calls.c.reasoning_tokens,
        calls.c.cost_source,
        calls.c.cost_nanos,
        calls.c.flags,
    ).where(calls.c.attempt_id > bindparam("first"), calls.c.attempt_id < bindparam("last"))
)
_BEGUN: Final = Statement(select(func.min(runs.c.started_ms)))
_RUN_AT: Final = Statement(
    select(runs.c.run_id)
    .where(runs.c.session_id == bindparam("s"))
    # The last one that had begun; before all of them, the first.
    .order_by(runs.c.started_ms > bindparam("at"), func.abs(runs.c.started_ms - bindparam("at")))
    .limit(1)
)


def begun_ms(connection: sqlite3.Connection) -> int | None:
    """When the first run in this ledger began; `None` in an empty one."""
    found: int | None = _BEGUN.run(connection).fetchone()[0]
    return found


def run_at(connection: sqlite3.Connection, session_id: str, at_ms: int) -> str | None:
    """The session's run at this time: the last that had begun."""
    row = _RUN_AT.run(connection, s=session_id, at=at_ms).fetchone()
    return row[0] if row else None


def recorded(connection: sqlite3.Connection, key: str) -> Counts:
    """What our rows of one of the host's rows add up to, as the host counts it."""
    total = Counts()
    # Our attempts are `<key>:<number>`; the semicolon is the character after the colon.
    for row in _RECORDED.run(connection, first=f"{key}:", last=f"{key};").fetchall():
        fresh, output, read, write, reasoning, source, nanos, flags = row
        if REASONING_SEPARATE in flags.split():
            output -= reasoning  # it was added to be billed; the host counts it apart
        stated = nanos if source == "provider" else 0
        total = total.plus(Counts(1, fresh, output, read, write, reasoning, stated))
    return total


class Baseline:
    """What the host's rows said when the ledger of this folder began: not ours to charge."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / BASELINE
        self._counts: Mapping[str, Counts] = {}
        self.taken_ms: int | None = None
        """When it was taken; `None` while there is none."""

    def is_of(self, begun_ms: int) -> bool:
        """Whether it was taken for a ledger that began at this time."""
        return self.taken_ms is not None and self.taken_ms >= begun_ms

    def load(self) -> None:
        """Read the file; one that cannot be understood counts as missing."""
        try:
            content = json.loads(self._path.read_text(encoding="utf-8"))
            counts = {str(key): Counts(*map(int, row)) for key, row in content["rows"].items()}
            self.taken_ms, self._counts = int(content["taken_ms"]), counts
        except FileNotFoundError:
            return
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            log.warning("%s cannot be read and is made anew: %s", self._path, error)

    def take(self, rows: Iterable[AuxiliaryUsage], now_ms: int) -> None:
        """Write down how the host's rows stand now.

        Raises:
            OSError: the file could not be written.
        """
        counts = {row.key: row.counts for row in rows}
        fresh = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        fresh.write_text(json.dumps({"taken_ms": now_ms, "rows": counts}), encoding="utf-8")
        fresh.replace(self._path)
        self.taken_ms, self._counts = now_ms, counts

    def of(self, key: str) -> Counts:
        """What the row of this key said then."""
        return self._counts.get(key, Counts())


@contextmanager
def alone(folder: Path) -> Iterator[bool]:
    """Whether no other process looks at the host's rows at the moment; the lock is held inside.

    Two that looked at once would split the same calls differently.
    """
    try:
        descriptor = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    except OSError:  # nothing can be written here; the ledger lies elsewhere
        yield True
        return
    try:
        yield _locked(descriptor)
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    """Take the lock. Where there are none, two looks at the same moment are left to chance."""
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return True
    return True

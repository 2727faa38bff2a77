"""Imported rows in the ledger: calls that the host noted before this plugin saw any.

They belong to runs of the kind `import`, one a session, so that they can be told apart and taken
out again.
"""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import bindparam, func, select

from ..policy.events import IMPORTED
from .host_state import Counts
from .sql.database import Database, Statement
from .sql.schema import calls, day_sums, runs, spend_totals

_TOKENS: Final = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
)
_OF_A_CALL: Final = {
    **{name: calls.c[name] for name in _TOKENS},
    "cache_write_tokens": calls.c.cache_write_tokens + calls.c.cache_write_1h_tokens,
}
_WRITTEN: Final = Statement(
    select(func.count(), *(func.coalesce(func.sum(_OF_A_CALL[name]), 0) for name in _TOKENS))
    .select_from(calls)
    .join(runs, runs.c.run_id == calls.c.run_id)
    .where(
        runs.c.session_id == bindparam("s"),
        calls.c.model == bindparam("m"),
        calls.c.auxiliary_task == bindparam("t"),
    )
)
_SUMMED_UP: Final = Statement(
    select(*(func.coalesce(func.sum(day_sums.c[name]), 0) for name in ("calls", *_TOKENS))).where(
        day_sums.c.session_id == bindparam("s"), day_sums.c.model == bindparam("m")
    )
)
_CALLS_OF_SESSION: Final = Statement(
    select(func.count())
    .select_from(calls)
    .join(runs, runs.c.run_id == calls.c.run_id)
    .where(runs.c.session_id == bindparam("s"), calls.c.auxiliary_task == bindparam("t"))
)
_SUMMED_UP_OF_SESSION: Final = Statement(
    select(func.coalesce(func.sum(day_sums.c.calls), 0)).where(
        day_sums.c.session_id == bindparam("s")
    )
)
_RUNS: Final = select(runs.c.run_id).where(runs.c.kind == IMPORTED)
_COUNT: Final = Statement(
    select(func.count(), func.coalesce(func.sum(calls.c.cost_nanos), 0)).where(
        calls.c.run_id.in_(_RUNS)
    )
)
_DROP_CALLS: Final = Statement(calls.delete().where(calls.c.run_id.in_(_RUNS)))
_DROP_RUNS: Final = Statement(runs.delete().where(runs.c.kind == IMPORTED))
_DROP_TOTALS: Final = Statement(spend_totals.delete())


@dataclass(frozen=True, slots=True)
class Imported:
    """What came of it, or would: calls, sessions, and what they cost.

    Attributes:
        nanos: their cost; at least that much while some are unpriced.
        already: calls that the host knows and the ledger had.
    """

    calls: int = 0
    sessions: int = 0
    nanos: int = 0
    unpriced: int = 0
    already: int = 0
    first_ms: int | None = None
    last_ms: int | None = None


class Imports:
    """What is imported into one ledger; raises `LedgerError` only."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def written(self, session_id: str, model: str, task: str) -> Counts:
        """What the ledger has of a model in a session already, imported or recorded."""
        with self._database.reading() as connection:
            row = _WRITTEN.run(connection, s=session_id, m=model, t=task).fetchone()
            found = Counts(*row)
            if not task:  # auxiliary calls are never summed up
                row = _SUMMED_UP.run(connection, s=session_id, m=model).fetchone()
                found = found.plus(Counts(*row))
        return found

    def calls_of(self, session_id: str, task: str) -> int:
        """How many calls of a session the ledger has, whatever their model is called."""
        with self._database.reading() as connection:
            found: int = _CALLS_OF_SESSION.run(connection, s=session_id, t=task).fetchone()[0]
            if not task:
                found += _SUMMED_UP_OF_SESSION.run(connection, s=session_id).fetchone()[0]
        return found

    def count(self) -> tuple[int, int]:
        """Imported calls, and their cost in nano-dollars."""
        with self._database.reading() as connection:
            number, nanos = _COUNT.run(connection).fetchone()
        return number, nanos

    def remove(self, patience_s: float) -> int:
        """Take everything that was imported out again.

        All totals go with it: each is built anew from the rows when it is asked for next.

        Returns:
            How many calls there were.
        """
        with self._database.writing(patience_s) as connection:
            dropped = _DROP_CALLS.run(connection).rowcount
            _DROP_RUNS.run(connection)
            _DROP_TOTALS.run(connection)
        return dropped

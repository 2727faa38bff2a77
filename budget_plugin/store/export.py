"""What the ledger has, as rows for other programs; streamed, oldest first. docs/export.md."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, FromClause, bindparam, func, select

from .sql.database import Database, Statement
from .sql.schema import calls, day_sums, run_endings, runs

_SCOPES: Final = (
    runs.c.kind,
    runs.c.session_id,
    runs.c.root_run_id,
    runs.c.cron_job_id,
    runs.c.sender_id,
    runs.c.profile,
    runs.c.platform,
    runs.c.ticket_id,
)


@dataclass(frozen=True, slots=True)
class Table:
    """One thing that can be exported; the time of a row is its second column."""

    columns: tuple[str, ...]
    rows: Statement


def _table(source: FromClause, time: ColumnElement[Any], *columns: ColumnElement[Any]) -> Table:
    selected = select(*columns).select_from(source)
    between = selected.where(time >= bindparam("start"), time < bindparam("end")).order_by(time)
    return Table(tuple(column.name for column in columns), Statement(between))


TABLES: Final = {
    "calls": _table(
        calls.outerjoin(runs, runs.c.run_id == calls.c.run_id),
        calls.c.at_ms,
        calls.c.attempt_id,
        calls.c.at_ms,
        calls.c.run_id,
        *(func.coalesce(column, "").label(column.name) for column in _SCOPES),
        calls.c.provider,
        calls.c.model,
        calls.c.response_model,
        calls.c.input_tokens,
        calls.c.output_tokens,
        calls.c.cache_read_tokens,
        calls.c.cache_write_tokens,
        calls.c.cache_write_1h_tokens,
        calls.c.reasoning_tokens,
        calls.c.cost_nanos,
        calls.c.cost_source,
        calls.c.estimated,
        calls.c.price_id,
        calls.c.price_date,
        calls.c.tier,
        calls.c.flags,
        calls.c.auxiliary_task,
    ),
    "days": _table(day_sums, day_sums.c.day_ms, *day_sums.c),
    "runs": _table(
        runs.outerjoin(run_endings, run_endings.c.run_id == runs.c.run_id),
        runs.c.started_ms,
        runs.c.run_id,
        runs.c.started_ms,
        runs.c.ended_ms,
        *_SCOPES,
        runs.c.model,
        runs.c.outcome,
        run_endings.c.state,
        run_endings.c.cause,
        run_endings.c.status,
        run_endings.c.next_owner,
    ),
    "receipts": _table(
        run_endings.outerjoin(runs, runs.c.run_id == run_endings.c.run_id),
        run_endings.c.at_ms,
        run_endings.c.run_id,
        run_endings.c.at_ms,
        func.coalesce(runs.c.kind, "").label("kind"),
        func.coalesce(runs.c.session_id, "").label("session_id"),
        run_endings.c.state,
        run_endings.c.cause,
        run_endings.c.status,
        run_endings.c.next_owner,
        run_endings.c.near_miss,
        run_endings.c.receipt,
    ),
}


def exported(
    database: Database, what: str, start_ms: int, end_ms: int
) -> Iterator[tuple[Any, ...]]:
    """The rows of one table in `[start_ms, end_ms)`, in the order of its columns.

    Raises:
        LedgerError: the ledger does not answer.
    """
    with database.reading() as connection:
        yield from TABLES[what].rows.run(connection, start=start_ms, end=end_ms)

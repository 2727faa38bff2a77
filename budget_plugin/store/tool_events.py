"""The book of tool calls that have ended: digests only, of a month and of a bounded number.

A replay shows them to the loop detectors again. Whole batches are written; each takes some of the
oldest rows away, so that no write is long.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any, Final

from sqlalchemy import bindparam, func, select
from sqlalchemy.dialects.sqlite import insert

from ..policy.digests import digest
from ..policy.loops import Status, ToolEvent
from ..policy.replay.recorded import RecordedTool
from .sql.database import Database, Statement
from .sql.schema import tool_events

KEPT_MS: Final = 31 * 86_400_000
"""A replay looks 30 days back where nothing else is asked for."""

KEPT_ROWS: Final = 200_000
"""Some 60 MB: two tool calls for each of the 100,000 calls of a busy month."""

THINNED: Final = 512
"""Rows that one write takes away at most: several times what it adds."""

_T: Final = tool_events
_COLUMNS: Final = [column.name for column in _T.c if column.name != "id"]
_ADD: Final = Statement(
    insert(_T).on_conflict_do_nothing(index_elements=["run_id", "seq"]), _COLUMNS
)
# SQLite finds one end of an index at once, but both in one `SELECT` only by reading all of it.
_ENDS: Final = Statement(
    select(
        select(func.min(_T.c.id)).scalar_subquery(),
        select(func.max(_T.c.id)).scalar_subquery(),
    )
)
_THIN: Final = Statement(
    _T.delete().where(
        _T.c.id < bindparam("few"),
        (_T.c.id <= bindparam("too_many")) | (_T.c.at_ms < bindparam("too_old")),
    )
)
_BETWEEN: Final = (_T.c.at_ms >= bindparam("start"), _T.c.at_ms < bindparam("end"))
_IN_TIME: Final = Statement(
    select(
        _T.c.at_ms,
        _T.c.run_id,
        _T.c.after_person,
        _T.c.resumed_ms,
        _T.c.seq,
        _T.c.tool,
        _T.c.args_digest,
        _T.c.target,
        _T.c.result_digest,
        _T.c.status,
        _T.c.error_digest,
        _T.c.step,
        _T.c.action,
        _T.c.waits,
    )
    .where(*_BETWEEN)
    .order_by(_T.c.at_ms, _T.c.id)
)
_COUNT: Final = Statement(select(func.count()).select_from(_T).where(*_BETWEEN))
_STATUSES: Final = {str(status): status for status in Status}


class ToolEvents:
    """Tool calls in one ledger; raises `LedgerError` only."""

    def __init__(self, database: Database, kept_rows: int = KEPT_ROWS) -> None:
        self._database = database
        self._kept_rows = kept_rows

    def add(self, events: Iterable[RecordedTool], now_ms: int, patience_s: float) -> None:
        """Write a batch down and forget some of what is too old; again does no harm."""
        with self._database.writing(patience_s) as connection:
            for event in events:
                _ADD.run(connection, **_row(event))
            self._thin(connection, now_ms)

    def _thin(self, connection: sqlite3.Connection, now_ms: int) -> None:
        # Ids are given in the order of time, or nearly: the ends of the table need no counting.
        oldest, newest = _ENDS.run(connection).fetchone()
        if oldest is not None:
            _THIN.run(
                connection,
                few=oldest + THINNED,
                too_many=newest - self._kept_rows,
                too_old=now_ms - KEPT_MS,
            )


def tools_between(
    connection: sqlite3.Connection, start_ms: int, end_ms: int
) -> Iterator[RecordedTool]:
    """The tool calls in `[start_ms, end_ms)` in the order of time, one after another."""
    return map(_recorded, _IN_TIME.run(connection, start=start_ms, end=end_ms))


def count_between(connection: sqlite3.Connection, start_ms: int, end_ms: int) -> int:
    """How many those are."""
    number: int = _COUNT.run(connection, start=start_ms, end=end_ms).fetchone()[0]
    return number


def _row(recorded: RecordedTool) -> dict[str, object]:
    event = recorded.event
    return {
        "run_id": recorded.run_id,
        "seq": event.seq,
        "at_ms": recorded.at_ms,
        "tool": event.tool,
        "args_digest": event.args_digest,
        "target": event.target,
        "result_digest": event.result_digest,
        "status": str(event.status),
        "error_digest": event.error_digest,
        "step": digest(event.step) if event.step else "",
        "action": event.action,
        "waits": int(event.waits),
        "after_person": int(recorded.after_person),
        "resumed_ms": recorded.resumed_ms,
    }


def _recorded(row: tuple[Any, ...]) -> RecordedTool:
    at_ms, run_id, after_person, resumed_ms, seq, tool, args, target, result, status, *rest = row
    error, step, action, waits = rest
    event = ToolEvent(
        seq,
        tool,
        args,
        target,
        result,
        _STATUSES.get(status, Status.OK),
        error,
        at_ms / 1000,
        step,
        action,
        bool(waits),
    )
    return RecordedTool(at_ms, run_id, event, bool(after_person), resumed_ms)

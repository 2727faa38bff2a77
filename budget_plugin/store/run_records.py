"""How runs ended: one row a run with its receipt, and the runs that nobody closed."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Select, bindparam, case, func, select
from sqlalchemy.dialects.sqlite import insert

from ..policy.runs.endings import TerminalState
from ..policy.runs.receipts import Receipt, from_json, to_json
from ..policy.runs.run_state import RunUsage
from ..policy.tier_costs import ModelSpend
from .journal import OBSERVED
from .processes import Owner, is_gone
from .sql.database import Database, Statement
from .sql.schema import calls, decisions, run_endings, runs

LOOK_BACK_MS: Final = 30 * 86_400_000
"""A run older than this that nobody closed stays as it is: nobody waits for it any more."""

KINDS_THAT_END: Final = ("chat", "cron", "child", "review")
"""Runs of other kinds stand for calls outside of any turn; they have no ending of their own."""

OUTSIDE_A_TURN: Final = ":session"
"""How the id of a run ends that was opened by a hook without a turn; it does not end either."""

_COLUMNS: Final = tuple(column.name for column in run_endings.c if column.name != "id")
_ADD: Final = Statement(
    insert(run_endings).on_conflict_do_nothing(index_elements=["run_id"]), list(_COLUMNS)
)


def _ended() -> Select[Any]:
    return (
        select(
            run_endings.c.run_id,
            run_endings.c.at_ms,
            func.coalesce(runs.c.session_id, ""),
            func.coalesce(runs.c.kind, ""),
            func.coalesce(runs.c.started_ms, run_endings.c.at_ms),
            run_endings.c.receipt,
            func.coalesce(runs.c.linked_run_id, ""),
            func.coalesce(runs.c.ticket_id, ""),
        )
        .select_from(run_endings)
        .outerjoin(runs, runs.c.run_id == run_endings.c.run_id)
        .order_by(run_endings.c.id.desc())
        .limit(bindparam("n"))
    )


_LATEST: Final = Statement(_ended())
_PARTIAL: Final = Statement(_ended().where(run_endings.c.status == "partial"))
_NAMED: Final = Statement(
    _ended().where(
        (run_endings.c.run_id == bindparam("r"))
        | (runs.c.session_id == bindparam("r"))
        | run_endings.c.run_id.endswith(bindparam("r"), autoescape=False)
    )
)
_OF_SESSION: Final = Statement(_ended().where(runs.c.session_id == bindparam("s")))
_LINK: Final = Statement(
    runs.update().where(runs.c.run_id == bindparam("r")).values(linked_run_id=bindparam("to"))
)
_LEFT_OPEN: Final = Statement(
    select(runs.c.run_id, runs.c.kind, runs.c.owner_host, runs.c.owner_pid, runs.c.owner_started)
    .select_from(runs)
    .outerjoin(run_endings, run_endings.c.run_id == runs.c.run_id)
    .where(
        runs.c.started_ms > bindparam("since"),
        runs.c.owner_pid > 0,
        run_endings.c.run_id.is_(None),
    )
)
_USAGE: Final = Statement(
    select(
        func.count(),
        func.coalesce(
            func.sum(
                calls.c.input_tokens
                + calls.c.output_tokens
                + calls.c.cache_read_tokens
                + calls.c.cache_write_tokens
                + calls.c.cache_write_1h_tokens
            ),
            0,
        ),
        func.coalesce(func.sum(calls.c.cost_nanos), 0),
        func.coalesce(func.sum(case((calls.c.cost_nanos.is_(None), 1), else_=0)), 0),
    ).where(calls.c.run_id == bindparam("r"))
)
_MODELS: Final = Statement(
    select(
        calls.c.run_id,
        calls.c.model,
        calls.c.response_model,
        func.coalesce(func.sum(calls.c.cost_nanos), 0),
        run_endings.c.state == str(TerminalState.RESOLVED),
    )
    .select_from(run_endings)
    .join(calls, calls.c.run_id == run_endings.c.run_id)
    .where(run_endings.c.at_ms > bindparam("since"))
    .group_by(calls.c.run_id, calls.c.model, calls.c.response_model)
)
_WHY: Final = Statement(
    select(
        decisions.c.at_ms,
        decisions.c.gate,
        decisions.c.scope,
        decisions.c.scope_id,
        decisions.c.window,
        decisions.c.measure,
        decisions.c.used,
        decisions.c.amount,
        decisions.c.action,
        decisions.c.detail,
        decisions.c.level == OBSERVED,
    )
    .where(decisions.c.run_id == bindparam("r"))
    .order_by(decisions.c.id)
)


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A run that has ended; times in UTC milliseconds.

    Attributes:
        linked_run_id: the ended run that it goes on from, or "".
        ticket_id: whose budget it shared, or "".
    """

    run_id: str
    at_ms: int
    session_id: str
    kind: str
    started_ms: int
    receipt: Receipt
    linked_run_id: str = ""
    ticket_id: str = ""


@dataclass(frozen=True, slots=True)
class Reason:
    """One decision about a run: at which gate, over what, what was done, and in which words.

    `used` and `amount` (the limit) are in the measure's unit, dollars in nano-dollars. `observed`:
    the limit blocks nothing, it is what would have been.
    """

    at_ms: int
    gate: str
    scope: str
    scope_id: str
    window: str
    measure: str
    used: int
    amount: int
    action: str
    detail: str
    observed: bool


class RunRecords:
    """Endings and receipts in one ledger; raises `LedgerError` only."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, receipt: Receipt, at_ms: int, patience_s: float) -> bool:
        """Write an ending down; the first one of a run stays.

        Returns:
            Whether this is the run's ending.
        """
        ending = receipt.ending
        with self._database.writing(patience_s) as connection:
            added = _ADD.run(
                connection,
                run_id=receipt.run_id,
                at_ms=at_ms,
                state=ending.state,
                cause=ending.cause,
                status=ending.status,
                trigger=ending.trigger,
                next_owner=receipt.next_owner,
                near_miss=int(bool(receipt.near_misses)),
                receipt=to_json(receipt),
            )
            return added.rowcount > 0

    def latest(self, most: int, *, partial_only: bool = False) -> list[EndedRun]:
        """The runs that ended last, newest first."""
        statement = _PARTIAL if partial_only else _LATEST
        with self._database.reading() as connection:
            return _read(statement.run(connection, n=most).fetchall())

    def named(self, run: str) -> EndedRun | None:
        """The run with this id, the last one of this session, or the last whose id ends so."""
        with self._database.reading() as connection:
            found = _read(_NAMED.run(connection, r=run, n=1).fetchall())
        return found[0] if found else None

    def last_of_session(self, session_id: str) -> EndedRun | None:
        """The run of a conversation that ended last."""
        with self._database.reading() as connection:
            found = _read(_OF_SESSION.run(connection, s=session_id, n=1).fetchall())
        return found[0] if found else None

    def link(self, run_id: str, ended_run_id: str, patience_s: float) -> None:
        """Write down from which ended run a run goes on."""
        with self._database.writing(patience_s) as connection:
            _LINK.run(connection, r=run_id, to=ended_run_id)

    def reasons(self, run_id: str) -> list[Reason]:
        """What was decided about a run, in the order in which it was."""
        with self._database.reading() as connection:
            return [Reason(*row) for row in _WHY.run(connection, r=run_id).fetchall()]

    def model_spends(self, since_ms: int) -> list[ModelSpend]:
        """What the runs that ended since then spent on each model."""
        with self._database.reading() as connection:
            found = _MODELS.run(connection, since=since_ms).fetchall()
        return [
            ModelSpend(run_id, model, answered_by, nanos, bool(resolved))
            for run_id, model, answered_by, nanos, resolved in found
        ]

    def left_open(self, now_ms: int) -> list[str]:
        """Ids of the runs without an ending whose process is gone."""
        with self._database.reading() as connection:
            found = _LEFT_OPEN.run(connection, since=now_ms - LOOK_BACK_MS).fetchall()
        return [
            run_id
            for run_id, kind, *owner in found
            if kind in KINDS_THAT_END
            and not run_id.endswith(OUTSIDE_A_TURN)
            and is_gone(Owner(*owner))
        ]

    def usage(self, run_id: str) -> RunUsage:
        """What the rows of a run add up to; its tools and dispatches are not among them."""
        with self._database.reading() as connection:
            count, tokens, nanos, unpriced = _USAGE.run(connection, r=run_id).fetchone()
        return RunUsage(tokens=tokens, cost_nanos=nanos, calls=count, unpriced_calls=unpriced)


def _read(rows: Iterable[tuple[Any, ...]]) -> list[EndedRun]:
    return [
        EndedRun(run_id, at_ms, session_id, kind, started_ms, from_json(receipt), *more)
        for run_id, at_ms, session_id, kind, started_ms, receipt, *more in rows
    ]

"""Requests of runs that ran out, and what a person said to them."""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import bindparam, select
from sqlalchemy.dialects.sqlite import insert

from ..policy.runs.extensions import RequestState
from ..policy.runs.run_limits import Cause, Meter
from .sql.database import Database, Statement
from .sql.schema import extensions

_ASKED: Final = (
    "run_id",
    "session_id",
    "cron_job_id",
    "ticket_id",
    "cause",
    "meter",
    "asked",
    "reason",
    "account",
    "state",
    "asked_ms",
)
_ADD: Final = Statement(
    insert(extensions).on_conflict_do_nothing(index_elements=["run_id"]), list(_ASKED)
)
_E: Final = extensions.c
_SAME_WORK: Final = (
    (_E.session_id == bindparam("s"))
    | ((_E.cron_job_id == bindparam("c")) & (_E.cron_job_id != ""))
    | ((_E.ticket_id == bindparam("t")) & (_E.ticket_id != ""))
)
_LAPSE: Final = Statement(
    extensions.update()
    .where(
        _E.state == RequestState.OPEN.value,
        _SAME_WORK,
        _E.run_id != bindparam("r"),
        _E.asked_ms <= bindparam("at"),  # one that was put late lapses by what came since
    )
    .values(state=RequestState.LAPSED.value, decided_ms=bindparam("at"))
)
_ALL: Final = select(*extensions.c)
_OF_RUN: Final = Statement(_ALL.where(_E.run_id == bindparam("r")))
_NUMBERED: Final = Statement(_ALL.where(_E.number == bindparam("n")))
_NAMED: Final = Statement(
    _ALL.where(
        (_E.run_id == bindparam("r"))
        | (_E.session_id == bindparam("r"))
        | _E.run_id.endswith(bindparam("r"), autoescape=False)
    )
    .order_by(_E.number.desc())
    .limit(1)
)
_OPEN: Final = Statement(_ALL.where(_E.state == RequestState.OPEN.value).order_by(_E.number))
_DECIDE: Final = Statement(
    extensions.update()
    .where(_E.number == bindparam("n"), _E.state == RequestState.OPEN.value)
    .values(
        state=bindparam("to"),
        granted=bindparam("amount"),
        who=bindparam("by"),
        via=bindparam("through"),
        decided_ms=bindparam("at"),
    )
)
_GRANTED: Final = Statement(
    _ALL.where(_E.state == RequestState.GRANTED.value, _E.linked_run_id == "", _SAME_WORK)
    .order_by(_E.number.desc())
    .limit(1)
)
_TAKE: Final = Statement(
    extensions.update()
    .where(_E.number == bindparam("n"), _E.linked_run_id == "")
    .values(linked_run_id=bindparam("r"))
)


_SHORTEST_ID: Final = 8
"""So many characters of a run's id are shown; fewer digits are the number of a request."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request; times in UTC milliseconds, amounts in the unit of the meter.

    Attributes:
        asked: how much it asks for, and what a grant without a number gives.
        account: what the run used, for the run that goes on.
        granted: `None` until it is.
        linked_run_id: the run that goes on with it, or "".
    """

    number: int
    run_id: str
    session_id: str
    cron_job_id: str
    ticket_id: str
    cause: Cause
    meter: Meter
    asked: int
    reason: str
    account: str
    state: RequestState
    asked_ms: int
    granted: int | None = None
    who: str = ""
    via: str = ""
    decided_ms: int | None = None
    linked_run_id: str = ""


class ExtensionRequests:
    """Requests in one ledger; raises `LedgerError` only."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, request: Request, patience_s: float) -> Request:
        """Write a request down, one for each run; earlier ones for the same work lapse.

        Returns:
            The request as it stands, with its number.
        """
        with self._database.writing(patience_s) as connection:
            added = _ADD.run(connection, **{name: getattr(request, name) for name in _ASKED})
            if added.rowcount > 0:
                _LAPSE.run(
                    connection,
                    r=request.run_id,
                    s=request.session_id,
                    c=request.cron_job_id,
                    t=request.ticket_id,
                    at=request.asked_ms,
                )
            return _one(_OF_RUN.run(connection, r=request.run_id)) or request

    def of_run(self, run_id: str) -> Request | None:
        """What a run asked for."""
        with self._database.reading() as connection:
            return _one(_OF_RUN.run(connection, r=run_id))

    def named(self, name: str) -> Request | None:
        """The request with this number, else the last one of this run or session."""
        with self._database.reading() as connection:
            if name.isdecimal() and len(name) < _SHORTEST_ID:
                return _one(_NUMBERED.run(connection, n=int(name)))
            return _one(_NAMED.run(connection, r=name)) if name else None

    def still_open(self) -> list[Request]:
        """The requests that wait for a person, oldest first."""
        with self._database.reading() as connection:
            return _read(_OPEN.run(connection).fetchall())

    def decide(
        self,
        request: Request,
        state: RequestState,
        amount: int | None,
        by: tuple[str, str],
        at_ms: int,
        patience_s: float,
    ) -> bool:
        """A person's word; the first one stands.

        Args:
            by: who, and via what.
        """
        with self._database.writing(patience_s) as connection:
            who, via = by
            done = _DECIDE.run(
                connection,
                n=request.number,
                to=state.value,
                amount=amount,
                by=who,
                through=via,
                at=at_ms,
            )
            return done.rowcount > 0

    def take(
        self, run_id: str, session_id: str, cron_job_id: str, ticket_id: str, patience_s: float
    ) -> Request | None:
        """What was granted to the work that this run carries on; once, whoever asks."""
        ids = {"s": session_id, "c": cron_job_id, "t": ticket_id}
        with self._database.reading() as connection:
            if _one(_GRANTED.run(connection, **ids)) is None:
                return None
        with self._database.writing(patience_s) as connection:
            found = _one(_GRANTED.run(connection, **ids))
            if found is not None:
                _TAKE.run(connection, n=found.number, r=run_id)
            return found


def _one(found: sqlite3.Cursor) -> Request | None:
    row = found.fetchone()
    return None if row is None else _read([row])[0]


_NAMES: Final = tuple(column.name for column in extensions.c)


def _read(rows: Iterable[tuple[Any, ...]]) -> list[Request]:
    return [_request(dict(zip(_NAMES, row, strict=True))) for row in rows]


def _request(row: dict[str, Any]) -> Request:
    cause, meter, state = Cause(row["cause"]), Meter(row["meter"]), RequestState(row["state"])
    return Request(**{**row, "cause": cause, "meter": meter, "state": state})

"""Reservations: money set aside in the ledger before a call, given back when it is recorded.

Reading the totals, deciding and setting aside happen in one `BEGIN IMMEDIATE` transaction, so that
all processes that share a ledger admit one call after another. The decision itself is a function
that the caller passes in.
"""

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import bindparam, select
from sqlalchemy.dialects.sqlite import insert

from ..policy.admission import NOTHING_HELD, Admission, Expected, Held, Kind, Standing
from ..policy.charges import ScopeId
from ..policy.events import Run
from ..policy.limits import Limit, Scope
from ..policy.windows import Period
from . import totals
from .ledger import enter
from .processes import Owner, is_gone, is_visible
from .sql.database import Database, Statement
from .sql.schema import calls, reservations, runs

OPEN_RUN_MS: Final = 600_000
"""A run that asked nothing for this long no longer keeps room for its last answer."""

FOREIGN_OWNER_MS: Final = 3_600_000
"""A reservation of a process that we cannot see (another host's) expires after this long."""

_RESERVE: Final = Statement(
    insert(reservations).on_conflict_do_nothing(),
    [column.name for column in reservations.c],
)
_RELEASE: Final = Statement(
    reservations.delete().where(reservations.c.attempt_id == bindparam("a"))
)
_TOUCH: Final = Statement(
    runs.update()
    .where(runs.c.run_id == bindparam("r"))
    .values(active_ms=bindparam("at"), next_nanos=bindparam("n"), next_tokens=bindparam("t"))
)
_STILL_OPEN: Final = Statement(
    runs.update().where(runs.c.run_id == bindparam("r")).values(active_ms=bindparam("at"))
)
_SCOPE_COLUMNS: Final = (
    runs.c.cron_job_id,
    runs.c.sender_id,
    runs.c.profile,
    runs.c.platform,
    runs.c.model,
)
_COLUMN_SCOPES: Final = (
    Scope.CRON_JOB,
    Scope.SENDER,
    Scope.PROFILE,
    Scope.PLATFORM,
    Scope.MODEL,
)
_OPEN_RUNS: Final = Statement(
    select(runs.c.run_id, runs.c.next_nanos, runs.c.next_tokens, *_SCOPE_COLUMNS).where(
        runs.c.ended_ms.is_(None),
        runs.c.active_ms > bindparam("since"),
        runs.c.next_tokens > 0,  # a run at its last answer keeps nothing more
    )
)
_RESERVED: Final = Statement(
    select(reservations.c.nanos, reservations.c.tokens, *_SCOPE_COLUMNS[:-1], reservations.c.model)
    .select_from(reservations)
    .outerjoin(runs, runs.c.run_id == reservations.c.run_id)
)
_ALL: Final = Statement(select(*reservations.c))
_RECENT_OUTPUTS: Final = Statement(
    select(calls.c.model, calls.c.output_tokens)
    .where(calls.c.estimated == 0)
    .order_by(calls.c.id.desc())
    .limit(500)
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request for one more call: who asks, under which limits, and what it should cost."""

    attempt_id: str
    run: Run
    provider: str
    model: str
    at_ms: int
    limits: Mapping[ScopeId, Sequence[tuple[Limit, Period]]]
    expected: Expected


@dataclass(frozen=True, slots=True)
class Reservation:
    """Money set aside for a call that has not been recorded yet."""

    attempt_id: str
    run_id: str
    since_ms: int
    nanos: int
    tokens: int
    provider: str
    model: str
    owner: Owner


class Reservations:
    """Admission and what belongs to it, on one ledger; raises `LedgerError` only."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def admit(
        self,
        asked: Asked,
        decide: Callable[[Sequence[Standing]], Admission],
        owner: Owner,
        patience_s: float,
    ) -> tuple[Admission, tuple[Standing, ...]]:
        """One atomic step: how do the limits stand, may this call go, set its cost aside.

        Returns:
            The decision, and how the limits stood before it.
        """
        with self._database.writing(patience_s) as connection:
            standings = tuple(_standings(connection, asked))
            admission = decide(standings)
            if admission.kind is not Kind.REFUSED:
                enter(connection, asked.run)
                _set_aside(connection, asked, admission, owner)
            return admission, standings

    def standings(self, asked: Asked, patience_s: float) -> tuple[Standing, ...]:
        """How the limits stand for a run, without asking for anything."""
        with self._database.writing(patience_s) as connection:  # a total may have to be built
            return tuple(_standings(connection, asked))

    def release(self, attempt_id: str, patience_s: float) -> None:
        """Give a reservation back: the call was not billed."""
        with self._database.writing(patience_s) as connection:
            _RELEASE.run(connection, a=attempt_id)

    def abandoned(self, now_ms: int) -> list[Reservation]:
        """The reservations whose owner will not settle them any more.

        They are not dropped: the call may have been billed. The engine records each as a call at
        its reserved cost, flagged, which settles it.
        """
        with self._database.reading() as connection:
            found = [_reservation(row) for row in _ALL.run(connection).fetchall()]
        return [r for r in found if _is_abandoned(r, now_ms)]

    def recent_outputs(self, model: str) -> list[int]:
        """Lengths of this model's recent answers, oldest first, in tokens."""
        with self._database.reading() as connection:
            rows = _RECENT_OUTPUTS.run(connection).fetchall()
        return [tokens for name, tokens in reversed(rows) if name == model][-64:]


def _standings(connection: sqlite3.Connection, asked: Asked) -> Iterable[Standing]:
    reserved = _sum_by_scope(_RESERVED.run(connection).fetchall())
    open_runs = _OPEN_RUNS.run(connection, since=asked.at_ms - OPEN_RUN_MS).fetchall()
    others = _sum_by_scope([row[1:] for row in open_runs if row[0] != asked.run.run_id])
    own = [row for row in open_runs if row[0] == asked.run.run_id]
    kept = Held(own[0][1], own[0][2], 1) if own else NOTHING_HELD
    wanted = {scope: [period for _, period in limits] for scope, limits in asked.limits.items()}
    spends = totals.all_or_built(connection, wanted, asked.at_ms)
    for scope, limits in asked.limits.items():
        in_flight = reserved.get(scope, NOTHING_HELD)
        for_others = others.get(scope, NOTHING_HELD)
        for limit, period in limits:
            spend = spends[scope][totals.window_key(period)]
            yield Standing(limit, period, spend, in_flight, for_others, kept)


def _sum_by_scope(rows: Iterable[tuple[object, ...]]) -> dict[ScopeId, Held]:
    """Rows of (nanos, tokens, scope ids…) → what is held under each scope."""
    held: dict[ScopeId, Held] = {}
    for nanos, tokens, *ids in rows:
        one = Held(int(nanos), int(tokens), 1)  # type: ignore[call-overload]
        named = [(s, str(i)) for s, i in zip(_COLUMN_SCOPES, ids, strict=True) if i]
        for scope in ((Scope.GLOBAL, ""), *named):
            held[scope] = held.get(scope, NOTHING_HELD) + one
    return held


def _set_aside(
    connection: sqlite3.Connection, asked: Asked, admission: Admission, owner: Owner
) -> None:
    held, keeps = admission.held, admission.keeps
    _RESERVE.run(
        connection,
        attempt_id=asked.attempt_id,
        run_id=asked.run.run_id,
        since_ms=asked.at_ms,
        nanos=held.nanos,
        tokens=held.tokens,
        provider=asked.provider,
        model=asked.model,
        owner_host=owner.host,
        owner_pid=owner.pid,
        owner_started=owner.started,
    )
    _TOUCH.run(connection, r=asked.run.run_id, at=asked.at_ms, n=keeps.nanos, t=keeps.tokens)
    if asked.run.root_run_id != asked.run.run_id:  # whoever waits for this run is open, too
        _STILL_OPEN.run(connection, r=asked.run.root_run_id, at=asked.at_ms)


def _reservation(row: tuple[object, ...]) -> Reservation:
    values = dict(zip((column.name for column in reservations.c), row, strict=True))
    owner = Owner(
        str(values.pop("owner_host")),
        int(values.pop("owner_pid")),  # type: ignore[call-overload]
        str(values.pop("owner_started")),
    )
    return Reservation(**values, owner=owner)  # type: ignore[arg-type]


def _is_abandoned(reservation: Reservation, now_ms: int) -> bool:
    owner = reservation.owner
    if is_gone(owner):
        return True
    return not is_visible(owner) and now_ms - reservation.since_ms > FOREIGN_OWNER_MS

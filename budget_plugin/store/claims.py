"""The book of claims: who does, or did, an effect on the world. Digests only, never contents.

Looking, deciding and claiming are one transaction, on the disk before the effect begins. The
decision itself is a function that the caller passes in.
"""

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import bindparam, select
from sqlalchemy.dialects.sqlite import insert

from ..policy.claims import Answer, Claim, Effect, Per, State, Told
from .processes import Owner
from .sql.database import Database, Statement
from .sql.schema import claims

_COLUMNS: Final = tuple(column.name for column in claims.c if column.name != "id")
_SELECTED: Final = (*(claims.c[name] for name in _COLUMNS), claims.c.id)
_IS_OPEN: Final = (claims.c.state == str(State.CLAIMED)) | (claims.c.state == str(State.UNKNOWN))

_TAKE: Final = Statement(
    insert(claims).on_conflict_do_update(
        index_elements=["claim_key"],
        set_={name: insert(claims).excluded[name] for name in _COLUMNS if name != "claim_key"},
    ),
    list(_COLUMNS),
)
_ADD: Final = Statement(
    insert(claims).on_conflict_do_nothing(index_elements=["claim_key"]), list(_COLUMNS)
)
_OF_EFFECT: Final = Statement(
    select(*_SELECTED).where(
        (claims.c.claim_key == bindparam("k")) | ((claims.c.effect == bindparam("e")) & _IS_OPEN)
    )
)
_SETTLE: Final = Statement(
    claims.update()
    .where(
        claims.c.claim_key == bindparam("k"),
        claims.c.call_id == bindparam("c"),
        _IS_OPEN,
    )
    .values(state=bindparam("s"), settled_ms=bindparam("at"), answer_at=bindparam("a"))
)
_NUMBERED: Final = Statement(select(*_SELECTED).where(claims.c.id == bindparam("n")))
_LATEST: Final = Statement(
    select(*_SELECTED)
    .where(claims.c.state == bindparam("s"))
    .order_by(claims.c.id.desc())
    .limit(bindparam("n"))
)


@dataclass(frozen=True, slots=True)
class Held:
    """A claim as it is written, the process that made it, and the number that people call it by."""

    claim: Claim
    owner: Owner
    number: int = 0


class Claims:
    """Claims in one ledger; raises `LedgerError` only."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def take(
        self,
        asked: Held,
        decide: Callable[[Held | None, Sequence[Held]], Told],
        patience_s: float,
    ) -> Told:
        """Claim an effect if `decide` lets it; when this returns, the claim is on the disk.

        Args:
            decide: is given the claim under the same key, and those of the same effect under other
                keys that are open or of unknown outcome.
        """
        claim = asked.claim
        with self._database.writing(patience_s, durable=True) as connection:
            found = _OF_EFFECT.run(connection, k=claim.key, e=claim.effect.key).fetchall()
            held = [_held(row) for row in found]
            own = next((each for each in held if each.claim.key == claim.key), None)
            told = decide(own, [each for each in held if each is not own])
            if told.answer is Answer.GO:
                _write(_TAKE, connection, asked)
            return told

    def add(self, asked: Held, patience_s: float) -> None:
        """Write a claim down that went ahead without the ledger; one that is there stays."""
        with self._database.writing(patience_s, durable=True) as connection:
            _write(_ADD, connection, asked)

    def settle(self, claim: Claim, patience_s: float) -> bool:
        """Write down how the effect of a claim came out; whether it was still open.

        Only the call that claimed it settles it.
        """
        with self._database.writing(patience_s, durable=True) as connection:
            settled = _SETTLE.run(
                connection,
                k=claim.key,
                c=claim.call_id,
                s=claim.state,
                at=None if claim.settled_s is None else _ms(claim.settled_s),
                a=claim.answer_at,
            )
            return settled.rowcount > 0

    def numbered(self, number: int) -> Held | None:
        """The claim with this number."""
        with self._database.reading() as connection:
            row = _NUMBERED.run(connection, n=number).fetchone()
        return None if row is None else _held(row)

    def latest(self, state: State, most: int) -> list[Held]:
        """The latest claims in this state, newest first."""
        with self._database.reading() as connection:
            return [_held(row) for row in _LATEST.run(connection, s=state, n=most).fetchall()]


def _write(statement: Statement, connection: sqlite3.Connection, held: Held) -> None:
    claim, owner = held.claim, held.owner
    statement.run(
        connection,
        claim_key=claim.key,
        effect=claim.effect.key,
        tool=claim.effect.tool,
        per=claim.effect.per,
        run_id=claim.run_id,
        call_id=claim.call_id,
        state=claim.state,
        claimed_ms=_ms(claim.claimed_s),
        settled_ms=None if claim.settled_s is None else _ms(claim.settled_s),
        answer_at=claim.answer_at,
        owner_host=owner.host,
        owner_pid=owner.pid,
        owner_started=owner.started,
    )


def _held(row: tuple[Any, ...]) -> Held:
    (
        key,
        effect,
        tool,
        per,
        run_id,
        call_id,
        state,
        claimed_ms,
        settled_ms,
        answer_at,
        *owner,
        number,
    ) = row
    claim = Claim(
        key,
        Effect(tool, effect, (), Per(per)),
        run_id,
        call_id,
        claimed_ms / 1000,
        State(state),
        None if settled_ms is None else settled_ms / 1000,
        answer_at,
    )
    return Held(claim, Owner(*owner), number)


def _ms(seconds: float) -> int:
    return round(seconds * 1000)

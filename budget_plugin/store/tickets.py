"""What the runs of a ticket used, all processes together."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sqlalchemy import bindparam, select
from sqlalchemy.dialects.sqlite import insert

from ..policy.runs.ticket_account import Account
from .sql.database import Database, Statement
from .sql.schema import ticket_usage

_COLUMNS: Final = ("ticket_id", "what", "name", "amount", "at_ms")
_inserted = insert(ticket_usage)
_ADD: Final = Statement(
    _inserted.on_conflict_do_update(
        index_elements=["ticket_id", "what", "name"],
        set_={
            "amount": ticket_usage.c.amount + _inserted.excluded.amount,
            "at_ms": _inserted.excluded.at_ms,
        },
    ),
    list(_COLUMNS),
)
_TOTALS: Final = Statement(
    select(ticket_usage.c.what, ticket_usage.c.name, ticket_usage.c.amount).where(
        ticket_usage.c.ticket_id == bindparam("t")
    )
)


class OpenAccount:
    """The account of one ticket within one transaction: nobody else changes it meanwhile."""

    def __init__(self, connection: sqlite3.Connection, ticket_id: str, now_ms: int) -> None:
        self._connection = connection
        self._ticket_id = ticket_id
        self._now_ms = now_ms

    def add(self, more: Account) -> None:
        """Add what was used; less where more had been set aside."""
        for (what, name), amount in more.items():
            _ADD.run(
                self._connection,
                ticket_id=self._ticket_id,
                what=what,
                name=name,
                amount=amount,
                at_ms=self._now_ms,
            )

    def total(self) -> Account:
        """What all processes have used."""
        found = _TOTALS.run(self._connection, t=self._ticket_id).fetchall()
        return {(what, name): amount for what, name, amount in found}


class TicketAccounts:
    """The accounts of tickets in one ledger; raises `LedgerError` only."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @contextmanager
    def opened(self, ticket_id: str, now_ms: int, patience_s: float) -> Iterator[OpenAccount]:
        """One atomic step on one account, committed at its end."""
        with self._database.writing(patience_s) as connection:
            yield OpenAccount(connection, ticket_id, now_ms)

"""The limits of one budget.yaml as they were last seen and as they hold, and who changed them.

A command announces a change before it writes the file and so makes it the person's: whichever
process sees the new file first finds the announcement. What nobody announced came from an editor.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sqlalchemy import bindparam, or_, select
from sqlalchemy.dialects.sqlite import insert

from ..policy.limit_changes import Flat, Place, changed
from ..policy.limits import Key, Limit, Measure, Scope
from ..policy.windows import Period, Window
from .journal import LimitChange
from .sql.database import Database, Statement
from .sql.schema import budget_alerts, config_changes, decisions, known_limits

_FILE: Final = "file"
_FORCE: Final = "force"
_SEEN: Final = "seen"

ANNOUNCED_FOR_MS: Final = 60_000
"""How long an announcement counts: a command that died must not lend its name to a later edit."""

_PLACE: Final = ("scope", "scope_id", "window", "measure")
_KNOWN: Final = Statement(
    select(
        known_limits.c.layer, *(known_limits.c[name] for name in _PLACE), known_limits.c.amount
    ).where(known_limits.c.file == bindparam("f"))
)
_PUT: Final = Statement(
    insert(known_limits).on_conflict_do_update(
        index_elements=["file", "layer", *_PLACE],
        set_={"amount": insert(known_limits).excluded.amount},
    ),
    ["file", "layer", *_PLACE, "amount"],
)
_DROP: Final = Statement(
    known_limits.delete().where(
        known_limits.c.file == bindparam("f"),
        known_limits.c.layer == bindparam("l"),
        known_limits.c.scope == bindparam("s"),
        known_limits.c.scope_id == bindparam("i"),
        known_limits.c.window == bindparam("w"),
        known_limits.c.measure == bindparam("m"),
    )
)
_CHANGE: Final = tuple(column.name for column in config_changes.c if column.name != "id")
_NOTE: Final = Statement(insert(config_changes), list(_CHANGE))
_ANNOUNCED: Final = Statement(
    select(
        config_changes.c.id,
        config_changes.c.who,
        config_changes.c.via,
        *(config_changes.c[name] for name in _PLACE),
        config_changes.c.amount_after,
    ).where(config_changes.c.state == "announced", config_changes.c.at_ms >= bindparam("since"))
)
_WITHDRAW: Final = Statement(
    config_changes.delete().where(
        config_changes.c.id == bindparam("n"), config_changes.c.state == "announced"
    )
)
_CLOSE_HELD: Final = Statement(
    config_changes.update()
    .where(
        config_changes.c.state == "held",
        config_changes.c.scope == bindparam("s"),
        config_changes.c.scope_id == bindparam("i"),
        config_changes.c.window == bindparam("w"),
        config_changes.c.measure == bindparam("m"),
    )
    .values(state=bindparam("how"))
)
_REARM: Final = Statement(
    budget_alerts.delete().where(
        budget_alerts.c.scope == bindparam("s"),
        # A shared default speaks about every id of its scope.
        or_(bindparam("i") == "", budget_alerts.c.scope_id == bindparam("i")),
        budget_alerts.c.window == bindparam("w"),
        budget_alerts.c.measure == bindparam("m"),
    )
)
_WAS_HARD: Final = Statement(
    select(decisions.c.id)
    .where(
        decisions.c.at_ms >= bindparam("start"),
        decisions.c.scope == bindparam("s"),
        decisions.c.scope_id == bindparam("i"),
        decisions.c.window == bindparam("w"),
        decisions.c.measure == bindparam("m"),
        decisions.c.amount == bindparam("a"),
        decisions.c.level == "hard",
    )
    .limit(1)
)


@dataclass(frozen=True, slots=True)
class Known:
    """What the ledger knows of a budget.yaml: as it was last read, and as it holds."""

    file: Flat
    force: Flat

    @property
    def held(self) -> list[Place]:
        """The places where the file waits for a person's word."""
        return changed(self.force, self.file)


@dataclass(frozen=True, slots=True)
class Word:
    """A person's word for a limit: `amount` in the measure's unit, `None` for no limit."""

    who: str
    via: str
    place: Place
    amount: int | None
    number: int | None = None
    """The announcement's row, `None` where the ledger did not take it."""


class LimitHistory:
    """Reads and writes of one budget.yaml's limits; raises `LedgerError` only."""

    def __init__(self, database: Database, file: Path) -> None:
        self._database = database
        self.file = str(file.parent.resolve() / file.name)

    def known(self) -> Known | None:
        """What is known of the file; `None` if it was never looked at."""
        with self._database.reading() as connection:
            return _known(connection, self.file)

    def was_hard(self, limit: Limit, period: Period) -> bool:
        """Whether a gate has closed on a limit in this period, its number reached or not."""
        scope, scope_id, key = limit.scope, limit.scope_id, Key(limit.window, limit.measure)
        with self._database.reading() as connection:
            found = _WAS_HARD.run(
                connection,
                start=period.start_ms,
                a=limit.amount,
                **_named((scope, scope_id, key)),
            )
            return found.fetchone() is not None

    def announce(self, word: Word, at_ms: int, patience_s: float) -> int:
        """Say beforehand whose change of the file this will be; returns the row to take back."""
        change = LimitChange(at_ms, word.who, word.via, *word.place, None, word.amount, "announced")
        with self._database.writing(patience_s) as connection:
            number = _NOTE.run(connection, **_values(change)).lastrowid
            assert number is not None
            return number

    def withdraw(self, number: int, patience_s: float) -> None:
        """The announced change does not come, or is written down."""
        with self._database.writing(patience_s) as connection:
            _WITHDRAW.run(connection, n=number)

    @contextmanager
    def changing(self, patience_s: float) -> Iterator["Changing"]:
        """One transaction under the write lock: what is known cannot change meanwhile."""
        with self._database.writing(patience_s) as connection:
            yield Changing(connection, self.file)


class Changing:
    """The writes of one transaction."""

    def __init__(self, connection: sqlite3.Connection, file: str) -> None:
        self._connection = connection
        self._file = file

    def known(self) -> Known | None:
        """What is known of the file; `None` if it was never looked at."""
        return _known(self._connection, self._file)

    def words(self, now_ms: int) -> list[Word]:
        """The announcements that count."""
        rows = _ANNOUNCED.run(self._connection, since=now_ms - ANNOUNCED_FOR_MS).fetchall()
        return [Word(row[1], row[2], _place(row[3:7]), row[7], row[0]) for row in rows]

    def withdraw(self, word: Word) -> None:
        """The announced change has been written down."""
        if word.number is not None:
            _WITHDRAW.run(self._connection, n=word.number)

    def note(self, change: LimitChange) -> None:
        """Write a change down."""
        _NOTE.run(self._connection, **_values(change))

    def close_held(self, place: Place, state: str) -> None:
        """A change that waited does so no longer: `confirmed` or `replaced`."""
        _CLOSE_HELD.run(self._connection, how=state, **_named(place))

    def save(self, before: Known | None, after: Known) -> None:
        """Remember both layers, and re-arm the alerts of every limit that holds differently."""
        was = before or Known({}, {})
        nowhere = dict.fromkeys(_PLACE, "")
        _PUT.run(self._connection, file=self._file, layer=_SEEN, amount=None, **nowhere)
        self._save_layer(_FILE, was.file, after.file)
        for place in self._save_layer(_FORCE, was.force, after.force):
            if before is not None:
                _REARM.run(self._connection, **_named(place))

    def _save_layer(self, layer: str, before: Flat, after: Flat) -> list[Place]:
        places = changed(before, after)
        for place in places:
            if place in after:
                named = dict(zip(_PLACE, _words(place), strict=True))
                _PUT.run(
                    self._connection, file=self._file, layer=layer, amount=after[place], **named
                )
            else:
                _DROP.run(self._connection, f=self._file, l=layer, **_named(place))
        return places


def _known(connection: sqlite3.Connection, file: str) -> Known | None:
    layers: Mapping[str, dict[Place, int | None]] = {_FILE: {}, _FORCE: {}}
    seen = False
    for row in _KNOWN.run(connection, f=file).fetchall():
        if row[0] == _SEEN:
            seen = True
        else:
            layers[row[0]][_place(row[1:5])] = row[5]
    return Known(layers[_FILE], layers[_FORCE]) if seen else None


def _place(row: tuple[Any, ...]) -> Place:
    return Scope(row[0]), row[1], Key(Window(row[2]), Measure(row[3]))


def _words(place: Place) -> tuple[str, str, str, str]:
    scope, scope_id, key = place
    return scope, scope_id, key.window, key.measure


def _named(place: Place) -> dict[str, str]:
    return dict(zip("siwm", _words(place), strict=True))


def _values(change: LimitChange) -> dict[str, object]:
    return {
        "at_ms": change.at_ms,
        "who": change.who,
        "via": change.via,
        "scope": change.scope,
        "scope_id": change.scope_id,
        "window": change.key.window,
        "measure": change.key.measure,
        "amount_before": change.before,
        "amount_after": change.after,
        "state": change.state,
    }

"""What is there, for `prices` and `doctor`: models in use, the ledger, the bundled prices."""

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Final

from sqlalchemy import bindparam, func, select

from .ledger import Ledger
from .resources import resource
from .sql.database import Statement
from .sql.schema import REVISION, calls

_MODELS_USED: Final = Statement(
    select(
        calls.c.provider,
        calls.c.model,
        func.count(),
        func.count().filter(calls.c.cost_nanos.is_(None)),
    )
    .where(calls.c.at_ms >= bindparam("since"), calls.c.model != "")
    .group_by(calls.c.provider, calls.c.model)
    .order_by(calls.c.model, calls.c.provider)
)
_NEWEST: Final = Statement(select(func.max(calls.c.at_ms)))


@dataclass(frozen=True, slots=True)
class ModelUse:
    """How often a model was called, and how many of these calls have no price."""

    provider: str
    model: str
    calls: int
    unpriced_calls: int


def models_used(ledger: Ledger, since_ms: int) -> list[ModelUse]:
    """The models with a call since then; raises `LedgerError`."""
    with ledger.reading() as connection:
        rows = _MODELS_USED.run(connection, since=since_ms).fetchall()
    return [ModelUse(*row) for row in rows]


@dataclass(frozen=True, slots=True)
class LedgerState:
    """The ledger's file: `journal` as SQLite names it, `newest_ms` of the newest call."""

    path: Path
    size_bytes: int
    journal: str
    schema: str
    newest_ms: int | None
    damaged: tuple[Path, ...]


def ledger_state(ledger: Ledger) -> LedgerState:
    """Opens the ledger and looks at it; raises `LedgerError`."""
    with ledger.reading() as connection:
        (newest_ms,) = _NEWEST.run(connection).fetchone()
    path = ledger.database.path
    return LedgerState(
        path=path,
        size_bytes=path.stat().st_size,
        journal=ledger.database.journal,
        schema=REVISION,
        newest_ms=newest_ms,
        damaged=tuple(sorted(path.parent.glob(f"{path.name}.damaged-*[0-9Z]"))),
    )


def bundled_prices_day() -> date | None:
    """When the bundled prices were collected; `None` where the file does not say."""
    try:
        with resource("pricing.yaml").open(encoding="utf-8") as file:
            for line in file:
                if line.startswith("as_of: "):
                    return date.fromisoformat(line.removeprefix("as_of: ").strip())
                if line.startswith("models:"):
                    return None
    except (OSError, ValueError):
        return None
    return None

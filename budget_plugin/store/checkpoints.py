"""What runs answered at their checkpoints, in their own words; of a draft only its digest."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import bindparam, insert, select

from .sql.database import Database, Statement
from .sql.schema import checkpoints

_COLUMNS: Final = tuple(column.name for column in checkpoints.c if column.name != "id")
_ADD: Final = Statement(insert(checkpoints), list(_COLUMNS))
_OF_RUN: Final = Statement(
    select(*(checkpoints.c[name] for name in _COLUMNS))
    .where(checkpoints.c.run_id == bindparam("r"))
    .order_by(checkpoints.c.id)
)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One answer.

    Attributes:
        number: of the mark that was asked about last; 0 before the first.
        artifact: digest of the reported draft.
    """

    run_id: str
    number: int
    at_ms: int
    established: str = ""
    enough: str = ""
    smallest: str = ""
    head: str = ""
    artifact: str = ""
    score: float | None = None


class CheckpointBook:
    """Checkpoints in one ledger; raises `LedgerError` only."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, answer: Checkpoint, patience_s: float) -> None:
        """Write an answer down."""
        with self._database.writing(patience_s) as connection:
            _ADD.run(connection, **{name: getattr(answer, name) for name in _COLUMNS})

    def of(self, run_id: str) -> list[Checkpoint]:
        """The answers of a run, in their order."""
        with self._database.reading() as connection:
            return [Checkpoint(*row) for row in _OF_RUN.run(connection, r=run_id).fetchall()]

"""Price files: the bundled pricing.yaml, read once when first needed, and the user's own.

Of the user's file a row that cannot be believed is refused and named with its line; the others
stay in force. The bundled file is made by `tools/build_prices.py`, which writes one row a line as
JSON (which is YAML, too), so that it is read with `json`: the YAML loader, even the one in C, takes
many times as long and holds the interpreter meanwhile.
"""

import json
import logging
import threading
from decimal import Decimal
from pathlib import Path

from ..policy.limits import Problem
from ..policy.price_rows import PriceRow, read_row
from ..policy.pricing import PriceTable
from .resources import resource
from .watched_file import Parsed, WatchedFile

log = logging.getLogger(__name__)


class PriceBook:
    """The prices in force: the user's rows over the bundled ones.

    Args:
        user_file: the user's pricing.yaml; it may be missing.
        bundled: the table that ships with the package.
    """

    def __init__(self, user_file: Path, bundled: Path | None = None) -> None:
        self._bundled_file = bundled
        self._lock = threading.Lock()
        self._watched: WatchedFile[tuple[PriceRow, ...]] = WatchedFile(user_file, self._parse, ())
        self._table: PriceTable | None = None
        self._rows: tuple[PriceRow, ...] = ()
        self._bundled_problems: tuple[Problem, ...] = ()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the files: refused rows with line and key, or a file as a whole."""
        return self._bundled_problems + self._watched.problems

    @property
    def user_file(self) -> Path:
        """Where the user's own rows are looked for."""
        return self._watched.path

    def table(self) -> PriceTable:
        """The prices in force, after one stat of the user's file. Never raises."""
        rows = self._watched.current()
        table = self._table
        if table is not None and rows is self._rows:
            return table
        with self._lock:
            table = (self._table or self._load_bundled()).with_user(rows)
            self._table, self._rows = table, rows
            return table

    def _parse(self, content: bytes) -> Parsed[tuple[PriceRow, ...]]:
        from .price_file import read_user_file

        return read_user_file(self._watched.path, content)

    def _load_bundled(self) -> PriceTable:
        try:
            path = self._bundled_file or resource("pricing.yaml")
            return PriceTable(read_bundled_file(path))
        except Exception as error:  # noqa: BLE001  (a damaged installation must not stop the agent)
            problem = Problem("pricing.yaml", None, "", f"bundled prices cannot be read: {error}")
            self._bundled_problems = (problem,)
            log.warning("%s; models without a row of yours are unpriced", problem)
            return PriceTable()


def read_bundled_file(path: Path) -> list[PriceRow]:
    """The rows of a table in the form that `tools/build_prices.py` writes.

    Raises:
        ValueError: when a line has another form (a `PriceError` when its prices do).
    """
    rows: list[PriceRow] = []
    source = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("  "):
            key, _, value = line.strip().partition(": ")
            entry = json.loads(value, parse_float=Decimal)
            each = entry if isinstance(entry, list) else [entry]
            rows.extend(read_row(key, fields, source=source) for fields in each)
        elif line.startswith("source: "):
            source = line.partition(": ")[2]
    return rows

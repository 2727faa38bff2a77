"""Price files: the bundled pricing.yaml, read once when first needed, and the user's own.

Of the user's file a row that cannot be believed is refused and named with its line; the others
stay in force. The bundled file is made by `tools/build_prices.py`, which writes one row a line as
JSON (which is YAML, too). So it is read with `json`, and a seller's rows only when a call of that
seller is priced: the whole of it through YAML's loader in C takes 90 ms, and holds the interpreter
meanwhile.
"""

import json
import logging
import threading
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Final

from ...policy.limits import Problem
from ...policy.prices.price_rows import PriceRow, read_row
from ...policy.prices.pricing import PriceTable, RowsBySeller
from ..resources import resource
from .watched_file import Parsed, WatchedFile

log = logging.getLogger(__name__)

_JSON: Final = json.JSONDecoder(parse_float=Decimal)


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
            bundle = _read_bundle(self._bundled_file or resource("pricing.yaml"))
        except (OSError, ValueError) as error:
            self._bundled_fault(error)
            return PriceTable()
        return PriceTable(RowsBySeller(bundle.lines, lambda seller: self._rows_of(bundle, seller)))

    def _rows_of(self, bundle: "_Bundle", seller: str) -> list[PriceRow]:
        try:
            return [row for line in bundle.lines[seller] for row in _rows_in(line, bundle.source)]
        except (ValueError, TypeError) as error:
            self._bundled_fault(error)
            return []

    def _bundled_fault(self, error: Exception) -> None:
        """A damaged installation must not stop the agent: its models are unpriced, and that is
        said."""
        problem = Problem("pricing.yaml", None, "", f"bundled prices cannot be read: {error}")
        self._bundled_problems = (problem,)
        log.warning("%s; models without a row of yours are unpriced", problem)


@dataclass(frozen=True, slots=True)
class _Bundle:
    """The bundled table, its rows still text: by the seller before the first slash."""

    source: str
    lines: dict[str, list[str]]


def _read_bundle(path: Path) -> _Bundle:
    source = ""
    lines: dict[str, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("  "):
            lines.setdefault(line[2 : line.index("/")], []).append(line)
        elif line.startswith("source: "):
            source = line.removeprefix("source: ")
    return _Bundle(source, lines)


def _rows_in(line: str, source: str) -> list[PriceRow]:
    """The rows of one model: `  key: {…}`, or a list of them by date."""
    key, _, value = line.strip().partition(": ")
    entry = _JSON.decode(value)
    each = entry if isinstance(entry, list) else [entry]
    return [read_row(key, fields, source=source) for fields in each]

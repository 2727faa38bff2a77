"""Exported rows as CSV and JSON lines, and what is said about an export. docs/export.md."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

from ..policy.money import usd_from_nanos
from .layout import short

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet takes a cell that begins so for a formula."""


def header(columns: Sequence[str]) -> list[str]:
    """The columns as they are exported: money in dollars, each time in words, too."""
    names: list[str] = []
    for column in columns:
        if column.endswith("_nanos"):
            names.append(_in_usd(column))
        elif column.endswith("_ms"):
            names += [column, column.removesuffix("_ms")]
        else:
            names.append(column)
    return names


def as_csv(
    columns: Sequence[str], rows: Iterable[tuple[Any, ...]], zone: ZoneInfo
) -> Iterator[str]:
    """Lines of CSV, the header first; nothing in them is taken for a formula."""
    yield _csv_line(header(columns))
    for row in rows:
        yield _csv_line([_cell(value) for value in _values(columns, row, zone).values()])


def as_json_lines(
    columns: Sequence[str], rows: Iterable[tuple[Any, ...]], zone: ZoneInfo
) -> Iterator[str]:
    """An object a line; a receipt is an object in it."""
    for row in rows:
        values = _values(columns, row, zone)
        if "receipt" in values:
            values["receipt"] = json.loads(values["receipt"])
        yield json.dumps(values, ensure_ascii=False) + "\n"


def _values(columns: Sequence[str], row: tuple[Any, ...], zone: ZoneInfo) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for column, value in zip(columns, row, strict=True):
        if column.endswith("_nanos"):
            values[_in_usd(column)] = None if value is None else f"{usd_from_nanos(value):f}"
        elif column.endswith("_ms"):
            values[column] = value
            values[column.removesuffix("_ms")] = _iso(value, zone)
        else:
            values[column] = value
    return values


def _in_usd(column: str) -> str:
    return f"{column.removesuffix('_nanos')}_usd"


def _iso(at_ms: int | None, zone: ZoneInfo) -> str | None:
    if at_ms is None:
        return None
    moment = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone)
    return moment.isoformat(timespec="milliseconds")


def _cell(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value


def _csv_line(cells: Sequence[Any]) -> str:
    line = io.StringIO()
    csv.writer(line).writerow(cells)
    return line.getvalue()


def written(rows: int, what: str, path: str) -> str:
    """How much went into a file."""
    return f"{rows:,} {what} were written to {path}."


def not_written(path: str, why: str) -> str:
    """The file could not be written."""
    return f"{path} was not written: {why}"


def what_to_export(known: Iterable[str]) -> str:
    """Nothing that is known was named."""
    return f"Say what to export: {', '.join(known)}."


def unknown_format(text: str, known: Iterable[str]) -> str:
    """`--format` with something else."""
    return f'"{short(text)}" is no format. Known are: {", ".join(known)}.'


def only_in_a_shell() -> str:
    """A chat is no place for a thousand rows."""
    return "Rows are exported in a shell: hermes budget export calls"

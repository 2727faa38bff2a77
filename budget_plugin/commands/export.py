"""`export`: calls, runs or receipts as CSV or JSON lines, for other programs."""

import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Final

from ..engine.engine import Engine
from ..messages import exports
from ..policy.windows import END_OF_TIME_MS
from ..store.export import TABLES, exported
from .asking import PROBLEM, USAGE, Answer, Args, Usage

_FORMATS: Final = {"csv": exports.as_csv, "jsonl": exports.as_json_lines}


def export(engine: Engine, args: Args) -> Answer:
    """Stream a table to standard output, or into the file that `--output` names."""
    if args.caller.via != "command line":
        return Answer(exports.only_in_a_shell(), None, USAGE)
    what = " ".join(args.words)
    if what not in TABLES:
        raise Usage(exports.what_to_export(TABLES))
    name = args.options.get("format", "csv")
    if name not in _FORMATS:
        raise Usage(exports.unknown_format(name, _FORMATS))
    start_ms = _day_ms(engine, args, "since", 0)
    end_ms = _day_ms(engine, args, "until", 1)
    rows = exported(engine.database, what, start_ms, end_ms)
    lines = _FORMATS[name](TABLES[what].columns, rows, engine.rules().zone)
    target = args.options.get("output")
    if target is None:
        return Answer("", stream=lines)
    try:
        count = _write(Path(target), lines) - (name == "csv")
    except OSError as error:
        return Answer(exports.not_written(target, str(error)), None, PROBLEM)
    return Answer(exports.written(count, what, target), {"rows": count, "file": target})


def _write(path: Path, lines: Iterable[str]) -> int:
    """Write a file that is whole or not there, for its owner alone; how many lines it has."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            count = 0
            for line in lines:
                file.write(line)
                count += 1
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
    return count


def _day_ms(engine: Engine, args: Args, option: str, days: int) -> int:
    """When a day begins, or with `days=1` ends; without the option the begin or end of all time."""
    text = args.options.get(option)
    if text is None:
        return END_OF_TIME_MS if days else 0
    try:
        day = date.fromisoformat(text) + timedelta(days=days)
    except ValueError:
        raise Usage(exports.not_a_day(option, text)) from None
    return (
        int(datetime.combine(day, time(), engine.rules().zone).astimezone(UTC).timestamp()) * 1000
    )

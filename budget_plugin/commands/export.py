"""`export`: calls, runs or receipts as CSV or JSON lines, for other programs."""

import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Final

from ..engine.engine import Engine
from ..messages import exports
from ..policy.windows import END_OF_TIME_MS, day_start_ms
from ..store.export import TABLES, exported
from .asking import PROBLEM, USAGE, Answer, Args, Usage
from .days import day_option

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
    zone = engine.rules().zone
    first, last = day_option(args.options, "since"), day_option(args.options, "until")
    start_ms = day_start_ms(first, zone) if first is not None else 0
    end_ms = day_start_ms(last + timedelta(days=1), zone) if last is not None else END_OF_TIME_MS
    rows = exported(engine.database, what, start_ms, end_ms)
    lines = _FORMATS[name](TABLES[what].columns, rows, zone)
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

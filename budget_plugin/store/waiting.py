"""Rows that a process could not write before it ended, in files beside the ledger.

Each process that ends so writes a file of its own, whole or not at all; the next start adds the
rows to the ledger and removes the file. Reading a file twice is harmless: a call is one row however
often it is reported. Ids, counts and money only, as in the ledger.
"""

import json
import logging
import os
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from ..policy.events import Call, Cost, CostSource, Run, Usage
from .sql.errors import driver_errors

log = logging.getLogger(__name__)

_NAMES: Final = "waiting-*.jsonl"

Row = tuple[Call, Run]


class WaitingRows:
    """The files of one budget folder; raises `LedgerError` only."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, rows: Iterable[Row]) -> Path:
        """Write rows into a new file (0600), one JSON object a line.

        Returns:
            The file.
        """
        text = "".join(_line(call, run) for call, run in rows)
        with driver_errors():
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor, name = tempfile.mkstemp(".tmp", "waiting-", self._folder)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(descriptor)
            unfinished = Path(name)
            return unfinished.rename(unfinished.with_suffix(".jsonl"))

    def take_up(self, add: Callable[[Call, Run], object]) -> int:
        """Hand every row to `add` and remove the files; where `add` raises, the file stays.

        Returns:
            How many rows there were.
        """
        found = 0
        for file in sorted(self._folder.glob(_NAMES)):
            rows = _rows(file)
            for call, run in rows:
                add(call, run)
            with driver_errors():
                file.unlink(missing_ok=True)
            found += len(rows)
        return found


def _line(call: Call, run: Run) -> str:
    return json.dumps({"call": asdict(call), "run": asdict(run)}) + "\n"


def _rows(file: Path) -> list[Row]:
    with driver_errors():
        try:
            lines = file.read_text("utf-8").splitlines()
        except FileNotFoundError:  # another process has taken it up
            return []
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            rows.append(_row(json.loads(line)))
        except (ValueError, TypeError, KeyError):
            log.error("line %d of %s is not a row of the ledger; it is left out", number, file)
    return rows


def _row(values: dict[str, Any]) -> Row:
    call, cost = values["call"], values["call"]["cost"]
    cost = Cost(**{**cost, "source": CostSource(cost["source"]), "flags": tuple(cost["flags"])})
    return Call(**{**call, "usage": Usage(**call["usage"]), "cost": cost}), Run(**values["run"])

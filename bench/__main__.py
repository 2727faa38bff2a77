"""`python -m bench`: every figure of docs/performance.md. Takes about five minutes.

--quick              a ledger of 100,000 calls instead of a million, fewer repetitions
--true-latency       the overspend matrix with the provider's latencies as they are;
                     otherwise a tenth of them
--docs               write the tables of docs/performance.md, and docs/overspend.svg
speed | loops | overspend | replay    only one of the parts
"""

import argparse
import sys
import tempfile
from pathlib import Path

from . import gates, loops, overspend, recording, replay, report
from .overspend import Cell
from .timing import Row, machine

_DOCS = Path(__file__).parents[1] / "docs"


def main() -> int:
    """Measure, print, and tell by the exit code whether every bar held."""
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("half", nargs="?", choices=["speed", "loops", "overspend", "replay"])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--true-latency", action="store_true")
    parser.add_argument("--docs", action="store_true")
    asked = parser.parse_args()
    scale = 1.0 if asked.true_latency else 0.1
    before = machine()
    print(before)
    with tempfile.TemporaryDirectory(prefix="budget-bench-") as name:
        folder = Path(name)
        rows = _speed(folder, quick=asked.quick) if asked.half in (None, "speed") else []
        circles = loops.rows(folder) if asked.half in (None, "loops") else []
        replays = _replay(folder, quick=asked.quick) if asked.half in (None, "replay") else []
        cells = _overspend(folder, scale) if asked.half in (None, "overspend") else []
    if circles:
        print(report.speed_table(circles))
    if asked.docs and circles:
        report.write_loops(_DOCS, before, circles)
    if asked.docs and rows:
        report.write_speed(_DOCS, before, rows)
    if asked.docs and replays:
        report.write_replay(_DOCS, before, replays)
    if asked.docs and cells:
        report.write_overspend(_DOCS, before, cells, scale)
    ours = [cell for cell in cells if cell.guard == "plugin"]
    return (
        0
        if all(row.ok for row in (*rows, *circles, *replays)) and all(cell.holds for cell in ours)
        else 1
    )


def _speed(folder: Path, *, quick: bool) -> list[Row]:
    rows = [
        *gates.rows(folder, 100_000 if quick else gates.LARGE),
        *recording.rows(folder, 1_000 if quick else 5_000),
    ]
    print(report.speed_table(rows))
    return rows


def _replay(folder: Path, *, quick: bool) -> list[Row]:
    rows = replay.rows(folder, quick=quick)
    print(report.speed_table(rows))
    return rows


def _overspend(folder: Path, scale: float) -> list[Cell]:
    cells = overspend.play(folder, scale)
    print(report.overspend_table(cells))
    return cells


if __name__ == "__main__":
    sys.exit(main())

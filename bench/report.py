"""The tables, for the terminal and for docs/performance.md."""

from collections.abc import Sequence
from pathlib import Path

from .overspend import Cell
from .plot import overspend_svg
from .timing import Row

_PLOTTED = (4, 0.5)
"""Processes and latency of the cells that are drawn."""


def speed_table(rows: Sequence[Row]) -> str:
    """What, bar, reached."""
    lines = ["| what | bar | reached |", "|---|---|---|"]
    for row in rows:
        missed = "" if row.ok else " — **missed**"
        note = f" {row.note}" if row.note else ""
        lines.append(f"| {row.what} | {row.bar or '–'} | {row.reached}{missed}{note} |")
    return "\n".join(lines)


def overspend_table(cells: Sequence[Cell]) -> str:
    """One line a cell."""
    lines = [
        "| guard | processes | latency | billed | over | last answers | ended by a text |",
        "|---|---|---|---|---|---|---|",
    ]
    for cell in cells:
        lines.append(
            f"| {cell.guard} | {cell.processes} | {cell.latency_s:g} s | ${cell.spent_usd:.2f} "
            f"| ${cell.over_usd:.2f} | {cell.last_answers} of {cell.processes} "
            f"| {cell.ended_by_text} of {cell.processes} |"
        )
    return "\n".join(lines)


def write_speed(docs: Path, machine: str, rows: Sequence[Row]) -> None:
    """The first half of docs/performance.md."""
    _replace(docs / "performance.md", "speed", f"The machine: {machine}.\n\n{speed_table(rows)}")


def write_loops(docs: Path, machine: str, rows: Sequence[Row]) -> None:
    """The part of docs/performance.md about circles."""
    _replace(docs / "performance.md", "loops", f"The machine: {machine}.\n\n{speed_table(rows)}")


def write_replay(docs: Path, machine: str, rows: Sequence[Row]) -> None:
    """The part of docs/performance.md about looking back."""
    _replace(docs / "performance.md", "replay", f"The machine: {machine}.\n\n{speed_table(rows)}")


def write_overspend(docs: Path, machine: str, cells: Sequence[Cell], scale: float) -> None:
    """The second half of docs/performance.md, and docs/overspend.svg."""
    plotted = [cell for cell in cells if (cell.processes, cell.latency_s) == _PLOTTED]
    (docs / "overspend.svg").write_text(overspend_svg(plotted), encoding="utf-8")
    waited = "as they are" if scale == 1 else f"at {scale:g} of their length"
    played = f"The machine: {machine}. Latencies were played {waited}."
    _replace(docs / "performance.md", "overspend", f"{played}\n\n{overspend_table(cells)}")


def _replace(page: Path, name: str, text: str) -> None:
    """What stands between the two marks of a table."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    _, _, after = rest.partition(end)
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")

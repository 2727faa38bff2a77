"""The tables, for the terminal and for docs/performance.md."""

from collections.abc import Sequence
from pathlib import Path

from .overspend import CALL_USD, ITERATIONS, LIMIT_USD, Cell
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


def write(
    docs: Path, machine: str, rows: Sequence[Row], cells: Sequence[Cell], scale: float
) -> None:
    """docs/performance.md and docs/overspend.svg."""
    plotted = [cell for cell in cells if (cell.processes, cell.latency_s) == _PLOTTED]
    (docs / "overspend.svg").write_text(overspend_svg(plotted), encoding="utf-8")
    waited = "as they are" if scale == 1 else f"at {scale:g} of their length"
    text = _TEXT.format(
        machine=machine,
        speed=speed_table(rows),
        overspend=overspend_table(cells),
        waited=waited,
        limit=f"${LIMIT_USD:.2f}",
        call=f"${CALL_USD:.2f}",
        iterations=ITERATIONS,
    )
    (docs / "performance.md").write_text(text, encoding="utf-8")


_TEXT = """\
# How fast, and how tight

Made by `make bench` (`python -m bench --docs` writes this page). The machine: {machine}.

## Speed

Medians. Short things are given in processor time, which is the time that passes on a quiet machine
and leaves out the neighbours on a busy one; the cold verdict and the slowest of the four processes
are given by the clock. "Plain sqlite3" is the same statements, with values that are ready, timed in
turns with ours in the same file and process.

{speed}

- The tool gate is timed as the host calls it: through the registered hook, with its guard. Warm, it
  is one `stat` of budget.yaml and a comparison.
- The cold verdict is the gate's whole wait, with the thread that reads and the way there and back.
  It does not grow with the ledger, since a verdict reads running totals and no calls.
- A recorded call is committed (WAL, `synchronous=NORMAL`) together with its totals.
- Admission reads all totals, all reservations and all open runs under the write lock, and sets the
  call's cost aside; settlement is the recording.

## Overspend

A limit of {limit} a day, calls of {call}, a model that asks for tools for ever and never stops by
itself, at most {iterations} calls a turn (the host's own cap). Latencies were played {waited}. The
bill is the log of the fake provider: a line for every call that reached it.

{overspend}

- **plugin**: the hooks and the middleware as the host calls them. Nothing over, and every run had
  its last answer: a call that was told that it is the last one.
- **tool gate**: the same with `model_gate: {{enabled: false}}`. Blocking tools does not stop a
  model that keeps asking; the host's cap does, at 90 calls a run.
- **check-add**: look at the sum, call, add the cost, with plain `sqlite3`. Alone it is exact to the
  call, but each further process adds a call, and no run is told to finish.

![Spend over time against the limit](overspend.svg)

Why five cents stay: while a run goes on, room is kept for its last answer, at what the call is
expected to cost; that expectation is a little above the truth (2 % for the prompt, the 95th
percentile for the answer). When the last run has had its answer, what is left holds no
further call.
"""

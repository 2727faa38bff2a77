"""`status` as a table for a terminal. Imports rich, so it is imported late."""

from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..policy.limits import SCOPES
from ..policy.verdicts import Level, Verdict
from .layout import bar, limit_or_none, percent, until
from .parts import WINDOW_WORDS, used_of
from .status import Entry, Status, around_limits, notes, spent_words

_COLOURS: Final = {Level.OK: "green", Level.SOFT: "yellow", Level.HARD: "red"}


def print_status(status: Status, prefix: str, console: Console) -> None:
    """Print the report; colours and width are the terminal's, `NO_COLOR` is kept by rich."""
    before, after = around_limits(status, prefix)
    for line in before:
        console.print(Text(line))
    if status.has_limits or any(not entry.is_empty for entry in status.entries):
        console.print(_table(status))
    for line in after:
        console.print(Text(line))


def _table(status: Status) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, heading in enumerate(("", "limit", "used", "", "", "")):
        # The id and the remarks give way on a narrow terminal, never a number.
        table.add_column(heading, overflow="fold", no_wrap=0 < number < 5)
    for entry in status.entries:
        if not entry.is_empty:
            _add(table, entry, status)
    return table


def _add(table: Table, entry: Entry, status: Status) -> None:
    kind = SCOPES[entry.scope]
    name = f"{kind.noun} {status.label(entry)}" if kind.takes_id else kind.heading
    for verdict in entry.verdicts:
        table.add_row(Text(name), *_cells(verdict, status))
        name = ""
    if not entry.verdicts:
        table.add_row(Text(name), Text("no limit"), Text(spent_words(entry)), "", "", "")


def _cells(verdict: Verdict, status: Status) -> list[Text]:
    limit = verdict.limit
    colour = _COLOURS[verdict.level]
    window = Text(WINDOW_WORDS[limit.window])
    if limit.amount == 0:
        used = limit_or_none(0, limit.measure)
        return [window, Text(used, style=colour), Text(), Text(), Text()]
    share = verdict.used / limit.amount
    remarks = "; ".join(notes(verdict, model_gate=status.model_gate))
    return [
        window,
        Text(used_of(verdict)),
        Text(f"{bar(share)} {percent(share)}", style=colour),
        Text(until(verdict.period, status.zone)),
        Text(remarks, style="dim"),
    ]

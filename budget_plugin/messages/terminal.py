"""`status` and `replay` as tables for a terminal. Imports rich, so it is imported late."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from ..policy.limits import SCOPES
from ..policy.replay.recorded import Event
from ..policy.verdicts import Level, Verdict
from .layout import bar, limit_or_none, percent, until
from .parts import WINDOW_WORDS, used_of
from .replays import ReplayReport, conclusion, heading, money, replay_text
from .status import Entry, Status, around_limits, notes, spent_words, status_text

_COLOURS: Final = {Level.OK: "green", Level.SOFT: "yellow", Level.HARD: "red"}


def print_status(status: Status, prefix: str, console: Console) -> None:
    """Print the report; colours and width are the terminal's, `NO_COLOR` is kept by rich."""
    rows = list(_rows(status))
    if _least_width(rows) > console.width:
        console.print(Text(status_text(status, prefix).within(console.width)))
        return
    before, after = around_limits(status, prefix)
    for line in before:
        console.print(Text(line))
    if rows:
        console.print(_table(rows))
    for line in after:
        console.print(Text(line))


_HEADS: Final = ("", "limit", "used", "", "", "")
_FOLDED: Final = {0: 12, 5: 24}
"""The id and the remarks give way on a narrow terminal, down to so many columns; no number does."""


def _least_width(rows: Sequence[Sequence[Text]]) -> int:
    """Columns of a terminal in which no number is cut off."""
    widths: list[int] = [
        max(cell.cell_len for cell in column) for column in zip(*rows, strict=True)
    ]
    least = [min(width, _FOLDED.get(number, width)) for number, width in enumerate(widths)]
    return sum(least) + len(least)


def _table(rows: Sequence[Sequence[Text]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, head in enumerate(_HEADS):
        table.add_column(head, overflow="fold", no_wrap=number not in _FOLDED)
    for row in rows:
        table.add_row(*row)
    return table


def _rows(status: Status) -> Iterator[list[Text]]:
    shown = (status.overall, *(entry for _, entries in status.shown for entry in entries))
    for entry in shown:
        if not entry.is_empty:
            yield from _rows_of(entry, status)


def _rows_of(entry: Entry, status: Status) -> Iterator[list[Text]]:
    kind = SCOPES[entry.scope]
    name = f"{kind.noun} {status.label(entry)}" if kind.takes_id else kind.heading
    for verdict in entry.verdicts:
        yield [Text(name), *_cells(verdict, status)]
        name = ""
    if not entry.verdicts:
        today, month = spent_words(entry)
        nothing = [Text()] * 3
        yield [Text(name), Text("no limit"), Text(today), *nothing]
        yield [Text(), Text(), Text(month), *nothing]


def _cells(verdict: Verdict, status: Status) -> list[Text]:
    limit = verdict.limit
    colour = _COLOURS[verdict.level]
    window = Text(WINDOW_WORDS[limit.window])
    if limit.amount == 0:
        used = limit_or_none(0, limit.measure)
        return [window, Text(used, style=colour), Text(), Text(), Text()]
    share = verdict.used / limit.amount
    remarks = "; ".join(notes(verdict, status))
    return [
        window,
        Text(used_of(verdict)),
        Text(f"{bar(share)} {percent(share)}", style=colour),
        Text(until(verdict.period, status.zone)),
        Text(remarks, style="dim"),
    ]


# ---------------------------------------------------------------------- replay

_EVENTS_A_STEP: Final = 2_000


def watched(events: Iterable[Event], calls: int) -> Iterator[Event]:
    """The events, with a bar on the error stream that says how far they are."""
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("replay", total=calls)
        for number, event in enumerate(events):
            if number % _EVENTS_A_STEP == 0:
                progress.update(task, completed=min(number, calls))
            yield event


def print_replay(report: ReplayReport, console: Console) -> None:
    """Print a sweep as a table with a bar each; one candidate reads better as text."""
    if len(report.rows) == 1:
        console.print(Text(replay_text(report)))
        return
    for line in heading(report):
        console.print(Text(line))
    console.print(_sweep(report))
    for line in conclusion(report):
        console.print(Text(line))


def _sweep(report: ReplayReport) -> Table:
    cost = report.cost_per_handoff_nanos
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("limit", overflow="fold")
    for head in ("cut", "had resolved", "saves a day"):
        table.add_column(head, justify="right", no_wrap=True)
    if cost is not None:
        table.add_column("handling", justify="right", no_wrap=True)
        table.add_column("net a day", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    top = max(1, *report.nets)
    for number, (candidate, outcome) in enumerate(report.rows):
        net = report.nets[number]
        cells = [f"{outcome.cut:,}", f"{outcome.cut_resolved:,}", money(outcome.saved_per_day)]
        if cost is not None:
            cells += [money(outcome.handoffs_per_day(cost)), money(net)]
        table.add_row(Text(candidate.name), *cells, _net_bar(report, number, max(0, net) / top))
    return table


def _net_bar(report: ReplayReport, number: int, share: float) -> Text:
    flat = report.flat is not None and report.flat[0] <= number <= report.flat[1]
    return Text(f"{bar(share)}{' flat' if flat else ''}", style="green" if flat else "dim")

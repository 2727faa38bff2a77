"""`replay` in words: what limits would have cut and saved, and where the number matters little."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final
from zoneinfo import ZoneInfo

from ..policy.limits import Measure
from ..policy.money import format_usd
from ..policy.replay.outcome import FLAT_WITHIN, Cut, Outcome
from ..policy.replay.player import Candidate
from .layout import bar, moment, page, percent, plain, short
from .parts import limit_name

_SHOWN_CUTS: Final = 3
_SHORT_ID: Final = 8


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """Every candidate over one period.

    Attributes:
        rows: in the order of a sweep's values.
        cost_per_handoff_nanos: what it costs when a person handles a run, `None` where not said.
        flat: the first and the last row between which the number matters little.
    """

    first_day: date
    last_day: date
    zone: ZoneInfo
    rows: tuple[tuple[Candidate, Outcome], ...]
    cost_per_handoff_nanos: int | None = None
    flat: tuple[int, int] | None = None

    @property
    def runs_unwatched(self) -> int | None:
        """Runs that no detector could judge; `None` where none was tried."""
        candidate, outcome = self.rows[0]
        return outcome.runs_unwatched if candidate.loops else None

    @property
    def nets(self) -> list[int]:
        """Nano-dollars a day that each candidate is worth."""
        return [outcome.net_per_day(self.cost_per_handoff_nanos) for _, outcome in self.rows]

    @property
    def best(self) -> int:
        """The row that is worth most."""
        nets = self.nets
        return max(range(len(nets)), key=nets.__getitem__)


def replay_text(report: ReplayReport) -> str:
    """The report for a person, every line at most 40 columns wide."""
    lines = [*heading(report)]
    top = max(0, *report.nets)
    for number, (candidate, outcome) in enumerate(report.rows):
        lines += ["", candidate.name, *(f"  {line}" for line in _facts(report, outcome))]
        if len(report.rows) > 1 and top:
            lines.append(f"  {bar(max(0, report.nets[number]) / top)}")
    return page([*lines, *conclusion(report)])


def heading(report: ReplayReport) -> list[str]:
    """What was played."""
    outcome = report.rows[0][1]
    unwatched = report.runs_unwatched
    have = "has" if unwatched == 1 else "have"
    days = "1 day" if outcome.days == 1 else f"{outcome.days} days"
    return [
        "What these limits would have done",
        f"{report.first_day} to {report.last_day}, {days}",
        f"{_runs(outcome.runs)}, {outcome.calls:,} calls, {money(outcome.spent_nanos)}",
        *([f"{_runs(unwatched)} {have} no recorded tool calls"] if unwatched else []),
    ]


def _runs(number: int) -> str:
    return "1 run" if number == 1 else f"{number:,} runs"


def _tool_calls(number: int) -> str:
    return "1 tool call" if number == 1 else f"{number:,} tool calls"


def _share(outcome: Outcome) -> str:
    """Of all runs; a few in a thousand must not read as none."""
    percents = 100 * outcome.cut / max(1, outcome.runs)
    return f"{percents:.0f} %" if percents >= 10 else f"{max(percents, 0.1):.1f} %"


def _facts(report: ReplayReport, outcome: Outcome) -> Iterator[str]:
    if outcome.tools_refused:
        yield f"refuses {_tool_calls(outcome.tools_refused)}"
    if not outcome.cut:
        yield "cuts no run"
        return
    yield f"cuts {outcome.cut:,} of {_runs(outcome.runs)} ({_share(outcome)})"
    if outcome.cut_resolved:
        yield f"{outcome.cut_resolved:,} of them had ended resolved"
    if outcome.cut_unknown:
        yield f"{outcome.cut_unknown:,} of them have no ending on record"
    yield f"saves {money(outcome.saved_per_day)} a day"
    cost = report.cost_per_handoff_nanos
    if cost is not None:
        yield f"handling those: {money(outcome.handoffs_per_day(cost))} a day"
        yield f"net {money(outcome.net_per_day(cost))} a day"


def conclusion(report: ReplayReport) -> Iterator[str]:
    """What follows: the flat region of a sweep; of a single candidate, why and which runs."""
    if len(report.rows) == 1:
        yield from _why(report)
        return
    yield ""
    name, best = report.rows[report.best][0].name, report.nets[report.best]
    word = "saves" if report.cost_per_handoff_nanos is None else "nets"
    if best <= 0:
        yield "None of them is worth it."
        return
    yield f"Best: {name} {word} {money(best)} a day."
    if report.flat is None:
        yield "No neighbour comes near it: here the number matters."
        return
    first, last = (report.rows[at][0] for at in report.flat)
    yield (
        f"Flat from {first.name} to {last.name}: within {percent(FLAT_WITHIN)} of the best. "
        "The exact number hardly matters there; that there is one does."
    )


def _why(report: ReplayReport) -> Iterator[str]:
    outcome = report.rows[0][1]
    if not outcome.cut:
        return
    yield ""
    yield "Cut by"
    for cause, runs in outcome.causes.items():
        yield f"  {cause}: {runs:,}"
    yield ""
    yield "Largest"
    for cut in outcome.worst[:_SHOWN_CUTS]:
        yield from _cut(cut, report.zone)


def _cut(cut: Cut, zone: ZoneInfo) -> Iterator[str]:
    ended = {True: ", had resolved", False: "", None: ""}[cut.resolved]
    yield f"  {moment(cut.at_ms, zone)} {cut.kind or 'run'} {short(cut.run_id[-_SHORT_ID:])}"
    reason = str(cut.cause) if cut.limit is None else limit_name(cut.limit)
    yield f"    saves {money(cut.saved_nanos)}{ended}"
    yield f"    {reason}"


def money(nanos: int) -> str:
    """`$24.00`, `-$3.10`."""
    return f"-{format_usd(-nanos)}" if nanos < 0 else format_usd(nanos)


def ceiling_name(key: str, number: float, kind: str) -> str:
    """`14 dispatches`, `$4.00 a run`, `180 s`, with the kind of run where only one is meant."""
    words = {
        "dispatches": f"{number:,} dispatches",
        "tool_calls": f"{number:,} tool calls",
        "tokens": f"{number:,} tokens",
        "wall_clock_s": f"{number:,g} s",
        "usd": f"{format_usd(int(number))} a run",
    }
    return f"{words[key]} ({kind})" if kind else words[key]


def loops_name(acting: Sequence[str]) -> str:
    """`loops on`, `repeated_call on`."""
    return f"{acting[0] if len(acting) == 1 else 'loops'} on"


def which_detectors(all_: str, names: Sequence[str]) -> str:
    """What `--loops` takes."""
    return f"{all_}, {', '.join(names)}; what the others look at is not recorded"


# ---------------------------------------------------------------------- for programs


def replay_data(report: ReplayReport) -> dict[str, object]:
    """The report as JSON takes it; docs/json.md describes it."""
    cost = report.cost_per_handoff_nanos
    outcome = report.rows[0][1]
    return {
        "version": 1,
        "from": report.first_day.isoformat(),
        "to": report.last_day.isoformat(),
        "days": outcome.days,
        "runs": outcome.runs,
        "calls": outcome.calls,
        "usd": plain(outcome.spent_nanos, Measure.USD),
        "runs_without_tool_calls": report.runs_unwatched,
        "cost_per_handoff_usd": None if cost is None else plain(cost, Measure.USD),
        "candidates": [_row_data(report, *row) for row in report.rows],
        "flat": None if report.flat is None else [report.rows[at][0].name for at in report.flat],
        "best": report.rows[report.best][0].name if max(report.nets) > 0 else None,
    }


def _row_data(report: ReplayReport, candidate: Candidate, outcome: Outcome) -> dict[str, object]:
    cost = report.cost_per_handoff_nanos
    handled = None if cost is None else plain(outcome.handoffs_per_day(cost), Measure.USD)
    return {
        "name": candidate.name,
        "value": candidate.value,
        "runs_cut": outcome.cut,
        "cut_resolved": outcome.cut_resolved,
        "cut_without_ending": outcome.cut_unknown,
        "calls_saved": outcome.saved_calls,
        "tool_calls_refused": outcome.tools_refused,
        "saved_usd": plain(outcome.saved_nanos, Measure.USD),
        "saved_usd_per_day": plain(outcome.saved_per_day, Measure.USD),
        "handoffs_usd_per_day": handled,
        "net_usd_per_day": plain(outcome.net_per_day(cost), Measure.USD),
        "causes": dict(outcome.causes),
        "largest": [_cut_data(cut) for cut in outcome.worst],
    }


def _cut_data(cut: Cut) -> dict[str, object]:
    return {
        "run": cut.run_id,
        "kind": cut.kind,
        "at_ms": cut.at_ms,
        "cause": str(cut.cause) if cut.limit is None else limit_name(cut.limit),
        "saved_usd": plain(cut.saved_nanos, Measure.USD),
        "resolved": cut.resolved,
    }


# ---------------------------------------------------------------------- what does not work


def nothing_recorded() -> str:
    """An empty ledger, or an empty period."""
    return "Nothing is recorded in that time, so there is nothing to replay."


def too_much_for_a_chat(calls: int, most: int) -> str:
    """A year of a busy home would hold up the gateway."""
    return (
        f"{calls:,} calls are more than a chat replays ({most:,}). Ask for fewer days with "
        "--days, or use the command line."
    )


def name_a_limit(prefix: str) -> str:
    """No candidate, and nothing in budget.yaml either."""
    return f"Name a limit to try. {how_to_name_a_limit(prefix)}"


def how_to_name_a_limit(prefix: str) -> str:
    """An example of each kind."""
    return (
        f"For example: {prefix} replay --dispatches 8,11,14,20, or {prefix} replay global daily "
        "3,5,8 and cron_job daily 1.00."
    )


def option_not_understood(option: str, text: str, right: str) -> str:
    """A value with what would be right."""
    return f'--{option} "{short(text)}" is not understood: {right}.'


def one_sweep_only() -> str:
    """Two lists of values make a table of two dimensions."""
    return "Only one limit may have several values; give the others one each."


def too_many_values(most: int) -> str:
    """A sweep that nobody reads."""
    return f"A sweep has at most {most} values."


def ends_before_it_begins(first: date, last: date) -> str:
    """--from after --to."""
    return f"{first} is after {last}."


def no_files_from_a_chat() -> str:
    """`--svg` from a chat app."""
    return "A picture is written from the command line only."


def no_such_folder(folder: str) -> str:
    """Where the picture was to go."""
    return f"There is no folder {short(folder, 200)}."

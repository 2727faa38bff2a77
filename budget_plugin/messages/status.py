"""`status` as text; for programs: `status_data`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from ..policy.limit_changes import HeldLimit
from ..policy.limits import SCOPES, Limit, Measure, Problem, Scope
from ..policy.tier_costs import TierCost
from ..policy.verdicts import Level, Spend, Verdict
from ..policy.windows import Window
from .cron import ShortJob, will_not_fit
from .held import held_lines
from .layout import (
    Page,
    bar,
    job_label,
    limit_or_none,
    many,
    moment,
    page,
    percent,
    short,
    until,
    whose,
)
from .observing import Watched, WatchedRuns, watched_lines
from .parts import WINDOW_WORDS, amount, in_force, used_of
from .price_words import not_in_dollars
from .roles import tier_costs

if TYPE_CHECKING:
    from ..store.journal import Pause, Stopped

MOST_IDS: Final = 20
"""Ids that a section shows; data for programs has all."""

_ONLY_WITH_LIMITS: Final = (Scope.PLATFORM, Scope.MODEL)

MOST_INACTIVE: Final = 10
MOST_PROBLEMS: Final = 5


@dataclass(frozen=True, slots=True)
class Entry:
    """One id: how its limits stand, and what it spent today and this month."""

    scope: Scope
    scope_id: str
    verdicts: tuple[Verdict, ...]
    today: Spend
    month: Spend

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to show: no limit and nothing used."""
        return not self.verdicts and not self.month.calls


@dataclass(frozen=True, slots=True)
class Status:
    """Everything that `status` shows.

    Attributes:
        overall: everything together.
        sections: the other scopes, each with the ids that were active in the last 30 days.
        inactive: limits of ids without activity.
        short_jobs: cron jobs whose next run should cost more than is left.
        job_names: names of the host's cron jobs by id.
        observed: limits that block nothing, and what they would have done.
        observed_runs: the same of the ceilings of single runs; `None` where there are none.
        held: edits of the file that wait for a person's word.
        failing_since_ms: since when the ledger has not taken rows.
        ledger_error: why the ledger could not be read now; then nothing is known of the spend.
        model_gate: whether calls to the model are stopped, and not tools alone.
        run_limits: single runs have ceilings.
        limited: some limit, or some ceiling of runs, is in force.
        personal: only what concerns the one who asks; the total is shown as a share.
        tiers: what runs of the last 30 days cost by tier.
        unpriced_models: whose calls are missing in the dollars that are shown.
        stopped: how many runs a limit has stopped in its window, see `Journal.stopped`.
    """

    now_ms: int
    zone: ZoneInfo
    overall: Entry
    sections: tuple[tuple[Scope, tuple[Entry, ...]], ...] = ()
    inactive: tuple[Limit, ...] = ()
    pauses: "tuple[Pause, ...]" = ()
    short_jobs: tuple[ShortJob, ...] = ()
    job_names: Mapping[str, str] = field(default_factory=dict)
    observed: tuple[Watched, ...] = ()
    observed_runs: WatchedRuns | None = None
    held: tuple[HeldLimit, ...] = ()
    problems: tuple[Problem, ...] = ()
    waiting_calls: int = 0
    failing_since_ms: int | None = None
    ledger_error: str = ""
    model_gate: bool = True
    limited: bool = True
    run_limits: bool = False
    personal: bool = False
    tiers: tuple[TierCost, ...] = ()
    unpriced_models: tuple[str, ...] = ()
    stopped: "Mapping[tuple[str, ...], Stopped]" = field(default_factory=dict)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Everything together, then all ids."""
        return (self.overall, *(entry for _, entries in self.sections for entry in entries))

    @property
    def shown(self) -> tuple[tuple[Scope, tuple[Entry, ...]], ...]:
        """The sections that a person reads: who spent, and what a limit is about.

        Platforms and models divide the same money once more; where no limit asks for that, only
        data for programs has it.
        """
        return tuple(
            (scope, entries)
            for scope, entries in self.sections
            if scope not in _ONLY_WITH_LIMITS or any(entry.verdicts for entry in entries)
        )

    def stopped_by(self, verdict: Verdict) -> "Stopped | None":
        """The runs that the limit has stopped in this window; of all time they are not counted."""
        limit = verdict.limit
        if limit.window is Window.TOTAL:
            return None
        key = (limit.scope, limit.scope_id, limit.window, limit.measure, verdict.period.key)
        return self.stopped.get(key)

    def label(self, entry: Entry) -> str:
        """What an id is called."""
        if entry.scope is Scope.CRON_JOB:
            return job_label(entry.scope_id, self.job_names)
        return short(entry.scope_id)

    @property
    def over_budget(self) -> bool:
        """Whether any limit that is in use blocks."""
        return any(verdict.blocks for entry in self.entries for verdict in entry.verdicts)

    @property
    def has_limits(self) -> bool:
        """Whether any limit is set at all."""
        return bool(self.inactive) or any(entry.verdicts for entry in self.entries)

    @property
    def shows_nothing(self) -> bool:
        """Whether no limit is set and nobody has spent anything."""
        watches = bool(self.observed) or self.observed_runs is not None
        return not (self.has_limits or watches or self.sections) and self.overall.is_empty


def status_text(status: Status, prefix: str) -> Page:
    """The report for a person."""
    before, after = around_limits(status, prefix)
    return page([*before, *_body(status), *after])


def around_limits(status: Status, prefix: str) -> tuple[list[str], list[str]]:
    """The lines before and behind the limits: what is wrong, and what else there is to know."""
    before = [*_faults(status), *held_lines(status.held, prefix)]
    if status.shows_nothing and not status.ledger_error:
        before.append("No budgets configured.")
        if not status.personal:
            before += ["Nothing was spent this month."]
            before += ["To set one:", f"  {prefix} set global daily 5.00"]
            before += ["Or let the past suggest some:"]
            before += [f"  {prefix} import", f"  {prefix} suggest"]
    watched = watched_lines(status.observed, status.observed_runs, prefix, status.zone)
    return before, [*watched, *_footnotes(status, prefix)]


def _body(status: Status) -> Iterator[str]:
    if not status.overall.is_empty:
        yield "Everything together" if status.personal else SCOPES[Scope.GLOBAL].heading
        yield from _share_lines(status) if status.personal else entry_lines(status.overall, status)
    for scope, entries in status.shown:
        yield from _section(scope, entries, status)


def _section(scope: Scope, entries: Sequence[Entry], status: Status) -> Iterator[str]:
    yield from ("", "You" if status.personal else SCOPES[scope].heading)
    for entry in entries[:MOST_IDS]:
        yield f" {status.label(entry)}"
        yield from entry_lines(entry, status)
    if (more := len(entries) - MOST_IDS) > 0:
        yield f" … and {more} more"


def entry_lines(entry: Entry, status: Status) -> Iterator[str]:
    """The lines of one id: a pair per limit, or what was spent where there is none."""
    for verdict in entry.verdicts:
        yield from _limit_lines(verdict, status)
    if not entry.verdicts:
        yield f"  {', '.join(spent_words(entry))}"
        yield "  no limit"
        yield from _doubts(entry.month)


def _limit_lines(verdict: Verdict, status: Status) -> Iterator[str]:
    limit = verdict.limit
    name = limit_label(limit)
    if limit.amount == 0:
        yield f"  {name}  {limit_or_none(0, limit.measure)}"
        if verdict.used:
            yield f"    {amount(verdict.used, limit.measure)} used"
        return
    yield f"  {name}  {used_of(verdict)}"
    share = verdict.used / limit.amount
    yield f"  {bar(share)} {percent(share)}, {until(verdict.period, status.zone)}"
    yield from (f"    {note}" for note in notes(verdict, status))


def limit_label(limit: Limit) -> str:
    """`daily`, `overall`; counts name themselves in the amount."""
    return WINDOW_WORDS[limit.window]


def notes(verdict: Verdict, status: Status) -> Iterator[str]:
    """What else a person must know about a limit, each in a few words."""
    if verdict.blocks:
        yield "reached: calls are refused" if status.model_gate else "reached: tools are refused"
    elif verdict.on_estimates:
        yield "over only by estimates: not blocked"
    elif verdict.level is Level.SOFT:
        yield f"past the mark of {round(100 * (verdict.soft_share or 0))} %"
    if stopped := status.stopped_by(verdict):
        early = not verdict.blocks and stopped.before_it_was_reached
        why = ", as nothing more fitted" if early else ""
        yield f"{many(stopped.runs, 'run')} stopped{why}"
    if verdict.limit.measure is Measure.USD:
        yield from _doubts_of(verdict.spend)


def _doubts(spend: Spend) -> Iterator[str]:
    yield from (f"    {doubt}" for doubt in _doubts_of(spend))


def _doubts_of(spend: Spend) -> Iterator[str]:
    if spend.estimated_calls:
        yield f"{amount(spend.estimated_nanos, Measure.USD)} of it is estimated"
    if spend.unpriced_calls:
        calls = "1 call is" if spend.unpriced_calls == 1 else f"{spend.unpriced_calls:,} calls are"
        yield f"{calls} unpriced"


def spent_words(entry: Entry) -> tuple[str, str]:
    """What an id without limits has spent: `today $0.12`, `month $3.40`."""
    return f"today {_spent(entry.today)}", f"month {_spent(entry.month)}"


def _spent(spend: Spend) -> str:
    least = "at least " if spend.unpriced_calls else ""
    return f"{least}{amount(spend.nanos, Measure.USD)}"


def _share_lines(status: Status) -> Iterator[str]:
    """The total for somebody who may not see what others spend: only shares of limits."""
    for verdict in status.overall.verdicts:
        limit = verdict.limit
        if limit.amount == 0:
            yield f"  {limit_label(limit)}  {limit_or_none(0, limit.measure)}"
            continue
        share = verdict.used / limit.amount
        yield f"  {limit_label(limit)}  {percent(share)} of {amount(limit.amount, limit.measure)}"
        yield f"  {bar(share)} {until(verdict.period, status.zone)}"
    if not status.overall.verdicts:
        yield "  no limit"


def _inactive(limits: Sequence[Limit]) -> str:
    shown = [
        f"{whose(limit.scope, limit.scope_id)} {WINDOW_WORDS[limit.window]} "
        f"{limit_or_none(limit.amount, limit.measure)}"
        for limit in limits[:MOST_INACTIVE]
    ]
    if (more := len(limits) - MOST_INACTIVE) > 0:
        shown.append(f"and {more} more")
    return ", ".join(shown)


# ---------------------------------------------------------------------- what is wrong, and the rest


def _faults(status: Status) -> Iterator[str]:
    if status.ledger_error:
        why = "." if status.personal else f": {status.ledger_error}"
        yield f"The ledger does not answer{why}"
    if status.failing_since_ms is not None:
        yield f"Not enforcing since {moment(status.failing_since_ms, status.zone)}:"
        yield "  the ledger takes no rows."
    if status.waiting_calls:
        one = status.waiting_calls == 1
        rows = "1 row waits" if one else f"{status.waiting_calls} rows wait"
        yield f"{rows} to be written."
    if status.problems:
        holds = in_force(status.problems, limited=status.limited)
        yield " ".join(filter(None, ("The settings have a mistake.", holds)))
    yield from (f"  {problem}" for problem in status.problems[:MOST_PROBLEMS])
    if (more := len(status.problems) - MOST_PROBLEMS) > 0:
        yield f"  and {more} more"


def _footnotes(status: Status, prefix: str) -> Iterator[str]:
    if status.inactive:
        yield from ("", f"Limits without activity: {_inactive(status.inactive)}.")
    yield from _pauses(status)
    for job in status.short_jobs:
        yield from ("", f"{job_label(job.job_id, status.job_names)}: {will_not_fit(job)}")
    if status.unpriced_models:
        yield from ("", not_in_dollars(status.unpriced_models, prefix))
    if status.tiers:
        yield from ("", tier_costs(status.tiers))
    if status.run_limits:
        yield from ("", f"Single runs have ceilings of their own: {prefix} runs")
    if not status.has_limits:
        return
    yield ""
    if not status.personal:
        gate = "tools and model calls" if status.model_gate else "tools only (model gate is off)"
        yield f"A reached limit stops {gate}."
    yield f"Times are {status.zone.key}."


def _pauses(status: Status) -> Iterator[str]:
    if status.pauses:
        yield from ("", "Paused cron jobs")
    for pause in status.pauses:
        yield f" {job_label(pause.cron_job_id, status.job_names)}"
        yield f"  since {moment(pause.paused_ms, status.zone)}"
        if pause.until_ms < status.now_ms + 100 * 366 * 86_400_000:
            yield f"  until {moment(pause.until_ms, status.zone)}"

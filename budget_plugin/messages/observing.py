"""Observed limits in words: how they stand, and what they would have done."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from ..policy.limits import Mode, Scope
from ..policy.verdicts import Verdict
from .layout import bar, limit_or_none, page, percent, plain, until, upper_first, whose
from .parts import WINDOW_WORDS, quoted, used_of
from .verdicts import raise_command, reached_already

if TYPE_CHECKING:
    from ..store.files.mode_edit import ModeChange


@dataclass(frozen=True, slots=True)
class Watched:
    """An observed limit, and how many runs it would have stopped in its window."""

    verdict: Verdict
    runs: int


@dataclass(frozen=True, slots=True)
class WatchedRuns:
    """The ceilings of runs that are only observed: how many runs they would have stopped lately."""

    days: int
    runs: int


def watched_lines(
    limits: tuple[Watched, ...], ceilings: WatchedRuns | None, prefix: str, zone: ZoneInfo
) -> Iterator[str]:
    """The part of a status about them; nothing where there are none."""
    if not limits and ceilings is None:
        return
    yield from ("", "Observed: these block nothing")
    named = ""
    for watched in limits:
        limit = watched.verdict.limit
        name = whose(limit.scope, limit.scope_id)
        if name != named:
            yield f" {upper_first(name)}"
            named = name
        yield from _limit_lines(watched, zone)
    if ceilings is not None:
        yield " Ceilings of single runs"
        yield f"  {_would_have(ceilings.runs)} in {ceilings.days} days"
    yield f"To enforce them: {prefix} enforce"


def _limit_lines(watched: Watched, zone: ZoneInfo) -> Iterator[str]:
    verdict = watched.verdict
    limit, window = verdict.limit, WINDOW_WORDS[verdict.limit.window]
    if limit.amount == 0:
        yield f"  {window}  {limit_or_none(0, limit.measure)}"
    else:
        share = verdict.used / limit.amount
        yield f"  {window}  {used_of(verdict)}"
        yield f"  {bar(share)} {percent(share)}, {until(verdict.period, zone)}"
    if watched.runs or verdict.blocks:
        yield f"    {_would_have(watched.runs)}"


def _would_have(runs: int) -> str:
    return f"would have stopped {'1 run' if runs == 1 else f'{runs:,} runs'}"


def watched_data(watched: Watched) -> dict[str, object]:
    """An observed limit for programs; docs/json.md describes it."""
    verdict, limit = watched.verdict, watched.verdict.limit
    return {
        "scope": str(limit.scope),
        "id": limit.scope_id,
        "window": str(limit.window),
        "measure": str(limit.measure),
        "limit": plain(limit.amount, limit.measure),
        "used": plain(verdict.used, limit.measure),
        "would_block": verdict.blocks,
        "runs_that_would_have_stopped": watched.runs,
        "end_ms": verdict.period.end_ms,
    }


def watched_runs_data(ceilings: WatchedRuns | None) -> dict[str, object] | None:
    """The observed ceilings for programs."""
    if ceilings is None:
        return None
    return {"days": ceilings.days, "runs_that_would_have_stopped": ceilings.runs}


# ---------------------------------------------------------------------- changing the mode


def modes_changed(
    changes: "list[ModeChange]", mode: Mode, reached: Iterable[Verdict], prefix: str, zone: ZoneInfo
) -> str:
    """What is enforced, or observed, from now on.

    Args:
        reached: limits that block from this moment on, since they are used up.
    """
    if not changes:
        return nothing_to_change(mode)
    word = "Enforced" if mode is Mode.ENFORCE else "Only observed, nothing is blocked"
    lines = [f"{word} from now on:", *(f"  {change.name}" for change in changes)]
    for verdict in reached:
        raised = raise_command(verdict).removeprefix("/budget")
        lines += ["", *reached_already(verdict, zone), f"To go on before that: {prefix}{raised}"]
    return page(lines)


def nothing_to_change(mode: Mode) -> str:
    """No limit of what was named is in the other mode."""
    if mode is Mode.ENFORCE:
        return "Nothing there is only observed, so there is nothing to enforce."
    return "Nothing there is enforced, so there is nothing to observe."


def observe_usage(prefix: str) -> str:
    """`observe` alone would switch everything off."""
    return (
        f"Name what to observe: {prefix} observe <scope> [<id>], or {prefix} observe runs "
        "[default|cron|chat|child]."
    )


def only_observed(scope: Scope, scope_id: str, prefix: str) -> str:
    """Behind a `set` in a part of the file that is observed."""
    words = [prefix, "enforce", str(scope), *([quoted(scope_id)] if scope_id else [])]
    return f"It is only observed and blocks nothing; to enforce it: {' '.join(words)}"

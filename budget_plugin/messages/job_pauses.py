"""What is said when a person pauses or resumes a cron job."""

from collections.abc import Mapping, Sequence
from zoneinfo import ZoneInfo

from ..policy.verdicts import Verdict
from .cron import ShortJob, will_not_fit
from .layout import job_label, page, short
from .parts import quoted
from .status_data import limit_data
from .verdicts import raise_command, reached_already

Names = Mapping[str, str]
"""Names of the host's cron jobs by id."""


def name_a_job(prefix: str, command: str) -> str:
    """Neither a name nor an id."""
    return f"Name the job by its name or id: {prefix} {command} <job>"


def needs_the_host(command: str, called: str) -> str:
    """Typed outside of Hermes, whose jobs they are."""
    typed = f"{command} {quoted(called)}"
    return (
        "Cron jobs are Hermes' own, and out of reach from here. "
        f"Use hermes budget {typed}, or /budget {typed} in a chat."
    )


def no_such_job(called: str, near: Sequence[str], names: Names) -> str:
    """A name that no job has, with those that are nearest."""
    meant = " or ".join(job_label(job_id, names) for job_id in near)
    hint = f" Did you mean {meant}?" if meant else " hermes cron list --all shows them."
    return f'No cron job is called "{short(called)}".{hint}'


def not_done(job_id: str, names: Names, why: str) -> str:
    """The host's store did not do it."""
    return f"Hermes did not change {job_label(job_id, names)}: {why}"


def paused_by(who: str, via: str) -> str:
    """The note that Hermes keeps of a person's pause."""
    return f"paused by {who} ({via})"


def paused(job_id: str, names: Names, prefix: str, *, was_ours: bool) -> str:
    """Done; what was our pause does not end at the reset any more."""
    more = "It does not go on at the reset any more." if was_ours else ""
    return page(
        [
            f"{job_label(job_id, names)} is paused.",
            *filter(None, [more]),
            f"To let it go on: {prefix} resume {quoted(job_id)}",
        ]
    )


def paused_already(job_id: str, names: Names, why: str) -> str:
    """It was a person's pause before."""
    note = f": {short(why, 80)}" if why else "."
    return f"{job_label(job_id, names)} is paused already{note}"


def still_paused(job_ids: Sequence[str], names: Names, prefix: str, *, by_itself: bool) -> str:
    """Behind a limit that was raised, by which jobs had been paused.

    Args:
        by_itself: they are resumed at the reset without a word.
    """
    until = " until the reset" if by_itself else ""
    first, *others = job_ids
    and_more = f", and {len(others)} more" if others else ""
    return (
        f"{job_label(first, names)}{and_more} stays paused{until}. "
        f"To let it go on now: {prefix} resume {quoted(first)}"
    )


def ended(job_id: str, names: Names) -> str:
    """Its last firing is over."""
    return f"{job_label(job_id, names)} has fired for the last time."


def not_paused(job_id: str, names: Names) -> str:
    """There is nothing to resume."""
    return f"{job_label(job_id, names)} is not paused."


def resumed(job_id: str, names: Names, short_of: ShortJob | None, prefix: str) -> str:
    """Done, and whether its next run is likely to be stopped.

    Args:
        short_of: what its next run should cost is not left.
    """
    lines = [f"{job_label(job_id, names)} is resumed."]
    if short_of is not None:
        more = _typed(raise_command(short_of.verdict), prefix)
        lines += [will_not_fit(short_of), f"It is paused again then, unless you raise that: {more}"]
    return page(lines)


def held(
    job_id: str, names: Names, verdict: Verdict, zone: ZoneInfo, prefix: str, *, by_itself: bool
) -> str:
    """Not resumed, since it would be stopped at its first call.

    Args:
        by_itself: the job is resumed at the reset without a word.
    """
    return page(
        [
            f"{job_label(job_id, names)} stays paused: it would be stopped at its first call.",
            *reached_already(verdict, zone),
            *(["The job goes on by itself then."] if by_itself else []),
            f"To go on before that: {_typed(raise_command(verdict), prefix)}",
            f"And then: {prefix} resume {quoted(job_id)}",
        ]
    )


def _typed(command: str, prefix: str) -> str:
    return f"{prefix}{command.removeprefix('/budget')}"


def job_data(
    job_id: str, names: Names, *, paused: bool, changed: bool, held_by: Verdict | None
) -> dict[str, object]:
    """The same for programs; docs/json.md describes it."""
    return {
        "job": job_id,
        "name": names.get(job_id),
        "paused": paused,
        "changed": changed,
        "held_by": None if held_by is None else limit_data(held_by.limit),
        "until_ms": None if held_by is None else held_by.period.end_ms,
    }

"""What `doctor` says: findings, each a sentence, in the order of looking."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from enum import IntEnum
from pathlib import Path
from typing import Final


class Grade(IntEnum):
    """How bad a finding is; only a problem makes `doctor` fail."""

    FINE = 0
    NOTE = 1
    PROBLEM = 2


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at, and how it stands."""

    about: str
    grade: Grade
    text: str


def fine(about: str, text: str) -> Finding:
    """All is well."""
    return Finding(about, Grade.FINE, text)


def note(about: str, text: str) -> Finding:
    """Worth knowing; nothing is broken."""
    return Finding(about, Grade.NOTE, text)


def problem(about: str, text: str) -> Finding:
    """Something does not work as it should."""
    return Finding(about, Grade.PROBLEM, text)


_MARKS: Final = {Grade.FINE: "ok     ", Grade.NOTE: "note   ", Grade.PROBLEM: "PROBLEM"}


def diagnosis(findings: Sequence[Finding]) -> str:
    """All findings, then what to make of them."""
    lines = [f"{_MARKS[found.grade]}  {found.about}: {found.text}" for found in findings]
    problems = sum(found.grade is Grade.PROBLEM for found in findings)
    if not problems:
        last = "No problem was found."
    else:
        last = "1 problem was found." if problems == 1 else f"{problems} problems were found."
    return "\n".join([*lines, last])


def diagnosis_data(findings: Sequence[Finding]) -> list[dict[str, object]]:
    """The findings for programs."""
    return [
        {"about": found.about, "grade": found.grade.name.lower(), "text": found.text}
        for found in findings
    ]


# ---------------------------------------------------------------------- Python and the settings


def python(version: str, executable: str, plugin: str) -> Finding:
    """The interpreter and our own version."""
    return fine("versions", f"hermes-budget {plugin}, Python {version} ({executable})")


def settings(path: Path, problems: Sequence[object], limits: int, *, missing: bool) -> Finding:
    """budget.yaml."""
    if missing:
        return note("limits", f"{path} is not there: spending is recorded, nothing is limited")
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        return problem("limits", f"{problems[0]}{more}")
    if not limits:
        return note("limits", f"{path} sets no limit: spending is only recorded")
    return fine("limits", f"{limits} set in {path}")


def prices(day: date | None, today: date, problems: Sequence[object]) -> Finding:
    """The price table and its age."""
    if problems:
        return problem("prices", str(problems[0]))
    if day is None:
        return problem("prices", "the bundled prices do not say how old they are")
    age_days = (today - day).days
    if age_days > OLD_PRICES_DAYS:
        return note(
            "prices",
            f"the bundled prices are {age_days} days old (of {day.isoformat()}): "
            "update hermes-budget",
        )
    return fine("prices", f"bundled prices of {day.isoformat()}")


OLD_PRICES_DAYS: Final = 60


def unpriced_models(models: Sequence[str], prefix: str) -> Finding:
    """Models in use without a price."""
    if not models:
        return fine("models", "each model of the last 30 days has a price")
    return note("models", f"no price for {', '.join(models)}: see {prefix} prices check")


# ---------------------------------------------------------------------- the ledger and the clock


def ledger(path: Path, size_bytes: int, journal: str, schema: str) -> Finding:
    """The ledger's file."""
    size = f"{size_bytes / 1_000_000:.1f} MB" if size_bytes >= 100_000 else f"{size_bytes:,} bytes"
    text = f"{path}, {size}, schema {schema}, journal mode {journal}"
    if journal != "wal":
        return note("ledger", f"{text}: this file system allows only a slower mode")
    return fine("ledger", text)


def ledger_silent(path: Path, error: str) -> Finding:
    """The ledger cannot be read."""
    return problem("ledger", f"{path} does not answer: {error}")


def damaged_ledgers(paths: Sequence[Path]) -> Finding:
    """Ledgers that were set aside."""
    names = ", ".join(path.name for path in paths)
    return note("ledger", f"damaged and set aside: {names}; what they hold is not counted any more")


def totals(compared: int, differing: int) -> Finding:
    """The audit of the totals."""
    if differing:
        return problem("totals", f"{differing} of {compared} do not equal their calls")
    return fine("totals", f"{compared} compared with their calls, no difference")


def clock(now: str, zone: str, ahead_s: int) -> Finding:
    """The clock, the zone, and calls that are dated later than now."""
    if ahead_s > 60:
        return problem(
            "clock",
            f"it is {now} here, but the newest call is dated {ahead_s} s later: "
            "the clock was set back, or another machine's is wrong",
        )
    return fine("clock", f"{now}, days begin at midnight in {zone}")


# ---------------------------------------------------------------------- the host


def outside_host(prefix: str) -> Finding:
    """Asked outside of Hermes."""
    return note("Hermes", f"not looked at from here; inside it: {prefix} doctor")


def host_version(found: str, tested: str) -> Finding:
    """The version of Hermes."""
    if found == tested:
        return fine("Hermes", f"version {found}")
    return note("Hermes", f"version {found or 'unknown'}; tested with {tested}")


def loaded(source: str, count: int) -> Finding:
    """The plugin in the host."""
    if count == 0:
        return problem("plugin", "not enabled: hermes plugins enable budget")
    if count > 1:
        return problem("plugin", f"loaded {count} times")
    return fine("plugin", f"enabled and loaded once ({source})")


def load_error(error: str) -> Finding:
    """The host could not load the plugin."""
    return problem("plugin", f"did not load: {error}")


def hooks(found: int, missing: Sequence[str], doubled: Sequence[str]) -> Finding:
    """The places in the host where we act."""
    if missing:
        return problem("hooks", f"not registered: {', '.join(missing)}")
    if doubled:
        return problem("hooks", f"registered more than once: {', '.join(doubled)}")
    return fine("hooks", f"all {found} registered")


def installed_twice(package: str, folder: Path) -> Finding:
    """Both ways of installing at once."""
    return problem(
        "installation",
        f"installed twice: as a package ({package}) and in {folder}. Only one of them runs, "
        "and an update of the other changes nothing. Remove one",
    )


def stray_settings(path: Path, right: Path, *, has_limits: bool) -> Finding:
    """A budget.yaml where nobody reads it."""
    if has_limits:
        return problem("installation", f"the limits in {path} are not read; move them to {right}")
    return note("installation", f"{path} is a copy of the example and not read; limits: {right}")


def gate_off() -> Finding:
    """The model gate is switched off."""
    return note("model gate", "off: a reached limit stops tools, and calls to the model go on")


def not_enforced() -> list[Finding]:
    """What the host sends past every hook."""
    return [
        note(
            "not stopped",
            "small calls on the side (titles, compression, vision, reading web pages, "
            "approvals), the summary after too many steps, advisors of a mixture of agents, "
            "and turns that Hermes hands to a Codex server",
        )
    ]

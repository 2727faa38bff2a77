"""What is said about imported spend."""

from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from ..policy.money import format_usd, usd_from_nanos
from .layout import many, moment, page

if TYPE_CHECKING:
    from ..store.imports import Imported


def imported(found: "Imported", zone: ZoneInfo, prefix: str, *, dry: bool) -> str:
    """What was taken over, or would be, and what can be done with it."""
    had = [_there_already(found.already)] if found.already else []
    if not found.calls:
        return page([" ".join(["There is nothing to import.", *had])])
    verb = "Would import" if dry else "Imported"
    least = "at least " if found.unpriced else ""
    lines = [
        f"{verb} {many(found.calls, 'call')} of {many(found.sessions, 'session')}: "
        f"{least}{format_usd(found.nanos)}",
        f"From {moment(found.first_ms or 0, zone)} to {moment(found.last_ms or 0, zone)}",
        *had,
    ]
    if found.unpriced:
        lines.append(f"Without a known price: {found.unpriced:,}; see {prefix} prices check")
    if not dry:
        lines.append(f"To have limits suggested: {prefix} suggest")
        lines.append(f"To take it out again: {prefix} import --remove")
    return page(lines)


def _there_already(calls: int) -> str:
    return f"{many(calls, 'call')} {'was' if calls == 1 else 'were'} there already."


def removed(calls: int) -> str:
    """What was taken out."""
    if not calls:
        return "Nothing was imported."
    return f"{many(calls, 'imported call')} {'was' if calls == 1 else 'were'} taken out."


def not_readable(why: str) -> str:
    """The host's database is not there, or not as it should be."""
    return f"Nothing was imported: {why}"


def imported_data(found: "Imported", *, dry: bool) -> dict[str, Any]:
    """The same for programs; docs/json.md."""
    return {
        "imported": 0 if dry else found.calls,
        "calls": found.calls,
        "sessions": found.sessions,
        "usd": f"{usd_from_nanos(found.nanos):f}",
        "unpriced_calls": found.unpriced,
        "already": found.already,
        "first_ms": found.first_ms,
        "last_ms": found.last_ms,
    }

"""What is said about imported spend."""

from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from ..policy.money import format_usd, usd_from_nanos
from .layout import moment

if TYPE_CHECKING:
    from ..store.imports import Imported


def imported(found: "Imported", zone: ZoneInfo, *, dry: bool) -> str:
    """What was taken over, or would be."""
    had = f" {found.already:,} calls were there already." if found.already else ""
    if not found.calls:
        return f"There is nothing to import.{had}"
    verb = "Would import" if dry else "Imported"
    least = "at least " if found.unpriced else ""
    text = (
        f"{verb} {found.calls:,} calls of {found.sessions:,} sessions, "
        f"{least}{format_usd(found.nanos)}, {moment(found.first_ms or 0, zone)} to "
        f"{moment(found.last_ms or 0, zone)}.{had}"
    )
    if found.unpriced:
        text += f" {found.unpriced:,} of them have no known price: see prices check."
    return text if dry else f"{text} To take it out again: import --remove"


def removed(calls: int) -> str:
    """What was taken out."""
    return f"{calls:,} imported calls were taken out." if calls else "Nothing was imported."


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

"""One written value → what it means, or `Wrong` with what would be right.

Functions of a text alone: they know neither YAML nor where in a file the text stands, and serve
budget.yaml and the commands alike.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from ...policy.limits import LEAST_KEEP_DAYS, Measure
from ...policy.money import NANOS_PER_USD, AmountError, parse_usd

MAX_COUNT: Final = 10**15
"""Largest number of tokens or calls that is accepted as a limit."""

NO_LIMIT_WORDS: Final = ("none", "unlimited", "null", "~")


class Wrong(ValueError):
    """A value that is not understood; the text says what would be right."""


class Unrepeatable(Wrong):
    """A wrong value that may hold a secret: the text alone is shown, never the value."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The known word that is nearest, or an empty text when none is near."""
    found = difflib.get_close_matches(word[:80].lower(), list(known), n=1)
    return found[0] if found else ""


# --- limits -------------------------------------------------------------------------------------


def amount_from_text(measure: Measure, text: str) -> int | None:
    """A limit as a person writes it: nano-dollars for usd, else a count; `None` is no limit.

    Raises:
        AmountError: the text says what would be right.
    """
    text = text.strip()
    if text.lower() in NO_LIMIT_WORDS:
        return None
    return _usd(text) if measure is Measure.USD else _count(text, measure)


_THOUSANDS: Final = re.compile(r"\d{1,3}(,\d{3})+(\.\d+)?", re.ASCII)
_LEADING_ZERO: Final = re.compile(r"0[0-9_]*[0-9]", re.ASCII)


def _usd(text: str) -> int:
    _refuse_ambiguous(text)
    nanos = parse_usd(text)
    if nanos != Decimal(text.replace("_", "")) * NANOS_PER_USD:
        raise AmountError("more than nine decimals; round it to cents, or write 0 to allow nothing")
    return nanos


def _count(text: str, measure: Measure) -> int:
    _refuse_ambiguous(text)
    digits = text.replace("_", "")
    if text.startswith("-"):
        raise AmountError("a limit cannot be negative; 0 allows nothing, null means no limit")
    if not (digits.isascii() and digits.isdigit()):
        raise AmountError(f"expected a whole number of {measure} such as 900, written out")
    if len(digits) > len(str(MAX_COUNT)) or int(digits) > MAX_COUNT:
        raise AmountError(f"more than {MAX_COUNT:,} {measure}; write none for no limit")
    return int(digits)


def _refuse_ambiguous(text: str) -> None:
    """What YAML, Python and people read in different ways."""
    if _THOUSANDS.fullmatch(text):
        raise AmountError(f"write it without commas: {text.replace(',', '')}")
    if _LEADING_ZERO.fullmatch(text):
        raise AmountError(
            f"write it without a leading zero: {text.replace('_', '').lstrip('0') or 0}"
        )


# --- settings -----------------------------------------------------------------------------------


def one_of(words: Mapping[str, Any]) -> Callable[[str], Any]:
    """A function from one of these words, in any case, to its value."""

    def convert(text: str) -> Any:
        if text.lower() in words:
            return words[text.lower()]
        near = did_you_mean(text, words)
        raise Wrong(f"did you mean {near}" if near else f"expected {_or(words)}")

    return convert


def choice(kind: type[StrEnum]) -> Callable[[str], Any]:
    """A function from a member's name to the member."""
    return one_of({str(member): member for member in kind})


def _or(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} or {last}"


_SWITCH: Final = {"true": True, "false": False, "yes": True, "no": False, "on": True, "off": False}


def switch(text: str) -> bool:
    """true or false, in every spelling that YAML 1.1 knows."""
    if text.lower() not in _SWITCH:
        raise Wrong("expected true or false")
    return _SWITCH[text.lower()]


def zone(text: str) -> str:
    """The name of an IANA time zone that this machine has."""
    try:
        ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise Wrong(_zone_hint(text)) from None
    return text


def _zone_hint(text: str) -> str:
    names = {name.lower(): name for name in available_timezones()}
    places = {name.rpartition("/")[2]: name for name in names}
    wanted = text[:80].lower().replace(" ", "_")
    near = [names[places[place]] for place in difflib.get_close_matches(wanted, places, n=2)]
    near += [names[name] for name in difflib.get_close_matches(wanted, names, n=2)]
    if not near:
        return "expected the name of a time zone, such as Europe/Berlin or UTC"
    return f"no time zone of that name; did you mean {' or '.join(dict.fromkeys(near))}"


def share(text: str) -> float:
    """A share of a limit, above 0 and at most 1."""
    right = "expected a share above 0 and at most 1, such as 0.80 for 80 %"
    try:
        share = Decimal(text.removesuffix("%").strip())
    except InvalidOperation:
        raise Wrong(right) from None
    if not share.is_finite():
        raise Wrong(right)
    if 2 <= share <= 100 or (text.endswith("%") and 0 < share <= 100):
        raise Wrong(f"write {share / 100:.4g} for {share:f} %")
    if not 0 < share <= 1 or float(share) == 0:
        raise Wrong(right)
    return float(share)


def wrap_up_calls(text: str) -> int:
    """How many last answers pass after a breach."""
    if not (text.isascii() and text.isdigit() and len(text) <= 2):
        raise Wrong("expected a whole number from 0 to 99, such as 1")
    return int(text)


def keep_days(text: str) -> int:
    """For how many days every call is kept by itself."""
    if not (text.isascii() and text.isdigit() and len(text) <= 5):
        raise Wrong("expected a whole number of days, such as 400; leave it out to keep every call")
    if int(text) < LEAST_KEEP_DAYS:
        raise Wrong(f"expected at least {LEAST_KEEP_DAYS}, which limits and reports look back on")
    return int(text)


AN_ADMIN: Final = 'platform and id in quotes, such as "telegram:123456"'
_ADMIN: Final = re.compile(r"[A-Za-z][\w-]*:\S.*")


def admin(text: str) -> str:
    """`platform:id`; an id alone could be anybody's on another platform."""
    if not _ADMIN.fullmatch(text):
        raise Wrong(f"expected {AN_ADMIN}")
    return text


_SCHEME: Final = re.compile(r"([a-z0-9+]{1,30})://", re.ASCII)


def ledger_url(text: str) -> str:
    """`sqlite`, or the URL of an SQLite file. What is refused may carry a password."""
    place = text.removeprefix("sqlite:///")
    if text == "sqlite" or (place not in (text, "", ":memory:") and not place.startswith("?")):
        return text
    scheme = _SCHEME.match(text)
    said = f"{scheme[1]}://… is not supported: " if scheme and scheme[1] != "sqlite" else ""
    right = "write sqlite, or sqlite:///path/to/ledger.db"
    raise Unrepeatable(f"{said}only SQLite in this version; {right}")

"""From what was typed to scope, id, window and amount. Raises `Usage` with what would be right."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ..messages import reports
from ..policy.limits import SCOPES, Key, Measure, Scope
from ..policy.money import AmountError
from ..policy.windows import Window
from .asking import Usage
from .catalogue import COMMANDS

_CLOSING: Final[Mapping[str, str]] = {'"': '"', "'": "'", "“": "”", "„": "“", "«": "»"}
"""A telephone's keyboard turns straight quotes into typographic ones."""

_UNITS: Final = ("call", "calls", "token", "tokens", "usd", "dollar", "dollars")
_MEASURES: Final = {
    "usd": Measure.USD,
    "dollar": Measure.USD,
    "dollars": Measure.USD,
    "token": Measure.TOKENS,
    "tokens": Measure.TOKENS,
    "call": Measure.CALLS,
    "calls": Measure.CALLS,
}
_WINDOW_HINTS: Final = {
    "hour": Window.HOURLY,
    "day": Window.DAILY,
    "today": Window.DAILY,
    "week": Window.WEEKLY,
    "month": Window.MONTHLY,
    "all": Window.TOTAL,
    "overall": Window.TOTAL,
    "ever": Window.TOTAL,
}


_FLAGS: Final = (
    "json",
    "check",
    "partial",
    *(flag for command in COMMANDS.values() for flag in command.flags),
)
_VALUES: Final = (
    "id",
    "provider",
    *(option for command in COMMANDS.values() for option in command.options),
)


@dataclass(frozen=True, slots=True)
class Place:
    """Which limit is meant; an empty id is the shared default, or `global`."""

    scope: Scope
    scope_id: str
    window: Window


def split(text: str) -> list[str]:
    """The words of a chat command; what stands in quotes is one word, spaces and all.

    A quote opens only at the beginning of a word, so that `O'Brien` is one. Inside double quotes a
    backslash keeps the next quote or backslash.
    """
    words: list[str] = []
    rest = text.strip()
    while rest:
        if rest[0] in _CLOSING:
            word, rest = _quoted_word(rest)
        else:
            word, _, rest = _until_space(rest)
        words.append(word)
        rest = rest.lstrip()
    return words


def _until_space(text: str) -> tuple[str, str, str]:
    for at, character in enumerate(text):
        if character.isspace():
            return text[:at], character, text[at + 1 :]
    return text, "", ""


def _quoted_word(text: str) -> tuple[str, str]:
    closing, word, at = _CLOSING[text[0]], [], 1
    while at < len(text):
        if text[at] == "\\" and closing == '"' and text[at + 1 : at + 2] in ('"', "\\"):
            word.append(text[at + 1])
            at += 2
            continue
        if text[at] == closing:
            return "".join(word), text[at + 1 :]
        word.append(text[at])
        at += 1
    if text[0] not in "\"'":  # a typographic mark that opens nothing is a character like others
        word_alone, _, rest = _until_space(text)
        return word_alone, rest
    raise Usage(reports.quote_not_closed())


def take_options(typed: Iterable[str]) -> tuple[list[str], dict[str, str]]:
    """The words, and the options that stand anywhere among them: `--id NAME`, `--json`, …"""
    words: list[str] = []
    options: dict[str, str] = {}
    rest = iter(typed)
    for word in rest:
        name, equals, value = _option(word)
        if name in _FLAGS and not equals:
            options[name] = name
        elif name in _VALUES:
            given = value if equals else next(rest, None)
            if given is None:
                raise Usage(reports.option_without_value(f"--{name}"))
            options[name] = given
        else:
            words.append(word)
    return words, options


def _option(word: str) -> tuple[str, str, str]:
    """A telephone's keyboard makes one long dash of two hyphens."""
    for dashes in ("--", "—", "–"):
        if word.startswith(dashes):
            name, equals, value = word.removeprefix(dashes).partition("=")
            return name.replace("_", "-"), equals, value  # as in the settings, too
    return "", "", ""


def scope_of(word: str) -> Scope:
    """The scope with this name."""
    try:
        return Scope(word.lower().replace("-", "_").removeprefix("per_"))
    except ValueError:
        raise Usage(reports.unknown_word("scope", word, Scope, near(word, Scope))) from None


def window_of(word: str) -> Window:
    """The window with this name; only the five names are taken."""
    try:
        return Window(word.lower())
    except ValueError:
        hint = _WINDOW_HINTS.get(word.lower()) or near(word, Window)
        raise Usage(reports.unknown_word("window", word, Window, hint)) from None


def measure_of(word: str) -> Measure:
    """What is counted."""
    if word.lower() not in _MEASURES:
        raise Usage(reports.unknown_word("measure", word, Measure, near(word, Measure)))
    return _MEASURES[word.lower()]


def near(word: str, known: Iterable[str]) -> str:
    """The known word that is nearest, or an empty text."""
    found = difflib.get_close_matches(word[:80].lower(), [str(name) for name in known], n=1)
    return found[0] if found else ""


def limit_to_set(
    words: Sequence[str], scope_id: str | None, prefix: str
) -> tuple[Place, Key, int | None]:
    """`<scope> [<id>] <window> <amount> [calls|tokens]`."""
    rest = list(words)
    unit = rest.pop() if len(rest) > 3 and rest[-1].lower() in _UNITS else ""
    if len(rest) < 3:
        raise Usage(reports.set_usage(prefix))
    amount = rest.pop()
    place = _place(rest, scope_id, [amount, unit], f"{prefix} set")
    measure, number = _amount(amount, unit)
    return place, Key(place.window, measure), number


def limit_to_unset(words: Sequence[str], scope_id: str | None, prefix: str) -> tuple[Place, Key]:
    """`<scope> [<id>] <window> [usd|calls|tokens]`."""
    rest = list(words)
    unit = rest.pop() if len(rest) > 2 and rest[-1].lower() in _UNITS else ""
    if len(rest) < 2:
        raise Usage(reports.unset_usage(prefix))
    place = _place(rest, scope_id, [unit], f"{prefix} unset")
    return place, Key(place.window, measure_of(unit or "usd"))


def _place(words: Sequence[str], scope_id: str | None, after: Sequence[str], command: str) -> Place:
    scope = scope_of(words[0])
    *ids, last = words[1:]
    window = window_of(last)
    if len(ids) > 1:
        tail = " ".join([last, *filter(None, after)])
        raise Usage(reports.id_needs_quotes(command, scope, " ".join(ids), tail))
    if ids and scope_id is not None:
        raise Usage(reports.id_given_twice(ids[0], scope_id))
    return Place(scope, _id_of(scope, ids[0] if ids else scope_id), window)


def _id_of(scope: Scope, scope_id: str | None) -> str:
    """An id that was given must say something: an empty one would be the default of everybody."""
    if scope_id is None:
        return ""
    if not SCOPES[scope].takes_id:
        raise Usage(reports.takes_no_id(scope, scope_id))
    if not scope_id.strip():
        raise Usage(reports.empty_id())
    return scope_id


def _amount(number: str, unit: str) -> tuple[Measure, int | None]:
    from ..store.files.config_edit import parse_amount

    measure = measure_of(unit) if unit else Measure.USD
    text = f"{number} {unit}" if unit and measure is not Measure.USD else number
    try:
        return parse_amount(text)
    except AmountError as error:
        raise Usage(reports.amount_not_understood(number, str(error))) from None


@dataclass(frozen=True, slots=True)
class Question:
    """What a forecast is asked about; `None` means all of them."""

    scope: Scope
    scope_id: str | None
    window: Window | None


def question(words: Sequence[str], scope_id: str | None) -> Question:
    """`[<scope>] [<id>] [<window>]`; nothing at all asks about everything together."""
    rest = list(words)
    scope = Scope.GLOBAL
    if rest and not _is_window(rest[0]):
        scope = _scope_or_window(rest.pop(0))
    window = window_of(rest.pop()) if rest and (_is_window(rest[-1]) or len(rest) > 1) else None
    if not rest:
        given = scope_id
    elif scope is Scope.GLOBAL:
        window_of(rest[0])  # global takes no id: the word was meant as a window
        given = None
    else:
        given = " ".join(rest)
    return Question(scope, None if given is None else _id_of(scope, given), window)


def _is_window(word: str) -> bool:
    return word.lower() in set(Window)


def _scope_or_window(word: str) -> Scope:
    try:
        return scope_of(word)
    except Usage:
        if not near(word, Scope) and (word.lower() in _WINDOW_HINTS or near(word, Window)):
            window_of(word)
        names = [*Scope, *Window]
        raise Usage(
            reports.unknown_word("scope or window", word, names, near(word, names))
        ) from None

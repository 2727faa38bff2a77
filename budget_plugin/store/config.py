"""budget.yaml → `Budget`: every value understood, or a problem with file, line and key.

Values are read as they were written (see `yaml_nodes`), so an id that looks like a number stays
the id. A value that is not understood is a *fatal* problem: the last good configuration stays in
force. An unknown key is a *warning* with a "did you mean": the rest comes into force.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from ..policy.limits import (
    KEYS,
    SCOPES,
    Amounts,
    Budget,
    CronPolicy,
    CronResume,
    Key,
    LedgerPolicy,
    ModelGate,
    OnError,
    OnEstimated,
    OnUnpriced,
    Problem,
    Scope,
    ScopeLimits,
    Thresholds,
)
from ..policy.money import AmountError
from .config_values import (
    AN_ADMIN,
    Unrepeatable,
    Wrong,
    admin,
    amount_from_text,
    choice,
    did_you_mean,
    ledger_url,
    one_of,
    share,
    switch,
    wrap_up_calls,
    zone,
)
from .watched_file import Parsed, WatchedFile
from .yaml_nodes import (
    Entry,
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    Unreadable,
    dotted,
    is_null,
    read_document,
    shown,
)

MAX_BYTES: Final = 1 << 20
MAX_PROBLEMS: Final = 50
LATER_SECTIONS: Final = ("runs", "loops", "claims", "tiers", "roles")
"""Sections of a later version: named as not enforced, so that nobody believes they are."""


@dataclass(frozen=True, slots=True)
class LostLimit(Problem):
    """An unknown key where a limit may have been meant (`dayly_usd`): a warning that weighs more.

    While there is one, a limit that was in force may not disappear; see `BudgetFile`.
    """


class BudgetFile(WatchedFile[Budget]):
    """budget.yaml as it is now; without a file nothing is limited.

    A misspelt limit key never takes a limit away that was in force: such an edit is held back like
    a fatal one. On the first load there is nothing to keep, and what was understood holds.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, self._parse_edit, Budget())

    def _parse_edit(self, data: bytes) -> Parsed[Budget]:
        parsed = parse_budget(data, str(self.path))
        if parsed.value is None:
            return parsed
        misspelt = any(isinstance(problem, LostLimit) for problem in parsed.problems)
        if misspelt and (gone := _gone(self._state.value, parsed.value)):
            held = Problem(
                str(self.path),
                None,
                gone,
                "would vanish while a key above is not understood; correct that",
            )
            return Parsed(None, (*parsed.problems, held))
        return parsed


def _gone(before: Budget, after: Budget) -> str:
    """Path of the first limit of `before` that `after` does not name at all, or an empty text."""
    for scope, limits in before.scopes.items():
        now = after.scopes.get(scope, ScopeLimits())
        buckets: list[tuple[Where, Amounts, Amounts]] = [((), limits.default, now.default)]
        buckets += [
            (("overrides", scope_id), amounts, now.overrides.get(scope_id, {}))
            for scope_id, amounts in limits.overrides.items()
        ]
        for path, was, remains in buckets:
            for key, amount in was.items():
                if amount is not None and key not in remains:
                    return dotted(("budgets", SCOPES[scope].config_key, *path, str(key)))
    return ""


def parse_budget(data: bytes, file: str) -> Parsed[Budget]:
    """What the bytes of a budget.yaml mean. Never raises.

    Args:
        file: the name that problems carry.

    Returns:
        `value` is `None` if any problem is fatal. An empty file is `Budget()`.
    """
    reading = _Reading(file)
    try:
        budget = _budget(_document(data), reading)
    except Unreadable as error:
        reading.problem(error.line, error.key, error.message)
    except _Enough:
        reading.problems.append(
            Problem(file, None, "", f"more than {MAX_PROBLEMS} problems; the rest was not read")
        )
    except Exception as error:  # noqa: BLE001  (a config reader inside the host's hooks never raises)
        reading.problems.append(
            Problem(file, None, "", f"cannot be read: {type(error).__name__}: {error}")
        )
    if any(problem.fatal for problem in reading.problems):
        return Parsed(None, tuple(reading.problems))
    return Parsed(budget, tuple(reading.problems))


def _document(data: bytes) -> Node | None:
    if len(data) > MAX_BYTES:
        size = len(data) / MAX_BYTES
        raise Unreadable(None, "", f"is {size:.1f} MiB; a budget of more than 1 MiB is not read")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Unreadable(line, "", "is not UTF-8 text; save the file as UTF-8") from None
    return read_document(text)


# --- reading: problems are collected, so that one look names them all ---------------------------


Where = tuple[str, ...]
"""The keys that lead to a value."""


class _Enough(Exception):
    """So many problems that naming more helps nobody."""


class _Reading:
    """The problems of one file, as they are found."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self.amounts: dict[int, Any] = {}
        """Buckets that were read, by node: aliases of one cost nothing and are not told twice."""

    def problem(
        self, line: int | None, key: str, message: str, kind: type[Problem] = Problem, **how: bool
    ) -> None:
        if len(self.problems) >= MAX_PROBLEMS:
            raise _Enough
        self.problems.append(kind(self.file, line, key, message, **how))

    def wrong(self, node: Node, path: Where, hint: str) -> None:
        self.problem(node.line, dotted(path), f"{_as_written(node)} is not accepted: {hint}")


_Parser = Callable[[_Reading, Node, Where], Any]
_FAILED: Final = object()
"""Returned by a parser that has reported a problem; the field is left at its default."""


@dataclass(frozen=True, slots=True)
class _Field:
    """One key of a section: the argument that it fills, and how its value is read."""

    name: str
    parse: _Parser


def _scalar(convert: Callable[[str], Any], expected: str = "a single value") -> _Parser:
    """A parser of one text or number; `convert` raises `Wrong` or `AmountError`."""

    def parse(reading: _Reading, node: Node, path: Where) -> Any:
        try:
            if not isinstance(node, ScalarNode):
                raise Wrong(f"expected {expected}")
            return convert(node.text.strip())
        except Unrepeatable as error:
            reading.problem(node.line, dotted(path), str(error))
        except (Wrong, AmountError) as error:
            reading.wrong(node, path, str(error))
        return _FAILED

    return parse


def _section(build: Callable[..., Any], fields: Mapping[str, _Field]) -> _Parser:
    """A parser of a mapping of known keys; what is absent or empty keeps `build`'s default."""

    def parse(reading: _Reading, node: Node, path: Where) -> Any:
        if not isinstance(node, MappingNode):
            example = f"{next(iter(fields))}: …"
            reading.wrong(node, path, f"expected a mapping such as {{{example}}}")
            return _FAILED
        values: dict[str, Any] = {}
        for entry in node.merged:
            here = (*path, entry.key.text)
            field = fields.get(entry.key.text)
            if field is None:
                _unknown_key(reading, entry, here, fields)
            elif not is_null(entry.value):
                values[field.name] = field.parse(reading, entry.value, here)
        return build(**{name: value for name, value in values.items() if value is not _FAILED})

    return parse


def _unknown_key(reading: _Reading, entry: Entry, path: Where, known: Iterable[str]) -> None:
    key = entry.key.text
    if len(path) == 1 and key in LATER_SECTIONS:
        message, kind = "is not supported by this version; ignored", Problem
    else:
        near = did_you_mean(key, known)
        hint = f", did you mean {near}" if near and key not in KEYS else _misplaced(key, path)
        message = f"unknown key {shown(key)}{hint}"
        about_limits = path[0] == "budgets" or near == "budgets" or key in KEYS or key in _BY_KEY
        kind = LostLimit if about_limits else Problem
    reading.problem(entry.key.line, dotted(path), message, kind, fatal=False)


_BY_KEY: Final = {kind.config_key: kind for kind in SCOPES.values()}


def _misplaced(key: str, path: Where) -> str:
    """Where a known key, or an id, belongs instead."""
    if key in KEYS:
        return " here; a limit belongs under global, a default, or an id in overrides"
    if key in _BY_KEY:
        return " here; it belongs under budgets"
    if len(path) == 3 and path[0] == "budgets" and path[1] != SCOPES[Scope.GLOBAL].config_key:
        return "; ids belong under overrides"
    return "; ignored"


def _as_written(node: Node) -> str:
    if isinstance(node, ScalarNode):
        return f'"{shown(node.text.strip())}"'
    return "a list" if isinstance(node, SequenceNode) else "a mapping"


# --- limits -------------------------------------------------------------------------------------


def _amount(reading: _Reading, key: Key, entry: Entry, path: Where) -> Any:
    node = entry.value
    if is_null(node):
        return None
    try:
        if not isinstance(node, ScalarNode):
            raise AmountError(f"expected one number, such as {key}: 5")
        return amount_from_text(key.measure, node.text)
    except AmountError as error:
        reading.wrong(node, path, str(error))
        return _FAILED


def _amounts(reading: _Reading, node: Node, path: Where) -> Any:
    """The limits of one bucket, such as `{daily_usd: 5, daily_calls: 900}`."""
    if not isinstance(node, MappingNode):
        reading.wrong(node, path, "expected limits such as {daily_usd: 5.00}")
        return _FAILED
    amounts: dict[Key, int | None] = {}
    for entry in node.merged:
        here = (*path, entry.key.text)
        key = KEYS.get(entry.key.text)
        if key is None and entry.key.text.isdigit() and _is_empty(entry.value):
            reading.problem(entry.key.line, dotted(here), _COMMA)
        elif key is None:
            _unknown_key(reading, entry, here, KEYS)
        elif (amount := _amount(reading, key, entry, here)) is not _FAILED:
            amounts[key] = amount
    return MappingProxyType(amounts)


def _shared_amounts(reading: _Reading, node: Node, path: Where) -> Any:
    if id(node) not in reading.amounts:
        reading.amounts[id(node)] = _amounts(reading, node, path)
    return reading.amounts[id(node)]


_COMMA: Final = "a comma inside {…} ends the number before it; write 5.00 or 1000, without commas"


def _overrides(reading: _Reading, node: Node, path: Where) -> Any:
    if not isinstance(node, MappingNode):
        reading.wrong(node, path, 'expected ids, such as {"nightly": {daily_usd: 5.00}}')
        return _FAILED
    overrides: dict[str, Amounts] = {}
    for entry in node.merged:
        here = (*path, entry.key.text)
        if not entry.key.text:
            reading.problem(entry.key.line, dotted(path), "an empty id matches nobody; name one")
        elif is_null(entry.value) and not _is_empty(entry.value):
            reading.wrong(entry.value, here, "name the limit to lift, such as {daily_usd: null}")
        elif not _is_empty(entry.value):
            amounts = _shared_amounts(reading, entry.value, here)
            overrides[entry.key.text] = {} if amounts is _FAILED else amounts
    return MappingProxyType(overrides)


def _is_empty(node: Node) -> bool:
    """Nothing after the colon. A written `null` for an id could mean "lift all": it is refused."""
    return isinstance(node, ScalarNode) and node.plain and not node.text


def _global(reading: _Reading, node: Node, path: Where) -> Any:
    amounts = _amounts(reading, node, path)
    return _FAILED if amounts is _FAILED else ScopeLimits(amounts)


_BY_ID: Final = _section(
    ScopeLimits,
    {"default": _Field("default", _amounts), "overrides": _Field("overrides", _overrides)},
)


def _scopes(**limits: ScopeLimits) -> Mapping[Scope, ScopeLimits]:
    return MappingProxyType({Scope(name): of_scope for name, of_scope in limits.items()})


# --- everything else ----------------------------------------------------------------------------


def _shares(reading: _Reading, node: Node, path: Where) -> Any:
    """One share or a list of them, ascending without repeats; an empty list is no soft alert."""
    one = _scalar(share)
    items = node.items if isinstance(node, SequenceNode) else (node,)
    shares = [one(reading, item, path) for item in items]
    if _FAILED in shares:
        return _FAILED
    return tuple(sorted(set(shares)))


def _admins(reading: _Reading, node: Node, path: Where) -> Any:
    if not isinstance(node, SequenceNode):
        reading.wrong(node, path, 'expected a list, such as ["telegram:123456"]')
        return _FAILED
    one = _scalar(admin, AN_ADMIN)
    admins = [one(reading, item, path) for item in node.items]
    return _FAILED if _FAILED in admins else tuple(dict.fromkeys(admins))


_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def _mode(mode: OnEstimated = OnEstimated.WARN_ONLY) -> OnEstimated:
    return mode


_BUDGET: Final = _section(
    Budget,
    {
        "timezone": _Field("timezone", _scalar(zone)),
        "week_start": _Field(
            "week_start", _scalar(one_of({day: number for number, day in enumerate(_DAYS)}))
        ),
        "budgets": _Field(
            "scopes",
            _section(
                _scopes,
                {
                    kind.config_key: _Field(kind.scope, _BY_ID if kind.takes_id else _global)
                    for kind in SCOPES.values()
                },
            ),
        ),
        "thresholds": _Field(
            "thresholds",
            _section(
                Thresholds,
                {
                    "soft_pct": _Field("soft", _shares),
                    "hard_pct": _Field("hard", _scalar(share)),
                },
            ),
        ),
        "on_estimated": _Field(
            "on_estimated", _section(_mode, {"mode": _Field("mode", _scalar(choice(OnEstimated)))})
        ),
        "on_unpriced": _Field("on_unpriced", _scalar(choice(OnUnpriced))),
        "model_gate": _Field(
            "model_gate",
            _section(
                ModelGate,
                {
                    "enabled": _Field("enabled", _scalar(switch)),
                    "reserve": _Field("reserve", _scalar(switch)),
                    "wrap_up_calls": _Field("wrap_up_calls", _scalar(wrap_up_calls)),
                },
            ),
        ),
        "cron": _Field(
            "cron",
            _section(
                CronPolicy,
                {
                    "pause": _Field("pause", _scalar(switch)),
                    "resume": _Field("resume", _scalar(choice(CronResume))),
                },
            ),
        ),
        "admins": _Field("admins", _admins),
        "ledger": _Field(
            "ledger",
            _section(
                LedgerPolicy,
                {
                    "url": _Field("url", _scalar(ledger_url)),
                    "on_error": _Field("on_error", _scalar(choice(OnError))),
                },
            ),
        ),
    },
)
"""Every key of budget.yaml and how its value is read."""


def _budget(root: Node | None, reading: _Reading) -> Budget:
    if root is None or is_null(root):
        return Budget()
    if not isinstance(root, MappingNode):
        reading.wrong(root, (), "expected keys at top level, such as budgets: or timezone:")
        return Budget()
    budget: Budget = _BUDGET(reading, root, ())
    return budget

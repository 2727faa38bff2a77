"""budget.yaml → `Budget`: every value understood, or a problem with file, line and key.

Values are read as they were written (see `yaml_nodes`), so an id that looks like a number stays
the id. A value that is not understood is a *fatal* problem: the last good configuration stays in
force. An unknown key is a *warning* with a "did you mean": the rest comes into force.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from ...policy.limits import (
    KEYS,
    SCOPES,
    Amounts,
    Budget,
    CronPolicy,
    CronResume,
    Key,
    LedgerPolicy,
    Mode,
    ModelGate,
    OnError,
    OnEstimated,
    OnUnpriced,
    Problem,
    Scope,
    ScopeLimits,
    Thresholds,
)
from ...policy.money import AmountError
from ...policy.tiers import Role, TierPolicy
from .claim_config import claims_section
from .config_reading import (
    FAILED,
    MAX_PROBLEMS,
    Enough,
    Field,
    LostLimit,
    Reading,
    Where,
    is_empty,
    scalar,
    section,
    unknown_key,
)
from .config_values import (
    AN_ADMIN,
    admin,
    amount_from_text,
    choice,
    keep_days,
    ledger_url,
    one_of,
    share,
    switch,
    wrap_up_calls,
    zone,
)
from .loop_config import loops_section
from .role_config import check_tiers, roles_section, tiers_section
from .run_config import gone_ceiling, runs_section
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
)

MAX_BYTES: Final = 1 << 20
MODE_KEY: Final = "mode"


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
    return gone_ceiling(before.runs, after.runs)


def parse_budget(data: bytes, file: str) -> Parsed[Budget]:
    """What the bytes of a budget.yaml mean. Never raises.

    Args:
        file: the name that problems carry.

    Returns:
        `value` is `None` if any problem is fatal. An empty file is `Budget()`.
    """
    reading = Reading(file)
    try:
        budget = _budget(_document(data), reading)
    except Unreadable as error:
        reading.problem(error.line, error.key, error.message)
    except Enough:
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


# --- limits -------------------------------------------------------------------------------------


def _amount(reading: Reading, key: Key, entry: Entry, path: Where) -> Any:
    node = entry.value
    if is_null(node):
        return None
    try:
        if not isinstance(node, ScalarNode):
            raise AmountError(f"expected one number, such as {key}: 5")
        return amount_from_text(key.measure, node.text)
    except AmountError as error:
        reading.wrong(node, path, str(error))
        return FAILED


@dataclass(frozen=True, slots=True)
class _Bucket:
    """The limits of one id; a mode that is left out is inherited from the default."""

    amounts: Amounts = field(default_factory=lambda: MappingProxyType({}))
    mode: Mode | None = None


_MODE: Final = scalar(choice(Mode))


def _bucket(reading: Reading, node: Node, path: Where) -> Any:
    """The limits of one bucket, such as `{daily_usd: 5, daily_calls: 900, mode: observe}`."""
    if not isinstance(node, MappingNode):
        reading.wrong(node, path, "expected limits such as {daily_usd: 5.00}")
        return FAILED
    amounts: dict[Key, int | None] = {}
    mode: Any = None
    for entry in node.merged:
        here = (*path, entry.key.text)
        key = KEYS.get(entry.key.text)
        if entry.key.text == MODE_KEY:
            mode = None if is_null(entry.value) else _MODE(reading, entry.value, here)
        elif key is None and entry.key.text.isdigit() and is_empty(entry.value):
            reading.problem(entry.key.line, dotted(here), _COMMA)
        elif key is None:
            unknown_key(reading, entry, here, (*KEYS, MODE_KEY))
        elif (amount := _amount(reading, key, entry, here)) is not FAILED:
            amounts[key] = amount
    return _Bucket(MappingProxyType(amounts), None if mode is FAILED else mode)


def _shared_bucket(reading: Reading, node: Node, path: Where) -> Any:
    if id(node) not in reading.amounts:
        reading.amounts[id(node)] = _bucket(reading, node, path)
    return reading.amounts[id(node)]


_COMMA: Final = "a comma inside {…} ends the number before it; write 5.00 or 1000, without commas"


def _overrides(reading: Reading, node: Node, path: Where) -> Any:
    if not isinstance(node, MappingNode):
        reading.wrong(node, path, 'expected ids, such as {"nightly": {daily_usd: 5.00}}')
        return FAILED
    overrides: dict[str, _Bucket] = {}
    for entry in node.merged:
        here = (*path, entry.key.text)
        if not entry.key.text:
            reading.problem(entry.key.line, dotted(path), "an empty id matches nobody; name one")
        elif is_null(entry.value) and not is_empty(entry.value):
            reading.wrong(entry.value, here, "name the limit to lift, such as {daily_usd: null}")
        elif not is_empty(entry.value):
            bucket = _shared_bucket(reading, entry.value, here)
            overrides[entry.key.text] = _Bucket() if bucket is FAILED else bucket
    return overrides


def _global(reading: Reading, node: Node, path: Where) -> Any:
    bucket = _bucket(reading, node, path)
    return FAILED if bucket is FAILED else _scope_limits(bucket)


def _scope_limits(
    default: _Bucket | None = None, overrides: Mapping[str, _Bucket] | None = None
) -> ScopeLimits:
    default, overrides = default or _Bucket(), overrides or {}
    observed = {
        (scope_id, key)
        for scope_id, bucket in (("", default), *overrides.items())
        if (bucket.mode or default.mode) is Mode.OBSERVE
        for key in bucket.amounts
    }
    amounts = {scope_id: bucket.amounts for scope_id, bucket in overrides.items()}
    return ScopeLimits(default.amounts, MappingProxyType(amounts), frozenset(observed))


_BY_ID: Final = section(
    _scope_limits,
    {"default": Field("default", _bucket), "overrides": Field("overrides", _overrides)},
)


def _scopes(**limits: ScopeLimits) -> Mapping[Scope, ScopeLimits]:
    return MappingProxyType({Scope(name): of_scope for name, of_scope in limits.items()})


# --- everything else ----------------------------------------------------------------------------


def _shares(reading: Reading, node: Node, path: Where) -> Any:
    """One share or a list of them, ascending without repeats; an empty list is no soft alert."""
    one = scalar(share)
    items = node.items if isinstance(node, SequenceNode) else (node,)
    shares = [one(reading, item, path) for item in items]
    if FAILED in shares:
        return FAILED
    return tuple(sorted(set(shares)))


def _admins(reading: Reading, node: Node, path: Where) -> Any:
    if not isinstance(node, SequenceNode):
        reading.wrong(node, path, 'expected a list, such as ["telegram:123456"]')
        return FAILED
    one = scalar(admin, AN_ADMIN)
    admins = [one(reading, item, path) for item in node.items]
    return FAILED if FAILED in admins else tuple(dict.fromkeys(admins))


_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def _mode(mode: OnEstimated = OnEstimated.WARN_ONLY) -> OnEstimated:
    return mode


_NO_TIERS: Final = TierPolicy()


def _whole(
    tiers: TierPolicy = _NO_TIERS,
    roles: Mapping[str, Role] = MappingProxyType({}),
    **others: Any,
) -> Budget:
    return Budget(tiers=replace(tiers, roles=roles), **others)


_BUDGET: Final = section(
    _whole,
    {
        "timezone": Field("timezone", scalar(zone)),
        "week_start": Field(
            "week_start", scalar(one_of({day: number for number, day in enumerate(_DAYS)}))
        ),
        "budgets": Field(
            "scopes",
            section(
                _scopes,
                {
                    kind.config_key: Field(kind.scope, _BY_ID if kind.takes_id else _global)
                    for kind in SCOPES.values()
                },
            ),
        ),
        "thresholds": Field(
            "thresholds",
            section(
                Thresholds,
                {
                    "soft_pct": Field("soft", _shares),
                    "hard_pct": Field("hard", scalar(share)),
                },
            ),
        ),
        "on_estimated": Field(
            "on_estimated", section(_mode, {"mode": Field("mode", scalar(choice(OnEstimated)))})
        ),
        "on_unpriced": Field("on_unpriced", scalar(choice(OnUnpriced))),
        "model_gate": Field(
            "model_gate",
            section(
                ModelGate,
                {
                    "enabled": Field("enabled", scalar(switch)),
                    "reserve": Field("reserve", scalar(switch)),
                    "wrap_up_calls": Field("wrap_up_calls", scalar(wrap_up_calls)),
                },
            ),
        ),
        "cron": Field(
            "cron",
            section(
                CronPolicy,
                {
                    "pause": Field("pause", scalar(switch)),
                    "resume": Field("resume", scalar(choice(CronResume))),
                },
            ),
        ),
        "runs": Field("runs", runs_section),
        "claims": Field("claims", claims_section),
        "loops": Field("loops", loops_section),
        "tiers": Field("tiers", tiers_section),
        "roles": Field("roles", roles_section),
        "admins": Field("admins", _admins),
        "ledger": Field(
            "ledger",
            section(
                LedgerPolicy,
                {
                    "url": Field("url", scalar(ledger_url)),
                    "on_error": Field("on_error", scalar(choice(OnError))),
                    "keep_days": Field("keep_days", scalar(keep_days)),
                },
            ),
        ),
    },
)
"""Every key of budget.yaml and how its value is read."""


def _budget(root: Node | None, reading: Reading) -> Budget:
    if root is None or is_null(root):
        return Budget()
    if not isinstance(root, MappingNode):
        reading.wrong(root, (), "expected keys at top level, such as budgets: or timezone:")
        return Budget()
    budget: Budget = _BUDGET(reading, root, ())
    check_tiers(reading, root, budget.tiers)
    return budget

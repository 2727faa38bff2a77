"""The section `runs` of budget.yaml → `RunPolicy`: the ceilings of single runs.

    runs:
      default:  {tool_calls: 40, usd: 4.00}
      cron:     {wall_clock_s: 1800}
      commands: {support-ticket: {dispatches: 8}}
      soft_pct: 0.70

A layer (`default`, a kind, a platform, a command) is a mapping of ceilings; `null` lifts one.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final

from ...policy.limits import Measure, Mode
from ...policy.money import AmountError
from ...policy.runs.run_limits import (
    RUN_LIMIT_KEYS,
    OnExhausted,
    Report,
    RunLayer,
    RunPolicy,
    RunRules,
    TicketSource,
)
from .config_reading import FAILED, LostLimit, Parser, Reading, Where, is_empty, scalar
from .config_values import (
    NO_LIMIT_WORDS,
    Wrong,
    amount_from_text,
    choice,
    did_you_mean,
    share,
    switch,
)
from .yaml_nodes import Entry, MappingNode, Node, dotted, is_null, shown

KINDS: Final = ("cron", "chat", "child")

_LONGEST_S: Final = 10**9


def runs_section(reading: Reading, node: Node, path: Where) -> Any:
    """A parser for the whole section; see `config_reading.Parser`."""
    if not isinstance(node, MappingNode):
        reading.wrong(node, path, "expected ceilings of runs such as {default: {tool_calls: 40}}")
        return FAILED
    layers: dict[str, RunLayer] = {}
    named: dict[str, Mapping[str, RunLayer]] = {}
    rules: dict[str, Any] = {}
    for entry in node.merged:
        key, here = entry.key.text, (*path, entry.key.text)
        if is_null(entry.value) and key != "retries_per_operation":
            continue
        if key in ("default", *KINDS):
            layers[key] = _layer(reading, entry.value, here)
        elif key in ("platforms", "commands"):
            named[key] = _by_name(reading, entry.value, here)
        elif key in _RULES:
            rules[key] = _RULES[key](reading, entry.value, here)
        else:
            _unknown(reading, entry, here, ("default", *KINDS, "platforms", "commands", *_RULES))
    policy = _policy(layers, named, {k: v for k, v in rules.items() if v is not FAILED})
    if policy.rules.continuation and not _caps_tokens(policy):
        text = "acts only under a ceiling on tokens, and none is set"
        reading.problem(node.line, dotted((*path, "continuation")), text, fatal=False)
    return policy


def _caps_tokens(policy: RunPolicy) -> bool:
    tokens = RUN_LIMIT_KEYS["tokens"]
    return any(layer.amounts.get(tokens) is not None for _, layer in _ceilings(policy))


def _policy(
    layers: Mapping[str, RunLayer],
    named: Mapping[str, Mapping[str, RunLayer]],
    rules: dict[str, Any],
) -> RunPolicy:
    retries = rules.pop("retries_per_operation", RunPolicy().retries_per_operation)
    ticket = rules.pop("ticket", TicketSource())
    nothing: Mapping[str, RunLayer] = MappingProxyType({})
    return RunPolicy(
        default=layers.get("default", RunLayer()),
        kinds=MappingProxyType({kind: layers[kind] for kind in KINDS if kind in layers}),
        platforms=named.get("platforms", nothing),
        commands=named.get("commands", nothing),
        rules=RunRules(**rules),
        retries_per_operation=retries,
        ticket=ticket,
    )


def _by_name(reading: Reading, node: Node, path: Where) -> Mapping[str, RunLayer]:
    if not isinstance(node, MappingNode):
        reading.wrong(node, path, "expected names, such as {support-ticket: {dispatches: 8}}")
        return MappingProxyType({})
    return MappingProxyType(
        {
            entry.key.text: _layer(reading, entry.value, (*path, entry.key.text))
            for entry in node.merged
            if not is_empty(entry.value)
        }
    )


def _layer(reading: Reading, node: Node, path: Where) -> RunLayer:
    if not isinstance(node, MappingNode):
        reading.wrong(node, path, "expected ceilings such as {tool_calls: 40}")
        return RunLayer()
    amounts: dict[str, Any] = {}
    way = mode = None
    for entry in node.merged:
        key, here = entry.key.text, (*path, entry.key.text)
        if key == "on_exhausted":
            way = _way(reading, entry.value, here)
        elif key == "mode":
            mode = None if is_null(entry.value) else _MODE(reading, entry.value, here)
        elif key not in RUN_LIMIT_KEYS:
            _unknown(reading, entry, here, (*RUN_LIMIT_KEYS, "on_exhausted", "mode"))
        elif (amount := _ceiling(key)(reading, entry.value, here)) is not FAILED:
            amounts[RUN_LIMIT_KEYS[key]] = amount
    layer = RunLayer(MappingProxyType(amounts), None if way is FAILED else way)
    return layer if mode in (None, FAILED) else replace(layer, observe=mode is Mode.OBSERVE)


_MODE: Final = scalar(choice(Mode))


def _ceiling(key: str) -> Parser:
    return scalar(_CONVERT.get(key, _count), f"one number, such as {key}: 5")


def ceiling_from_text(key: str, text: str) -> int | float | None:
    """A ceiling as a person writes it, money in nano-dollars; `None` is no limit.

    Raises:
        Wrong, AmountError: the text says what would be right.
    """
    number: int | float | None = _CONVERT.get(key, _count)(text)
    return number


def _lifts(text: str) -> bool:
    return text.lower() in ("", *NO_LIMIT_WORDS)


def _count(text: str) -> int | None:
    if _lifts(text):
        return None
    try:
        return amount_from_text(Measure.CALLS, text)
    except AmountError as error:
        raise Wrong(str(error).replace(" of calls", "")) from None


def _dollars(text: str) -> int | None:
    return None if _lifts(text) else amount_from_text(Measure.USD, text)


def _seconds(text: str) -> float | None:
    if _lifts(text):
        return None
    right = "expected seconds such as 900"
    try:
        seconds = Decimal(text.replace("_", ""))
    except ArithmeticError:
        raise Wrong(right) from None
    if not seconds.is_finite() or not 0 <= seconds <= _LONGEST_S:
        raise Wrong(right)
    return int(seconds) if seconds == int(seconds) else float(seconds)


def _share_or_none(text: str) -> float | None:
    return None if _lifts(text) else share(text)


_CONVERT: Final = {"usd": _dollars, "wall_clock_s": _seconds, "context_pct": _share_or_none}


_way: Final = scalar(choice(OnExhausted))


_TICKET_RIGHT: Final = "expected {env: NAME} or {pattern: 'SUP-[0-9]+'}"


def _ticket(reading: Reading, node: Node, path: Where) -> Any:
    """Where the ticket of a run is read: an environment variable, a pattern, or both."""
    if not isinstance(node, MappingNode):
        reading.wrong(node, path, _TICKET_RIGHT)
        return FAILED
    found: dict[str, Any] = {}
    for entry in node.merged:
        key, here = entry.key.text, (*path, entry.key.text)
        if key in _TICKET:
            found[key] = _TICKET[key](reading, entry.value, here)
        else:
            _unknown(reading, entry, here, tuple(_TICKET))
    found = {key: value for key, value in found.items() if value is not FAILED}
    if not found and not reading.problems:
        reading.wrong(node, path, _TICKET_RIGHT)
    return TicketSource(**found)


def _variable(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z_]\w*", text):
        raise Wrong("expected the name of an environment variable such as HERMES_KANBAN_TASK")
    return text


def _pattern(text: str) -> str:
    """A pattern that matches nothing at all would make one ticket of everything."""
    try:
        matches_nothing = re.compile(text).search("") is not None
    except re.error as error:
        raise Wrong(f"not a pattern: {error}") from None
    if matches_nothing:
        raise Wrong("the pattern also matches an empty text; expected one such as 'SUP-[0-9]+'")
    return text


_TICKET: Final[Mapping[str, Parser]] = MappingProxyType(
    {"env": scalar(_variable), "pattern": scalar(_pattern)}
)

_RULES: Final[Mapping[str, Parser]] = MappingProxyType(
    {
        "soft_pct": scalar(share),
        "token_stop_pct": scalar(share),
        "checkpoints": scalar(share),
        "on_exhausted": _way,
        "report": scalar(choice(Report)),
        "continuation": scalar(switch),
        "retries_per_operation": scalar(_count),
        "ticket": _ticket,
    }
)


def _unknown(reading: Reading, entry: Entry, path: Where, known: tuple[str, ...]) -> None:
    """Every unknown key here may have been meant as a ceiling, so it weighs like one."""
    key = entry.key.text
    near = did_you_mean(key, known)
    hint = f", did you mean {near}" if near else "; ignored"
    text = f"unknown key {shown(key)}{hint}"
    reading.problem(entry.key.line, dotted(path), text, LostLimit, fatal=False)


def gone_ceiling(before: RunPolicy, after: RunPolicy) -> str:
    """Path of the first ceiling of `before` that `after` does not name at all, or an empty text."""
    now = dict(_ceilings(after))
    names = {field: key for key, field in RUN_LIMIT_KEYS.items()}
    for path, layer in _ceilings(before):
        remains = now.get(path, RunLayer()).amounts
        for field, amount in layer.amounts.items():
            if amount is not None and field not in remains:
                return dotted(("runs", *path, names[field]))
    return ""


def _ceilings(policy: RunPolicy) -> Iterator[tuple[Where, RunLayer]]:
    yield ("default",), policy.default
    for kind, layer in policy.kinds.items():
        yield (kind,), layer
    for name, layers in (("platforms", policy.platforms), ("commands", policy.commands)):
        for key, layer in layers.items():
            yield (name, key), layer

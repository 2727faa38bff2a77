"""The sections `tiers` and `roles` of budget.yaml → `TierPolicy`.

tiers:
  models:                       # from the cheapest to the dearest
    cheap: ["*haiku*", "*mini*"]
    dear: "*opus*"
  on_breach: warn
  on_soft: {provider: anthropic, model: claude-opus-4-1, to: claude-haiku-4-5}
roles:
  main: {may_dispatch: [leaf, judge]}
  leaf: {highest: cheap}
  judge: {judges_only: true, lowest: dear}
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from ...policy.tiers import Downgrade, OnBreach, Role, Tier, TierPolicy
from .config_reading import FAILED, Field, Reading, Where, scalar, section, texts
from .config_values import Wrong, choice, did_you_mean, switch
from .yaml_nodes import MappingNode, Node, ScalarNode, SequenceNode

_PATTERNS: Final = 'expected patterns of models, such as ["*haiku*", "gpt-5-mini*"]'


def _models(reading: Reading, node: Node, path: Where) -> Any:
    if not isinstance(node, MappingNode):
        reading.wrong(node, path, 'expected tiers, such as {cheap: ["*haiku*"]}')
        return FAILED
    tiers = []
    for entry in node.merged:
        patterns = texts(entry.value)
        if patterns and all(patterns):
            tiers.append(Tier(entry.key.text, patterns))
        else:
            reading.wrong(entry.value, (*path, entry.key.text), _PATTERNS)
    return tuple(tiers)


def _name(text: str) -> str:
    if not text:
        raise Wrong("expected a name")
    return text


_DOWNGRADE_KEYS: Final = ("provider", "model", "to")
_DOWNGRADE: Final = section(dict, {name: Field(name, scalar(_name)) for name in _DOWNGRADE_KEYS})


def _downgrades(reading: Reading, node: Node, path: Where) -> Any:
    """`{provider: …, model: …, to: …}`, or a list of them."""
    rules = []
    for item in node.items if isinstance(node, SequenceNode) else (node,):
        given = _DOWNGRADE(reading, item, path)
        if given is FAILED or not isinstance(item, MappingNode):
            continue
        written = [entry.key.text for entry in item.merged]
        missing = [key for key in _DOWNGRADE_KEYS if key not in written]
        if missing:
            reading.wrong(item, path, f"{missing[0]} is missing beside {', '.join(written)}")
        if len(given) == len(_DOWNGRADE_KEYS):
            rules.append(Downgrade(**given))
    return tuple(rules)


def _tiers(
    models: tuple[Tier, ...] = (),
    on_breach: OnBreach = OnBreach.RECORD,
    on_soft: tuple[Downgrade, ...] = (),
) -> TierPolicy:
    return TierPolicy(tiers=models, on_breach=on_breach, downgrades=on_soft)


tiers_section: Final = section(
    _tiers,
    {
        "models": Field("models", _models),
        "on_breach": Field("on_breach", scalar(choice(OnBreach))),
        "on_soft": Field("on_soft", _downgrades),
    },
)
"""A parser for the section; see `config_reading.Parser`."""


def _names(reading: Reading, node: Node, path: Where) -> Any:
    """A list of roles; an empty one is nobody."""
    names = texts(node)
    if names is None or not all(names):
        reading.wrong(node, path, "expected roles, such as [leaf, judge], or [] for nobody")
        return FAILED
    return frozenset(names)


def _role(
    highest: str | None = None,
    lowest: str | None = None,
    may_dispatch: frozenset[str] | None = None,
    judges_only: bool = False,
) -> Role:
    return Role("", highest, lowest, may_dispatch, judges_only)


_ROLE: Final = section(
    _role,
    {
        "highest": Field("highest", scalar(_name)),
        "lowest": Field("lowest", scalar(_name)),
        "may_dispatch": Field("may_dispatch", _names),
        "judges_only": Field("judges_only", scalar(switch)),
    },
)


def roles_section(reading: Reading, node: Node, path: Where) -> Any:
    """A parser for the section; the tiers that it names are looked at by `check_tiers`."""
    if not isinstance(node, MappingNode):
        reading.wrong(node, path, "expected roles, such as {judge: {judges_only: true}}")
        return FAILED
    roles: dict[str, Role] = {}
    for entry in node.merged:
        name = entry.key.text
        role = _ROLE(reading, entry.value, (*path, name))
        if role is not FAILED:
            roles[name] = Role(name, role.highest, role.lowest, role.may_dispatch, role.judges_only)
    return MappingProxyType(roles)


def check_tiers(reading: Reading, root: MappingNode, policy: TierPolicy) -> None:
    """Every tier that a role names is one of `tiers`: another would bind nobody."""
    names = [tier.name for tier in policy.tiers]
    for path, node in _named_tiers(root).items():
        if isinstance(node, ScalarNode) and node.text.strip() not in names:
            near = did_you_mean(node.text, names)
            known = f"tiers.models names {', '.join(names)}" if names else "tiers.models is empty"
            reading.wrong(node, path, f"did you mean {near}" if near else known)


def _named_tiers(root: MappingNode) -> Mapping[Where, Node]:
    section_ = next((entry for entry in root.merged if entry.key.text == "roles"), None)
    if section_ is None or not isinstance(section_.value, MappingNode):
        return {}
    return {
        ("roles", role.key.text, entry.key.text): entry.value
        for role in section_.value.merged
        if isinstance(role.value, MappingNode)
        for entry in role.value.merged
        if entry.key.text in ("highest", "lowest")
    }

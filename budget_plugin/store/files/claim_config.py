"""The section `claims` of budget.yaml: which tools have effects that happen once.

    claims:
      starters: true
      per: run_tree
      tools:
        email_supplier: {identity: [supplier_id, topic], per: ticket}
        terminal: [command]
        calendar: {identity: [action, title, start], when: {action: [create]}}

Off until something is named: without `starters` and `tools` no effect is claimed.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from ...policy.claims import STARTERS, EffectTool, Per
from .config_reading import FAILED, Field, Reading, Where, is_empty, scalar, section, texts
from .config_values import choice, switch
from .yaml_nodes import MappingNode, Node

Claims = Mapping[str, tuple[EffectTool, ...]]
"""The effects of each tool by its name."""

_EXAMPLE: Final = "expected the arguments that name the effect, such as [target, message]"


def _identity(reading: Reading, node: Node, path: Where) -> Any:
    names = texts(node)
    if not names or not all(names):
        reading.wrong(node, path, _EXAMPLE)
        return FAILED
    return names


def _values(reading: Reading, node: Node, path: Where) -> Any:
    """Values of one argument; "" stands for an absent one."""
    values = texts(node)
    if not values:
        reading.wrong(node, path, 'expected values of the argument, such as [create, ""]')
        return FAILED
    return frozenset(values)


def _when(reading: Reading, node: Node, path: Where) -> Any:
    if not isinstance(node, MappingNode):
        reading.wrong(node, path, "expected values of arguments, such as {action: [create]}")
        return FAILED
    values = {
        entry.key.text: _values(reading, entry.value, (*path, entry.key.text))
        for entry in node.merged
    }
    if FAILED in values.values():
        return FAILED
    return MappingProxyType(values)


def _tool(
    identity: tuple[str, ...] = (),
    when: Mapping[str, frozenset[str]] = MappingProxyType({}),
    per: Per | None = None,
) -> tuple[EffectTool, Per | None]:
    return EffectTool("", identity, when=when), per


_TOOL: Final = section(
    _tool,
    {
        "identity": Field("identity", _identity),
        "when": Field("when", _when),
        "per": Field("per", scalar(choice(Per))),
    },
)


def _tools(reading: Reading, node: Node, path: Where) -> Any:
    if not isinstance(node, MappingNode):
        reading.wrong(node, path, "expected tools, such as {email_supplier: [supplier_id, topic]}")
        return FAILED
    tools = []
    for entry in node.merged:
        name, here = entry.key.text, (*path, entry.key.text)
        if isinstance(entry.value, MappingNode):
            effect, per = _TOOL(reading, entry.value, here)
            if not effect.identity:
                reading.wrong(entry.value, here, _EXAMPLE)
                continue
            tools.append((replace(effect, tool=name), per))
        elif is_empty(entry.value):
            reading.wrong(entry.value, here, _EXAMPLE)
        elif (identity := _identity(reading, entry.value, here)) is not FAILED:
            tools.append((EffectTool(name, identity), None))
    return tools


def _claims(
    starters: bool = False,
    per: Per = Per.RUN_TREE,
    tools: tuple[tuple[EffectTool, Per | None], ...] = (),
) -> Claims:
    """What a tool is said to do replaces what the starters say of it."""
    by_tool: dict[str, tuple[EffectTool, ...]] = {}
    for effect in STARTERS if starters else ():
        by_tool[effect.tool] = (*by_tool.get(effect.tool, ()), replace(effect, per=per))
    for effect, own in tools:
        by_tool[effect.tool] = (replace(effect, per=own or per),)
    return MappingProxyType(by_tool)


claims_section: Final = section(
    _claims,
    {
        "starters": Field("starters", scalar(switch)),
        "per": Field("per", scalar(choice(Per))),
        "tools": Field("tools", _tools),
    },
)
"""A parser for the whole section; see `config_reading.Parser`."""

"""The section `loops` of budget.yaml → `LoopPolicy`: which detectors act, and from which count on.

    loops:
      all: true                       # every detector, but for those that are named
      repeated_call: {warn: 2, act: 4}
      idle_hops: false
      allow: ["process:poll", "my_queue"]

Without the section everything is found and recorded, and nothing follows from it.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from ...policy.loops import ALLOWED, DEFAULTS, Detector, LoopPolicy, Setting
from .config_reading import FAILED, Field, Reading, Where, scalar, section, texts
from .config_values import Wrong, switch
from .yaml_nodes import MappingNode, Node

_MOST: Final = 1_000


def _count(text: str) -> int:
    count = int(text) if text.isascii() and text.isdigit() and len(text) <= len(str(_MOST)) else 0
    if not 1 <= count <= _MOST:
        raise Wrong(f"expected how often, a whole number from 1 to {_MOST:,}")
    return count


_DETECTOR: Final = section(
    dict[str, Any],
    {
        "on": Field("on", scalar(switch)),
        "warn": Field("warn", scalar(_count)),
        "act": Field("act", scalar(_count)),
    },
)


def _changes(reading: Reading, node: Node, path: Where) -> Any:
    """What is said of one detector: a switch, or counts; who gives counts wants it on."""
    if not isinstance(node, MappingNode):
        on = scalar(switch, "true, false, or counts such as {warn: 2, act: 3}")
        switched = on(reading, node, path)
        return FAILED if switched is FAILED else {"on": switched}
    changes = {"on": True, **_DETECTOR(reading, node, path)}
    if changes.get("warn", 0) > changes.get("act", _MOST):
        reading.wrong(node, path, "the warning comes before the act; warn is at most act")
        return FAILED
    return changes


def _allowed(reading: Reading, node: Node, path: Where) -> Any:
    names = texts(node)
    if names is None or not all(names):
        reading.wrong(node, path, 'expected tools, or actions of tools, such as ["process:poll"]')
        return FAILED
    return frozenset(names)


def _setting(detector: Detector, changes: Mapping[str, Any]) -> Setting:
    """Where only one of the counts is given, the other keeps to its side of it."""
    setting = replace(DEFAULTS[detector], **changes)
    if "act" in changes:
        return replace(setting, warn=min(setting.warn, setting.act))
    return replace(setting, act=max(setting.warn, setting.act))


def _loops(
    every: bool = False, allow: frozenset[str] = frozenset(), **detectors: Mapping[str, Any]
) -> LoopPolicy:
    settings = {
        detector: _setting(detector, {"on": every, **detectors.get(detector, {})})
        for detector in Detector
    }
    return LoopPolicy(settings=MappingProxyType(settings), allowed=ALLOWED | allow)


_mapping: Final = section(
    _loops,
    {
        "all": Field("every", scalar(switch)),
        **{str(detector): Field(str(detector), _changes) for detector in Detector},
        "allow": Field("allow", _allowed),
    },
)


def loops_section(reading: Reading, node: Node, path: Where) -> Any:
    """A parser for the whole section, see `config_reading.Parser`; `true` is `{all: true}`."""
    if isinstance(node, MappingNode):
        return _mapping(reading, node, path)
    every = scalar(switch)(reading, node, path)
    return FAILED if every is FAILED else _loops(every=every)

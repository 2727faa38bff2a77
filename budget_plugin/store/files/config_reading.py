"""Reading a mapping of YAML: every key known, or a problem that names it with line and key.

The parts that `config.py` and `run_config.py` are put together from. Problems are collected, so
that one look names them all.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ...policy.limits import KEYS, SCOPES, Problem, Scope
from ...policy.money import AmountError
from .config_values import Unrepeatable, Wrong, did_you_mean
from .yaml_nodes import Entry, MappingNode, Node, ScalarNode, SequenceNode, dotted, is_null, shown

MAX_PROBLEMS: Final = 50


@dataclass(frozen=True, slots=True)
class LostLimit(Problem):
    """An unknown key where a limit may have been meant (`dayly_usd`): a warning that weighs more.

    While there is one, a limit that was in force may not disappear; see `BudgetFile`.
    """


Where = tuple[str, ...]
"""The keys that lead to a value."""


class Enough(Exception):
    """So many problems that naming more helps nobody."""


class Reading:
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
            raise Enough
        self.problems.append(kind(self.file, line, key, message, **how))

    def wrong(self, node: Node, path: Where, hint: str) -> None:
        self.problem(node.line, dotted(path), f"{_as_written(node)} is not accepted: {hint}")


Parser = Callable[[Reading, Node, Where], Any]
FAILED: Final = object()
"""Returned by a parser that has reported a problem; the field is left at its default."""


@dataclass(frozen=True, slots=True)
class Field:
    """One key of a section: the argument that it fills, and how its value is read."""

    name: str
    parse: Parser


def scalar(convert: Callable[[str], Any], expected: str = "a single value") -> Parser:
    """A parser of one text or number; `convert` raises `Wrong` or `AmountError`."""

    def parse(reading: Reading, node: Node, path: Where) -> Any:
        try:
            if not isinstance(node, ScalarNode):
                raise Wrong(f"expected {expected}")
            return convert(node.text.strip())
        except Unrepeatable as error:
            reading.problem(node.line, dotted(path), str(error))
        except (Wrong, AmountError) as error:
            reading.wrong(node, path, str(error))
        return FAILED

    return parse


def section(build: Callable[..., Any], fields: Mapping[str, Field]) -> Parser:
    """A parser of a mapping of known keys; what is absent or empty keeps `build`'s default."""

    def parse(reading: Reading, node: Node, path: Where) -> Any:
        if not isinstance(node, MappingNode):
            example = f"{next(iter(fields))}: …"
            reading.wrong(node, path, f"expected a mapping such as {{{example}}}")
            return FAILED
        values: dict[str, Any] = {}
        for entry in node.merged:
            here = (*path, entry.key.text)
            field = fields.get(entry.key.text)
            if field is None:
                unknown_key(reading, entry, here, fields)
            elif not is_null(entry.value):
                values[field.name] = field.parse(reading, entry.value, here)
        return build(**{name: value for name, value in values.items() if value is not FAILED})

    return parse


def unknown_key(reading: Reading, entry: Entry, path: Where, known: Iterable[str]) -> None:
    key = entry.key.text
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


def texts(node: Node) -> tuple[str, ...] | None:
    """The texts of a list, or a single one; `None` where something else is among them."""
    items = node.items if isinstance(node, SequenceNode) else (node,)
    found = [item.text.strip() for item in items if isinstance(item, ScalarNode)]
    return tuple(dict.fromkeys(found)) if len(found) == len(items) else None


def is_empty(node: Node) -> bool:
    """Nothing after the colon. A written `null` for an id could mean "lift all": it is refused."""
    return isinstance(node, ScalarNode) and node.plain and not node.text

"""The user's pricing.yaml: believable rows, and a problem with line and key for each other one."""

from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from ...policy.limits import Problem
from ...policy.prices.price_rows import FIELDS, PriceError, PriceRow, read_row
from .watched_file import Parsed
from .yaml_nodes import MappingNode, Node, ScalarNode, SequenceNode, Unreadable, read_document

UNIT: Final = "usd_per_million_tokens"
YOURS: Final = "your pricing.yaml"
"""Source of the user's rows that name none."""

_TOP_LEVEL: Final = frozenset({"unit", "models", "source", "as_of"})
_WORDS: Final = {"true": True, "false": False, "null": None, "~": None, "": None}


def read_user_file(path: Path, content: bytes) -> Parsed[tuple[PriceRow, ...]]:
    """The believable rows of a pricing.yaml, and a problem for each of the others.

    A file that is not one YAML mapping in the expected unit must not come into force.
    """
    report = _Report(str(path))
    try:
        root = read_document(content.decode("utf-8-sig"))
    except Unreadable as error:
        return report.refused(error.line, error.key, error.message)
    if root is None:
        return Parsed(())
    if not isinstance(root, MappingNode):
        return report.refused(root.line, "", "expected a mapping with models:")
    unit = _value(root, "unit")
    if unit is not None and _plain(unit) != UNIT:
        return report.refused(unit.line, "unit", f"expected {UNIT}")
    _look_for_unknown(root, _TOP_LEVEL, "", report)
    models = _value(root, "models")
    if not isinstance(models, MappingNode):
        line = models.line if models else root.line
        report.warn(line, "models", "expected a mapping of model ids to prices")
        return Parsed((), tuple(report.problems))
    rows = tuple(_rows(models, report))
    return Parsed(rows, tuple(report.problems))


class _Report:
    """Collects what is wrong, with the line where it is."""

    def __init__(self, file: str) -> None:
        self._file = file
        self.problems: list[Problem] = []

    def warn(self, line: int, key: str, message: str) -> None:
        self.problems.append(Problem(self._file, line, key, message, fatal=False))

    def refused(self, line: int | None, key: str, message: str) -> Parsed[tuple[PriceRow, ...]]:
        """The file as a whole must not come into force."""
        return Parsed(None, (Problem(self._file, line, key, message),))


def _rows(models: MappingNode, report: _Report) -> Iterator[PriceRow]:
    for entry in models.merged:
        # Several rows of one model, of different dates, are written as a list.
        nodes = entry.value.items if isinstance(entry.value, SequenceNode) else (entry.value,)
        for node in nodes:
            yield from _row(entry.key.text, node, report)


def _row(model: str, node: Node, report: _Report) -> Iterator[PriceRow]:
    key = f"models.{model}"
    if not isinstance(node, MappingNode):
        report.warn(node.line, key, "expected prices such as {input: 1.00, output: 2.00}")
        return
    _look_for_unknown(node, FIELDS, key, report)
    lines: dict[str, int] = {}
    fields = {entry.key.text: _plain(entry.value, entry.key.text, lines) for entry in node.merged}
    try:
        yield read_row(model, fields, source=YOURS)
    except PriceError as error:
        line = lines.get(error.field, node.line)
        report.warn(line, f"{key}.{error.field}", f"{error}; this row is not used")


def _look_for_unknown(node: MappingNode, known: frozenset[str], path: str, report: _Report) -> None:
    for entry in node.merged:
        name = entry.key.text
        if name not in known:
            close = get_close_matches(name, sorted(known), 1)
            hint = f"; did you mean {close[0]}?" if close else ""
            report.warn(
                entry.key.line, f"{path}.{name}".lstrip("."), f"unknown key, not used{hint}"
            )


def _value(node: MappingNode, name: str) -> Node | None:
    entry = node.get(name)
    return entry.value if entry else None


def _plain(node: Node, path: str = "", lines: dict[str, int] | None = None) -> object:
    """The value of a node, numbers as exact `Decimal`; notes in `lines` which path stands where."""
    lines = {} if lines is None else lines
    lines[path] = node.line
    if isinstance(node, MappingNode):
        return {
            entry.key.text: _plain(entry.value, f"{path}.{entry.key.text}", lines)
            for entry in node.merged
        }
    if isinstance(node, SequenceNode):
        return [_plain(item, f"{path}[{n}]", lines) for n, item in enumerate(node.items)]
    return _scalar(node)


def _scalar(node: ScalarNode) -> object:
    """What was quoted is text; otherwise a word of YAML, a number, or text."""
    text = node.text
    if not node.plain:
        return text
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return Decimal(text.replace("_", "").replace(".nan", "nan").replace(".inf", "inf"))
    except InvalidOperation:
        return text

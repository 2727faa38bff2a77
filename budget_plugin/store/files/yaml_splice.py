"""Changes one value in a YAML text and leaves every other character as it is.

A person's file has comments, columns and quotes that mean something to its writer. So the place of
the value is found by the reader (`yaml_nodes`) and only that place is rewritten; nothing is dumped
anew. Whoever calls this reads the result again before it is kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from .yaml_nodes import Entry, MappingNode, dotted, is_null, read_document

INDENT: Final = 2
_LONGEST_SIMPLE_KEY: Final = 1000
"""YAML allows `key: value` for keys of up to 1,024 characters; longer ones need `? key`."""


class CannotEdit(Exception):
    """This place of the file cannot be changed by a program; the text says why."""


@dataclass(frozen=True, slots=True)
class Step:
    """One key on the way to a value: as it is looked up, and as it is written when it is new."""

    key: str
    written: str

    def to(self, value: str, *, flow: bool) -> str:
        """`key: value` on one line where YAML allows it."""
        if len(self.written) <= _LONGEST_SIMPLE_KEY:
            return f"{self.written}:{value}"
        return f"? {self.written} :{value}" if flow else f"? {self.written}\n:{value}"


def plain(key: str) -> Step:
    """A step whose key needs no quotes."""
    return Step(key, key)


def quoted(key: str) -> Step:
    """A step whose key may be any text: written in double quotes."""
    return Step(key, '"' + "".join(_escaped(character) for character in key) + '"')


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    code = ord(character)
    if character.isprintable():
        return character
    return f"\\x{code:02X}" if code < 0x100 else f"\\U{code:08X}"


def put(text: str, path: Sequence[Step], value: str) -> str:
    """The text with `value` (a plain scalar) at `path`, which is made as far as it is missing.

    Raises:
        CannotEdit: the path leads through an alias or through something that is no mapping.
        Unreadable: the text itself is not valid.
    """
    root = read_document(text)
    if root is None or is_null(root):
        return _with_lines(text, len(text), _block(path, value, 0), text)
    if not isinstance(root, MappingNode):
        raise CannotEdit("the file is not a mapping at its top level")
    parent, depth, entry = _walk(root, path)
    if entry is None:
        return _insert(text, parent, path[depth:], value)
    if depth == len(path) - 1:
        return _replace(text, entry, value)
    return _fill(text, parent, entry, path[depth + 1 :], value)


def cut(text: str, path: Sequence[Step]) -> str:
    """The text without the entry at `path`; unchanged if there is none. Raises as `put` does."""
    root = read_document(text)
    if not isinstance(root, MappingNode):
        return text
    parent, depth, entry = _walk(root, path)
    if entry is None or depth < len(path) - 1:
        return text
    start, end = _span_in_flow(parent, entry) if parent.flow else _whole_lines(text, entry)
    return text[:start] + text[end:]


def _walk(root: MappingNode, path: Sequence[Step]) -> tuple[MappingNode, int, Entry | None]:
    """The deepest mapping on the path, its depth, and its entry there: `None` if it is missing."""
    parent = root
    for depth, step in enumerate(path):
        entry = parent.get(step.key)
        if entry is None or depth == len(path) - 1 or is_null(entry.value):
            return parent, depth, entry
        where = dotted(taken.key for taken in path[: depth + 1])
        if entry.shared:
            raise CannotEdit(f"{where} is an alias (*) of another entry; write it out by hand")
        if not isinstance(entry.value, MappingNode):
            raise CannotEdit(f"{where} is not a mapping")
        parent = entry.value
    raise AssertionError("a path has at least one step")


def _replace(text: str, entry: Entry, value: str) -> str:
    before, after = text[: entry.start], text[entry.end :]
    if before.endswith(":"):  # nothing was written after the colon
        value = f" {value}"
    if text[entry.start : entry.end].endswith("\n"):  # a block scalar takes its line's end along
        value = f"{value}{_newline(text)}"
    return before + value + after


def _insert(text: str, parent: MappingNode, path: Sequence[Step], value: str) -> str:
    """A new last entry of `parent`, in the style that it is written in."""
    if not parent.flow:
        return _with_lines(text, parent.end, _block(path, value, parent.column), text)
    if parent.entries:
        at = parent.entries[-1].end
        return f"{text[:at]}, {_flow(path, value)}{text[at:]}"
    at = text.index("{", parent.start) + 1
    return text[:at] + _flow(path, value) + text[at:]


def _fill(text: str, parent: MappingNode, entry: Entry, path: Sequence[Step], value: str) -> str:
    """Give a key that has no value yet its first entry."""
    if parent.flow:
        return _replace(text, entry, f"{{{_flow(path, value)}}}")
    emptied = text[: entry.start] + text[entry.end :]
    return _with_lines(emptied, entry.start, _block(path, value, parent.column + INDENT), text)


def _with_lines(text: str, after: int, lines: list[str], like: str) -> str:
    """The lines inserted below the one that `after` is on, with the line ends of `like`."""
    newline = _newline(like)
    at = _line_end(text, after)
    head = text[:at]
    gap = newline if head and not head.endswith("\n") else ""
    return head + gap + newline.join(lines) + newline + text[at:]


def _line_end(text: str, at: int) -> int:
    """Where the next line begins; `at` itself when a line begins there."""
    if at and text[at - 1] == "\n":
        return at
    found = text.find("\n", at)
    return len(text) if found < 0 else found + 1


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _block(path: Sequence[Step], value: str, column: int) -> list[str]:
    *above, last = path
    lines: list[str] = []
    for step, end in [*((step, "") for step in above), (last, f" {value}")]:
        lines += [" " * column + line for line in step.to(end, flow=False).split("\n")]
        column += INDENT
    return lines


def _flow(path: Sequence[Step], value: str) -> str:
    *above, last = path
    written = last.to(f" {value}", flow=True)
    for step in reversed(above):
        written = step.to(f" {{{written}}}", flow=True)
    return written


def _span_in_flow(parent: MappingNode, entry: Entry) -> tuple[int, int]:
    """The entry and one of the commas beside it."""
    at = parent.entries.index(entry)
    if at + 1 < len(parent.entries):
        return entry.key.start, parent.entries[at + 1].key.start
    if at:
        return parent.entries[at - 1].end, entry.end
    return entry.key.start, entry.end


def _whole_lines(text: str, entry: Entry) -> tuple[int, int]:
    start = text.rfind("\n", 0, entry.key.start) + 1
    if text[start : entry.key.start].strip(" ?"):
        raise CannotEdit(f"line {entry.key.line} holds more than this entry; remove it by hand")
    return start, _line_end(text, entry.end)

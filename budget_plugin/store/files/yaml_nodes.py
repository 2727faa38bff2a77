"""YAML as it was written: nodes with their text and place, before YAML turns them into values.

The usual loader reads the id `012345670123` as an octal number, `NO` as false and
`20260907_210243_123456` as one huge integer, and lets a second `daily_usd` win silently. Here a
scalar stays the text that a person typed, every node knows its line, and what cannot be meant
(a key twice, an unknown anchor, a tag) is an `Unreadable` with its line.

Nodes are named tuples, not dataclasses: a changed file is read on the agent's thread, and they cut
that by a quarter.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

MAX_DEPTH: Final = 24
"""Nesting that no budget.yaml needs; the C loader itself would crash the process far above it."""

MAX_MERGED: Final = 10_000
"""Entries that merge keys (`<<`) may bring in all together, so that a small file stays small."""


class Unreadable(Exception):
    """The text is not one YAML document that can be meant; carries where and what would be right.

    Attributes:
        line: counted from 1, or `None` where YAML names no place.
        key: the dotted path of the key, or empty.
    """

    def __init__(self, line: int | None, key: str, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.key = key
        self.message = message


class ScalarNode(NamedTuple):
    """A text, number, boolean or nothing, as it was typed.

    Attributes:
        plain: without quotes; only a plain scalar can mean "nothing" (`~`, `null`, empty).
        start, end: its place in the text, `[start, end)` in characters.
    """

    text: str
    plain: bool
    line: int
    column: int
    start: int
    end: int


class Entry(NamedTuple):
    """One `key: value`; `[start, end)` is where the value is written (for an alias: the alias)."""

    key: ScalarNode
    value: "Node"
    start: int
    end: int
    shared: bool
    """The value is an alias: what is written elsewhere holds here too."""


class MappingNode(NamedTuple):
    """Keys and values: `entries` as written, `merged` with what `<<` brings in after them."""

    entries: tuple[Entry, ...]
    merged: tuple[Entry, ...]
    flow: bool
    line: int
    column: int
    start: int
    end: int

    def get(self, key: str) -> Entry | None:
        """The entry that is written here under this key, merges left out."""
        return next((entry for entry in self.entries if entry.key.text == key), None)


class SequenceNode(NamedTuple):
    """A list."""

    items: tuple["Node", ...]
    line: int
    column: int
    start: int
    end: int


Node = ScalarNode | MappingNode | SequenceNode


def is_null(node: Node) -> bool:
    """Nothing, as YAML has it: an empty value, `~` or `null` without quotes."""
    return isinstance(node, ScalarNode) and node.plain and node.text.lower() in ("", "~", "null")


def read_document(text: str) -> Node | None:
    """The root node of the one document in `text`; `None` when there is nothing but comments.

    Raises:
        Unreadable: for a syntax error, a second document, a key that is written twice in one
            mapping, a key that is not a plain text, a tag, an anchor that is unknown or contains
            itself, and nesting deeper than `MAX_DEPTH`.
    """
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return _Composer(yaml.parse(text, Loader=loader)).document()
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, text) from None
    except yaml.reader.ReaderError as error:
        raise _bad_character(error, text) from None


class _Composer:
    """Builds nodes from the parser's events, which come one by one and are bounded in depth."""

    def __init__(self, events: Iterator[Any]) -> None:
        self._events = events
        self._anchors: dict[str, Node | None] = {}
        self._merged = 0
        self._builders: dict[str, Callable[[Any, tuple[str, ...]], Node]] = {
            "ScalarEvent": self._scalar,
            "MappingStartEvent": self._mapping,
            "SequenceStartEvent": self._sequence,
        }

    def document(self) -> Node | None:
        next(self._events)  # the stream's start
        if _kind(next(self._events)) == "StreamEndEvent":
            return None
        root = self._node(next(self._events), ())
        next(self._events)  # the document's end
        after = next(self._events)
        if _kind(after) != "StreamEndEvent":
            raise Unreadable(_line(after), "", "a second document begins here; keep one")
        return root

    def _node(self, event: Any, path: tuple[str, ...]) -> "Node":
        if _kind(event) == "AliasEvent":
            return self._alias(event, path)
        if len(path) > MAX_DEPTH:
            raise Unreadable(_line(event), dotted(path[:4]), "nested too deeply to be meant")
        if event.tag is not None:
            raise Unreadable(
                _line(event), dotted(path), f"remove the tag {event.tag}; write the bare value"
            )
        if event.anchor is not None:
            self._anchors[event.anchor] = None  # not finished: an alias inside would be a circle
        node = self._builders[_kind(event)](event, path)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _alias(self, event: Any, path: tuple[str, ...]) -> "Node":
        node = self._anchors.get(event.anchor)
        if node is None:
            why = "contains itself" if event.anchor in self._anchors else "is not defined above"
            raise Unreadable(
                _line(event), dotted(path), f"*{event.anchor}: its anchor &{event.anchor} {why}"
            )
        return node

    def _scalar(self, event: Any, _path: tuple[str, ...]) -> ScalarNode:
        start, end = event.start_mark, event.end_mark
        plain = bool(event.implicit[0])
        return ScalarNode(event.value, plain, start.line + 1, start.column, start.index, end.index)

    def _sequence(self, event: Any, path: tuple[str, ...]) -> SequenceNode:
        items: list[Node] = []
        while _kind(item := next(self._events)) != "SequenceEndEvent":
            items.append(self._node(item, (*path, str(len(items)))))
        begin = event.start_mark
        end = item.end_mark.index if event.flow_style else _end(items, begin.index)
        return SequenceNode(tuple(items), begin.line + 1, begin.column, begin.index, end)

    def _mapping(self, event: Any, path: tuple[str, ...]) -> MappingNode:
        entries: dict[str, Entry] = {}
        while _kind(key := next(self._events)) != "MappingEndEvent":
            entry = self._entry(key, path)
            if (first := entries.get(entry.key.text)) is not None:
                raise _twice(first, entry, path)
            entries[entry.key.text] = entry
        begin = event.start_mark
        written = tuple(entries.values())
        end = key.end_mark.index if event.flow_style else max(e.end for e in written)
        return MappingNode(
            written,
            self._with_merges(entries, path),
            bool(event.flow_style),
            begin.line + 1,
            begin.column,
            begin.index,
            end,
        )

    def _entry(self, event: Any, path: tuple[str, ...]) -> Entry:
        key = self._node(event, path)
        if not isinstance(key, ScalarNode):
            raise Unreadable(
                _line(event), dotted(path), "a key must be one text; a list or mapping is none"
            )
        written = next(self._events)
        value = self._node(written, (*path, key.text))
        if _kind(written) == "AliasEvent":
            return Entry(key, value, written.start_mark.index, written.end_mark.index, True)
        return Entry(key, value, value.start, value.end, False)

    def _with_merges(self, entries: dict[str, Entry], path: tuple[str, ...]) -> tuple[Entry, ...]:
        """The entries with each `<<` replaced by what it brings in; what is written here wins."""
        merge = entries.get("<<")
        if merge is None or not merge.key.plain:
            return tuple(entries.values())
        together = {key: entry for key, entry in entries.items() if entry is not merge}
        for source in _sources(merge, path):
            self._merged += len(source.merged)
            if self._merged > MAX_MERGED:
                raise Unreadable(
                    merge.key.line, dotted(path), f"<< brings in over {MAX_MERGED:,} keys"
                )
            for entry in source.merged:
                together.setdefault(entry.key.text, entry)
        return tuple(together.values())


def _sources(merge: Entry, path: tuple[str, ...]) -> Iterable[MappingNode]:
    value = merge.value
    for source in value.items if isinstance(value, SequenceNode) else (value,):
        if not isinstance(source, MappingNode):
            raise Unreadable(
                merge.key.line,
                dotted((*path, "<<")),
                "expected an alias of a mapping, such as *base",
            )
        yield source


def _kind(event: object) -> str:
    return type(event).__name__


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _end(nodes: Iterable[Node], otherwise: int) -> int:
    return max((node.end for node in nodes), default=otherwise)


def _twice(first: Entry, second: Entry, path: tuple[str, ...]) -> Unreadable:
    one, two = first.key.line, second.key.line
    where = f"on lines {one} and {two}" if one != two else f"on line {one}"
    return Unreadable(
        two, dotted((*path, second.key.text)), f"is written twice, {where}; keep the one you mean"
    )


_HINTS: Final = {
    "\t": "indent with spaces, not with tabs",
    "@": "put a text that begins with @ in quotes",
    "`": "put a text that begins with ` in quotes",
    "%": "put a text that begins with % in quotes",
    "*": "put a text that begins with * in quotes",
}


def _syntax_error(error: Any, text: str) -> Unreadable:
    mark = error.problem_mark or error.context_mark
    hint = _HINTS.get(text[mark.index : mark.index + 1]) if mark else None
    said = " ".join(part for part in (error.context, error.problem) if part)
    message = f"not valid YAML: {said}" + (f"; {hint}" if hint else "")
    return Unreadable(mark.line + 1 if mark else None, "", message)


def _bad_character(error: Any, text: str) -> Unreadable:
    code = error.character if isinstance(error.character, int) else ord(error.character)
    place = text.find(chr(code))
    line = text.count("\n", 0, place) + 1 if place >= 0 else None
    return Unreadable(line, "", f"a character that YAML forbids, U+{code:04X}; remove it")


_SHOWN: Final = 60


def dotted(path: Iterable[str]) -> str:
    """A path for people: `budgets.global.daily_usd`."""
    return ".".join(shown(part) for part in path)


def shown(text: str) -> str:
    """A written text, safe for one line of a log: shortened, control characters made visible."""
    short = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in short)

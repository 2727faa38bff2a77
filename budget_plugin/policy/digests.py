"""Digests of calls, results and errors: enough to see that two are the same, nothing to read.

What differs between two tellings of the same thing is taken out first, and how much depends on what
is compared:

    arguments   as they are, in canonical JSON: a page number or a path *is* the difference
    results     without what changes by itself: clocks, durations, request ids, process ids
    errors      without ids, paths, numbers and times as well: "no row 17" and "no row 18" are one

Nothing here raises, whatever a tool was given or gave back.
"""

import json
import re
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Final

DIGEST_BYTES: Final = 8
"""64 bits: among the few hundred events of a window, two of 10^14 pairs collide."""

_EDGE_CHARS: Final = 1_000
"""Of a long text, this much at either end is normalised; what lies between counts as it is."""

_SHORT_CHARS: Final = 300
"""In longer or many-lined arguments (code, documents) white space means something."""

_VOLATILE: Final = tuple(
    (re.compile(hint), re.compile(pattern, re.IGNORECASE))
    for hint, pattern in (
        (r"-[0-9a-fA-F]{4}-", r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"),
        (
            r":\d\d",
            r"\b(?:20\d\d-\d\d-\d\d[t ]\d\d:\d\d|\d{1,2}:\d\d(?=:\d))(?::\d\d(?:[.,]\d+)?)?"
            r"(?:z|[+-]\d\d:?\d\d)?\b",
        ),
        (r"1[6-9]\d{8}", r"\b1[6-9]\d{8}(?:\.\d+|\d{3})?\b"),
        (
            r"\d ?[ms]",
            r"\b(?:in|took|after|for|elapsed|uptime)\b[:=]? ?\d+(?:\.\d+)? ?"
            r"(?:ms|s|secs?|seconds?|min|minutes?)\b",
        ),
        (r"[pP][iI][dD]", r"\bpid[ :=]+\d+\b"),
        (
            r'":',
            r'"(?:\w{0,32}_at|\w{0,32}_?timestamp|(?:current_)?time|now|\w{0,32}_ms|duration\w{0,16}'
            r"|elapsed\w{0,16}|latency\w{0,16}|uptime\w{0,16}|(?:message|request|trace|call|span)_?id"
            r'|pid|nonce|etag)": ?(?:"[^"]{0,200}"|-?\d[\d.e+]*)',
        ),
    )
)
"""What changes by itself: ids by chance, clocks, epochs, durations, processes, fields of that name.
The first of each pair is cheap to look for and must be there before the second is tried."""

_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*[a-z]", re.IGNORECASE)
_PLACE: Final = re.compile(r"[a-z]+://[^\s'\"<>]+|(?:~|\.{1,2}|\b[a-z]:)?(?:[/\\][\w.@+-]+)+[/\\]?")
_NAMED: Final = re.compile(r"[\w-]{6,}")
_NUMBER: Final = re.compile(r"[-+]?\b\d+(?:[.,]\d+)*\b")
_SPACE: Final = re.compile(r"\s+")
_EXIT_CODE: Final = re.compile(r'"exit_code": ?(-?\d+)')
_WORD: Final = re.compile(r"[a-z][a-z_]{0,31}")
_SLEEP: Final = re.compile(r"\bsleep\s+\d|\bStart-Sleep\b|\btime\.sleep\(", re.IGNORECASE)

_TARGET_ARGUMENTS: Final = (
    "path",
    "file_path",
    "url",
    "urls",
    "command",
    "query",
    "pattern",
    "target",
    "task_id",
    "job_id",
    "session_id",
    "id",
    "name",
    "goal",
)
"""The argument that an operation is about, the first of these that is there."""


def digest(text: str) -> str:
    """Sixteen hexadecimal digits for any text, broken surrogates included."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).hexdigest()


def args_digest(args: object) -> str:
    """The same for the same call: the order of keys, `1` or `1.0`, absent or null do not matter."""
    return digest(canonical(args))


def canonical(value: object) -> str:
    """Sorted compact JSON; what has no JSON is written by its type, never by its address."""
    try:
        return json.dumps(
            _tidy(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_typed
        )
    except (TypeError, ValueError, RecursionError):
        return _typed(value)


def _typed(value: object) -> str:
    return f"<{type(value).__name__}>"


def _tidy(value: object) -> object:
    if isinstance(value, str):
        return _one_line(value) if len(value) <= _SHORT_CHARS else value
    if isinstance(value, Mapping):
        return {str(key): _tidy(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_tidy(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _one_line(text: str) -> str:
    return text if "\n" in text else _SPACE.sub(" ", text).strip()


def target_digest(args: object) -> str:
    """What an operation is about (its path, address, command or query); "" when it says nothing.

    Retries of one operation share it, though they differ in a timeout or a flag of their own.
    """
    if not isinstance(args, Mapping):
        return ""
    for name in _TARGET_ARGUMENTS:
        if args.get(name):
            value = args[name]
            return digest(canonical(value.rstrip("/ ") if isinstance(value, str) else value))
    return ""


def result_digest(result: object) -> str:
    """The same for results that differ in clocks, durations, request and process ids only.

    Limits: a number that is not marked as one of these counts, since progress is a number too; a
    result that says nothing but the time is always the same.
    """
    text = result if isinstance(result, str) else canonical(result)
    return digest(_edges(text, _without_volatile))


def _without_volatile(text: str) -> str:
    for hint, pattern in _VOLATILE:
        if hint.search(text):
            text = pattern.sub("*", text)
    return text


def error_digest(text: object) -> str:
    """The same for an error however it was provoked; "" for an error without a text.

    Limits: names in words stay (`no module named foo` and `… bar` are two), quoted or not.
    """
    if not isinstance(text, str):
        return ""
    plain = normalise_error(text)
    return digest(plain) if plain else ""


def normalise_error(text: str) -> str:
    """Lower case, one line, without colours, times, ids, paths and numbers."""
    plain = _COLOUR.sub("", _shortened(text)).lower()
    plain = _PLACE.sub("<place>", _without_volatile(plain))
    plain = _NUMBER.sub("#", _NAMED.sub(_id_or_word, plain))
    return _SPACE.sub(" ", plain).strip()


def _id_or_word(found: re.Match[str]) -> str:
    """`SUP-118` and `7f3a9c` are ids; `old_string` is a word and `2026` a number."""
    text = found[0]
    mixed = any(map(str.isdigit, text)) and any(map(str.isalpha, text))
    return "<id>" if mixed else text


def _shortened(text: str) -> str:
    """Of a long error its two ends: the middle of a traceback is where it differs by chance."""
    return text if len(text) <= 2 * _EDGE_CHARS else text[:_EDGE_CHARS] + text[-_EDGE_CHARS:]


def _edges(text: str, change: Callable[[str], str]) -> str:
    if len(text) <= 2 * _EDGE_CHARS:
        return change(text)
    middle = text[_EDGE_CHARS:-_EDGE_CHARS]
    return change(text[:_EDGE_CHARS]) + middle + change(text[-_EDGE_CHARS:])


def exit_code(result: object) -> int | None:
    """The exit code at the end of a command's result, `None` when there is none."""
    if not isinstance(result, str):
        return None
    found = _EXIT_CODE.search(result, max(0, len(result) - 400))
    return int(found[1]) if found else None


def action_of(args: object) -> str:
    """The `action` of a tool that does several things, if it is a plain word; else ""."""
    value = args.get("action") if isinstance(args, Mapping) else None
    return value if isinstance(value, str) and _WORD.fullmatch(value) else ""


def waits(args: object) -> bool:
    """Whether the call itself waits: `sleep 30 && …`, or the action `wait`."""
    if not isinstance(args, Mapping):
        return False
    if args.get("action") == "wait":
        return True
    return any(
        isinstance(value, str) and _SLEEP.search(value) is not None
        for value in (args.get("command"), args.get("code"))
    )

"""The host's own database, read only: the one trace of the calls that bypass every hook.

Titles, compression, vision and the like reach no plugin. The host adds what they used to its table
`session_model_usage`, one row per session, model, route and task, with counts that only grow.
Nothing here raises: what is missing, locked, damaged or older than we know counts as "nothing seen
yet", and is looked for again the next time.
"""

import hashlib
import logging
import math
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, NamedTuple

from ..policy.money import nanos_from_usd

log = logging.getLogger(__name__)

_TIMEOUT_S: Final = 0.2
_MOST_TOKENS: Final = 10**9
"""More than this in one call on average is a broken row, not a bill."""

_MOST_USD: Final = 10**6
_KEY: Final = (
    "session_id",
    "model",
    "billing_provider",
    "billing_base_url",
    "billing_mode",
    "task",
)
_NUMBERS: Final = (
    "api_call_count",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "actual_cost_usd",
    "last_seen",
)
_SEEN_BY_US: Final = frozenset({"background_review", "moa_aggregator"})
"""Tasks whose calls pass the model gate like any other; some versions of the host note them too."""


class Counts(NamedTuple):
    """What one row counts up: calls, the five kinds of tokens, and the cost the provider stated.

    `output_tokens` is as the host counts it, which is not always with the reasoning.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    actual_nanos: int = 0

    def less(self, other: "Counts") -> "Counts":
        """What has been added since `other`, each count at least 0."""
        return Counts(*(max(0, now - then) for now, then in zip(self, other, strict=True)))

    def plus(self, other: "Counts") -> "Counts":
        """Both together."""
        return Counts(*(one + more for one, more in zip(self, other, strict=True)))


@dataclass(frozen=True, slots=True)
class AuxiliaryUsage:
    """One row of the host: all that a task has used in a session, on one route, until now.

    Attributes:
        last_seen_ms: when the host added to it last.
    """

    session_id: str
    model: str
    provider: str
    base_url: str
    billing_mode: str
    task: str
    counts: Counts
    last_seen_ms: int

    @property
    def key(self) -> str:
        """Names the row in our ledger: readable in front, unambiguous behind."""
        parts = (self.model, self.provider, self.base_url, self.billing_mode)
        digest = hashlib.sha256(
            "\0".join((self.session_id, self.task, *parts)).encode("utf-8", "replace")
        )
        return f"aux:{self.session_id}:{self.task}:{digest.hexdigest()[:16]}"


@dataclass(frozen=True, slots=True)
class SessionUsage:
    """One row of the host: all that a model has used in a session, and whose session it is.

    Attributes:
        used: the row; its `task` is "" for the conversation itself.
        first_ms: when the first of these calls was made, as far as the host knows.
        estimated_nanos: the host's own estimate of the cost; 0 where it has none.
        source: the platform on which the session took place, of a child that of its root.
        user_id: who wrote there.
    """

    used: AuxiliaryUsage
    first_ms: int
    estimated_nanos: int
    source: str
    user_id: str
    profile: str
    root_session_id: str


class _Session(NamedTuple):
    source: str
    user_id: str
    profile: str
    parent: str
    started_ms: int


class HostStateError(Exception):
    """The host's database cannot be read; the text says why."""


class HostState:
    """The host's `state.db`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def auxiliary_usage(self, since_ms: int) -> list[AuxiliaryUsage]:
        """The rows of auxiliary tasks that the host has added to since then; never raises."""
        if not self._path.exists():
            return []
        try:
            with closing(self._connect()) as connection:
                return _rows(connection, since_ms)
        except sqlite3.Error as error:
            log.debug("the host's database was not read: %s", error)
            return []

    def usage(self) -> list[SessionUsage]:
        """All that the host has noted, a row per session, model, route and task.

        Nothing, where it has no database yet.

        Raises:
            HostStateError: it cannot be read.
        """
        if not self._path.exists():
            return []
        try:
            with closing(self._connect()) as connection:
                return _usage(connection)
        except sqlite3.Error as error:
            raise HostStateError(f"{self._path} cannot be read: {error}") from error

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(
            f"{self._path.absolute().as_uri()}?mode=ro", timeout=_TIMEOUT_S, uri=True
        )


def _rows(connection: sqlite3.Connection, since_ms: int) -> list[AuxiliaryUsage]:
    present = {row[1] for row in connection.execute("PRAGMA table_info(session_model_usage)")}
    if not present.issuperset(("session_id", "model", "task")):
        return []  # a host that does not note these calls
    wanted = [name for name in (*_KEY, *_NUMBERS, "cost_status") if name in present]
    where = "task <> ''"
    if "last_seen" in present:
        where += " AND (last_seen IS NULL OR last_seen >= :since)"
    sql = f"SELECT {', '.join(wanted)} FROM session_model_usage WHERE {where}"
    found = connection.execute(sql, {"since": since_ms / 1000})
    rows = (_row(dict(zip(wanted, row, strict=True))) for row in found)
    return [row for row in rows if row.task not in _SEEN_BY_US and _is_believable(row.counts)]


def _row(values: Mapping[str, Any]) -> AuxiliaryUsage:
    session_id, model, provider, base_url, mode, task = (_text(values.get(k)) for k in _KEY)
    tokens = [_count(values.get(name)) for name in _NUMBERS[1:6]]
    calls = _count(values.get("api_call_count"))
    if not calls and any(tokens):
        calls = 1  # a host that does not count them
    stated = values.get("actual_cost_usd") if values.get("cost_status") == "actual" else None
    return AuxiliaryUsage(
        session_id,
        model,
        provider,
        base_url,
        mode,
        task,
        Counts._make((calls, *tokens, _nanos(stated))),
        _milliseconds(values.get("last_seen")),
    )


def _usage(connection: sqlite3.Connection) -> list[SessionUsage]:
    sessions = _sessions(connection)
    present = {row[1] for row in connection.execute("PRAGMA table_info(session_model_usage)")}
    if not present.issuperset(("session_id", "model")):
        return []
    extra = ("cost_status", "estimated_cost_usd", "first_seen")
    wanted = [name for name in (*_KEY, *_NUMBERS, *extra) if name in present]
    found = connection.execute(f"SELECT {', '.join(wanted)} FROM session_model_usage")
    rows = []
    for values in found:
        named = dict(zip(wanted, values, strict=True))
        used = _row(named)
        if used.task in _SEEN_BY_US or not _is_believable(used.counts):
            continue
        root = _root_of(sessions, used.session_id)
        owner = sessions.get(root, _Session("", "", "", "", 0))
        own = sessions.get(used.session_id, owner)
        first_ms = _milliseconds(named.get("first_seen")) or own.started_ms
        rows.append(
            SessionUsage(
                used,
                first_ms or used.last_seen_ms,
                _nanos(named.get("estimated_cost_usd")),
                owner.source,
                owner.user_id,
                owner.profile,
                root,
            )
        )
    return rows


def _sessions(connection: sqlite3.Connection) -> dict[str, _Session]:
    present = {row[1] for row in connection.execute("PRAGMA table_info(sessions)")}
    if "id" not in present:
        return {}
    names = ("source", "user_id", "profile_name", "parent_session_id", "started_at")
    columns = [name if name in present else "NULL" for name in names]
    found = connection.execute(f"SELECT id, {', '.join(columns)} FROM sessions")
    return {
        _text(session_id): _Session(
            _text(source), _text(user), _text(profile), _text(parent), _milliseconds(started)
        )
        for session_id, source, user, profile, parent, started in found
    }


def _milliseconds(seconds: object) -> int:
    return _count(_number(seconds) * 1000)


def _root_of(sessions: Mapping[str, _Session], session_id: str) -> str:
    """The session at the top; a child is its parent's, and a circle ends."""
    seen = {session_id}
    while (session := sessions.get(session_id)) and session.parent in sessions:
        if session.parent in seen:
            break
        seen.add(session_id := session.parent)
    return session_id


def _is_believable(counts: Counts) -> bool:
    return max(counts[1:6]) <= counts.calls * _MOST_TOKENS


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> float:
    if not isinstance(value, int | float) or not 0 <= value < math.inf:
        return 0
    return value


def _count(value: object) -> int:
    return int(_number(value))


def _nanos(usd: object) -> int:
    return nanos_from_usd(Decimal(str(min(_number(usd), _MOST_USD))))

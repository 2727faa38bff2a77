"""The tables of the ledger as SQLAlchemy Core metadata; `migrations/` builds the same, by test.

Money is integer nano-dollars, stored time UTC milliseconds. Ids that do not exist are the empty
string, never NULL: a UNIQUE key over a NULL would not be one.
"""

from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

REVISION: Final = "0002"
"""The Alembic revision that this code reads and writes."""

# Integer on SQLite makes `id` the rowid itself.
_ID: Final = BigInteger().with_variant(Integer(), "sqlite")

metadata: Final = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
    }
)


def _id(name: str) -> Column[str]:
    return Column(name, String, nullable=False, server_default="")


def _count(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False, server_default="0")


runs: Final = Table(
    "runs",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("session_id", String, nullable=False),
    Column("root_run_id", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("started_ms", BigInteger, nullable=False),
    Column("ended_ms", BigInteger),
    _id("outcome"),
    # The charged scopes: a child carries those of its root.
    _id("cron_job_id"),
    _id("sender_id"),
    _id("profile"),
    _id("platform"),
    _id("ticket_id"),
    _id("model"),
    _id("linked_run_id"),  # the ended run that this one goes on from
    # What the gates of other processes must leave room for: the last answer of an open run.
    Column("active_ms", BigInteger, nullable=False, server_default="0"),
    _count("next_nanos"),
    _count("next_tokens"),
    # Whose process it is: a run without an ending, whose process is gone, has crashed.
    _id("owner_host"),
    Column("owner_pid", Integer, nullable=False, server_default="0"),
    _id("owner_started"),
    Index(None, "session_id"),
    Index(None, "root_run_id"),
    Index(None, "cron_job_id", "started_ms"),
    Index(None, "sender_id", "started_ms"),
    Index(None, "profile", "started_ms"),
    Index(None, "started_ms"),
    Index("ix_runs_open", "active_ms", sqlite_where=text("ended_ms IS NULL")),
)

calls: Final = Table(
    "calls",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("attempt_id", String, nullable=False),
    Column("run_id", String, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    _id("provider"),
    _id("model"),
    _id("response_model"),
    _count("input_tokens"),
    _count("output_tokens"),
    _count("cache_read_tokens"),
    _count("cache_write_tokens"),
    _count("cache_write_1h_tokens"),
    _count("reasoning_tokens"),
    Column("cost_nanos", BigInteger),  # NULL: nobody knows; never 0 for that
    Column("cost_source", String, nullable=False),
    Column("estimated", Integer, nullable=False, server_default="0"),
    Column("estimate_nanos", BigInteger),
    _id("price_id"),
    _id("price_date"),
    _id("tier"),
    _id("flags"),
    _id("auxiliary_task"),
    UniqueConstraint("attempt_id"),
    Index(None, "at_ms"),
    Index(None, "run_id"),
)

day_sums: Final = Table(
    "day_sums",
    metadata,
    # What calls that are not kept one by one were: of a local day, a session and a model, with the
    # scopes that they were charged to.
    Column("day_ms", BigInteger, primary_key=True, autoincrement=False),
    *(
        Column(name, String, primary_key=True)
        for name in (
            "session_id",
            "cron_job_id",
            "sender_id",
            "profile",
            "platform",
            "model",
        )
    ),
    _count("certain_nanos"),
    _count("estimated_nanos"),
    _count("calls"),
    _count("unpriced_calls"),
    _count("estimated_calls"),
    _count("input_tokens"),
    _count("output_tokens"),
    _count("cache_read_tokens"),
    _count("cache_write_tokens"),
    _count("reasoning_tokens"),
    Index(None, "session_id"),
    sqlite_with_rowid=False,
)

subagent_edges: Final = Table(
    "subagent_edges",
    metadata,
    Column("child_session_id", String, primary_key=True),  # a child keeps its first parent
    Column("parent_run_id", String, nullable=False),
    _id("role"),
    Column("started_ms", BigInteger, nullable=False),
    Column("stopped_ms", BigInteger),
    _id("status"),
    Index(None, "parent_run_id"),
)

spend_totals: Final = Table(
    "spend_totals",
    metadata,
    # In this order a lookup stays short after a year of windows: the live ones end last.
    Column("scope", String, primary_key=True),
    Column("scope_id", String, primary_key=True),
    Column("end_ms", BigInteger, primary_key=True, autoincrement=False),
    Column("start_ms", BigInteger, primary_key=True, autoincrement=False),
    Column("window", String, primary_key=True),
    _count("certain_nanos"),
    _count("estimated_nanos"),
    _count("tokens"),
    _count("calls"),
    _count("unpriced_calls"),
    _count("estimated_calls"),
    sqlite_with_rowid=False,
)

budget_alerts: Final = Table(
    "budget_alerts",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("scope", String, nullable=False),
    _id("scope_id"),
    Column("window", String, nullable=False),
    Column("measure", String, nullable=False),
    Column("period_key", String, nullable=False),
    Column("level", String, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    _id("run_id"),
    UniqueConstraint("scope", "scope_id", "window", "measure", "period_key", "level"),
)

decisions: Final = Table(
    "decisions",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("at_ms", BigInteger, nullable=False),
    _id("run_id"),
    Column("gate", String, nullable=False),
    Column("scope", String, nullable=False),
    _id("scope_id"),
    Column("window", String, nullable=False),
    Column("measure", String, nullable=False),
    _id("period_key"),
    Column("level", String, nullable=False),
    Column("used", BigInteger, nullable=False),
    Column("amount", BigInteger, nullable=False),
    Column("action", String, nullable=False),
    _id("detail"),
    Index(None, "at_ms"),
    Index(None, "run_id"),
)

run_endings: Final = Table(
    "run_endings",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("run_id", String, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("state", String, nullable=False),
    Column("cause", String, nullable=False),
    Column("status", String, nullable=False),
    _id("trigger"),
    _id("next_owner"),
    Column("near_miss", Integer, nullable=False, server_default="0"),
    Column("receipt", Text, nullable=False),
    UniqueConstraint("run_id"),  # a run ends once, whoever says so
    Index(None, "status"),
)

tool_events: Final = Table(
    "tool_events",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("run_id", String, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("tool", String, nullable=False),
    # Digests: of what was asked and what came of it nothing can be read back.
    Column("args_digest", String, nullable=False),
    _id("target"),
    Column("result_digest", String, nullable=False),
    Column("status", String, nullable=False),
    _id("error_digest"),
    _id("step"),  # digest of the answer that asked for it
    _id("action"),
    Column("waits", Integer, nullable=False, server_default="0"),
    # What happened in the conversation since the event before.
    Column("after_person", Integer, nullable=False, server_default="0"),
    Column("resumed_ms", BigInteger),
    UniqueConstraint("run_id", "seq"),
    Index(None, "at_ms"),
)

claims: Final = Table(
    "claims",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("claim_key", String, nullable=False),  # within what the effect happens once, and which
    Column("effect", String, nullable=False),  # digest of the tool and of all that names it
    Column("tool", String, nullable=False),
    Column("per", String, nullable=False),
    Column("run_id", String, nullable=False),
    _id("call_id"),
    Column("state", String, nullable=False),
    Column("claimed_ms", BigInteger, nullable=False),
    Column("settled_ms", BigInteger),
    _id("answer_at"),
    Column("owner_host", String, nullable=False),
    Column("owner_pid", Integer, nullable=False),
    Column("owner_started", String, nullable=False),
    UniqueConstraint("claim_key"),
    Index(None, "effect", "state"),
)

extensions: Final = Table(
    "extensions",
    metadata,
    Column("number", _ID, primary_key=True),
    Column("run_id", String, nullable=False),
    # Whose next run goes on with what is granted.
    _id("session_id"),
    _id("cron_job_id"),
    _id("ticket_id"),
    Column("cause", String, nullable=False),
    Column("meter", String, nullable=False),
    Column("asked", BigInteger, nullable=False),
    _id("reason"),
    Column("account", Text, nullable=False),
    Column("state", String, nullable=False),
    Column("asked_ms", BigInteger, nullable=False),
    Column("granted", BigInteger),
    _id("who"),
    _id("via"),
    Column("decided_ms", BigInteger),
    _id("linked_run_id"),
    UniqueConstraint("run_id"),
    Index(None, "state"),
    Index(None, "session_id"),
)

ticket_usage: Final = Table(
    "ticket_usage",
    metadata,
    Column("ticket_id", String, primary_key=True),
    Column("what", String, primary_key=True),  # a meter or step; time as elapsed_ms
    Column("name", String, primary_key=True),  # of a step that is counted by name, else empty
    Column("amount", BigInteger, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

cron_pauses: Final = Table(
    "cron_pauses",
    metadata,
    Column("cron_job_id", String, primary_key=True),
    Column("paused_ms", BigInteger, nullable=False),
    Column("until_ms", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    Column("scope", String, nullable=False),
    _id("scope_id"),
    Column("window", String, nullable=False),
    _id("host_paused_at"),  # the host's own stamp: tells whether somebody touched the job since
    _id("home"),
    _id("profile"),
)

config_changes: Final = Table(
    "config_changes",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("at_ms", BigInteger, nullable=False),
    Column("who", String, nullable=False),
    Column("via", String, nullable=False),
    Column("scope", String, nullable=False),
    _id("scope_id"),
    Column("window", String, nullable=False),
    Column("measure", String, nullable=False),
    Column("amount_before", BigInteger),
    Column("amount_after", BigInteger),
    # done, held (waits for a person), confirmed (waited), announced (a command is at work on it),
    # observed (it blocks nothing)
    Column("state", String, nullable=False, server_default="done"),
    Index(None, "at_ms"),
)

known_limits: Final = Table(
    "known_limits",
    metadata,
    # Several homes may share a ledger, each with a budget.yaml of its own.
    Column("file", String, primary_key=True),
    # file: as last read; force: as it holds (they differ while a raise waits); seen: a mark
    Column("layer", String, primary_key=True),
    Column("scope", String, primary_key=True),
    Column("scope_id", String, primary_key=True),
    Column("window", String, primary_key=True),
    Column("measure", String, primary_key=True),
    Column("amount", BigInteger),  # NULL: written as "no limit"; what is not named has no row
    sqlite_with_rowid=False,
)

checkpoints: Final = Table(
    "checkpoints",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("run_id", String, nullable=False),
    Column("number", Integer, nullable=False, server_default="0"),
    Column("at_ms", BigInteger, nullable=False),
    # The run's own answers; of a draft only the digest.
    _id("established"),
    _id("enough"),
    _id("smallest"),
    _id("head"),
    _id("artifact"),
    Column("score", Float),
    Index(None, "run_id"),
)

reservations: Final = Table(
    "reservations",
    metadata,
    Column("attempt_id", String, primary_key=True),
    Column("run_id", String, nullable=False),
    Column("since_ms", BigInteger, nullable=False),
    Column("nanos", BigInteger, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    _id("provider"),
    _id("model"),
    Column("owner_host", String, nullable=False),
    Column("owner_pid", Integer, nullable=False),
    Column("owner_started", String, nullable=False),
)

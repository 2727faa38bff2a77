"""What the plugin said and did: alerts, decisions, paused jobs, changed limits."""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import bindparam, case, func, or_, select
from sqlalchemy.dialects.sqlite import insert

from ..policy.limit_changes import CeilingChange
from ..policy.limits import Key, Limit, Measure, Scope
from ..policy.verdicts import Verdict
from ..policy.windows import Window
from .sql.database import Database, Statement
from .sql.schema import budget_alerts, config_changes, cron_pauses, decisions

OBSERVED: Final = "observed"
"""The level of a decision that stopped nothing: an observed limit would have."""

RUN: Final = "run"
"""The scope and window of what a run's own ceilings decide, and of changes of them."""

_WATCHED: Final = Statement(
    select(func.count(decisions.c.run_id.distinct())).where(
        decisions.c.at_ms >= bindparam("since"),
        decisions.c.scope == bindparam("s"),
        decisions.c.scope_id == bindparam("i"),
        decisions.c.window == bindparam("w"),
        decisions.c.measure == bindparam("m"),
        decisions.c.level == OBSERVED,
    )
)
_WATCHED_RUNS: Final = Statement(
    select(func.count(decisions.c.run_id.distinct())).where(
        decisions.c.at_ms >= bindparam("since"),
        decisions.c.scope == RUN,
        decisions.c.level == OBSERVED,
    )
)
_STOPS: Final = ("refused", "blocked", "last answer")
"""What is done to a run that a limit stops: no call any more, no tool, or one last answer."""

NOTHING_FITS: Final = "nothing more fits"
"""The detail of a decision before its limit is reached."""

_OF_LIMIT: Final = ("scope", "scope_id", "window", "measure", "period_key")
_STOPPED: Final = Statement(
    select(
        *(decisions.c[name] for name in _OF_LIMIT),
        func.count(decisions.c.run_id.distinct()),
        func.count(case((decisions.c.detail == NOTHING_FITS, decisions.c.run_id)).distinct()),
    )
    .where(decisions.c.at_ms >= bindparam("since"), or_(*(decisions.c.action == a for a in _STOPS)))
    .group_by(*(decisions.c[name] for name in _OF_LIMIT))
)
_ALERT_COLUMNS: Final = (
    "scope",
    "scope_id",
    "window",
    "measure",
    "period_key",
    "level",
    "at_ms",
    "run_id",
)
_CLAIM_ALERT: Final = Statement(
    insert(budget_alerts).on_conflict_do_nothing(), list(_ALERT_COLUMNS)
)
_DECISION_COLUMNS: Final = tuple(column.name for column in decisions.c if column.name != "id")
_NOTE_DECISION: Final = Statement(insert(decisions), list(_DECISION_COLUMNS))
_FINDING_COLUMNS: Final = ("at_ms", "level", "used", "action", "detail")
_CHANGE_FINDING: Final = Statement(
    decisions.update()
    .where(
        decisions.c.run_id == bindparam("r"),
        decisions.c.gate == bindparam("g"),
        decisions.c.measure == bindparam("m"),
    )
    .values({name: bindparam(f"new_{name}") for name in _FINDING_COLUMNS})
)
_DECISIONS: Final = Statement(
    select(*(decisions.c[name] for name in _DECISION_COLUMNS))
    .order_by(decisions.c.id.desc())
    .limit(bindparam("n"))
)
_PAUSE_COLUMNS: Final = tuple(column.name for column in cron_pauses.c)
_NOTE_PAUSE: Final = Statement(
    insert(cron_pauses).on_conflict_do_update(
        index_elements=["cron_job_id"],
        set_={
            name: insert(cron_pauses).excluded[name]
            for name in _PAUSE_COLUMNS
            if name != "cron_job_id"
        },
    ),
    list(_PAUSE_COLUMNS),
)
_PAUSES: Final = Statement(
    select(*(cron_pauses.c[name] for name in _PAUSE_COLUMNS)).order_by(cron_pauses.c.cron_job_id)
)
_FORGET_PAUSE: Final = Statement(
    cron_pauses.delete().where(cron_pauses.c.cron_job_id == bindparam("j"))
)
_CHANGE_COLUMNS: Final = tuple(column.name for column in config_changes.c if column.name != "id")
_CHANGES: Final = Statement(
    select(*(config_changes.c[name] for name in _CHANGE_COLUMNS))
    .where(config_changes.c.state != "announced", config_changes.c.scope != RUN)
    .order_by(config_changes.c.id.desc())
    .limit(bindparam("n"))
)
_CEILING_CHANGES: Final = Statement(
    select(*(config_changes.c[name] for name in ("at_ms", "who", "via", "scope_id", "measure")))
    .add_columns(config_changes.c.amount_before, config_changes.c.amount_after)
    .add_columns(config_changes.c.state)
    .where(config_changes.c.scope == RUN)
    .order_by(config_changes.c.id.desc())
    .limit(bindparam("n"))
)
_NOTE_CHANGE: Final = Statement(insert(config_changes), list(_CHANGE_COLUMNS))


@dataclass(frozen=True, slots=True)
class Decision:
    """One verdict that was not ok, and what was done about it.

    `used` and `amount` are in the unit of the measure (nano-dollars, tokens or calls). A decision
    of a run's own budget has the scope and window `run`, and a meter or cause for its measure.
    """

    at_ms: int
    run_id: str
    gate: str
    scope: str
    scope_id: str
    window: str
    measure: str
    period_key: str
    level: str
    used: int
    amount: int
    action: str
    detail: str = ""


class Stopped(NamedTuple):
    """How many runs a limit has stopped, and how many of them since nothing more fitted."""

    runs: int
    nothing_fitted: int

    @property
    def before_it_was_reached(self) -> bool:
        """Whether it has stopped all of them so."""
        return self.runs == self.nothing_fitted


@dataclass(frozen=True, slots=True)
class Pause:
    """A cron job that we paused, why, and until when (`until_ms`, the limit's reset).

    `host_paused_at` is the host's own stamp, which tells whether somebody touched the job since;
    `home` is where the job lives.
    """

    cron_job_id: str
    paused_ms: int
    until_ms: int
    reason: str
    scope: Scope
    scope_id: str
    window: Window
    host_paused_at: str
    home: str = ""
    profile: str = ""


@dataclass(frozen=True, slots=True)
class LimitChange:
    """Who changed which limit from what to what; amounts in the measure's unit, None: no limit.

    `state` is `done`, `held` while it waits for a person's word, `confirmed` once it has waited.
    """

    at_ms: int
    who: str
    via: str
    scope: Scope
    scope_id: str
    key: Key
    before: int | None
    after: int | None
    state: str = "done"


class Journal:
    """Writes and reads of the record of what was said and done; raises `LedgerError` only."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def claim_alert(
        self, verdict: Verdict, level: str, run_id: str, at_ms: int, patience_s: float
    ) -> bool:
        """Whether the caller is the one who may say this: the first for its window and level."""
        limit = verdict.limit
        with self._database.writing(patience_s) as connection:
            claimed = _CLAIM_ALERT.run(
                connection,
                scope=limit.scope,
                scope_id=limit.scope_id,
                window=limit.window,
                measure=limit.measure,
                period_key=verdict.period.key,
                level=level,
                at_ms=at_ms,
                run_id=run_id,
            )
            return claimed.rowcount > 0

    def changes(self, most: int) -> list[LimitChange]:
        """The latest changes of limits, newest first."""
        return [
            LimitChange(
                row[0],
                row[1],
                row[2],
                Scope(row[3]),
                row[4],
                Key(Window(row[5]), Measure(row[6])),
                row[7],
                row[8],
                row[9],
            )
            for row in self._read(_CHANGES, n=most)
        ]

    def ceiling_changes(self, most: int) -> list[CeilingChange]:
        """The latest changes of ceilings of runs by a command, newest first."""
        return [CeilingChange(*row) for row in self._read(_CEILING_CHANGES, n=most)]

    def note_ceiling(self, change: CeilingChange, patience_s: float) -> None:
        """Write a change of a ceiling down."""
        with self._database.writing(patience_s) as connection:
            _NOTE_CHANGE.run(
                connection,
                at_ms=change.at_ms,
                who=change.who,
                via=change.via,
                scope=RUN,
                scope_id=change.layer,
                window=RUN,
                measure=change.key,
                amount_before=change.before,
                amount_after=change.after,
                state=change.state,
            )

    def note_decision(self, decision: Decision, patience_s: float) -> None:
        """Write a decision down."""
        with self._database.writing(patience_s) as connection:
            _NOTE_DECISION.run(
                connection, **{name: getattr(decision, name) for name in _DECISION_COLUMNS}
            )

    def put_finding(self, decision: Decision, patience_s: float) -> None:
        """Write down what was found about a run; one row for each kind, the latest stays."""
        values = {name: getattr(decision, name) for name in _DECISION_COLUMNS}
        with self._database.writing(patience_s) as connection:
            changed = _CHANGE_FINDING.run(
                connection,
                r=decision.run_id,
                g=decision.gate,
                m=decision.measure,
                **{f"new_{name}": values[name] for name in _FINDING_COLUMNS},
            )
            if not changed.rowcount:
                _NOTE_DECISION.run(connection, **values)

    def decisions(self, most: int) -> list[Decision]:
        """The latest decisions, newest first."""
        return [Decision(*row) for row in self._read(_DECISIONS, n=most)]

    def stopped(self, since_ms: int) -> dict[tuple[str, ...], Stopped]:
        """How many runs each limit has stopped since then, by scope, id, window, measure and the
        key of the period."""
        return {tuple(row[:-2]): Stopped(*row[-2:]) for row in self._read(_STOPPED, since=since_ms)}

    def would_have_stopped(self, limit: Limit, since_ms: int) -> int:
        """How many runs an observed limit would have stopped since then."""
        (row,) = self._read(
            _WATCHED,
            since=since_ms,
            s=limit.scope,
            i=limit.scope_id,
            w=limit.window,
            m=limit.measure,
        )
        return int(row[0])

    def ceilings_would_have_stopped(self, since_ms: int) -> int:
        """How many runs an observed ceiling of their own would have stopped since then."""
        (row,) = self._read(_WATCHED_RUNS, since=since_ms)
        return int(row[0])

    def note_pause(self, pause: Pause, patience_s: float) -> None:
        """Write down that we paused a job; a later pause of the same job replaces it."""
        with self._database.writing(patience_s) as connection:
            _NOTE_PAUSE.run(connection, **{n: getattr(pause, n) for n in _PAUSE_COLUMNS})

    def forget_pause(self, cron_job_id: str, patience_s: float) -> None:
        """The job is no longer ours to resume."""
        with self._database.writing(patience_s) as connection:
            _FORGET_PAUSE.run(connection, j=cron_job_id)

    def pauses(self) -> list[Pause]:
        """The jobs that we paused and have not resumed."""
        return [Pause(**_named(_PAUSE_COLUMNS, row)) for row in self._read(_PAUSES)]

    def _read(self, statement: Statement, **values: object) -> list[tuple[Any, ...]]:
        with self._database.reading() as connection:
            return statement.run(connection, **values).fetchall()


_KINDS: Final = {"scope": Scope, "window": Window, "measure": Measure}


def _named(columns: tuple[str, ...], row: tuple[Any, ...]) -> dict[str, Any]:
    return {
        name: _KINDS[name](value) if name in _KINDS else value
        for name, value in zip(columns, row, strict=True)
    }

"""Whatever is recorded in whatever order: totals equal their rows, and every call is one row.

Runs that begin anywhere in a tree, delegations before and after the spending and in circles, calls
reported again, totals that come into use in the middle: `verify` finds no difference, the tree of
every cron job is what it is charged with, and a second connection sees the same.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)

from budget_plugin.policy.charges import ScopeId, run_scopes
from budget_plugin.policy.events import Call, CostSource, Run
from budget_plugin.policy.limits import Scope
from budget_plugin.policy.windows import Window
from tests.ledgers import (
    CENT,
    GLOBAL,
    NOON,
    PATIENCE_S,
    a_call,
    a_run,
    assert_totals_equal_rows,
    delegate,
    open_ledger,
    record,
    rows,
    spent,
)

HOUR_MS = 3_600_000
IDS = st.sampled_from(["", "one", "two"])
SESSIONS = st.sampled_from(["s1", "s2", "s3", "s4"])
TIMES = st.integers(-30, 30).map(lambda hours: NOON + hours * HOUR_MS)
SCOPES = st.one_of(
    st.just(GLOBAL),
    st.tuples(
        st.sampled_from([s for s in Scope if s is not Scope.GLOBAL]),
        st.sampled_from(["one", "two"]),
    ),
)


class Recording(RuleBasedStateMachine):
    """One ledger, written to by several who do not know of one another."""

    runs = Bundle("runs")
    calls = Bundle("calls")

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self.ledger = open_ledger(Path(self._folder.name))
        self.fullest: dict[str, Call] = {}
        self.number = 0

    @initialize()
    def limits_are_in_force(self) -> None:
        for scope in Scope:
            for scope_id in ("",) if scope is Scope.GLOBAL else ("one", "two"):
                spent(self.ledger, (scope, scope_id), Window.MONTHLY)

    def teardown(self) -> None:
        self.ledger.database.close()
        self._folder.cleanup()

    def _next(self) -> int:
        self.number += 1
        return self.number

    @rule(target=runs, session=SESSIONS, job=IDS, sender=IDS, profile=IDS)
    def begin_run(self, session: str, job: str, sender: str, profile: str) -> Run:
        return a_run(
            f"run {self._next()}", session, cron_job_id=job, sender_id=sender, profile=profile
        )

    @rule(target=runs, session=SESSIONS, job=IDS)
    def begin_and_write_run(self, session: str, job: str) -> Run:
        run = a_run(f"run {self._next()}", session, cron_job_id=job)
        self.ledger.add_run(run, PATIENCE_S)
        return run

    @rule(parent=runs, child=SESSIONS)
    def delegate(self, parent: Run, child: str) -> None:
        delegate(self.ledger, parent, child)

    @rule(
        target=calls,
        run=runs,
        at_ms=TIMES,
        nanos=st.none() | st.integers(0, 500 * CENT),
        tokens=st.integers(0, 10_000),
        estimated=st.booleans(),
        model=IDS,
    )
    def call(self, run: Run, at_ms: int, nanos: int | None, tokens: int, **how: object) -> object:
        call = a_call(f"call {self._next()}", run, nanos, at_ms, tokens=tokens, **how)  # type: ignore[arg-type]
        record(self.ledger, call, run)
        self.fullest[call.attempt_id] = call
        return multiple((call, run))

    @rule(known=calls)
    def report_again(self, known: tuple[Call, Run]) -> None:
        record(self.ledger, *known)

    @rule(known=consumes(calls), run=runs, more=st.integers(1, 5_000), nanos=st.integers(0, CENT))
    def report_more(self, known: tuple[Call, Run], run: Run, more: int, nanos: int) -> None:
        call, first = known
        tokens = call.usage.total_tokens + more
        fuller = a_call(
            call.attempt_id,
            first,
            nanos,
            call.at_ms + HOUR_MS,
            tokens=tokens,
            source=CostSource.PROVIDER,
            model="two",
        )
        record(self.ledger, fuller, run)  # whoever reports it: the first run pays
        self.fullest[call.attempt_id] = fuller

    @rule(scope=SCOPES, window=st.sampled_from(list(Window)), at_ms=TIMES)
    def bring_a_total_into_use(self, scope: ScopeId, window: Window, at_ms: int) -> None:
        spent(self.ledger, scope, window, at_ms)

    @invariant()
    def totals_equal_rows(self) -> None:
        assert_totals_equal_rows(self.ledger)

    @invariant()
    def every_call_is_one_row_and_global_counts_them_all(self) -> None:
        assert rows(self.ledger) == [(len(self.fullest),)]
        total = spent(self.ledger, window=Window.TOTAL)
        assert total.calls == len(self.fullest)
        assert total.nanos == sum(call.cost.nanos or 0 for call in self.fullest.values())
        assert total.tokens == sum(call.usage.total_tokens for call in self.fullest.values())

    @invariant()
    def a_tree_is_charged_like_its_root(self) -> None:
        names = [row[0] for row in rows(self.ledger, "run_id", "runs")]
        for run in filter(None, map(self.ledger.run, map(str, names))):
            root = self.ledger.run(run.root_run_id)
            assert root is not None
            assert root.root_run_id == root.run_id
            assert run_scopes(run) == run_scopes(root)


Recording.TestCase.settings = settings(
    max_examples=50,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestRecording = Recording.TestCase

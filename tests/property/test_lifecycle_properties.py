"""No order of events gives two endings or none, or anything after the end."""

from dataclasses import astuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from budget_plugin.policy.runs.endings import Outcome, Status, TerminalState
from budget_plugin.policy.runs.lifecycle import (
    Asked,
    Converged,
    Delegated,
    Event,
    Exhausted,
    Finished,
    Life,
    Phase,
    Released,
    Resumed,
    Returned,
    Work,
    begin,
    step,
)
from budget_plugin.policy.runs.receipts import Receipt, from_json, to_json
from budget_plugin.policy.runs.run_budget import RunBudget
from budget_plugin.policy.runs.run_limits import Cause, OnExhausted, RunLimits

ending_causes = st.sampled_from([cause for cause in Cause if cause.ends_run])
finishes = st.builds(
    Finished,
    st.sampled_from(Outcome),
    st.none() | st.sampled_from(TerminalState),
    st.booleans(),
)
events = st.one_of(
    st.builds(Asked, st.sampled_from(Work)),
    st.builds(Delegated, st.integers(-1, 3)),
    st.builds(Returned, st.integers(-1, 3)),
    st.just(Converged()),
    st.builds(Exhausted, ending_causes),
    st.just(Resumed()),
    st.just(Released()),
    finishes,
)
modes = st.sampled_from(OnExhausted)


@pytest.mark.case("A54")
@given(modes, st.lists(events, max_size=30))
def test_at_most_one_ending_and_nothing_after_it(mode: OnExhausted, story: list[Event]) -> None:
    life = begin(mode)
    for event in story:
        done = step(life, event)
        if life.ending is not None:
            assert done.life is life
            assert not done.accepted
        assert done.accepted or (done.life == life and done.why)
        assert not (life.converging and not done.life.converging)
        assert life.exhausted is None or done.life.exhausted is life.exhausted
        assert done.life.open_delegations >= 0
        life = done.life


@given(modes, st.lists(events, max_size=30), finishes)
def test_every_run_that_is_let_go_of_has_an_ending(
    mode: OnExhausted, story: list[Event], last: Finished
) -> None:
    """However it went: the turn ends, and nobody goes on."""
    life = begin(mode)
    for event in (*story, last, Released()):
        life = step(life, event).life
    assert life.phase is Phase.ENDED
    assert life.ending is not None


@given(modes, st.lists(events, max_size=30))
def test_a_crash_closes_whatever_is_open_once(mode: OnExhausted, story: list[Event]) -> None:
    life = begin(mode)
    for event in story:
        life = step(life, event).life
    before = life.ending
    life = step(life, Finished(Outcome.CRASHED)).life
    assert life.ending is not None
    assert life.ending == before or (before is None and life.ending.cause == "crashed")
    assert step(life, Finished(Outcome.CRASHED)).life is life


@given(modes, st.lists(events, max_size=30))
def test_work_is_only_let_through_while_there_is_something_to_pay_it_with(
    mode: OnExhausted, story: list[Event]
) -> None:
    life = begin(mode)
    last_answers = undos = 0
    for event in story:
        done = step(life, event)
        if done.accepted and isinstance(event, Asked):
            assert life.phase in (Phase.RUNNING, Phase.CONVERGING, Phase.EXHAUSTED)
            finishing = event.work in (Work.LAST_ANSWER, Work.UNDO)
            assert finishing is (life.phase is Phase.EXHAUSTED)
            last_answers += event.work is Work.LAST_ANSWER
            undos += event.work is Work.UNDO
        life = done.life
    assert last_answers <= 1
    assert undos <= Life(undos_left=begin(mode).undos_left).undos_left


ceilings = st.none() | st.integers(0, 12)
limits_of_runs = st.builds(
    RunLimits,
    dispatches=ceilings,
    tool_calls=ceilings,
    tokens=st.none() | st.integers(0, 500),
    wall_clock_s=st.none() | st.integers(0, 60),
    cost_nanos=st.none() | st.integers(0, 500),
    context_pct=st.none() | st.sampled_from([0.0, 0.5, 0.7, 1.0]),
    retries_per_operation=ceilings,
    rejudges=ceilings,
    retriages=ceilings,
    batch=ceilings,
)
seconds = st.integers(0, 5)


class TreeOfRuns(RuleBasedStateMachine):
    """A ticket, its runs and their children, in any order of events and with any clock."""

    runs: Bundle[RunBudget] = Bundle("runs")

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.all: list[RunBudget] = []
        self.seen: dict[int, tuple[tuple[object, ...], bool, Cause | None]] = {}
        self.receipts: dict[int, Receipt] = {}

    def _added(self, budget: RunBudget) -> RunBudget:
        self.all.append(budget)
        return budget

    @initialize(target=runs, limits=limits_of_runs)
    def a_ticket(self, limits: RunLimits) -> RunBudget:
        return self._added(RunBudget.create(limits, 0.0, run_id="ticket"))

    @precondition(lambda self: len(self.all) < 8)
    @rule(target=runs, parent=runs, limits=limits_of_runs)
    def a_child(self, parent: RunBudget, limits: RunLimits) -> RunBudget:
        return self._added(parent.child(limits, self.now_s, run_id=str(len(self.all))))

    @rule(passed=seconds)
    def time_passes(self, passed: int) -> None:
        self.now_s += passed

    @rule(
        run=runs,
        hops=st.integers(0, 2),
        tools=st.integers(0, 2),
        tokens=st.integers(0, 90),
        nanos=st.none() | st.integers(0, 90),
        context=st.sampled_from([0.0, 0.3, 0.6, 0.9]),
    )
    def it_happened(
        self, run: RunBudget, hops: int, tools: int, tokens: int, nanos: int | None, context: float
    ) -> None:
        before = run.state
        cause = run.charge(
            self.now_s,
            hops=hops,
            tool_calls=tools,
            tokens=tokens,
            cost_nanos=nanos,
            context_pct=context,
        )
        if run.receipt is not None:
            assert run.state is before
            assert cause is not None

    @rule(run=runs, count=st.integers(0, 5))
    def it_dispatches(self, run: RunBudget, count: int) -> None:
        stopped, used = run.exhausted(self.now_s), run.state.used.dispatches
        refused = run.try_dispatch(count, self.now_s)
        self._accepted(run, stopped if count else None, refused is None)
        assert run.state.used.dispatches == used + (count if refused is None else 0)
        if refused is None and count:
            self._within(run, "dispatches")
        elif count and not run.exhausted(self.now_s):
            assert refused.fits < count
            assert refused.fits == 0 or run.try_dispatch(refused.fits, self.now_s) is None

    @rule(run=runs, retry_of=st.sampled_from(["", "a", "b"]))
    def it_calls_a_tool(self, run: RunBudget, retry_of: str) -> None:
        stopped, used = run.exhausted(self.now_s), run.state.used.tool_calls
        refused = run.try_tool_call(self.now_s, retry_of)
        self._accepted(run, stopped, refused is None)
        assert run.state.used.tool_calls == used + (refused is None)
        if refused is None:
            self._within(run, "tool_calls")

    @rule(run=runs, tokens=st.integers(0, 90), nanos=st.integers(0, 90))
    def it_calls_the_model(self, run: RunBudget, tokens: int, nanos: int) -> None:
        stopped = run.exhausted(self.now_s)
        refused = run.try_call(self.now_s, tokens, nanos)
        self._accepted(run, stopped, refused is None)
        if refused is None:
            run.charge(self.now_s, calls=1, tokens=tokens, cost_nanos=nanos)
            self._within(run, "tokens")
            self._within(run, "cost_nanos")

    @rule(run=runs, said=st.integers(-2, 14))
    def it_reports(self, run: RunBudget, said: int) -> None:
        run.report(self.now_s, critique_retries=said, rejudges=said, retriages=said)

    @rule(
        run=runs,
        outcome=st.sampled_from(Outcome),
        state=st.none() | st.sampled_from(TerminalState),
        gaps=st.lists(st.just("a gap"), max_size=1),
    )
    def it_ends(
        self, run: RunBudget, outcome: Outcome, state: TerminalState | None, gaps: list[str]
    ) -> None:
        stopped, ended = run.exhausted(self.now_s), run.receipt is not None
        receipt = run.resolve(self.now_s, outcome=outcome, state=state, gaps=gaps)
        first = self.receipts.setdefault(id(run), receipt)
        assert receipt is first
        assert from_json(to_json(receipt)) == receipt
        if receipt.ending.status is Status.COMPLETE:
            assert stopped is None or ended
        else:
            assert receipt.gaps
            assert receipt.next_owner

    def _accepted(self, run: RunBudget, stopped: Cause | None, granted: bool) -> None:
        assert not (granted and stopped is not None)
        assert not (granted and run.receipt is not None)

    def _within(self, run: RunBudget, field: str) -> None:
        """What was asked for first never passes a ceiling, here or further out."""
        for budget in run._chain:
            limit = getattr(budget.state.limits, field)
            assert limit is None or getattr(budget.state.used, field) <= limit

    @invariant()
    def counters_never_fall_and_nothing_turns_back(self) -> None:
        for run in self.all:
            run.exhausted(self.now_s)
            state = run.state
            counted = (*astuple(state.used), *(state.counts.get((c, ""), 0) for c in Cause))
            now = (counted, run.soft(self.now_s), state.cause)
            if (before := self.seen.get(id(run))) is not None:
                assert all(a <= b for a, b in zip(before[0], counted, strict=True))
                assert now[1] or not before[1]
                assert before[2] is None or now[2] is before[2]
            self.seen[id(run)] = now

    @invariant()
    def an_ending_stays(self) -> None:
        for run in self.all:
            assert run.receipt is self.receipts.get(id(run))


TestTreeOfRuns = TreeOfRuns.TestCase
TestTreeOfRuns.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)

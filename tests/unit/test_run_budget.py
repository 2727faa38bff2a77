"""The budget of one run: what it grants, what it refuses, what ends it."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import budget_plugin
from budget_plugin.policy.money import format_usd, parse_usd
from budget_plugin.policy.runs.endings import Outcome, Status, TerminalState
from budget_plugin.policy.runs.run_budget import RunBudget
from budget_plugin.policy.runs.run_limits import Cause, Meter, RunLimits, RunRules
from budget_plugin.policy.runs.run_state import RunUsage, near_misses, remaining
from budget_plugin.policy.runs.run_steps import (
    ask_dispatch,
    ask_tool_call,
    begun,
    extended,
    reported,
    spent,
)

REPO = Path(__file__).resolve().parents[2]


def a_run(start_s: float = 0.0, rules: RunRules | None = None, **limits: Any) -> RunBudget:
    return RunBudget.create(RunLimits(**limits), start_s, rules=rules)


# --- a run that went round in circles -----------------------------------------------------------

HOPS = 41
HOP_NANOS = parse_usd("0.941")  # 41 x $0.941 = $38.58
CALLS = 306
CALL_NANOS = parse_usd("38.58") // CALLS  # $0.126078
HOP_TOKENS = (6_920_000 + 159_000) // HOPS  # 172,658
HOP_S = (9 * 60 + 14) / HOPS  # 13.512 s


def transfers_until_it_ends(budget: RunBudget) -> tuple[int, Cause | None]:
    for hop in range(1, HOPS + 1):
        cause = budget.charge(hop * HOP_S, hops=1, tokens=HOP_TOKENS, cost_nanos=HOP_NANOS)
        if cause is not None:
            return hop, cause
    return HOPS, None


@pytest.mark.parametrize(
    ("limits", "hop", "cause", "spent"),
    [
        ({}, 41, None, "$38.58"),
        ({"dispatches": 14}, 14, Cause.HOPS, "$13.17"),  # 14 x 0.941 = 13.174
        ({"cost_nanos": parse_usd("4.00")}, 5, Cause.SPEND, "$4.70"),  # 4 x = 3.764, 5 x = 4.705
        ({"tokens": 400_000}, 3, Cause.TOKENS, "$2.82"),  # 2 x = 345,316; the stop is at 360,000
        ({"wall_clock_s": 180}, 14, Cause.DEADLINE, "$13.17"),  # 13 x = 175.7 s, 14 x = 189.2 s
        (
            {
                "dispatches": 14,
                "tokens": 400_000,
                "cost_nanos": parse_usd("4.00"),
                "wall_clock_s": 180,
            },
            3,
            Cause.TOKENS,
            "$2.82",
        ),
    ],
)
def test_a_loop_of_41_transfers_ends_where_the_arithmetic_says(
    limits: dict[str, Any], hop: int, cause: Cause | None, spent: str
) -> None:
    budget = a_run(**limits)
    assert transfers_until_it_ends(budget) == (hop, cause)
    assert format_usd(budget.state.used.cost_nanos) == spent
    receipt = budget.resolve(hop * HOP_S)
    assert receipt.ending.cause == (cause or "answered")


def test_checked_before_each_call_the_same_loop_stays_under_its_dollars() -> None:
    """31 x $0.126078 = $3.908 fits under $4.00, 32 x = $4.034 does not."""
    budget = a_run(cost_nanos=parse_usd("4.00"))
    made = 0
    while made < CALLS and budget.try_call(0.0, cost_nanos=CALL_NANOS) is None:
        budget.charge(0.0, calls=1, cost_nanos=CALL_NANOS)
        made += 1
    assert made == 31
    assert format_usd(budget.state.used.cost_nanos) == "$3.90"
    assert budget.exhausted(0.0) is Cause.SPEND
    assert budget.state.used.calls == 31


def test_a_call_whose_tokens_pass_the_stop_is_not_made() -> None:
    budget = a_run(tokens=1000)  # stops at 900
    budget.charge(0.0, tokens=800)
    assert budget.try_call(0.0, tokens=100) is None
    refused = budget.try_call(0.0, tokens=101)
    assert refused is not None
    assert refused.cause is Cause.TOKENS


# --- charge, then check; ask, then start --------------------------------------------------------


def test_a_hop_budget_of_14_ends_the_run_at_its_14th_transfer() -> None:
    budget = a_run(dispatches=14)
    causes = [budget.charge(0.0, hops=1) for _ in range(14)]
    assert causes == [None] * 13 + [Cause.HOPS]


def test_a_ceiling_of_8_dispatches_allows_eight_and_refuses_the_ninth() -> None:
    budget = a_run(dispatches=8)
    assert [budget.try_dispatch(1, 0.0) for _ in range(8)] == [None] * 8
    budget.charge(0.0, calls=1, tokens=10)
    assert budget.exhausted(0.0) is None  # eight of eight is no end yet
    ninth = budget.try_dispatch(1, 0.0)
    assert str(ninth) == "The hop budget of 8 is reached. Escalate, do not spin."
    assert budget.exhausted(0.0) is Cause.HOPS
    assert budget.state.used.dispatches == 8


@pytest.mark.parametrize(
    ("charge", "cause"),
    [
        ({"hops": 2, "tokens": 9, "cost_nanos": 9, "tool_calls": 9, "context_pct": 1}, Cause.HOPS),
        ({"tokens": 9, "cost_nanos": 9, "tool_calls": 9, "context_pct": 1}, Cause.TOKENS),
        ({"cost_nanos": 9, "tool_calls": 9, "context_pct": 1}, Cause.SPEND),
        ({"tool_calls": 9, "context_pct": 1}, Cause.DEADLINE),
    ],
)
def test_of_several_that_are_spent_at_once_the_first_in_order_is_the_cause(
    charge: dict[str, Any], cause: Cause
) -> None:
    limits = {"dispatches": 2, "tokens": 9, "cost_nanos": 9, "tool_calls": 9, "wall_clock_s": 5}
    assert a_run(**limits, context_pct=0.7).charge(5.0, **charge) is cause
    assert a_run(**limits, context_pct=0.7).charge(4.9, tool_calls=9) is Cause.TOOL_CALLS
    assert a_run(**limits, context_pct=0.7).charge(4.9, context_pct=0.7) is Cause.CONTEXT


def test_the_first_cause_stays_and_later_charges_still_count() -> None:
    budget = a_run(tokens=100, cost_nanos=50)
    assert budget.charge(0.0, tokens=100) is Cause.TOKENS
    assert budget.charge(0.0, cost_nanos=60) is Cause.TOKENS
    assert budget.state.used == RunUsage(tokens=100, cost_nanos=60)


@pytest.mark.parametrize("meter", ["tokens", "cost_nanos", "wall_clock_s", "context_pct"])
def test_zero_of_a_measured_budget_allows_nothing(meter: str) -> None:
    budget = a_run(**{meter: 0})
    assert budget.exhausted(0.0) is not None
    assert budget.try_tool_call(0.0) is not None
    assert budget.try_call(0.0) is not None


def test_zero_dispatches_or_tools_refuse_those_and_end_nothing() -> None:
    budget = a_run(dispatches=0, tool_calls=0)
    assert str(budget.try_dispatch(1, 0.0)) == (
        "The hop budget allows nothing here. Go on without it, or escalate."
    )
    assert budget.try_tool_call(0.0) is not None
    assert budget.exhausted(0.0) is None
    assert not budget.soft(0.0)  # what was never allowed does not run low
    assert budget.resolve(0.0).ending.status is Status.COMPLETE


def test_without_limits_nothing_ends() -> None:
    budget = a_run()
    assert (
        budget.charge(1e9, hops=10**6, tool_calls=10**6, tokens=10**12, cost_nanos=10**15) is None
    )
    assert budget.try_dispatch(10**6, 1e9) is None
    assert not budget.soft(1e9)


@pytest.mark.parametrize(
    "charge",
    [
        {"hops": -1},
        {"tool_calls": -1},
        {"calls": -1},
        {"tokens": -1},
        {"cost_nanos": -1},
        {"context_pct": -0.1},
        {"context_pct": float("nan")},
    ],
)
def test_nothing_is_ever_given_back(charge: dict[str, Any]) -> None:
    budget = a_run(tokens=100)
    with pytest.raises(ValueError, match="never negative"):
        budget.charge(0.0, **charge)
    assert budget.state.used == RunUsage()


def test_a_call_whose_price_nobody_knows_is_not_counted_as_free() -> None:
    budget = a_run(cost_nanos=100)
    budget.charge(0.0, calls=2, cost_nanos=None)
    budget.charge(0.0, cost_nanos=None)
    assert budget.state.used.unpriced_calls == 3
    assert budget.resolve(0.0).unpriced_calls == 3


# --- batches ------------------------------------------------------------------------------------


@pytest.mark.case("A35")
def test_a_batch_that_does_not_fit_is_refused_whole_and_told_what_fits() -> None:
    budget = a_run(dispatches=8)
    assert budget.try_dispatch(4, 0.0) is None
    six = budget.try_dispatch(6, 0.0)
    assert six is not None
    assert (six.cause, six.asked, six.fits) == (Cause.HOPS, 6, 4)
    assert str(six) == "hop budget: 6 do not fit, 4 would; nothing was started."
    assert budget.remaining(0.0).dispatches == 4
    assert budget.exhausted(0.0) is None
    assert budget.try_dispatch(0, 0.0) is None  # to list them costs nothing
    assert budget.try_dispatch(4, 0.0) is None
    assert budget.remaining(0.0).dispatches == 0


@pytest.mark.parametrize(
    ("count", "left", "phases", "fits"),
    [
        (25, None, None, 0),
        (26, None, (25, 1), 25),
        (60, None, (25, 25, 10), 25),  # 60 = 25 + 25 + 10
        (60, 100, (25, 25, 10), 25),
        (60, 40, (), 25),  # 40 are left, and a batch is 25
        (60, 10, (), 10),
    ],
)
def test_a_batch_that_is_only_too_large_is_to_be_split(
    count: int, left: int | None, phases: tuple[int, ...] | None, fits: int
) -> None:
    budget = a_run(batch=25, dispatches=left)
    refused = budget.try_dispatch(count, 0.0)
    if phases is None:
        assert refused is None
        return
    assert refused is not None
    assert (refused.phases, refused.fits) == (phases, fits)
    assert budget.state.used.dispatches == 0
    assert budget.exhausted(0.0) is None


def test_the_phases_of_a_split_are_said() -> None:
    assert str(a_run(batch=25).try_dispatch(60, 0.0)) == (
        "60 at once are more than the batch size of 25; nothing was started. Split them into 3 "
        "phases of at most 25, and report the split."
    )


@pytest.fixture
def restless_threads() -> Iterator[None]:
    """Threads take turns a thousand times as often: a gap between look and count is found."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.case("A34")
@pytest.mark.usefixtures("restless_threads")
@pytest.mark.parametrize("tree", [False, True], ids=["one run", "children of one run"])
def test_of_calls_at_the_same_moment_exactly_as_many_pass_as_are_left(tree: bool) -> None:
    for _ in range(20):
        root = a_run(tool_calls=200)
        runs = [root.child(RunLimits(), 0.0) if tree else root for _ in range(3)]
        start = threading.Barrier(3)

        def call(run: RunBudget, start: threading.Barrier = start) -> int:
            start.wait()
            return sum(run.try_tool_call(0.0) is None for _ in range(100))

        with ThreadPoolExecutor(3) as pool:
            assert sum(pool.map(call, runs)) == 200  # of 300
        assert root.state.used.tool_calls == 200


# --- trees and tickets --------------------------------------------------------------------------


def test_a_tree_that_wants_39_starts_exactly_10_under_a_limit_of_10() -> None:
    """Three children each, three levels deep: 3 + 9 + 27 = 39."""
    root = a_run(dispatches=10)
    started = wanted = 0
    level = [root]
    for _ in range(3):
        following = []
        for parent in level:
            for _ in range(3):
                wanted += 1
                if parent.try_dispatch(1, 0.0) is None:
                    started += 1
                following.append(parent.child(RunLimits(), 0.0))
        level = following
    assert (wanted, started) == (39, 10)
    assert root.state.used.dispatches == 10


@pytest.mark.parametrize(
    ("own", "root", "granted", "refused_by"),
    [(20, 40, 20, "own"), (40, 20, 20, "root"), (None, 5, 5, "root"), (5, None, 5, "own")],
)
def test_the_stricter_of_child_and_root_wins(
    own: int | None, root: int | None, granted: int, refused_by: str
) -> None:
    parent = a_run(tool_calls=root)
    child = parent.child(RunLimits(tool_calls=own), 0.0)
    tries = [child.try_tool_call(0.0) for _ in range(50)]
    assert tries.count(None) == granted
    assert child.exhausted(0.0) is Cause.TOOL_CALLS
    assert parent.exhausted(0.0) is (Cause.TOOL_CALLS if refused_by == "root" else None)
    assert parent.state.used.tool_calls == granted  # what was refused was charged nowhere


def test_a_ticket_that_is_split_into_five_runs_shares_one_ceiling() -> None:
    ticket = a_run(dispatches=8, retriages=2)
    granted = 0
    for _ in range(5):
        run = RunBudget.create(RunLimits(dispatches=8), 0.0, outer=ticket)
        granted += sum(run.try_dispatch(1, 0.0) is None for _ in range(3))
    assert granted == 8  # 3 + 3 + 2, not 15
    late = RunBudget.create(RunLimits(dispatches=8), 0.0, outer=ticket)
    assert late.exhausted(0.0) is Cause.HOPS
    assert late.resolve(0.0).ending.state is TerminalState.ESCALATED_TO_HUMAN


def test_what_a_model_counts_is_bound_by_the_ticket_too() -> None:
    ticket = a_run(retriages=2)
    first = RunBudget.create(RunLimits(), 0.0, outer=ticket)
    second = RunBudget.create(RunLimits(), 0.0, outer=ticket)
    assert first.report(0.0, retriages=2) is None
    assert second.report(0.0, retriages=1) is Cause.RETRIAGES  # 2 + 1 = 3 of 2


def test_a_child_is_told_the_seconds_that_are_left_and_has_no_deadline_of_its_own() -> None:
    root = a_run(100.0, wall_clock_s=180)
    child = root.child(RunLimits(wall_clock_s=900), 269.0)
    assert child.seconds_left(269.0) == 11.0  # 100 + 180 - 269
    assert "- time: 11 s of 180 s left" in child.render(269.0)
    assert child.try_tool_call(279.9) is None
    refused = child.try_tool_call(280.0)
    assert refused is not None
    assert refused.cause is Cause.DEADLINE


def test_a_conversation_fills_its_own_window_only() -> None:
    root = a_run(context_pct=0.7)
    child = root.child(RunLimits(context_pct=0.7), 0.0)
    assert child.charge(0.0, tokens=5, context_pct=0.9) is Cause.CONTEXT
    assert root.exhausted(0.0) is None
    assert root.state.used.tokens == 5


def test_the_fullest_prompt_is_kept_though_a_later_one_is_smaller() -> None:
    budget = a_run(context_pct=0.7)
    budget.charge(0.0, context_pct=0.5)
    budget.charge(0.0, context_pct=0.2)
    assert budget.state.used.context_pct == 0.5


def test_what_is_left_is_the_outer_bound_of_a_child() -> None:
    state = begun(RunLimits(tokens=1000, wall_clock_s=60, context_pct=0.7, tool_calls=9), 0.0)
    state, _ = ask_tool_call(state, 20.0)
    left = remaining(state, 20.0)
    assert (left.tokens, left.wall_clock_s, left.tool_calls) == (900, 40.0, 8)  # stops at 900
    assert left.context_pct == 0.7  # a share of each prompt is not handed out in parts
    assert left.cost_nanos is None


# --- time ---------------------------------------------------------------------------------------


@pytest.mark.case("A55")
def test_a_slow_stream_does_not_move_the_deadline() -> None:
    """A chunk every 20 s for 45 minutes: 135 signs of life, and 2,700 s of 1,800."""
    budget = a_run(50.0, wall_clock_s=1800)
    for chunk in range(1, 136):
        budget.charge(50.0 + 20 * chunk, tokens=1)
    refused = budget.try_tool_call(50.0 + 2700)
    assert str(refused) == "The wall-clock deadline is reached. Escalate, do not spin."
    assert budget.resolve(50.0 + 2700).ending.cause == "wall-clock deadline"


def test_a_passed_deadline_stays_passed() -> None:
    budget = a_run(0.0, wall_clock_s=10)
    assert budget.exhausted(10.0) is Cause.DEADLINE
    assert budget.exhausted(3.0) is Cause.DEADLINE  # a thread that looked at its clock earlier


def test_nothing_is_used_before_the_start() -> None:
    budget = a_run(10.0, wall_clock_s=5)
    assert budget.remaining(9.0).wall_clock_s == 5


# --- converging ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "below", "at"),
    [
        ({"dispatches": 14}, {"hops": 9}, {"hops": 10}),  # 0.7 x 14 = 9.8
        ({"tool_calls": 40}, {"tool_calls": 27}, {"tool_calls": 28}),  # 0.7 x 40 = 28
        ({"tokens": 400_000}, {"tokens": 279_999}, {"tokens": 280_000}),
        ({"cost_nanos": 4 * 10**9}, {"cost_nanos": 28 * 10**8 - 1}, {"cost_nanos": 28 * 10**8}),
        ({"context_pct": 0.70}, {"context_pct": 0.48}, {"context_pct": 0.49}),  # 0.7 x 0.7
    ],
)
def test_a_run_converges_from_70_percent_of_any_one_budget_on(
    limits: dict[str, Any], below: dict[str, Any], at: dict[str, Any]
) -> None:
    early, late = a_run(**limits), a_run(**limits)
    assert (early.charge(0.0, **below), late.charge(0.0, **at)) == (None, None)
    assert (early.soft(0.0), late.soft(0.0)) == (False, True)


def test_time_alone_makes_a_run_converge_and_there_is_no_way_back() -> None:
    budget = a_run(0.0, wall_clock_s=180)
    assert [budget.soft(now_s) for now_s in (125.9, 126.0, 1.0)] == [False, True, True]


def test_a_child_converges_with_its_root() -> None:
    root = a_run(tokens=1000)
    child = root.child(RunLimits(tokens=10**6), 0.0)
    child.charge(0.0, tokens=700)
    assert child.soft(0.0)
    assert root.soft(0.0)
    assert not child.state.converging  # by its own numbers it would not


def test_with_continuation_the_tokens_converge_where_it_stops_to_continue() -> None:
    budget = a_run(
        rules=RunRules(continuation=True, token_stop_pct=0.9), tokens=1000, tool_calls=10
    )
    budget.charge(0.0, tokens=899)
    assert not budget.soft(0.0)
    budget.charge(0.0, tool_calls=7)
    assert budget.soft(0.0)  # the other budgets keep their 70 %


@pytest.mark.parametrize(("tokens", "cause"), [(359_999, None), (360_000, Cause.TOKENS)])
def test_a_run_stops_at_90_percent_of_its_tokens(tokens: int, cause: Cause | None) -> None:
    assert a_run(tokens=400_000).charge(0.0, tokens=tokens) is cause


@pytest.mark.parametrize(
    ("limits", "charge", "near"),
    [
        ({"tool_calls": 40}, {"tool_calls": 37}, ()),
        ({"tool_calls": 40}, {"tool_calls": 38}, (Meter.TOOL_CALLS,)),  # 38 / 40 = 95 %
        ({"tokens": 1000}, {"tokens": 854}, ()),
        ({"tokens": 1000}, {"tokens": 855}, (Meter.TOKENS,)),  # 95 % of the stop at 900
        ({"tool_calls": 0}, {}, ()),
        ({}, {"tokens": 10**9}, ()),
    ],
)
def test_a_near_miss_stands_out(
    limits: dict[str, Any], charge: dict[str, Any], near: tuple[Meter, ...]
) -> None:
    budget = a_run(**limits)
    budget.charge(0.0, **charge)
    assert budget.near_misses(0.0) == near == near_misses(budget.state, 0.0)


def test_checkpoints_follow_the_meter_that_is_used_most() -> None:
    budget = a_run(tool_calls=40, tokens=1000, wall_clock_s=100)
    budget.charge(60.0, tool_calls=10, tokens=300)
    assert (budget.most_used(60.0).meter, budget.most_used(60.0).share) == (Meter.WALL_CLOCK_S, 0.6)


# --- steps --------------------------------------------------------------------------------------


def test_an_operation_is_retried_three_times_and_each_is_a_tool_call() -> None:
    budget = a_run(tool_calls=40)
    assert budget.try_tool_call(0.0) is None
    retries = [budget.try_tool_call(0.0, retry_of="fetch a") for _ in range(4)]
    assert retries[:3] == [None] * 3
    assert str(retries[3]) == (
        "This operation was retried 3 times. Change the approach or escalate, do not spin."
    )
    assert budget.try_tool_call(0.0, retry_of="fetch b") is None
    assert budget.state.used.tool_calls == 5  # 1 + 3 + 1; the refused one is none
    assert budget.exhausted(0.0) is None


def test_each_child_has_retries_of_its_own() -> None:
    root = a_run()
    for child in (root.child(RunLimits(), 0.0), root.child(RunLimits(), 0.0)):
        retries = [child.try_tool_call(0.0, retry_of="fetch a") for _ in range(4)]
        assert retries.count(None) == 3
    assert root.state.used.tool_calls == 6


def test_a_retry_that_the_root_refuses_is_not_counted_as_one() -> None:
    root = a_run(tool_calls=0)
    child = root.child(RunLimits(), 0.0)
    assert child.try_tool_call(0.0, retry_of="fetch a") is not None
    assert child.state.counts == {}


def test_a_spent_critique_sends_the_draft_on_and_ends_nothing() -> None:
    budget = a_run(critique_retries=1)
    assert budget.try_critique(0.0, "refunds") is None
    refused = budget.try_critique(0.0, "refunds")
    assert str(refused) == "The critique retries are spent: the draft goes on as it is."
    assert budget.try_critique(0.0, "billing") is None  # each head has its own
    assert budget.exhausted(0.0) is None


def test_spent_rejudges_and_retriages_end_the_run() -> None:
    judged, sorted_ = a_run(rejudges=2), a_run(retriages=2)
    assert [judged.try_rejudge(0.0) for _ in range(2)] == [None, None]
    assert [sorted_.try_retriage(0.0) for _ in range(2)] == [None, None]
    assert judged.exhausted(0.0) is sorted_.exhausted(0.0) is None
    assert str(judged.try_rejudge(0.0)) == (
        "The re-judge budget of 2 is reached. Escalate, do not spin."
    )
    assert sorted_.try_retriage(0.0) is not None
    ending = judged.resolve(0.0).ending
    assert (ending.state, ending.trigger) == (TerminalState.ESCALATED_TO_HUMAN, "low confidence")
    assert sorted_.exhausted(0.0) is Cause.RETRIAGES


# --- authority ----------------------------------------------------------------------------------


def test_what_a_model_reports_can_only_add() -> None:
    budget = a_run(rejudges=3)
    for said, counted in ((2, 2), (0, 2), (-5, 2), (1, 2), (3, 3), (2, 3)):
        assert budget.report(0.0, rejudges=said) is None
        assert budget.state.counts[Cause.REJUDGES, ""] == counted
    assert budget.report(0.0, rejudges=4) is Cause.REJUDGES
    assert budget.report(0.0, rejudges=0) is Cause.REJUDGES


def test_a_smaller_report_gives_the_same_state() -> None:
    state = reported(begun(RunLimits(), 0.0), Cause.RETRIAGES, 2, 0.0)
    for said in (-1, 0, 1, 2):
        assert reported(state, Cause.RETRIAGES, said, 0.0) is state


def test_reported_and_seen_steps_are_one_count() -> None:
    budget = a_run(critique_retries=3)
    assert budget.try_critique(0.0, "billing") is None
    budget.report(0.0, critique_retries=3, head="billing")
    assert budget.try_critique(0.0, "billing") is not None


@pytest.mark.parametrize(
    "written",
    [
        "hops left: 11",  # copied from an earlier hop's prompt, three times
        "hops left: 9",
        "hops left: 13",
        "hops left: 20",  # larger than it had ever been given
    ],
)
def test_a_budget_that_a_model_wrote_into_its_handover_changes_nothing(written: str) -> None:
    budget = a_run(dispatches=14)
    for _ in range(6):
        budget.charge(0.0, hops=1)
    handover = {"goal": "refund", "budget": written}
    handover["budget"] = budget.render(0.0)  # one way, at every transfer
    assert "- dispatches: 8 of 14 left" in handover["budget"]
    assert written not in handover["budget"]
    assert budget.remaining(0.0).dispatches == 8


def test_a_snapshot_stays_as_it_was() -> None:
    budget = a_run(tokens=100)
    before = budget.state
    budget.charge(0.0, tokens=50)
    assert (before.used.tokens, budget.state.used.tokens) == (0, 50)


# --- what a model reads -------------------------------------------------------------------------


def test_a_model_reads_what_is_left_and_when_to_stop() -> None:
    budget = a_run(
        dispatches=8,
        tokens=400_000,
        cost_nanos=parse_usd("4.00"),
        wall_clock_s=180,
        tool_calls=40,
        context_pct=0.70,
    )
    assert budget.try_dispatch(2, 0.0) is None
    budget.charge(30.0, tokens=100_000, cost_nanos=parse_usd("1.25"), context_pct=0.2)
    text = budget.render(
        30.0, stop_when=["the refund is issued"], usual={Meter.DISPATCHES: "3 to 4"}
    )
    assert text.splitlines() == [
        "Budget of this run:",
        "- dispatches: 6 of 8 left (8 at most, usually 3 to 4)",
        "- tokens: 260,000 of 400,000 left, since the run stops before the end",  # stop: 360,000
        "- cost: $2.75 of $4.00 left",
        "- time: 150 s of 180 s left",
        "- tool calls: 40 of 40 left",
        "- context: 20 % of the window filled, 70 % at most",
        "Stop as soon as:",
        "- the refund is issued",
        "- one of these budgets is spent",
    ]


def test_a_model_is_told_once_it_runs_low_and_once_it_ran_out() -> None:
    budget = a_run(dispatches=10)
    for _ in range(7):
        budget.charge(0.0, hops=1)
    low = budget.render(0.0).splitlines()[-1]
    assert low.startswith("The budget runs low. Finish rather than hand on")
    assert "gaps named" in low
    for _ in range(3):
        budget.charge(0.0, hops=1)
    out = budget.render(0.0)
    assert out.splitlines()[-1].startswith("The hop budget is spent. Start nothing.")
    assert "runs low" not in out
    assert "extend" not in out


def test_a_run_without_limits_says_so() -> None:
    assert a_run().render(0.0) == "This run has no budget of its own."


# --- the end ------------------------------------------------------------------------------------


@pytest.mark.case("A54")
def test_a_run_that_ran_out_is_not_done_because_it_says_so_and_ends_once() -> None:
    budget = a_run(cost_nanos=parse_usd("1.00"))
    budget.charge(0.0, cost_nanos=parse_usd("1.00"))
    first = budget.resolve(1.0, state=TerminalState.RESOLVED, delivered=["All done!"])
    assert (first.ending.state, first.ending.cause, first.ending.status) == (
        TerminalState.ESCALATED_TO_HUMAN,
        "spend budget",
        Status.PARTIAL,
    )
    assert first.gaps == ("not said; the run ended by: spend budget",)
    assert first.next_owner == "human"
    assert budget.resolve(2.0) is first
    assert budget.resolve(3.0, outcome=Outcome.CRASHED) is first


def test_after_the_end_nothing_starts_nothing_counts_and_it_is_said() -> None:
    root = a_run(tokens=1000)
    run = root.child(RunLimits(tool_calls=5), 0.0)
    receipt = run.resolve(1.0, delivered=["the list"])
    before = run.state
    for refused in (
        run.try_dispatch(1, 2.0),
        run.try_tool_call(2.0),
        run.try_call(2.0),
        run.try_critique(2.0),
        run.try_rejudge(2.0),
        run.try_retriage(2.0),
    ):
        assert str(refused) == "This run has ended. New work is a new run."
    assert run.charge(2.0, tokens=300) is Cause.ENDED
    assert run.report(2.0, retriages=9) is Cause.ENDED
    assert run.exhausted(2.0) is Cause.ENDED
    assert run.state is before
    assert run.receipt is receipt
    assert root.state.used.tokens == 300  # money that arrives late is still the tree's


@pytest.mark.parametrize(
    ("outcome", "charge", "go_on"),
    [
        (Outcome.ANSWERED, 0, True),
        (Outcome.INTERRUPTED, 0, True),
        (Outcome.ANSWERED, 10, False),  # 10 of 10 tool calls charged: it ran out
        (Outcome.LOOPED, 0, False),
        (Outcome.STUCK, 0, False),
    ],
)
def test_children_go_on_after_their_parent_unless_it_was_stopped(
    outcome: Outcome, charge: int, go_on: bool
) -> None:
    parent = a_run(tool_calls=10)
    child = parent.child(RunLimits(), 0.0)
    parent.charge(1.0, tool_calls=charge)
    parent.resolve(1.0, outcome=outcome)
    assert (child.try_tool_call(2.0) is None) is go_on


# --- more, granted by a person ------------------------------------------------------------------


def test_a_linked_run_may_use_exactly_what_was_granted() -> None:
    state = begun(RunLimits(tool_calls=2, wall_clock_s=60), 0.0)
    for _ in range(3):
        state, refused = ask_tool_call(state, 50.0)
    assert refused is not None
    linked = extended(state, {Meter.TOOL_CALLS: 20}, 9000.0)
    assert linked.cause is None
    assert linked.converging
    assert linked.used == state.used
    assert remaining(linked, 9000.0).tool_calls == 20
    assert remaining(linked, 9000.0).wall_clock_s == 10  # the wait of 8,950 s is not the run's
    granted = 0
    while True:
        linked, refused = ask_tool_call(linked, 9000.0)
        if refused is not None:
            break
        granted += 1
    assert granted == 20


@pytest.mark.parametrize("used", [360_000, 361_007, 418_999])
@pytest.mark.parametrize("more", [1, 7, 50_000])
def test_granted_tokens_are_all_usable_though_a_run_stops_before_its_limit(
    used: int, more: int
) -> None:
    budget = a_run(tokens=400_000)
    budget.charge(0.0, tokens=used)
    linked = extended(budget.state, {Meter.TOKENS: more}, 0.0)
    assert linked.cause is None
    assert remaining(linked, 0.0).tokens == more


def test_a_grant_of_something_else_does_not_lift_what_is_spent() -> None:
    budget = a_run(tokens=100, tool_calls=5)
    budget.charge(0.0, tokens=100)
    assert extended(budget.state, {Meter.TOOL_CALLS: 5}, 0.0).cause is Cause.TOKENS


def test_a_ticket_goes_on_from_what_its_earlier_runs_used() -> None:
    used = RunUsage(dispatches=6)
    ticket = begun(RunLimits(dispatches=8, wall_clock_s=100), 5000.0, used=used, elapsed_s=90.0)
    assert remaining(ticket, 5000.0).wall_clock_s == 10
    ticket, refused = ask_dispatch(ticket, 3, 5000.0)
    assert refused is not None
    assert refused.fits == 2


def test_a_gate_may_say_that_something_is_spent() -> None:
    state = spent(begun(RunLimits(), 0.0), Cause.WINDOW, 4.0)
    assert (state.cause, state.spent_at_s, state.converging) == (Cause.WINDOW, 4.0, True)
    assert spent(state, Cause.SPEND, 5.0) is state


# --- the public name ----------------------------------------------------------------------------


def test_the_public_names_are_those_of_the_policy() -> None:
    assert budget_plugin.RunBudget is RunBudget
    assert budget_plugin.RunLimits is RunLimits
    for name in budget_plugin.__all__:
        assert getattr(budget_plugin, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'RunBudgets'"):
        _ = budget_plugin.RunBudgets


def test_importing_the_package_loads_none_of_it() -> None:
    asked = "import sys, budget_plugin; print([m for m in sys.modules if 'budget_plugin.' in m])"
    done = subprocess.run(
        [sys.executable, "-c", asked], capture_output=True, text=True, cwd=REPO, check=True
    )
    assert done.stdout.strip() == "[]"

"""Bounded runs through the engine: exact ceilings, last answers, one ending, one receipt."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from budget_plugin.engine.engine import Engine
from budget_plugin.engine.live_runs import LiveRun, Origin
from budget_plugin.policy.admission import Kind
from budget_plugin.policy.prices.usage import read_usage
from budget_plugin.policy.runs.endings import Status, TerminalState
from budget_plugin.policy.runs.receipts import Receipt
from budget_plugin.policy.runs.refusals import Refusal
from budget_plugin.policy.runs.run_limits import Cause, Meter
from budget_plugin.store.run_records import EndedRun
from budget_plugin.testing import FakeClock, make_engine, make_run
from tests.billing import NOON, PRICES, ask, bill, counts, opened, run_in, usd


def receipts(engine: Engine) -> list[EndedRun]:
    assert engine.recorder.flush(60)
    return engine.run_records.latest(100)


def receipt(engine: Engine) -> Receipt:
    """The only receipt."""
    (ended,) = receipts(engine)
    return ended.receipt


def tool(engine: Engine, live: LiveRun, name: str = "terminal", **args: Any) -> Refusal | None:
    return engine.guard.try_tool(live, name, args)


def delegate(engine: Engine, live: LiveRun, count: int) -> Refusal | None:
    return engine.guard.try_tool(live, "delegate_task", {}, count)


def child_of(engine: Engine, parent: LiveRun, name: str) -> LiveRun:
    engine.delegated(parent, name, "")
    return run_in(engine, session_id=name, kind="child")


def runs(limits: str, **more: str) -> str:
    rest = "".join(f"\n  {key}: {value}" for key, value in more.items())
    return f"runs:\n  default: {{{limits}}}{rest}\n"


# ------------------------------------------------------------------------- tool calls


@pytest.mark.case("A34")
def test_of_three_tool_calls_at_once_two_start(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 2")) as engine:
        live = run_in(engine)
        gate, answers = threading.Barrier(3), []

        def call() -> None:
            gate.wait()
            answers.append(tool(engine, live))

        threads = [threading.Thread(target=call) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(answer is None for answer in answers) == [False, True, True]
        (refused,) = [answer for answer in answers if answer is not None]
        assert (refused.cause, refused.limit) == (Cause.TOOL_CALLS, 2)
        assert "do not spin" in str(refused)


def test_a_run_stops_at_exactly_its_tool_calls_and_is_partial(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 5")) as engine:
        live = run_in(engine)
        assert [tool(engine, live) is None for _ in range(8)] == [True] * 5 + [False] * 3
        last, _ = ask(engine, live)
        assert (last.refused, last.stop and last.stop.cause) == (False, Cause.TOOL_CALLS)
        assert ask(engine, live)[0].refused
        engine.end_run(live, "completed")
        end = receipt(engine)
        assert end.used(Meter.TOOL_CALLS) == 5
        assert (end.ending.state, end.ending.cause) == (
            TerminalState.ESCALATED_TO_HUMAN,
            Cause.TOOL_CALLS,
        )
        assert end.is_partial
        assert end.next_owner == "human"


def test_a_refusal_is_written_down_once_with_the_number(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 1")) as engine:
        live = run_in(engine)
        for _ in range(4):
            tool(engine, live)
        assert engine.recorder.flush(60)
        (reason,) = engine.run_records.reasons(live.run.run_id)
        assert (reason.gate, reason.measure, reason.action) == ("tool", "tool_calls", "refused")
        assert "tool-call budget of 1 is reached" in reason.detail


def test_the_same_on_the_same_target_after_a_failure_is_a_retry(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 40", retries_per_operation="2")) as engine:
        live = run_in(engine)
        got = []
        for _ in range(5):
            got.append(tool(engine, live, "read_file", path="a.txt"))
            engine.guard.tool_ended(live, "read_file", {"path": "a.txt"}, failed=True)
        assert [refused is None for refused in got] == [True, True, True, False, False]
        assert got[-1] is not None
        assert got[-1].cause is Cause.RETRIES
        # Another target is another operation, and the run goes on.
        assert tool(engine, live, "read_file", path="b.txt") is None
        assert not ask(engine, live)[0].refused


def test_a_success_makes_the_next_call_no_retry(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 40", retries_per_operation="1")) as engine:
        live = run_in(engine)
        for failed in (True, False, True, False, True, False):
            assert tool(engine, live, "read_file", path="a.txt") is None or not failed
            engine.guard.tool_ended(live, "read_file", {"path": "a.txt"}, failed=failed)
        engine.end_run(live, "completed")
        assert receipt(engine).steps["retries_per_operation"] == 1


# ------------------------------------------------------------------------- dispatches


@pytest.mark.case("A35")
def test_a_batch_that_does_not_fit_is_refused_whole(tmp_path: Path) -> None:
    with opened(tmp_path, runs("dispatches: 4")) as engine:
        live = run_in(engine)
        refused = delegate(engine, live, 6)
        assert refused is not None
        assert (refused.fits, live.guarded and live.guarded.budget.state.used.dispatches) == (4, 0)
        assert delegate(engine, live, 0) is None
        assert delegate(engine, live, 4) is None
        assert live.guarded is not None
        assert live.guarded.budget.state.used.dispatches == 4
        assert live.guarded.budget.state.used.tool_calls == 2  # the refused one is none
        assert delegate(engine, live, 1) is not None


def test_a_tree_that_wants_39_starts_exactly_10(tmp_path: Path) -> None:
    with opened(tmp_path, runs("dispatches: 10")) as engine:
        root = run_in(engine)
        started, wanted, waiting = 0, 0, [root]
        while waiting:
            live = waiting.pop(0)
            for _ in range(3):
                wanted += wanted < 39
                if delegate(engine, live, 1) is None:
                    started += 1
                    waiting.append(child_of(engine, live, f"child-{started}"))
        assert started == 10
        assert root.guarded is not None
        assert root.guarded.budget.state.used.dispatches == 10


def test_a_batch_that_is_only_too_large_is_to_be_split(tmp_path: Path) -> None:
    yaml = runs("tool_calls: 9", commands="{triage-queue: {batch: 25}}")
    with opened(tmp_path, yaml) as engine:
        queue = engine.open_run(make_run(), command="triage-queue")
        refused = delegate(engine, queue, 60)
        assert refused is not None
        assert refused.phases == (25, 25, 10)
        assert delegate(engine, queue, 25) is None
        unknown = engine.open_run(make_run(), command="another")  # gets 8 dispatches
        assert delegate(engine, unknown, 9) is not None
        assert delegate(engine, run_in(engine), 60) is None


# ------------------------------------------------------------------------- tokens and dollars


def spend_until_refused(engine: Engine, live: LiveRun, usage: dict[str, int]) -> int:
    """Calls that were billed; a model that never stops by itself."""
    for made in range(500):
        permit, request = ask(engine, live, prompt_tokens=usage["prompt_tokens"], max_tokens=600)
        if permit.refused:
            return made
        engine.record(live, permit, request, read_usage(usage))
    raise AssertionError("never refused")


@pytest.mark.parametrize(
    ("limits", "cause"), [("usd: 0.10", Cause.SPEND), ("tokens: 20000", Cause.TOKENS)]
)
def test_tokens_and_dollars_are_never_passed_and_the_last_answer_fits(
    tmp_path: Path, limits: str, cause: Cause
) -> None:
    with opened(tmp_path, runs(limits)) as engine:
        live = run_in(engine)
        made = spend_until_refused(engine, live, counts(1_000, 400))
        engine.end_run(live, "completed")
        end = receipt(engine)
        assert end.calls == made > 3
        assert end.ending.cause == cause
        assert end.used(Meter.USD) <= usd("0.10") or cause is Cause.TOKENS
        assert end.used(Meter.TOKENS) <= 20_000 or cause is Cause.SPEND
        assert live.guarded is not None
        assert live.guarded.last_answers_used == 1


@pytest.mark.parametrize(
    ("limits", "needs"),
    [
        ("tokens: 1000", "2,000 tokens, which the token budget"),
        ("usd: 0.001", "$0.01, which the spend budget"),
    ],
)
def test_a_call_that_does_not_fit_is_told_from_a_budget_that_is_spent(
    tmp_path: Path, limits: str, needs: str
) -> None:
    with opened(tmp_path, runs(limits)) as engine:
        permit, _ = ask(engine, run_in(engine))
        assert permit.stop is not None
        assert permit.stop.fact == f"The next call needs about {needs} no longer holds."


WARM = counts(fresh=1_000, out=200, cr=19_000)  # $0.003 + $0.003 + $0.0057 = $0.0117


def test_a_turn_of_a_warm_conversation_fits_under_a_ceiling_made_from_such(tmp_path: Path) -> None:
    """A ceiling of $0.02 is half as much again on top of $0.0117. All fresh, the prompt of 20,000
    tokens costs $0.06; five minutes later the provider has forgotten it, and it does."""
    with opened(tmp_path) as engine:
        for _ in range(8):
            bill(engine, run_in(engine, session_id="s"), WARM, prompt_tokens=20_000)
        (tmp_path / "budget" / "budget.yaml").write_text(runs("usd: 0.02"))
        engine.reload_config()
        bill(engine, run_in(engine, session_id="s"), WARM, prompt_tokens=20_000)
        other, _ = ask(engine, run_in(engine, session_id="t"), prompt_tokens=20_000)
        assert other.refused
        again = run_in(engine, session_id="s")
        dearer, _ = ask(engine, again, "gpt-5.5", prompt_tokens=20_000, max_tokens=100)
        assert dearer.refused  # what one model has in its cache another one has not
        assert isinstance(engine.clock, FakeClock)
        engine.clock.advance(301)
        cold, _ = ask(engine, run_in(engine, session_id="s"), prompt_tokens=20_000)
        assert cold.refused


def test_a_dear_turn_does_not_refuse_a_cheap_one_after_it(tmp_path: Path) -> None:
    """$0.81 for 270,000 tokens that nobody expected; the next prompt is 1,000 again, $0.018."""
    with opened(tmp_path, "budgets: {global: {daily_usd: 1.00}}\n") as engine:
        bill(engine, run_in(engine, session_id="s"), counts(270_000, 100))
        permit, _ = ask(engine, run_in(engine, session_id="s"))
        assert permit.kind is Kind.NORMAL
        assert permit.expected.input_nanos == usd("0.003")


def test_what_one_provider_has_in_its_cache_another_one_has_not(tmp_path: Path) -> None:
    """20,000 tokens were nearly free at one provider; at the other they cost $0.06, all fresh."""
    prices = PRICES + "  plan/claude-sonnet-4-5: {input: 0.01, output: 0.01}\n"
    with opened(tmp_path, runs("usd: 0.02"), prices=prices) as engine:
        bill(engine, run_in(engine, session_id="s"), WARM, provider="plan", prompt_tokens=20_000)
        elsewhere, _ = ask(engine, run_in(engine, session_id="s"), prompt_tokens=20_000)
        assert elsewhere.refused


def test_a_limit_holds_where_the_provider_has_forgotten_what_it_had(tmp_path: Path) -> None:
    """Three warm turns cost $0.0351 of $0.09. The fourth costs as much once more, or, where the
    cache has lost its 20,000 tokens, $0.063: that would be over."""
    with opened(tmp_path, "budgets: {global: {daily_usd: 0.09}}\n") as engine:
        for _ in range(3):
            bill(engine, run_in(engine, session_id="s"), WARM, prompt_tokens=20_000)
        permit, _ = ask(engine, run_in(engine, session_id="s"), prompt_tokens=20_000)
        assert permit.refused


def test_another_model_in_the_middle_of_a_run_pays_for_the_whole_prompt(tmp_path: Path) -> None:
    """20,000 tokens cost $0.0028 with the one; with the other they cost $0.06, and $0.05 is all."""
    with opened(tmp_path, "budgets: {global: {daily_usd: 0.05}}\n") as engine:
        live = run_in(engine)
        bill(engine, live, counts(20_000, 200), "deepseek-v4-flash", prompt_tokens=20_000)
        fallback, _ = ask(engine, live, prompt_tokens=20_000)
        assert fallback.refused


def test_children_and_parent_share_the_dollars(tmp_path: Path) -> None:
    with opened(tmp_path, runs("usd: 0.10")) as engine:
        root = run_in(engine)
        children = [child_of(engine, root, f"c{n}") for n in range(3)]
        for child in children:
            spend_until_refused(engine, child, counts(1_000, 400))
        spend_until_refused(engine, root, counts(1_000, 400))
        assert root.guarded is not None
        used = root.guarded.budget.state.used
        assert usd("0.07") < used.cost_nanos <= usd("0.10")


def test_children_leave_their_root_room_for_its_last_answer(tmp_path: Path) -> None:
    with opened(tmp_path, runs("usd: 0.10")) as engine:
        root = run_in(engine)
        bill(engine, root, counts(1_000, 400), max_tokens=600)
        spend_until_refused(engine, child_of(engine, root, "c"), counts(1_000, 400))
        permit, _ = ask(engine, root, max_tokens=600)
        assert not permit.refused


def test_the_last_tenth_of_the_tokens_is_there_for_the_last_answer(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tokens: 20000")) as engine:
        live = run_in(engine)
        bill(engine, live, counts(1_000, 17_200))  # far longer than was expected
        permit, _ = ask(engine, live, prompt_tokens=1_000, max_tokens=100)
        assert permit.kind is Kind.LAST
        assert tool(engine, live) is not None


def test_calls_in_flight_count(tmp_path: Path) -> None:
    """Four children ask at once: what is on its way is not given away twice."""
    with opened(tmp_path, runs("usd: 0.05")) as engine:
        root = run_in(engine)
        children = [child_of(engine, root, f"c{n}") for n in range(8)]
        permits = [ask(engine, child, prompt_tokens=1_000, max_tokens=600) for child in children]
        granted = [permit for permit, _ in permits if not permit.refused]
        assert 1 < len(granted) < 8
        assert sum(permit.expected.held.nanos for permit in granted) <= usd("0.05")


def test_a_fuller_report_of_a_call_adds_only_the_rest(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tokens: 100000")) as engine:
        live = run_in(engine)
        permit, request = ask(engine, live)
        for usage in (counts(1_000, 10), counts(1_000, 100), counts(1_000, 100)):
            engine.record(live, permit, request, read_usage(usage))
        assert live.guarded is not None
        used = live.guarded.budget.state.used
        assert (used.calls, used.tokens) == (1, 1_100)


def test_a_call_that_was_not_billed_gives_its_place_back(tmp_path: Path) -> None:
    with opened(tmp_path, runs("usd: 0.02")) as engine:
        live = run_in(engine)
        for _ in range(20):
            permit, _ = ask(engine, live, max_tokens=100)
            assert not permit.refused
            engine.release(permit)


def test_a_run_without_dollars_is_refused_at_its_first_call(tmp_path: Path) -> None:
    with opened(tmp_path, runs("usd: 0")) as engine:
        live = run_in(engine)
        assert ask(engine, live)[0].refused
        engine.end_run(live, "completed")
        assert receipt(engine).ending.state is TerminalState.NO_ANSWER_SAFE_FALLBACK


def test_a_full_window_ends_the_run(tmp_path: Path) -> None:
    with opened(tmp_path, runs("context_pct: 0.70")) as engine:
        live = run_in(engine)
        assert live.guarded is not None
        live.guarded.window_tokens = 10_000
        bill(engine, live, counts(6_900, 10))
        assert tool(engine, live) is None
        bill(engine, live, counts(7_100, 10))
        refused = tool(engine, live)
        assert refused is not None
        assert refused.cause is Cause.CONTEXT


# ------------------------------------------------------------------------- the deadline


@pytest.mark.case("A55")
def test_a_slow_stream_resets_no_deadline(tmp_path: Path) -> None:
    """Chunks every 20 s for 45 minutes; the limit of a chat does not apply to a cron run."""
    yaml = runs("wall_clock_s: 900", cron="{wall_clock_s: 1800}")
    clock = FakeClock(NOON)
    engine = make_engine(tmp_path, yaml, clock)
    (engine.folder / "pricing.yaml").write_text(PRICES)
    cron, chat = run_in(engine, kind="cron"), run_in(engine)
    clock.advance(1_000)
    assert tool(engine, cron) is None
    refused = tool(engine, chat)
    assert refused is not None
    assert refused.cause is Cause.DEADLINE
    permit, request = ask(engine, cron)
    for _ in range(85):
        clock.advance(20)  # a chunk
    clock.set(NOON)  # somebody turns the clock back
    engine.record(cron, permit, request, read_usage(counts(10, 10)))
    refused = tool(engine, cron)
    assert refused is not None
    assert refused.cause is Cause.DEADLINE
    engine.end_run(cron, "completed")
    assert receipt(engine).ending.cause == Cause.DEADLINE
    engine.close()


@pytest.mark.parametrize(
    ("late_s", "kind"),
    [(0.0, Kind.LAST), (2.0, Kind.LAST), (2.1, Kind.REFUSED), (600.0, Kind.REFUSED)],
)
@pytest.mark.parametrize("spent_before", [False, True])
def test_no_last_answer_begins_more_than_two_seconds_after_the_deadline(
    tmp_path: Path, late_s: float, kind: Kind, *, spent_before: bool
) -> None:
    clock = FakeClock(NOON)
    engine = make_engine(tmp_path, runs("wall_clock_s: 100, tool_calls: 1"), clock)
    live = run_in(engine)
    child = child_of(engine, live, "c")
    assert tool(engine, live) is None
    if spent_before:  # whatever ended it: the time is over all the same
        assert tool(engine, live) is not None
    clock.advance(100 + late_s)
    assert tool(engine, child) is not None
    assert [ask(engine, each)[0].kind for each in (live, child)] == [kind, kind]
    engine.end_run(live, "completed")
    (ended,) = [each.receipt for each in receipts(engine) if each.kind == "chat"]
    assert ended.is_partial
    engine.close()


def test_a_run_is_told_once_that_its_next_step_will_not_end_in_time(tmp_path: Path) -> None:
    clock = FakeClock(NOON)
    engine = make_engine(tmp_path, runs("wall_clock_s: 100"), clock)
    live, told = run_in(engine), []
    for step_s in (30, 30, 25, 5, 5):  # 70, 40, 15, 10, 5 s are left
        told.append(engine.telling.note(live))
        clock.advance(step_s)
    assert [text is not None for text in told] == [False, False, False, True, False]
    assert "15 s are left until the deadline of this run, and its last step took 25 s" in str(
        told[3]
    )
    assert tool(engine, live) is None  # said, and nothing taken away
    engine.close()


def test_a_child_has_the_deadline_of_its_root(tmp_path: Path) -> None:
    clock = FakeClock(NOON)
    engine = make_engine(tmp_path, runs("wall_clock_s: 100"), clock)
    root = run_in(engine)
    clock.advance(90)
    child = child_of(engine, root, "late")
    assert tool(engine, child) is None
    clock.advance(10)
    refused = tool(engine, child)
    assert refused is not None
    assert refused.cause is Cause.DEADLINE
    engine.close()


# ------------------------------------------------------------------------- running low


def test_a_run_is_told_once_that_its_budget_runs_low(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 10")) as engine:
        live = run_in(engine)
        told = []
        for _ in range(10):
            tool(engine, live)
            told.append(engine.telling.note(live))
        assert [text is not None for text in told] == [False] * 6 + [True] + [False] * 3
        assert "tool calls: 3 of 10 left" in str(told[6])
        assert "runs low" in str(told[6])


def test_a_run_without_ceilings_is_told_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as engine:
        live = run_in(engine)
        child = child_of(engine, live, "c")
        assert engine.telling.note(live) is None
        assert engine.telling.briefing(child) is None


def test_a_child_is_told_at_its_start_what_is_left_for_it(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 10", child="{tool_calls: 5}")) as engine:
        live = run_in(engine)
        for _ in range(8):
            tool(engine, live)
        child = child_of(engine, live, "c")
        assert "tool calls: 2 of 10 left" in str(engine.telling.briefing(child))
        assert engine.telling.note(child) is None  # it has heard it
        assert engine.telling.briefing(live) is None


# ------------------------------------------------------------------------- endings


@pytest.mark.case("A54")
def test_exactly_one_ending_over_a_restart(tmp_path: Path) -> None:
    with opened(tmp_path, runs("usd: 0.05")) as engine:
        live = run_in(engine)
        spend_until_refused(engine, live, counts(1_000, 400))
        engine.end_run(live, "completed")  # "All done!"
        engine.end_run(live, "completed")
        engine.end_run(live, "failed")
        first = receipt(engine)
        assert first.ending.cause == Cause.SPEND
        assert first.ending.status is Status.PARTIAL
    with opened(tmp_path, runs("usd: 0.05")) as engine:
        engine.guard.close_crashed(1.0)
        assert receipt(engine) == first


def test_a_run_found_open_after_a_crash_is_closed_once(tmp_path: Path) -> None:
    with opened(tmp_path) as engine:
        live = run_in(engine)
        bill(engine, live, counts(1_000, 400))
        assert engine.recorder.flush(60)
        with engine.database.writing(1.0) as connection:  # its process is gone
            connection.execute("UPDATE runs SET owner_started = 'long ago', started_ms = ?", [NOON])
        assert [engine.guard.close_crashed(1.0) for _ in range(2)] == [1, 0]
        end = receipt(engine)
        assert (end.ending.cause, end.calls) == ("crashed", 1)
        assert end.used(Meter.TOKENS) == 1_400


def test_a_run_of_a_living_process_is_not_crashed(tmp_path: Path) -> None:
    with opened(tmp_path) as engine:
        run_in(engine)
        assert engine.recorder.flush(60)
        assert engine.guard.close_crashed(1.0) == 0


def test_without_limits_every_run_has_a_receipt_all_the_same(tmp_path: Path) -> None:
    with opened(tmp_path) as engine:
        live = run_in(engine)
        assert tool(engine, live) is None
        assert tool(engine, live) is None
        child_of(engine, live, "c")
        engine.child_stopped("c", "completed")
        bill(engine, live, counts(1_000, 400))
        engine.end_run(live, "completed")
        (ended,) = [each for each in receipts(engine) if each.kind == "chat"]
        end = ended.receipt
        assert (end.ending.state, end.ending.status) == (TerminalState.RESOLVED, Status.COMPLETE)
        assert (end.used(Meter.TOOL_CALLS), end.used(Meter.DISPATCHES), end.calls) == (2, 1, 1)
        assert end.used(Meter.USD) == 1_000 * 3_000 + 400 * 15_000


@pytest.mark.parametrize(
    ("said", "state", "cause"),
    [
        ("completed", TerminalState.RESOLVED, "answered"),
        ("interrupted", TerminalState.FOLLOW_UP_TICKET, "interrupted"),
        ("failed", TerminalState.ESCALATED_TO_HUMAN, "failed"),
        ("timeout", TerminalState.ESCALATED_TO_HUMAN, "failed"),
    ],
)
def test_how_the_host_says_it_ended(
    tmp_path: Path, said: str, state: TerminalState, cause: str
) -> None:
    with opened(tmp_path) as engine:
        engine.end_run(run_in(engine), said)
        assert (receipt(engine).ending.state, receipt(engine).ending.cause) == (state, cause)


def test_a_daily_limit_that_stops_a_run_is_its_cause(tmp_path: Path) -> None:
    with opened(tmp_path, "budgets: {global: {daily_usd: 0.00}}") as engine:
        live = run_in(engine)
        assert ask(engine, live)[0].refused
        engine.end_run(live, "completed")
        end = receipt(engine)
        assert (end.ending.cause, end.is_partial) == (Cause.WINDOW, True)


def test_a_run_waits_for_its_children_and_ends_with_the_last(tmp_path: Path) -> None:
    with opened(tmp_path) as engine:
        live = run_in(engine)
        for name in ("a", "b"):
            child_of(engine, live, name)
        engine.end_run(live, "completed")
        assert receipts(engine) == []
        engine.child_stopped("a", "completed")
        assert receipts(engine) == []
        engine.child_stopped("b", "completed")
        assert receipt(engine).ending.status is Status.COMPLETE


def test_children_of_a_stopped_run_are_refused(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 1")) as engine:
        live = run_in(engine)
        child = child_of(engine, live, "c")
        for _ in range(2):
            tool(engine, live)
        engine.end_run(live, "completed")
        assert tool(engine, child) is not None
        assert delegate(engine, live, 1) is not None


def test_a_run_that_the_host_ended_too_early_goes_on(tmp_path: Path) -> None:
    """on_session_end comes after every turn: only what was stopped stays stopped."""
    with opened(tmp_path, runs("tool_calls: 5")) as engine:
        live = run_in(engine)
        engine.end_run(live, "completed")
        assert tool(engine, live) is None
        assert not ask(engine, live)[0].refused


def test_a_turn_that_nobody_closed_just_stopped(tmp_path: Path) -> None:
    with opened(tmp_path) as engine:
        run_in(engine, session_id="s")
        run_in(engine, session_id="s")
        assert receipt(engine).ending.cause == "stopped"


def test_a_turn_that_the_host_opens_draws_on_the_run_that_caused_it(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 3")) as engine:
        first = run_in(engine, session_id="s")
        assert tool(engine, first) is None
        child_of(engine, first, "c")
        engine.end_run(first, "completed")
        second = engine.open_run(make_run(session_id="s"), origin=Origin.DELEGATION)
        assert [tool(engine, second) is None for _ in range(3)] == [True, True, False]
        third = run_in(engine, session_id="s")  # a person's message opens a fresh one
        assert tool(engine, third) is None


# ------------------------------------------------------------------------- the run of 41 transfers

A_TRANSFER = {"calls": 7, "tokens": 147_000, "seconds": 13}
"""306 calls, $38.60, 41 transfers: $0.941 and about 7 calls each."""


@pytest.mark.parametrize(
    ("limits", "cause", "hops", "cost"),
    [
        ("dispatches: 14", Cause.HOPS, 14, "13.174"),
        ("tokens: 400000", Cause.TOKENS, 3, "2.823"),  # 3 * 147,000 pass 90 % of them
        ("wall_clock_s: 180", Cause.DEADLINE, 14, "13.174"),  # 14 * 13 s = 182 s
        ("usd: 4.00", Cause.SPEND, 5, "4.705"),
        ("dispatches: 14, tokens: 400000, wall_clock_s: 180, usd: 4.00", Cause.TOKENS, 3, "2.823"),
    ],
)
def test_the_run_of_41_transfers_ends_early(
    tmp_path: Path, limits: str, cause: Cause, hops: int, cost: str
) -> None:
    """Charged at each transfer, in the run's own budget in the engine."""
    clock = FakeClock(NOON)
    engine = make_engine(tmp_path, runs(limits), clock)
    live = run_in(engine)
    assert live.guarded is not None
    budget = live.guarded.budget
    made, found = 0, None
    while found is None and made < 41:
        clock.advance(A_TRANSFER["seconds"])
        made += 1
        found = budget.charge(
            clock.monotonic(), hops=1, calls=7, tokens=147_000, cost_nanos=usd("0.941")
        )
    assert (found, made) == (cause, hops)
    engine.end_run(live, "completed")
    end = receipt(engine)
    assert end.ending.cause == cause
    assert (end.used(Meter.DISPATCHES), end.used(Meter.USD)) == (hops, usd(cost))
    assert delegate(engine, live, 1) is not None
    assert ask(engine, live)[0].refused
    engine.close()


def test_at_the_model_gate_four_dollars_hold_after_31_of_306_calls(tmp_path: Path) -> None:
    """$38.60 over 306 calls: $0.1261 each; none is made that would pass $4.00."""
    with opened(tmp_path, runs("usd: 4.00")) as engine:
        live = run_in(engine)
        usage = counts(41_000, 208)  # at 3.00 and 15.00: $0.12612
        made = spend_until_refused(engine, live, usage)
        engine.end_run(live, "completed")
        end = receipt(engine)
        assert (made, end.ending.cause) == (31, Cause.SPEND)
        assert usd("3.90") < end.used(Meter.USD) <= usd("4.00")

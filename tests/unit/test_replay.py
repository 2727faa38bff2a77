"""Replay: recorded runs under other limits, with the arithmetic beside each case."""

from collections.abc import Iterable
from dataclasses import replace
from zoneinfo import ZoneInfo

import pytest

from budget_plugin.policy.limits import Budget, Key, Measure, ModelGate, Scope, ScopeLimits
from budget_plugin.policy.money import parse_usd
from budget_plugin.policy.replay.outcome import Outcome, flat_region
from budget_plugin.policy.replay.player import Candidate, Player
from budget_plugin.policy.replay.recorded import (
    Event,
    RecordedCall,
    RecordedDispatch,
    RecordedRun,
)
from budget_plugin.policy.runs.run_limits import Cause, RunLayer, RunPolicy
from budget_plugin.policy.windows import Window
from budget_plugin.testing import at
from tests import six_weeks

UTC = ZoneInfo("UTC")
NOON = at("2026-11-02 12:00")
DAY_MS = 86_400_000


def under(events: Iterable[Event], budget: Budget, days: int = 1) -> Outcome:
    player = Player(Candidate("it", budget), UTC)
    for event in events:
        player.play(event)
    return player.outcome(days)


def ceilings(last_answers: int = 1, kinds: dict[str, RunLayer] | None = None, **amounts: float):
    runs = RunPolicy(default=RunLayer(amounts), kinds=kinds or {})
    return Budget(runs=runs, model_gate=ModelGate(wrap_up_calls=last_answers))


def daily(usd: str, scope: Scope = Scope.GLOBAL, measure: Measure = Measure.USD) -> Budget:
    amount = parse_usd(usd) if measure is Measure.USD else int(usd)
    limits = ScopeLimits({Key(Window.DAILY, measure): amount})
    return Budget(scopes={scope: limits})


def a_run(run_id: str = "r", *, kind: str = "chat", root: str = "", **more) -> RecordedRun:
    return RecordedRun(run_id, root or run_id, kind, NOON, resolved=True, **more)


def calls(
    number: int, run_id: str = "r", usd: str = "0.10", start_ms: int = NOON, every_ms: int = 1000
) -> list[RecordedCall]:
    nanos = parse_usd(usd)
    return [RecordedCall(start_ms + n * every_ms, run_id, "m", 1_000, nanos) for n in range(number)]


# ---------------------------------------------------------------------- ceilings of one run


@pytest.mark.parametrize(
    ("budget", "saved_calls", "cause"),
    [
        # $0.30 is reached by the 3rd of 10 calls, the 4th is the last answer: 6 are saved
        (ceilings(cost_nanos=parse_usd("0.30")), 6, Cause.SPEND),
        # 90 % of 5,000 tokens is reached by the 5th call; the 6th is the last answer
        (ceilings(tokens=5_000), 4, Cause.TOKENS),
        # the call at 4 s is the first one at the deadline, and the last answer: 5 … 9 s are saved
        (ceilings(wall_clock_s=4), 5, Cause.DEADLINE),
        # 18 tools over 9 gaps, two a gap: before the 4th call 6 are made, the 4th answers
        (ceilings(tool_calls=5), 6, Cause.TOOL_CALLS),
        (ceilings(last_answers=0, tool_calls=5), 7, Cause.TOOL_CALLS),
        (ceilings(cost_nanos=parse_usd("1.01"), tokens=20_000), 0, None),
    ],
)
def test_a_ceiling_stops_the_run_that_passes_it(
    budget: Budget, saved_calls: int, cause: str | None
) -> None:
    came_to = under([a_run(tool_calls=18, calls=10), *calls(10)], budget)
    assert came_to.saved_calls == saved_calls
    assert came_to.saved_nanos == saved_calls * parse_usd("0.10")
    assert came_to.causes == ({cause: 1} if cause else {})
    assert came_to.cut == came_to.cut_resolved == (1 if cause else 0)


def test_the_last_call_of_a_run_is_its_last_answer_anyway() -> None:
    """Reached by the last but one call: the run would have ended the same way."""
    assert under([a_run(), *calls(4)], ceilings(cost_nanos=parse_usd("0.30"))).cut == 0


@pytest.mark.parametrize(("ceiling", "cut", "saved"), [(3, 1, 4), (4, 1, 3), (8, 0, 0)])
def test_of_a_ceiling_of_dispatches_that_many_start(ceiling: int, cut: int, saved: int) -> None:
    """8 children, one after another, one call each; the call behind the refusal is the last."""
    steps: list[Event] = [a_run()]
    for n, call in enumerate(calls(8)):
        steps += [RecordedDispatch(NOON + n * 1000, "r"), call]
    came_to = under(steps, ceilings(dispatches=ceiling))
    assert (came_to.cut, came_to.saved_calls) == (cut, saved)


def test_where_no_child_may_start_none_does() -> None:
    """A ceiling of 0 refuses the child and all its 3 calls; the run itself goes on."""
    child = a_run("c", kind="child", root="r")._replace(started_ms=NOON + 5_000)
    steps: list[Event] = [a_run(), *calls(2), RecordedDispatch(NOON + 5_000, "r"), child]
    steps += [*calls(3, "c", start_ms=NOON + 6_000), *calls(2, start_ms=NOON + 20_000)]
    came_to = under(steps, ceilings(dispatches=0))
    assert (came_to.cut, came_to.saved_calls, came_to.causes) == (1, 3, {Cause.HOPS: 1})


def test_a_tree_draws_on_its_root() -> None:
    """Three children at $0.30: the root's $0.50 is reached in the second child.

    root 1 call, first child 3 calls ($0.40), second child 1 call ($0.50) and its last answer; its
    third call and the third child, which was never started, are saved, and the root answers.
    """
    children = [a_run(f"c{n}", kind="child", root="r") for n in range(3)]
    children = [c._replace(started_ms=NOON + 10_000 * (n + 1)) for n, c in enumerate(children)]
    steps: list[Event] = [a_run(), *calls(1)]
    for child in children:
        steps += [RecordedDispatch(child.started_ms, "r"), child]
        steps += calls(3, child.run_id, start_ms=child.started_ms)
    steps += calls(1, start_ms=NOON + 60_000)
    came_to = under(steps, ceilings(cost_nanos=parse_usd("0.50")))
    assert (came_to.runs, came_to.cut, came_to.saved_calls) == (1, 1, 4)


def test_a_childs_own_ceiling_leaves_its_root_alone() -> None:
    child = a_run("c", kind="child", root="r")
    steps = [a_run(), *calls(1), child, *calls(5, "c"), *calls(3, start_ms=NOON + 9_000)]
    kinds = {"child": RunLayer({"cost_nanos": parse_usd("0.20")})}
    assert under(steps, ceilings(kinds=kinds)).saved_calls == 2  # the 4th and 5th of the child


# ---------------------------------------------------------------------- limits of windows


def test_a_reached_limit_refuses_every_run_until_its_window_ends() -> None:
    """$0.25 a day: three calls of the first run reach it, two are refused; the next day is free."""
    steps: list[Event] = [a_run(), *calls(5), a_run("s"), *calls(2, "s", start_ms=NOON + 60_000)]
    steps += [a_run("t"), *calls(2, "t", start_ms=NOON + DAY_MS)]
    came_to = under(steps, daily("0.25"), days=2)
    assert (came_to.runs, came_to.cut, came_to.saved_calls) == (3, 2, 4)
    assert came_to.saved_per_day == parse_usd("0.20")
    assert came_to.worst[0].limit is not None


@pytest.mark.parametrize(
    ("call", "refused"),
    [
        ({}, True),
        ({"costs_nothing": True, "nanos": 0}, False),  # a dollar limit lets it pass
        ({"gated": False}, False),  # a title never meets the gate
    ],
)
def test_what_a_limit_would_not_have_stopped_goes_on(call: dict, refused: bool) -> None:
    late = calls(1, start_ms=NOON + 60_000)[0]._replace(**call)
    assert under([a_run(), *calls(1), late], daily("0.10")).saved_calls == refused


def test_only_estimates_stop_nothing_under_warn_only() -> None:
    guessed = [call._replace(estimated=True) for call in calls(5)]
    assert under([a_run(), *guessed], daily("0.10")).cut == 0


def test_a_limit_of_nothing_refuses_the_first_call() -> None:
    assert under([a_run(), *calls(2)], daily("0")).saved_calls == 2


def test_memory_stays_flat() -> None:
    player = Player(Candidate("it", ceilings(tokens=500)), UTC)
    for number in range(2_000):
        at_ms = NOON + number * 3_600_000
        player.play(a_run(f"r{number}")._replace(started_ms=at_ms))
        for call in calls(3, f"r{number}", start_ms=at_ms):
            player.play(call)
    assert len(player._runs) < 100
    assert player.outcome(84).cut == 2_000  # those that are forgotten are counted


# ---------------------------------------------------------------------- the sweep


def test_the_sweep_has_its_flat_region() -> None:
    """One of the six weeks, which are all alike; the property tests play them all."""
    six_weeks.check_sweep(days=7)


def test_the_six_weeks_are_what_they_say() -> None:
    hops = sorted(hops for hops, resolved in six_weeks.a_day() if resolved)
    assert hops[(len(hops) + 1) // 2 - 1] == 4
    assert hops[-(-99 * len(hops) // 100) - 1] == 9


@pytest.mark.parametrize(
    ("nets", "flat"),
    [
        ([100, 96, 90, 20], (0, 2)),
        ([10, 100, 20], None),  # the best stands alone
        ([0, 0, 0], None),
        ([-5, -1], None),
        ([85, 100, 85, 84], (0, 2)),
        ([], None),
    ],
)
def test_a_flat_region_lies_around_the_best(nets: list[int], flat: tuple[int, int] | None) -> None:
    assert flat_region(nets) == flat


def test_several_limits_at_once_each_cut_their_own() -> None:
    steps = [a_run(), *calls(10), a_run("s"), *calls(2, "s", start_ms=NOON + 60_000)]
    both = replace(daily("0.55"), runs=RunPolicy(default=RunLayer({"tokens": 5_000})))
    # the run's tokens stop it at its 5th call, the 6th is its answer: $0.60, past the day's $0.55
    assert under(steps, both).causes == {Cause.TOKENS: 1, Cause.WINDOW: 1}

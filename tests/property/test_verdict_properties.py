"""Verdicts: more spend never makes one milder, and `warn_only` is never stricter than `enforce`."""

from __future__ import annotations

from dataclasses import replace
from zoneinfo import ZoneInfo

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from budget_plugin.policy.limits import Limit, Measure, OnEstimated, Scope, Thresholds
from budget_plugin.policy.verdicts import Level, Spend, Verdict, evaluate, strictest
from budget_plugin.policy.windows import Window, period

PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""A busy machine is no failure."""

DAY = period(Window.DAILY, 1_796_126_400_000, ZoneInfo("UTC"))

counts = st.integers(0, 10**6)
nanos = st.integers(0, 10**13) | st.sampled_from((0, 799_999_999, 800_000_000, 10**9 - 1, 10**9))
shares = st.integers(1, 100).map(lambda percent: percent / 100)
spends = st.builds(Spend, nanos, nanos, counts, counts, counts, counts)
limits = st.builds(
    Limit,
    st.sampled_from(Scope),
    st.just("id"),
    st.just(Window.DAILY),
    st.sampled_from(Measure),
    nanos | counts | st.just(10**9),
)
thresholds = st.builds(
    Thresholds, st.lists(shares, max_size=3, unique=True).map(lambda s: tuple(sorted(s))), shares
)
modes = st.sampled_from(OnEstimated)


@PATIENT
@given(limits, spends, spends, thresholds, modes)
def test_a_verdict_never_falls_as_spend_rises(
    limit: Limit, spent: Spend, more: Spend, shares: Thresholds, mode: OnEstimated
) -> None:
    before = evaluate(limit, spent, DAY, shares, mode)
    after = evaluate(limit, spent + more, DAY, shares, mode)
    assert before.level <= after.level
    assert (before.soft_share or 0) <= (after.soft_share or 0)


@PATIENT
@given(limits, spends, nanos, thresholds, modes)
def test_a_verdict_never_rises_as_the_limit_does(
    limit: Limit, spent: Spend, raised: int, shares: Thresholds, mode: OnEstimated
) -> None:
    higher = replace(limit, amount=limit.amount + raised)
    before, after = (evaluate(x, spent, DAY, shares, mode) for x in (limit, higher))
    assert after.level <= before.level


@PATIENT
@given(limits, spends, thresholds)
def test_warn_only_is_never_stricter_than_enforce(
    limit: Limit, spent: Spend, shares: Thresholds
) -> None:
    warned, enforced = (
        evaluate(limit, spent, DAY, shares, mode)
        for mode in (OnEstimated.WARN_ONLY, OnEstimated.ENFORCE)
    )
    assert warned.level <= enforced.level
    assert warned.level == enforced.level or (warned.on_estimates and enforced.blocks)
    if spent.estimated_nanos == 0:
        assert warned == enforced


@PATIENT
@given(limits, spends, thresholds, modes, st.integers(0, 10**9))
def test_one_more_guess_never_disarms_a_hard_verdict(
    limit: Limit, spent: Spend, shares: Thresholds, mode: OnEstimated, guess: int
) -> None:
    verdict = evaluate(limit, spent, DAY, shares, mode)
    guessed = spent + Spend(estimated_nanos=guess, calls=1, estimated_calls=1)
    assert not verdict.blocks or evaluate(limit, guessed, DAY, shares, mode).blocks


@PATIENT
@given(limits, spends, thresholds, modes)
def test_a_limit_that_certain_spend_has_passed_blocks(
    limit: Limit, spent: Spend, shares: Thresholds, mode: OnEstimated
) -> None:
    verdict = evaluate(limit, replace_guesses(spent), DAY, shares, mode)
    assert not verdict.used >= limit.amount or verdict.blocks


def replace_guesses(spent: Spend) -> Spend:
    return spent._replace(estimated_nanos=0)


@PATIENT
@given(limits, spends, thresholds)
def test_guesses_alone_never_block_under_warn_only(
    limit: Limit, spent: Spend, shares: Thresholds
) -> None:
    dollars = replace(limit, measure=Measure.USD, amount=limit.amount + 1)
    guesses = spent._replace(certain_nanos=0)
    assert not evaluate(dollars, guesses, DAY, shares, OnEstimated.WARN_ONLY).blocks


@PATIENT
@given(st.lists(st.tuples(limits, spends), min_size=1, max_size=6), thresholds, modes)
def test_the_strictest_of_several_has_the_highest_level(
    each: list[tuple[Limit, Spend]], shares: Thresholds, mode: OnEstimated
) -> None:
    verdicts: list[Verdict] = [evaluate(x, spent, DAY, shares, mode) for x, spent in each]
    decisive = strictest(verdicts)
    assert decisive in verdicts
    assert decisive is not None
    assert decisive.level == max(v.level for v in verdicts)
    assert (decisive.level is Level.HARD) == any(v.blocks for v in verdicts)

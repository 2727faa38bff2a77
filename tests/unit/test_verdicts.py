"""One limit, one spend, one verdict. Amounts in dollars; the daily limit is $5.00, soft at 80 %."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from budget_plugin.policy.limits import Limit, Measure, OnEstimated, Scope, Thresholds
from budget_plugin.policy.money import nanos_from_usd
from budget_plugin.policy.verdicts import (
    NOTHING_SPENT,
    Level,
    Spend,
    Verdict,
    closed,
    evaluate,
    strictest,
)
from budget_plugin.policy.windows import Window, period

NOON_MS = 1_796_126_400_000  # 2026-12-01T12:00Z
DAY = period(Window.DAILY, NOON_MS, ZoneInfo("UTC"))
MONTH = period(Window.MONTHLY, NOON_MS, ZoneInfo("UTC"))
USUAL = Thresholds()
FIVE_A_DAY = Limit(Scope.GLOBAL, "", Window.DAILY, Measure.USD, 5_000_000_000)


def usd(text: str) -> int:
    return nanos_from_usd(Decimal(text))


def spend(certain: str = "0", estimated: str = "0", **counts: int) -> Spend:
    return Spend(usd(certain), usd(estimated), **counts)


def judge(
    spent: Spend,
    limit: Limit = FIVE_A_DAY,
    thresholds: Thresholds = USUAL,
    on_estimated: OnEstimated = OnEstimated.WARN_ONLY,
) -> Verdict:
    return evaluate(limit, spent, DAY, thresholds, on_estimated)


@pytest.mark.case("A42")
@pytest.mark.parametrize(
    ("spent", "level"),
    [
        ("0", Level.OK),
        ("3.90", Level.OK),
        ("3.999999999", Level.OK),
        ("4.00", Level.SOFT),  # 80 % of 5
        ("4.10", Level.SOFT),
        ("4.60", Level.SOFT),
        ("4.999999999", Level.SOFT),
        ("5.00", Level.HARD),
        ("5.07", Level.HARD),
    ],
)
def test_levels(spent: str, level: Level) -> None:
    assert judge(spend(spent)).level is level


@pytest.mark.parametrize(
    ("spent", "share", "level"),
    [
        ("2.49", None, Level.OK),
        ("2.50", 0.5, Level.SOFT),
        ("4.50", 0.9, Level.SOFT),  # a jump over several thresholds: the highest counts
        ("5.00", 0.9, Level.HARD),
    ],
)
def test_several_soft_thresholds(spent: str, share: float | None, level: Level) -> None:
    verdict = judge(spend(spent), thresholds=Thresholds(soft=(0.5, 0.8, 0.9)))
    assert (verdict.soft_share, verdict.level) == (share, level)


def test_a_hard_threshold_below_the_limit() -> None:
    ninety = Thresholds(soft=(0.5,), hard=0.90)
    assert judge(spend("4.49"), thresholds=ninety).level is Level.SOFT
    assert judge(spend("4.50"), thresholds=ninety).level is Level.HARD


@pytest.mark.case("A26", "T21")
@pytest.mark.parametrize("measure", Measure)
def test_a_limit_of_nothing_is_hard_before_anything_is_spent(measure: Measure) -> None:
    nothing = replace(FIVE_A_DAY, measure=measure, amount=0)
    assert judge(NOTHING_SPENT, nothing).blocks


@pytest.mark.case("T02", "A15")
@pytest.mark.parametrize(
    ("spent", "mode", "level", "on_estimates"),
    [
        # Certain spend alone is over: one guessed call of $0.00008 does not disarm the limit.
        (spend("5.00", "0.00008"), OnEstimated.WARN_ONLY, Level.HARD, False),
        # Only the guess carries it over: 4.95 + 0.10 = 5.05.
        (spend("4.95", "0.10"), OnEstimated.WARN_ONLY, Level.SOFT, True),
        (spend("4.95", "0.10"), OnEstimated.ENFORCE, Level.HARD, True),
        (spend("0", "50"), OnEstimated.WARN_ONLY, Level.SOFT, True),
        # Below the limit a guess counts like anything else: 3.90 + 0.10 = 4.00 = 80 %.
        (spend("3.90", "0.10"), OnEstimated.WARN_ONLY, Level.SOFT, False),
    ],
)
def test_guesses(spent: Spend, mode: OnEstimated, level: Level, on_estimates: bool) -> None:
    verdict = judge(spent, on_estimated=mode)
    assert (verdict.level, verdict.on_estimates) == (level, on_estimates)


def test_a_guess_that_a_soft_threshold_of_one_does_not_name_is_soft_all_the_same() -> None:
    verdict = judge(spend("0", "5"), thresholds=Thresholds(soft=()))
    assert (verdict.level, verdict.soft_share) == (Level.SOFT, None)


@pytest.mark.case("A24")
def test_tokens_and_calls_are_never_guesses() -> None:
    spent = spend("0", "9", tokens=500, calls=3)
    tokens = replace(FIVE_A_DAY, measure=Measure.TOKENS, amount=500)
    calls = replace(FIVE_A_DAY, measure=Measure.CALLS, amount=4)
    assert judge(spent, tokens).level is Level.HARD
    assert judge(spent, calls).level is Level.OK  # 3 of 4 is 75 %
    assert (judge(spent, tokens).used, judge(spent, calls).used) == (500, 3)


def test_a_very_large_limit_is_compared_exactly() -> None:
    billion = replace(FIVE_A_DAY, amount=usd("1000000000"))
    assert judge(Spend(billion.amount * 8 // 10 - 1), billion).level is Level.OK
    assert judge(Spend(billion.amount * 8 // 10), billion).level is Level.SOFT
    assert judge(Spend(billion.amount - 1), billion).level is Level.SOFT


def test_what_is_left_is_never_negative() -> None:
    assert judge(spend("4.10")).left == usd("0.90")
    assert judge(spend("7")).left == 0


def test_nothing_fits_turns_a_verdict_hard_and_says_so() -> None:
    full = closed(judge(spend("4.95")))
    assert (full.blocks, full.nothing_fits) == (True, True)
    reached = judge(spend("5"))
    assert closed(reached) is reached


def test_the_strictest_verdict_decides() -> None:
    monthly = replace(FIVE_A_DAY, window=Window.MONTHLY, amount=usd("100"))
    ok = judge(spend("1"))
    soft, fuller = judge(spend("4")), judge(spend("4.50"))
    hard_day = judge(spend("5"))
    hard_month = evaluate(monthly, spend("100"), MONTH, Thresholds(), OnEstimated.WARN_ONLY)
    assert strictest([]) is None
    assert strictest([soft, ok]) is soft
    assert strictest([soft, fuller]) is fuller
    assert strictest([soft, hard_day, fuller]) is hard_day
    assert strictest([hard_day, hard_month]) is hard_month  # the one that lifts last


def test_spends_add_up() -> None:
    both = spend("1", "2", tokens=3, calls=4) + Spend(unpriced_calls=5, estimated_calls=6, calls=1)
    assert both == Spend(usd("1"), usd("2"), 3, 5, 5, 6)
    assert both.nanos == usd("3")

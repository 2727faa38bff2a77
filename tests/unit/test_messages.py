"""What is read when a limit speaks: exact words, and the command in a person's line typed back."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from budget_plugin import messages
from budget_plugin.commands import grammar
from budget_plugin.messages import verdicts as wording
from budget_plugin.policy.limits import Limit, Measure, OnEstimated, Scope, Thresholds
from budget_plugin.policy.verdicts import Level, Spend, Verdict, closed, evaluate
from budget_plugin.policy.windows import END_OF_TIME_MS, Period, Window, period

PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""A busy machine is no failure."""

BERLIN = ZoneInfo("Europe/Berlin")
NOW_MS = 1_796_126_400_000  # 2026-12-01T12:00Z
CENT = 10_000_000
USUAL = Thresholds()


def day(window: Window = Window.DAILY) -> Period:
    return period(window, NOW_MS, BERLIN)


FIVE_A_DAY = Limit(Scope.GLOBAL, "", Window.DAILY, Measure.USD, 500 * CENT)
NIGHTLY = Limit(Scope.CRON_JOB, "nightly report", Window.MONTHLY, Measure.USD, 2_000 * CENT)


def verdict(limit: Limit = FIVE_A_DAY, cents: int = 507, **counts: int) -> Verdict:
    spent = Spend(cents * CENT, **counts)
    return evaluate(limit, spent, day(limit.window), USUAL, OnEstimated.WARN_ONLY)


REACHED = verdict()
FULL = closed(verdict(cents=495))
SOFT = verdict(cents=410)

TO_A_MODEL: tuple[Callable[[Verdict, ZoneInfo], str], ...] = (
    messages.tool_refused,
    messages.last_answer,
    messages.call_refused_to_model,
    messages.job_refused,
    messages.call_refused,  # a person reads it first, but it stays in the session
    lambda v, zone: messages.soft_alert_for_model([v], zone),
)


# ---------------------------------------------------------------------- exact texts


@pytest.mark.case("A44")
def test_a_blocked_tool() -> None:
    assert messages.tool_refused(REACHED, BERLIN) == (
        "Budget: The daily limit of $5.00 for everything together is reached: $5.07 of $5.00 is "
        "used. It resets at 2026-12-02 00:00 Europe/Berlin. No tool will work until then, so do "
        "not try another one. Write your final answer now: what is done, what is missing, and "
        "what the next step would be."
    )


def test_nothing_more_fits_is_not_called_reached() -> None:
    assert messages.tool_refused(FULL, BERLIN).startswith(
        "Budget: Nothing more fits under the daily limit of $5.00 for everything together: $4.95 "
        "of $5.00 is used. It resets at 2026-12-02 00:00 Europe/Berlin. "
    )


def test_the_last_answer() -> None:
    assert messages.last_answer(FULL, BERLIN) == (
        "[budget] Nothing more fits under the daily limit of $5.00 for everything together: $4.95 "
        "of $5.00 is used. It resets at 2026-12-02 00:00 Europe/Berlin. This is the last answer "
        "that fits. Call no tools. Write the final answer now: what is done, what is missing, and "
        "what the next step would be."
    )


def test_a_soft_alert_for_the_model() -> None:
    assert messages.soft_alert_for_model([SOFT], BERLIN) == (
        "[budget] $4.10 of $5.00 is used under the daily limit of $5.00 for everything together. "
        "It resets at 2026-12-02 00:00 Europe/Berlin. Prefer the shortest way to a finished answer."
    )


def test_a_refused_call() -> None:
    job = closed(verdict(NIGHTLY, cents=1_990))
    assert messages.call_refused(job, BERLIN) == (
        "Stopped by the budget before the next model call. Nothing more fits under the monthly "
        'limit of $20.00 for cron job "nightly report": $19.90 of $20.00 is used. It resets at '
        "2027-01-01 00:00 Europe/Berlin."
    )
    assert messages.call_refused_to_model(job, BERLIN) == (
        "This subtask was stopped by the budget before it was finished. Nothing more fits under "
        'the monthly limit of $20.00 for cron job "nightly report": $19.90 of $20.00 is used. It '
        "resets at 2027-01-01 00:00 Europe/Berlin. Treat its result as missing; do not start it "
        "again."
    )


@pytest.mark.case("T04")
def test_a_call_that_nobody_knows_the_price_of() -> None:
    assert messages.call_refused(REACHED, BERLIN, unpriced_model="acme-lab-7b") == (
        "Stopped by the budget before the next model call. The price of acme-lab-7b is not known, "
        "and calls without a known price are blocked while the daily limit of $5.00 for "
        "everything together is set."
    )


@pytest.mark.case("T20")
def test_a_persons_line() -> None:
    assert messages.person_line(REACHED, BERLIN) == (
        "Budget: The daily limit of $5.00 for everything together is reached: $5.07 of $5.00 is "
        "used. It resets at 2026-12-02 00:00 Europe/Berlin. To go on before that: "
        "/budget set global daily 8.00"
    )
    assert messages.person_line(REACHED, BERLIN, local=True).endswith(
        "/budget set global daily 8.00 (in a shell: hermes budget set global daily 8.00)"
    )
    assert messages.person_line(verdict(NIGHTLY, cents=2_001), BERLIN).endswith(
        'To go on before that: /budget set cron_job "nightly report" monthly 31.00'
    )


@pytest.mark.case("A42")
def test_a_persons_line_before_the_limit_is_reached() -> None:
    assert messages.person_line(SOFT, BERLIN) == (
        "Budget: more than 80 % of the daily limit of $5.00 for everything together is used: "
        "$4.10 of $5.00. It resets at 2026-12-02 00:00 Europe/Berlin."
    )


@pytest.mark.case("A15")
def test_a_limit_that_only_guesses_have_passed() -> None:
    guessed = evaluate(
        FIVE_A_DAY, Spend(490 * CENT, 20 * CENT), day(), USUAL, OnEstimated.WARN_ONLY
    )
    assert "is used (only with estimated costs): $5.10 of $5.00." in messages.person_line(
        guessed, BERLIN
    )


@pytest.mark.case("A10", "T04")
def test_dollars_with_an_unknown_price_in_them_are_at_least() -> None:
    unsure = verdict(unpriced_calls=1)
    assert "at least $5.07 of $5.00 is used" in messages.tool_refused(unsure, BERLIN)
    tokens = replace(FIVE_A_DAY, measure=Measure.TOKENS, amount=1_000)
    assert "at least" not in messages.tool_refused(
        verdict(tokens, tokens=1_200, unpriced_calls=1), BERLIN
    )


@pytest.mark.case("A26", "T21")
def test_a_limit_of_nothing() -> None:
    nothing = verdict(replace(FIVE_A_DAY, amount=0), cents=0)
    assert "Nothing may be spent: the daily limit of $0.00" in messages.tool_refused(
        nothing, BERLIN
    )
    assert messages.person_line(nothing, BERLIN).endswith("/budget set global daily 1.00")


def test_a_ledger_that_does_not_answer() -> None:
    unknown = Verdict(FIVE_A_DAY, day(), Spend(), Level.HARD, unknown=True)
    assert messages.person_line(unknown, BERLIN) == (
        "Budget: The spend ledger does not answer, so the daily limit of $5.00 for everything "
        "together cannot be checked."
    )


def test_a_limit_without_a_window_does_not_reset() -> None:
    ever = verdict(replace(FIVE_A_DAY, window=Window.TOTAL))
    assert "It does not reset by itself." in messages.tool_refused(ever, BERLIN)


@pytest.mark.parametrize(
    ("measure", "amount", "spent", "text"),
    [
        (Measure.CALLS, 900, Spend(calls=900), "900 calls of 900 calls"),
        (Measure.CALLS, 1, Spend(calls=1), "1 call of 1 call"),
        (Measure.TOKENS, 400_000, Spend(tokens=401_234), "401,234 tokens of 400,000 tokens"),
    ],
)
def test_other_measures_have_their_units(
    measure: Measure, amount: int, spent: Spend, text: str
) -> None:
    limit = replace(FIVE_A_DAY, measure=measure, amount=amount)
    hard = evaluate(limit, spent, day(), USUAL, OnEstimated.WARN_ONLY)
    assert f"is reached: {text} is used." in messages.tool_refused(hard, BERLIN)


def test_why_a_job_was_paused() -> None:
    assert messages.pause_reason(verdict(NIGHTLY, cents=2_001), BERLIN) == (
        'budget: The monthly limit of $20.00 for cron job "nightly report" is reached: $20.01 of '
        "$20.00 is used. It resets at 2027-01-01 00:00 Europe/Berlin."
    )


def test_what_is_missing_and_the_command_that_mends_it() -> None:
    assert messages.missing_packages(["yaml"], ["pyyaml>=6,<7"], "/opt/my python") == (
        "hermes-budget is not active: yaml is not installed in this Python. "
        """Install with: "/opt/my python" -m pip install 'pyyaml>=6,<7'"""
    )


# ---------------------------------------------------------------------- what a model may read

ids = st.text(min_size=1, max_size=40).filter(str.strip)
scoped = st.tuples(st.sampled_from([s for s in Scope if s is not Scope.GLOBAL]), ids)
limits = st.builds(
    lambda whom, window, measure, amount: Limit(whom[0], whom[1], window, measure, amount),
    st.just((Scope.GLOBAL, "")) | scoped,
    st.sampled_from(Window),
    st.sampled_from(Measure),
    st.integers(0, 10**14),
)
hard_verdicts = st.builds(
    lambda limit, over: closed(
        evaluate(
            limit,
            Spend(certain_nanos=over, tokens=over, calls=over),
            day(limit.window),
            USUAL,
            OnEstimated.WARN_ONLY,
        )
    ),
    limits,
    st.integers(0, 10**14),
)

WAYS_TO_RAISE = re.compile(
    r"/budget|hermes[ -]budget|budget\.yaml|daily_usd|_usd|confirm|extend|\braise|\bset\b (?!\.)",
    re.I,
)


@PATIENT
@given(
    hard_verdicts.map(
        lambda v: replace(v, limit=replace(v.limit, scope_id="x" if v.limit.scope_id else ""))
    )
)
def test_a_model_never_reads_how_a_limit_is_raised(hard: Verdict) -> None:
    for say in TO_A_MODEL:
        assert not WAYS_TO_RAISE.search(say(hard, BERLIN).replace(wording.raise_command(hard), "!"))
        assert wording.raise_command(hard) not in say(hard, BERLIN)


def test_every_text_for_a_model_is_looked_at_here() -> None:
    """A new function beside these must be put into the list above, or be meant for people."""
    for_people = {
        "person_line",
        "settings_mistake",
        "pause_reason",
        "reached_already",
        "raise_command",
        "missing_packages",
    }
    looked_at = {
        "tool_refused",
        "last_answer",
        "call_refused_to_model",
        "job_refused",
        "call_refused",
        "soft_alert_for_model",
    }
    defined = {
        name
        for name, value in vars(wording).items()
        if inspect.isfunction(value)
        and value.__module__ == wording.__name__
        and not name.startswith("_")
    }
    assert defined == for_people | looked_at


@pytest.mark.case("A44")
@PATIENT
@given(hard_verdicts)
def test_the_same_breach_always_reads_the_same(hard: Verdict) -> None:
    again = replace(hard, limit=replace(hard.limit), spend=Spend(*hard.spend))
    for say in TO_A_MODEL:
        assert say(hard, BERLIN) == say(again, BERLIN)


@PATIENT
@given(hard_verdicts)
def test_a_text_for_a_model_names_everything_it_has_to_know(hard: Verdict) -> None:
    text = messages.tool_refused(hard, BERLIN)
    assert hard.limit.scope_id in text
    assert "No tool will work" in text
    assert "final answer" in text
    if hard.limit.window is not Window.TOTAL:
        assert re.search(r"It resets at \d{4}-\d\d-\d\d \d\d:\d\d Europe/Berlin", text)


# ---------------------------------------------------------------------- the command, typed back


@pytest.mark.case("T20", "T30")
@PATIENT
@given(hard_verdicts)
def test_the_command_in_a_persons_line_lifts_exactly_that_block(hard: Verdict) -> None:
    assert_lifted_by_its_command(hard)


def test_a_small_limit_is_raised_by_a_little_and_holds_the_next_call() -> None:
    """One cent, nothing used, a call of five: (0 + 5) × 1.5, rounded up, is eight cents."""
    limit = Limit(Scope.GLOBAL, "", Window.DAILY, Measure.USD, CENT)
    nothing_used = verdict(limit, cents=0)
    hard = replace(nothing_used, level=Level.HARD, nothing_fits=True, next_needs=5 * CENT)
    line = messages.person_line(hard, BERLIN)
    assert "$0.00 of $0.01 is used, and the next call needs about $0.05." in line
    assert line.endswith("/budget set global daily 0.08")


def test_a_limit_that_is_hard_at_half_is_raised_twice_as_far() -> None:
    """Ten dollars, hard at half of it, $20 used: 20 / 0.5 × 1.5 is $60, hard at $30."""
    ten = Limit(Scope.GLOBAL, "", Window.DAILY, Measure.USD, 1000 * CENT)
    hard = replace(verdict(ten, cents=2000), hard_share=0.5)
    assert messages.person_line(hard, BERLIN).endswith("/budget set global daily 60.00")


def test_a_refusal_is_not_repeated_under_itself() -> None:
    refusal = messages.call_refused(REACHED, BERLIN)
    line = messages.person_line(REACHED, BERLIN, refusal)
    assert line == "To go on before that: /budget set global daily 8.00"


def test_nothing_is_waited_for_where_nothing_resets() -> None:
    total = Limit(Scope.GLOBAL, "", Window.TOTAL, Measure.USD, 500 * CENT)
    forever = replace(verdict(total), period=Period(Window.TOTAL, 0, END_OF_TIME_MS, "total"))
    assert "No tool will work, so do not try" in messages.tool_refused(forever, BERLIN)


@pytest.mark.case("T20", "T30", "A32")
@pytest.mark.parametrize(
    "scope_id",
    [
        "telegram:123456",
        "@alice",
        "🚀 nightly v1.2",
        "O'Brien",
        '"quoted"',
        "“quoted” by a telephone",
        "«so»",
        "back\\slash and \\",
        "daily",
        "5",
        "calls",
        "--json",
        "-1001234567890",
        "--id=x y",
        "012345670123",
        "x" * 5_000,
    ],
)
def test_odd_ids_are_typed_back(scope_id: str) -> None:
    limit = Limit(Scope.SENDER, scope_id, Window.DAILY, Measure.USD, 500 * CENT)
    assert_lifted_by_its_command(verdict(limit))


def assert_lifted_by_its_command(hard: Verdict) -> None:
    line = messages.person_line(hard, BERLIN)
    command = line.partition("To go on before that: /budget set ")[2]
    words, options = grammar.take_options(grammar.split(command))
    place, key, amount = grammar.limit_to_set(words, options.get("id"), "/budget")

    limit = hard.limit
    assert (place.scope, place.scope_id) == (limit.scope, limit.scope_id)
    assert (key.window, key.measure) == (limit.window, limit.measure)
    assert amount is not None
    lifted = replace(limit, amount=amount)
    after = evaluate(lifted, hard.spend, hard.period, USUAL, OnEstimated.WARN_ONLY)
    assert not after.blocks
    assert amount > limit.amount

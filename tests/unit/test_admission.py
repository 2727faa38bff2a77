"""May one more call go? The limit is $1.00 a day; a call costs five cents unless it says otherwise.

Of its five cents three are the prompt (10,000 tokens at $3 per million) and two the answer (1,000
tokens at $20 per million, 20,000,000 pico-dollars each).
"""

from __future__ import annotations

from dataclasses import replace
from zoneinfo import ZoneInfo

import pytest

from budget_plugin.policy.admission import (
    SHORTEST_ANSWER_TOKENS,
    Admission,
    Expected,
    Held,
    Kind,
    Standing,
    admit,
    room_under,
)
from budget_plugin.policy.limits import Limit, Measure, OnEstimated, Scope, Thresholds
from budget_plugin.policy.verdicts import Spend
from budget_plugin.policy.windows import Window, period

CENT = 10_000_000
DAY = period(Window.DAILY, 1_796_126_400_000, ZoneInfo("UTC"))
A_DOLLAR = Limit(Scope.GLOBAL, "", Window.DAILY, Measure.USD, 100 * CENT)
FIVE_CENTS = Expected(10_000, 3 * CENT, 1_000, 20_000_000, 65_536)
WITHOUT_CAP = replace(FIVE_CENTS, max_tokens=1_000)
PLACE = FIVE_CENTS.held


def cents(number: float) -> Held:
    return Held(round(number * CENT), 0, 0)


def standing(
    spent: float = 0,
    *,
    reserved: float = 0,
    others: float = 0,
    kept: Held = PLACE,
    limit: Limit = A_DOLLAR,
) -> Standing:
    """Amounts in cents; `kept` is this run's own place, which it has since its first call."""
    return Standing(limit, DAY, Spend(round(spent * CENT)), cents(reserved), cents(others), kept)


def decide(
    *standings: Standing,
    expected: Expected = FIVE_CENTS,
    closing: bool = False,
    last_answers: int = 1,
    on_estimated: OnEstimated = OnEstimated.WARN_ONLY,
    hard: float = 1.0,
) -> Admission:
    return admit(
        standings,
        expected,
        last_answers=last_answers,
        closing=closing,
        thresholds=Thresholds(hard=hard),
        on_estimated=on_estimated,
    )


NORMAL, LAST, REFUSED = Kind.NORMAL, Kind.LAST, Kind.REFUSED


@pytest.mark.case("T14")
@pytest.mark.parametrize(
    ("spent", "reserved", "others", "kind"),
    [
        (0, 0, 0, NORMAL),
        (90, 0, 0, NORMAL),  # 90 + 5 and 5 for the last answer: 100
        (90.1, 0, 0, LAST),
        (95, 0, 0, LAST),  # the last answer itself
        (95.1, 0, 0, REFUSED),
        (100, 0, 0, REFUSED),
        (70, 20, 0, NORMAL),  # what is in flight counts like what is spent
        (70, 20.1, 0, LAST),
        (75, 0, 15, NORMAL),  # 75 + 5 + 5 and 5 each for three others: 100
        (75.1, 0, 15, LAST),
        (60, 15, 15, NORMAL),
        (80, 0, 15, LAST),  # its own place, beside theirs
    ],
)
def test_what_fits(spent: float, reserved: float, others: float, kind: Kind) -> None:
    answer = decide(standing(spent, reserved=reserved, others=others), expected=WITHOUT_CAP)
    assert answer.kind is kind


@pytest.mark.parametrize(
    ("spent", "kind"), [(75, NORMAL), (75.1, LAST), (80, LAST), (80.1, REFUSED), (95, REFUSED)]
)
def test_a_run_that_comes_late_does_not_take_the_last_answers_of_others(
    spent: float, kind: Kind
) -> None:
    """Three others keep 15 cents: beside them 5 must be left for a run that has no place yet."""
    late = standing(spent, others=15, kept=Held())
    assert decide(late, expected=WITHOUT_CAP).kind is kind
    has_a_place = standing(spent, others=15)
    assert decide(has_a_place, expected=WITHOUT_CAP).kind is not REFUSED


def test_runs_left_open_keep_at_most_half_of_a_limit() -> None:
    """Forty abandoned runs would keep $2.00 of $1.00: 40 + 5 + 5 + 50 fits."""
    assert decide(standing(40, others=200)).kind is NORMAL
    assert decide(standing(40.1, others=200)).kind is LAST


@pytest.mark.parametrize(("spent", "kind"), [(0, LAST), (94, LAST), (95, LAST), (95.1, REFUSED)])
def test_a_run_that_was_told_to_finish_has_its_last_answer(spent: float, kind: Kind) -> None:
    assert decide(standing(spent), expected=WITHOUT_CAP, closing=True).kind is kind


@pytest.mark.parametrize(
    ("wrap_ups", "spent", "kind"),
    [(0, 95, NORMAL), (0, 95.1, REFUSED), (2, 85, NORMAL), (2, 85.1, LAST), (3, 80, NORMAL)],
)
def test_as_many_last_answers_as_are_configured(wrap_ups: int, spent: float, kind: Kind) -> None:
    answer = decide(standing(spent), expected=WITHOUT_CAP, last_answers=wrap_ups)
    assert answer.kind is kind


def test_what_is_set_aside_and_what_is_kept() -> None:
    normal = decide(standing(0), last_answers=2)
    assert (normal.held, normal.keeps) == (PLACE, PLACE.times(2))
    last = decide(standing(88), last_answers=2)
    assert (last.kind, last.held, last.keeps) == (LAST, PLACE, PLACE)
    final = decide(standing(93))
    assert (final.kind, final.held, final.keeps) == (LAST, PLACE, Held())
    refused = decide(standing(99))
    assert (refused.held, refused.keeps) == (Held(), Held())


def test_the_place_grows_as_the_prompt_grows() -> None:
    """A cent more each time: the last answer will take 6, so 89 + 5 + 6 is the most."""
    growing = replace(WITHOUT_CAP, growth_tokens=3_333, growth_nanos=CENT)
    assert decide(standing(89), expected=growing).kind is NORMAL
    assert decide(standing(89.1), expected=growing).kind is LAST
    assert decide(standing(0), expected=growing).keeps.nanos == 6 * CENT


# ---------------------------------------------------------------------- the length of the answer


@pytest.mark.parametrize(
    ("spent", "others", "cap"),
    [
        (0, 0, 46_000),  # 100 − 3 for the prompt − 5 for the end = 92 cents of 500 tokens each
        (50, 0, 21_000),  # 42 cents
        (50, 15, 13_500),  # 27 cents
    ],
)
def test_an_answer_may_not_eat_the_last_answers(spent: float, others: float, cap: int) -> None:
    answer = decide(standing(spent, others=others))
    assert (answer.kind, answer.output_cap) == (NORMAL, cap)


@pytest.mark.case("T14")
def test_max_tokens_65536_does_not_close_the_gate_early() -> None:
    """65,536 tokens would cost $1.31 of the $1.00: still only what is expected is set aside."""
    answer = decide(standing(90))
    assert (answer.kind, answer.held) == (NORMAL, PLACE)
    assert answer.output_cap == SHORTEST_ANSWER_TOKENS  # 1,000 are spare, 3,500 would fit


def test_a_request_that_allows_no_more_is_left_as_it_is() -> None:
    assert decide(standing(0), expected=WITHOUT_CAP).output_cap is None
    says_nothing = replace(FIVE_CENTS, max_tokens=None)
    assert decide(standing(0), expected=says_nothing).output_cap == 46_000


@pytest.mark.parametrize(
    ("spent", "cap"),
    [
        (94, 1_500),  # 6 − 3 = 3 cents are 1,500 tokens
        (95, 1_000),
    ],
)
def test_a_last_answer_may_be_as_long_as_what_is_left(spent: float, cap: int) -> None:
    answer = decide(standing(spent))
    assert (answer.kind, answer.output_cap) == (LAST, cap)


LONG = Expected(10_000, 3 * CENT, 4_000, 20_000_000, 65_536)
"""Three cents and an answer of eight."""


@pytest.mark.parametrize(
    ("spent", "kind", "cap"),
    [
        (90, LAST, 3_500),  # 10 − 3 = 7 of the expected 8 cents: the answer is cut
        (94.9, LAST, 1_050),
        (94.952, LAST, 1_024),
        (94.953, REFUSED, None),  # 1,023 tokens are not worth the prompt
    ],
)
def test_an_answer_is_cut_to_what_fits_but_not_below_use(
    spent: float, kind: Kind, cap: int | None
) -> None:
    answer = decide(standing(spent), expected=LONG)
    assert (answer.kind, answer.output_cap) == (kind, cap)
    assert answer.held.nanos <= round((100 - spent) * CENT)


def test_a_short_answer_needs_no_more_than_itself() -> None:
    brief = Expected(10_000, 3 * CENT, 100, 20_000_000, 65_536)  # 3.2 cents
    assert decide(standing(96.8), expected=brief).kind is LAST
    assert decide(standing(96.81), expected=brief).kind is REFUSED


# ---------------------------------------------------------------------- other measures


@pytest.mark.parametrize(("calls", "kind"), [(0, NORMAL), (8, NORMAL), (9, LAST), (10, REFUSED)])
def test_calls_are_limited_like_dollars(calls: int, kind: Kind) -> None:
    ten = replace(A_DOLLAR, measure=Measure.CALLS, amount=10)
    assert decide(Standing(ten, DAY, Spend(calls=calls), kept=PLACE)).kind is kind


@pytest.mark.parametrize(
    ("tokens", "kind"), [(0, NORMAL), (78_000, NORMAL), (78_001, LAST), (90_000, REFUSED)]
)
def test_tokens_are_limited_like_dollars(tokens: int, kind: Kind) -> None:
    """11,000 tokens a call, 100,000 a day; at 90,000 the prompt alone takes what is left."""
    limit = replace(A_DOLLAR, measure=Measure.TOKENS, amount=100_000)
    assert decide(Standing(limit, DAY, Spend(tokens=tokens), kept=PLACE)).kind is kind


@pytest.mark.case("A24", "A09")
def test_a_call_that_costs_nothing_is_held_only_by_calls_and_tokens() -> None:
    free = Expected(10_000, 0, 1_000, 0, 65_536)
    assert decide(standing(100), expected=free).kind is NORMAL
    tokens = replace(A_DOLLAR, measure=Measure.TOKENS, amount=10_000)
    assert decide(Standing(tokens, DAY, Spend()), expected=free).kind is REFUSED


# ---------------------------------------------------------------------- several limits, estimates


def test_the_limit_that_binds_is_named() -> None:
    month = replace(A_DOLLAR, window=Window.MONTHLY, amount=2_000 * CENT)
    both = (standing(99), Standing(month, DAY, Spend(99 * CENT)))
    answer = decide(*both)
    assert answer.kind is REFUSED
    assert answer.verdict is not None
    assert answer.verdict.limit is A_DOLLAR
    assert (answer.verdict.blocks, answer.verdict.nothing_fits) == (True, True)
    reached = decide(standing(100)).verdict
    assert reached is not None
    assert not reached.nothing_fits


@pytest.mark.case("A26", "T21")
def test_a_limit_of_nothing_admits_nothing_not_even_what_is_free() -> None:
    nothing = replace(A_DOLLAR, amount=0)
    assert decide(Standing(nothing, DAY, Spend()), expected=Expected()).kind is REFUSED


@pytest.mark.case("T02")
@pytest.mark.parametrize(
    ("mode", "kind"), [(OnEstimated.WARN_ONLY, NORMAL), (OnEstimated.ENFORCE, REFUSED)]
)
def test_guesses_count_under_enforce_and_reservations_always(mode: OnEstimated, kind: Kind) -> None:
    guessed = standing()._replace(spend=Spend(50 * CENT, 50 * CENT))
    assert decide(guessed, on_estimated=mode).kind is kind
    assert decide(standing(50, reserved=50), on_estimated=mode).kind is REFUSED


def test_a_hard_threshold_below_one_is_the_limit() -> None:
    ninety = Thresholds(hard=0.9)
    assert room_under(standing(50), ninety, OnEstimated.WARN_ONLY) == 40 * CENT
    assert decide(standing(80), expected=WITHOUT_CAP, hard=0.9).kind is NORMAL
    assert decide(standing(80.1), expected=WITHOUT_CAP, hard=0.9).kind is LAST


def test_without_a_limit_everything_is_normal() -> None:
    assert decide() == Admission(NORMAL, held=PLACE, keeps=PLACE)


def test_held_amounts_are_sums() -> None:
    one = Held(1, 2, 3)
    assert (one + one, one - one, one.times(3)) == (Held(2, 4, 6), Held(), Held(3, 6, 9))
    assert [one.of(measure) for measure in Measure] == [1, 2, 3]

"""Admission, played: runs that never stop, in any order, with answers that come when they like.

`Play` is the ledger and the engine in a few lines: what is spent, reserved and kept for the ends of
open runs. Every model here asks for tools for ever; only the gate ends a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from budget_plugin.policy.admission import (
    NOTHING_HELD,
    Admission,
    Expected,
    Held,
    Kind,
    Standing,
    admit,
)
from budget_plugin.policy.expectation import SettledCall, TokenPrices, expect, size_of
from budget_plugin.policy.limits import Limit, Measure, OnEstimated, Scope, Thresholds
from budget_plugin.policy.verdicts import Spend
from budget_plugin.policy.windows import Window, period

PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""A busy machine is no failure."""

USD = 1_000_000_000
CENT = USD // 100
DAY = period(Window.DAILY, 1_796_126_400_000, ZoneInfo("UTC"))
SONNET = TokenPrices(input_picos=3_000_000, output_picos=15_000_000)
USUAL = Thresholds()


@dataclass
class Run:
    """One run and what it still has to pay."""

    reserved: Held = NOTHING_HELD
    keeps: Held = NOTHING_HELD
    in_flight: Admission | None = None
    closing: bool = False
    last_answers: int = 0
    admitted: int = 0
    refused: bool = False


@dataclass
class Play:
    """Runs that share one limit."""

    limit: Limit
    runs: list[Run]
    wrap_ups: int = 1
    spent: Spend = field(default_factory=Spend)

    def ask(self, run: Run, expected: Expected) -> Admission | None:
        """The run wants one more call; `None` when it was told before that there is none."""
        if run.closing and run.last_answers >= self.wrap_ups:
            run.refused, run.keeps = True, NOTHING_HELD
            return None
        answer = admit(
            [self._standing(run)],
            expected,
            last_answers=self.wrap_ups - run.last_answers,
            closing=run.closing,
            thresholds=USUAL,
            on_estimated=OnEstimated.WARN_ONLY,
        )
        run.closing |= answer.kind is Kind.LAST
        run.last_answers += answer.kind is Kind.LAST
        if answer.kind is Kind.REFUSED:
            run.refused, run.keeps = True, NOTHING_HELD
            return answer
        run.reserved, run.keeps, run.in_flight = answer.held, answer.keeps, answer
        run.admitted += 1
        return answer

    def settle(self, run: Run, cost: Held) -> None:
        """The answer has come; the ledger has its row."""
        self.spent += Spend(cost.nanos, 0, cost.tokens, 1)
        run.reserved, run.in_flight = NOTHING_HELD, None

    def _standing(self, run: Run) -> Standing:
        others = [other for other in self.runs if other is not run]
        reserved = sum((other.reserved for other in others), NOTHING_HELD)
        kept = sum((other.keeps for other in others), NOTHING_HELD)
        return Standing(self.limit, DAY, self.spent, reserved, kept, run.keeps)

    @property
    def at_stake(self) -> int:
        """Spent and set aside, in the limit's own unit."""
        measure = self.limit.measure
        reserved = sum((run.reserved for run in self.runs), NOTHING_HELD)
        counted = {Measure.USD: self.spent.nanos, Measure.TOKENS: self.spent.tokens}
        return counted.get(measure, self.spent.calls) + reserved.of(measure)

    def open_runs(self) -> list[Run]:
        return [run for run in self.runs if not run.refused]


def usd_limit(nanos: int) -> Limit:
    return Limit(Scope.GLOBAL, "", Window.DAILY, Measure.USD, nanos)


# ---------------------------------------------------------------------- any interleaving

runs_at_once = st.integers(1, 6)
orders = st.lists(st.integers(0, 5), min_size=40, max_size=300)
expectations = st.builds(
    Expected,
    prompt_tokens=st.integers(1, 20_000),
    input_nanos=st.integers(0, 6 * CENT),
    output_tokens=st.integers(1, 4_000),
    output_picos=st.sampled_from((0, 2_000_000, 15_000_000)),
    max_tokens=st.none() | st.sampled_from((512, 4_096, 65_536)),
    growth_tokens=st.integers(0, 2_000),
    growth_nanos=st.integers(0, CENT),
).map(lambda e: replace(e, output_tokens=min(e.output_tokens, e.max_tokens or e.output_tokens)))
all_limits = st.builds(
    Limit,
    st.just(Scope.GLOBAL),
    st.just(""),
    st.just(Window.DAILY),
    st.just(Measure.USD),
    st.integers(0, 2 * USD),
) | st.sampled_from(
    (
        Limit(Scope.GLOBAL, "", Window.DAILY, Measure.TOKENS, 150_000),
        Limit(Scope.GLOBAL, "", Window.DAILY, Measure.CALLS, 12),
    )
)


@PATIENT
@given(all_limits, runs_at_once, orders, st.data())
def test_what_is_admitted_never_adds_up_to_more_than_the_limit(
    limit: Limit, count: int, order: list[int], data: st.DataObject
) -> None:
    play = Play(limit, [Run() for _ in range(count)])
    for run in turns(play, order):
        if run.in_flight is not None:
            play.settle(run, run.in_flight.held)  # it costs what was expected of it
        else:
            play.ask(run, data.draw(expectations))
        assert play.at_stake <= limit.amount


@PATIENT
@given(expectations, st.integers(0, 2 * USD), st.integers(0, USD), st.integers(0, USD))
def test_nothing_is_admitted_that_does_not_fit(
    expected: Expected, amount: int, spent: int, reserved: int
) -> None:
    place = Held(1, 1, 1)
    standing = Standing(usd_limit(amount), DAY, Spend(spent), Held(reserved), kept=place)
    answer = decided(standing, expected)
    if answer.kind is not Kind.REFUSED:
        assert spent + reserved + answer.held.nanos <= amount
        longest = answer.output_cap or answer.held.tokens - expected.prompt_tokens
        assert spent + reserved + expected.with_output(longest).nanos <= amount


@PATIENT
@given(expectations, st.integers(1, USD), st.integers(0, USD), st.integers(0, USD // 10))
def test_less_spent_is_never_answered_more_strictly(
    expected: Expected, amount: int, spent: int, less: int
) -> None:
    order = [Kind.NORMAL, Kind.LAST, Kind.REFUSED]
    fuller, emptier = (
        decided(Standing(usd_limit(amount), DAY, Spend(max(0, s)), kept=Held(1, 1, 1)), expected)
        for s in (spent, spent - less)
    )
    assert order.index(emptier.kind) <= order.index(fuller.kind)


constant = st.builds(
    Expected,
    prompt_tokens=st.just(10_000),
    input_nanos=st.integers(CENT // 10, 6 * CENT),
    output_tokens=st.integers(100, 3_000),
    output_picos=st.just(15_000_000),
    max_tokens=st.sampled_from((None, 65_536)),
)


@settings(PATIENT, max_examples=200)
@given(constant, st.integers(1, 4), orders, st.integers(1, 3), st.integers(0, 40))
def test_every_run_that_was_admitted_once_has_its_last_answers(
    expected: Expected, count: int, order: list[int], wrap_ups: int, late: int
) -> None:
    """Costs are constant: each admitted run is told to finish and gets as many answers for it."""
    limit = usd_limit(wrap_ups * USD)  # what four others keep stays below half of it
    play = Play(limit, [Run() for _ in range(count)], wrap_ups)
    for run in turns(play, order):
        step(play, run, expected)
        late -= 1
        if late == 0:
            play.runs.append(Run())  # asks for its first call when the others are under way
            step(play, play.runs[-1], expected)
    while play.open_runs():
        for run in play.open_runs():
            step(play, run, expected)
    for run in play.runs:
        assert run.last_answers == (wrap_ups if run.admitted else 0) or first_was_last(run)
    assert play.spent.nanos <= limit.amount


def first_was_last(run: Run) -> bool:
    """It came so late that its first call was its last answer, and no second one was left."""
    return run.last_answers == run.admitted


@PATIENT
@given(constant, st.integers(1, 4), orders)
def test_all_but_two_calls_of_the_limit_are_used(
    expected: Expected, count: int, order: list[int]
) -> None:
    play = Play(usd_limit(USD), [Run() for _ in range(count)])
    for run in turns(play, order):
        step(play, run, expected)
    while play.open_runs():
        for run in play.open_runs():
            step(play, run, expected)
    assert play.spent.nanos >= USD - 2 * expected.held.nanos


def turns(play: Play, order: list[int]) -> Iterator[Run]:
    """The runs whose turn it is, as long as they are open."""
    for number in order:
        run = play.runs[number % len(play.runs)]
        if not run.refused:
            yield run


def step(play: Play, run: Run, expected: Expected) -> None:
    if run.in_flight is not None:
        play.settle(run, run.in_flight.held)
    else:
        play.ask(run, expected)


def decided(standing: Standing, expected: Expected) -> Admission:
    return admit(
        [standing],
        expected,
        last_answers=1,
        closing=False,
        thresholds=USUAL,
        on_estimated=OnEstimated.WARN_ONLY,
    )


# ---------------------------------------------------------------------- one run of the host


@dataclass
class Provider:
    """Bills a run whose prompt grows: `cached` is the share of a known prompt read cheaply."""

    tokens: int
    growth: int
    answer: int
    cached: float = 0.0
    bytes_per_token: float = 4.0
    known: int = 0

    def size(self) -> int:
        return round(self.tokens * self.bytes_per_token)

    def bill(self, cap: int | None) -> tuple[Held, int]:
        """What the call used, and what of it was the prompt's, in nano-dollars."""
        cheap = round(min(self.known, self.tokens) * self.cached)
        prompt = (self.tokens - cheap) * 3_000 + cheap * 300
        answer = min(self.answer, cap or self.answer)
        used = Held(prompt + answer * 15_000, self.tokens + answer, 1)
        self.known, self.tokens = self.tokens, self.tokens + self.growth
        return used, prompt


@dataclass
class Outcome:
    spent: int
    dearest: int
    last_answers: int


def played(provider: Provider, *, limit: int = USD, max_tokens: int | None = 65_536) -> Outcome:
    """One run with a model that never stops, until the gate ends it."""
    run, now_s, dearest = Run(), 0.0, 0
    settled: SettledCall | None = None
    outputs: list[int] = []
    play = Play(usd_limit(limit), [run])
    while not run.refused:
        size, prompt_tokens = provider.size(), provider.tokens
        answer = play.ask(run, expect(size, max_tokens, SONNET, outputs, settled, now_s))
        if answer is None or answer.kind is Kind.REFUSED:
            break
        used, prompt_nanos = provider.bill(answer.output_cap)
        play.settle(run, used)
        now_s += 10
        settled = SettledCall(size, prompt_tokens, prompt_nanos, now_s)
        outputs.append(used.tokens - prompt_tokens)
        dearest = max(dearest, used.nanos)
    return Outcome(play.spent.nanos, dearest, run.last_answers)


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 2_000_000}}


@pytest.mark.parametrize(
    ("provider", "limit"),
    [
        (Provider(1_000, 0, 300), USD),  # 0.75 cents a call
        (Provider(5_000, 0, 700), USD),  # 2.55 cents
        (Provider(9_000, 0, 800), USD),  # 3.9 cents
        (Provider(500, 0, 2_200), USD),  # 3.45 cents, nearly all of it the answer
        (Provider(1_000, 130, 300), USD),  # grows from 0.75 cents to more than 3
        (Provider(1_000, 130, 120), USD),
        (Provider(9_000, 0, 800, bytes_per_token=2.5), USD),  # dense text, many tokens a byte
        (Provider(9_000, 0, 800, bytes_per_token=6.0), USD),
    ],
    ids=str,
)
@pytest.mark.parametrize("max_tokens", [None, 4_096])
def test_calls_of_four_percent_are_not_refused_below_ninety(
    provider: Provider, limit: int, max_tokens: int | None
) -> None:
    outcome = played(provider, max_tokens=max_tokens, limit=limit)
    assert outcome.dearest <= 0.04 * limit
    assert 0.9 * limit <= outcome.spent <= limit
    assert outcome.last_answers == 1


def test_a_prompt_that_is_read_from_the_cache_does_not_close_the_gate_early() -> None:
    """60,000 tokens, nine tenths cached: $0.18 at first, then $0.039 a call; the limit is $5.

    At the full price each would seem to cost $0.18, and the gate would close with $0.36 left.
    """
    outcome = played(Provider(60_000, 0, 300, cached=0.9), limit=5 * USD)
    assert outcome.spent >= 5 * USD - 3 * 4 * CENT
    assert outcome.last_answers == 1


def test_max_tokens_65536_does_not_close_the_gate_early() -> None:
    """An answer of that length would cost $0.98 of the $1.00; each costs 0.45 cents."""
    outcome = played(Provider(1_000, 0, 300), max_tokens=65_536)
    assert outcome.spent >= USD - 2 * outcome.dearest


def test_an_image_does_not_close_the_gate_early() -> None:
    """2,000,000 characters of base64 would be $1.50 as text; the image costs 0.45 cents."""
    request = {"messages": [{"role": "user", "content": [IMAGE]}]}
    expected = expect(size_of(request), 65_536, SONNET, [300], None, 0.0)
    assert expected.input_nanos < 0.46 * CENT
    assert decided(Standing(usd_limit(USD), DAY, Spend(95 * CENT)), expected).kind is Kind.NORMAL

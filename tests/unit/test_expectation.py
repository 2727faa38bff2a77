"""What a call is expected to use: at first from its size, then from what the run's last one used.

The test price is claude-sonnet-4-5's: $3 in and $15 out per million tokens, which is 3,000 and
15,000 nano-dollars (3,000,000 and 15,000,000 pico-dollars) a token.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from budget_plugin.policy.admission import Expected, Held
from budget_plugin.policy.expectation import (
    CACHE_LIFETIME_S,
    IMAGE_TOKENS,
    OUTPUT_PRIOR_TOKENS,
    SettledCall,
    TokenPrices,
    expect,
    expected_output,
    following,
    size_of,
)

SONNET = TokenPrices(input_picos=3_000_000, output_picos=15_000_000)
FREE = TokenPrices()
# 40,000 bytes were 8,000 tokens and cost $0.024: five bytes to a token, nothing cached.
SETTLED = SettledCall(size=40_000, prompt_tokens=8_000, input_nanos=24_000_000, at_s=100.0)


def expected(
    size: int,
    last: SettledCall | None = SETTLED,
    *,
    now_s: float = 110.0,
    prices: TokenPrices = SONNET,
) -> Expected:
    return expect(size, 65_536, prices, (), last, now_s)


def test_the_first_call_is_sized_from_its_bytes_at_the_full_price() -> None:
    """40,000 bytes / 4 + 1 = 10,001 tokens at 3,000 nano-dollars; 1,000 tokens of answer."""
    first = expected(40_000, None)
    assert (first.prompt_tokens, first.input_nanos) == (10_001, 30_003_000)
    assert first.output_tokens == OUTPUT_PRIOR_TOKENS
    assert first.held == Held(30_003_000 + 15_000_000, 11_001, 1)


def test_the_next_call_knows_how_many_bytes_make_a_token() -> None:
    """50,000 bytes × 8,000 / 40,000 × 1.02 = 10,200 tokens: 2,200 more than last time."""
    call = expected(50_000)
    assert call.prompt_tokens == 10_200
    assert call.input_nanos == 24_000_000 + 2_200 * 3_000


@pytest.mark.case("T14")
def test_a_cached_prompt_is_not_priced_as_fresh() -> None:
    """90 % cache reads at a tenth: 8,000 tokens cost 800 × 3,000 + 7,200 × 300 = 4,560,000."""
    cached = replace(SETTLED, input_nanos=4_560_000)
    call = expected(40_000, cached)  # 8,000 × 1.02 = 8,160 tokens, of which 160 are new
    assert call.input_nanos == 4_560_000 + 160 * 3_000


def test_a_cache_that_has_lapsed_is_paid_for_again() -> None:
    cached = replace(SETTLED, input_nanos=4_560_000)
    later = expected(40_000, cached, now_s=cached.at_s + CACHE_LIFETIME_S + 1)
    assert later.input_nanos == 8_160 * 3_000


def test_a_prompt_that_was_compressed_costs_its_share() -> None:
    """20,000 bytes are 4,080 tokens: 51 % of what cost $0.024."""
    assert expected(20_000).input_nanos == 12_240_000


def test_the_call_after_it_grows_as_this_one_has_grown() -> None:
    call = expected(50_000)
    assert call.growth_tokens == 2_200
    assert call.next_held.nanos - call.held.nanos == 2_200 * 3_000
    assert call.next_held.tokens - call.held.tokens == 2_200
    first = expected(40_000, None)
    assert first.next_held == first.held  # nothing is known of its growth
    assert expected(20_000).growth_tokens == 0


def test_a_call_without_usage_teaches_nothing() -> None:
    blank = SettledCall(size=40_000, prompt_tokens=0, input_nanos=0, at_s=100.0)
    assert expected(40_000, blank) == expected(40_000, None)


def test_a_free_call_costs_nothing_but_has_its_tokens() -> None:
    assert expected(40_000, None, prices=FREE).held == Held(0, 11_001, 1)


def test_a_fraction_of_a_nano_dollar_counts_as_a_whole_one() -> None:
    deepseek = TokenPrices(input_picos=140_500, output_picos=280_300)  # 140.5 nanos a token
    call = expect(3, None, deepseek, [1], None, 0.0)  # 1 token in, 2 out
    assert call.held == Held(141 + 561, 3, 1)


@pytest.mark.parametrize(
    ("outputs", "tokens"),
    [
        ([], 1_000),
        ([200], 300),  # half as much again
        ([200, 100], 250),  # a quarter
        ([200] * 4, 225),  # an eighth
        ([200] * 7, 215),  # 1/14
        ([200] * 8, 200),
        ([*range(1, 101)], 95),  # the 95th percentile
        ([100] * 19 + [9_000], 100),
        ([100] * 18 + [9_000] * 2, 9_000),
    ],
)
def test_the_expected_answer(outputs: list[int], tokens: int) -> None:
    assert expected_output(outputs) == tokens


def test_the_longest_answer_bounds_the_expected_one_and_does_not_replace_it() -> None:
    short, unbounded, long = (
        expect(4, most, SONNET, (), None, 0.0) for most in (256, None, 65_536)
    )
    assert (short.output_tokens, short.max_tokens) == (256, 256)
    assert (unbounded.output_tokens, long.output_tokens) == (1_000, 1_000)


def test_the_next_request_is_this_one_and_its_answer() -> None:
    """500 tokens of answer at five bytes a token."""
    assert following(SETTLED, 500) == 42_500
    assert following(replace(SETTLED, prompt_tokens=0), 500) == 40_000


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ("four", 4),
        ("größe", 7),  # bytes, not characters
        ("\ud800", 1),  # half a pair counts as the question mark it becomes
        (["ab", ("c", "d")], 4),
        ({"role": "user"}, 4 + 4 + 4),  # key, punctuation, value
        (7, 0),
        (None, 0),
        (True, 0),
    ],
)
def test_the_size_of_a_request_is_that_of_its_strings(value: object, size: int) -> None:
    assert size_of(value) == size


@pytest.mark.parametrize(
    "image",
    [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 2_000_000}},
        {"type": "input_image", "image_url": "data:image/png;base64," + "A" * 2_000_000},
        {"type": "image", "source": {"type": "base64", "data": "A" * 2_000_000}},
    ],
)
def test_an_image_has_a_flat_size_whatever_its_text(image: dict[str, object]) -> None:
    message = {"role": "user", "content": [{"type": "text", "text": "look"}, image]}
    assert size_of(image) == IMAGE_TOKENS * 4
    assert size_of(message) < IMAGE_TOKENS * 4 + 100

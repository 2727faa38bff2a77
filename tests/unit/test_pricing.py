"""What a call costs, and which row says so. Each expected amount shows its arithmetic."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from budget_plugin.policy.events import Cost, CostSource, Usage
from budget_plugin.policy.prices.price_rows import (
    FIELDS,
    SERVICE_TIERS,
    PriceError,
    PriceRow,
    read_row,
)
from budget_plugin.policy.prices.pricing import (
    LOWER_BOUND,
    PROVIDER_ZERO,
    UPPER_BOUND,
    PriceTable,
    price_call,
    rates,
)
from budget_plugin.policy.prices.usage import estimate_usage, read_usage

NOW_MS = 1_796_000_000_000  # 2026-11-30
PROVIDER, PRICING = CostSource.PROVIDER, CostSource.PRICING
INCLUDED, FREE, UNPRICED = CostSource.INCLUDED, CostSource.FREE, CostSource.UNPRICED


def row(key: str, **fields: Any) -> PriceRow:
    """A row as a file would give it: numbers exact."""
    return read_row(key, {name: exact(value) for name, value in fields.items()})


def exact(value: Any) -> Any:
    if isinstance(value, float):
        return Decimal(str(value))
    if isinstance(value, dict):
        return {name: exact(each) for name, each in value.items()}
    if isinstance(value, list):
        return [exact(each) for each in value]
    return value


def usd(text: str) -> int:
    """Nano-dollars of an amount written in dollars."""
    nanos = Decimal(text) * 1_000_000_000
    assert nanos == int(nanos), "an expectation must be exact"
    return int(nanos)


S = row("anthropic/claude-sonnet-4-5", input=3, output=15, cache_read=0.30, cache_write=3.75)
S_WITH_1H = row(
    "anthropic/claude-sonnet-4-5",
    input=3,
    output=15,
    cache_read=0.30,
    cache_write=3.75,
    cache_write_1h=6,
)
M = row(
    "openai/gpt-5-mini",
    input=0.25,
    output=2,
    cache_read=0.025,
    flex={"input": 0.125, "output": 1, "cache_read": 0.0125},
)
G5 = row("openai/gpt-5", input=1.25, output=10, cache_read=0.125)
NANO = row("openai/gpt-5-nano", input=0.05, output=0.40, cache_read=0.005)
F4 = row("openai/gpt-4o", input=2.50, output=10, cache_read=1.25)
GP = row(
    "google/gemini-2.5-pro",
    input=1.25,
    output=10,
    cache_read=0.125,
    tiers=[{"above": 200_000, "input": 2.50, "output": 15, "cache_read": 0.25}],
)
X = row(
    "openai/gpt-5.5",
    input=5,
    output=30,
    cache_read=0.50,
    tiers=[{"above": 272_000, "input": 10, "output": 45, "cache_read": 1.00}],
)
D = row("deepseek/deepseek-v4-flash", input=0.14, output=0.28, cache_read=0.0028)
ONE_FIVE = row("one-five", input=1, output=5)
TABLE = PriceTable(user=[S, M, G5, NANO, F4, GP, X, D, ONE_FIVE])


def price(provider: str, model: str, usage: Usage, table: PriceTable = TABLE, **more: Any) -> Cost:
    return price_call(
        table, provider=provider, model=model, usage=usage, **{"at_ms": NOW_MS, **more}
    )


# ---------------------------------------------------------------- tokens and rates


@pytest.mark.parametrize(
    ("provider", "model", "usage", "expected"),
    [
        pytest.param(
            *("anthropic", "claude-sonnet-4-5", Usage(5, 600, 0, 10_000), "0.046515"),
            # 5 x 3 + 10,000 x 3.75 + 600 x 15 = 15 + 37,500 + 9,000
            marks=pytest.mark.case("A01"),
            id="cache writes once",
        ),
        pytest.param(
            *("openai", "gpt-5", Usage(20_000, 2400, reasoning_tokens=2300), "0.049"),
            # 20,000 x 1.25 + 2,400 x 10 = 25,000 + 24,000
            marks=pytest.mark.case("A04"),
            id="reasoning inside output",
        ),
        pytest.param(
            *("openai", "gpt-5", Usage(0, 1_000_000, reasoning_tokens=900_000), "10"),
            marks=pytest.mark.case("T03"),
            id="reasoning inside output, a million",
        ),
        pytest.param(
            *("google", "gemini-2.5-pro", Usage(240_000, 2000, 20_000), "0.635"),
            # above 200,000: 240,000 x 2.5 + 20,000 x 0.25 + 2,000 x 15 = 600,000 + 5,000 + 30,000
            marks=pytest.mark.case("A11"),
            id="a tier prices the whole request",
        ),
        pytest.param(
            *("openai", "gpt-5.5", Usage(268_000, 1000, 9000), "2.734"),
            # prompt 277,000: 268,000 x 10 + 9,000 x 1 + 1,000 x 45
            marks=pytest.mark.case("A12"),
            id="cache reads count toward the threshold",
        ),
        pytest.param(
            *("google", "gemini-2.5-pro", Usage(92_000, 500), "0.12"),
            # 92,000 x 1.25 + 500 x 10 = 115,000 + 5,000: ten of these are 1.20, not 2.375
            marks=pytest.mark.case("A13"),
            id="the threshold is per request",
        ),
        pytest.param(
            *("deepseek", "deepseek-v4-flash", Usage(12_000, 350, 11_000), "0.0018088"),
            # 12,000 x 0.14 + 11,000 x 0.0028 + 350 x 0.28 = 1,680 + 30.8 + 98: a thousand 1.8088
            marks=pytest.mark.case("A22"),
            id="parts of a cent",
        ),
        pytest.param(
            "google", "gemini-2.5-pro", Usage(200_000, 0), "0.25", id="at the threshold: below it"
        ),
        pytest.param(
            "google", "gemini-2.5-pro", Usage(200_001, 0), "0.5000025", id="one token above it"
        ),
        pytest.param("openai", "gpt-5", Usage(), "0", id="no tokens"),
    ],
)
def test_cost(provider: str, model: str, usage: Usage, expected: str) -> None:
    cost = price(provider, model, usage)
    assert cost.nanos == usd(expected)
    assert cost.source is PRICING
    assert not cost.estimated
    assert cost.flags == ()


@pytest.mark.case("A13")
def test_ten_requests_below_the_threshold_stay_below_it() -> None:
    costs = [price("google", "gemini-2.5-pro", Usage(92_000, 500)).nanos for _ in range(10)]
    assert sum(nanos or 0 for nanos in costs) == usd("1.20")


@pytest.mark.case("A22")
def test_a_thousand_parts_of_a_cent_add_up() -> None:
    cost = price("deepseek", "deepseek-v4-flash", Usage(12_000, 350, 11_000))
    assert cost.nanos is not None
    assert cost.nanos * 1000 == usd("1.8088")


@pytest.mark.case("A20")
def test_each_call_has_the_price_of_the_model_that_made_it() -> None:
    first = price("anthropic", "claude-sonnet-4-5", Usage(10_000, 1000))
    second = price("openai", "gpt-5.5", Usage(10_000, 1000))
    assert (first.nanos, second.nanos) == (usd("0.045"), usd("0.080"))
    assert (first.price_id, second.price_id) == (S.key, X.key)


def test_half_a_nano_is_rounded_up_once_at_the_end() -> None:
    tiny = PriceTable(user=[row("tiny", input=0.0005, output=0.0001)])  # 500 and 100 picos a token
    assert price("", "tiny", Usage(1, 0), tiny).nanos == 1
    assert price("", "tiny", Usage(0, 4), tiny).nanos == 0
    assert price("", "tiny", Usage(1, 5), tiny).nanos == 1  # 1,000 picos, not 0.5 up and 0.5 up


def test_a_bucket_without_a_price_has_the_input_rate() -> None:
    table = PriceTable(user=[row("plain", input=1, output=5)])
    assert price("", "plain", Usage(0, 0, 1_000_000), table).nanos == usd("1")
    written = price("", "plain", Usage(0, 0, 0, 1_000_000), table)
    assert (written.nanos, written.flags) == (usd("1"), (LOWER_BOUND,))


@pytest.mark.case("A25")
def test_cache_writes_of_both_durations() -> None:
    table = PriceTable(user=[S_WITH_1H])
    split = {
        "input_tokens": 1000,
        "cache_creation_input_tokens": 10_000,
        "cache_creation": {
            "ephemeral_5m_input_tokens": 4000,
            "ephemeral_1h_input_tokens": 6000,
        },
        "output_tokens": 200,
    }
    merged = {"input_tokens": 1000, "cache_write_tokens": 10_000, "output_tokens": 200}
    for raw, expected, flags in (
        # 1,000 x 3 + 4,000 x 3.75 + 6,000 x 6 + 200 x 15 = 3,000 + 15,000 + 36,000 + 3,000
        (split, "0.057", ()),
        # all 10,000 at the short rate: 3,000 + 37,500 + 3,000
        (merged | {"request_count": 1}, "0.0435", ("merged_cache_write", LOWER_BOUND)),
    ):
        report = read_usage(raw)
        assert report.usage is not None
        cost = price("anthropic", "claude-sonnet-4-5", report.usage, table, flags=report.flags)
        assert (cost.nanos, cost.flags) == (usd(expected), flags)


@pytest.mark.case("A25")
def test_merged_cache_writes_are_exact_where_one_price_holds_for_both() -> None:
    cost = price(
        "anthropic", "claude-sonnet-4-5", Usage(0, 0, 0, 10_000), flags=("merged_cache_write",)
    )
    assert LOWER_BOUND not in cost.flags


# ---------------------------------------------------------------- service tiers


@pytest.mark.case("A19")
@pytest.mark.parametrize(
    ("answered", "expected", "tier", "flags"),
    [
        # 1,000 x 0.125 + 1,000 x 0.0125 + 500 x 1 = 637.5
        ("flex", "0.0006375", "flex", ()),
        # 1,000 x 0.25 + 1,000 x 0.025 + 500 x 2 = 1,275
        ("default", "0.001275", "", ()),
        ("", "0.001275", "", ()),
        ("priority", "0.001275", "", (LOWER_BOUND,)),
        ("fast", "0.001275", "", (LOWER_BOUND,)),
        ("batch", "0.001275", "", (UPPER_BOUND,)),
        (" FLEX ", "0.0006375", "flex", ()),
    ],
)
def test_the_tier_of_the_response_decides(
    answered: str, expected: str, tier: str, flags: tuple[str, ...]
) -> None:
    cost = price("openai", "gpt-5-mini", Usage(1000, 500, 1000), service_tier=answered)
    assert (cost.nanos, cost.tier, cost.flags) == (usd(expected), tier, flags)


def test_a_service_tier_has_prompt_tiers_of_its_own_or_none() -> None:
    table = PriceTable(
        user=[
            row(
                "model",
                input=1,
                output=4,
                tiers=[{"above": 1000, "input": 2}],
                flex={"input": 0.5, "output": 2, "tiers": [{"above": 1000, "output": 3}]},
                priority={"input": 10},
            )
        ]
    )
    cases = (
        ("", 2000 * 2000 + 4000, ">1000"),  # what a tier does not name comes from the block
        ("flex", 2000 * 500 + 3000, "flex >1000"),
        ("priority", 2000 * 10_000 + 4000, "priority"),  # and of a block from the standard
    )
    for service, nanos, tier in cases:
        cost = price("", "model", Usage(2000, 1), table, service_tier=service)
        assert (cost.nanos, cost.tier) == (nanos, tier)


def test_the_highest_threshold_below_the_prompt_holds() -> None:
    tiers = [{"above": 300, "input": 3}, {"above": 200, "input": 2}]
    table = PriceTable(user=[row("m", input=1, output=0, tiers=tiers)])
    paid = {size: price("", "m", Usage(size), table).nanos for size in (200, 201, 300, 301)}
    assert paid == {200: 200_000, 201: 402_000, 300: 600_000, 301: 903_000}


def test_a_block_without_a_cache_price_has_its_own_input_rate() -> None:
    """Nothing is inherited that the standard does not list, either."""
    table = PriceTable(
        user=[
            row(
                "m",
                input=1,
                output=1,
                cache_write=2,
                tiers=[{"above": 1000, "cache_write": 4}],
                flex={"input": 0.5},
            )
        ]
    )
    flex = price("", "m", Usage(0, 0, 1000), table, service_tier="flex")
    assert flex.nanos == 1000 * 500
    assert price("", "m", Usage(0, 0, 0, 0, 2000), table).nanos == 2000 * 4000


def test_rates_for_an_expectation() -> None:
    small, large = rates(GP, 200_000), rates(GP, 200_001)
    assert (small.input, small.output, small.cache_read) == (1_250_000, 10_000_000, 125_000)
    assert (large.input, large.output, large.cache_read) == (2_500_000, 15_000_000, 250_000)
    assert rates(M, 10, "flex").input == 125_000
    assert rates(M, 10, "priority") == rates(M, 10)


# ---------------------------------------------------------------- which row


@pytest.mark.case("A06", "T05")
@pytest.mark.parametrize(
    ("provider", "model", "key"),
    [
        ("openai", "gpt-5-mini-2025-08-07", "openai/gpt-5-mini"),
        ("openai", "gpt-5-mini", "openai/gpt-5-mini"),
        ("openrouter", "openai/gpt-5-nano", "openai/gpt-5-nano"),
        ("openai", "openai/gpt-5-nano", "openai/gpt-5-nano"),
        ("openai", "gpt-5.4-nano", None),
        ("openai", "gpt-5.4-mini", None),
        ("openai", "gpt-5-pro", None),
        ("openai", "gpt-4.1-nano", None),
        ("openai", "gpt-4", None),
        ("openai", "gpt", None),
        ("openai", "gpt-5-mini-2025", None),
        ("openai", "gpt-5-mini-20251399", None),
        ("openai", "my-gpt-5", None),
    ],
)
def test_never_a_family_prefix(provider: str, model: str, key: str | None) -> None:
    found = TABLE.find(provider, model, NOW_MS)
    assert (found.key if found else None) == key


@pytest.mark.case("A06")
def test_the_small_model_has_the_small_price() -> None:
    # 100,000 x 0.25 + 10,000 x 2 = 25,000 + 20,000; at the price of gpt-5 it would be 0.225
    cost = price("openai", "gpt-5-mini-2025-08-07", Usage(100_000, 10_000))
    assert cost.nanos == usd("0.045")
    assert price("openai", "gpt-5.4-nano", Usage(100_000, 10_000)).source is UNPRICED


SONNET_SPELLINGS = [
    ("anthropic", "claude-sonnet-4-5"),
    ("anthropic", "claude-sonnet-4-5-20250929"),
    ("anthropic", "Claude-Sonnet-4-5"),
    ("anthropic", " claude-sonnet-4.5 "),
    ("anthropic", "anthropic/claude-sonnet-4.5"),
    ("openrouter", "anthropic/claude-sonnet-4.5"),
    ("openrouter", "openrouter/anthropic/claude-sonnet-4.5"),
    ("", "openrouter/anthropic/claude-sonnet-4.5"),
    ("", "anthropic/claude-sonnet-4.5"),
    ("bedrock", "anthropic.claude-sonnet-4-5-20250929-v1:0"),
    ("bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0"),
    ("bedrock", "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"),
    ("bedrock", "global.anthropic.claude-sonnet-4-5-20250929-v1:0"),
    ("bedrock", "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0"),
    ("aws", "us.anthropic.claude-sonnet-4-5-20250929-v1:0"),
    ("", "us.anthropic.claude-sonnet-4-5-20250929-v1:0"),
    (
        "bedrock",
        "arn:aws:bedrock:us-east-1:123456789012:inference-profile/"
        "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    ),
    ("vertex", "claude-sonnet-4-5@20250929"),
    ("vertex", "publishers/anthropic/models/claude-sonnet-4-5"),
    ("azure-foundry", "claude-sonnet-4-5"),
]


@pytest.mark.case("A07")
@pytest.mark.parametrize(("provider", "model"), SONNET_SPELLINGS)
def test_one_model_under_all_its_spellings(provider: str, model: str) -> None:
    cost = price(provider, model, Usage(1000, 100))
    assert cost.nanos == usd("0.0045")  # 1,000 x 3 + 100 x 15
    assert cost.price_id == "anthropic/claude-sonnet-4-5"


@pytest.mark.case("A07")
@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("gemini", "models/gemini-2.5-pro"),
        ("google", "google/gemini-2.5-pro"),
        ("vertex", "google/gemini-2.5-pro"),
        ("openrouter", "google/gemini-2.5-pro"),
        ("gemini", "gemini-2-5-pro"),
        ("", "google/gemini-2.5-pro"),
    ],
)
def test_gemini_under_its_spellings(provider: str, model: str) -> None:
    # 1,000 x 1.25 + 100 x 10 = 2,250
    assert price(provider, model, Usage(1000, 100)).nanos == usd("0.00225")


@pytest.mark.case("A07")
@pytest.mark.parametrize("region", ["us.", "eu.", "apac.", ""])
def test_a_regional_row_prices_the_regional_ids(region: str) -> None:
    regional = row("bedrock/anthropic.claude-sonnet-4-5", input=3.30, output=16.50)
    table = PriceTable(user=[S, regional])
    model = f"{region}anthropic.claude-sonnet-4-5-20250929-v1:0"
    cost = price("bedrock", model, Usage(1000, 100), table)
    assert (cost.nanos, cost.price_id) == (usd("0.00495"), regional.key)
    assert not cost.estimated


@pytest.mark.case("A07")
def test_a_global_id_does_not_have_the_regional_price() -> None:
    regional = row("bedrock/anthropic.claude-sonnet-4-5", input=3.30, output=16.50)
    table = PriceTable(user=[S, regional])
    model = "global.anthropic.claude-sonnet-4-5-20250929-v1:0"
    assert price("bedrock", model, Usage(1000, 100), table).nanos == usd("0.0045")


@pytest.mark.case("A08")
def test_another_seller_another_price() -> None:
    openrouter = row("openrouter/qwen3.6-plus", input=0.26, output=1.56)
    table = PriceTable(user=[openrouter])
    million = Usage(1_000_000)
    for model in ("qwen3.6-plus", "qwen/qwen3.6-plus"):
        assert price("openrouter", model, million, table).nanos == usd("0.26")
        assert price("nous", model, million, table) == Cost(None, UNPRICED)
    neutral = table.with_user([openrouter, row("qwen3.6-plus", input=0.40, output=2)])
    assert price("nous", "qwen/qwen3.6-plus", million, neutral).nanos == usd("0.40")
    assert price("openrouter", "qwen3.6-plus", million, neutral).nanos == usd("0.26")


def test_the_makers_price_through_another_seller_is_an_estimate() -> None:
    bundled = PriceTable(bundled=[S])
    for provider, estimated in (
        ("anthropic", False),
        ("openrouter", False),  # passes list prices on
        ("nous", True),
        ("custom", True),
        ("bedrock", True),
    ):
        model = "anthropic.claude-sonnet-4-5-v1:0" if provider == "bedrock" else S.key
        cost = price(provider, model, Usage(1000, 100), bundled)
        assert (cost.nanos, cost.estimated) == (usd("0.0045"), estimated)
    nameless = price("", S.key, Usage(10), bundled, base_url="https://proxy.example.com/v1")
    assert nameless.estimated


def test_a_key_written_like_the_model_holds_whoever_sells_it() -> None:
    table = PriceTable(user=[row("acme/large", input=1, output=2)])
    cost = price("nous", "acme/large", Usage(1_000_000), table)
    assert (cost.nanos, cost.estimated) == (usd("1"), False)


def test_the_endpoint_names_the_seller_before_the_provider_does() -> None:
    openrouter = row("openrouter/openai/gpt-5", input=9, output=9)
    table = PriceTable(user=[G5, openrouter])
    million = Usage(1_000_000)
    for base_url, expected in (
        ("https://openrouter.ai/api/v1", "9"),
        ("https://api.openai.com/v1", "1.25"),
        ("", "1.25"),
    ):
        cost = price("openai", "openai/gpt-5", million, table, base_url=base_url)
        assert cost.nanos == usd(expected)
    custom = price("custom", "gpt-5", million, table, base_url="https://api.openai.com/v1")
    assert custom.nanos == usd("1.25")


def test_a_routing_suffix_is_an_estimate_at_the_plain_price() -> None:
    cost = price("openrouter", "openai/gpt-5:nitro", Usage(1_000_000))
    assert (cost.nanos, cost.estimated) == (usd("1.25"), True)
    assert price("openrouter", "openai/gpt-5:thinking", Usage(1)).source is UNPRICED


def test_an_alias_names_the_model_and_an_own_id_beats_it() -> None:
    first = row("openai/first", input=1, output=1, aliases=["second", "first-latest"])
    second = row("openai/second", input=2, output=2)
    table = PriceTable(bundled=[first, second])
    assert table.find("openai", "first-latest", NOW_MS) is first
    assert table.find("openai", "second", NOW_MS) is second


@pytest.mark.case("A23")
def test_the_users_row_beats_the_bundled_one_before_and_after_an_upgrade() -> None:
    mine = row("claude-sonnet-5", input=2, output=10)
    for bundled in (3, 4):
        old = row("anthropic/claude-sonnet-5", input=bundled, output=15)
        cost = price("anthropic", "claude-sonnet-5", Usage(1_000_000), PriceTable([old], [mine]))
        assert (cost.nanos, cost.price_id) == (usd("2"), mine.key)


def test_the_row_of_the_day_of_the_call() -> None:
    rows = [
        row("m", input=1, output=1),
        row("m", input=3, output=1, valid_from="2026-12-01"),
        row("m", input=2, output=1, valid_from="2026-11-01"),
    ]
    table = PriceTable(user=rows)
    november, december = 1_793_491_200_000, 1_796_083_200_000  # 2026-11-01, 2026-12-01, 00:00 UTC
    for at_ms, expected, since in (
        (0, "1", ""),
        (november - 1, "1", ""),
        (november, "2", "2026-11-01"),
        (december - 1, "2", "2026-11-01"),
        (december, "3", "2026-12-01"),
    ):
        cost = price("", "m", Usage(1_000_000), table, at_ms=at_ms)
        assert (cost.nanos, cost.price_date) == (usd(expected), since)


def test_a_users_row_of_the_future_leaves_the_bundled_one_in_force() -> None:
    table = PriceTable([G5], [row("openai/gpt-5", input=9, output=9, valid_from="2027-01-01")])
    assert price("openai", "gpt-5", Usage(1_000_000), table).nanos == usd("1.25")


# ---------------------------------------------------------------- what the response says


@pytest.mark.case("A14")
def test_the_providers_own_cost_wins_and_the_estimate_is_kept() -> None:
    usage = Usage(1000, 100)  # 0.0045 by the table
    told = price("anthropic", "claude-sonnet-4-5", usage, provider_cost_nanos=usd("0.0193"))
    assert (told.nanos, told.source, told.estimate_nanos) == (
        usd("0.0193"),
        PROVIDER,
        usd("0.0045"),
    )
    untold = price("anthropic", "claude-sonnet-4-5", usage)
    assert (untold.nanos, untold.source) == (usd("0.0045"), PRICING)
    unknown = price("custom", "acme-lab-7b", usage, provider_cost_nanos=usd("0.0193"))
    assert (unknown.nanos, unknown.source, unknown.estimate_nanos) == (
        usd("0.0193"),
        PROVIDER,
        None,
    )


def test_a_cost_of_the_provider_is_certain_whatever_our_row_is() -> None:
    table = PriceTable(user=[row("m", input=1, output=1, _estimated_price=True)])
    cost = price("", "m", Usage(10), table, provider_cost_nanos=5, service_tier="priority")
    assert (cost.estimated, cost.flags) == (False, ())


@pytest.mark.parametrize(
    ("provider", "model", "source", "nanos", "flags"),
    [
        ("anthropic", "claude-sonnet-4-5", PRICING, usd("0.0045"), (PROVIDER_ZERO,)),
        ("custom", "acme-lab-7b", UNPRICED, None, ()),
        ("openrouter", "anthropic/claude-sonnet-4.5", PROVIDER, 0, ()),
        ("openrouter", "deepseek/deepseek-r1:free", FREE, 0, ()),
        ("openai-codex", "gpt-5", INCLUDED, 0, ()),
    ],
)
def test_a_cost_of_zero_is_believed_from_openrouter_only(
    provider: str, model: str, source: CostSource, nanos: int | None, flags: tuple[str, ...]
) -> None:
    cost = price(provider, model, Usage(1000, 100), provider_cost_nanos=0)
    assert (cost.source, cost.nanos, cost.flags) == (source, nanos, flags)


@pytest.mark.case("A21")
def test_what_answered_is_priced_before_what_was_asked() -> None:
    usage = Usage(32_000, 300)
    assert price("openrouter", "openrouter/auto", usage) == Cost(None, UNPRICED)
    routed = price("openrouter", "openrouter/auto", usage, response_model="openai/gpt-5")
    assert routed.nanos == usd("0.043")  # 32,000 x 1.25 + 300 x 10 = 40,000 + 3,000
    fallen_back = price("openai", "gpt-5", usage, response_model="gpt-5-mini")
    assert fallen_back.nanos == usd("0.0086")  # 32,000 x 0.25 + 300 x 2 = 8,000 + 600
    unknown = price("openai", "gpt-5", usage, response_model="gpt-5-preview-of-tomorrow")
    assert unknown.nanos == usd("0.043")


# ---------------------------------------------------------------- free, included, unpriced


@pytest.mark.case("A09")
@pytest.mark.parametrize(
    ("provider", "model", "base_url"),
    [
        ("openrouter", "deepseek/deepseek-r1:free", "https://openrouter.ai/api/v1"),
        ("nous", "deepseek/deepseek-r1:free", ""),
        ("ollama", "llama3", ""),
        ("custom", "ollama/llama3", "http://localhost:11434"),
        ("custom", "llama3", "http://localhost:11434/v1"),
        ("custom", "llama3", "http://127.0.0.1:11434/v1"),
        ("custom", "llama3", "http://[::1]:11434/v1"),
        ("custom", "qwen", "http://192.168.1.20:1234/v1"),
        ("lmstudio", "qwen", "http://127.0.0.1:5000/v1"),
        ("vllm", "meta-llama/Llama-3.3-70B-Instruct", "http://10.0.0.5:8000/v1"),
        ("llama.cpp", "qwen", "http://localhost:8080"),
    ],
)
def test_free(provider: str, model: str, base_url: str) -> None:
    cost = price(provider, model, Usage(1_000_000, 1_000_000), base_url=base_url)
    assert cost == Cost(0, FREE)


@pytest.mark.case("A09")
def test_the_paid_variant_is_not_free() -> None:
    table = PriceTable([row("openrouter/deepseek/deepseek-r1", input=0.5, output=2)])
    paid = price("openrouter", "deepseek/deepseek-r1", Usage(1_000_000), table)
    assert (paid.nanos, paid.source) == (usd("0.5"), PRICING)
    answered = price(
        "openrouter",
        "deepseek/deepseek-r1:free",
        Usage(1_000_000),
        table,
        response_model="deepseek/deepseek-r1",
    )
    assert answered == Cost(0, FREE)


@pytest.mark.parametrize(
    ("provider", "model", "base_url"),
    [
        ("custom", "acme-lab-7b", "http://127.0.0.1:4000/v1"),  # a proxy may be billed
        ("custom", "gpt-oss:120b-cloud", "http://localhost:11434/v1"),  # runs at Ollama's
        ("vllm", "acme-lab-7b", "https://gpu.example.com/v1"),
        ("custom", "acme-lab-7b", "not a url : at [all"),
        ("custom", "acme-lab-7b", "http://localhost:99999999"),
    ],
)
def test_not_known_to_be_free_is_unpriced(provider: str, model: str, base_url: str) -> None:
    assert price(provider, model, Usage(10), base_url=base_url) == Cost(None, UNPRICED)


def test_a_row_wins_over_local_is_free() -> None:
    table = PriceTable(user=[row("fake-model", input=1, output=2)])
    cost = price("custom", "fake-model", Usage(1_000_000), table, base_url="http://127.0.0.1:11434")
    assert (cost.nanos, cost.source) == (usd("1"), PRICING)


def test_a_local_copy_does_not_have_the_makers_price() -> None:
    assert price("ollama", "deepseek/deepseek-v4-flash", Usage(10), PriceTable([D])).source is FREE


def test_a_row_of_zeros_is_free() -> None:
    table = PriceTable(user=[row("mine", input=0, output=0)])
    assert price("custom", "mine", Usage(10, 10), table).source is FREE


@pytest.mark.case("A24")
def test_included_in_a_subscription() -> None:
    cost = price("openai-codex", "gpt-5", Usage(1_000_000, 100_000))
    assert (cost.nanos, cost.source) == (0, INCLUDED)
    assert cost.estimate_nanos == usd("2.25")  # 1.25 + 100,000 x 10
    assert price("openai-codex", "gpt-of-tomorrow", Usage(10)) == Cost(0, INCLUDED)
    mine = PriceTable(user=[row("openai-codex/gpt-5", input=1, output=1)])
    assert price("openai-codex", "gpt-5", Usage(1_000_000), mine).nanos == usd("1")
    neutral = PriceTable(user=[row("gpt-5", input=1.25, output=10)])
    assert price("openai-codex", "gpt-5", Usage(10), neutral).source is INCLUDED


def test_a_subscription_keeps_its_name_at_the_metered_endpoint() -> None:
    cost = price("xai-oauth", "grok-4.5", Usage(10), base_url="https://api.x.ai/v1")
    assert cost == Cost(0, INCLUDED)


def test_a_row_may_say_that_a_model_is_included() -> None:
    table = PriceTable(user=[row("anthropic/claude-opus-5", _subscription=True)])
    cost = price("anthropic", "claude-opus-5", Usage(1_000_000), table)
    assert (cost.nanos, cost.source, cost.price_id) == (0, INCLUDED, "anthropic/claude-opus-5")


@pytest.mark.parametrize(
    ("base_url", "included"),
    [
        ("https://api.z.ai/api/coding/paas/v4", True),
        ("https://api.z.ai/api/paas/v4", False),
        ("https://api.kimi.com/coding/v1", True),
    ],
)
def test_the_endpoint_of_a_plan_is_included(base_url: str, included: bool) -> None:
    cost = price("custom", "glm-5", Usage(10), base_url=base_url)
    assert (cost.source is INCLUDED) is included


@pytest.mark.case("A10", "T04")
def test_an_unknown_model_gets_no_made_up_price() -> None:
    cost = price("custom", "acme-lab-7b", Usage(16_700_000))
    assert cost == Cost(None, UNPRICED)


# ---------------------------------------------------------------- estimates


@pytest.mark.case("A15", "A16")
@pytest.mark.parametrize(
    ("prompt", "chars", "expected"),
    [
        (52_000, 6000, "0.1785"),  # 52,000 x 3 + 6,000 / 4 x 15 = 156,000 + 22,500
        (61_000, 4000, "0.198"),  # 61,000 x 3 + 1,000 x 15 = 183,000 + 15,000
    ],
)
def test_a_call_without_usage_costs_its_estimate(prompt: int, chars: int, expected: str) -> None:
    report = estimate_usage(prompt, chars)
    assert report.usage is not None
    cost = price("anthropic", "claude-sonnet-4-5", report.usage, flags=report.flags)
    assert (cost.nanos, cost.estimated, cost.source) == (usd(expected), True, PRICING)


@pytest.mark.case("T02")
def test_a_guessed_price_says_so_and_leaves_the_others_certain() -> None:
    guess = row("guess", input=1, output=2, _estimated_price=True)
    table = PriceTable(user=[S, guess])
    assert price("custom", "guess", Usage(10), table).estimated
    assert not price("anthropic", "claude-sonnet-4-5", Usage(10), table).estimated
    assert guess.estimated


def test_one_tier_may_be_a_guess() -> None:
    tiers = [{"above": 1000, "_estimated_price": True}]
    table = PriceTable(user=[row("m", input=1, output=2, tiers=tiers)])
    assert not price("", "m", Usage(1000), table).estimated
    assert price("", "m", Usage(1001), table).estimated


def test_a_call_keeps_its_price_when_the_table_changes() -> None:
    before = price("openai", "gpt-5", Usage(1_000_000))
    copy = replace(before)
    price("openai", "gpt-5", Usage(1_000_000), TABLE.with_user([row("gpt-5", input=9, output=9)]))
    assert before == copy
    assert price("openai", "gpt-5", Usage(1_000_000)) == copy


def test_lookups_are_forgotten_rather_than_kept_for_ever() -> None:
    table = PriceTable(user=[S])
    for number in range(5000):
        table.route("custom", f"model-{number}")
    assert len(table._routes) <= 4096
    assert table.find("anthropic", "claude-sonnet-4-5", NOW_MS) is S


# ---------------------------------------------------------------- rows that are refused


@pytest.mark.case("A21")
@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"input": -1, "output": -1}, "input"),
        ({"input": -1_000_000, "output": -1_000_000}, "input"),
        ({"input": 1, "output": Decimal("NaN")}, "output"),
        ({"input": 1, "output": Decimal("Infinity")}, "output"),
        ({"input": 0.000003, "output": 0.000015}, "input"),
        ({"input": 1_000_000, "output": 1}, "input"),
        ({"input": 1, "output": "2"}, "output"),
        ({"input": True, "output": 2}, "input"),
        ({"input": None, "output": 2}, "input"),
        ({"input": 1}, "output"),
        ({}, "input"),
        ({"input": 1, "output": 2, "cache_read": -1}, "cache_read"),
        ({"input": 1, "output": 2, "tiers": {"above": 5}}, "tiers"),
        ({"input": 1, "output": 2, "tiers": [7]}, "tiers[0]"),
        ({"input": 1, "output": 2, "tiers": [{"input": 3}]}, "tiers[0].above"),
        ({"input": 1, "output": 2, "tiers": [{"above": Decimal("NaN")}]}, "tiers[0].above"),
        ({"input": 1, "output": 2, "tiers": [{"above": 9, "input": -1}]}, "tiers[0].input"),
        ({"input": 1, "output": 2, "flex": {"input": "x"}}, "flex.input"),
        ({"input": 1, "output": 2, "flex": 5}, "flex"),
        ({"input": 1, "output": 2, "valid_from": "soon"}, "valid_from"),
        ({"input": 1, "output": 2, "aliases": "one"}, "aliases"),
        ({"input": 1, "output": 2, "aliases": [5]}, "aliases"),
        ({"input": 1, "output": 2, "_estimated_price": "yes"}, "_estimated_price"),
        ({"_subscription": 1}, "_subscription"),
    ],
)
def test_a_row_that_cannot_be_believed(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(PriceError) as refused:
        row("model", **fields)
    assert refused.value.field == field


def test_the_service_tiers_are_fields_of_a_row() -> None:
    assert set(SERVICE_TIERS) <= FIELDS

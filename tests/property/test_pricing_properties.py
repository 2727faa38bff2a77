"""What holds for any usage and any believable price row."""

from dataclasses import fields, replace
from decimal import Decimal
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budget_plugin.policy.events import Cost, CostSource, Usage
from budget_plugin.policy.prices.price_rows import SERVICE_TIERS, PriceRow, read_row
from budget_plugin.policy.prices.pricing import PriceTable, price_call, rates
from budget_plugin.policy.prices.usage import MOST_TOKENS, read_usage

BUCKETS = ("input", "output", "cache_read", "cache_write", "cache_write_1h")
CHARGED = [field.name for field in fields(Usage) if field.name != "reasoning_tokens"]

counts = st.integers(0, MOST_TOKENS)
usages = st.builds(Usage, counts, counts, counts, counts, counts, counts)
prices = st.one_of(
    st.just(Decimal(0)), st.decimals(Decimal("0.0001"), 1000, allow_nan=False, places=6)
)
blocks = st.builds(
    lambda paid, more: paid | more,
    st.fixed_dictionaries({"input": prices, "output": prices}),
    st.dictionaries(st.sampled_from(BUCKETS[2:]), prices),
)


@st.composite
def rising_rows(draw: st.DrawFn) -> dict[str, Any]:
    """A row as providers publish them: a larger prompt is never cheaper."""
    base = draw(st.fixed_dictionaries(dict.fromkeys(BUCKETS, prices)))
    steps = draw(st.lists(st.fixed_dictionaries(dict.fromkeys(BUCKETS, prices)), max_size=3))
    levels = accumulate([base, *steps], lambda low, step: {b: low[b] + step[b] for b in BUCKETS})
    first, *higher = levels
    above = draw(
        st.lists(
            st.integers(1, MOST_TOKENS), min_size=len(higher), max_size=len(higher), unique=True
        )
    )
    tiers = [{"above": a, **level} for a, level in zip(sorted(above), higher, strict=True)]
    return {**first, "tiers": tiers}


@st.composite
def rows(draw: st.DrawFn) -> PriceRow:
    """Any row: buckets missing, tiers and service tiers of their own."""
    row: dict[str, Any] = dict(draw(blocks))
    for service in draw(st.sets(st.sampled_from(SERVICE_TIERS))):
        row[service] = draw(blocks)
    if draw(st.booleans()):
        row["tiers"] = [{"above": draw(st.integers(1, MOST_TOKENS)), **draw(blocks)}]
    return read_row("model", row)


def price(row: PriceRow, usage: Usage, service_tier: str = "", at_ms: int = 0) -> Cost:
    return price_call(
        PriceTable(user=[row]),
        provider="custom",
        model="model",
        usage=usage,
        at_ms=at_ms,
        service_tier=service_tier,
    )


def charged(row: PriceRow, usage: Usage, service_tier: str = "") -> int:
    nanos = price(row, usage, service_tier).nanos
    assert nanos is not None
    return nanos


@given(rows(), usages, st.sampled_from(("", *SERVICE_TIERS, "tomorrow")))
def test_a_cost_is_never_negative_and_fits_into_the_ledger(
    row: PriceRow, usage: Usage, service: str
) -> None:
    assert 0 <= charged(row, usage, service) < 2**63


@given(rising_rows(), usages, st.sampled_from(CHARGED), st.integers(0, MOST_TOKENS))
def test_more_tokens_never_cost_less(
    row: dict[str, Any], usage: Usage, bucket: str, more: int
) -> None:
    priced = read_row("model", row)
    grown = replace(usage, **{bucket: getattr(usage, bucket) + more})
    assert charged(priced, usage) <= charged(priced, grown)


@given(blocks, usages, st.sampled_from(CHARGED), st.integers(0, MOST_TOKENS))
def test_without_prompt_tiers_more_tokens_never_cost_less_whatever_the_row(
    block: dict[str, Any], usage: Usage, bucket: str, more: int
) -> None:
    row = read_row("model", block)
    grown = replace(usage, **{bucket: getattr(usage, bucket) + more})
    assert charged(row, usage) <= charged(row, grown)


@given(rows(), usages, counts)
def test_reasoning_tokens_are_charged_by_nothing(row: PriceRow, usage: Usage, count: int) -> None:
    assert charged(row, usage) == charged(row, replace(usage, reasoning_tokens=count))


@given(rows(), usages)
def test_the_cost_is_the_exact_sum_rounded_once(row: PriceRow, usage: Usage) -> None:
    """Against Decimal arithmetic in dollars per million tokens."""
    applied = rates(row, usage.prompt_tokens)
    exact = sum(
        Decimal(getattr(usage, f"{bucket}_tokens")) * Decimal(getattr(applied, bucket)) / 1000
        for bucket in BUCKETS
    )
    assert abs(charged(row, usage) - exact) <= Decimal("0.5")


@given(rows(), st.lists(usages, min_size=1, max_size=5), st.data())
def test_the_order_of_calls_changes_nothing(
    row: PriceRow, calls: list[Usage], data: st.DataObject
) -> None:
    table = PriceTable(user=[row])

    def costs(order: list[Usage]) -> dict[Usage, Cost]:
        return {
            usage: price_call(table, provider="x", model="model", usage=usage, at_ms=0)
            for usage in order
        }

    assert costs(calls) == costs(data.draw(st.permutations(calls)))


@given(rows(), blocks, usages, st.integers(0, 10**13))
def test_a_row_of_a_later_date_changes_no_earlier_call(
    row: PriceRow, later: dict[str, Any], usage: Usage, at_ms: int
) -> None:
    new = read_row("model", {**later, "valid_from": "2026-12-01"})
    before = price_call(
        PriceTable(user=[row]), provider="x", model="model", usage=usage, at_ms=at_ms
    )
    after = price_call(
        PriceTable(user=[row, new]), provider="x", model="model", usage=usage, at_ms=at_ms
    )
    assert (before == after) or at_ms >= new.valid_from_ms
    assert after.price_date == ("2026-12-01" if at_ms >= new.valid_from_ms else "")


@given(rows(), usages, counts)
def test_a_cost_that_the_provider_states_is_the_charge(
    row: PriceRow, usage: Usage, stated: int
) -> None:
    cost = price_call(
        PriceTable(user=[row]),
        provider="custom",
        model="model",
        usage=usage,
        at_ms=0,
        provider_cost_nanos=stated + 1,
    )
    assert (cost.nanos, cost.source) == (stated + 1, CostSource.PROVIDER)
    assert cost.estimate_nanos == charged(row, usage)


@given(st.text(), st.text(), st.text(), st.text(max_size=60))
def test_no_name_breaks_a_lookup(provider: str, model: str, answered: str, base_url: str) -> None:
    table = PriceTable(user=[read_row("model", {"input": 1, "output": 1})])
    route = table.route(provider, model, answered, base_url)
    assert route is table.route(provider, model, answered, base_url)


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.dictionaries(
        st.sampled_from(
            [
                *("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"),
                *("prompt_tokens", "completion_tokens", "total_tokens", "request_count"),
                *("prompt_tokens_details", "input_tokens_details", "cached_tokens", "usage"),
                *("cache_creation_input_tokens", "cache_creation", "ephemeral_1h_input_tokens"),
                *("reasoning_tokens", "cost", "cost_details", "upstream_inference_cost"),
                *("service_tier", "is_byok", "completion_tokens_details"),
            ]
        ),
        inner,
        max_size=6,
    ),
    max_leaves=12,
)


@pytest.mark.case("T06")
@given(junk)
def test_no_report_breaks_the_reading_or_credits_anything(raw: object) -> None:
    report = read_usage(raw)
    assert report.provider_cost_nanos is None or report.provider_cost_nanos >= 0
    if report.usage is None:
        assert report.flags
        return
    for name in CHARGED:
        assert getattr(report.usage, name) >= 0
    assert report.usage.total_tokens > 0


@given(counts, counts, counts)
def test_a_chat_usage_counts_each_prompt_token_once(prompt: int, output: int, cached: int) -> None:
    raw = {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "prompt_tokens_details": {"cached_tokens": min(cached, prompt)},
    }
    usage = read_usage(raw).usage
    assert (usage.total_tokens if usage else 0) == prompt + output

"""Reading what providers report: the five counts, each token once."""

from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from budget_plugin.policy.events import Usage
from budget_plugin.policy.prices.usage import (
    ESTIMATED_USAGE,
    IMPOSSIBLE_COST,
    IMPOSSIBLE_USAGE,
    MERGED_CACHE_WRITE,
    MOST_TOKENS,
    NO_USAGE,
    REASONING_SEPARATE,
    SUSPECT_USAGE,
    estimate_usage,
    read_usage,
)


class Sdk:
    """An object such as the SDKs give: attributes, nested ones too, absent ones raise."""

    def __init__(self, fields: dict[str, Any]) -> None:
        for name, value in fields.items():
            setattr(self, name, Sdk(value) if isinstance(value, dict) else value)


def namespace(fields: dict[str, Any]) -> SimpleNamespace:
    nested = {
        name: namespace(value) if isinstance(value, dict) else value
        for name, value in fields.items()
    }
    return SimpleNamespace(**nested)


HOST = {
    "input_tokens": 1200,
    "cache_read_tokens": 48_000,
    "cache_write_tokens": 800,
    "output_tokens": 400,
    "reasoning_tokens": 0,
    "prompt_tokens": 50_000,
    "total_tokens": 50_400,
    "request_count": 1,
}
CHAT = {
    "prompt_tokens": 2000,
    "completion_tokens": 300,
    "total_tokens": 2300,
    "prompt_tokens_details": {"cached_tokens": 1920},
    "completion_tokens_details": {"reasoning_tokens": 200},
}
RESPONSES = {
    "input_tokens": 2000,
    "output_tokens": 300,
    "total_tokens": 2300,
    "input_tokens_details": {"cached_tokens": 1920},
    "output_tokens_details": {"reasoning_tokens": 200},
}
ANTHROPIC = {
    "input_tokens": 1000,
    "output_tokens": 200,
    "cache_read_input_tokens": 500,
    "cache_creation_input_tokens": 10_000,
    "cache_creation": {"ephemeral_5m_input_tokens": 4000, "ephemeral_1h_input_tokens": 6000},
}


@pytest.mark.parametrize("shape", [dict, namespace, Sdk])
@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(HOST, Usage(1200, 400, 48_000, 800), marks=pytest.mark.case("A03"), id="host"),
        pytest.param(
            CHAT,
            Usage(80, 300, 1920, reasoning_tokens=200),  # 2,000 - 1,920
            marks=pytest.mark.case("A02"),
            id="chat",
        ),
        pytest.param(RESPONSES, Usage(80, 300, 1920, reasoning_tokens=200), id="responses"),
        pytest.param(
            ANTHROPIC,
            Usage(1000, 200, 500, 4000, 6000),
            marks=pytest.mark.case("A25"),
            id="anthropic",
        ),
    ],
)
def test_the_four_shapes(shape: Any, raw: dict[str, Any], expected: Usage) -> None:
    report = read_usage(shape(raw))
    assert report.usage == expected
    assert report.provider_cost_nanos is None
    assert report.service_tier == ""


@pytest.mark.case("A03")
def test_sums_are_never_added() -> None:
    usage = read_usage(HOST).usage
    assert usage is not None
    assert usage.total_tokens == 50_400


@pytest.mark.parametrize(
    "raw",
    [
        {"prompt_tokens": 100, "completion_tokens": 1, "cache_read_input_tokens": 60},
        {"prompt_tokens": 100, "completion_tokens": 1, "prompt_cache_hit_tokens": 60},
        {"prompt_tokens": 100, "completion_tokens": 1, "cached_tokens": 60},
    ],
)
def test_cache_hits_at_the_top_level_of_a_chat_usage(raw: dict[str, Any]) -> None:
    assert read_usage(raw).usage == Usage(40, 1, 60)


def test_cache_writes_of_a_chat_usage_are_inside_the_prompt() -> None:
    raw = {
        "prompt_tokens": 100,
        "completion_tokens": 1,
        "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
    }
    assert read_usage(raw).usage == Usage(10, 1, 60, 30)
    assert read_usage(raw).flags == (MERGED_CACHE_WRITE,)


@pytest.mark.case("A25")
@pytest.mark.parametrize(
    ("raw", "flags"),
    [
        (ANTHROPIC, ()),
        ({**ANTHROPIC, "cache_creation": None}, (MERGED_CACHE_WRITE,)),
        (HOST, (MERGED_CACHE_WRITE,)),
        ({**HOST, "cache_write_tokens": 0}, ()),
    ],
)
def test_merged_cache_writes_are_flagged(raw: dict[str, Any], flags: tuple[str, ...]) -> None:
    assert read_usage(raw).flags == flags


@pytest.mark.parametrize("carry", [dict, namespace])
def test_a_whole_response_may_be_given(carry: Any) -> None:
    report = read_usage(carry({"usage": CHAT, "service_tier": "Flex", "model": "m"}))
    assert report.usage == read_usage(CHAT).usage
    assert report.service_tier == "flex"
    assert read_usage(carry({"usage": None, "service_tier": "flex"})).flags == (NO_USAGE,)


# ---------------------------------------------------------------- reasoning


@pytest.mark.case("A05")
def test_more_reasoning_than_output_is_beside_it() -> None:
    report = read_usage({**HOST, "output_tokens": 500, "reasoning_tokens": 4000})
    assert report.usage is not None
    assert (report.usage.output_tokens, report.usage.reasoning_tokens) == (4500, 4000)
    assert REASONING_SEPARATE in report.flags


@pytest.mark.case("A04", "T03")
def test_reasoning_within_output_stays_inside_it() -> None:
    report = read_usage({**HOST, "output_tokens": 2400, "reasoning_tokens": 2300})
    assert report.usage is not None
    assert report.usage.output_tokens == 2400
    assert REASONING_SEPARATE not in report.flags


@pytest.mark.parametrize(
    ("reasoning", "total", "output"),
    [
        (50, 250, 150),  # xAI: completion without the reasoning, total with it
        (0, 350, 250),  # Gemini through its adapter: the thoughts are in the total only
        (50, 200, 100),  # inside, as usual
        (50, 260, 100),  # the total contradicts: nothing is made of it
        (0, 0, 100),
        (0, 140, 100),  # a total that is too small
    ],
)
def test_a_total_shows_output_that_was_left_out(reasoning: int, total: int, output: int) -> None:
    raw = {
        "prompt_tokens": 100,
        "completion_tokens": 100,
        "total_tokens": total,
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }
    report = read_usage(raw)
    assert report.usage is not None
    assert report.usage.output_tokens == output
    assert (REASONING_SEPARATE in report.flags) is (output > 100)


def test_a_total_that_counts_the_cache_twice_adds_no_output() -> None:
    raw = {
        "prompt_tokens": 100,
        "completion_tokens": 10,
        "total_tokens": 170,
        "prompt_tokens_details": {"cached_tokens": 60},
    }
    assert read_usage(raw).usage == Usage(40, 10, 60)


# ---------------------------------------------------------------- what cannot be


IMPOSSIBLE = [-5, float("nan"), float("inf"), "12k", "12", 10**19, MOST_TOKENS + 1, True, 1.5, [1]]


@pytest.mark.case("T06")
@pytest.mark.parametrize("bad", IMPOSSIBLE, ids=repr)
@pytest.mark.parametrize(
    ("shape", "name"),
    [
        (HOST, "input_tokens"),
        (HOST, "output_tokens"),
        (HOST, "cache_read_tokens"),
        (HOST, "cache_write_tokens"),
        (CHAT, "prompt_tokens"),
        (CHAT, "completion_tokens"),
        (RESPONSES, "output_tokens"),
        (ANTHROPIC, "cache_creation_input_tokens"),
    ],
)
def test_a_count_that_cannot_be_leaves_the_estimate(
    shape: dict[str, Any], name: str, bad: Any
) -> None:
    report = read_usage({**shape, name: bad})
    assert report.usage is None
    assert report.flags == (IMPOSSIBLE_USAGE,)


@pytest.mark.case("T06")
@pytest.mark.parametrize("bad", IMPOSSIBLE, ids=repr)
@pytest.mark.parametrize("name", ["reasoning_tokens", "prompt_tokens", "total_tokens"])
def test_a_count_that_nothing_is_charged_by_is_left_out(name: str, bad: Any) -> None:
    assert read_usage({**HOST, name: bad}).usage == Usage(1200, 400, 48_000, 800)


def test_a_whole_float_is_a_count() -> None:
    assert read_usage({"prompt_tokens": 100.0, "completion_tokens": 5}).usage == Usage(100, 5)


@pytest.mark.case("A15")
@pytest.mark.parametrize("raw", [None, {}, "12k", 5, [], SimpleNamespace(), {"total_tokens": 5}])
def test_no_usage(raw: object) -> None:
    report = read_usage(raw)
    assert (report.usage, report.flags) == (None, (NO_USAGE,))


@pytest.mark.case("A16")
def test_only_zeros_are_no_usage() -> None:
    report = read_usage(dict.fromkeys(HOST, 0), approx_input_tokens=61_000)
    assert (report.usage, report.flags) == (None, (NO_USAGE,))


@pytest.mark.case("A16")
@pytest.mark.parametrize(
    ("approx", "suspect"), [(61_000, True), (131, True), (130, False), (0, False), (None, False)]
)
def test_a_prompt_far_smaller_than_the_request_is_kept_and_flagged(
    approx: int | None, suspect: bool
) -> None:
    raw = {"input_tokens": 13, "output_tokens": 7, "cache_read_tokens": 0}
    report = read_usage(raw, approx_input_tokens=approx)
    assert report.usage == Usage(13, 7)
    assert (SUSPECT_USAGE in report.flags) is suspect


def test_more_cache_than_prompt_is_counted_beside_it() -> None:
    raw = {
        "prompt_tokens": 100,
        "completion_tokens": 1,
        "prompt_tokens_details": {"cached_tokens": 900},
    }
    report = read_usage(raw)
    assert report.usage == Usage(100, 1, 900)
    assert report.flags == (SUSPECT_USAGE,)


@pytest.mark.case("A15", "A16")
@pytest.mark.parametrize(
    ("prompt", "chars", "expected"),
    [(52_000, 6000, Usage(52_000, 1500)), (0, 5, Usage(0, 2)), (-1, -1, Usage())],
)
def test_the_estimate_counts_four_characters_as_a_token(
    prompt: int, chars: int, expected: Usage
) -> None:
    report = estimate_usage(prompt, chars, flags=(NO_USAGE,))
    assert (report.usage, report.flags) == (expected, (NO_USAGE, ESTIMATED_USAGE))


# ---------------------------------------------------------------- the provider's own cost


@pytest.mark.case("A14")
@pytest.mark.parametrize(
    ("fields", "nanos"),
    [
        ({"cost": 0.0193}, 19_300_000),
        ({"cost": Decimal("0.0193")}, 19_300_000),
        ({"cost": 0.0193, "cost_details": {"upstream_inference_cost": 0.0193}}, 19_300_000),
        ({"cost_details": {"upstream_inference_cost": 0.0193}}, 19_300_000),
        ({"cost": 0, "cost_details": {"upstream_inference_cost": 0.0193}}, 19_300_000),
        (
            {
                "cost": 0.001,
                "is_byok": True,
                "cost_details": {"upstream_inference_cost": 0.0183},
            },
            19_300_000,  # the fee and the bill
        ),
        ({"cost": 0.001, "is_byok": True}, None),  # a fee without the bill
        ({"cost": {"total_cost": 0.0193, "request_cost": 0.005}}, 19_300_000),
        ({"cost": 0}, 0),
        ({"cost": None}, None),
        ({}, None),
    ],
)
def test_the_stated_cost(fields: dict[str, Any], nanos: int | None) -> None:
    report = read_usage({**CHAT, **fields})
    assert report.provider_cost_nanos == nanos
    assert report.flags == ()
    assert read_usage({**CHAT, **fields}, provider_cost=False).provider_cost_nanos is None


@pytest.mark.parametrize(
    "bad",
    [
        *(-0.01, float("nan"), float("inf"), "0.02", True, 10**9, 10**400),
        *(Decimal("-1"), Decimal("NaN"), Decimal("Infinity")),
    ],
    ids=lambda bad: repr(bad)[:12],
)
def test_a_cost_that_cannot_be_is_not_believed(bad: Any) -> None:
    report = read_usage({**CHAT, "cost": bad})
    assert report.provider_cost_nanos is None
    assert report.usage is not None
    assert report.flags == (IMPOSSIBLE_COST,)


def test_a_cost_without_counts_is_kept() -> None:
    report = read_usage({"cost": 0.0193})
    assert (report.usage, report.provider_cost_nanos) == (None, 19_300_000)


# ---------------------------------------------------------------- the service tier


@pytest.mark.case("A19")
@pytest.mark.parametrize(
    ("fields", "tier"),
    [
        ({"service_tier": "flex"}, "flex"),
        ({"service_tier": "Priority "}, "priority"),
        ({"service_tier": "default"}, ""),
        ({"service_tier": "standard"}, ""),
        ({"service_tier": "batch"}, "batch"),
        ({"service_tier": None}, ""),
        ({"service_tier": 5}, ""),
        ({"service_tier": "standard", "speed": "fast"}, "fast"),
        ({"speed": "standard"}, ""),
        ({}, ""),
    ],
)
def test_the_service_tier(fields: dict[str, Any], tier: str) -> None:
    assert read_usage({**CHAT, **fields}).service_tier == tier

"""What a call becomes in the ledger: one row, its exact price, and how sure that is.

All money is compared in nano-dollars, with the arithmetic in sight: tokens × nano-dollars a token.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from budget_plugin.engine.engine import Engine
from budget_plugin.engine.live_runs import LiveRun
from budget_plugin.policy.events import CostSource
from budget_plugin.policy.limits import Scope
from budget_plugin.policy.prices.usage import UsageReport, read_usage
from budget_plugin.policy.verdicts import Level, Spend
from budget_plugin.testing import spend
from tests.billing import (
    DOLLAR,
    PRICES,
    SONNET,
    ask,
    bill,
    counts,
    opened,
    rows,
    run_in,
    spent,
    usd,
)

ONE_DOLLAR = "budgets: {global: {daily_usd: 1.00}}"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """Nothing configured: it only records."""
    with opened(tmp_path) as made:
        yield made


@pytest.fixture
def live(engine: Engine) -> LiveRun:
    return run_in(engine)


# ------------------------------------------------------------------------- the price of a call


@pytest.mark.case("A13")
def test_the_size_tier_is_that_of_one_request_not_of_a_session(
    engine: Engine, live: LiveRun
) -> None:
    for _ in range(10):
        call = bill(engine, live, counts(92_000, 500), "gemini-2.5-pro")
        assert call.cost.nanos == 92_000 * 1_250 + 500 * 10_000 == usd("0.12")
    assert spent(engine).certain_nanos == 10 * usd("0.12") == usd("1.20")


@pytest.mark.case("A14")
def test_the_providers_own_cost_is_charged_and_the_estimate_kept(
    engine: Engine, live: LiveRun
) -> None:
    usage = {"prompt_tokens": 1_000, "completion_tokens": 73, "cost": 0.0193}
    bill(engine, live, usage)
    bill(engine, live, {"prompt_tokens": 1_000, "completion_tokens": 73})
    ours = 1_000 * 3_000 + 73 * 15_000
    stated, priced = rows(engine)
    assert (stated["cost_nanos"], stated["cost_source"]) == (usd("0.0193"), "provider")
    assert stated["estimate_nanos"] == ours
    assert (priced["cost_nanos"], priced["cost_source"]) == (ours, "pricing")


@pytest.mark.case("A14")
def test_the_upstreams_bill_in_the_details_is_the_providers_cost(
    engine: Engine, live: LiveRun
) -> None:
    usage = {
        "prompt_tokens": 1_000,
        "completion_tokens": 73,
        "cost_details": {"upstream_inference_cost": 0.0193},
    }
    assert bill(engine, live, usage).cost.nanos == usd("0.0193")


@pytest.mark.case("A20")
def test_a_fallback_in_mid_session_is_priced_per_call(engine: Engine, live: LiveRun) -> None:
    bill(engine, live, counts(10_000, 1_000))
    bill(engine, live, counts(10_000, 1_000), "gpt-5.5", provider="openai")
    first = 10_000 * 3_000 + 1_000 * 15_000
    second = 10_000 * 5_000 + 1_000 * 30_000
    assert (first, second) == (usd("0.045"), usd("0.08"))
    assert spent(engine).certain_nanos == usd("0.125")
    assert spent(engine, (Scope.MODEL, SONNET)).certain_nanos == first
    assert spent(engine, (Scope.MODEL, "gpt-5.5")).certain_nanos == second


@pytest.mark.case("A20")
def test_what_answered_is_priced_where_it_says_another_name(engine: Engine, live: LiveRun) -> None:
    call = bill(engine, live, counts(1_000, 100), "auto", response_model="gpt-5-mini")
    assert call.cost.nanos == 1_000 * 250 + 100 * 2_000
    assert call.cost.price_id == "gpt-5-mini"


@pytest.mark.case("A21")
def test_a_price_on_request_never_credits(tmp_path: Path) -> None:
    row = "  openrouter/auto: {input: -1000000, output: -1000000}\n"
    with opened(tmp_path, prices=PRICES + row) as engine:
        spend(engine, "1.00")
        usage = counts(32_000, 300)
        call = bill(engine, run_in(engine), usage, "openrouter/auto", provider="openrouter")
        assert (call.cost.nanos, call.cost.source) == (None, CostSource.UNPRICED)
        assert spent(engine).certain_nanos == usd("1.00")
        assert any("openrouter/auto" in str(problem) for problem in engine.prices.problems)


@pytest.mark.case("A22")
def test_a_thousand_calls_below_a_cent_add_up(engine: Engine, live: LiveRun) -> None:
    for _ in range(1_000):
        bill(engine, live, counts(12_000, 350, cr=11_000), "deepseek-v4-flash")
    each = 12_000 * 140 + 11_000 * 14 // 5 + 350 * 280  # 2.8 nano-dollars a cached token
    assert each == usd("0.0018088")
    assert spent(engine).certain_nanos == 1_000 * each == usd("1.8088")


@pytest.mark.case("T03")
def test_reasoning_is_inside_the_output_and_charged_once(engine: Engine, live: LiveRun) -> None:
    call = bill(engine, live, counts(20_000, 1_000_000, rs=900_000), "gpt-5")
    assert call.cost.nanos == 20_000 * 1_250 + 1_000_000 * 10_000
    assert spent(engine).tokens == 1_020_000


def test_a_price_that_changes_changes_no_call_that_was_made(engine: Engine, live: LiveRun) -> None:
    before = bill(engine, live, counts(1_000, 100))
    file = engine.folder / "pricing.yaml"
    file.write_text(file.read_text().replace("input: 3.00", "input: 30.00"))
    after = bill(engine, live, counts(1_000, 100))
    old, new = rows(engine)
    assert old["cost_nanos"] == before.cost.nanos == 1_000 * 3_000 + 100 * 15_000
    assert new["cost_nanos"] == after.cost.nanos == 1_000 * 30_000 + 100 * 15_000


# ------------------------------------------------------------------------- free and included


@pytest.mark.case("A09")
@pytest.mark.parametrize(
    ("model", "provider", "base_url"),
    [
        ("deepseek/deepseek-r1:free", "openrouter", "https://openrouter.ai/api/v1"),
        ("ollama/llama3", "custom", "http://localhost:11434/v1"),
    ],
)
def test_what_costs_nothing_passes_a_dollar_limit_that_is_spent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, model: str, provider: str, base_url: str
) -> None:
    with opened(tmp_path, ONE_DOLLAR) as engine:
        spend(engine, "1.20")
        live = run_in(engine)
        call = bill(engine, live, counts(5_000, 500), model, provider=provider, base_url=base_url)
        assert (call.cost.nanos, call.cost.source) == (0, CostSource.FREE)
        assert not blocked(engine, live)
        assert price_warnings(caplog) == []

        paid, _ = ask(engine, run_in(engine), "deepseek/deepseek-r1", provider="openrouter")
        assert paid.refused
        assert paid.verdict is not None
        assert paid.verdict.limit.amount == DOLLAR


@pytest.mark.case("A09")
@pytest.mark.parametrize("limit", ["daily_calls: 1", "daily_tokens: 6000"])
def test_what_costs_nothing_is_still_counted(tmp_path: Path, limit: str) -> None:
    free = {"model": "deepseek/deepseek-r1:free", "provider": "openrouter"}
    with opened(tmp_path, f"budgets: {{global: {{{limit}}}}}") as engine:
        bill(engine, run_in(engine), counts(5_000, 500), **free, prompt_tokens=5_000)
        permit, _ = ask(engine, run_in(engine), **free, prompt_tokens=5_000)
        assert permit.refused


@pytest.mark.case("A24")
def test_a_subscription_is_no_money_but_its_tokens_count(tmp_path: Path) -> None:
    yaml = "budgets: {global: {daily_usd: 1.00, daily_tokens: 500000}}"
    with opened(tmp_path, yaml) as engine:
        live = run_in(engine)
        codex = {"model": "gpt-5", "provider": "openai-codex"}
        call = bill(engine, live, counts(1_000_000, 100_000), **codex)
        assert (call.cost.nanos, call.cost.source) == (0, CostSource.INCLUDED)
        assert call.cost.estimate_nanos == 1_000_000 * 1_250 + 100_000 * 10_000 == usd("2.25")
        assert spent(engine) == Spend(tokens=1_100_000, calls=1)
        permit, _ = ask(engine, run_in(engine), **codex)
        assert permit.refused
        assert permit.verdict is not None
        assert permit.verdict.limit.amount == 500_000  # the tokens, not the dollar


# ------------------------------------------------------------------------- unpriced


@pytest.mark.case("A10", "T04")
def test_a_model_without_a_price_keeps_its_tokens_and_makes_the_sum_a_least(
    engine: Engine, live: LiveRun
) -> None:
    bill(engine, live, counts(1_000, 100))
    for _ in range(16):
        bill(engine, live, counts(1_000_000, 43_750), "acme-lab-7b")
    assert spent(engine) == Spend(
        certain_nanos=usd("0.0045"),
        tokens=1_100 + 16 * 1_043_750,  # 16.7 million of a price that nobody knows
        calls=17,
        unpriced_calls=16,
    )
    unpriced = [row for row in rows(engine) if row["model"] == "acme-lab-7b"]
    assert {(row["cost_nanos"], row["cost_source"]) for row in unpriced} == {(None, "unpriced")}


@pytest.mark.case("A10", "T04")
def test_one_warning_for_each_model_of_a_provider_and_not_for_each_call(
    engine: Engine, live: LiveRun, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        for provider, model in (("custom", "lab-7b"), ("nous", "lab-7b"), ("custom", "lab-70b")):
            bill(engine, live, counts(1_000), model, provider=provider)
        bill(engine, live, counts(1_000))
    told = price_warnings(caplog)
    assert len(told) == 3
    assert sum("lab-70b" in line for line in told) == 1
    assert sum("nous" in line for line in told) == 1


@pytest.mark.case("A10")
@pytest.mark.parametrize(("choice", "refused"), [("warn", False), ("block", True)])
def test_on_unpriced_decides(tmp_path: Path, choice: str, refused: bool) -> None:
    with opened(tmp_path, f"{ONE_DOLLAR}\non_unpriced: {choice}") as engine:
        permit, _ = ask(engine, run_in(engine), "acme-lab-7b")
        assert (permit.refused, permit.unpriced) == (refused, refused)
        if not refused:
            engine.release(permit)


# ------------------------------------------------------------------------- no usage, odd usage


@pytest.mark.case("A15")
def test_a_stream_without_usage_is_estimated_from_what_was_sent_and_came(
    engine: Engine, live: LiveRun
) -> None:
    bill(engine, live, None, prompt_tokens=52_000, output_chars=6_000)
    (row,) = rows(engine)
    assert (row["input_tokens"], row["output_tokens"]) == (52_000, 6_000 // 4)
    assert row["cost_nanos"] == 52_000 * 3_000 + 1_500 * 15_000 == usd("0.1785")
    assert row["estimated"] == 1
    assert spent(engine).estimated_nanos == usd("0.1785")


@pytest.mark.case("A16")
def test_usage_of_all_zeros_is_no_usage(engine: Engine, live: LiveRun) -> None:
    bill(engine, live, counts(), prompt_tokens=61_000, output_chars=4_000)
    (row,) = rows(engine)
    assert row["cost_nanos"] == 61_000 * 3_000 + 1_000 * 15_000 == usd("0.198")
    assert row["estimated"] == 1


@pytest.mark.case("A16")
def test_usage_far_below_the_request_is_kept_and_suspected(engine: Engine, live: LiveRun) -> None:
    bill(engine, live, counts(13, 200), prompt_tokens=61_000)
    (row,) = rows(engine)
    assert row["cost_nanos"] == 13 * 3_000 + 200 * 15_000
    assert row["estimated"] == 0
    assert "suspect_usage" in row["flags"].split()


@pytest.mark.case("T06")
@pytest.mark.parametrize("odd", [-5_000, "12k", float("nan"), 10**19, True])
def test_a_count_that_cannot_be_neither_credits_nor_drops_the_row(
    engine: Engine, live: LiveRun, odd: Any
) -> None:
    bill(engine, live, {**counts(0, 100), "input_tokens": odd}, output_chars=400)
    (row,) = rows(engine)
    assert row["cost_nanos"] == 1_000 * 3_000 + 100 * 15_000
    assert row["estimated"] == 1
    assert "impossible_usage" in row["flags"].split()


def test_an_interrupted_call_is_charged_at_all_that_was_expected(
    engine: Engine, live: LiveRun
) -> None:
    permit, request = ask(engine, live, prompt_tokens=2_000, max_tokens=500)
    engine.record(live, permit, request, UsageReport(None, flags=("interrupted",)))
    (row,) = rows(engine)
    assert row["cost_nanos"] == 2_000 * 3_000 + 500 * 15_000
    assert row["estimated"] == 1
    assert "interrupted" in row["flags"].split()


@pytest.mark.case("A15", "T02")
def test_a_limit_that_only_estimates_pass_follows_on_estimated(tmp_path: Path) -> None:
    for mode, level in (("warn_only", Level.SOFT), ("enforce", Level.HARD)):
        yaml = f"budgets: {{global: {{daily_usd: 0.10}}}}\non_estimated: {{mode: {mode}}}"
        with opened(tmp_path / mode, yaml) as engine:
            spend(engine, "0.1785", estimated=True)
            (verdict,) = engine.judge.read_now((Scope.GLOBAL, ""))
            assert verdict.level is level
            permit, _ = ask(engine, run_in(engine))
            assert permit.refused == (level is Level.HARD)


@pytest.mark.case("T02")
@pytest.mark.parametrize("kind", ["no usage", "guessed price", "unpriced"])
def test_one_uncertain_call_does_not_disarm_a_limit_that_is_certainly_passed(
    tmp_path: Path, kind: str
) -> None:
    with opened(tmp_path, "budgets: {global: {daily_usd: 50}}") as engine:
        live = run_in(engine)
        if kind == "no usage":
            bill(engine, live, None, output_chars=4)
        elif kind == "guessed price":
            assert bill(engine, live, counts(80), "rumour-1").cost.estimated
        else:
            bill(engine, live, counts(80), "acme-lab-7b")
        spend(engine, "50.01")
        assert blocked(engine, live)
        permit, _ = ask(engine, run_in(engine))
        assert permit.refused


# ------------------------------------------------------------------------- one attempt, one row


@pytest.mark.case("A18", "T07")
def test_a_call_that_is_reported_as_it_streams_is_one_row_the_fullest(
    engine: Engine, live: LiveRun
) -> None:
    permit, request = ask(engine, live)
    for out in (3, 3, 400, 3):
        usage = counts(10, out, cr=15_000, cw=12_000)
        engine.record(live, permit, request, report_of(usage))
    (row,) = rows(engine)
    whole = 10 * 3_000 + 15_000 * 300 + 12_000 * 3_750 + 400 * 15_000
    assert row["cost_nanos"] == whole == usd("0.05553")
    assert spent(engine).certain_nanos == whole


@pytest.mark.case("T07")
def test_the_same_report_three_times_is_one_row(engine: Engine, live: LiveRun) -> None:
    permit, request = ask(engine, live)
    for _ in range(3):
        engine.record(live, permit, request, report_of(counts(1_000, 100)))
    assert len(rows(engine)) == 1
    assert spent(engine) == Spend(certain_nanos=usd("0.0045"), tokens=1_100, calls=1)


def test_a_report_replaces_an_estimate_and_no_estimate_a_report(
    engine: Engine, live: LiveRun
) -> None:
    permit, request = ask(engine, live, prompt_tokens=9_000)
    engine.record(live, permit, request, UsageReport(None), output_chars=40_000)
    assert spent(engine).estimated_nanos == 9_000 * 3_000 + 10_000 * 15_000
    for report in (report_of(counts(1_000, 100)), UsageReport(None)):
        engine.record(live, permit, request, report)
        assert spent(engine) == Spend(certain_nanos=usd("0.0045"), tokens=1_100, calls=1)


@pytest.mark.case("A17")
def test_a_failed_try_without_usage_costs_nothing_and_sets_nothing_aside(tmp_path: Path) -> None:
    with opened(tmp_path, ONE_DOLLAR) as engine:
        live = run_in(engine)
        permit, _ = ask(engine, live)
        engine.release(permit)
        bill(engine, live, counts(1_000, 100))
        assert spent(engine) == Spend(certain_nanos=usd("0.0045"), tokens=1_100, calls=1)
        assert reserved(engine) == 0


@pytest.mark.case("A17")
def test_a_rejected_answer_costs_and_so_does_its_repetition(engine: Engine, live: LiveRun) -> None:
    for _ in range(2):
        bill(engine, live, counts(1_000, 100))
    assert spent(engine) == Spend(certain_nanos=usd("0.009"), tokens=2_200, calls=2)


@pytest.mark.case("T04")
@pytest.mark.parametrize(
    ("model", "nanos", "source"),
    [
        (SONNET, 1_000 * 3_000 + 1_000 * 15_000, "pricing"),
        ("acme-lab-7b", None, "unpriced"),
        ("deepseek/deepseek-r1:free", 0, "free"),
    ],
)
def test_what_a_dead_process_had_set_aside_is_a_row_and_never_free_for_want_of_a_price(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, nanos: int | None, source: str
) -> None:
    yaml = "budgets: {global: {daily_usd: 1.00, daily_calls: 9}}"
    with opened(tmp_path, yaml) as engine:
        ask(engine, run_in(engine), model, provider="openrouter")
        assert reserved(engine) == 1
        monkeypatch.setattr("budget_plugin.store.reservations.is_gone", lambda _owner: True)
        assert engine.leftovers.sweep() == 1
        (row,) = rows(engine)
        assert (row["cost_nanos"], row["cost_source"]) == (nanos, source)
        assert "abandoned" in row["flags"].split()
        assert reserved(engine) == 0


def price_warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    said = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    return [line for line in said if "price" in line]


def blocked(engine: Engine, live: LiveRun) -> bool:
    verdict = engine.tool_verdict(live)
    return verdict is not None and verdict.blocks


def report_of(usage: object) -> UsageReport:
    return read_usage(usage)


def reserved(engine: Engine) -> int:
    assert engine.recorder.flush(60)
    with engine.ledger.reading() as connection:
        found: int = connection.execute("SELECT COUNT(*) FROM reservations").fetchone()[0]
    return found

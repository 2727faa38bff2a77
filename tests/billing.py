"""Calls at the prices of the public reports, for tests that go through a whole engine.

Prices are USD per million tokens, so one token at 3.00 costs 3,000 nano-dollars.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from budget_plugin.engine.engine import Engine
from budget_plugin.engine.live_runs import LiveRun
from budget_plugin.engine.permits import Permit, Request
from budget_plugin.policy.events import Call
from budget_plugin.policy.prices.usage import read_usage
from budget_plugin.policy.verdicts import NOTHING_SPENT, Spend
from budget_plugin.policy.windows import Window, period
from budget_plugin.testing import FakeClock, at, make_engine, make_run

NOON = at("2026-11-30 12:00")

PRICES = """\
unit: usd_per_million_tokens
models:
  claude-sonnet-4-5: {input: 3.00, output: 15.00, cache_read: 0.30, cache_write: 3.75}
  gpt-5: {input: 1.25, output: 10.00, cache_read: 0.125}
  gpt-5-mini: {input: 0.25, output: 2.00, cache_read: 0.025}
  gpt-5.5:
    input: 5.00
    output: 30.00
    cache_read: 0.50
    tiers: [{above: 272000, input: 10.00, output: 45.00, cache_read: 1.00}]
  gemini-2.5-pro:
    input: 1.25
    output: 10.00
    cache_read: 0.125
    tiers: [{above: 200000, input: 2.50, output: 15.00, cache_read: 0.25}]
  deepseek-v4-flash: {input: 0.14, output: 0.28, cache_read: 0.0028}
  deepseek/deepseek-r1: {input: 0.55, output: 2.19}
  rumour-1: {input: 1.00, output: 2.00, _estimated_price: true}
"""

SONNET = "claude-sonnet-4-5"
DOLLAR = 1_000_000_000
CHARS_PER_TOKEN = 4


def usd(text: str) -> int:
    """Nano-dollars of a decimal number of dollars: `usd("0.0045") == 4_500_000`."""
    whole, _, part = text.partition(".")
    return int(whole) * DOLLAR + int(part.ljust(9, "0"))


def counts(fresh: int = 0, out: int = 0, cr: int = 0, cw: int = 0, rs: int = 0) -> dict[str, int]:
    """Usage as the host hands it to `post_api_request`."""
    return {
        "input_tokens": fresh,
        "output_tokens": out,
        "cache_read_tokens": cr,
        "cache_write_tokens": cw,
        "reasoning_tokens": rs,
        "request_count": 1,
        "prompt_tokens": fresh + cr + cw,
        "total_tokens": fresh + cr + cw + out,
    }


@contextmanager
def opened(home: Path, yaml: str = "", prices: str = PRICES) -> Iterator[Engine]:
    """An engine in this home; at the end nothing waits and every total equals its rows."""
    engine = make_engine(home, yaml, FakeClock(NOON))
    (engine.folder / "pricing.yaml").write_text(prices, encoding="utf-8")
    try:
        yield engine
        assert engine.recorder.flush(60)
        assert engine.ledger.verify()[1] == []
    finally:
        engine.close()


def run_in(engine: Engine, **scopes: str) -> LiveRun:
    """A run that has begun."""
    return engine.open_run(make_run(**scopes))


def ask(
    engine: Engine,
    live: LiveRun,
    model: str = SONNET,
    *,
    provider: str = "custom",
    base_url: str = "https://provider.example/v1",
    prompt_tokens: int = 1_000,
    max_tokens: int | None = 1_000,
) -> tuple[Permit, Request]:
    """A call at the gate, of a prompt of this many tokens."""
    size = (prompt_tokens - 1) * CHARS_PER_TOKEN  # (the estimate is rounded up)
    request = Request(provider, model, base_url, size, max_tokens)
    return engine.admit(live, request), request


def bill(engine: Engine, live: LiveRun, usage: object, model: str = SONNET, **more: Any) -> Call:
    """A call that was admitted, and its row."""
    response = {key: more.pop(key) for key in ("response_model", "output_chars") if key in more}
    permit, request = ask(engine, live, model, **more)
    assert not permit.refused, permit
    report = read_usage(usage, approx_input_tokens=permit.expected.prompt_tokens)
    return engine.record(live, permit, request, report, **response)


def rows(engine: Engine) -> list[dict[str, Any]]:
    """The calls in the ledger, in the order in which they were written."""
    assert engine.recorder.flush(60)
    with engine.ledger.reading() as connection:
        found = connection.execute("SELECT * FROM calls ORDER BY id")
        names = [column[0] for column in found.description]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def spent(engine: Engine, scope: tuple[Any, str] = ("global", "")) -> Spend:
    """What a scope has spent today, summed from the rows."""
    assert engine.recorder.flush(60)
    rules = engine.rules()
    today = period(Window.DAILY, engine.clock.now_ms(), rules.zone, rules.budget.week_start)
    return engine.ledger.spend_between(scope, today.start_ms, today.end_ms) or NOTHING_SPENT

"""How long the gates hold up the agent: the tool gate warm and cold, prices, the host's start."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from budget_plugin.engine.engine import Engine
from budget_plugin.hermes.parts import Parts

from . import homes
from .homes import ALL_SCOPES, MODEL, PROVIDER, a_run, make_home, with_totals
from .timing import Row, cpu_us, each_us

_CEILINGS: Final = "runs: {default: {tool_calls: 1000000, tokens: 1000000, wall_clock_s: 90000}}"

SMALL, LARGE = 10_000, 1_000_000
_HOOK: Final = {
    "turn_id": "turn",
    "session_id": "cron_job-0_20261130_120000",
    "task_id": "",
    "tool_name": "terminal",
    "args": {"command": "true"},
    "platform": "telegram",
    "sender_id": "0",
    "model": MODEL,
}


def rows(folder: Path, large: int) -> list[Row]:
    """The gates' rows of the table; `large` calls stand in the larger ledger."""
    return [
        _warm(folder / "warm"),
        _warm_with_ceilings(folder / "ceilings"),
        _unconfigured(folder / "unconfigured"),
        *_cold(folder, large),
        _price(folder / "price"),
        _start(),
    ]


@contextmanager
def _gate(home: Path) -> Iterator[Callable[[], object]]:
    """The registered hook with a run that it knows."""
    parts = Parts(home)
    engine = parts.runtime.engine()
    parts.runtime.profile = lambda: "default"
    parts.hooks.pre_llm_call(**_HOOK)
    engine.rules()
    yield partial(parts.tools.pre_tool_call, **_HOOK)
    engine.close()


def _warm(home: Path) -> Row:
    with _gate(make_home(home, ALL_SCOPES)) as gate:
        taken = cpu_us(gate, calls=2_000)
    what = "tool gate, warm, all scopes of a run (the registered hook)"
    return Row(what, "≤ 10 µs", f"{taken:.1f} µs", taken <= 10)


def _warm_with_ceilings(home: Path) -> Row:
    make_home(home, f"{ALL_SCOPES}\n{_CEILINGS}")
    with _gate(home) as gate:
        taken = cpu_us(gate, calls=2_000)
    what = "the same with ceilings of runs"
    return Row(what, "≤ 15 µs", f"{taken:.1f} µs", taken <= 15)


def _unconfigured(home: Path) -> Row:
    with _gate(make_home(home)) as gate:
        taken = cpu_us(gate, calls=5_000)
    what = "tool gate without configuration"
    return Row(what, "≤ 2 µs", f"{taken:.2f} µs", taken <= 2)


def _cold(folder: Path, large: int) -> list[Row]:
    small_us, large_us = (
        _verdict_us(make_home(folder / f"calls-{calls}", ALL_SCOPES), calls)
        for calls in (SMALL, large)
    )
    return [
        Row(
            f"verdict, cache empty, a cron child's 8 totals, {large:,} calls",
            f"≤ 1 ms, ≤ 1.5 × its time at {SMALL:,}",
            f"{large_us / 1000:.2f} ms, {large_us / small_us:.2f} × ({small_us / 1000:.2f} ms)",
            large_us <= 1000 and large_us <= 1.5 * small_us,
            "" if large == LARGE else f"(the bar is meant for {LARGE:,} calls)",
        )
    ]


def _verdict_us(home: Path, calls: int) -> float:
    """The median of the gate's whole wait, the refresher's thread included."""
    engine = Engine(home)
    now_ms = engine.clock.now_ms()
    run = a_run(now_ms)
    with_totals(engine, run)  # makes the file
    homes.fill(engine.database.path, calls, now_ms)
    homes.add_old_totals(engine, calls)
    live = engine.open_run(run)

    def cold() -> None:
        engine.judge._cache.clear()
        live.memo = None
        engine.tool_verdict(live)

    each_us(cold, 50)
    taken = sorted(each_us(cold, 1_000))
    engine.close()
    return taken[len(taken) // 2]


def _price(home: Path) -> Row:
    engine = Engine(make_home(home))
    taken = cpu_us(
        lambda: engine.prices.table().route(PROVIDER, MODEL, "", "").at(engine.clock.now_ms()),
        calls=2_000,
    )
    return Row("price of a model, warm (one stat included)", "", f"{taken:.1f} µs", True)


# ---------------------------------------------------------------------- the host's start

_START: Final = """
import json, os, sys, time
import hermes_cli.plugins, hermes_constants
loaded = set(sys.modules)
begun = time.process_time()
import budget_plugin
class Context:
    profile_name = "default"
    def __getattr__(self, name):
        return lambda *args, **kwargs: None
budget_plugin.register(Context())
took = time.process_time() - begun
brought = set(sys.modules) - loaded
heavy = [name for name in ("sqlalchemy", "alembic", "yaml", "rich") if name in brought]
print(json.dumps({"ms": took * 1000, "heavy": heavy}))
"""


def _start() -> Row:
    what = "import and register() inside Hermes"
    bar = "≤ 15 ms, SQLAlchemy not imported"
    told = [_one_start() for _ in range(9)]
    if None in told:
        return Row(what, bar, "not measured: hermes-agent is not installed", False)
    took = sorted(start["ms"] for start in told if start)[len(told) // 2]
    heavy = sorted({name for start in told if start for name in start["heavy"]})
    note = f"; brought {', '.join(heavy)}" if heavy else ""
    return Row(what, bar, f"{took:.1f} ms{note}", took <= 15 and "sqlalchemy" not in heavy)


def _one_start() -> dict[str, Any] | None:
    command = [sys.executable, "-c", _START]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode:
        return None
    told: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    return told

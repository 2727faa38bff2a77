"""Public helpers for tests: a clock that is turned by hand, an engine in a folder, hook arguments.

clock = FakeClock(at("2026-11-30 12:00"))
engine = make_engine(tmp_path, "budgets: {global: {daily_usd: 5.00}}", clock, "Europe/Berlin")
spend(engine, usd="1.25", sender_id="telegram:1")
"""

import itertools
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from .policy.charges import run_scopes
from .policy.events import Call, Cost, CostSource, Run, Usage
from .policy.money import parse_usd

if TYPE_CHECKING:
    from .engine.engine import Engine

_numbers = itertools.count(1)


class FakeClock:
    """A clock that is turned by hand; see `budget_plugin.engine.clock.Clock`.

    Args:
        now_ms: the wall clock at the start, UTC milliseconds.
    """

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self._monotonic = 1_000.0

    def now_ms(self) -> int:
        """The wall clock."""
        return self._now_ms

    def monotonic(self) -> float:
        """Seconds that have passed."""
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Let time pass: both clocks move."""
        self._now_ms += round(seconds * 1000)
        self._monotonic += seconds

    def set(self, now_ms: int) -> None:
        """Set the wall clock; time passes if it is set forward, and does not if it is set back."""
        self._monotonic += max(0, now_ms - self._now_ms) / 1000
        self._now_ms = now_ms


def at(local: str, zone: str = "UTC") -> int:
    """UTC milliseconds of a local time such as `2026-11-30 12:00`."""
    return round(datetime.fromisoformat(local).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000)


def make_engine(home: Path, yaml: str, clock: FakeClock, zone: str = "UTC") -> "Engine":
    """An engine of its own in a folder; an empty `yaml` leaves budget.yaml out."""
    from .engine.engine import Engine

    folder = home / "budget"
    folder.mkdir(parents=True, exist_ok=True)
    if yaml:
        (folder / "budget.yaml").write_text(yaml, encoding="utf-8")
    return Engine(home, clock=clock, local_zone=lambda: ZoneInfo(zone))


def make_run(**scopes: str) -> Run:
    """A run of its own: `make_run(sender_id="telegram:1", cron_job_id="nightly")`."""
    number = next(_numbers)
    run_id = scopes.pop("run_id", f"run-{number}")
    session_id = scopes.pop("session_id", f"session-{number}")
    kind = scopes.pop("kind", "chat")
    root = scopes.pop("root_run_id", run_id)
    return Run(run_id, session_id, root, kind, started_ms=0, **scopes)


def spend(
    engine: "Engine",
    usd: str | None = "1.00",
    *,
    at_ms: int | None = None,
    tokens: int = 1000,
    estimated: bool = False,
    model: str = "a-model",
    run: Run | None = None,
    **scopes: str,
) -> Call:
    """Record one billed call; `usd=None` is a call whose price nobody knows.

    The run is new and belongs to `scopes`, unless one is given.
    """
    moment_ms = engine.clock.now_ms() if at_ms is None else at_ms
    run = replace(run or make_run(**scopes), started_ms=moment_ms)
    source = CostSource.UNPRICED if usd is None else CostSource.PRICING
    call = Call(
        attempt_id=f"attempt-{next(_numbers)}",
        run_id=run.run_id,
        at_ms=moment_ms,
        provider="a-provider",
        model=model,
        response_model="",
        usage=Usage(input_tokens=tokens),
        cost=Cost(None if usd is None else parse_usd(usd), source, estimated=estimated),
    )
    engine.ledger.add_call(call, run, patience_s=10.0)
    engine.judge.drop(run_scopes(run))
    return call


def hook_kwargs(**changes: Any) -> dict[str, Any]:
    """What every hook about a turn is given, with `changes`; ids are of this call alone."""
    number = next(_numbers)
    session_id = changes.pop("session_id", f"20261130_120000_{number:06x}")
    return {
        "session_id": session_id,
        "task_id": f"task-{number}",
        "turn_id": f"{session_id}:task-{number}:{number:08x}",
        "api_request_id": f"{session_id}:task-{number}:{number:08x}:api:1",
        "platform": "cli",
        "model": "a-model",
        "sender_id": "",
        "telemetry_schema_version": 1,
        **changes,
    }


def gateway_event(user_id: str | None, text: str = "", platform: str = "telegram") -> Any:
    """What `pre_gateway_dispatch` is given as `event`."""
    source = SimpleNamespace(
        platform=SimpleNamespace(value=platform),
        user_id=user_id,
        chat_id="chat",
        chat_type="dm",
    )
    return SimpleNamespace(text=text, source=source)

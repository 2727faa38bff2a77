"""The hooks as the host calls them: runs that begin and end, tools, and auxiliary calls."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from budget_plugin.engine.engine import Engine
from budget_plugin.hermes import plugin
from budget_plugin.hermes.parts import Parts
from budget_plugin.policy.limits import Scope
from budget_plugin.policy.verdicts import Spend
from budget_plugin.testing import hook_kwargs, spend
from tests.billing import SONNET, counts, opened, rows, spent, usd
from tests.unit.test_auxiliary import NOON_S, TITLE, title
from tests.unit.test_host_state import Host as HostDatabase

ONE_DOLLAR = "budgets: {global: {daily_usd: 1.00}}"


class Host:
    """One process of the host, with its hooks."""

    def __init__(self, engine: Engine, home: Path) -> None:
        self.engine = engine
        self.parts = Parts(home)
        self.parts.runtime._engine = engine
        self.hooks = self.parts.hooks
        self.tools = self.parts.tools
        self.turn = hook_kwargs(model=SONNET, platform="telegram", sender_id="1")

    def table(self, sql: str) -> list[tuple[Any, ...]]:
        assert self.engine.recorder.flush(60)
        with self.engine.ledger.reading() as connection:
            return connection.execute(sql).fetchall()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with opened(tmp_path) as engine:
        yield Host(engine, tmp_path)


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Host]:
    with opened(tmp_path, ONE_DOLLAR) as engine:
        yield Host(engine, tmp_path)


# ------------------------------------------------------------------------- turns and tools


def test_a_turn_is_a_run_of_its_sender_and_ends_once(host: Host) -> None:
    for _ in range(2):
        host.hooks.pre_llm_call(**host.turn)
    for completed in (True, False):
        host.hooks.on_session_end(**host.turn, completed=completed, interrupted=False)
    found = host.table("SELECT run_id, kind, sender_id, outcome FROM runs")
    assert found == [(host.turn["turn_id"], "chat", "telegram:1", "completed")]


@pytest.mark.parametrize(
    ("ending", "outcome"),
    [
        ({"completed": True}, "completed"),
        ({"completed": True, "interrupted": True}, "interrupted"),
        ({"completed": False}, "failed"),
        ({}, "failed"),
    ],
)
def test_how_a_turn_ended(host: Host, ending: dict[str, bool], outcome: str) -> None:
    host.hooks.pre_llm_call(**host.turn)
    host.hooks.on_session_end(**host.turn, **ending)
    assert host.table("SELECT outcome FROM runs") == [(outcome,)]


def test_without_a_limit_no_tool_is_looked_at(host: Host) -> None:
    assert host.tools.pre_tool_call(**host.turn, tool_name="terminal", args={}) is None


def test_a_tool_is_blocked_once_the_limit_is_spent(limited: Host) -> None:
    limited.hooks.pre_llm_call(**limited.turn)
    tool = {**limited.turn, "tool_name": "terminal", "args": {"command": "true"}}
    assert limited.tools.pre_tool_call(**tool) is None
    spend(limited.engine, "1.00")
    answers = [limited.tools.pre_tool_call(**tool) for _ in range(2)]
    assert answers[0] == answers[1]
    assert answers[0] is not None
    assert answers[0]["action"] == "block"
    assert "$1.00" in answers[0]["message"]


def test_a_tool_of_a_script_is_its_runs_though_only_the_task_is_named(limited: Host) -> None:
    limited.hooks.pre_llm_call(**limited.turn)
    spend(limited.engine, "1.00")
    inner = {"task_id": limited.turn["task_id"], "session_id": "", "turn_id": ""}
    answer = limited.tools.pre_tool_call(**inner, tool_name="terminal", args={})
    assert answer is not None
    (decided,) = limited.table("SELECT DISTINCT run_id FROM decisions WHERE gate = 'tool'")
    assert decided == (limited.turn["turn_id"],)


@pytest.mark.case("T11")
def test_what_a_child_spends_is_its_persons(host: Host) -> None:
    host.hooks.pre_llm_call(**host.turn)
    host.hooks.subagent_start(
        parent_session_id=host.turn["session_id"],
        parent_turn_id=host.turn["turn_id"],
        child_session_id="child",
        child_role="leaf",
    )
    child = hook_kwargs(session_id="child", platform="subagent", model=SONNET)
    host.hooks.pre_llm_call(**child)
    host.hooks.post_api_request(**child, provider="custom", usage=counts(1_000, 100))
    host.hooks.subagent_stop(child_session_id="child", child_status="completed")
    assert spent(host.engine, (Scope.SENDER, "telegram:1")).certain_nanos == usd("0.0045")
    assert host.table("SELECT status FROM subagent_edges") == [("completed",)]


# ------------------------------------------------------------------------- auxiliary calls


@pytest.mark.parametrize("hook", ["pre_llm_call", "on_session_end", "on_session_finalize"])
def test_the_hosts_database_is_looked_at(host: Host, tmp_path: Path, hook: str) -> None:
    state = HostDatabase(tmp_path / "state.db")
    host.hooks.pre_llm_call(**host.turn)
    assert rows(host.engine) == []
    title(state, session_id=host.turn["session_id"], last_seen=NOON_S)
    getattr(host.hooks, hook)(**host.turn)
    assert [row["cost_nanos"] for row in rows(host.engine)] == [TITLE]
    assert spent(host.engine, (Scope.SENDER, "telegram:1")).certain_nanos == TITLE


def reported(host: Host, **changes: Any) -> None:
    """`post_auxiliary_call` of a newer host."""
    host.hooks.post_auxiliary_call(
        **{
            **host.turn, "aux_task": "title_generation", "task": "title_generation",
            "provider": "custom", "base_url": "https://provider.example/v1", "api_request_id": "",
            "usage": counts(300, 6), "error": None, "streaming": False, **changes,
        }
    )  # fmt: skip


def test_a_newer_hosts_report_is_a_row_of_the_turn(host: Host) -> None:
    host.hooks.pre_llm_call(**host.turn)
    for _ in range(2):  # two attempts, though nothing tells them apart
        reported(host)
    found = rows(host.engine)
    assert [row["cost_nanos"] for row in found] == [TITLE, TITLE]
    assert {row["auxiliary_task"] for row in found} == {"title_generation"}
    assert {row["run_id"] for row in found} == {host.turn["turn_id"]}


def test_a_report_without_a_turn_is_a_run_of_its_own(host: Host) -> None:
    reported(host, session_id="", turn_id="", task_id="", platform="")
    assert host.table("SELECT kind FROM runs") == [("auxiliary",)]
    assert spent(host.engine).certain_nanos == TITLE


@pytest.mark.parametrize(
    "changes",
    [
        {"error": "RateLimitError: 429", "usage": None},
        {"aux_task": "moa_aggregator", "streaming": True, "usage": None},
        {"aux_task": "background_review"},
    ],
)
def test_what_was_not_billed_or_passes_the_gate_is_no_row(
    host: Host, changes: dict[str, Any]
) -> None:
    reported(host, **changes)
    assert rows(host.engine) == []


def test_a_report_without_usage_is_a_flagged_estimate(host: Host) -> None:
    reported(host, usage=None, assistant_content_chars=400)
    (row,) = rows(host.engine)
    assert row["cost_nanos"] == 100 * 15_000
    assert row["estimated"] == 1
    assert spent(host.engine) == Spend(
        estimated_nanos=1_500_000, tokens=100, calls=1, estimated_calls=1
    )


class Context:
    """The host's plugin context, as far as registering goes."""

    profile_name = "default"

    def __init__(self) -> None:
        self.hooks: list[str] = []
        self._manager = SimpleNamespace(_hooks={}, _middleware={})

    def register_hook(self, name: str, callback: Callable[..., Any]) -> None:
        self.hooks.append(name)
        self._manager._hooks.setdefault(name, []).append(callback)

    def register_middleware(self, name: str, callback: Callable[..., Any]) -> None:
        self._manager._middleware.setdefault(name, []).append(callback)

    def register_command(self, *_: Any, **__: Any) -> None: ...

    register_cli_command = register_command


@pytest.mark.parametrize("newer", [False, True])
def test_a_host_that_has_the_hook_is_not_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, newer: bool
) -> None:
    hooks = {*plugin.HOOKS, *(["post_auxiliary_call"] if newer else [])}
    monkeypatch.setitem(sys.modules, "hermes_cli.plugins", SimpleNamespace(VALID_HOOKS=hooks))
    monkeypatch.setattr(plugin, "host_home", lambda: tmp_path)
    context = Context()
    for _ in range(2):
        plugin.register(context)
    assert context.hooks.count("post_auxiliary_call") == newer
    parts = plugin._live.pop(tmp_path).parts()
    state = HostDatabase(tmp_path / "state.db")
    with opened(tmp_path) as engine:
        parts.runtime._engine = engine
        turn = hook_kwargs(model=SONNET)
        parts.hooks.pre_llm_call(**turn)
        assert rows(engine) == []
        title(state, session_id=turn["session_id"], last_seen=NOON_S)
        parts.hooks.on_session_end(**turn)
        assert len(rows(engine)) == (0 if newer else 1)

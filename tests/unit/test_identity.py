"""Whose money a hook is about: sessions, jobs, senders, profiles, delegation, renamed sessions."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from budget_plugin.engine.engine import Engine
from budget_plugin.engine.live_runs import Origin
from budget_plugin.hermes.commands import Commands
from budget_plugin.hermes.hooks import Hooks
from budget_plugin.hermes.identity import (
    children_of,
    command_of,
    first_message,
    origin_of,
    run_of,
)
from budget_plugin.hermes.model_gate import ModelGate
from budget_plugin.hermes.runs import Runs
from budget_plugin.hermes.runtime import Runtime
from budget_plugin.hermes.tool_gate import ToolGate
from budget_plugin.policy.charges import run_scopes
from budget_plugin.policy.events import Run
from budget_plugin.policy.limits import Scope
from budget_plugin.policy.session_ids import cron_job_of, sender_of
from budget_plugin.testing import FakeClock

NOON = 1_796_040_000_000  # 2026-11-30T12:00Z


class Host:
    """The hooks of one process, called as the host calls them."""

    def __init__(self, home: Path) -> None:
        self.runtime = Runtime(home)
        self.runtime._engine = Engine(
            home, clock=FakeClock(NOON), local_zone=lambda: ZoneInfo("UTC")
        )
        self.runtime.profile = lambda: "research"
        self.runs = Runs(self.runtime)
        self.hooks = Hooks(
            self.runtime, self.runs, ModelGate(self.runtime, self.runs), Commands(self.runtime)
        )
        self.tools = ToolGate(self.runtime, self.runs)

    @property
    def engine(self) -> Engine:
        return self.runtime.engine()

    def turn(self, turn_id: str, session_id: str, **more: Any) -> Run:
        self.hooks.pre_llm_call(turn_id=turn_id, session_id=session_id, **more)
        return self.run(turn_id)

    def run(self, turn_id: str) -> Run:
        live = self.engine.runs.find(turn_id)
        assert live is not None
        return live.run


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path)
    yield made
    assert made.engine.recorder.flush(60)
    assert made.engine.ledger.verify()[1] == []
    made.engine.close()


@pytest.mark.case("A49")
@pytest.mark.parametrize(
    ("session_id", "job"),
    [
        ("cron_my_nightly_report_20260907_210243", "my_nightly_report"),
        ("cron_c8d893b0a214_20260907_210243", "c8d893b0a214"),
        ("cron_x", ""),
        ("cron__20260907_210243", ""),
        ("cron_job_2026090_abc", ""),
        ("20260907_210243_0b3b5d", ""),
        ("", ""),
    ],
)
def test_the_job_in_a_session_id(session_id: str, job: str) -> None:
    assert cron_job_of(session_id) == job


@pytest.mark.parametrize(
    ("platform", "sender", "scope_id"),
    [
        ("telegram", "123456", "telegram:123456"),
        ("discord", "123456", "discord:123456"),  # the same number, somebody else
        ("", "123456", "123456"),
        ("cli", "", ""),  # nobody's money
    ],
)
def test_a_sender_is_a_person_on_a_platform(platform: str, sender: str, scope_id: str) -> None:
    assert sender_of(platform, sender) == scope_id


@pytest.mark.case("T13")
def test_a_cron_session_whose_start_was_missed_still_has_its_job(host: Host) -> None:
    """Enabled in mid-run: the first hook that comes is a tool call."""
    host.engine.folder.mkdir(exist_ok=True)
    host.engine.budget_file.path.write_text("budgets: {global: {daily_usd: 5}}")
    host.engine.reload_config()
    host.tools.pre_tool_call(
        tool_name="terminal", args={}, turn_id="t1", session_id="cron_job7_20260907_210243"
    )
    assert host.run("t1").cron_job_id == "job7"


def test_each_turn_of_a_group_chat_belongs_to_who_wrote_it(host: Host) -> None:
    first = host.turn("t1", "group", platform="telegram", sender_id="1")
    second = host.turn("t2", "group", platform="telegram", sender_id="2")
    assert (first.sender_id, second.sender_id) == ("telegram:1", "telegram:2")


@pytest.mark.case("T11", "T12")
def test_a_child_is_charged_to_all_scopes_of_its_root(host: Host) -> None:
    root = host.turn("t1", "cron_job7_20260907_210243", platform="cron", sender_id="1")
    host.hooks.subagent_start(
        parent_turn_id="t1", parent_session_id=root.session_id, child_session_id="c1"
    )
    child = host.turn("t2", "c1", platform="subagent")
    host.hooks.subagent_start(parent_turn_id="t2", parent_session_id="c1", child_session_id="c2")
    grandchild = host.turn("t3", "c2", platform="subagent")
    for run in (child, grandchild):
        assert run_scopes(run) == run_scopes(root)
        assert (run.root_run_id, run.kind) == ("t1", "child")


def test_a_child_keeps_its_first_parent(host: Host) -> None:
    host.turn("t1", "s1", platform="telegram", sender_id="1")
    host.turn("t2", "s2", platform="telegram", sender_id="2")
    for parent, session in (("t1", "s1"), ("t2", "s2")):
        host.hooks.subagent_start(
            parent_turn_id=parent, parent_session_id=session, child_session_id="c1"
        )
    assert host.turn("t3", "c1", platform="subagent").sender_id == "telegram:1"


def test_a_child_is_found_again_after_a_restart(host: Host, tmp_path: Path) -> None:
    host.turn("t1", "cron_job7_20260907_210243", platform="cron")
    host.hooks.subagent_start(
        parent_turn_id="t1",
        parent_session_id="cron_job7_20260907_210243",
        child_session_id="c1",
    )
    assert host.engine.recorder.flush(60)
    again = Host(tmp_path)
    assert again.turn("t2", "c1", platform="subagent").cron_job_id == "job7"
    assert again.engine.recorder.flush(60)


def test_tools_inside_a_script_belong_to_the_task_that_runs_it(host: Host) -> None:
    """`execute_code` reports its tools with a task id and nothing else."""
    host.turn("t1", "s1", task_id="task-1", platform="telegram", sender_id="1")
    inside = {"tool_name": "terminal", "args": {}, "task_id": "task-1", "turn_id": ""}
    live = host.runs.of({**inside, "session_id": ""})
    assert live.run.run_id == "t1"


def test_a_background_review_is_charged_like_the_session_it_reviews(host: Host) -> None:
    host.turn("t1", "s1", platform="telegram", sender_id="1")

    def review() -> None:
        host.turn("t2", "s1", platform="telegram")

    thread = threading.Thread(target=review, name="bg-review")
    thread.start()
    thread.join()
    assert (host.run("t2").kind, host.run("t2").sender_id) == ("review", "telegram:1")
    # The session's open run stays the person's: a hook without a turn id means that one.
    assert host.runs.of({"session_id": "s1"}).run.run_id == "t1"


@pytest.mark.case("A48")
def test_a_session_that_compression_renames_stays_with_its_job(host: Host) -> None:
    before = host.turn("t1", "cron_job7_20260907_210243", platform="cron")
    renamed = {"turn_id": "t1", "session_id": "20260907_221500_9f3c1d"}
    assert host.runs.of(renamed).run is host.engine.runs.find(before.run_id).run  # type: ignore[union-attr]
    assert host.runs.of({"session_id": "20260907_221500_9f3c1d"}).run.run_id == "t1"
    after = host.turn("t2", "20260907_221500_9f3c1d", platform="cron")
    assert (Scope.CRON_JOB, "job7") in run_scopes(after)


def test_without_ids_nothing_breaks() -> None:
    run = run_of({}, NOON, "")
    assert (run.session_id, run.kind, run_scopes(run)) == (
        "unknown",
        "chat",
        ((Scope.GLOBAL, ""),),
    )


def test_a_grandchild_after_a_restart_hangs_at_the_true_root(host: Host, tmp_path: Path) -> None:
    host.turn("t1", "cron_job7_20260907_210243", platform="cron")
    for parent_turn, parent, child in (
        ("t1", "cron_job7_20260907_210243", "c1"),
        ("t2", "c1", "c2"),
    ):
        host.hooks.subagent_start(
            parent_turn_id=parent_turn, parent_session_id=parent, child_session_id=child
        )
        host.turn("t2" if child == "c1" else "t3", child, platform="subagent")
    assert host.engine.recorder.flush(60)
    again = Host(tmp_path)
    assert again.turn("t4", "c2", platform="subagent").root_run_id == "t1"
    assert again.engine.recorder.flush(60)


# ------------------------------------------------------------------------- what a turn is about


SKILL = (
    '[IMPORTANT: The user has invoked the "{}" skill, indicating they want you to follow its '
    "instructions. The full skill content is loaded below.]"
)


@pytest.mark.parametrize(
    ("message", "command"),
    [
        (SKILL.format("support-ticket"), "support-ticket"),
        (SKILL.format("first") + "\n\n" + SKILL.format("second"), "first"),
        ("please look at " + SKILL.format("support-ticket"), ""),
        ("hello", ""),
        ("", ""),
        (None, ""),
        ([{"type": "text", "text": "hello"}], ""),
    ],
)
def test_the_command_of_a_turn_is_the_skill_that_the_host_loaded(
    message: object, command: str
) -> None:
    assert command_of(message) == command


@pytest.mark.parametrize(
    ("message", "origin"),
    [
        ("[ASYNC DELEGATION COMPLETE — d1]\nall done", Origin.DELEGATION),
        ("[ASYNC DELEGATION BATCH COMPLETE — d1]", Origin.DELEGATION),
        ("[Continuing toward your standing goal]\nGoal: ship it", Origin.HOST),
        ("[Continuing toward this kanban task — judge says it is not done yet]", Origin.HOST),
        ("[IMPORTANT: Background process p1 exited (exit code 1).\n", Origin.HOST),
        ('[IMPORTANT: The user has invoked the "deploy" skill, …', Origin.PERSON),
        ("what does [ASYNC DELEGATION COMPLETE mean?", Origin.PERSON),
        (None, Origin.PERSON),
    ],
)
def test_who_has_opened_a_turn(message: object, origin: Origin) -> None:
    assert origin_of(message) is origin


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({"user_message": "about SUP-1"}, "about SUP-1"),
        ({"user_message": "b", "conversation_history": []}, "b"),
        (
            {
                "user_message": "and now?",
                "conversation_history": [
                    {"role": "system", "content": "s"},
                    {"role": "user", "content": "about SUP-1"},
                    {"role": "user", "content": "SUP-2"},
                ],
            },
            "about SUP-1",
        ),
        (
            {"user_message": [{"type": "image_url"}, {"type": "text", "text": "SUP-3"}]},
            "SUP-3",
        ),
        ({"user_message": 7, "conversation_history": "odd"}, ""),
        ({}, ""),
        ({"user_message": "a" * 5_000}, "a" * 2_000),
    ],
)
def test_the_first_message_of_a_conversation(kwargs: dict[str, Any], text: str) -> None:
    assert first_message(kwargs) == text


@pytest.mark.parametrize(
    ("args", "children"),
    [
        ({"goal": "one"}, 1),
        ({"tasks": [{"goal": "a"}, {"goal": "b"}]}, 2),
        ({"tasks": '[{"goal": "a"}, {"goal": "b"}, {"goal": "c"}]'}, 3),
        ({"tasks": "not a list", "goal": "one"}, 1),
        ({"tasks": [], "goal": "one"}, 1),
        ({"action": "list"}, 0),
        ({"action": "list", "tasks": [{"goal": "a"}, {"goal": "b"}]}, 2),
        ({}, 0),
        (None, 0),
    ],
)
def test_how_many_children_a_delegation_starts(args: object, children: int) -> None:
    assert children_of(args) == children

"""Detectors at work: what is found stands on the record; what follows, only where it is set."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from budget_plugin.engine.engine import Engine
from budget_plugin.engine.live_runs import LiveRun, Origin
from budget_plugin.hermes.parts import Parts
from budget_plugin.policy.loops import WATCHED_AT_ONCE, Level, LoopPolicy, read_tool_event
from budget_plugin.testing import FakeClock, at, hook_kwargs, make_engine, make_run

NOON = at("2026-11-30 12:00")
ON = "loops: {all: true}\n"


class Gates:
    """One session of one home, with its hooks called as the host calls them."""

    def __init__(self, home: Path, yaml: str = "", **run: Any) -> None:
        folder = home / "budget"
        folder.mkdir()
        if yaml:
            (folder / "budget.yaml").write_text(yaml)
        self.parts = Parts(home)
        self.kwargs = hook_kwargs(**run)
        self.step = 0
        self.turn("go")

    def turn(self, message: str) -> None:
        """A new turn of the session."""
        turn = hook_kwargs(session_id=self.kwargs["session_id"], platform=self.kwargs["platform"])
        self.kwargs = turn
        self.parts.hooks.pre_llm_call(**turn, user_message=message)

    def tool(
        self, tool: str = "grep", args: Any = None, result: str = "same", error: str = ""
    ) -> str:
        """One call, asked for by an answer of its own; what refused it, "" if it ran."""
        self.step += 1
        said = {
            **self.kwargs,
            "tool_name": tool,
            "args": {"pattern": "x"} if args is None else args,
            "tool_call_id": f"c{self.step}",
            "api_request_id": f"{self.kwargs['turn_id']}:api:{self.step}",
        }
        refused = self.parts.tools.pre_tool_call(**said)
        status = "blocked" if refused else "error" if error else "ok"
        end = {"result": result, "status": status, "error_message": error or None}
        self.parts.tools.post_tool_call(**said, **end)
        return "" if refused is None else refused["message"]

    def told(self) -> str:
        """What the model reads beside the next call to it."""
        notes: list[str] = self.parts.gate._notes(self.live)
        return "\n".join(notes)

    @property
    def live(self) -> LiveRun:
        found = self.engine.runs.find(self.kwargs["turn_id"])
        assert found is not None
        return found

    @property
    def engine(self) -> Engine:
        return self.parts.runtime.engine()

    def record(self) -> list[tuple[str, str, int]]:
        """The findings in the ledger: detector, action, count."""
        return record(self.engine, self.kwargs["turn_id"])

    def receipt(self) -> dict[str, Any]:
        self.parts.hooks.on_session_end(**self.kwargs, completed=True, interrupted=False)
        assert self.live.guarded is not None
        receipt = self.live.guarded.budget.receipt
        assert receipt is not None
        return {
            "cause": receipt.ending.cause,
            "tools": int(receipt.used("tool_calls")),  # type: ignore[arg-type]
            "loops": [(seen.detector, seen.action, seen.count) for seen in receipt.loops],
        }


def record(engine: Engine, run_id: str) -> list[tuple[str, str, int]]:
    engine.recorder.flush(10.0)
    with closing(sqlite3.connect(engine.database.path)) as connection:
        return connection.execute(
            "SELECT measure, action, used FROM decisions WHERE gate = 'loop' AND run_id = ?",
            [run_id],
        ).fetchall()


# ------------------------------------------------------------------ nothing set: recorded only


@pytest.mark.case("A52")
@pytest.mark.parametrize("yaml", ["", "budgets: {global: {daily_usd: 50}}\n"])
def test_until_it_is_set_a_loop_is_recorded_and_nothing_follows(tmp_path: Path, yaml: str) -> None:
    gates = Gates(tmp_path, yaml)
    assert [gates.tool() for _ in range(5)] == [""] * 5
    assert gates.told() == ""
    assert gates.record() == [("repeated_call", "watched", 5)]  # one row, however often
    assert gates.receipt() == {
        "cause": "answered",
        "tools": 5,
        "loops": [("repeated_call", "watched", 5)],
    }


def test_digests_only_stand_in_the_ledger(tmp_path: Path) -> None:
    gates = Gates(tmp_path, ON)
    for _ in range(4):
        gates.tool(args={"command": "cat /secret-place"}, result="a secret")
    gates.engine.recorder.flush(10.0)
    with closing(sqlite3.connect(gates.engine.database.path)) as connection:
        assert "secret" not in "\n".join(connection.iterdump())


# ------------------------------------------------------------------ a person is there


@pytest.mark.case("A52")
def test_first_a_line_then_a_stronger_one_then_that_call_is_refused(tmp_path: Path) -> None:
    gates = Gates(tmp_path, ON)
    assert gates.tool() == ""
    assert gates.told() == ""
    assert gates.tool() == ""
    hint = gates.told()
    assert "grep was called 2 times with the same arguments" in hint
    assert "Use the result that is there" in hint
    assert "refused" not in hint
    assert gates.tool() == ""
    assert "will be refused until something new is known" in gates.told()
    assert gates.told() == ""  # each thing once
    text = gates.tool()
    assert "Not carried out, since it goes in a circle: grep was called 3 times" in text
    assert gates.tool(args={"pattern": "y"}, result="other") == ""  # only that call
    assert not gates.engine.loops.may_refuse(gates.live)  # from here on no arguments are read
    assert gates.tool() == ""  # something new is known: there may be a reason
    assert gates.record() == [("repeated_call", "refused", 3)]
    assert gates.receipt()["cause"] == "answered"


@pytest.mark.case("A52")
def test_polling_whose_result_changes_goes_on(tmp_path: Path) -> None:
    gates = Gates(tmp_path, ON)
    for percent in (10, 30, 60, 90, 100):
        assert gates.tool("check", {"id": 4}, f"{percent} %") == ""
    for _ in range(8):
        assert gates.tool("process", {"action": "poll", "id": 1}, "running") == ""
    assert gates.told() == ""
    assert gates.record() == []


@pytest.mark.case("A53")
def test_the_same_error_however_the_arguments_vary(tmp_path: Path) -> None:
    gates = Gates(tmp_path, ON)
    for name in ("a", "b", "c"):
        result = f'{{"error": "action is required for /tmp/{name}"}}'
        gates.tool("memory", {"target": name}, result, error=f"action is required for /tmp/{name}")
    assert "memory failed 3 times with the same error" in gates.told()
    assert ("repeated_error", "warned", 3) in gates.record()


def test_what_a_person_says_begins_anew_and_a_turn_of_the_host_does_not(tmp_path: Path) -> None:
    gates = Gates(tmp_path, ON)
    for _ in range(3):
        gates.tool()
    gates.turn("[ASYNC DELEGATION COMPLETE] a child is back")
    assert "goes in a circle" in gates.tool()
    gates.turn("look again, please")
    assert gates.tool() == ""


def test_only_the_detector_that_is_on_acts(tmp_path: Path) -> None:
    gates = Gates(tmp_path, "loops: {repeated_error: true}\n")
    assert [gates.tool() for _ in range(5)] == [""] * 5
    assert gates.record() == [("repeated_call", "watched", 5)]


def test_calls_of_one_script_are_judged_as_one(tmp_path: Path) -> None:
    gates = Gates(tmp_path, ON)
    script = {**gates.kwargs, "session_id": "", "turn_id": "", "api_request_id": ""}
    for _ in range(6):
        said = {**script, "tool_name": "terminal", "args": {"command": "git status"}}
        assert gates.parts.tools.pre_tool_call(**said) is None
        gates.parts.tools.post_tool_call(**said, result="clean", status="ok")
    assert gates.record() == []


def test_other_settings_begin_anew(tmp_path: Path) -> None:
    gates = Gates(tmp_path, ON)
    for _ in range(3):
        gates.tool()
    (tmp_path / "budget" / "budget.yaml").write_text("loops: {all: true, cycle: false}\n")
    gates.engine.reload_config()
    assert gates.tool() == ""


# ------------------------------------------------------------------ nobody is there

JOB = {"session_id": "cron_nightly_20261130_120000", "platform": "cron"}


def test_a_job_is_told_to_finish_and_then_ended_by_its_cause(tmp_path: Path) -> None:
    gates = Gates(tmp_path, ON, **JOB)
    for _ in range(3):
        assert gates.tool() == ""
    assert "Finish now" in gates.told()
    text = gates.tool()
    assert "went in circles, was told so" in text
    assert "No tool will work" in gates.tool(args={"pattern": "another"})
    assert gates.record() == [("repeated_call", "ended", 3)]
    # three ran; what is refused is none
    assert gates.receipt() == {
        "cause": "looped",
        "tools": 3,
        "loops": [("repeated_call", "ended", 3)],
    }


def test_a_job_that_was_not_told_yet_is_not_ended(tmp_path: Path) -> None:
    """Calls of one answer are gated before the model reads anything."""
    gates = Gates(tmp_path, ON, **JOB)
    for _ in range(3):
        gates.tool()
    assert "Not carried out" in gates.tool()
    assert "Not carried out" in gates.tool()
    assert gates.receipt()["cause"] == "answered"


def test_a_job_that_finishes_when_told_has_answered(tmp_path: Path) -> None:
    gates = Gates(tmp_path, ON, **JOB)
    for _ in range(3):
        gates.tool()
    gates.told()
    assert gates.receipt()["cause"] == "answered"


def test_another_circle_after_the_word_ends_it_too(tmp_path: Path) -> None:
    gates = Gates(tmp_path, ON, **JOB)
    for number in range(3):
        gates.tool("web", {"url": number}, f"e{number}", error="HTTP 500")
    assert "Finish now" in gates.told()
    gates.tool("web", {"url": 9}, "e9", error="HTTP 500")
    assert gates.receipt()["cause"] == "looped"


# ------------------------------------------------------------------ over delegation


def an_engine(home: Path, yaml: str = ON) -> Engine:
    return make_engine(home, yaml, FakeClock(NOON))


def policy(engine: Engine) -> LoopPolicy:
    return engine.rules().budget.loops


class Family:
    """Runs that hand work on, one below the other or one after the other."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.top = engine.open_run(make_run(session_id="top"))
        self.children = 0

    def child(self, parent: LiveRun, role: str, goal: str) -> LiveRun:
        self.children += 1
        session = f"child-{self.children}"
        self.engine.delegated(parent, session, role)
        self.engine.loops.dispatched(parent, policy(self.engine), session, role, goal)
        return self.engine.open_run(make_run(session_id=session, kind="child"))

    def call(self, live: LiveRun, result: str) -> None:
        event = read_tool_event(self.engine.loops.next_number(), "look", {"at": 1}, result)
        self.engine.loops.tool_ended(live, policy(self.engine), event)

    def back(self, child: LiveRun, *, answered: bool = True) -> None:
        self.engine.loops.returned(child.run.session_id, answered=answered)


def acted(live: LiveRun) -> list[str]:
    """The detectors that were sure."""
    told = live.loops.told if live.loops is not None else set()
    return sorted(detector for detector, level in told if level is Level.ACT)


def test_a_ping_pong_in_which_every_run_makes_one_call_is_seen(tmp_path: Path) -> None:
    """billing → refunds → billing → refunds, each a new run with one call that finds the same."""
    engine = an_engine(tmp_path)
    family = Family(engine)
    run = family.top
    seen_at: dict[str, int] = {}
    for hop, role in enumerate(["billing", "refunds"] * 3, start=1):
        child = family.child(run, role, f"settle SUP-118 ({role})")
        for detector in acted(run):
            seen_at.setdefault(detector, hop)
        family.call(child, "not our case")
        run = child
    # 1 top→billing  2 billing→refunds  3 refunds→billing: what billing has  4 billing→refunds again
    assert seen_at == {"recursion": 3, "cycle": 4, "idle_hops": 6}
    engine.close()


def test_the_same_dispatch_again_and_again(tmp_path: Path) -> None:
    engine = an_engine(tmp_path)
    family = Family(engine)
    for _ in range(3):
        child = family.child(family.top, "leaf", "Find the invoice")
        family.call(child, "nothing there")
        family.back(child)
    # The first child's look and its answer were new: 1 (new), 2, 3, 4
    assert acted(family.top) == []
    child = family.child(family.top, "leaf", "find the invoice")
    assert acted(family.top) == ["cycle"]
    again = [("leaf", "FIND THE INVOICE")]
    refused = engine.loops.refuses_dispatch(family.top, policy(engine), again)
    assert refused is not None
    assert refused.detector == "cycle"
    other = [("leaf", "find the contract")]
    assert engine.loops.refuses_dispatch(family.top, policy(engine), other) is None
    family.call(child, "there it is")
    assert engine.loops.refuses_dispatch(family.top, policy(engine), again) is None
    engine.close()


def test_a_batch_is_no_circle_whatever_its_goals(tmp_path: Path) -> None:
    engine = an_engine(tmp_path)
    family = Family(engine)
    for goal in ["vote"] * 6 + ["one", "two", "three", "four", "five", "six"]:
        family.child(family.top, "leaf", goal)
    assert acted(family.top) == []
    engine.close()


def test_different_work_for_children_that_only_think_is_no_circle(tmp_path: Path) -> None:
    engine = an_engine(tmp_path)
    family = Family(engine)
    for number in range(8):
        family.back(family.child(family.top, "leaf", f"think about chapter {number}"))
    assert acted(family.top) == []
    engine.close()


def test_children_that_all_fail_are_idle_hops(tmp_path: Path) -> None:
    engine = an_engine(tmp_path)
    family = Family(engine)
    for number in range(5):
        family.back(family.child(family.top, "leaf", f"try {number}"), answered=False)
    assert acted(family.top) == ["idle_hops"]
    engine.close()


def test_children_that_begin_with_the_same_look_are_no_loop(tmp_path: Path) -> None:
    engine = an_engine(tmp_path)
    family = Family(engine)
    for number in range(6):
        child = family.child(family.top, "leaf", f"part {number}")
        family.call(child, "clean")
        assert child.loops is None
        family.back(child)
    assert acted(family.top) == []
    engine.close()


def test_a_dispatch_of_an_ancestors_role_and_goal_is_refused_before_it_starts(
    tmp_path: Path,
) -> None:
    engine = an_engine(tmp_path)
    family = Family(engine)
    child = family.child(family.top, "orchestrator", "Write the report")
    same = [("leaf", "collect"), ("orchestrator", "write the report")]
    refused = engine.loops.refuses_dispatch(child, policy(engine), same)
    assert refused is not None
    assert refused.detector == "recursion"
    assert record(engine, child.run.run_id) == [("recursion", "refused", 1)]
    assert engine.loops.to_tell(child)
    assert engine.loops.refuses_dispatch(child, policy(engine), same) is None  # ended now
    assert child.guarded is not None
    assert child.guarded.budget.state.cause == "looped"
    assert engine.loops.refuses_dispatch(family.top, policy(engine), same) is None
    engine.close()


def test_the_hosts_hooks_lead_there(tmp_path: Path) -> None:
    """A batch of the delegation tool, asked for by a child that the host has started."""
    gates = Gates(tmp_path, ON)
    started = {
        "parent_session_id": gates.kwargs["session_id"],
        "parent_turn_id": gates.kwargs["turn_id"],
        "child_session_id": "the-child",
        "child_role": "orchestrator",
        "child_goal": "Write the report",
    }
    gates.parts.hooks.subagent_start(**started)
    child = hook_kwargs(session_id="the-child", platform="subagent")
    gates.parts.hooks.pre_llm_call(**child, user_message="Write the report")
    same = {"tasks": [{"goal": "collect"}, {"goal": "write the REPORT", "role": "orchestrator"}]}
    tool = {**child, "tool_name": "delegate_task"}
    refused = gates.parts.tools.pre_tool_call(**tool, args=same)
    assert refused is not None
    assert "are those of a run above" in refused["message"]
    assert gates.parts.tools.pre_tool_call(**tool, args={"goal": "write the report"}) is None
    gates.parts.hooks.subagent_stop(
        **started, child_status="completed", child_summary="it is written"
    )
    gates.parts.hooks.subagent_start(**{**started, "child_session_id": "another"})
    assert gates.live.loops is None  # the answer was a fact


def test_recursion_is_only_recorded_while_it_is_off(tmp_path: Path) -> None:
    engine = an_engine(tmp_path, "")
    family = Family(engine)
    child = family.child(family.top, "orchestrator", "write")
    same = [("orchestrator", "write")]
    assert engine.loops.refuses_dispatch(child, policy(engine), same) is None
    family.child(child, "orchestrator", "write")
    assert record(engine, child.run.run_id) == [("recursion", "watched", 1)]
    engine.close()


def test_a_child_that_loops_is_ended_and_its_parent_is_not(tmp_path: Path) -> None:
    engine = an_engine(tmp_path)
    family = Family(engine)
    child = family.child(family.top, "leaf", "look")
    for _ in range(3):
        family.call(child, "the same")
    assert engine.loops.to_tell(child)
    assert engine.loops.refuses(child, policy(engine), "look", {"at": 1}) is None
    engine.end_run(child, "completed")
    assert child.guarded is not None
    assert child.guarded.budget.receipt is not None
    assert child.guarded.budget.receipt.ending.cause == "looped"
    assert engine.guard.try_tool(family.top, "look", {}) is None
    engine.close()


# ------------------------------------------------------------------ accounts, pauses, bounds


def test_two_accounts_of_nothing_and_a_draft_that_does_not_move(tmp_path: Path) -> None:
    engine = an_engine(tmp_path)
    live = engine.open_run(make_run())
    for established in ("the order exists", "", "", None):
        engine.loops.checkpoint(live, policy(engine), established)
    assert acted(live) == ["no_new_facts"]
    for score in (0.5, 0.5):
        engine.loops.checkpoint(
            live, policy(engine), "a draft", head="writer", artifact="d", score=score
        )
    assert acted(live) == ["no_new_facts", "stuck_head"]
    engine.close()


def test_old_work_in_a_hurry_after_a_pause(tmp_path: Path) -> None:
    engine = an_engine(tmp_path)
    live = engine.open_run(make_run())

    def work() -> None:
        for number in range(10):
            event = read_tool_event(
                engine.loops.next_number(),
                "read",
                {"n": number},
                "r",
                at_s=engine.clock.monotonic(),
            )
            engine.loops.tool_ended(live, policy(engine), event)

    work()
    assert acted(live) == []
    engine.loops.resumed(live)
    work()
    assert "burst" in acted(live)
    engine.close()


def test_a_session_that_compression_renames_keeps_its_watch(tmp_path: Path) -> None:
    engine = an_engine(tmp_path)
    first = engine.open_run(make_run(session_id="old"))
    family = Family(engine)
    for _ in range(3):
        family.call(first, "same")
    assert engine.runs.find(first.run.run_id, "new") is first  # a hook of the run says "new"
    second = engine.open_run(make_run(session_id="new"), origin=Origin.HOST)
    assert engine.loops.refuses(second, policy(engine), "look", {"at": 1}) is not None
    engine.close()


def test_a_review_is_none_of_its_conversation(tmp_path: Path) -> None:
    engine = an_engine(tmp_path)
    family = Family(engine)
    for _ in range(3):
        family.call(family.top, "same")
    review = engine.open_run(make_run(session_id="top", kind="review"), foreground=False)
    assert engine.loops.refuses(review, policy(engine), "look", {"at": 1}) is None
    assert engine.loops.refuses(family.top, policy(engine), "look", {"at": 1}) is not None
    engine.close()


def test_conversations_are_watched_up_to_a_bound(tmp_path: Path) -> None:
    engine = an_engine(tmp_path)
    family = Family(engine)
    for _ in range(WATCHED_AT_ONCE + 20):
        live = engine.open_run(make_run())
        for _ in range(3):
            family.call(live, "same")
    assert len(engine.loops._watched) == WATCHED_AT_ONCE
    assert len(engine.loops._standing) == WATCHED_AT_ONCE
    engine.close()


def test_many_threads_see_one_loop(tmp_path: Path) -> None:
    engine = an_engine(tmp_path)
    live, family = engine.open_run(make_run()), Family(engine)
    threads = [
        threading.Thread(target=lambda: [family.call(live, "same") for _ in range(25)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert record(engine, live.run.run_id) == [("repeated_call", "warned", 100)]
    engine.close()

"""Endings and receipts: one a run, listed, counted, explained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from budget_plugin.commands import table
from budget_plugin.commands.asking import Answer, Args, Caller
from budget_plugin.commands.chat import parse, reply
from budget_plugin.engine.engine import Engine
from budget_plugin.policy.runs.endings import Outcome
from budget_plugin.policy.runs.run_budget import RunBudget
from budget_plugin.policy.runs.run_limits import RunLimits
from tests.billing import bill, counts, opened, run_in

ME = Caller("me", "chat", "/budget")


def answer(engine: Engine, name: str, *words: str, **options: Any) -> Answer:
    assert engine.recorder.flush(60)
    return table.answer(lambda: engine, name, Args(ME, words, **options))


def play(engine: Engine, tools: int, outcome: str = "completed") -> str:
    """A run that asks for so many tools and ends; its id."""
    live = run_in(engine)
    bill(engine, live, counts(1_000, 100))
    for _ in range(tools):
        engine.guard.try_tool(live, "terminal", {})
    engine.end_run(live, outcome)
    return live.run.run_id


LIMITS = "runs: {default: {tool_calls: 20}}"


def test_the_first_ending_of_a_run_stays(tmp_path: Path) -> None:
    with opened(tmp_path) as engine:
        receipts = []
        for outcome in (Outcome.ANSWERED, Outcome.FAILED):
            budget = RunBudget.create(RunLimits(), 0.0, run_id="r")
            receipts.append(budget.resolve(1.0, outcome=outcome))
        assert [engine.run_records.add(each, 5, 1.0) for each in receipts] == [True, False]
        (ended,) = engine.run_records.latest(10)
        assert ended.receipt == receipts[0]
        assert ended.at_ms == 5


@pytest.mark.parametrize("name", ["whole", "end", "session"])
def test_a_run_is_found_by_its_id_its_end_and_its_session(tmp_path: Path, name: str) -> None:
    with opened(tmp_path) as engine:
        live = run_in(engine, run_id="s1:task:0001ab", session_id="s1")
        engine.end_run(live, "completed")
        assert engine.recorder.flush(60)
        given = {"whole": "s1:task:0001ab", "end": "0001ab", "session": "s1"}[name]
        found = engine.run_records.named(given)
        assert found is not None
        assert found.run_id == "s1:task:0001ab"
        assert engine.run_records.named("another") is None


def test_runs_lists_the_newest_first_and_marks_near_misses(tmp_path: Path) -> None:
    with opened(tmp_path, LIMITS) as engine:
        play(engine, 3)
        play(engine, 19)  # 95 %
        play(engine, 25)
        listed = answer(engine, "runs")
        data: Any = listed.data
        assert [run["tools"] for run in data] == [20, 19, 3]
        assert listed.text.count("near miss:") == 1
        assert "tool calls: 19 of 20 (95 %)" in " ".join(listed.text.split())
        assert "33 % partial" in " ".join(listed.text.split())
        assert max(map(len, listed.in_a_chat().splitlines())) <= 40


def test_partial_runs_are_a_queue_with_an_owner(tmp_path: Path) -> None:
    with opened(tmp_path, LIMITS) as engine:
        play(engine, 3)
        play(engine, 25)
        listed = answer(engine, "runs", partial=True)
        data: Any = listed.data
        assert [(run["status"], run["next_owner"]) for run in data] == [("partial", "human")]
        assert "next: human" in listed.text


def test_partial_is_understood_in_a_chat_as_well() -> None:
    name, args, as_json = parse("runs --partial --json", ME)
    assert (name, args.partial, as_json) == ("runs", True, True)


def test_runs_for_programs_are_whole_receipts(tmp_path: Path) -> None:
    with opened(tmp_path, LIMITS) as engine:
        run_id = play(engine, 3)
        assert engine.recorder.flush(60)
        (run,) = json.loads(reply(lambda: engine, "runs --json", ME))
        assert (run["run_id"], run["cause"], run["kind"]) == (run_id, "answered", "chat")
        assert run["budgets"]["tool_calls"] == {
            "used": 3,
            "limit": 20,
            "peak_pct": 15.0,
            "near_miss": False,
        }
        assert run["cost_nanos"] == 1_000 * 3_000 + 100 * 15_000


def test_a_receipt_names_every_meter_what_is_missing_and_who_is_next(tmp_path: Path) -> None:
    with opened(tmp_path, LIMITS) as engine:
        play(engine, 25)
        text = " ".join(answer(engine, "receipt").text.split())
        for part in (
            "ESCALATED_TO_HUMAN, partial, tool-call budget",
            "tool calls: 20 of 20 (100 %)",
            "tokens: 1,100",
            "Missing: - not said; the run ended by: tool-call budget",
            "Next: human",
        ):
            assert part in text


def test_why_says_what_was_refused(tmp_path: Path) -> None:
    with opened(tmp_path, LIMITS) as engine:
        run_id = play(engine, 25)
        said = answer(engine, "why", run_id)
        assert "The tool-call budget of 20 is reached." in " ".join(said.text.split())
        data: Any = said.data
        assert [row["measure"] for row in data["decisions"]] == ["tool_calls"]


def test_why_of_a_run_that_nothing_stopped(tmp_path: Path) -> None:
    with opened(tmp_path, LIMITS) as engine:
        play(engine, 1)
        assert "No limit refused it anything." in " ".join(answer(engine, "why").text.split())


@pytest.mark.parametrize("name", ["receipt", "why"])
@pytest.mark.parametrize("words", [(), ("nobody",)])
def test_of_a_run_that_is_not_known_that_is_said(
    tmp_path: Path, name: str, words: tuple[str, ...]
) -> None:
    with opened(tmp_path) as engine:
        said = answer(engine, name, *words)
        assert said.exit_code == 1
        assert "ended" in said.text


def test_before_any_run_has_ended(tmp_path: Path) -> None:
    with opened(tmp_path) as engine:
        assert answer(engine, "runs").text == "No run has ended yet."
        assert answer(engine, "runs", partial=True).text == "No run has ended partial."


def test_what_a_run_delivered_cannot_forge_lines(tmp_path: Path) -> None:
    with opened(tmp_path) as engine:
        budget = RunBudget.create(RunLimits(), 0.0, run_id="r")
        receipt = budget.resolve(1.0, gaps=["one\nNext: nobody"])
        engine.run_records.add(receipt, 5, 1.0)
        assert "\nNext: nobody" not in answer(engine, "receipt").text

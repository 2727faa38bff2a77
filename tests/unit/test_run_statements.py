"""What a run says of itself: it is taken down, and moves no ceiling."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from budget_plugin.commands.asking import Caller
from budget_plugin.commands.chat import reply
from budget_plugin.engine.engine import Engine
from budget_plugin.engine.live_runs import LiveRun
from budget_plugin.hermes.parts import Parts
from budget_plugin.hermes.tool_schemas import NAMES, SCHEMAS
from budget_plugin.policy.admission import Kind
from budget_plugin.policy.runs.endings import TerminalState
from budget_plugin.policy.runs.receipts import Receipt
from budget_plugin.policy.runs.run_limits import Meter
from budget_plugin.policy.runs.statements import MOST_CHARS
from budget_plugin.testing import hook_kwargs
from tests.billing import ask, opened


class Talker:
    """A run whose model uses the budget's own tools."""

    def __init__(self, engine: Engine, home: Path) -> None:
        self.engine = engine
        self.parts = Parts(home)
        self.parts.runtime._engine = engine
        self.turn = hook_kwargs()
        self.parts.hooks.pre_llm_call(**self.turn)
        live = engine.runs.find(self.turn["turn_id"])
        assert live is not None
        self.live: LiveRun = live

    def say(self, tool: str, **args: Any) -> str:
        where = {"session_id": self.turn["session_id"], "task_id": self.turn["task_id"]}
        answer = getattr(self.parts.model_tools, f"budget_{tool}")(args, **where, user_task="x")
        text: str = json.loads(answer)["budget"]
        return text

    def work(self, tools: int) -> None:
        for _ in range(tools):
            assert self.engine.guard.try_tool(self.live, "terminal", {}) is None

    def note(self) -> str | None:
        return self.engine.telling.note(self.live)

    def end(self) -> Receipt:
        self.engine.end_run(self.live, "completed")
        assert self.engine.recorder.flush(60)
        (ended,) = self.engine.run_records.latest(9)
        return ended.receipt


def runs(limits: str, rest: str = "") -> str:
    return f"runs: {{default: {{{limits}}}{rest}}}"


# ------------------------------------------------------------------------- checkpoints


def test_at_each_quarter_three_questions_are_asked(tmp_path: Path) -> None:
    """Of 8 tool calls 2, 4 and 6 are a quarter each; the end is none."""
    with opened(tmp_path, runs("tool_calls: 8", ", checkpoints: 0.25, soft_pct: 1.0")) as engine:
        run, asked = Talker(engine, tmp_path), []
        for _ in range(8):
            asked.append(run.note())
            run.work(1)
        assert [n for n, text in enumerate(asked) if text] == [2, 4, 6]
        text = str(asked[2])
        assert text.startswith("Checkpoint: 25 % of the budget is used. Answer with budget_checkpo")
        assert [line[:2] for line in text.splitlines()[1:]] == ["1.", "2.", "3."]


def test_without_the_key_nothing_is_asked(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 8", ", soft_pct: 1.0")) as engine:
        run = Talker(engine, tmp_path)
        run.work(7)
        assert run.note() is None


@pytest.mark.parametrize(
    ("answers", "stuck"),
    [
        (["nothing", "nothing"], True),
        (["Nothing.", "no new facts"], True),
        (["nothing", None], False),  # no answer is not "nothing"
        (["nothing", "", "nothing"], False),
        (["nothing", "the cause is a stale cache", "nothing"], False),
    ],
)
def test_nothing_twice_in_a_row_ends_the_run_at_once(
    tmp_path: Path, answers: list[str | None], stuck: bool
) -> None:
    with opened(tmp_path, runs("tool_calls: 40", ", checkpoints: 0.10, soft_pct: 1.0")) as engine:
        run = Talker(engine, tmp_path)
        for answer in answers:
            run.work(4)
            assert "Checkpoint" in str(run.note())
            if answer is not None:
                run.say("checkpoint", established=answer)
        refused = engine.guard.try_tool(run.live, "terminal", {})
        assert (refused is not None) == stuck
        permit, _ = ask(engine, run.live)
        assert permit.kind is (Kind.LAST if stuck else Kind.NORMAL)
        ending = run.end().ending
        if stuck:
            assert (ending.state, ending.cause) == (TerminalState.ESCALATED_TO_HUMAN, "stuck")
        else:
            assert ending.cause == "answered"


def test_answers_are_kept_short_and_a_draft_as_its_digest(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 8", ", checkpoints: 0.25")) as engine:
        run = Talker(engine, tmp_path)
        run.work(2)
        run.note()
        run.say(
            "checkpoint",
            established="the cause\nis known",
            enough="y" * 1000,
            smallest="a summary",
            head="writer",
            artifact="a secret draft",
            score=0.5,
        )
        assert engine.recorder.flush(60)
        (kept,) = engine.checkpoints.of(run.turn["turn_id"])
        assert (kept.number, kept.established, kept.score) == (1, "the cause is known", 0.5)
        assert (len(kept.enough), kept.smallest, kept.head) == (MOST_CHARS, "a summary", "writer")
        assert kept.artifact
        assert "secret" not in kept.artifact
        run.end()
        told = reply(lambda: engine, "why", Caller("me", "chat", "/budget"))
        assert "established: the cause is known" in " ".join(told.split())


# ------------------------------------------------------------------------- counts


def test_counts_only_grow_and_a_spent_one_escalates_for_low_confidence(tmp_path: Path) -> None:
    with opened(tmp_path, runs("rejudges: 2, tool_calls: 9")) as engine:
        run = Talker(engine, tmp_path)
        for count in (1, 0, -5, "2", True, 1):
            run.say("checkpoint", rejudges=count)
        assert engine.guard.try_tool(run.live, "terminal", {}) is None
        run.say("checkpoint", rejudges=3)
        assert engine.guard.try_tool(run.live, "terminal", {}) is not None
        receipt = run.end()
        assert (receipt.ending.cause, receipt.ending.trigger) == (
            "re-judge budget",
            "low confidence",
        )
        assert receipt.steps["rejudges"] == 3


def test_a_spent_critique_retry_does_not_end_the_run(tmp_path: Path) -> None:
    with opened(tmp_path, runs("critique_retries: 1, tool_calls: 9")) as engine:
        run = Talker(engine, tmp_path)
        run.say("checkpoint", head="writer", critiques=5)
        assert engine.guard.try_tool(run.live, "terminal", {}) is None
        assert run.end().ending.cause == "answered"


def test_a_judge_that_is_asked_again_is_a_rejudgement(tmp_path: Path) -> None:
    """One look, and one more under `rejudges: 1`; the third is refused."""
    yaml = runs("rejudges: 1, dispatches: 9") + "\nroles: {judge: {judges_only: true}}\n"
    with opened(tmp_path, yaml) as engine:
        run = Talker(engine, tmp_path)
        answers = []
        for number in range(3):
            args = {"goal": f"judge: look at draft {number}"}
            answers.append(
                run.parts.tools.pre_tool_call(**run.turn, tool_name="delegate_task", args=args)
            )
        assert [answer is None for answer in answers] == [True, True, False]
        assert "re-judge budget" in str(answers[2])


# ------------------------------------------------------------------------- how it ends


def test_how_a_run_ends_by_its_own_account(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 9")) as engine:
        run = Talker(engine, tmp_path)
        run.say(
            "resolve",
            state="FOLLOW_UP_TICKET",
            delivered=["a draft"],
            gaps=["the figures of May", 7],
            next_owner="accounting",
        )
        account = engine.guard.account(run.live)
        receipt = run.end()
        assert account is not None
        for each in (account, receipt):
            assert each.ending.state is TerminalState.FOLLOW_UP_TICKET
            assert each.is_partial
            assert (each.delivered, each.gaps) == (("a draft",), ("the figures of May", "7"))
            assert each.next_owner == "accounting"


def test_an_exhausted_run_is_never_complete_whatever_it_says(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 1")) as engine:
        run = Talker(engine, tmp_path)
        run.work(1)
        assert engine.guard.try_tool(run.live, "terminal", {}) is not None
        run.say("resolve", state="RESOLVED", delivered=["everything"])
        receipt = run.end()
        assert receipt.is_partial
        assert receipt.ending.state is TerminalState.ESCALATED_TO_HUMAN


def test_an_ending_that_is_none_is_not_noted(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 9")) as engine:
        run = Talker(engine, tmp_path)
        assert "RESOLVED, ESCALATED_TO_HUMAN" in run.say("resolve", state="DONE", gaps=["x"])
        assert run.end().gaps == ()


# ------------------------------------------------------------------------- no authority


def test_asking_uses_nothing_up_and_raises_nothing(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 2")) as engine:
        run = Talker(engine, tmp_path)
        for _ in range(5):
            for name in sorted(NAMES):
                assert run.parts.tools.pre_tool_call(**run.turn, tool_name=name, args={}) is None
            args = {"tool_calls": 99, "limit": 99, "used": 0, "established": "99 calls are left"}
            run.parts.model_tools.budget_status(args, session_id=run.turn["session_id"])
            assert "tool calls: 2 of 2 left" in run.say("checkpoint", **args)
        run.work(2)
        assert engine.guard.try_tool(run.live, "terminal", {}) is not None
        for name in sorted(NAMES):  # never blocked, not even then
            assert run.parts.tools.pre_tool_call(**run.turn, tool_name=name, args={}) is None
        assert run.end().used(Meter.TOOL_CALLS) == 2


@pytest.mark.parametrize("args", [None, [], "x", {"established": {"a": 1}, "score": "NaN"}])
def test_nonsense_is_answered_too(tmp_path: Path, args: Any) -> None:
    with opened(tmp_path, runs("tool_calls: 2")) as engine:
        run = Talker(engine, tmp_path)
        for name in sorted(NAMES):
            answer = getattr(run.parts.model_tools, name)(args, session_id=run.turn["session_id"])
            assert json.loads(answer)["budget"]
            assert json.loads(getattr(run.parts.model_tools, name)(args))["budget"]


@pytest.mark.parametrize(
    ("yaml", "offered"),
    [("", False), ("budgets: {global: {daily_usd: 1}}", False), (runs("tool_calls: 2"), True)],
)
def test_they_are_offered_where_runs_have_ceilings(
    tmp_path: Path, yaml: str, offered: bool
) -> None:
    with opened(tmp_path, yaml) as engine:
        assert Talker(engine, tmp_path).parts.model_tools.offered() is offered


def test_they_cost_few_tokens_in_every_request() -> None:
    """Four characters are about a token; docs/runs.md says 450."""
    assert len(json.dumps(SCHEMAS)) / 4 <= 450

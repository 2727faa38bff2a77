"""`on_exhausted: abort`: what a run did is listed, a few tool calls undo it, and it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from budget_plugin.engine.engine import Engine
from budget_plugin.engine.live_runs import LiveRun
from budget_plugin.engine.permits import Permit
from budget_plugin.engine.runs.undoing import is_to_undo
from budget_plugin.hermes.parts import Parts
from budget_plugin.messages.run_words import run_undo
from budget_plugin.policy.digests import target_digest
from budget_plugin.policy.prices.usage import read_usage
from budget_plugin.policy.runs.effects import MOST, Effects, changes_something
from budget_plugin.policy.runs.lifecycle import UNDO_CALLS
from budget_plugin.policy.runs.refusals import Refusal
from budget_plugin.policy.runs.run_limits import Cause, Meter
from budget_plugin.testing import hook_kwargs
from tests.billing import SONNET, ask, counts, opened, run_in


def runs(limits: str) -> str:
    return f"timezone: UTC\nruns:\n  default: {{{limits}}}\n  on_exhausted: abort\n"


def use(engine: Engine, live: LiveRun, tool: str, *, failed: bool = False, **args: Any) -> bool:
    """A tool call that runs if it may; whether it did."""
    if engine.guard.try_tool(live, tool, args) is not None:
        return False
    engine.guard.tool_ended(live, tool, args, failed=failed)
    return True


def call(engine: Engine, live: LiveRun) -> Permit:
    """A call to the model that is billed if it may go: 100 + 20 tokens."""
    permit, request = ask(engine, live, prompt_tokens=100, max_tokens=100)
    if not permit.refused:
        report = read_usage(counts(100, 20), approx_input_tokens=100)
        engine.record(live, permit, request, report)
    return permit


# ------------------------------------------------------------------------- what an effect is


@pytest.mark.parametrize(
    ("tool", "changes"),
    [
        ("write_file", True),
        ("patch", True),
        ("terminal", True),
        ("execute_code", True),
        ("send_message", True),
        ("a_tool_that_nobody_knows", True),
        ("read_file", False),
        ("search_files", False),
        ("web_search", False),
        ("web_extract", False),
        ("session_search", False),
        ("skill_view", False),
        ("todo", False),
        ("delegate_task", False),
        ("budget_status", False),
    ],
)
def test_which_tools_change_something(tool: str, changes: bool) -> None:
    assert changes_something(tool) is changes


def test_of_very_many_effects_the_latest_are_kept_and_all_are_counted() -> None:
    effects = Effects(UNDO_CALLS)
    for number in range(MOST + 5):
        effects.note("terminal", f"t{number}", failed=False)
    newest = effects.newest_first()
    assert (effects.count, len(newest), newest[0].number) == (MOST + 5, MOST, MOST + 5)
    text = run_undo(Refusal(Cause.TOOL_CALLS), newest, effects.count, 5)
    assert "55. terminal, target t54" in text
    assert "(35 earlier ones are not listed.)" in text


# ------------------------------------------------------------------------- the whole way


def test_a_run_that_ran_out_undoes_with_five_calls_and_ends(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 4")) as engine:
        live = run_in(engine)
        assert use(engine, live, "write_file", path="/a")
        assert use(engine, live, "read_file", path="/a")
        assert use(engine, live, "terminal", failed=True, command="migrate up")
        assert use(engine, live, "write_file", path="/b")
        # The ceiling is reached. Others of the same batch are refused as well: the model has not
        # been told yet what to undo.
        assert [use(engine, live, "terminal", command="next") for _ in range(2)] == [False] * 2
        assert is_to_undo(live)
        permit = call(engine, live)
        assert permit.kind == "last"
        assert permit.undo is not None
        listed = [(e.number, e.tool, e.target, e.failed) for e in permit.undo.effects]
        assert listed == [
            (3, "write_file", target_digest({"path": "/b"}), False),
            (2, "terminal", target_digest({"command": "migrate up"}), True),
            (1, "write_file", target_digest({"path": "/a"}), False),
        ]
        assert permit.undo.calls_left == UNDO_CALLS == 5
        done = [use(engine, live, "terminal", command=f"undo {n}") for n in range(7)]
        assert done == [True] * 5 + [False] * 2
        last = call(engine, live)
        assert (last.kind, last.undo) == ("last", None)
        assert call(engine, live).refused
        engine.end_run(live, "completed")
        assert engine.recorder.flush(60)
        (ended,) = engine.run_records.latest(9)
        assert (ended.receipt.ending.cause, ended.receipt.is_partial) == (Cause.TOOL_CALLS, True)
        assert ended.receipt.used(Meter.TOOL_CALLS) == 4 + 5
        assert not use(engine, live, "terminal", command="undo once more")


def test_each_round_says_what_is_left_and_the_undoing_is_no_effect(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 1")) as engine:
        live = run_in(engine)
        use(engine, live, "write_file", path="/a")
        use(engine, live, "terminal")
        left, counted = [], []
        while (undo := call(engine, live).undo) is not None:
            left.append(undo.calls_left)
            counted.append(undo.count)
            assert use(engine, live, "terminal", command="rm /a")
        assert left == [5, 4, 3, 2, 1]
        assert set(counted) == {1}


def test_a_model_that_only_talks_is_given_no_endless_calls(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 1")) as engine:
        live = run_in(engine)
        use(engine, live, "write_file", path="/a")
        use(engine, live, "terminal")
        kinds = [call(engine, live).kind for _ in range(9)]
        assert kinds == ["last"] * 6 + ["refused"] * 3  # five rounds and the last answer


def test_a_run_that_changed_nothing_only_gives_its_last_answer(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 1")) as engine:
        live = run_in(engine)
        use(engine, live, "read_file", path="/a")
        assert not use(engine, live, "terminal")
        assert not is_to_undo(live)
        assert [call(engine, live).kind for _ in range(2)] == ["last", "refused"]
        assert not use(engine, live, "terminal")


def test_room_for_the_undoing_is_kept_of_tokens(tmp_path: Path) -> None:
    """Each call is expected to use 200 tokens; room for six more is kept while it works."""
    with opened(tmp_path, runs("tokens: 4000")) as engine:
        live = run_in(engine)
        normal = 0
        while (permit := call(engine, live)).kind == "normal":
            normal += 1
            assert use(engine, live, "write_file", path=f"/{normal}")
        rounds = 0
        while permit.undo is not None:
            rounds += 1
            assert use(engine, live, "terminal", command="undo")
            permit = call(engine, live)
        assert rounds == UNDO_CALLS
        assert permit.kind == "last"
        assert live.guarded is not None
        assert normal > 5
        assert live.guarded.budget.state.used.tokens <= 4_000


def test_nothing_new_is_delegated_while_undoing(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 1, dispatches: 8")) as engine:
        live = run_in(engine)
        use(engine, live, "write_file", path="/a")
        use(engine, live, "terminal")
        assert call(engine, live).undo is not None
        assert engine.guard.try_tool(live, "delegate_task", {}, 1) is not None
        assert use(engine, live, "terminal")


def test_what_children_did_is_undone_by_the_run_that_started_them(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 3")) as engine:
        live = run_in(engine)
        engine.delegated(live, "c", "")
        child = run_in(engine, session_id="c", kind="child")
        assert use(engine, child, "write_file", path="/of-the-child")
        assert use(engine, live, "write_file", path="/own")
        assert use(engine, child, "terminal")
        assert not use(engine, child, "terminal")
        assert call(engine, child).undo is None
        undo = call(engine, live).undo
        assert undo is not None
        assert [effect.tool for effect in undo.effects] == ["terminal", "write_file", "write_file"]
        assert not use(engine, child, "terminal")


# ------------------------------------------------------------------------- the hooks


def test_the_model_reads_digests_and_never_contents(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 1")) as engine:
        parts = Parts(tmp_path)
        parts.runtime._engine = engine
        kwargs = hook_kwargs(model=SONNET)
        parts.hooks.pre_llm_call(**kwargs, user_message="go")
        secret = {"path": "/srv/secret.txt", "content": "hunter2"}
        tool = {"tool_name": "write_file", "args": secret}
        assert parts.tools.pre_tool_call(**kwargs, **tool) is None
        parts.tools.post_tool_call(**kwargs, **tool, status="ok", result="written")
        refused = parts.tools.pre_tool_call(**kwargs, **tool)
        assert refused is not None
        assert "is to be undone now" in refused["message"]
        assert "Write the final answer now" not in refused["message"]
        sent: list[Any] = []
        request = {"model": SONNET, "messages": [{"role": "user", "content": "go"}]}
        parts.gate.llm_execution(
            **kwargs,
            api_mode="chat_completions",
            provider="custom",
            base_url="https://provider.example/v1",
            request=request,
            next_call=lambda changed=request: sent.append(changed),
        )
        told = json.dumps(sent)
        assert f"1. write_file, target {target_digest(secret)}" in told
        assert "5 tool calls are left" in told
        assert "secret.txt" not in told
        assert "hunter2" not in told
        assert parts.tools.pre_tool_call(**kwargs, **tool) is None

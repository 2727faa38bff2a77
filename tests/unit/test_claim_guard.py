"""Claims in the ledger: the first caller does it, the second is told; over threads and crashes."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from budget_plugin.commands.asking import Answer, Args, Caller, Usage
from budget_plugin.commands.claims import claims
from budget_plugin.engine.claim_guard import NoAnswer
from budget_plugin.engine.engine import Engine
from budget_plugin.engine.live_runs import LiveRun, Origin
from budget_plugin.hermes.parts import Parts
from budget_plugin.policy.claims import Answer as ClaimAnswer
from budget_plugin.policy.claims import Effect, Outcome, Told
from budget_plugin.testing import FakeClock, at, hook_kwargs, make_engine, make_run

NOON = at("2026-11-30 12:00")
CLAIMS = "timezone: UTC\nclaims: {tools: {mail: {identity: [to, text], per: PER}}}\n"
MAIL = {"to": "SUP-118", "text": "any left?"}


def an_engine(home: Path, per: str = "run_tree", more: str = "") -> Engine:
    return make_engine(home, CLAIMS.replace("PER", per) + more, FakeClock(NOON))


def effect(engine: Engine, args: dict[str, Any] | None = None) -> Effect:
    found = engine.claims.effect_of(engine.rules(), "mail", args or MAIL)
    assert found is not None
    return found


def ask(engine: Engine, live: LiveRun, call_id: str, args: dict[str, Any] | None = None) -> Told:
    return engine.claims.claim(live, engine.rules(), effect(engine, args), call_id)


def end(engine: Engine, live: LiveRun, call_id: str, outcome: Outcome, **how: bool) -> None:
    engine.claims.ended(live, effect(engine), call_id, outcome, **how)


def two_children(engine: Engine) -> tuple[LiveRun, LiveRun]:
    parent = engine.open_run(make_run())
    for name in ("left", "right"):
        engine.delegated(parent, name, "")
    left, right = (
        engine.open_run(make_run(session_id=name, kind="child")) for name in ("left", "right")
    )
    return left, right


def rows(engine: Engine, what: str = "*") -> list[tuple[Any, ...]]:
    engine.recorder.flush(10.0)
    with closing(sqlite3.connect(engine.database.path)) as connection:
        return connection.execute(f"SELECT {what} FROM claims").fetchall()


def test_of_two_children_one_sends_and_the_other_is_told(tmp_path: Path) -> None:
    engine = an_engine(tmp_path)
    left, right = two_children(engine)
    assert ask(engine, left, "call-1").answer is ClaimAnswer.GO
    assert ask(engine, right, "call-1").answer is ClaimAnswer.UNDER_WAY
    end(engine, left, "call-1", Outcome.SUCCESS)
    told = ask(engine, right, "call-2")
    assert (told.answer, told.run_id) == (ClaimAnswer.DONE, left.run.run_id)
    assert told.answer_at == "tool call call-1 of session left"
    assert told.effect is not None
    assert told.effect.shown == (("to", "SUP-118"), ("text", "any left?"))
    assert [row[0] for row in rows(engine, "state")] == ["done"]
    engine.close()


def test_a_claim_is_on_the_disk_before_the_effect(tmp_path: Path) -> None:
    engine = an_engine(tmp_path)
    ask(engine, engine.open_run(make_run()), "c")
    with closing(sqlite3.connect(engine.database.path)) as other:
        assert other.execute("SELECT state FROM claims").fetchall() == [("claimed",)]
    engine.close()


def test_the_book_holds_digests_and_no_contents(tmp_path: Path) -> None:
    engine = an_engine(tmp_path)
    ask(engine, engine.open_run(make_run()), "c")
    assert "SUP-118" not in repr(rows(engine))
    assert "any left" not in repr(rows(engine))
    engine.close()


def test_a_failure_frees_it_at_once_and_a_block_by_another_plugin_too(tmp_path: Path) -> None:
    engine = an_engine(tmp_path)
    live = engine.open_run(make_run())
    for number, outcome in enumerate([Outcome.FAILURE, Outcome.FAILURE]):
        assert ask(engine, live, f"c{number}").answer is ClaimAnswer.GO
        end(engine, live, f"c{number}", outcome, blocked=bool(number))
    assert ask(engine, live, "c9").answer is ClaimAnswer.GO
    engine.close()


@pytest.mark.parametrize("call_id", ["call_0", ""])
def test_the_block_of_a_namesake_is_not_the_end_of_the_first(tmp_path: Path, call_id: str) -> None:
    engine = an_engine(tmp_path)
    live = engine.open_run(make_run())
    assert ask(engine, live, call_id).answer is ClaimAnswer.GO
    assert ask(engine, live, call_id).answer is ClaimAnswer.UNDER_WAY
    end(engine, live, call_id, Outcome.FAILURE, blocked=True)
    assert ask(engine, live, call_id).answer is ClaimAnswer.UNDER_WAY
    end(engine, live, call_id, Outcome.FAILURE, blocked=True)
    end(engine, live, call_id, Outcome.SUCCESS)
    assert ask(engine, live, call_id).answer is ClaimAnswer.DONE
    engine.close()


def test_an_unknown_outcome_is_asked_about_in_the_next_tree_too(tmp_path: Path) -> None:
    engine = an_engine(tmp_path)
    first = engine.open_run(make_run())
    ask(engine, first, "c")
    end(engine, first, "c", Outcome.UNKNOWN)
    second = engine.open_run(make_run())
    assert ask(engine, second, "d").answer is ClaimAnswer.ASK
    other = {"to": "SUP-118", "text": "something else"}
    assert ask(engine, second, "e", other).answer is ClaimAnswer.GO
    assert isinstance(engine.clock, FakeClock)
    engine.clock.advance(3_600)
    assert ask(engine, second, "f").answer is ClaimAnswer.GO
    assert ask(engine, first, "g").answer is ClaimAnswer.ASK  # in its own tree it stays so
    engine.close()


@pytest.mark.parametrize(
    ("per", "later_s", "answer"),
    [
        ("run_tree", 60, ClaimAnswer.GO),
        ("ticket", 5 * 86_400, ClaimAnswer.DONE),
        ("day", 7_200, ClaimAnswer.DONE),
        ("day", 12 * 3_600, ClaimAnswer.GO),  # from noon to midnight
    ],
)
def test_within_what_it_happens_once(
    tmp_path: Path, per: str, later_s: int, answer: ClaimAnswer
) -> None:
    engine = an_engine(tmp_path, per)
    runs = [engine.open_run(replace(make_run(), ticket_id="T1")) for _ in range(2)]
    ask(engine, runs[0], "c")
    end(engine, runs[0], "c", Outcome.SUCCESS)
    assert isinstance(engine.clock, FakeClock)
    engine.clock.advance(later_s)
    assert ask(engine, runs[1], "d").answer is answer
    engine.close()


def test_a_turn_that_goes_on_for_another_is_of_its_tree(tmp_path: Path) -> None:
    engine = an_engine(tmp_path)
    first = engine.open_run(make_run(session_id="s"))
    ask(engine, first, "c")
    end(engine, first, "c", Outcome.SUCCESS)
    engine.delegated(first, "child", "")
    second = engine.open_run(make_run(session_id="s"), origin=Origin.HOST)
    assert ask(engine, second, "d").answer is ClaimAnswer.DONE
    engine.close()


def test_two_runs_of_one_ticket_are_two_trees(tmp_path: Path) -> None:
    engine = an_engine(tmp_path, more="runs: {default: {tool_calls: 9}, ticket: {env: T}}\n")
    first = engine.open_run(make_run(ticket_id="SUP-1"))
    ask(engine, first, "c")
    end(engine, first, "c", Outcome.SUCCESS)
    second = engine.open_run(make_run(ticket_id="SUP-1"))
    assert second.guarded is not None
    assert second.guarded.ticket is not None
    assert ask(engine, second, "d").answer is ClaimAnswer.GO
    engine.close()


def test_of_many_threads_exactly_one_passes(tmp_path: Path) -> None:
    engine = an_engine(tmp_path)
    live = engine.open_run(make_run())
    engine.recorder.flush(10.0)
    start, answers = threading.Barrier(8), []

    def race(number: int) -> None:
        start.wait()
        answers.append(ask(engine, live, f"c{number}").answer)

    threads = [threading.Thread(target=race, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [ClaimAnswer.GO, *[ClaimAnswer.UNDER_WAY] * 7]
    engine.close()


@pytest.fixture
def locked() -> Callable[[Engine], Any]:
    """Another process writes and does not end."""

    def lock(engine: Engine) -> Any:
        engine.recorder.flush(10.0)
        engine.database.engine()
        other = sqlite3.connect(engine.database.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        return closing(other)

    return lock


def test_without_the_ledger_it_still_happens_once_in_this_process(
    tmp_path: Path, locked: Callable[[Engine], Any]
) -> None:
    engine = an_engine(tmp_path)
    live = engine.open_run(make_run())
    with locked(engine):
        assert ask(engine, live, "c").answer is ClaimAnswer.GO
        end(engine, live, "c", Outcome.SUCCESS)
        assert ask(engine, live, "d").answer is ClaimAnswer.DONE
    assert rows(engine, "state, run_id") == [("done", live.run.run_id)]
    engine.close()


def test_without_the_ledger_nothing_with_an_effect_starts_if_so_set(
    tmp_path: Path, locked: Callable[[Engine], Any]
) -> None:
    engine = an_engine(tmp_path, more="ledger: {on_error: block}\n")
    live = engine.open_run(make_run())
    with locked(engine), pytest.raises(NoAnswer):
        ask(engine, live, "c")
    assert rows(engine) == []
    engine.close()


# --------------------------------------------------------------------------- through the hooks


class Gate:
    """The tool gate of one home, asked as the host asks it."""

    def __init__(self, home: Path, yaml: str) -> None:
        folder = home / "budget"
        folder.mkdir()
        (folder / "budget.yaml").write_text(yaml)
        self.parts = Parts(home)
        self.kwargs = hook_kwargs()
        self.parts.hooks.pre_llm_call(**self.kwargs, user_message="go")
        self.number = 0

    def call(self, args: dict[str, Any], status: str = "ok", **end: Any) -> str:
        """One call of `mail`, and its end; what refused it."""
        self.number += 1
        said = {**self.kwargs, "tool_name": "mail", "args": args, "tool_call_id": f"c{self.number}"}
        refused = self.parts.tools.pre_tool_call(**said)
        if refused is not None:
            status = "blocked"
        self.parts.tools.post_tool_call(**said, status=status, **end)
        return "" if refused is None else refused["message"]


def test_the_second_is_told_when_by_whom_and_where(tmp_path: Path) -> None:
    gate = Gate(tmp_path, CLAIMS.replace("PER", "run_tree"))
    assert gate.call(MAIL) == ""
    text = gate.call(MAIL)
    assert "mail (to SUP-118, text any left?) was done at" in text
    assert f"by run {gate.kwargs['turn_id']}" in text
    assert f"tool call c1 of session {gate.kwargs['session_id']}" in text
    gate.parts.runtime.engine().recorder.flush(10.0)
    [decision] = gate.parts.runtime.engine().run_records.reasons(gate.kwargs["turn_id"])
    assert (decision.measure, decision.action) == ("effect", "refused")
    assert "SUP-118" not in decision.detail


@pytest.mark.parametrize(
    ("status", "end", "said"),
    [
        ("error", {"error_message": "no such channel"}, ""),
        ("ok", {"result": '{"output": "", "exit_code": 1}'}, ""),
        ("ok", {"result": '{"output": "", "exit_code": 127}'}, ""),
        ("ok", {"result": '{"output": "", "exit_code": 124}'}, "nobody knows"),
        ("ok", {"result": '{"output": "", "exit_code": -9}'}, "nobody knows"),
        ("error", {"error_message": "Request timed out"}, "nobody knows"),
        ("cancelled", {}, "nobody knows"),
        ("ok", {"result": '{"output": "sent", "exit_code": 0}'}, "was done at"),
    ],
)
def test_what_follows_from_how_the_first_ended(
    tmp_path: Path, status: str, end: dict[str, Any], said: str
) -> None:
    gate = Gate(tmp_path, CLAIMS.replace("PER", "run_tree"))
    gate.call(MAIL, status, **end)
    text = gate.call(MAIL)
    assert said in text
    assert bool(said) == bool(text)


def test_what_another_rule_refuses_is_not_claimed(tmp_path: Path) -> None:
    yaml = CLAIMS.replace("PER", "day") + "runs: {default: {tool_calls: 0}}\n"
    gate = Gate(tmp_path, yaml)
    assert "tool-call budget" in gate.call(MAIL)
    assert rows(gate.parts.runtime.engine()) == []


def test_a_durable_write_is_synced_and_the_next_one_is_as_before(tmp_path: Path) -> None:
    engine = an_engine(tmp_path)

    def level(*, durable: bool) -> int:
        with engine.database.writing(10.0, durable=durable) as connection:
            return int(connection.execute("PRAGMA synchronous").fetchone()[0])

    assert [level(durable=durable) for durable in (False, True, False)] == [1, 2, 1]
    engine.close()


# --------------------------------------------------------------------------- a person's word


def said(engine: Engine, *words: str) -> Answer:
    return claims(engine, Args(Caller("somebody", "command line"), words))


@pytest.mark.parametrize(("word", "then"), [("done", ClaimAnswer.DONE), ("free", ClaimAnswer.GO)])
def test_a_person_says_what_came_of_it(tmp_path: Path, word: str, then: ClaimAnswer) -> None:
    engine = an_engine(tmp_path, "day")
    live = engine.open_run(make_run())
    ask(engine, live, "c")
    end(engine, live, "c", Outcome.UNKNOWN)
    listed = said(engine)
    assert "mail" in listed.text
    assert "hermes budget claims 1 done" in listed.text
    assert isinstance(listed.data, list)
    assert (listed.data[0]["number"], listed.data[0]["state"]) == (1, "unknown")
    assert "SUP-118" not in repr(listed)
    assert said(engine, "1", word).exit_code == 0
    assert said(engine, "1", word).exit_code == 1
    assert said(engine).data == []
    assert ask(engine, engine.open_run(make_run()), "d").answer is then
    engine.recorder.flush(10.0)
    (record,) = [r for r in engine.run_records.reasons(live.run.run_id) if r.gate == "person"]
    assert "by somebody via command line" in record.detail
    engine.close()


def test_only_what_is_unknown_waits_for_a_word(tmp_path: Path) -> None:
    engine = an_engine(tmp_path)
    live = engine.open_run(make_run())
    ask(engine, live, "c")
    assert said(engine, "1", "free").exit_code == 1
    end(engine, live, "c", Outcome.SUCCESS)
    assert said(engine, "1", "free").exit_code == 1
    assert ask(engine, live, "d").answer is ClaimAnswer.DONE
    engine.close()


@pytest.mark.parametrize(
    "words", [("1",), ("x", "done"), ("1", "maybe"), ("1", "done", "2"), ("done",)]
)
def test_what_is_not_understood_is_explained(tmp_path: Path, words: tuple[str, ...]) -> None:
    engine = an_engine(tmp_path)
    with pytest.raises(Usage, match="claims 3 done"):
        said(engine, *words)
    engine.close()

"""A run that ran out asks; a person grants or denies; a linked run goes on with exactly that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from budget_plugin.commands import chat
from budget_plugin.commands.asking import Caller
from budget_plugin.engine.engine import Engine
from budget_plugin.engine.live_runs import LiveRun
from budget_plugin.hermes.parts import Parts
from budget_plugin.policy.prices.usage import read_usage
from budget_plugin.policy.runs.extensions import RequestState, from_text, to_text, wanted
from budget_plugin.policy.runs.run_limits import Cause, Meter, RunLimits, RunRules
from budget_plugin.policy.runs.run_steps import Charge, begun, charged
from budget_plugin.store.extensions import Request
from budget_plugin.testing import hook_kwargs, make_run
from tests.billing import SONNET, ask, counts, opened, run_in, usd
from tests.ledgers import held_by_another_process

ADMIN = Caller("telegram:1", "chat", "/budget")
VISITOR = Caller("telegram:2", "chat", "/budget", may_change=False, sender_id="telegram:2")


def runs(limits: str, way: str = "ask", **more: str) -> str:
    rest = "".join(f"  {key}: {value}\n" for key, value in more.items())
    return f"timezone: UTC\nruns:\n  default: {{{limits}}}\n  on_exhausted: {way}\n{rest}"


def tools(engine: Engine, live: LiveRun, most: int = 100) -> int:
    started = 0
    while started < most and engine.guard.try_tool(live, "terminal", {}) is None:
        started += 1
    return started


def said(engine: Engine, text: str, caller: Caller = ADMIN) -> str:
    return chat.reply(lambda: engine, text, caller)


def ran_out(engine: Engine, **scopes: str) -> tuple[LiveRun, Request]:
    """A run that used all of its tools, with its request."""
    live = run_in(engine, **scopes)
    tools(engine, live)
    request = engine.extensions.ask(live)
    assert request is not None
    engine.end_run(live, "completed")
    return live, request


# ------------------------------------------------------------------------- what is asked for


@pytest.mark.parametrize(
    ("cause", "meter", "amount"),
    [
        (Cause.HOPS, Meter.DISPATCHES, 7),
        (Cause.TOKENS, Meter.TOKENS, 200_000),
        (Cause.SPEND, Meter.USD, usd("2")),
        (Cause.DEADLINE, Meter.WALL_CLOCK_S, 90),
        (Cause.TOOL_CALLS, Meter.TOOL_CALLS, 1),
    ],
)
def test_half_of_the_ceiling_is_asked_for_once_more(
    cause: Cause, meter: Meter, amount: int
) -> None:
    limits = RunLimits(14, 1, 400_000, 180, usd("4"))
    asks = wanted(begun(limits, 0.0), cause)
    assert asks is not None
    assert (asks.meter, asks.amount) == (meter, amount)


@pytest.mark.parametrize(
    ("limits", "cause"),
    [
        (RunLimits(context_pct=0.7), Cause.CONTEXT),
        (RunLimits(rejudges=2), Cause.REJUDGES),
        (RunLimits(retriages=2), Cause.RETRIAGES),
        (RunLimits(), Cause.WINDOW),
        (RunLimits(cost_nanos=0), Cause.SPEND),
    ],
)
def test_nothing_is_asked_for_that_more_would_not_help(limits: RunLimits, cause: Cause) -> None:
    assert wanted(begun(limits, 0.0), cause) is None


def test_an_account_is_carried_over_with_its_counters_and_exactly_so_much_more() -> None:
    """38 of 40 tools are used, 100 of 900 seconds; 5 more tools end it at 43."""
    rules, limits = RunRules(), RunLimits(tool_calls=40, wall_clock_s=900, dispatches=8)
    used = charged(begun(limits, 0.0, rules), Charge(tool_calls=38, hops=2, calls=3), 100.0)
    again = from_text(to_text(used, 100.0), rules, {Meter.TOOL_CALLS: 5}, 5_000.0)
    assert again.used == used.used
    assert (again.limits.tool_calls, again.limits.dispatches) == (43, 8)
    assert again.converging
    assert again.cause is None
    assert again.started_s == 4_900.0


@pytest.mark.parametrize("text", ["[]", "{}", "7", '{"limits": {}}', '{"limits": {"odd": 1}}'])
def test_a_text_that_is_no_account_is_said_to_be_none(text: str) -> None:
    with pytest.raises(ValueError, match="not an account"):
        from_text(text, RunRules(), {}, 0.0)


# ------------------------------------------------------------------------- the whole way


@pytest.mark.parametrize(("typed", "more"), [("extend 1", 2), ("extend 1 3", 3), ("extend", 2)])
def test_a_linked_run_goes_on_with_exactly_what_was_granted(
    tmp_path: Path, typed: str, more: int
) -> None:
    with opened(tmp_path, runs("tool_calls: 4")) as engine:
        old, request = ran_out(engine, session_id="s")
        assert (request.number, request.asked, request.state) == (1, 2, RequestState.OPEN)
        assert f"{more} more tool calls" in said(engine, typed)
        new = run_in(engine, session_id="s")
        assert new.guarded is not None
        assert new.guarded.budget.state.used.tool_calls == 4
        assert engine.telling.note(new) is not None  # converging is kept, and told
        assert tools(engine, new) == more
        engine.end_run(new, "completed")
        assert engine.recorder.flush(60)
        ended = engine.run_records.named(new.run.run_id)
        assert ended is not None
        assert ended.linked_run_id == old.run.run_id
        assert tools(engine, run_in(engine, session_id="s")) == 4  # a grant is used once


def test_the_grant_is_found_by_another_process(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 4")) as engine:
        ran_out(engine, session_id="s")
    with opened(tmp_path, runs("tool_calls: 4")) as engine:
        said(engine, "extend 1 1")
    with opened(tmp_path, runs("tool_calls: 4")) as engine:
        assert tools(engine, run_in(engine, session_id="other")) == 4
        assert tools(engine, run_in(engine, session_id="s")) == 1


def test_granted_dollars_are_usable_to_the_call(tmp_path: Path) -> None:
    """A call costs 1,000 * 3,000 + 400 * 15,000 nano-dollars, 0.009: 5 of 0.05, 3 more of 0.027."""
    with opened(tmp_path, runs("usd: 0.05")) as engine:

        def calls(live: LiveRun) -> int:
            for made in range(100):
                permit, request = ask(engine, live, max_tokens=400)
                if permit.refused:
                    return made
                report = read_usage(counts(1_000, 400), approx_input_tokens=1_000)
                engine.record(live, permit, request, report)
            return 100

        live = run_in(engine, session_id="s")
        assert calls(live) == 5
        assert engine.extensions.ask(live) is not None
        engine.end_run(live, "completed")
        said(engine, "extend 1 0.031")  # 0.045 are used: 0.076, and the last answer is among them
        assert calls(run_in(engine, session_id="s")) == 3


def test_the_next_run_of_a_job_goes_on_and_so_does_that_of_a_ticket(tmp_path: Path) -> None:
    yaml = runs("tool_calls: 4", ticket="{env: T}")
    with opened(tmp_path, yaml) as engine:
        ran_out(engine, session_id="cron_a_1", kind="cron", cron_job_id="a")
        ran_out(engine, session_id="s", ticket_id="SUP-1")
        said(engine, "extend 1 1")
        said(engine, "extend 2 3")
        assert tools(engine, run_in(engine, kind="cron", cron_job_id="a")) == 1
        assert tools(engine, run_in(engine, session_id="x", ticket_id="SUP-1")) == 3
        assert tools(engine, run_in(engine, session_id="y", ticket_id="SUP-1")) == 0


def test_a_denied_run_stays_ended_and_the_first_word_stands(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 4")) as engine:
        old, _ = ran_out(engine, session_id="s")
        assert "denied" in said(engine, "deny 1")
        assert "already" in said(engine, "extend 1")
        assert engine.guard.try_tool(old, "terminal", {}) is not None
        assert tools(engine, run_in(engine, session_id="s")) == 4  # new work, a new budget
        assert engine.recorder.flush(60)
        (reason,) = [
            each for each in engine.run_records.reasons(old.run.run_id) if each.gate == "person"
        ]
        assert (reason.action, reason.detail) == ("denied", "request 1, by telegram:1 via chat")


def test_a_later_request_for_the_same_work_makes_the_earlier_one_lapse(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 4")) as engine:
        ran_out(engine, session_id="s")
        ran_out(engine, session_id="s")
        ran_out(engine, session_id="t")
        assert [r.number for r in engine.extensions.requests.still_open()] == [2, 3]
        assert "lapsed" in said(engine, "extend 1")
        listed = said(engine, "extend")
        assert "2 runs ask for more" in listed
        assert "2: 2 more tool calls" in listed


def test_a_request_is_put_once_and_by_the_ending_at_the_latest(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 4")) as engine:
        live = run_in(engine)
        tools(engine, live)
        assert engine.extensions.ask(live) == engine.extensions.ask(live)
        engine.end_run(live, "failed")
        other = run_in(engine)
        tools(engine, other)
        engine.end_run(other, "failed")
        assert engine.recorder.flush(60)
        assert [r.run_id for r in engine.extensions.requests.still_open()] == [
            live.run.run_id,
            other.run.run_id,
        ]


@pytest.mark.parametrize("way", ["report", "abort"])
def test_only_where_it_is_set_a_run_asks(tmp_path: Path, way: str) -> None:
    with opened(tmp_path, runs("tool_calls: 4", way)) as engine:
        live = run_in(engine)
        tools(engine, live)
        assert engine.extensions.ask(live) is None
        engine.end_run(live, "completed")
        assert engine.recorder.flush(60)
        assert engine.extensions.requests.still_open() == []


def test_a_run_that_did_not_run_out_asks_for_nothing_and_neither_does_a_child(
    tmp_path: Path,
) -> None:
    with opened(tmp_path, runs("tool_calls: 9", child="{tool_calls: 2}")) as engine:
        parent = run_in(engine)
        engine.delegated(parent, "c", "")
        child = run_in(engine, session_id="c", kind="child")
        assert tools(engine, child) == 2
        assert engine.extensions.ask(child) is None
        assert engine.extensions.ask(parent) is None


def test_a_locked_ledger_delays_the_request_and_blocks_nothing(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 4")) as engine:
        live = run_in(engine, session_id="s")
        tools(engine, live)
        assert engine.recorder.flush(60)
        with held_by_another_process(engine.database.path):
            assert engine.extensions.ask(live) is None
            engine.end_run(live, "completed")
        assert engine.recorder.flush(60)
        assert len(engine.extensions.requests.still_open()) == 1


# ------------------------------------------------------------------------- commands


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("extend 9", "no request has that number"),
        ("extend 1 -5", "cannot be granted"),
        ("extend 1 none", "cannot be granted"),
        ("extend 1 0", "cannot be granted"),
        ("extend 1 2 3", "Usage: /budget extend"),
        ("deny 1 2", "Usage: /budget deny"),
    ],
)
def test_what_cannot_be_decided_is_said_and_decides_nothing(
    tmp_path: Path, typed: str, answer: str
) -> None:
    with opened(tmp_path, runs("tool_calls: 4")) as engine:
        ran_out(engine)
        assert answer in said(engine, typed)
        assert len(engine.extensions.requests.still_open()) == 1


def test_a_run_may_be_named_by_its_id_the_end_of_it_or_its_session(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 4")) as engine:
        for number, name in enumerate(("1-the-whole-id", "whole-id", "session-3"), 1):
            ran_out(engine, run_id=f"{number}-the-whole-id", session_id=f"session-{number}")
            data = json.loads(said(engine, f"extend {name} --json"))
            assert (data["number"], data["state"], data["granted"]) == (number, "granted", 2)
            assert (data["who"], data["via"]) == ("telegram:1", "chat")


def test_a_number_is_no_end_of_a_runs_id(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 4")) as engine:
        ran_out(engine, run_id="run-of-12345679")
        assert "no request has that number" in said(engine, "extend 9")
        assert "granted" in said(engine, "extend 12345679")


def test_nobody_asks(tmp_path: Path) -> None:
    with opened(tmp_path) as engine:
        assert said(engine, "extend") == "No run asks for more."


@pytest.mark.parametrize("typed", ["extend 1", "deny 1"])
def test_only_admins_decide(tmp_path: Path, typed: str) -> None:
    with opened(tmp_path, runs("tool_calls: 4")) as engine:
        ran_out(engine)
        assert "Only an admin" in said(engine, typed, VISITOR)
        assert len(engine.extensions.requests.still_open()) == 1


def test_the_receipt_shows_the_request(tmp_path: Path) -> None:
    with opened(tmp_path, runs("wall_clock_s: 60")) as engine:
        live = run_in(engine)
        engine.clock.advance(61)  # type: ignore[attr-defined]
        engine.end_run(live, "completed")
        assert engine.recorder.flush(60)
        assert "Request 1: 30 s more, open" in said(engine, "receipt")
        said(engine, "extend 1 90")
        assert "Request 1: 90 s more, granted by telegram:1" in said(engine, "receipt")
        assert json.loads(said(engine, "receipt --json"))["request"]["meter"] == "wall_clock_s"


# ------------------------------------------------------------------------- the hooks


class Turn:
    """A turn in the host that uses up its tools."""

    def __init__(self, engine: Engine, home: Path, **changes: Any) -> None:
        self.parts = Parts(home)
        self.parts.runtime._engine = engine
        self.kwargs = hook_kwargs(model=SONNET, **changes)
        self.parts.hooks.pre_llm_call(**self.kwargs, user_message="go")
        for _ in range(5):
            self.parts.tools.pre_tool_call(**self.kwargs, tool_name="terminal", args={})

    def shown(self) -> str:
        text = self.parts.hooks.transform_llm_output(**self.kwargs, response_text="Half of it.")
        return text or ""


def test_the_last_answer_names_the_number_and_the_command(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 4")) as engine:
        text = Turn(engine, tmp_path).shown()
        assert "Request 1: 2 more tool calls, to go on." in text
        assert "Yes: /budget extend 1 (in a shell: hermes budget extend 1)." in text
        assert "No: /budget deny 1" in text


def test_it_is_named_where_no_account_is_wanted_too(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 4", report="never")) as engine:
        text = Turn(engine, tmp_path, platform="telegram", sender_id="1").shown()
        assert text.count("\n") == 2
        assert "Yes: /budget extend 1. No: /budget deny 1" in text


def test_the_model_is_not_told_the_command(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 4")) as engine:
        turn = Turn(engine, tmp_path)
        sent: list[dict[str, Any]] = []
        request = {"model": SONNET, "messages": [{"role": "user", "content": "go"}]}
        turn.parts.gate.llm_execution(
            **turn.kwargs,
            api_mode="chat_completions",
            provider="custom",
            base_url="https://provider.example/v1",
            request=request,
            next_call=lambda changed=request: sent.append(changed),
        )
        told = json.dumps(sent)
        assert "A person is asked whether to grant more" in told
        assert "extend" not in told


def test_a_run_that_goes_on_for_a_job_is_not_confused_with_another(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 4")) as engine:
        ran_out(engine, session_id="cron_a_1", kind="cron", cron_job_id="a")
        said(engine, "extend 1")
        assert tools(engine, engine.open_run(make_run(kind="cron", cron_job_id="b"))) == 4

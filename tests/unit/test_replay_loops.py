"""Replay of the loop detectors: what they would have refused and ended, had they acted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from budget_plugin.commands import chat, replay, table
from budget_plugin.commands.asking import OK, PROBLEM, USAGE, Answer, Args, Caller
from budget_plugin.commands.candidates import candidates
from budget_plugin.engine.engine import Engine
from budget_plugin.policy.limits import Budget, ModelGate
from budget_plugin.policy.loops import (
    DEFAULTS,
    WATCHED_AT_ONCE,
    Detector,
    Finding,
    LoopPolicy,
    read_tool_event,
)
from budget_plugin.policy.money import parse_usd
from budget_plugin.policy.replay.outcome import Outcome
from budget_plugin.policy.replay.player import Candidate, Player
from budget_plugin.policy.replay.recorded import (
    FORGET_AFTER_MS,
    Event,
    RecordedCall,
    RecordedDispatch,
    RecordedRun,
    RecordedTool,
)
from budget_plugin.policy.runs.run_limits import Cause, RunLayer, RunPolicy
from budget_plugin.testing import FakeClock, at, make_engine, make_run, spend

NOON = at("2026-11-02 12:00")
ON = LoopPolicy(settings={name: replace(each, on=True) for name, each in DEFAULTS.items()})
OWNER = Caller("owner", "command line")


def acting(last_answers: int = 1, loops: LoopPolicy = ON, **amounts: float) -> Candidate:
    runs = RunPolicy(default=RunLayer(amounts))
    gate = ModelGate(wrap_up_calls=last_answers)
    return Candidate("it", Budget(runs=runs, model_gate=gate, loops=loops), loops=True)


def under(candidate: Candidate, events: Iterable[Event]) -> tuple[Outcome, list[Finding]]:
    """What it comes to, and all that was found."""
    found: list[Finding] = []
    player = Player(candidate, ZoneInfo("UTC"), on_found=lambda _, finding: found.append(finding))
    for event in events:
        player.play(event)
    return player.outcome(1), found


def a_run(run_id: str = "r", kind: str = "cron", *, root: str = "", session: str = "s"):
    return RecordedRun(run_id, root or run_id, kind, NOON, resolved=True, session_id=session)


def a_call(at_ms: int, run_id: str = "r") -> RecordedCall:
    return RecordedCall(at_ms, run_id, "m", 1_000, parse_usd("0.10"))


def a_tool(
    at_ms: int, run_id: str = "r", args: object = "same", status: str = "ok", **more
) -> RecordedTool:
    event = read_tool_event(
        at_ms - NOON + 1, "grep", {"for": args}, "found", status=status, at_s=at_ms / 1000
    )
    return RecordedTool(at_ms, run_id, event, **more)


def looping(times: int, run_id: str = "r", start_ms: int = NOON) -> Iterator[Event]:
    """Each second the model is called and asks for the same tool call."""
    for n in range(times):
        yield a_call(start_ms + n * 1000, run_id)
        yield a_tool(start_ms + n * 1000 + 500, run_id)


# ---------------------------------------------------------------------- what follows


@pytest.mark.parametrize(
    ("kind", "last_answers", "refused", "saved", "causes"),
    [
        # the 3rd tool call is a loop; the 4th call reads so, the 4th tool call ends the run:
        # the 5th call is the last answer, 6 … 10 are saved
        ("cron", 1, 0, 5, {Cause.LOOPED: 1}),
        ("cron", 0, 0, 6, {Cause.LOOPED: 1}),
        ("child", 1, 0, 5, {Cause.LOOPED: 1}),
        # somebody is there: tool calls 4 … 10 are refused, and the run goes on
        ("chat", 1, 7, 0, {}),
        ("", 1, 7, 0, {}),  # nobody knows what it was
    ],
)
def test_a_loop_that_goes_on_ends_a_run_that_nobody_attends(
    kind: str, last_answers: int, refused: int, saved: int, causes: dict[str, int]
) -> None:
    came_to, _ = under(acting(last_answers), [a_run(kind=kind), *looping(10)])
    assert (came_to.tools_refused, came_to.saved_calls) == (refused, saved)
    assert came_to.saved_nanos == saved * parse_usd("0.10")
    assert (came_to.causes, came_to.cut_resolved) == (causes, len(causes))


def test_who_has_not_read_that_it_loops_is_not_ended() -> None:
    """Ten calls in one go, before the model is called again: refused, as live."""
    tools = [a_tool(NOON + 1 + n) for n in range(10)]
    came_to, _ = under(acting(), [a_run(), a_call(NOON), *tools, a_call(NOON + 99)])
    assert (came_to.cut, came_to.tools_refused) == (0, 7)


def test_a_title_tells_the_model_nothing() -> None:
    """Made by another model: the 4th tool call is refused, and ends nobody."""
    title = a_call(NOON + 2_900)._replace(gated=False)
    came_to, _ = under(acting(), [a_run(), *looping(3), title, a_tool(NOON + 2_950)])
    assert (came_to.tools_refused, came_to.cut) == (1, 0)


def test_what_merely_watches_ends_nothing() -> None:
    came_to, found = under(acting(loops=LoopPolicy()), [a_run(), *looping(10)])
    assert (came_to.cut, came_to.tools_refused, came_to.saved_calls) == (0, 0, 0)
    assert [finding.count for finding in found] == list(range(2, 11))


def test_a_child_that_is_ended_does_not_stop_its_parent() -> None:
    """The child makes 4 calls and its last answer of 10; the root's call after it goes."""
    child = a_run("c", "child", root="r", session="s2")
    steps = [a_run("r", "chat"), a_call(NOON - 2), RecordedDispatch(NOON - 1, "r"), child]
    came_to, _ = under(acting(), [*steps, *looping(10, "c"), a_call(NOON + 60_000)])
    assert (came_to.saved_calls, came_to.cut, came_to.runs_unwatched) == (5, 1, 0)
    assert came_to.causes == {Cause.LOOPED: 1}


def test_what_a_ceiling_has_stopped_makes_no_tool_calls() -> None:
    """$0.15 is passed by the 2nd call; the two tool calls before are no loop yet."""
    candidate = acting(cost_nanos=parse_usd("0.15"))
    came_to, found = under(candidate, [a_run(), *looping(10)])
    assert came_to.causes == {Cause.SPEND: 1}
    assert [finding.count for finding in found] == [2]


def test_without_the_option_tool_calls_are_passed_over() -> None:
    candidate = replace(acting(), loops=False)
    came_to, found = under(candidate, [a_run(), *looping(10)])
    assert (came_to.cut, found) == (0, [])


# ---------------------------------------------------------------------- which watch


@pytest.mark.parametrize(
    ("second", "counts"),
    [
        (a_tool(NOON + 9, "r2"), [2]),  # a turn of the host's own goes on with the conversation
        (a_tool(NOON + 9, "r2", after_person=True), []),
    ],
)
def test_a_conversation_has_one_watch_until_a_person_speaks(
    second: RecordedTool, counts: list[int]
) -> None:
    steps = [a_run("r", "chat"), a_tool(NOON), a_run("r2", "chat"), second]
    assert [finding.count for finding in under(acting(), steps)[1]] == counts


def test_a_review_is_none_of_the_conversation_that_it_looks_at() -> None:
    steps = [a_run("r", "chat"), a_tool(NOON), a_run("v", "review"), a_tool(NOON + 9, "v")]
    assert under(acting(), steps)[1] == []


def test_after_a_resume_old_work_is_a_burst() -> None:
    """Ten old calls; then the same again within a minute: from the fifth on it is a hint."""
    old = [a_tool(NOON + n, args=n) for n in range(10)]
    first, *others = [a_tool(NOON + 60_000 + n, args=n) for n in range(10)]
    resumed = first._replace(resumed_ms=NOON + 60_000)
    _, found = under(acting(), [a_run(), *old, resumed, *others])
    bursts = [finding.count for finding in found if finding.detector is Detector.BURST]
    assert bursts == [5, 6, 7, 8, 9, 10]


def tool_in(session: str, at_ms: int) -> list[Event]:
    """A run of its own in a conversation; its one tool call fails."""
    run_id = f"{session} {at_ms}"
    return [a_run(run_id, session=session), a_tool(at_ms, run_id, status="error")]


def errors(steps: list[Event]) -> list[int]:
    """How often the same error was seen, at each finding."""
    _, found = under(acting(loops=LoopPolicy()), steps)
    return [finding.count for finding in found if finding.detector is Detector.REPEATED_ERROR]


@pytest.mark.parametrize(
    ("others", "later_ms", "counts"),
    [
        (WATCHED_AT_ONCE - 1, 1_000, [2]),
        (WATCHED_AT_ONCE, 1_000, []),  # as many others came by: the quietest is forgotten
        (1, FORGET_AFTER_MS, [2]),
        (1, FORGET_AFTER_MS + 1, []),  # a day is over
    ],
)
def test_memory_stays_flat(others: int, later_ms: int, counts: list[int]) -> None:
    steps = tool_in("first", NOON)
    for n in range(others):
        steps += tool_in(f"other {n}", NOON + later_ms)
    assert errors([*steps, *tool_in("first", NOON + later_ms)]) == counts


def test_a_conversation_that_goes_on_is_not_forgotten() -> None:
    steps = tool_in("first", NOON)
    for n in range(2 * WATCHED_AT_ONCE):
        steps += tool_in(f"other {n}", NOON + 1 + n)
        if n % 100 == 0:
            steps += tool_in("first", NOON + 1 + n)
    assert errors(steps) == [2, 3, 4]


# ---------------------------------------------------------------------- what is typed and answered


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOON)


@pytest.fixture
def engine(tmp_path: Path, clock: FakeClock) -> Iterator[Engine]:
    """A job that made the same tool call ten times, $0.50 a call, and a chat without tools."""
    engine = make_engine(tmp_path, "loops: {repeated_error: true}\n", clock)
    job = make_run(kind="cron", cron_job_id="nightly", run_id="job")
    live = engine.open_run(job)
    for n in range(10):
        spend(engine, "0.50", run=job)
        clock.advance(1)
        event = read_tool_event(n + 1, "grep", {}, "found", at_s=clock.monotonic())
        engine.loops.tool_ended(live, LoopPolicy(), event)
        clock.advance(1)
    engine.end_run(live, "completed")
    talk = make_run()
    engine.open_run(talk)
    spend(engine, "0.25", run=talk)
    assert engine.recorder.flush(10.0)
    yield engine
    engine.close()


def ask(engine: Engine, text: str, caller: Caller = OWNER) -> Answer:
    name, args, _ = chat.parse(text, caller)
    return table.answer(lambda: engine, name, args)


def test_the_answer_for_programs(engine: Engine) -> None:
    """The 5th call of 10 is the job's last answer: $2.50 of $5.25 are saved."""
    data = json.loads(json.dumps(ask(engine, "replay --loops on").data))
    (row,) = data["candidates"]
    assert (data["runs"], data["runs_without_tool_calls"], data["usd"]) == (2, 1, "5.25")
    assert (row["name"], row["runs_cut"], row["calls_saved"]) == ("loops on", 1, 5)
    assert (row["saved_usd"], row["tool_calls_refused"]) == ("2.5", 0)
    assert row["causes"] == {"looped": 1}
    assert [(cut["run"], cut["cause"]) for cut in row["largest"]] == [("job", "looped")]


def test_the_answer_for_a_person(engine: Engine) -> None:
    text = ask(engine, "replay --loops on").in_a_chat()
    assert "1 run has no recorded tool calls" in text
    assert "cuts 1 of 2 runs (50 %)" in text
    assert "looped: 1" in text
    assert max(map(len, text.splitlines())) <= 40
    without = ask(engine, "replay --dispatches 3")
    assert "recorded tool calls" not in without.text
    assert isinstance(without.data, dict)
    assert without.data["runs_without_tool_calls"] is None


def test_refused_calls_of_a_chat_are_told(engine: Engine, clock: FakeClock) -> None:
    live = engine.open_run(make_run(run_id="talk"))
    for n in range(4):
        spend(engine, "0.10", run=live.run)
        clock.advance(1)
        engine.loops.tool_ended(live, LoopPolicy(), read_tool_event(n + 100, "ls", {}, "a"))
    engine.end_run(live, "completed")
    assert engine.recorder.flush(10.0)
    text = ask(engine, "replay --loops repeated-call").text
    assert "refuses 1 tool call\n" in text


@pytest.mark.parametrize(
    ("which", "cut"), [("on", 1), ("repeated_call", 1), ("Repeated-Call", 1), ("burst", 0)]
)
def test_one_detector_or_all_that_look_at_tool_calls(engine: Engine, which: str, cut: int) -> None:
    data = ask(engine, f"replay --loops {which}").data
    assert isinstance(data, dict)
    assert data["candidates"][0]["runs_cut"] == cut


def test_what_the_file_has_switched_on_does_not_act_beside_it(engine: Engine) -> None:
    file = engine.rules().budget
    assert file.loops.of(Detector.REPEATED_ERROR).on
    (tried,) = candidates(Args(OWNER, options={"loops": "burst"}), file)
    assert [name for name in Detector if tried.budget.loops.of(name).on] == [Detector.BURST]


def test_counts_and_exceptions_are_those_of_the_file(engine: Engine) -> None:
    """From the 6th on it is a loop; the 7th call reads so, the 8th answers: 2 are saved."""
    file = engine.budget_file.path
    for yaml, saved in (("repeated_call: {warn: 2, act: 6, on: false}", 2), ("allow: [grep]", 0)):
        file.write_text(f"loops: {{{yaml}}}\n")
        engine.reload_config()
        data = ask(engine, "replay --loops on").data
        assert isinstance(data, dict)
        assert data["candidates"][0]["calls_saved"] == saved


def test_together_with_a_sweep(engine: Engine) -> None:
    """$1.00 is reached by the 2nd call, the 3rd answers, 7 are saved; $9 leaves it to the loop."""
    data = ask(engine, "replay --loops on --usd 1.00,9.00").data
    assert isinstance(data, dict)
    told = [(row["name"], row["calls_saved"], row["causes"]) for row in data["candidates"]]
    assert told == [("$1.00 a run", 7, {Cause.SPEND: 1}), ("$9.00 a run", 5, {Cause.LOOPED: 1})]
    one = ask(engine, "replay --loops repeated_call --usd 1.00").text
    assert "$1.00 a run, repeated_call on" in one


@pytest.mark.parametrize("which", ["cycle", "off", "repeated_call,burst"])
def test_what_cannot_be_replayed_is_said(engine: Engine, which: str) -> None:
    answer = ask(engine, f"replay --loops {which}")
    assert answer.exit_code == USAGE
    assert "on, repeated_call, repeated_error, burst" in answer.text


def test_in_a_chat_tool_calls_count_as_much(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """11 calls and 10 tool calls."""
    in_chat = Caller("telegram:1", "chat", "/budget")
    monkeypatch.setattr(replay, "MOST_CALLS_IN_CHAT", 20)
    assert ask(engine, "replay --dispatches 3", in_chat).exit_code == OK
    answer = ask(engine, "replay --loops on", in_chat)
    assert (answer.exit_code, answer.text[:8]) == (PROBLEM, "21 calls")

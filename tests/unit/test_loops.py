"""Every loop where a careful person would call it, and no honest work stopped."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budget_plugin.policy.digests import digest
from budget_plugin.policy.loops import (
    DEFAULTS,
    Answer,
    Checkpoint,
    Detector,
    Event,
    Finding,
    Head,
    Hop,
    Level,
    LoopPolicy,
    PersonSpoke,
    Resumed,
    Setting,
    Status,
    ToolEvent,
    Watch,
    detect,
    read_tool_event,
    recursion,
)
from tests.traces.corpus import Trace, corpus, events_of, judged, scores

RECORDS = LoopPolicy()
LOOPS = [trace for trace in corpus() if trace.finds]
HONEST = [trace for trace in corpus() if not trace.finds]
NAMED = {trace.name: trace for trace in corpus()}


def names(trace: Trace) -> str:
    return trace.name


def called(findings: Iterable[Finding]) -> list[tuple[Detector, int]]:
    return [(each.detector, each.seq) for each in findings if each.level is Level.ACT]


def call(seq: int, args: str = "a", result: str = "r", tool: str = "terminal") -> ToolEvent:
    return ToolEvent(seq, tool, args, "", result, Status.OK, at_s=5.0 * seq)


def failure(seq: int, error: str = "e", args: str = "", tool: str = "terminal") -> ToolEvent:
    return ToolEvent(
        seq, tool, args or f"a{seq}", "", f"r{seq}", Status.ERROR, error, at_s=5.0 * seq
    )


# --- the corpus ---------------------------------------------------------------------------------


@pytest.mark.parametrize("trace", LOOPS, ids=names)
def test_a_loop_is_called_where_a_careful_person_would(trace: Trace) -> None:
    found = judged(trace)
    assert found.first is not None
    assert found.first.seq == trace.at
    assert (trace.finds, trace.at) in called(found.findings)


@pytest.mark.parametrize("trace", HONEST, ids=names)
def test_honest_work_is_never_stopped(trace: Trace) -> None:
    found = judged(trace)
    assert called(found.findings) == []
    assert {each.detector for each in found.findings} == trace.warns


def test_the_corpus_is_large_and_half_of_it_is_honest() -> None:
    assert len(corpus()) >= 60
    assert min(len(LOOPS), len(HONEST)) >= 30
    assert len(NAMED) == len(corpus())
    assert {trace.finds for trace in LOOPS} == set(Detector)


@pytest.mark.parametrize("detector", Detector)
def test_precision_and_recall(detector: Detector) -> None:
    score = scores()[detector]
    assert (score.precision, score.recall) == (1.0, 1.0)


# --- the cases that are known by number ---------------------------------------------------------


@pytest.mark.case("A52")
@pytest.mark.parametrize(
    ("name", "at"),
    [
        ("a job that advances is polled", None),
        ("the same search three times", 3),
        ("git status between edits", None),
        ("a process is polled", None),
    ],
)
def test_polling_is_not_a_loop_and_repeating_is(name: str, at: int | None) -> None:
    first = judged(NAMED[name]).first
    assert (first.seq if first else None) == at


@pytest.mark.case("A52")
def test_the_second_time_is_a_warning() -> None:
    findings = judged(NAMED["the same search three times"]).findings
    assert [(each.seq, each.level, each.count) for each in findings] == [
        (2, Level.WARN, 2),
        (3, Level.ACT, 3),
    ]


@pytest.mark.case("A52")
def test_the_allow_list_is_what_keeps_polling_apart() -> None:
    strict = LoopPolicy(allowed=frozenset())
    assert called(judged(NAMED["a process is polled"], strict).findings)[0][1] == 3


@pytest.mark.case("A53")
def test_the_same_error_three_times_whatever_the_arguments() -> None:
    findings = judged(NAMED["the action is missing whatever the target"]).findings
    assert called(findings) == [(Detector.REPEATED_ERROR, 3)]


@pytest.mark.case("A53")
@pytest.mark.parametrize("tool", ["memory", "read_file"])
def test_a_success_between_begins_anew(tool: str) -> None:
    trace = [
        failure(1, tool="memory"),
        failure(2, tool="memory"),
        call(3, tool=tool),
        failure(4, tool="memory"),
        failure(5, tool="memory"),
    ]
    assert called(detect(trace, RECORDS)) == []
    again = [*trace, failure(6, tool="memory")]
    assert called(detect(again, RECORDS)) == [(Detector.REPEATED_ERROR, 6)]


@pytest.mark.case("A53")
def test_a_success_begins_anew_though_it_is_nothing_new() -> None:
    trace = [call(1), failure(2), failure(3), call(4), failure(5)]
    assert called(detect(trace, RECORDS)) == []


def test_forty_one_hops_are_caught_before_the_fourteenth_with_no_cap_set() -> None:
    trace = NAMED["forty-one hops and twenty-nine of them in vain"]
    hops = [event for event in trace.events if isinstance(event, Hop)]
    edges = [(hop.source, hop.target) for hop in hops]
    assert len(hops) == 41
    assert sum(hop.before == hop.after for hop in hops) == 29
    assert edges.count(("refunds", "triage")) == 9
    assert edges.count(("triage", "refunds")) == 8
    assert edges.count(("triage", "billing")) == 7
    assert edges.count(("billing", "triage")) == 7
    assert edges.count(("refunds", "notifications")) == 4
    first = [seq for detector, seq in called(judged(trace).findings) if detector is Detector.CYCLE]
    assert first[0] < 14


def shuffled(seed: int) -> list[Hop]:
    """The same hops in another order that can be walked, the idle ones placed at random."""
    draw = Random(seed)
    trace = NAMED["forty-one hops and twenty-nine of them in vain"]
    edges = [(hop.source, hop.target) for hop in trace.events if isinstance(hop, Hop)]
    walked: list[tuple[str, str]] = []
    while len(walked) < len(edges):
        at, left, walked = "intake", list(edges), []
        while ahead := [edge for edge in left if edge[0] == at]:
            edge = draw.choice(ahead)
            left.remove(edge)
            walked.append(edge)
            at = edge[1]
    idle = draw.sample(range(41), 29)
    return [
        Hop(seq, *edge, "s", "s" if seq in idle else f"t{seq}") for seq, edge in enumerate(walked)
    ]


def test_their_order_hardly_matters() -> None:
    caught = [
        next(
            seq + 1
            for detector, seq in called(detect(shuffled(seed), RECORDS))
            if detector is Detector.CYCLE
        )
        for seed in range(300)
    ]
    assert sum(hop < 14 for hop in caught) >= 0.9 * len(caught)
    assert max(caught) < 30


# --- the repeated call --------------------------------------------------------------------------


@settings(max_examples=200, deadline=None, database=None)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz")), max_size=60))
def test_new_results_are_never_a_repetition(calls: list[tuple[str, str]]) -> None:
    trace = [call(seq, args, f"r{seq}", tool) for seq, (tool, args) in enumerate(calls)]
    assert list(detect(trace, RECORDS)) == []


def test_something_new_between_is_a_reason_to_look_again() -> None:
    looks = [call(1), call(2), call(3, "b"), call(4), call(5)]
    assert called(detect(looks, RECORDS)) == []
    assert called(detect([*looks, call(6)], RECORDS)) == [(Detector.REPEATED_CALL, 6)]


def test_a_failure_between_is_no_reason() -> None:
    assert called(detect([call(1), failure(2, "x"), call(3), failure(4, "y"), call(5)], RECORDS))


def test_calls_that_did_not_run_count_for_nothing() -> None:
    blocked = [replace(call(seq), status=Status.BLOCKED) for seq in range(9)]
    cancelled = [replace(call(seq), status=Status.CANCELLED) for seq in range(9)]
    assert detect([*blocked, *cancelled], RECORDS) == ()


def test_calls_of_one_answer_are_one() -> None:
    same = [replace(call(seq), step="one") for seq in range(5)]
    assert detect(same, RECORDS) == ()
    apart = [replace(call(seq), step=f"s{seq}") for seq in range(5)]
    assert called(detect(apart, RECORDS))[0] == (Detector.REPEATED_CALL, 2)


def test_minutes_between_two_calls_are_a_wait() -> None:
    slow = [replace(call(seq), at_s=300.0 * seq) for seq in range(19)]
    assert detect(slow, RECORDS) == ()
    hasty = [replace(call(seq), at_s=299.0 * seq) for seq in range(3)]
    assert called(detect(hasty, RECORDS)) == [(Detector.REPEATED_CALL, 2)]


def test_patience_ends() -> None:
    waiting = [replace(call(seq), waits=True) for seq in range(1, 22)]
    assert called(detect(waiting, RECORDS))[0] == (Detector.REPEATED_CALL, 20)


# --- what stands --------------------------------------------------------------------------------


def test_a_loop_stands_until_something_is_new() -> None:
    watch = Watch(RECORDS)
    for seq in (1, 2):
        watch.see(call(seq))
    assert watch.standing("terminal", "a") is None
    watch.see(call(3))
    stands = watch.standing("terminal", "a")
    assert stands is not None
    assert stands.detector is Detector.REPEATED_CALL
    assert watch.standing("terminal", "other") is None
    watch.see(call(4, "b"))
    assert watch.standing("terminal", "a") is None


def test_a_person_lifts_what_stands() -> None:
    watch = Watch(RECORDS)
    for seq in (1, 2, 3):
        watch.see(call(seq))
    watch.see(PersonSpoke(4))
    assert watch.standing("terminal", "a") is None
    assert watch.see(call(5)) == ()


def test_an_error_loop_refuses_the_call_not_the_tool() -> None:
    watch = Watch(RECORDS)
    for seq in (1, 2, 3):
        watch.see(failure(seq))
    assert watch.standing("terminal", "a3") is not None
    assert watch.standing("terminal", "something else") is None


# --- policy -------------------------------------------------------------------------------------


def test_until_it_is_set_findings_are_recorded_and_nothing_acts() -> None:
    found = [each for trace in LOOPS for each in judged(trace).findings]
    assert found
    assert not any(each.acts for each in found)


def test_what_is_set_acts_and_only_when_it_is_sure() -> None:
    on = LoopPolicy({Detector.REPEATED_CALL: Setting(on=True, warn=2, act=3)})
    findings = detect([call(1), call(2), call(3)], on)
    assert [each.acts for each in findings] == [False, True]
    assert not any(each.acts for each in detect([failure(1), failure(2), failure(3)], on))


def test_thresholds_may_be_moved() -> None:
    late = LoopPolicy({Detector.REPEATED_CALL: Setting(on=True, warn=4, act=6)})
    findings = detect([call(seq) for seq in range(1, 7)], late)
    assert [(each.seq, each.level) for each in findings] == [
        (4, Level.WARN),
        (5, Level.WARN),
        (6, Level.ACT),
    ]


def test_nothing_is_on_by_default_and_every_detector_has_a_setting() -> None:
    assert set(DEFAULTS) == set(Detector)
    assert not any(setting.on for setting in DEFAULTS.values())


@pytest.mark.parametrize(
    ("tool", "action", "allowed"),
    [
        ("process", "poll", True),
        ("process", "kill", False),
        ("process", "", False),
        ("browser_scroll", "", True),
        ("terminal", "", False),
    ],
)
def test_the_allow_list_names_tools_and_actions(tool: str, action: str, allowed: bool) -> None:
    assert RECORDS.allows(tool, action) is allowed


# --- hops ---------------------------------------------------------------------------------------


def walk(path: str, state: str = "s>s", goal: str = "") -> list[Event]:
    return list(
        events_of([{"hop": f"{a}>{b}", "state": state, "goal": goal} for a, b in pairwise(path)])
    )


@pytest.mark.parametrize(
    ("path", "at"),
    [("abab", 3), ("abcab", 4), ("abcdab", 5), ("abcdeab", None), ("abac", None), ("abacad", None)],
)
def test_cycles_up_to_four_agents(path: str, at: int | None) -> None:
    cycles = [seq for detector, seq in called(detect(walk(path), RECORDS)) if detector == "cycle"]
    assert cycles[:1] == ([at] if at else [])


def test_a_cycle_names_its_agents() -> None:
    (cycle,) = [each for each in detect(walk("abcab"), RECORDS) if each.detector is Detector.CYCLE]
    assert cycle.subject == ("c", "a", "b")


def test_names_alone_must_go_round_three_times() -> None:
    blind = [called(detect(walk("ab" * 4, ">")[:hops], RECORDS)) for hops in range(1, 7)]
    assert blind == [[], [], [], [], [], [(Detector.CYCLE, 6)]]


def test_a_goal_that_is_passed_on_needs_no_state() -> None:
    assert called(detect(walk("abab", ">", "push"), RECORDS)) == [(Detector.CYCLE, 3)]


def test_turns_and_sessions_do_not_hide_a_ping_pong() -> None:
    watch, found = Watch(RECORDS), []
    for hop in walk("abab"):
        found += watch.see(call(hop.seq, f"only call of run {hop.seq}"))
        found += watch.see(hop)
        found += watch.see(PersonSpoke(hop.seq))
    assert (Detector.CYCLE, 3) in called(found)


def test_recursion_is_seen_before_the_child_starts() -> None:
    hop = Hop(1, "writer", "planner", role="planner", goal="g", lineage=(("writer", "h"),))
    assert recursion(RECORDS, hop) is None
    above = replace(hop, lineage=(("writer", "h"), ("planner", "g")))
    finding = recursion(RECORDS, above)
    assert finding is not None
    assert finding.subject == ("writer", "planner")
    assert recursion(RECORDS, replace(above, goal="")) is None


def test_an_unknown_state_neither_counts_as_idle_nor_clears() -> None:
    hops = [
        Hop(1, "a", "b", "s", "s"),
        Hop(2, "b", "c"),
        Hop(3, "c", "d", "s", "s"),
        Hop(4, "d", "e", "s", "s"),
        Hop(5, "e", "f", "s", "s"),
    ]
    assert called(detect(hops, RECORDS)) == [(Detector.IDLE_HOPS, 5)]


# --- accounts of progress -----------------------------------------------------------------------


def test_no_answer_is_not_nothing_but_ten_stale_calls_are() -> None:
    silent = [Checkpoint(seq, Answer.UNANSWERED) for seq in range(9)]
    assert detect(silent, RECORDS) == ()
    watch, found = Watch(RECORDS), []
    for seq in range(6):
        watch.see(call(seq, f"a{seq}"))
    found += watch.see(Checkpoint(6, Answer.UNANSWERED))
    for lap in (1, 2):
        for seq in range(10):
            watch.see(call(7 + seq, f"a{seq % 6}"))
        found += watch.see(Checkpoint(20 + lap, Answer.UNANSWERED))
    assert called(found) == [(Detector.NO_NEW_FACTS, 22)]


def test_an_unanswered_checkpoint_does_not_break_a_row() -> None:
    row = [
        Checkpoint(1, Answer.NOTHING),
        Checkpoint(2, Answer.UNANSWERED),
        Checkpoint(3, Answer.NOTHING),
    ]
    assert called(detect(row, RECORDS)) == [(Detector.NO_NEW_FACTS, 3)]


@pytest.mark.parametrize(
    ("scores_", "stuck"),
    [
        ((0.5, 0.5), True),
        ((0.5, 0.4), True),
        ((0.5, 0.6), False),
        ((0.5, None), True),
        ((None, None), True),
        ((0.6, 0.5, 0.6), True),
    ],
)
def test_a_head_is_stuck_without_a_better_score(
    scores_: tuple[float | None, ...], stuck: bool
) -> None:
    drafts = [Head(seq, "metis", "x", score) for seq, score in enumerate(scores_)]
    assert bool(called(detect(drafts, RECORDS))) is stuck


def test_without_an_artifact_nothing_is_said_of_a_head() -> None:
    assert detect([Head(1, "metis", ""), Head(2, "metis", "")], RECORDS) == ()


def test_a_burst_is_over_after_a_minute() -> None:
    old = [call(seq, f"a{seq}") for seq in range(12)]
    late = [replace(call(seq, f"a{seq}"), at_s=1_061.0) for seq in range(12)]
    soon = [replace(each, at_s=1_060.0) for each in late]
    assert called(detect([*old, Resumed(20, 1_000.0), *soon], RECORDS))[0] == (Detector.BURST, 9)
    assert called(detect([*old, Resumed(20, 1_000.0), *late], RECORDS)) == []
    assert called(detect([*old, *soon], RECORDS)) == []


# --- the reader ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "status", "error", "expected"),
    [
        ('{"output": "boom", "exit_code": 2}', "ok", None, Status.ERROR),
        ('{"output": "", "exit_code": 1}', "ok", None, Status.OK),
        ('{"output": "fine", "exit_code": 0}', "ok", None, Status.OK),
        ("{}", "error", "no such tool", Status.ERROR),
        ("{}", "blocked", "not allowed", Status.BLOCKED),
        ("{}", "strange", None, Status.OK),
        (None, "ok", None, Status.OK),
    ],
)
def test_how_a_call_is_read(
    result: object, status: str, error: str | None, expected: Status
) -> None:
    event = read_tool_event(1, "terminal", {"command": "x"}, result, status=status, error=error)
    assert event.status is expected
    assert bool(event.error_digest) is (expected is Status.ERROR)


def test_an_event_holds_nothing_of_the_call() -> None:
    secret = "sk-live-0123456789"
    event = read_tool_event(
        1,
        "terminal",
        {"command": f"curl -H {secret}", "action": secret},
        f'{{"output": "{secret} is wrong", "exit_code": 1}}',
    )
    assert secret not in repr(event)


# --- the page that explains them -----------------------------------------------------------------

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "loops.md").read_text("utf-8")


@pytest.mark.parametrize("detector", Detector)
def test_the_page_tells_each_detectors_thresholds_and_figures(detector: Detector) -> None:
    setting, score = DEFAULTS[detector], scores()[detector]
    assert f"| `{detector}` | {setting.warn} | {setting.act} |" in PAGE
    figures = f"{score.loops} | {score.on_time} | {score.precision:.2f} | {score.recall:.2f}"
    assert f"| `{detector}` | {figures} |" in PAGE


def test_the_page_tells_how_large_the_corpus_is() -> None:
    assert f"{len(LOOPS)} loops and {len(HONEST)} traces of honest work" in PAGE


# --- what holds for all of them -----------------------------------------------------------------


def renamed(event: Event) -> Event:
    """The same event with other digests: one to one, the empty one stays."""

    def other(value: str) -> str:
        return digest("other" + value) if value else ""

    if isinstance(event, ToolEvent):
        return replace(
            event,
            args_digest=other(event.args_digest),
            target=other(event.target),
            result_digest=other(event.result_digest),
            error_digest=other(event.error_digest),
        )
    if isinstance(event, Hop):
        lineage = tuple((role, other(goal)) for role, goal in event.lineage)
        return replace(
            event,
            before=other(event.before),
            after=other(event.after),
            goal=other(event.goal),
            lineage=lineage,
        )
    if isinstance(event, Checkpoint):
        return replace(event, fact=other(event.fact))
    return replace(event, artifact=other(event.artifact)) if isinstance(event, Head) else event


@pytest.mark.parametrize("trace", corpus(), ids=names)
def test_detectors_do_not_depend_on_the_digests(trace: Trace) -> None:
    findings = judged(trace).findings
    assert detect([renamed(event) for event in trace.events], RECORDS) == findings


NAMES, STATES = st.sampled_from("abc"), st.sampled_from(["", "s"])
SCORES = st.none() | st.floats(0, 1)
EVENTS = st.lists(
    st.one_of(
        st.builds(
            ToolEvent,
            st.just(1),
            st.sampled_from(["terminal", "todo", "process"]),
            st.sampled_from("abc"),
            st.just(""),
            st.sampled_from("rst"),
            st.sampled_from(Status),
            st.sampled_from(["", "e", "f"]),
            st.floats(0, 1e4),
            st.sampled_from(["", "one", "two"]),
            st.sampled_from(["", "poll"]),
            st.booleans(),
        ),
        st.builds(Hop, st.just(1), NAMES, NAMES, STATES, STATES),
        st.builds(Checkpoint, st.just(1), st.sampled_from(Answer), st.sampled_from(["", "f"])),
        st.builds(Head, st.just(1), st.just("h"), st.sampled_from("xy"), SCORES),
        st.builds(Resumed, st.just(1), st.floats(0, 1e4)),
        st.builds(PersonSpoke, st.just(1)),
    ),
    max_size=60,
)


@settings(max_examples=200, deadline=None, database=None)
@given(EVENTS)
def test_any_sequence_is_judged_the_same_way_twice(events: list[Event]) -> None:
    watch = Watch(RECORDS)
    one_by_one = tuple(each for event in events for each in watch.see(event))
    assert one_by_one == detect(events, RECORDS)
    assert all(each.count >= 1 for each in one_by_one)


@settings(max_examples=200, deadline=None, database=None)
@given(EVENTS)
def test_what_is_allowed_is_never_judged(events: list[Event]) -> None:
    allowed = LoopPolicy(allowed=frozenset({"terminal", "todo", "process"}))
    calls = [event for event in events if isinstance(event, ToolEvent)]
    assert detect(calls, allowed) == ()


def size_of(value: object, seen: set[int]) -> int:
    """Bytes that an object and everything below it takes; shared ones once."""
    if id(value) in seen or isinstance(value, type):
        return 0
    seen.add(id(value))
    below: list[object] = []
    if isinstance(value, dict):
        below = [*value.keys(), *value.values()]
    elif isinstance(value, list | tuple | set | frozenset) or type(value).__name__ == "deque":
        below = list(value)  # type: ignore[call-overload]
    for slot in getattr(type(value), "__slots__", ()):
        below.append(getattr(value, slot, None))
    return sys.getsizeof(value) + sum(size_of(item, seen) for item in below)


def test_the_memory_of_a_watch_is_bounded() -> None:
    def feed(watch: Watch, numbers: range) -> None:
        for n in numbers:
            watch.see(call(n, digest(f"a{n}"), digest(f"r{n}")))
            watch.see(failure(n, digest(f"e{n}"), digest(f"f{n}")))
            watch.see(replace(call(n, "same", "same"), step=f"answer {n}"))
            watch.see(Hop(n, f"from {n}", f"to {n}", "s", "s"))
            watch.see(Head(n, f"head {n}", f"artifact {n}"))
            watch.see(Checkpoint(n, Answer.SOMETHING, f"fact {n}"))

    watch = Watch(RECORDS)
    feed(watch, range(1_000, 2_000))
    full = size_of(watch, set())
    feed(watch, range(2_000, 6_000))
    assert size_of(watch, set()) < full * 1.05
    assert full < 400_000


def test_an_old_outcome_is_new_again_after_the_window() -> None:
    small = LoopPolicy(window=5)
    once = [call(seq, f"a{seq}") for seq in range(5)]
    watch = Watch(small)
    for event in once:
        watch.see(event)
    assert watch.news == 5
    watch.see(call(9, "a1"))
    assert watch.news == 5
    watch.see(call(10, "a0"))
    assert watch.news == 6

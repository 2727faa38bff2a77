"""What the live loop guard finds, a replay of the recorded tool calls finds again."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from budget_plugin.engine.live_runs import LiveRun, Origin
from budget_plugin.policy.digests import args_digest, digest
from budget_plugin.policy.limits import Budget
from budget_plugin.policy.loops import (
    DEFAULTS,
    Detector,
    Finding,
    LoopPolicy,
    Setting,
    Status,
    ToolEvent,
)
from budget_plugin.policy.replay.outcome import Outcome
from budget_plugin.policy.replay.player import Candidate, Player
from budget_plugin.policy.replay.recorded import RecordedRun
from budget_plugin.store.history import recorded_between
from budget_plugin.testing import FakeClock, at, make_engine, make_run, spend

COUNTS = {**DEFAULTS, Detector.BURST: Setting(on=False, warn=2, act=4)}
OFF = LoopPolicy(COUNTS)
ON = LoopPolicy({name: replace(each, on=True) for name, each in COUNTS.items()})
KINDS = ("chat", "chat", "cron", "review")

Found = tuple[str, Finding]
"""A run and what was found in it."""

Seen = dict[tuple[str, str], tuple[int, tuple[str, ...]]]
"""By run and detector: how often at most, and the names that were told last."""


class Step(NamedTuple):
    """After some time something happens in one of four conversations."""

    conversation: int
    wait_s: int
    what: str
    args: str
    result: str
    status: Status
    waits: bool
    same_answer: bool


steps = st.lists(
    st.builds(
        Step,
        st.integers(0, 3),
        st.sampled_from((1, 1, 1, 40, 400)),
        st.sampled_from(("tool",) * 8 + ("call", "call", "person", "host", "resumed")),
        st.sampled_from("aab"),
        st.sampled_from("xxxxy"),
        st.sampled_from((Status.OK, Status.OK, Status.ERROR)),
        st.sampled_from((False, False, False, True)),
        st.sampled_from((False, False, True)),
    ),
    min_size=20,
    max_size=80,
)


class Live:
    """An engine with four conversations that are played step by step."""

    def __init__(self, home: Path, policy: LoopPolicy) -> None:
        self.clock = FakeClock(at("2026-11-30 20:00"))
        self.engine = make_engine(home, "", self.clock)
        self.policy = policy
        self.found: list[Found] = []
        """Everything that was seen in tool calls that ran."""
        self._follow = self.engine.loops._found
        self.engine.loops._found = self._noted  # type: ignore[method-assign]
        self.all: list[LiveRun] = []
        self.now = [self._opened(n, Origin.PERSON) for n in range(4)]
        self.answers = 0

    def _opened(self, conversation: int, origin: Origin) -> LiveRun:
        kind = KINDS[conversation]
        run = make_run(session_id=f"s{conversation}", kind=kind)
        live = self.engine.open_run(run, origin=origin, foreground=kind != "review")
        self.all.append(live)
        return live

    def _noted(self, live: LiveRun, policy: LoopPolicy, findings: Sequence[Finding]) -> None:
        self.found += [(live.run.run_id, finding) for finding in findings]
        self._follow(live, policy, findings)

    def take(self, step: Step) -> None:
        self.clock.advance(step.wait_s)
        live = self.now[step.conversation]
        if step.what in ("person", "host"):
            self.engine.end_run(live, "completed")
            self.now[step.conversation] = self._opened(step.conversation, Origin(step.what))
        elif step.what == "resumed":
            self.engine.loops.resumed(live)
        elif step.what == "tool":
            self._tool(live, step)
        elif not _is_stopped(live):
            self.engine.loops.to_tell(live)
            spend(self.engine, "0.01", run=live.run)

    def _tool(self, live: LiveRun, step: Step) -> None:
        tool = "grep" if step.result == "x" else "ls"
        args = {"for": step.args}
        if _is_stopped(live) or self.engine.loops.refuses(live, self.policy, tool, args):
            return
        if _is_stopped(live):  # that call was one too many
            return
        self.answers += not step.same_answer
        failed = digest(step.result) if step.status is Status.ERROR else ""
        self.engine.loops.tool_ended(
            live,
            self.policy,
            ToolEvent(
                self.engine.loops.next_number(),
                tool,
                args_digest(args),
                "",
                digest(step.result),
                step.status,
                failed,
                self.clock.monotonic(),
                f"answer {self.answers}",
                "",
                step.waits,
            ),
        )

    def seen(self) -> Seen:
        return {
            (live.run.run_id, detector): (each.count, each.subject)
            for live in self.all
            if live.loops is not None
            for detector, each in live.loops.seen.items()
        }


def _is_stopped(live: LiveRun) -> bool:
    """Its ceilings refuse every tool."""
    assert live.guarded is not None
    return live.guarded.budget.state.cause is not None


def seen_in(found: list[Found]) -> Seen:
    seen: Seen = {}
    for run_id, finding in found:
        key = (run_id, str(finding.detector))
        seen[key] = (max(finding.count, seen.get(key, (0, ()))[0]), finding.subject)
    return seen


def replayed(live: Live) -> tuple[Outcome, list[Found]]:
    found: list[Found] = []

    def note(run: RecordedRun, finding: Finding) -> None:
        found.append((run.run_id, finding))

    candidate = Candidate("it", Budget(loops=live.policy), loops=True)
    player = Player(candidate, ZoneInfo("UTC"), on_found=note)
    end_ms = live.clock.now_ms() + 1
    for each in recorded_between(live.engine.database, 0, end_ms, tools=True):
        player.play(each)
    return player.outcome(1), found


def played(taken: list[Step], policy: LoopPolicy) -> Iterator[Live]:
    with tempfile.TemporaryDirectory() as folder:
        live = Live(Path(folder), policy)
        for step in taken:
            live.take(step)
        live.engine.tool_log.flush()
        assert live.engine.recorder.flush(60)
        yield live
        live.engine.close()


PATIENT = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
"""A busy machine is no failure."""


@PATIENT
@given(steps)
def test_what_detectors_that_watched_found_is_found_again(taken: list[Step]) -> None:
    for live in played(taken, OFF):
        recorded = live.seen()
        event(f"findings: {min(len(recorded), 4)}")
        came_to, again = replayed(live)
        assert again == live.found
        assert seen_in(again) == recorded  # so it stands in the receipts
        assert (came_to.cut, came_to.tools_refused) == (0, 0)


@PATIENT
@given(steps)
def test_what_detectors_that_acted_let_through_they_let_through_again(taken: list[Step]) -> None:
    """And what they ended is all that they end."""
    for live in played(taken, ON):
        came_to, again = replayed(live)
        assert again == live.found
        assert came_to.tools_refused == came_to.saved_calls == 0
        ended = sum(map(_is_stopped, live.all))
        event(f"ended: {min(ended, 3)}, again: {min(came_to.cut, 3)}")
        assert came_to.cut <= ended

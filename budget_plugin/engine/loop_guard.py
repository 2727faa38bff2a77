"""The loop guard: the detectors at work over the runs of this process.

A conversation has one watch over its turns, and one over the hops of all that it delegates. What is
found goes into the ledger and the receipt of its run; what follows from it is
`policy.loops.responses`. Only digests are kept, and of a bounded number of conversations.
"""

import threading
from collections.abc import Sequence
from functools import partial
from itertools import count

from cachetools import LRUCache

from ..policy.digests import args_digest, digest
from ..policy.loops import (
    WATCHED_AT_ONCE,
    Answer,
    Checkpoint,
    Event,
    Finding,
    Head,
    Level,
    LoopPolicy,
    PersonSpoke,
    Resumed,
    ToolEvent,
    Watch,
)
from ..policy.loops.responses import Action, is_attended, refusal, response, worse
from ..policy.replay.recorded import RecordedTool
from ..policy.runs.receipts import LoopSeen
from ..policy.runs.run_limits import Cause
from ..store.journal import Journal
from .clock import Clock
from .decisions import about_run
from .hop_watch import Dispatch, HopWatch
from .live_runs import LiveRun, LiveRuns, LoopsOfRun
from .recorder import Recorder, Write
from .runs.run_guard import RunGuard
from .tool_log import ToolLog


class _Watched:
    """One conversation."""

    __slots__ = ("after_person", "hops", "policy", "resumed_ms", "watch")

    def __init__(self, policy: LoopPolicy) -> None:
        self.policy = policy
        self.watch = Watch(policy)
        self.hops = HopWatch(policy)
        # What happened since the last tool call, for the log.
        self.after_person = False
        self.resumed_ms: int | None = None


class LoopGuard:
    """Watches by conversation; safe to call from many threads."""

    def __init__(
        self,
        runs: LiveRuns,
        guard: RunGuard,
        journal: Journal,
        recorder: Recorder,
        tool_log: ToolLog,
        clock: Clock,
    ) -> None:
        self._runs = runs
        self._guard = guard
        self._journal = journal
        self._recorder = recorder
        self._tool_log = tool_log
        self._clock = clock
        self._lock = threading.Lock()
        self._watched: LRUCache[str, _Watched] = LRUCache(WATCHED_AT_ONCE)
        self._standing: LRUCache[str, int] = LRUCache(WATCHED_AT_ONCE)
        """Conversations in which a call may be refused, and their news when that was found."""
        self._numbers = count(1)

    def next_number(self) -> int:
        """The number of an event; ascending."""
        return next(self._numbers)

    # ------------------------------------------------------------------ what happened

    def begin(self, live: LiveRun, before: LiveRun | None, *, by_person: bool) -> None:
        """A turn begins.

        Args:
            before: the last run of the conversation; compression may have renamed that since.
            by_person: a person's words opened it.
        """
        key = _key(live)
        with self._lock:
            if before is not None and _key(before) != key and key not in self._watched:
                moved = self._watched.pop(_key(before), None)
                if moved is not None:
                    self._watched[key] = moved
            watched = self._watched.get(key)
            if watched is None:
                return
            if by_person:
                watched.watch.see(PersonSpoke(self.next_number()))
                watched.hops.person_spoke()
                watched.after_person = True
            if live.guarded is not None and live.guarded.linked_run_id:
                self._resumed(watched)

    def tool_ended(
        self, live: LiveRun, policy: LoopPolicy, event: ToolEvent, *, delegates: bool = False
    ) -> None:
        """A tool has ended.

        Args:
            delegates: it started children: what those establish is seen by itself.
        """
        key = _key(live)
        with self._lock:
            watched = self._of(key, policy)
            self._keep(live, watched, event)
            findings = watched.watch.tool(event)
            if not delegates:
                self._tree(live, policy).tool(event)
            if any(finding.acts for finding in findings):
                self._standing[key] = watched.watch.news
            elif self._standing.get(key, watched.watch.news) != watched.watch.news:
                del self._standing[key]
            self._found(live, policy, findings)

    def dispatched(
        self, live: LiveRun, policy: LoopPolicy, child_session_id: str, role: str, goal: str
    ) -> None:
        """A child starts."""
        dispatch = _dispatch(live, role, goal)
        with self._lock:
            findings = self._tree(live, policy).dispatched(
                self.next_number(), dispatch, child_session_id, self._line(live)
            )
            self._found(live, policy, findings)

    def returned(self, child_session_id: str, *, answered: bool) -> None:
        """A child has come back, with or without an answer."""
        parent = self._runs.parent_of(child_session_id)
        if parent is None:
            return
        with self._lock:
            watched = self._watched.get(_key(self._top(parent)))
            if watched is not None:
                watched.hops.returned(child_session_id, answered=answered)

    def checkpoint(
        self,
        live: LiveRun,
        policy: LoopPolicy,
        established: str | None,
        *,
        head: str = "",
        artifact: str = "",
        score: float | None = None,
    ) -> None:
        """A run has given an account of its progress.

        Args:
            established: what is new in its own words, "" for nothing, `None` for no answer.
            head, artifact, score: the draft that it reports, with the digest of its text.
        """
        events: list[Event] = [_account(self.next_number(), established)]
        if head and artifact:
            events.append(Head(self.next_number(), head, artifact, score))
        with self._lock:
            watch = self._of(_key(live), policy).watch
            findings = [finding for event in events for finding in watch.see(event)]
            self._found(live, policy, findings)

    def resumed(self, live: LiveRun) -> None:
        """A run goes on after a pause."""
        with self._lock:
            watched = self._watched.get(_key(live))
            if watched is not None:
                self._resumed(watched)

    def _resumed(self, watched: _Watched) -> None:
        watched.watch.see(Resumed(self.next_number(), self._clock.monotonic()))
        watched.resumed_ms = self._clock.now_ms()

    def _keep(self, live: LiveRun, watched: _Watched, event: ToolEvent) -> None:
        """Put a tool call on the record, for replays."""
        person, resumed_ms = watched.after_person, watched.resumed_ms
        watched.after_person, watched.resumed_ms = False, None
        self._tool_log.add(
            RecordedTool(self._clock.now_ms(), live.run.run_id, event, person, resumed_ms)
        )

    # ------------------------------------------------------------------ what may happen

    def may_refuse(self, live: LiveRun) -> bool:
        """Whether a call of this run could be one that goes on with a loop. Costs nothing."""
        return _key(live) in self._standing

    def refuses(self, live: LiveRun, policy: LoopPolicy, tool: str, args: object) -> Finding | None:
        """The loop that this call would go on with, if that is to be refused.

        A run that has read that it is to finish is ended instead; its ceilings refuse the call.
        """
        args_key = args_digest(args)
        with self._lock:
            finding = self._of(_key(live), policy).watch.standing(tool, args_key)
            return self._refused(live, policy, finding)

    def refuses_dispatch(
        self, live: LiveRun, policy: LoopPolicy, children: Sequence[tuple[str, str]]
    ) -> Finding | None:
        """The same for children that a run wants to start, each a role and a goal."""
        with self._lock:
            hops, line = self._tree(live, policy), self._line(live)
            asked = (
                hops.asks(self.next_number(), _dispatch(live, role, goal), line)
                for role, goal in children
            )
            finding = next((each for each in asked if each is not None and each.acts), None)
            return self._refused(live, policy, finding)

    def to_tell(self, live: LiveRun) -> list[Finding]:
        """What a run is told with its next call to the model, each thing once."""
        loops = live.loops
        if loops is None or not loops.to_tell:
            return []
        with self._lock:
            told, loops.to_tell = loops.to_tell, []
            loops.told_to_finish |= any(finding.acts for finding in told)
            return told

    # ---------------------------------------------------------------- what follows (under the lock)

    def _found(self, live: LiveRun, policy: LoopPolicy, findings: Sequence[Finding]) -> None:
        for finding in findings:
            loops = _loops_of(live)
            action = response(
                policy,
                finding,
                attended=is_attended(live.run.kind),
                told_to_finish=loops.told_to_finish,
            )
            self._follow(live, policy, finding, action)

    def _refused(
        self, live: LiveRun, policy: LoopPolicy, finding: Finding | None
    ) -> Finding | None:
        action = refusal(
            finding,
            attended=is_attended(live.run.kind),
            told_to_finish=_loops_of(live).told_to_finish,
        )
        if finding is None or action is None:
            return None
        self._follow(live, policy, finding, action)
        return finding if action is Action.REFUSED else None

    def _follow(self, live: LiveRun, policy: LoopPolicy, finding: Finding, action: Action) -> None:
        loops = _loops_of(live)
        if action is Action.ENDED:
            self._guard.stop(live, Cause.LOOPED)
        elif action is not Action.WATCHED and (finding.detector, finding.level) not in loops.told:
            loops.told.add((finding.detector, finding.level))
            loops.to_tell.append(finding)
        self._note(live, policy, finding, action)

    def _note(self, live: LiveRun, policy: LoopPolicy, finding: Finding, action: Action) -> None:
        """One line of each kind in the ledger and the receipt, with the most that came of it."""
        seen, before = _loops_of(live).seen, _loops_of(live).seen.get(finding.detector)
        if before is not None:
            action = worse(action, Action(before.action))
        times = max(finding.count, before.count if before is not None else 0)
        now = LoopSeen(finding.detector, action, times, finding.subject)
        if now == before:
            return
        seen[finding.detector] = now
        decision = about_run(
            live.run.run_id,
            "loop",
            finding.detector,
            action,
            ", ".join((*finding.subject, f"{times} times")),
            at_ms=self._clock.now_ms(),
            level="hard" if finding.level is Level.ACT else "soft",
            used=times,
            amount=policy.of(finding.detector).act,
        )
        self._recorder.later(Write(partial(self._journal.put_finding, decision)))

    # ------------------------------------------------------------------ which watch

    def _of(self, key: str, policy: LoopPolicy) -> _Watched:
        """The watch of a conversation; a new one where other rules hold now."""
        watched = self._watched.get(key)
        if watched is None or (watched.policy is not policy and watched.policy != policy):
            watched = self._watched[key] = _Watched(policy)
            self._standing.pop(key, None)
        return watched

    def _tree(self, live: LiveRun, policy: LoopPolicy) -> HopWatch:
        return self._of(_key(self._top(live)), policy).hops

    def _top(self, live: LiveRun) -> LiveRun:
        *_, top = (live, *self._runs.above(live))
        return top

    def _line(self, live: LiveRun) -> list[str]:
        return [each.run.session_id for each in (live, *self._runs.above(live))]


def _key(live: LiveRun) -> str:
    """A review shares the session of the conversation that it looks at, and is none of it."""
    return live.run.run_id if live.run.kind == "review" else live.run.session_id


def _loops_of(live: LiveRun) -> LoopsOfRun:
    if live.loops is None:
        live.loops = LoopsOfRun()
    return live.loops


def _dispatch(live: LiveRun, role: str, goal: str) -> Dispatch:
    named = args_digest(goal.lower()) if goal else ""
    return Dispatch(live.run.session_id, live.role, role, named)


def _account(number: int, established: str | None) -> Checkpoint:
    if established is None:
        return Checkpoint(number, Answer.UNANSWERED)
    fact = digest(established.strip().lower()) if established.strip() else ""
    return Checkpoint(number, Answer.SOMETHING if fact else Answer.NOTHING, fact)

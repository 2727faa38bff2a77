"""The runs that this process knows, and how a hook finds the one it belongs to."""

import threading
from dataclasses import dataclass, field
from enum import StrEnum

from cachetools import LRUCache

from ..policy.continuation import Continuation
from ..policy.events import Run
from ..policy.expectation import SettledCall
from ..policy.loops import Detector, Finding, Level
from ..policy.runs.receipts import LoopSeen
from ..policy.tiers import MAIN, Change
from ..policy.verdicts import Verdict
from .runs.guarded_runs import GuardedRun

KEPT_RUNS = 4_096
"""Runs remembered per process; an older one is found again in the ledger by its ids."""

DEEPEST = 32
"""Runs above one another that are looked at."""


class Origin(StrEnum):
    """Who has opened a turn."""

    PERSON = "person"  # or a schedule: whatever asks for new work
    DELEGATION = "delegation"  # the host, to report what came back
    HOST = "host"  # the host, to go on by itself


@dataclass(slots=True)
class GateMemo:
    """The tool gate's last answer for a run: good while the generation stands, until `until_s`."""

    generation: int
    until_s: float
    verdict: Verdict | None


@dataclass(slots=True)
class LoopsOfRun:
    """The circles in which a run went.

    Attributes:
        seen: the account of each kind, for the receipt.
        to_tell: what the run is told with its next call to the model.
        told: of what it was told or is about to be.
        told_to_finish: it has read that it goes in circles.
    """

    seen: dict[str, LoopSeen] = field(default_factory=dict)
    to_tell: list[Finding] = field(default_factory=list)
    told: set[tuple[Detector, Level]] = field(default_factory=set)
    told_to_finish: bool = False


@dataclass(slots=True)
class LiveRun:
    """A run as this process sees it; `run` is replaced when a late delegation moves it."""

    run: Run
    memo: GateMemo | None = None
    closing: Verdict | None = None
    """The hard verdict under which the run was told to finish; its last answers are counted."""
    last_answers_used: int = 0
    exhausted: bool = False
    """Not even a last answer fitted; every further call is refused without asking the ledger."""
    rules_generation: int = 0
    settled: SettledCall | None = None
    carried: SettledCall | None = None
    """The last settled call of the conversation's turn before: its prompt may still be in the
    provider's cache."""
    said: dict[str, Verdict] = field(default_factory=dict)
    """Alerts given to the model in this run and not yet shown to the person."""
    answer: str | None = None
    """What to answer in the model's place: a `/budget …` that reached it as text."""
    guarded: GuardedRun | None = None
    """The run under its own budget."""
    stopped: bool = False
    """A hard verdict refused the run something, or gave it its last answer."""
    role: str = MAIN
    model_before: str = ""
    """The model with which the turn before began."""
    first_model: str = ""
    last_model: str = ""
    moved: Change | None = None
    """The cheaper model that the run was moved to."""
    continuation: Continuation = field(default_factory=Continuation)
    written_tokens: int = 0
    """What the model has written since the last look at the continuation, children included."""
    sent_on: bool = False
    remarks: list[str] = field(default_factory=list)
    """What was found about roles and tiers, and is still to be shown to the person."""
    loops: LoopsOfRun | None = None
    costs_nothing: bool = False
    """The run's model is free or included: dollar limits let it pass."""

    def carried_for(self, provider: str, model: str) -> SettledCall | None:
        """What the turn before has learnt of this model, until this run has a call of its own."""
        carried = self.carried
        if self.settled is not None or carried is None:
            return None
        return carried if carried.is_of(provider, model) else None

    def settled_for(self, provider: str, model: str) -> SettledCall | None:
        """The run's last settled call, if it was to this model."""
        settled = self.settled
        return settled if settled is not None and settled.is_of(provider, model) else None

    def carry_from(self, before: "LiveRun") -> None:
        """Begin with what the turn before has learnt."""
        self.carried = before.settled or before.carried

    def reopen(self) -> None:
        """Forget that the run was told to finish: the window or the limit has changed."""
        self.closing = None
        self.last_answers_used = 0
        self.exhausted = False
        self.stopped = False
        self.memo = None


class LiveRuns:
    """Runs by run id, by the session's latest foreground run, and by task id; bounded."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_id: LRUCache[str, LiveRun] = LRUCache(KEPT_RUNS)
        self._of_session: LRUCache[str, LiveRun] = LRUCache(KEPT_RUNS)
        self._of_task: LRUCache[str, LiveRun] = LRUCache(KEPT_RUNS)
        self._parents: LRUCache[str, LiveRun] = LRUCache(KEPT_RUNS)
        self._delegated: LRUCache[str, LiveRun] = LRUCache(KEPT_RUNS)
        self._roles: LRUCache[str, str] = LRUCache(KEPT_RUNS)

    def find(self, run_id: str, session_id: str = "", task_id: str = "") -> LiveRun | None:
        """The run with this id; where a hook has none, the task's or the session's open run."""
        with self._lock:
            if run_id:
                found = self._by_id.get(run_id)
                if found is not None and session_id not in ("", found.run.session_id):
                    # Compression gave the session another id in the middle of the run.
                    self._of_session[session_id] = found
                return found
            if task_id and (found := self._of_task.get(task_id)) is not None:
                return found
            return self._of_session.get(session_id) if session_id else None

    def add(self, run: Run, *, task_id: str = "", foreground: bool = True) -> LiveRun:
        """Remember a run; one that is known already is returned as it is."""
        with self._lock:
            live = self._by_id.get(run.run_id)
            if live is None:
                live = self._by_id[run.run_id] = LiveRun(run)
                live.role = self._roles.get(run.session_id, MAIN)
            if foreground:
                self._of_session[run.session_id] = live
            if task_id:
                self._of_task[task_id] = live
            return live

    def bind_child(self, child_session_id: str, parent: LiveRun, role: str = "") -> None:
        """Remember who delegated to a session, and as what; the first parent stays."""
        with self._lock:
            self._parents.setdefault(child_session_id, parent)
            self._delegated[parent.run.session_id] = parent
            if role:
                self._roles.setdefault(child_session_id, role)

    def cause_of(self, session_id: str, origin: Origin) -> LiveRun | None:
        """The run of a session that is reported to: the last one that delegated."""
        with self._lock:
            return self._delegated.get(session_id) if origin is Origin.DELEGATION else None

    def parent_of(self, session_id: str) -> LiveRun | None:
        """The run that delegated to this session, as far as this process knows."""
        with self._lock:
            return self._parents.get(session_id)

    def above(self, live: LiveRun) -> list[LiveRun]:
        """The runs above one in its own line, nearest first, as far as this process knows."""
        line: list[LiveRun] = []
        parent = self.parent_of(live.run.session_id)
        while parent is not None and parent not in line and len(line) < DEEPEST:
            line.append(parent)
            parent = self.parent_of(parent.run.session_id)
        return line

    def replace(self, runs: tuple[Run, ...]) -> None:
        """Take over runs whose charged scopes have changed in the ledger."""
        with self._lock:
            for run in runs:
                live = self._by_id.get(run.run_id)
                if live is not None:
                    live.run = run
                    live.memo = None

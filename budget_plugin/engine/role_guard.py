"""The role guard: who dispatches whom, who only judges, and which models a run is given.

What is found is written down once for each run. Whether it is also said to the person or refused is
`tiers.on_breach`; what `roles` forbids (a dispatch, a judge's writing) is always refused.
"""

import logging
from collections.abc import Sequence
from functools import partial
from typing import Final

from cachetools import LRUCache

from ..policy.digests import digest
from ..policy.tiers import (
    Breach,
    Cause,
    Change,
    Direction,
    OnBreach,
    TierPolicy,
    direction,
    judge_change,
    judge_dispatch,
    judge_model,
    judge_tool,
    tier_of,
)
from ..store.journal import Journal
from .clock import Clock
from .decisions import about_run
from .live_runs import LiveRun, LiveRuns
from .recorder import Recorder, Write

log = logging.getLogger(__name__)

_KEPT: Final = 4_096
_MOST_REMARKS: Final = 3


class RoleGuard:
    """Roles and tiers of the runs of this process."""

    def __init__(self, runs: LiveRuns, journal: Journal, recorder: Recorder, clock: Clock) -> None:
        self._runs = runs
        self._journal = journal
        self._recorder = recorder
        self._clock = clock
        self._noted: LRUCache[tuple[str, ...], bool] = LRUCache(_KEPT)
        self._asked: LRUCache[tuple[str, str], str] = LRUCache(_KEPT)

    # ------------------------------------------------------------------ dispatches

    def may_dispatch(
        self,
        live: LiveRun,
        policy: TierPolicy,
        children: Sequence[tuple[str, str]],
        model: str,
        *,
        generic: frozenset[str] = frozenset(),
    ) -> Breach | None:
        """May a run start these children? The first that may not refuses them all.

        Args:
            children: role and goal of each.
            model: what they will work with, "" where that is not known.
            generic: roles that stand for no one in particular: they may be above themselves.
        """
        line = [each.role for each in self._runs.above(live) if each.role not in generic]
        for role, goal in children:
            breach = judge_dispatch(policy, live.role, role, line)
            breach = breach or judge_model(policy, role, model)
            if breach is not None:
                self._found(live, policy, breach, "tool")
                if breach.refuse:
                    return breach
            self._asked[live.run.session_id, digest(goal)] = role
        return None

    def asked_role(self, parent_session_id: str, goal: str) -> str:
        """The role under which a goal was handed on, "" where nobody asked."""
        return self._asked.get((parent_session_id, digest(goal)), "")

    # ------------------------------------------------------------------ tools

    def may_use(self, live: LiveRun, policy: TierPolicy, tool: str) -> Breach | None:
        """May a run use this tool? One that only judges uses none that writes."""
        breach = judge_tool(policy, live.role, tool)
        if breach is not None:
            self._found(live, policy, breach, "tool")
        return breach

    # ------------------------------------------------------------------ models

    def may_call(self, live: LiveRun, policy: TierPolicy, model: str) -> Breach | None:
        """May a run call this model? A change of tier against its last call is written down."""
        self._changed(live, policy, model)
        breach = judge_model(policy, live.role, model)
        if breach is None:
            return None
        self._found(live, policy, breach, "model")
        return breach if breach.refuse else None

    def _changed(self, live: LiveRun, policy: TierPolicy, model: str) -> None:
        """Within a turn only the host's fallback takes another model; between two, a person."""
        before = live.last_model
        if model == before:
            return
        live.last_model = model
        live.first_model = live.first_model or model
        if before:
            self.note_change(live, policy, Change(before, model, Cause.FALLBACK))
        elif live.model_before:
            self.note_change(live, policy, Change(live.model_before, model, Cause.PERSON))

    def moved(self, live: LiveRun, policy: TierPolicy, change: Change) -> None:
        """We have moved a run to another model: it is always written down, and always told."""
        live.first_model = live.first_model or change.before
        live.last_model = change.after
        self._note(live, "model", "tier", "changed", _change_in_words(policy, change))
        self._remark(live, f"{change}")

    def note_change(self, live: LiveRun, policy: TierPolicy, change: Change) -> None:
        """Write a change of tier down; one that leads neither up nor down is none."""
        if direction(policy, change) in (Direction.UP, Direction.DOWN):
            self._note(live, "model", "tier", "changed", _change_in_words(policy, change))

    def answered(self, live: LiveRun, policy: TierPolicy, asked: str, by: str) -> None:
        """Where a model of another tier answered than the one asked for, that is a finding."""
        if not by or by == asked or not policy.tiers:
            return
        breach = judge_change(policy, Change(asked, by, Cause.NOBODY))
        if breach is not None:
            self._found(live, policy, breach, "model")

    # ------------------------------------------------------------------ the record

    def _found(self, live: LiveRun, policy: TierPolicy, breach: Breach, gate: str) -> None:
        action = "refused" if breach.refuse else "found"
        about = "role" if breach.kind.is_about_roles() else "tier"
        if self._note(live, gate, about, action, f"{breach}") and not breach.refuse:
            log.warning("run %s: %s", live.run.run_id, breach)
            if policy.on_breach is OnBreach.WARN:
                self._remark(live, f"{breach}")

    def _remark(self, live: LiveRun, text: str) -> None:
        """To the run at the top: its answer is what a person reads."""
        *_, top = (live, *self._runs.above(live))
        if text not in top.remarks and len(top.remarks) < _MOST_REMARKS:
            top.remarks.append(text)

    def _note(self, live: LiveRun, gate: str, measure: str, action: str, detail: str) -> bool:
        """Write it down; whether that is news."""
        run_id = live.run.run_id
        key = (run_id, gate, action, detail)
        if key in self._noted:
            return False
        self._noted[key] = True
        level = "hard" if action == "refused" else "soft"
        now_ms = self._clock.now_ms()
        decision = about_run(run_id, gate, measure, action, detail, at_ms=now_ms, level=level)
        self._recorder.later(Write(partial(self._journal.note_decision, decision)))
        return True


def _change_in_words(policy: TierPolicy, change: Change) -> str:
    """`fallback: claude-opus-4-1 (dear) to claude-haiku-4-5 (cheap)`."""
    before, after = (_with_tier(policy, model) for model in (change.before, change.after))
    return f"{change.cause}: {before} to {after}"


def _with_tier(policy: TierPolicy, model: str) -> str:
    tier = tier_of(policy, model)
    return f"{model} ({tier.name})" if tier else model

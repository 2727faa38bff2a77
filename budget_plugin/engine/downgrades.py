"""Downgrades: past the soft mark of a limit a run goes on with a cheaper model (`tiers.on_soft`).

A run that was moved stays moved; the next one is looked at anew. What the provider refuses is not
tried again in this process.
"""

import logging
from collections.abc import Callable

from ..policy.tiers import Change, TierPolicy, downgrade
from ..policy.verdicts import Level, Verdict
from .live_runs import LiveRun
from .role_guard import RoleGuard

log = logging.getLogger(__name__)


class Downgrades:
    """Which runs of this process were moved to a cheaper model."""

    def __init__(self, roles: RoleGuard) -> None:
        self._roles = roles
        self._refused: set[tuple[str, str]] = set()

    def change_for(
        self,
        live: LiveRun,
        policy: TierPolicy,
        provider: str,
        model: str,
        verdict: Callable[[], Verdict | None],
    ) -> Change | None:
        """The change under which a call goes out, `None` for the model that was asked for.

        Args:
            verdict: the strictest over the run; asked only where it matters.
        """
        change = downgrade(policy, provider, model) if policy.downgrades else None
        if change is None or (provider, change.after) in self._refused:
            return None
        if live.moved is not None and live.moved.before == model:
            return live.moved
        strictest = verdict()
        if strictest is None or strictest.level is Level.OK:
            return None
        live.moved = change
        self._roles.moved(live, policy, change)
        return change

    def refused(self, live: LiveRun, provider: str, change: Change) -> None:
        """The provider does not take a request with the cheaper model in it."""
        live.moved = None
        self._refused.add((provider, change.after))
        log.warning("%s refuses %s in place of %s", provider, change.after, change.before)

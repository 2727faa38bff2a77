"""Under which role a child works, read from what the host's delegation tool is given.

The host itself knows two roles, `leaf` and `orchestrator`. A declared one is named by the tool's
`role` argument, which the host turns into a leaf, or by the first word of the goal: `judge: …`.
"""

import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from ..engine.live_runs import LiveRun
from ..policy.tiers import Breach, TierPolicy
from .guard import guarded
from .identity import tasks_of, word

if TYPE_CHECKING:
    from ..engine.role_guard import RoleGuard

LEAF: Final = "leaf"
HOST_ROLES: Final = frozenset({LEAF, "orchestrator"})

_FIRST_WORD: Final = re.compile(r"\s*(?:role:\s*)?([\w-]{1,60})\s*:", re.IGNORECASE)


def dispatch_breach(
    roles: "RoleGuard", policy: TierPolicy, live: LiveRun, args: object
) -> Breach | None:
    """Why a call of the delegation tool may not go, `None` if it may."""
    children = asked_children(policy.role_names(), args)
    model = _model_of_children() or live.last_model or live.run.model
    return roles.may_dispatch(live, policy, children, model, generic=HOST_ROLES)


def asks_a_judge(policy: TierPolicy, args: object) -> bool:
    """Whether a call of the delegation tool hands something to somebody who only judges."""
    asked = {role for role, _ in asked_children(policy.role_names(), args)}
    return any(policy.roles[role].judges_only for role in asked if role in policy.roles)


def asked_children(known: Collection[str], args: object) -> list[tuple[str, str]]:
    """Role and goal of each child that a call of the delegation tool asks for.

    Args:
        known: the roles that budget.yaml declares.
    """
    asked = args if isinstance(args, Mapping) else {}
    usual = word(asked.get("role"))
    return [
        (
            _named(known, word(task.get("role")) or usual, word(task.get("goal"))),
            word(task.get("goal")),
        )
        for task in tasks_of(args)
        if isinstance(task, Mapping)
    ]


def role_of_child(roles: "RoleGuard", parent: LiveRun, said: Mapping[str, Any]) -> str:
    """The role of a child that starts: the one that was asked for, else the host's word."""
    asked = roles.asked_role(parent.run.session_id, word(said.get("child_goal")))
    return asked or word(said.get("child_role"))


def _named(known: Collection[str], asked: str, goal: str) -> str:
    if asked in known and asked not in HOST_ROLES:
        return asked
    first = _FIRST_WORD.match(goal)
    if first is not None and first[1] in known:
        return first[1]
    return asked if asked in HOST_ROLES else LEAF


@guarded("")
def _model_of_children() -> str:
    """The model that the host's configuration sets for all children; "" for their parent's."""
    from hermes_cli.config import load_config

    section: Any = load_config().get("delegation")
    return word(section.get("model")) if isinstance(section, dict) else ""

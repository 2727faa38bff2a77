"""Tiers and roles: which models are dear, who may use them, who may dispatch whom, who only judges.

Tiers are written from the cheapest to the dearest. A model that matches no pattern has no tier, and
nothing is said about it: unknown is not cheap.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Final

from .prices.model_names import fold


@dataclass(frozen=True, slots=True)
class Tier:
    """A class of models; `models` are patterns such as `*haiku*`, folded like model names."""

    name: str
    models: tuple[str, ...]


WRITING_TOOLS: Final = frozenset(
    {
        "write_file",
        "patch",
        "terminal",
        "execute_code",
        "send_message",
        "cronjob",
        "skill_manage",
        "memory",
        "kanban_create",
        "kanban_complete",
        "delegate_task",
    }
)
"""Tools of the host that change something; a judge that uses one has become an author."""


class OnBreach(StrEnum):
    """What follows when a role or a tier is not kept; it is recorded in any case."""

    RECORD = "record"
    WARN = "warn"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Role:
    """What one role may do.

    Attributes:
        highest: the dearest tier it may use, `None` for any.
        lowest: the cheapest tier that is good enough for it, `None` for any.
        may_dispatch: roles it may hand work to; `None` is everybody, empty is nobody.
        judges_only: it blocks and criticises and never writes.
    """

    name: str
    highest: str | None = None
    lowest: str | None = None
    may_dispatch: frozenset[str] | None = None
    judges_only: bool = False


@dataclass(frozen=True, slots=True)
class Downgrade:
    """`on_soft: downgrade`: under a soft verdict `model` gives way to `to` of the same provider."""

    provider: str
    model: str
    to: str


@dataclass(frozen=True, slots=True)
class TierPolicy:
    """`tiers:` and `roles:` of budget.yaml. The default declares nothing and so finds nothing."""

    tiers: tuple[Tier, ...] = ()
    roles: Mapping[str, Role] = field(default_factory=lambda: MappingProxyType({}))
    writing_tools: frozenset[str] = WRITING_TOOLS
    on_breach: OnBreach = OnBreach.RECORD
    downgrades: tuple[Downgrade, ...] = ()

    def declares_anything(self) -> bool:
        """Whether there is anything to keep."""
        return bool(self.tiers or self.roles)

    def role_names(self) -> frozenset[str]:
        """Every role that is declared, or that a declared one may dispatch."""
        named = [role.may_dispatch or frozenset() for role in self.roles.values()]
        return frozenset(self.roles).union(*named)

    def rank(self, tier: str | None) -> int | None:
        """The place of a tier, 0 for the cheapest; `None` for one that is not declared."""
        names = [each.name for each in self.tiers]
        return names.index(tier) if tier in names else None


MAIN: Final = "main"
"""The role of a run that nobody dispatched."""


class Kind(StrEnum):
    """What is wrong."""

    DISPATCH = "dispatch_not_allowed"
    DISPATCHES_BACK = "dispatches_its_dispatcher"
    JUDGE_WRITES = "judge_writes"
    TOO_DEAR = "tier_above_role"
    TOO_CHEAP = "tier_below_role"
    UPGRADE_WITHOUT_REASON = "upgrade_without_reason"
    UNRECORDED_DOWNGRADE = "unrecorded_downgrade"

    def is_about_roles(self) -> bool:
        """Whether it is about who does what, and not about models."""
        return self in (Kind.DISPATCH, Kind.DISPATCHES_BACK, Kind.JUDGE_WRITES)


@dataclass(frozen=True, slots=True)
class Breach:
    """One thing that was declared and is not kept.

    Attributes:
        who: the role, "" where none is concerned.
        what: the other role, the tool, or the model.
        allowed: what would have been right: roles, or the name of a tier.
        refuse: whether it is to be refused before it starts.
    """

    kind: Kind
    who: str
    what: str
    allowed: tuple[str, ...] = ()
    refuse: bool = False

    def __str__(self) -> str:
        right = ", ".join(self.allowed) or "nobody"
        return _IN_WORDS[self.kind].format(who=self.who, what=self.what, right=right)


_IN_WORDS: Final = {
    Kind.DISPATCH: "{who} may not hand work to {what}; it may dispatch {right}.",
    Kind.DISPATCHES_BACK: "{who} works under {what} and may not hand work back to it.",
    Kind.JUDGE_WRITES: "{who} only judges: it may not use {what}, which changes something.",
    Kind.TOO_DEAR: "{who} may use models up to the tier {right}; {what} is above it.",
    Kind.TOO_CHEAP: "{who} needs a model of the tier {right} or above; {what} is below it.",
    Kind.UPGRADE_WITHOUT_REASON: "{what} took the place of {right}, a cheaper model, and no reason "
    "stands on the record.",
    Kind.UNRECORDED_DOWNGRADE: "{what} took the place of {right}, a dearer model, and nobody "
    "recorded it.",
}


def tier_of(policy: TierPolicy, model: str) -> Tier | None:
    """The tier of a model: the longest pattern that matches it, with or without its vendor."""
    folded = fold(model)
    names = (folded, folded.rpartition("/")[2])
    matches = [
        (len(pattern), tier)
        for tier in policy.tiers
        for pattern in tier.models
        if any(fnmatchcase(name, fold(pattern)) for name in names)
    ]
    return max(matches, key=lambda match: match[0])[1] if matches else None


def judge_dispatch(
    policy: TierPolicy, dispatcher: str, role: str, ancestors: Sequence[str] = ()
) -> Breach | None:
    """May a role hand work to another? What is declared is refused before it starts.

    A role never dispatches one that is above it in its own line, if either is declared.

    Args:
        ancestors: roles above the dispatcher, nearest first.
    """
    declared = policy.roles.get(dispatcher)
    if declared is None and role not in policy.roles:
        return None
    if role in ancestors:
        return Breach(Kind.DISPATCHES_BACK, dispatcher, role, refuse=True)
    if declared is None or declared.may_dispatch is None or role in declared.may_dispatch:
        return None
    allowed = tuple(sorted(declared.may_dispatch))
    return Breach(Kind.DISPATCH, dispatcher, role, allowed, refuse=True)


def judge_tool(policy: TierPolicy, role: str, tool: str) -> Breach | None:
    """May a role use a tool? One that only judges uses none that writes."""
    declared = policy.roles.get(role)
    if declared is None or not declared.judges_only or tool not in policy.writing_tools:
        return None
    return Breach(Kind.JUDGE_WRITES, role, tool, refuse=True)


def judge_model(policy: TierPolicy, role: str, model: str) -> Breach | None:
    """Does a role use a model that suits it? Says nothing of a role or model it does not know."""
    declared, tier = policy.roles.get(role), tier_of(policy, model)
    if declared is None or tier is None:
        return None
    rank = policy.rank(tier.name)
    highest, lowest = policy.rank(declared.highest), policy.rank(declared.lowest)
    refuse = policy.on_breach is OnBreach.REFUSE
    if rank is not None and highest is not None and rank > highest:
        return Breach(Kind.TOO_DEAR, role, model, (declared.highest or "",), refuse)
    if rank is not None and lowest is not None and rank < lowest:
        return Breach(Kind.TOO_CHEAP, role, model, (declared.lowest or "",), refuse)
    return None


class Cause(StrEnum):
    """Who changed the model of a run."""

    FALLBACK = "fallback"
    PERSON = "person"
    OURS = "ours"
    AGENT = "agent"
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class Change:
    """A run goes on with another model; `reason` is what stands on the record, or ""."""

    before: str
    after: str
    cause: Cause = Cause.NOBODY
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.after} took the place of {self.before}: {self.reason or self.cause}."


class Direction(StrEnum):
    """Where a change leads; unknown when a model has no tier."""

    UP = "up"
    DOWN = "down"
    LEVEL = "level"
    UNKNOWN = "unknown"


def direction(policy: TierPolicy, change: Change) -> Direction:
    """Whether the new model is dearer."""
    before, after = (tier_of(policy, model) for model in (change.before, change.after))
    if before is None or after is None:
        return Direction.UNKNOWN
    step = (policy.rank(after.name) or 0) - (policy.rank(before.name) or 0)
    if step == 0:
        return Direction.LEVEL
    return Direction.UP if step > 0 else Direction.DOWN


def judge_change(policy: TierPolicy, change: Change) -> Breach | None:
    """A change of tier must stand on the record.

    An upgrade needs a reason, or a person who wanted it; a host that falls back has one by itself.
    A downgrade needs a record of whoever made it, since without one the costs of the run are read
    as those of the better model.
    """
    towards = direction(policy, change)
    if towards is Direction.UP and not _is_justified(change):
        refuse = policy.on_breach is OnBreach.REFUSE
        return Breach(Kind.UPGRADE_WITHOUT_REASON, "", change.after, (change.before,), refuse)
    if towards is Direction.DOWN and change.cause is Cause.NOBODY and not change.reason.strip():
        return Breach(Kind.UNRECORDED_DOWNGRADE, "", change.after, (change.before,))
    return None


def _is_justified(change: Change) -> bool:
    return change.cause in (Cause.PERSON, Cause.FALLBACK) or is_reason(change.reason)


_EMPTY_WORDS: Final = frozenset(
    word
    for line in (
        "a an and answer answers at be best better bigger can case could do for get give good",
        "hopefully i in is it its just likely may maybe might model models more need needs needed",
        "of one or perhaps possibly probably quality result results safe safer should smarter",
        "stronger sure that the this to try upgrade upgraded use using want we will with work",
        "works would",
    )
    for word in line.split()
)


def is_reason(text: str) -> bool:
    """Whether a text gives a reason: it must say something beside hope and comparison.

    "it might be better" says nothing; "the draft failed review twice" does. Limits: it weighs words
    and cannot tell a true reason from an invented one.
    """
    words = {word.strip(".,:;!?'\"()") for word in text.lower().split()}
    return len(words - _EMPTY_WORDS - {""}) >= _TELLING_WORDS


_TELLING_WORDS: Final = 2


def downgrade(policy: TierPolicy, provider: str, model: str) -> Change | None:
    """What a verdict that is not ok makes of a model by `on_soft`; `None` leaves it as it is.

    It never leads upwards, and a run that was moved once is not moved on along a chain in one step.
    """
    for rule in policy.downgrades:
        if rule.provider == provider and fold(rule.model) == fold(model):
            change = Change(model, rule.to, Cause.OURS, "a limit is past its soft mark")
            return None if direction(policy, change) is Direction.UP else change
    return None

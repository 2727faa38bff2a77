"""Which detectors act and from when on, and what they found."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Final


class Detector(StrEnum):
    """Every kind of circle that is looked for; the names are keys of `loops:` in budget.yaml."""

    REPEATED_CALL = "repeated_call"
    REPEATED_ERROR = "repeated_error"
    NO_NEW_FACTS = "no_new_facts"
    IDLE_HOPS = "idle_hops"
    CYCLE = "cycle"
    RECURSION = "recursion"
    STUCK_HEAD = "stuck_head"
    BURST = "burst"


class Level(IntEnum):
    """How sure it is: a hint, or a loop."""

    WARN = 1
    ACT = 2


@dataclass(frozen=True, slots=True)
class Setting:
    """One detector: whether anything follows from it, and from which count on."""

    on: bool
    warn: int
    act: int

    def level(self, count: int) -> Level | None:
        """What a count means; `None` when it means nothing yet."""
        if count >= self.act:
            return Level.ACT
        return Level.WARN if count >= self.warn else None


DEFAULTS: Final[Mapping[Detector, Setting]] = MappingProxyType(
    {
        Detector.REPEATED_CALL: Setting(on=False, warn=2, act=3),
        Detector.REPEATED_ERROR: Setting(on=False, warn=2, act=3),
        Detector.NO_NEW_FACTS: Setting(on=False, warn=1, act=2),
        Detector.IDLE_HOPS: Setting(on=False, warn=2, act=4),
        Detector.CYCLE: Setting(on=False, warn=2, act=3),
        Detector.RECURSION: Setting(on=False, warn=1, act=1),
        Detector.STUCK_HEAD: Setting(on=False, warn=2, act=2),
        Detector.BURST: Setting(on=False, warn=5, act=10),
    }
)
"""Where the counts come from stands in docs/loops.md, detector by detector."""

ALLOWED: Final = frozenset(
    {
        "process:poll",
        "process:log",
        "process:wait",
        "process:list",
        "process:submit",
        "process:write",
        "browser_click",
        "browser_scroll",
        "browser_press",
        "browser_back",
        "kanban_heartbeat",
    }
)
"""Tools of the host that are meant to be called again, or whose result does not tell what changed:
`tool`, or `tool:action`."""

NO_PROGRESS: Final = frozenset({"todo", "kanban_heartbeat"})
"""Tools whose success establishes nothing: a plan that is rewritten is no fact."""


@dataclass(frozen=True, slots=True)
class LoopPolicy:
    """Everything that budget.yaml may say about loops. The default records and never acts.

    Attributes:
        allowed: tools (`process`) or actions of tools (`process:poll`) that are never a loop.
        no_progress: tools whose success does not count as something new.
        window: how many tool calls are remembered; also bounds the memory of a watch.
        patience: how often the same call may see the same while the run waits in between.
        stubborn: how often the same error may come back though something else succeeded between.
        pause_s: after so long a gap a call is not a hasty repetition; heartbeats are further apart.
        burst_s: how long after a resume a burst is looked for.
    """

    settings: Mapping[Detector, Setting] = field(default_factory=lambda: DEFAULTS)
    allowed: frozenset[str] = ALLOWED
    no_progress: frozenset[str] = NO_PROGRESS
    window: int = 200
    patience: int = 20
    stubborn: int = 6
    pause_s: float = 300.0
    burst_s: float = 60.0

    def of(self, detector: Detector) -> Setting:
        """The setting of a detector, its default when the policy does not name it."""
        return self.settings.get(detector) or DEFAULTS[detector]

    @property
    def acts(self) -> bool:
        """Whether anything follows from any detector; otherwise they only record."""
        return any(self.of(detector).on for detector in Detector)

    def allows(self, tool: str, action: str) -> bool:
        """Whether the call is meant to be repeated."""
        return tool in self.allowed or (bool(action) and f"{tool}:{action}" in self.allowed)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something goes in a circle.

    Attributes:
        count: how often by now; compare with the setting of the detector.
        seq: the event at which it was seen.
        subject: names for people: the tool, the agents of a cycle in order, the head.
        acts: whether the policy lets anything follow from it. It is recorded in any case.
    """

    detector: Detector
    level: Level
    count: int
    seq: int
    subject: tuple[str, ...]
    acts: bool


def found(
    policy: LoopPolicy,
    detector: Detector,
    level: Level | None,
    count: int,
    seq: int,
    subject: tuple[str, ...],
) -> Finding | None:
    """The finding of a level, or none; it acts when its detector is on and it is sure."""
    if level is None:
        return None
    acts = level is Level.ACT and policy.of(detector).on
    return Finding(detector, level, count, seq, subject, acts)

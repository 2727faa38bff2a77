"""All detectors together, one event after another."""

from collections.abc import Iterable
from typing import Final

from .events import Checkpoint, Event, Head, Hop, PersonSpoke, Resumed, Status, ToolEvent
from .hops import Cycle, IdleHops, recursion
from .progress import NoNewFacts, StuckHead
from .settings import Finding, Level, LoopPolicy
from .tools import Burst, Outcomes, RepeatedCall, RepeatedError

NOTHING: Final[tuple[Finding, ...]] = ()

WATCHED_AT_ONCE: Final = 128
"""Conversations that are watched at once; a watch takes at most some 150 kB."""

_STANDING_KEPT: Final = 64

_RAN: Final = (Status.OK, Status.ERROR)


class Watch:
    """The detectors over one run, or over the hops of one tree or ticket.

    Not for several threads at once. It holds at most `policy.window` outcomes and calls, and some
    dozens of hops, errors, heads and standing findings.
    """

    __slots__ = (
        "_burst",
        "_calls",
        "_cycle",
        "_errors",
        "_facts",
        "_heads",
        "_idle",
        "_outcomes",
        "_policy",
        "_repeats",
        "_standing",
    )

    def __init__(self, policy: LoopPolicy) -> None:
        self._policy = policy
        self._calls = 0
        self._outcomes = Outcomes(policy)
        self._repeats = RepeatedCall(policy)
        self._errors = RepeatedError(policy)
        self._burst = Burst(policy)
        self._cycle = Cycle(policy)
        self._idle = IdleHops(policy)
        self._facts = NoNewFacts(policy)
        self._heads = StuckHead(policy)
        self._standing: dict[tuple[str, str], tuple[Finding, int]] = {}

    @property
    def news(self) -> int:
        """How many outcomes were new so far: it serves as the state before and after a hop."""
        return self._outcomes.news

    def see(self, event: Event) -> tuple[Finding, ...]:
        """What an event of any kind reveals."""
        match event:
            case ToolEvent():
                return self.tool(event)
            case Hop():
                return self.hop(event)
            case Checkpoint():
                return _only(self._facts.see(event, self._outcomes.news, self._calls))
            case Head():
                return _only(self._heads.see(event))
            case Resumed():
                self._burst.resumed(event.at_s)
            case PersonSpoke():
                self._person_spoke()
        return NOTHING

    def tool(self, event: ToolEvent) -> tuple[Finding, ...]:
        """What a tool call reveals. A call that did not run reveals nothing."""
        if event.status not in _RAN:
            return NOTHING
        self._calls += 1
        new = self._outcomes.see(event)
        if self._policy.allows(event.tool, event.action):
            return NOTHING
        findings = _only(
            self._repeats.see(event, self._outcomes),
            self._errors.see(event, self._outcomes),
            self._burst.see(event, new=new),
        )
        if findings:
            self._let_stand(event, findings)
        return findings

    def hop(self, hop: Hop) -> tuple[Finding, ...]:
        """What a hop reveals."""
        return _only(self._cycle.see(hop), self._idle.see(hop), recursion(self._policy, hop))

    def standing(self, tool: str, args_digest: str) -> Finding | None:
        """The loop that one more call with the same arguments would go on with.

        It stands until something new is established or a person speaks; then there may be a reason.
        """
        stands = self._standing.get((tool, args_digest))
        if stands is None or stands[1] != self._outcomes.news:
            return None
        return stands[0]

    def _let_stand(self, event: ToolEvent, findings: tuple[Finding, ...]) -> None:
        surest = max(findings, key=lambda finding: (finding.level, finding.acts))
        if surest.level is not Level.ACT:
            return
        key = (event.tool, event.args_digest)
        self._standing.pop(key, None)
        self._standing[key] = (surest, self._outcomes.news)
        if len(self._standing) > _STANDING_KEPT:
            del self._standing[next(iter(self._standing))]

    def _person_spoke(self) -> None:
        self._repeats.forget()
        self._errors.forget()
        self._standing.clear()


def _only(*findings: Finding | None) -> tuple[Finding, ...]:
    if not any(findings):
        return NOTHING
    return tuple(finding for finding in findings if finding is not None)


def detect(events: Iterable[Event], policy: LoopPolicy) -> tuple[Finding, ...]:
    """Everything that a window of events reveals, in order: the pure form of a `Watch`."""
    watch = Watch(policy)
    return tuple(finding for event in events for finding in watch.see(event))

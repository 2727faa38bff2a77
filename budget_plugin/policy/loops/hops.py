"""Detectors over hops: cycles of agents, hops that establish nothing, mutual recursion.

They look at names, goals and states, not at turns: a ping-pong in which every run makes one call is
as visible as one within a turn, provided that one watch sees all hops of the tree or the ticket.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from .events import Hop
from .settings import Detector, Finding, Level, LoopPolicy, found

LONGEST_CYCLE: Final = 4
"""Agents in a cycle. Resolved conversations took 4 hops at the median and 9 at the 99th percentile;
longer ways round are left to the ceiling on hops."""

_MOSTLY_IDLE: Final = 0.6
"""More than every second hop: in honest work with a hub, the way back establishes nothing."""

_HOPS_KEPT: Final = 13
"""Three rounds of the longest cycle, and the hop that closes them."""


class _Edge(NamedTuple):
    source: str
    target: str
    goal: str


class _Step(NamedTuple):
    """A hop as it was walked: `facts` counts the hops so far that established something."""

    edge: _Edge
    facts: int
    idle: bool


class Cycle:
    """The same way is taken again, within four hops, and nothing was established since.

    A→B→A→B is called at its third hop and A→B→C→A→B at its fourth: there the first edge is walked
    again. The very same dispatch once more (A→B, A→B) is a retry: it warns, and acts at the third.
    A circle that establishes something now and then is called when an edge is walked the third time
    in twelve hops and three fifths of the hops since its first were idle.

    Where the state is unknown, the same goal must be passed on in the same circle, or the names
    must go round three times; different goals are different work.

    Limits: what is established between two hops must show in `before` or `after` of the next one.
    A goal that is worded anew each time hides a cycle whose states are unknown.
    """

    __slots__ = ("_facts", "_path", "_policy")

    def __init__(self, policy: LoopPolicy) -> None:
        self._policy = policy
        self._facts = 0
        self._path: deque[_Step] = deque(maxlen=_HOPS_KEPT)

    def see(self, hop: Hop) -> Finding | None:
        """Judge one hop."""
        if not hop.is_blind and not hop.is_idle:
            self._facts += 1
        edge = _Edge(hop.source, hop.target, hop.goal)
        self._path.append(_Step(edge, self._facts, hop.is_idle))
        path = list(self._path)
        for length in range(1, LONGEST_CYCLE + 1):
            times = _times_walked(path, length)
            if times > 1:
                return self._closed(hop, path, length, times)
        return self._worn(hop, path)

    def _closed(self, hop: Hop, path: list[_Step], length: int, times: int) -> Finding | None:
        setting = self._policy.of(Detector.CYCLE)
        if hop.is_blind and not hop.goal:
            level = setting.level(_laps(path, length))
        else:
            # Coming round through another agent is a repetition more than asking again.
            level = setting.level(times + (length > 1))
        subject = tuple(step.edge.target for step in path[-length:])
        return found(self._policy, Detector.CYCLE, level, times, hop.seq, subject)

    def _worn(self, hop: Hop, path: list[_Step]) -> Finding | None:
        times = _times_worn(path)
        setting = self._policy.of(Detector.CYCLE)
        level = Level.ACT if times >= setting.act else None
        subject = (hop.source, hop.target)
        return found(self._policy, Detector.CYCLE, level, times, hop.seq, subject)


def _times_walked(path: Sequence[_Step], length: int) -> int:
    """How often the last edge was walked, every `length` hops, with nothing established."""
    last, times = path[-1], 1
    for at in range(len(path) - 1 - length, -1, -length):
        if path[at].edge != last.edge or path[at].facts != last.facts:
            break
        times += 1
    return times


def _times_worn(path: Sequence[_Step]) -> int:
    """How often the last edge was walked among mostly idle hops, itself included."""
    times, idle, worn = 1, 0, 1
    for since, step in enumerate(reversed(path[:-1]), start=1):
        idle += path[-since].idle
        if step.edge == path[-1].edge:
            times += 1
            if idle >= since * _MOSTLY_IDLE:
                worn = times
    return worn


def _laps(path: Sequence[_Step], length: int) -> int:
    """How many whole rounds of a cycle lie behind."""
    same = 0
    for at in range(len(path) - 1, length - 1, -1):
        if path[at].edge != path[at - length].edge:
            break
        same += 1
    return same // length + 1


class IdleHops:
    """One hop after another establishes nothing: the state before is the state after.

    Warns at the second in a row, acts at the fourth: a router that hands on establishes nothing by
    itself, and two of them in a row are honest.

    Limits: needs both states. A state that changes with every hop whatever happens hides all.
    """

    __slots__ = ("_idle", "_policy")

    def __init__(self, policy: LoopPolicy) -> None:
        self._policy = policy
        self._idle = 0

    def see(self, hop: Hop) -> Finding | None:
        """Judge one hop; an unknown state neither counts nor clears."""
        if hop.is_blind:
            return None
        self._idle = self._idle + 1 if hop.is_idle else 0
        level = self._policy.of(Detector.IDLE_HOPS).level(self._idle)
        subject = (hop.source, hop.target)
        return found(self._policy, Detector.IDLE_HOPS, level, self._idle, hop.seq, subject)


def recursion(policy: LoopPolicy, hop: Hop) -> Finding | None:
    """A child dispatches the role and goal of one above it: that work is already being done there.

    It may be asked before the child starts, so that the dispatch can be refused.

    Limits: a goal in other words is another goal; without a goal nothing is said.
    """
    if not hop.goal or (hop.role, hop.goal) not in hop.lineage:
        return None
    level = policy.of(Detector.RECURSION).level(1)
    return found(
        policy, Detector.RECURSION, level, 1, hop.seq, (hop.source, hop.role or hop.target)
    )

"""The hops of one conversation and all that it delegates: who handed what to whom, and what came.

A hop is judged by its tree's state before and after it: the outcomes of tools that were new to the
tree, the goals that were answered, and what a person said. A goal that is answered a second time
establishes nothing, however the answer is worded; else no circle of models would ever be seen.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ..policy.loops import Finding, Hop, LoopPolicy, Outcomes, ToolEvent, Watch, recursion

_KEPT: Final = 200


class Dispatch(NamedTuple):
    """A task that is handed on: by which session in which role, to which role, with which goal.

    `goal` is a digest, "" where nothing was said.
    """

    session_id: str
    source: str
    role: str
    goal: str


class HopWatch:
    """The detectors over the hops of one tree. Not for several threads at once."""

    __slots__ = (
        "_answered",
        "_before",
        "_facts",
        "_goals",
        "_open",
        "_outcomes",
        "_policy",
        "_standing",
        "watch",
    )

    def __init__(self, policy: LoopPolicy) -> None:
        self._policy = policy
        self.watch = Watch(policy)
        self._outcomes = Outcomes(policy)
        self._facts = 0
        self._before = ""
        self._goals: dict[str, tuple[str, str]] = {}
        """Role and goal of a session, by its id."""
        self._open: dict[str, Dispatch] = {}
        """Dispatches that have not come back, by the child's session."""
        self._answered: dict[str, bool] = {}
        self._standing: dict[tuple[str, str, str], tuple[Finding, str]] = {}

    @property
    def state(self) -> str:
        """What is known to the tree: equal states, nothing new."""
        return f"{self._outcomes.news}.{self._facts}"

    def tool(self, event: ToolEvent) -> None:
        """A tool of some run of the tree has ended."""
        self._outcomes.see(event)

    def person_spoke(self) -> None:
        """What a person says is new."""
        self._facts += 1

    def returned(self, child_session_id: str, *, answered: bool) -> None:
        """A child has come back; its answer is a fact if nobody answered its goal before."""
        dispatch = self._open.pop(child_session_id, None)
        if dispatch is None or not answered:
            return
        if not dispatch.goal or dispatch.goal not in self._answered:
            self._facts += 1
        _remember(self._answered, dispatch.goal, True)

    def asks(self, seq: int, dispatch: Dispatch, line: Sequence[str]) -> Finding | None:
        """The circle that a dispatch would go on with, looked for before it starts.

        Args:
            line: sessions from the one that dispatches upwards.
        """
        stands = self._standing.get(dispatch[1:])
        if stands is not None and stands[1] == self.state:
            return stands[0]
        return recursion(self._policy, self._hop(seq, dispatch, line, "", ""))

    def dispatched(
        self, seq: int, dispatch: Dispatch, child_session_id: str, line: Sequence[str]
    ) -> tuple[Finding, ...]:
        """A child starts. The same dispatch several times at once counts as one."""
        twins = dispatch.goal and dispatch in self._open.values()
        others = any(session_id not in line for session_id in self._open)
        _remember(self._goals, child_session_id, (dispatch.role, dispatch.goal))
        _remember(self._open, child_session_id, dispatch)
        if twins:
            return ()
        before, self._before = self._before, self.state
        after = self._before
        if before == after and others:  # what those will bring, nobody can say yet
            before = after = ""
        findings = self.watch.hop(self._hop(seq, dispatch, line, before, after))
        acting = next((finding for finding in findings if finding.acts), None)
        if acting is not None and dispatch.goal:
            _remember(self._standing, dispatch[1:], (acting, self.state))
        return findings

    def _hop(
        self, seq: int, dispatch: Dispatch, line: Sequence[str], before: str, after: str
    ) -> Hop:
        lineage = tuple(self._goals[each] for each in line if each in self._goals)
        _, source, role, goal = dispatch
        return Hop(seq, source, role, before, after, role, goal, lineage)


def _remember(kept: dict[Any, Any], key: object, value: object) -> None:
    """Put at the end; the longest unseen is forgotten."""
    kept.pop(key, None)
    kept[key] = value
    if len(kept) > _KEPT:
        del kept[next(iter(kept))]

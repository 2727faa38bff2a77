"""One recorded run as it goes on under a candidate's ceilings."""

from dataclasses import dataclass

from ..limits import Limit
from ..runs.run_limits import Cause, RunTerms
from ..runs.run_state import RunState, RunUsage, marks_of
from ..runs.run_steps import ask_dispatch, ask_tool_call, observed
from .recorded import RecordedCall, RecordedRun
from .spending import LimitWindow


@dataclass(frozen=True, slots=True)
class Stop:
    """Why and when a run would have been told to finish: a ceiling of its own, or a limit."""

    at_ms: int
    cause: Cause
    limit: Limit | None = None


class PlayedRun:
    """What a run has used so far, and what has stopped it. A tree draws on its root.

    Attributes:
        root: itself for a root.
        windows: by model, the spend limits that cover its calls.
        last_answers: calls that it may still make once it is stopped.
        refuses_children: a ceiling of 0 dispatches ends nothing, but starts nobody.
        is_cut: something that it, or for a root its tree, did in truth was refused.
        cut_by: what cut the tree first; a root's alone.
        saved_nanos: what the refused calls of the tree cost; a root's alone.
        has_tools: tool calls of the tree are recorded; a root's alone.
        is_to_be_told: that it goes in circles, with its next call to the model.
        told_to_finish: it has read that it goes in circles.
    """

    __slots__ = (
        "_limits",
        "_marks",
        "_rules",
        "calls",
        "cut_by",
        "dispatches",
        "has_tools",
        "is_cut",
        "is_to_be_told",
        "last_answers",
        "last_ms",
        "nanos",
        "recorded",
        "refuses_children",
        "root",
        "saved_nanos",
        "stop",
        "tokens",
        "told_to_finish",
        "windows",
    )

    def __init__(
        self, recorded: RecordedRun, root: "PlayedRun | None", terms: RunTerms, last_answers: int
    ) -> None:
        self.recorded = recorded
        self.root = root or self
        self._limits, self._rules = terms.limits, terms.rules
        self._marks = marks_of(terms.limits, terms.rules)
        self.windows: dict[str, tuple[LimitWindow, ...]] = {}
        self.last_answers = last_answers
        self.dispatches = self.calls = self.tokens = self.nanos = self.saved_nanos = 0
        self.stop: Stop | None = None
        self.cut_by: Stop | None = None
        self.is_cut = self.refuses_children = False
        self.has_tools = self.is_to_be_told = self.told_to_finish = False
        self.last_ms = recorded.started_ms

    def _state(self, tool_calls: int = 0) -> RunState:
        used = RunUsage(self.dispatches, tool_calls, self.tokens, self.nanos, calls=self.calls)
        return RunState(self._limits, self._rules, self._marks, 0.0, used)

    def _now_s(self, at_ms: int) -> float:
        return (at_ms - self.recorded.started_ms) / 1000

    def charge(self, call: RecordedCall, nanos: int) -> None:
        """Count a call that was made."""
        self.calls += 1
        self.tokens += call.tokens
        self.nanos += nanos

    def look(self, at_ms: int) -> None:
        """What has become true by now: tokens or dollars used up, a deadline passed."""
        marks, now_s = self._marks, self._now_s(at_ms)
        if (
            self.tokens < marks.token_stop
            and self.nanos < marks.cost_stop
            and now_s < marks.deadline_s
        ):
            return  # nearly always; past one of its marks `observed` has the word
        self._stopped_by(observed(self._state(), now_s), at_ms)

    def dispatch(self, count: int, at_ms: int) -> bool:
        """Start so many children; whether all of them may."""
        limit = self._limits.dispatches
        if limit is None or self.dispatches + count <= limit:
            self.dispatches += count
            return True
        self.dispatches = limit  # a run that is told how many fit starts those
        state, refused = ask_dispatch(self._state(), 1, self._now_s(at_ms))
        self._stopped_by(state, at_ms)
        self.refuses_children = refused is not None
        return refused is None

    def try_tools(self, at_ms: int) -> None:
        """The tool calls before this call: more than the ceiling allows stop the run."""
        limit, run = self._limits.tool_calls, self.recorded
        if limit is None:
            return
        # The last call is the answer: the tools came before it.
        gaps = max(1, run.calls - 1)
        made = run.tool_calls * min(self.calls, gaps) // gaps
        if made > limit:
            state, _ = ask_tool_call(self._state(limit), self._now_s(at_ms))
            self._stopped_by(state, at_ms)

    def looped(self, at_ms: int) -> None:
        """It was told that it goes in circles, and goes on with it."""
        if self.stop is None:
            self.stop = Stop(at_ms, Cause.LOOPED)

    def _stopped_by(self, state: RunState, at_ms: int) -> None:
        if state.cause is not None and self.stop is None:
            self.stop = Stop(at_ms, state.cause)

"""The loop detectors over recorded tool calls: a watch for each conversation, as the loop guard's.

Which detectors need more than tool calls, and are not replayed, stands in docs/replay.md.
"""

from collections.abc import Callable
from typing import Final

from ..loops import WATCHED_AT_ONCE, Detector, Finding, LoopPolicy, PersonSpoke, Resumed, Watch
from ..loops.responses import Action, is_attended, refusal, response, worse
from .played_runs import PlayedRun
from .recorded import FORGET_AFTER_MS, RecordedRun, RecordedTool

REPLAYED: Final = (Detector.REPEATED_CALL, Detector.REPEATED_ERROR, Detector.BURST)
"""Those that look at tool calls alone."""

OnFound = Callable[[RecordedRun, Finding], None]


class _Conversation:
    __slots__ = ("last_ms", "watch")

    def __init__(self, policy: LoopPolicy) -> None:
        self.watch = Watch(policy)
        self.last_ms = 0


class PlayedLoops:
    """The watches of one candidate; of the last day, and of as many conversations as live.

    Args:
        on_found: told of everything that a detector finds.
    """

    def __init__(self, policy: LoopPolicy, on_found: OnFound | None = None) -> None:
        self._policy = policy
        self._on_found = on_found
        self._conversations: dict[str, _Conversation] = {}
        """The one that was quiet longest first."""

    def see(self, run: PlayedRun, tool: RecordedTool, *, runs: bool) -> Action:
        """A tool call comes by; what follows from it for its run.

        Args:
            runs: it would have been made: nothing has stopped the run before.
        """
        watch = self._watch_of(run.recorded, tool.at_ms)
        event = tool.event
        if tool.after_person:
            watch.see(PersonSpoke(event.seq))
        if tool.resumed_ms is not None:
            watch.see(Resumed(event.seq, tool.resumed_ms / 1000))
        if not runs:
            return Action.WATCHED
        kind = run.recorded.kind
        attended = not kind or is_attended(kind)  # a run that nobody wrote down is not ended
        standing = watch.standing(event.tool, event.args_digest)
        refused = refusal(standing, attended=attended, told_to_finish=run.told_to_finish)
        if refused is not None:
            run.is_to_be_told = True
            return refused
        return self._follow(run, watch.tool(event), attended=attended)

    def _follow(self, run: PlayedRun, findings: tuple[Finding, ...], *, attended: bool) -> Action:
        action = Action.WATCHED
        for finding in findings:
            follows = response(
                self._policy, finding, attended=attended, told_to_finish=run.told_to_finish
            )
            action = worse(action, follows)
            run.is_to_be_told |= finding.acts
            if self._on_found is not None:
                self._on_found(run.recorded, finding)
        return action

    def _watch_of(self, run: RecordedRun, at_ms: int) -> Watch:
        key = _key(run)
        found = self._conversations.pop(key, None)
        if found is None:
            self._forget(at_ms)
            found = _Conversation(self._policy)
        self._conversations[key] = found
        found.last_ms = at_ms
        return found.watch

    def _forget(self, now_ms: int) -> None:
        """Make room for one more."""
        while self._conversations:
            quietest = next(iter(self._conversations))
            is_old = self._conversations[quietest].last_ms < now_ms - FORGET_AFTER_MS
            if not is_old and len(self._conversations) < WATCHED_AT_ONCE:
                return
            del self._conversations[quietest]


def _key(run: RecordedRun) -> str:
    """A review shares the session of the conversation that it looks at, and is none of it."""
    return run.run_id if run.kind == "review" else run.session_id or run.run_id

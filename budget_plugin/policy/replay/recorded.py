"""What is replayed: runs, their calls and their dispatches, one after another in time.

A run comes before its first call or dispatch, a root before its children. Tuples, since a month
holds a hundred thousand of them.
"""

from typing import Final, NamedTuple

from ..charges import ScopeId
from ..limits import Scope
from ..loops import ToolEvent


class RecordedRun(NamedTuple):
    """A run as the ledger knows it.

    Attributes:
        root_run_id: the run at the top of its tree; its own id for a root.
        resolved: it ended with the need met; `None` where no ending is recorded.
        tool_calls: of its whole tree, from the receipt. When each was made is not recorded: they
            are taken to be spread evenly over the calls.
        calls: billed calls of its whole tree, from the receipt.
        session_id: its conversation.
    """

    run_id: str
    root_run_id: str
    kind: str
    started_ms: int
    cron_job_id: str = ""
    sender_id: str = ""
    profile: str = ""
    platform: str = ""
    resolved: bool | None = None
    tool_calls: int = 0
    calls: int = 0
    session_id: str = ""

    def scopes(self, model: str) -> tuple[ScopeId, ...]:
        """Whose money a call of this run to a model spends; an empty id is nobody's."""
        named = (
            (Scope.CRON_JOB, self.cron_job_id),
            (Scope.SENDER, self.sender_id),
            (Scope.PROFILE, self.profile),
            (Scope.PLATFORM, self.platform),
            (Scope.MODEL, model),
        )
        return ((Scope.GLOBAL, ""), *((scope, scope_id) for scope, scope_id in named if scope_id))


class RecordedCall(NamedTuple):
    """One billed call.

    Attributes:
        nanos: what it cost, `None` where nobody knows.
        costs_nothing: free, or included in a subscription: limits in dollars let it pass.
        gated: it went through the gate in front of the model; a title or a compression did not,
            and no limit would have stopped it.
    """

    at_ms: int
    run_id: str
    model: str
    tokens: int
    nanos: int | None
    estimated: bool = False
    costs_nothing: bool = False
    gated: bool = True


class RecordedDispatch(NamedTuple):
    """Children that a run has started, in one request."""

    at_ms: int
    run_id: str
    children: int = 1


class RecordedTool(NamedTuple):
    """A tool call that has ended, as the loop guard saw it.

    Attributes:
        after_person: a person spoke in its conversation since the event before.
        resumed_ms: when its conversation was resumed since then, `None` where it was not.
    """

    at_ms: int
    run_id: str
    event: ToolEvent
    after_person: bool = False
    resumed_ms: int | None = None


Event = RecordedRun | RecordedCall | RecordedDispatch | RecordedTool

FORGET_AFTER_MS: Final = 86_400_000
"""A run that did nothing for so long is over; forgetting it keeps the memory flat."""

"""A request for one more call and the gate's answer; light, for the hooks that hand them on."""

from dataclasses import dataclass

from ..policy.admission import Admission, Expected, Kind, Standing
from ..policy.runs.effects import SeenEffect
from ..policy.runs.refusals import Refusal
from ..policy.verdicts import Verdict


@dataclass(frozen=True, slots=True)
class Request:
    """One attempt at the model, as the gate sees it; `size` in bytes (`expectation.size_of`)."""

    provider: str
    model: str
    base_url: str
    size: int
    max_tokens: int | None


@dataclass(frozen=True, slots=True)
class Undo:
    """What a run that is aborted did and is to take back.

    Attributes:
        effects: newest first.
        count: how many there were; of very many only the latest are named.
        calls_left: tool calls for it.
    """

    effects: tuple[SeenEffect, ...]
    count: int
    calls_left: int


@dataclass(frozen=True, slots=True)
class Permit:
    """The gate's answer to a request.

    Attributes:
        attempt_id: names the attempt in the ledger.
        output_cap: the longest answer to ask for, `None` leaves the request as it is.
        verdict: the limit that refuses, or under which this is the run's last answer.
        unpriced: refused because nobody knows the price and `on_unpriced` is `block`.
        standings: how the limits stood; empty when no limit covers the call.
        stop: what is spent of the run's own budget; the call is refused or its last answer.
        undo: before its last answer the run undoes this.
        run_held: what was set aside for the call under the run's own budget.
    """

    attempt_id: str
    kind: Kind
    expected: Expected
    at_ms: int
    size: int = 0
    output_cap: int | None = None
    verdict: Verdict | None = None
    unpriced: bool = False
    standings: tuple[Standing, ...] = ()
    stop: Refusal | None = None
    run_held: Admission | None = None
    undo: Undo | None = None

    @property
    def reserved(self) -> bool:
        """Whether money was set aside in the ledger."""
        return bool(self.standings) and not self.refused

    @property
    def refused(self) -> bool:
        """Whether the call must not leave."""
        return self.kind is Kind.REFUSED

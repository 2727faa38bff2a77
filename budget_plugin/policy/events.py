"""What happened, as frozen values. Hook arguments are read once into these."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of one billed call; the four paid buckets never overlap.

    Attributes:
        input_tokens: prompt tokens billed at the full input rate (cache hits and writes excluded).
        output_tokens: completion tokens, reasoning included.
        cache_read_tokens: prompt tokens served from the provider's cache.
        cache_write_tokens: prompt tokens written to the cache at the short-lived rate.
        cache_write_1h_tokens: prompt tokens written to the cache at the one-hour rate.
        reasoning_tokens: for information; already inside `output_tokens`.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cache_write_1h_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def prompt_tokens(self) -> int:
        """The whole prompt, cached parts included; the size that price tiers go by."""
        return (
            self.input_tokens
            + self.cache_read_tokens
            + self.cache_write_tokens
            + self.cache_write_1h_tokens
        )

    @property
    def total_tokens(self) -> int:
        """Prompt and completion, each token once."""
        return self.prompt_tokens + self.output_tokens


class CostSource(StrEnum):
    """Where the cost of a call comes from."""

    PROVIDER = "provider"
    PRICING = "pricing"
    INCLUDED = "included"
    FREE = "free"
    UNPRICED = "unpriced"


@dataclass(frozen=True, slots=True)
class Cost:
    """What a call costs, in nano-dollars, and how sure that is.

    Attributes:
        nanos: the charge; `None` when nobody knows (`UNPRICED`), never 0 for that.
        source: who says so.
        estimated: the number rests on a guess (a guessed price, or tokens that were not reported).
        estimate_nanos: what our own table says, kept beside a provider's figure.
        price_id: the price row that matched, e.g. `anthropic/claude-sonnet-4-5`.
        price_date: since when that row holds (ISO date), or "".
        tier: service tier or prompt-size tier that was applied, or "".
        flags: short words about doubts, e.g. `lower_bound`, `suspect_usage`.
    """

    nanos: int | None
    source: CostSource
    estimated: bool = False
    estimate_nanos: int | None = None
    price_id: str = ""
    price_date: str = ""
    tier: str = ""
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """One billed attempt at the model: a row of the ledger, dated by itself.

    `attempt_id` is unique per attempt; a repeated report of it is the same call.
    """

    attempt_id: str
    run_id: str
    at_ms: int
    provider: str
    model: str
    response_model: str
    usage: Usage
    cost: Cost
    auxiliary_task: str = ""


IMPORTED: Final = "import"
"""The kind of a run that stands for a whole session which the host noted before we were there."""


@dataclass(frozen=True, slots=True)
class Run:
    """One unit of work and those whose money it spends.

    The scope ids are the *charged* ones: a child carries those of its root. Empty means nobody.
    """

    run_id: str
    session_id: str
    root_run_id: str
    kind: str
    started_ms: int
    cron_job_id: str = ""
    sender_id: str = ""
    profile: str = ""
    platform: str = ""
    ticket_id: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True)
class Edge:
    """A delegation: `parent_run_id` started the session `child_session_id`."""

    child_session_id: str
    parent_run_id: str
    role: str
    started_ms: int

"""Usage: what a provider reported → the five counts, each token once, or "not usable".

Four shapes are read, as mappings or as objects with attributes:

* the host's own dictionary (`cache_read_tokens`, `request_count`): `input_tokens` is uncached;
* OpenAI chat: `prompt_tokens` and `completion_tokens`, the cached part *inside* the prompt;
* OpenAI Responses: `input_tokens` with `input_tokens_details`, the cached part inside, too;
* Anthropic: `input_tokens` uncached, cache reads and writes beside it.

A number that cannot be (negative, NaN, text, absurd) makes the report unusable: the caller then
charges its own estimate, so that it neither credits nor drops the call.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Final

from ..events import Usage
from ..money import nanos_from_usd
from .pricing import ESTIMATED_USAGE, MERGED_CACHE_WRITE, service_name

NO_USAGE: Final = "no_usage"
"""No counts at all, or only zeros."""

IMPOSSIBLE_USAGE: Final = "impossible_usage"
"""A count that cannot be; see `read_usage`."""

REASONING_SEPARATE: Final = "reasoning_separate"
"""The reasoning tokens were not inside the output count; they were added to it."""

SUSPECT_USAGE: Final = "suspect_usage"
"""The counts contradict each other or the size of the request; they were kept."""

IMPOSSIBLE_COST: Final = "impossible_cost"
"""The response's own cost cannot be; it was not believed."""

MOST_TOKENS: Final = 10**9
"""More tokens than this in one call is a unit error, not a call."""

MOST_COST_USD: Final = 100_000
"""The same for the cost of one call."""

CHARS_PER_TOKEN: Final = 4
_FAR_APART: Final = 10
"""A prompt that counts this many times less than the request's own size is suspect."""


@dataclass(frozen=True, slots=True)
class UsageReport:
    """What one response says of its tokens and its cost.

    Attributes:
        usage: the counts; `None` when there are none to be used, and the estimate must be charged.
        provider_cost_nanos: the cost that the response itself states, in nano-dollars.
        service_tier: the tier that answered (`flex`, `priority`, …), "" for the standard.
        flags: short words about doubts, to be handed to `price_call`.
    """

    usage: Usage | None
    provider_cost_nanos: int | None = None
    service_tier: str = ""
    flags: tuple[str, ...] = ()


class _Impossible(ValueError):
    """A count that cannot be."""


@dataclass(frozen=True, slots=True)
class _Counts:
    """What a shape says before it is judged. `cached_inside`: `prompt` includes the cache."""

    prompt: int
    output: int
    cache_read: int
    cache_write: int
    cache_write_1h: int
    reasoning: int
    cached_inside: bool
    writes_merged: bool
    total: int

    @property
    def cached(self) -> int:
        """Prompt tokens read from or written to the cache."""
        return self.cache_read + self.cache_write + self.cache_write_1h


def read_usage(
    raw: object, *, provider_cost: bool = True, approx_input_tokens: int | None = None
) -> UsageReport:
    """Read a usage object, or a whole response that carries one as `usage`.

    Args:
        raw: mapping, SDK object, `SimpleNamespace` or `None`; anything else is "no usage".
        provider_cost: whether to believe a cost in it.
        approx_input_tokens: the caller's own estimate of the request, to compare with.
    """
    carried = _get(raw, "usage")
    usage = raw if carried is None else carried
    tier = _service_tier(usage) or _service_tier(raw)
    cost, doubts = _cost(usage) if provider_cost else (None, ())
    try:
        counts = _counts(usage)
    except _Impossible:
        return UsageReport(None, cost, tier, (*doubts, IMPOSSIBLE_USAGE))
    if counts is None:
        return UsageReport(None, cost, tier, (*doubts, NO_USAGE))
    read, flags = _judged(counts, approx_input_tokens)
    return UsageReport(read, cost, tier, (*doubts, *flags))


def estimate_usage(
    prompt_tokens: int, output_chars: int, *, flags: tuple[str, ...] = ()
) -> UsageReport:
    """The counts to charge when the provider reported none: four characters are one token.

    Args:
        prompt_tokens: estimated size of the request, all of it at the full input rate.
        output_chars: characters of the answer.
        flags: what made the report unusable, kept beside `estimated_usage`.
    """
    usage = Usage(max(prompt_tokens, 0), -(-max(output_chars, 0) // CHARS_PER_TOKEN))
    return UsageReport(usage, flags=(*flags, ESTIMATED_USAGE))


def _counts(raw: object) -> _Counts | None:
    if _get(raw, "cache_read_tokens") is not None or _get(raw, "request_count") is not None:
        return _canonical(raw)
    if _get(raw, "prompt_tokens") is not None or _get(raw, "completion_tokens") is not None:
        return _chat(raw)
    if _get(raw, "input_tokens") is None and _get(raw, "output_tokens") is None:
        return None
    return _anthropic(raw) if _get(raw, "input_tokens_details") is None else _responses(raw)


def _canonical(raw: object) -> _Counts:
    write = _count(raw, "cache_write_tokens")
    return _Counts(
        prompt=_count(raw, "input_tokens"),
        output=_count(raw, "output_tokens"),
        cache_read=_count(raw, "cache_read_tokens"),
        cache_write=write,
        cache_write_1h=0,
        reasoning=_hint(raw, "reasoning_tokens"),
        cached_inside=False,
        writes_merged=write > 0,
        total=0,
    )


def _chat(raw: object) -> _Counts:
    details = _get(raw, "prompt_tokens_details")
    # Proxies in front of Anthropic, DeepSeek and Moonshot put the same counts at the top level.
    read = (
        _count(details, "cached_tokens")
        or _count(raw, "cache_read_input_tokens")
        or _count(raw, "prompt_cache_hit_tokens")
        or _count(raw, "cached_tokens")
    )
    write = _count(details, "cache_write_tokens") or _count(raw, "cache_creation_input_tokens")
    return _Counts(
        prompt=_count(raw, "prompt_tokens"),
        output=_count(raw, "completion_tokens"),
        cache_read=read,
        cache_write=write,
        cache_write_1h=0,
        reasoning=_hint(_get(raw, "completion_tokens_details"), "reasoning_tokens"),
        cached_inside=True,
        writes_merged=write > 0,
        total=_hint(raw, "total_tokens"),
    )


def _responses(raw: object) -> _Counts:
    details = _get(raw, "input_tokens_details")
    write = _count(details, "cache_write_tokens") or _count(details, "cache_creation_tokens")
    return _Counts(
        prompt=_count(raw, "input_tokens"),
        output=_count(raw, "output_tokens"),
        cache_read=_count(details, "cached_tokens"),
        cache_write=write,
        cache_write_1h=0,
        reasoning=_hint(_get(raw, "output_tokens_details"), "reasoning_tokens"),
        cached_inside=True,
        writes_merged=write > 0,
        total=_hint(raw, "total_tokens"),
    )


def _anthropic(raw: object) -> _Counts:
    split = _get(raw, "cache_creation")
    write = _count(raw, "cache_creation_input_tokens")
    write_1h = _count(split, "ephemeral_1h_input_tokens")
    short = max(write - write_1h, _count(split, "ephemeral_5m_input_tokens"))
    return _Counts(
        prompt=_count(raw, "input_tokens"),
        output=_count(raw, "output_tokens"),
        cache_read=_count(raw, "cache_read_input_tokens"),
        cache_write=short,
        cache_write_1h=write_1h,
        reasoning=0,
        cached_inside=False,
        writes_merged=write > 0 and split is None,
        total=0,
    )


def _judged(
    counts: _Counts, approx_input_tokens: int | None
) -> tuple[Usage | None, tuple[str, ...]]:
    input_tokens, contradiction = _uncached(counts)
    hidden = _reasoning_outside(counts)
    usage = Usage(
        input_tokens=input_tokens,
        output_tokens=counts.output + hidden,
        cache_read_tokens=counts.cache_read,
        cache_write_tokens=counts.cache_write,
        cache_write_1h_tokens=counts.cache_write_1h,
        reasoning_tokens=max(counts.reasoning, hidden),
    )
    if usage.total_tokens == 0:
        return None, (NO_USAGE,)
    small = usage.prompt_tokens * _FAR_APART < (approx_input_tokens or 0)
    flags = (
        (REASONING_SEPARATE, hidden > 0),
        (MERGED_CACHE_WRITE, counts.writes_merged),
        (SUSPECT_USAGE, contradiction or small),
    )
    return usage, tuple(flag for flag, holds in flags if holds)


def _uncached(counts: _Counts) -> tuple[int, bool]:
    """Prompt tokens at the full rate, and whether the counts contradict each other.

    More cached tokens than prompt means that this provider counts them outside after all.
    """
    if not counts.cached_inside:
        return counts.prompt, False
    uncached = counts.prompt - counts.cached
    return (uncached, False) if uncached >= 0 else (counts.prompt, True)


def _reasoning_outside(counts: _Counts) -> int:
    """Reasoning tokens that the output count leaves out, though they are billed as output.

    More reasoning than output cannot be inside it. xAI and Gemini leave it out of the completion
    and count it in the total only; a total that differs by the cache says nothing of reasoning.
    """
    if counts.reasoning > counts.output:
        return counts.reasoning
    beyond = counts.total - counts.prompt - counts.output
    if beyond <= 0 or beyond in (counts.cache_read, counts.cache_write, counts.cached):
        return 0
    return beyond if counts.reasoning in (0, beyond) else 0


def _cost(usage: object) -> tuple[int | None, tuple[str, ...]]:
    """The stated cost in nano-dollars. With a key of one's own (BYOK) OpenRouter's `cost` is only
    its fee, and the upstream's bill comes on top."""
    stated = _get(usage, "cost")
    if isinstance(stated, Mapping):
        stated = stated.get("total_cost")
    upstream = _get(_get(usage, "cost_details"), "upstream_inference_cost")
    try:
        fee, bill = _nanos(stated), _nanos(upstream)
    except _Impossible:
        return None, (IMPOSSIBLE_COST,)
    if _get(usage, "is_byok") is True:
        return (None if bill is None else bill + (fee or 0)), ()
    return (fee or bill if bill is not None else fee), ()


def _nanos(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise _Impossible
    try:
        believable = 0 <= value <= MOST_COST_USD  # false for a float's NaN
    except InvalidOperation:  # a Decimal's
        believable = False
    if not believable:
        raise _Impossible
    return nanos_from_usd(Decimal(str(value)))


def _service_tier(carrier: object) -> str:
    if _get(carrier, "speed") == "fast":
        return "fast"
    tier = _get(carrier, "service_tier")
    return service_name(tier) if isinstance(tier, str) else ""


def _count(carrier: object, name: str) -> int:
    value = _get(carrier, name)
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Impossible
    if not 0 <= value <= MOST_TOKENS or value != int(value):  # NaN fails the first comparison
        raise _Impossible
    return int(value)


def _hint(carrier: object, name: str) -> int:
    """A count that nothing is charged by; one that cannot be is left out."""
    try:
        return _count(carrier, name)
    except _Impossible:
        return 0


def _get(carrier: object, name: str) -> object:
    # A dict is told from an object ten times faster than a Mapping is.
    if isinstance(carrier, dict) or isinstance(carrier, Mapping):  # noqa: SIM101
        return carrier.get(name)
    return getattr(carrier, name, None)

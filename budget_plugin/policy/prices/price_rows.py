"""Price rows: what one model costs from one seller since one day, checked when they are made.

Prices are written in USD per million tokens and kept as whole pico-dollars per token, so that six
decimals of a price are exact and the cost of a call is integer arithmetic.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from types import MappingProxyType
from typing import Final

from .model_names import provider_id

PICOS_PER_USD_PER_MTOK: Final = 1_000_000
PICOS_PER_NANO: Final = 1000

_SMALLEST_USD_PER_MTOK: Final = Decimal("0.0001")
"""A price below this and above 0 was written per token: $3 a million is 0.000003 a token."""

_LARGEST_USD_PER_MTOK: Final = 100_000
"""So that the nano-dollars of the largest possible call fit into the ledger's 64 bits."""

SERVICE_TIERS: Final = ("flex", "priority", "fast", "batch")
FIELDS: Final = frozenset(
    {
        *("input", "output", "cache_read", "cache_write", "cache_write_1h", "tiers"),
        *SERVICE_TIERS,
        *("valid_from", "aliases", "source", "_estimated_price", "_subscription"),
    }
)
"""Every key that a row may have."""


class PriceError(ValueError):
    """A row that cannot be believed. `field` is the key in the row, the text says what is wrong."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True, slots=True)
class Rates:
    """Pico-dollars per token of each bucket, for one size of prompt and one service tier.

    A bucket without a price of its own has the next dearer known one: a cache hit or write that of
    the input, a one-hour write that of the short one; the `prices_…` say which were listed.
    `estimated`: the numbers are a guess. `Rates()` charges nothing.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    prices_cache_read: bool = True
    prices_cache_write: bool = True
    prices_cache_write_1h: bool = True
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class RateCard:
    """Rates by the size of the prompt; a tier holds for the whole request. `tiers` ascend."""

    base: Rates
    tiers: tuple[tuple[int, Rates], ...] = ()

    def at(self, prompt_tokens: int) -> tuple[int, Rates]:
        """The threshold that the prompt, cache included, lies above (0: none), and its rates."""
        for above, rates in reversed(self.tiers):
            if prompt_tokens > above:
                return above, rates
        return 0, self.base


@dataclass(frozen=True, slots=True)
class PriceRow:
    """One row of pricing.yaml.

    Attributes:
        key: as it is written in the file: `anthropic/claude-sonnet-4-5`, or a bare id, which holds
            for every seller that has no row of its own.
        provider: the seller, "" for a bare id.
        model: the id without the seller.
        standard: what the ordinary service costs.
        services: other service tiers by name (`SERVICE_TIERS`).
        valid_from: ISO date (UTC) since when the row holds, "" for always.
        aliases: further ids of the same model.
        source: where the numbers come from.
        subscription: the model is included in a subscription; nothing is charged.
    """

    key: str
    provider: str
    model: str
    standard: RateCard
    services: Mapping[str, RateCard] = field(default_factory=lambda: MappingProxyType({}))
    valid_from: str = ""
    valid_from_ms: int = 0
    aliases: tuple[str, ...] = ()
    source: str = ""
    subscription: bool = False

    @property
    def estimated(self) -> bool:
        """Whether the price is a guess; of a row that is none, a single tier may still be one."""
        return self.standard.base.estimated

    @property
    def is_free(self) -> bool:
        """Whether every listed price is zero."""
        cards = (self.standard, *self.services.values())
        return not any(
            rates.input or rates.output or rates.cache_read or rates.cache_write
            for card in cards
            for rates in (card.base, *(tier for _, tier in card.tiers))
        )


def read_row(key: str, fields: Mapping[str, object], *, source: str = "") -> PriceRow:
    """Make a row of the fields of pricing.yaml; numbers are `int` or `Decimal`.

    Raises:
        PriceError: for a price that is missing, not a number, negative, not finite or written per
            token, and for tiers, dates or aliases of another shape.
    """
    head, slash, model = key.strip().partition("/")
    subscription = _flag(fields, "_subscription")
    valid_from = _day(fields.get("valid_from"))
    standard = RateCard(Rates()) if subscription else _card(fields, None, "")
    return PriceRow(
        key=key.strip(),
        provider=provider_id(head) if slash else "",
        model=model if slash else head,
        standard=standard,
        services=MappingProxyType(dict(() if subscription else _services(fields, standard.base))),
        valid_from=valid_from.isoformat() if valid_from else "",
        valid_from_ms=_midnight_ms(valid_from) if valid_from else 0,
        aliases=_aliases(fields.get("aliases")),
        source=str(fields.get("source") or source),
        subscription=subscription,
    )


def _services(fields: Mapping[str, object], standard: Rates) -> Iterable[tuple[str, RateCard]]:
    for name in SERVICE_TIERS:
        if name in fields:
            yield name, _card(_mapping(fields[name], name), standard, f"{name}.")


def _card(fields: Mapping[str, object], inherited: Rates | None, where: str) -> RateCard:
    """Rates and tiers of one block; what a tier does not name comes from the block."""
    base = _rates(fields, inherited, where)
    if "tiers" not in fields:
        return RateCard(base)
    tiers = sorted(_tiers(fields["tiers"], base, where), key=lambda tier: tier[0])
    return RateCard(base, tuple(tiers))


def _tiers(value: object, base: Rates, where: str) -> Iterable[tuple[int, Rates]]:
    if not isinstance(value, list | tuple):
        raise PriceError(f"{where}tiers", "expected a list such as [{above: 200000, input: 6.00}]")
    for number, item in enumerate(value):
        place = f"{where}tiers[{number}]"
        fields = _mapping(item, place)
        yield _above(fields.get("above"), place), _rates(fields, base, f"{place}.")


def _above(value: object, place: str) -> int:
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        tokens = Decimal(value)
        if tokens.is_finite() and tokens > 0 and tokens == tokens.to_integral_value():
            return int(tokens)
    raise PriceError(f"{place}.above", "expected a number of prompt tokens such as 200000")


def _rates(fields: Mapping[str, object], inherited: Rates | None, where: str) -> Rates:
    def listed(name: str, else_: int | None, *, inherits: bool = True) -> int:
        if name in fields:
            return _picos(fields[name], where + name)
        if inherited is not None and inherits:
            return int(getattr(inherited, name))
        if else_ is None:
            raise PriceError(where + name, "a price is missing; write 0 for what is free")
        return else_

    def has(name: str) -> bool:
        return name in fields or bool(inherited and getattr(inherited, f"prices_{name}"))

    reads, writes, writes_1h = has("cache_read"), has("cache_write"), has("cache_write_1h")
    input_ = listed("input", None)
    write = listed("cache_write", input_, inherits=writes)
    return Rates(
        input=input_,
        output=listed("output", None),
        cache_read=listed("cache_read", input_, inherits=reads),
        cache_write=write,
        cache_write_1h=listed("cache_write_1h", write, inherits=writes_1h),
        prices_cache_read=reads,
        prices_cache_write=writes,
        prices_cache_write_1h=writes_1h,
        estimated=_flag(fields, "_estimated_price", where)
        or bool(inherited and inherited.estimated),
    )


def _picos(value: object, where: str) -> int:
    """Pico-dollars per token of a price in USD per million tokens, rounded at six decimals."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise PriceError(where, f"{value!r} is not a number of USD per million tokens")
    price = Decimal(value)
    if not price.is_finite():
        raise PriceError(where, f"{value} is not a finite number")
    if price < 0:
        raise PriceError(where, f"{value} is negative: a sentinel such as -1 is not a price")
    if 0 < price < _SMALLEST_USD_PER_MTOK:
        raise PriceError(
            where, f"{value} looks like a price per token; write it per million tokens"
        )
    if price > _LARGEST_USD_PER_MTOK:
        raise PriceError(where, f"{value} USD per million tokens is more than any model costs")
    return int((price * PICOS_PER_USD_PER_MTOK).to_integral_value())


def _mapping(value: object, where: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise PriceError(where, "expected prices such as {input: 1.00, output: 2.00}")
    return value


def _flag(fields: Mapping[str, object], name: str, where: str = "") -> bool:
    value = fields.get(name, False)
    if not isinstance(value, bool):
        raise PriceError(where + name, f"{value!r} is neither true nor false")
    return value


def _day(value: object) -> date | None:
    if value is None or value == "":
        return None
    try:
        return date.fromisoformat(str(value))
    except ValueError:
        raise PriceError("valid_from", f"{value} is not a date such as 2026-01-31") from None


def _midnight_ms(day: date) -> int:
    return int(datetime.combine(day, time.min, UTC).timestamp()) * 1000


def _aliases(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        raise PriceError("aliases", "expected a list of model ids")
    return tuple(value)

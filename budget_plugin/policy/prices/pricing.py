"""Prices: (seller, model, day, tokens) → what a call costs and how sure that is.

The order of belief: the cost in the provider's response, the user's rows, the bundled rows, and
then *unpriced*, which is never 0. Beside priced there are free (a free variant of a model, the
user's own hardware) and included (a subscription).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from ..events import Cost, CostSource, Usage
from .model_names import (
    LIST_PRICE_OF,
    OPENROUTER,
    fold,
    is_free_variant,
    runs_locally,
    seller,
    spellings,
    vendor_spellings,
    without_routing,
)
from .price_rows import PICOS_PER_NANO, PriceRow, Rates

LOWER_BOUND: Final = "lower_bound"
"""The true price is higher by an amount that nobody told us."""

UPPER_BOUND: Final = "upper_bound"
"""A cheaper service tier answered and its price is not known: the standard price was charged."""

MERGED_CACHE_WRITE: Final = "merged_cache_write"
"""Set by `usage`: the cache writes of both durations came as one count."""

ESTIMATED_USAGE: Final = "estimated_usage"
"""Set by `usage`: the provider did not report the tokens."""

PROVIDER_ZERO: Final = "provider_zero"
"""The response says that a call of a model with a price cost nothing; that was not believed."""

_STANDARD_TIERS: Final = frozenset({"auto", "default", "on_demand", "standard", "none"})
_CHEAPER_TIERS: Final = frozenset({"flex", "batch"})
_MOST_ROUTES: Final = 4096


@dataclass(frozen=True, slots=True)
class Hit:
    """A row that may price the call; `guessed` when it is not the seller's own."""

    row: PriceRow
    guessed: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """How the calls of one model from one endpoint are billed.

    Attributes:
        seller: who bills, by its one name.
        fallback: what holds when no row does: `INCLUDED`, `FREE` or `UNPRICED`.
        included: the price of a row is notional, since a subscription pays.
        hits: rows in the order of belief, later dates first.
    """

    seller: str
    fallback: CostSource
    included: bool
    hits: tuple[Hit, ...]

    def at(self, at_ms: int) -> Hit | None:
        """The row that holds at the time of the call."""
        for hit in self.hits:
            if hit.row.valid_from_ms <= at_ms:
                return hit
        return None


class Rows:
    """Rows by (seller, folded id), later dates first; a row's own id beats another's alias."""

    def __init__(self, rows: Iterable[PriceRow]) -> None:
        self._by_id: dict[tuple[str, str], list[PriceRow]] = {}
        self._by_alias: dict[tuple[str, str], list[PriceRow]] = {}
        for row in sorted(rows, key=lambda row: row.valid_from_ms, reverse=True):
            self._by_id.setdefault((row.provider, fold(row.model)), []).append(row)
            for alias in row.aliases:
                self._by_alias.setdefault((row.provider, fold(alias)), []).append(row)
        self.all = tuple(row for group in self._by_id.values() for row in group)
        """Every row."""

    def get(self, provider: str, folded: str) -> list[PriceRow]:
        """The rows of this id from this seller."""
        key = (provider, folded)
        return self._by_id.get(key) or self._by_alias.get(key) or []


class RowsBySeller:
    """Rows that are made seller by seller, when the first call of that seller is priced."""

    def __init__(self, sellers: Iterable[str], load: Callable[[str], Iterable[PriceRow]]) -> None:
        self._sellers = frozenset(sellers)
        self._load = load
        self._loaded: dict[str, Rows] = {}

    @property
    def all(self) -> tuple[PriceRow, ...]:
        """Every row; makes all that are not made yet."""
        return tuple(row for name in sorted(self._sellers) for row in self._of(name).all)

    def get(self, provider: str, folded: str) -> list[PriceRow]:
        """The rows of this id from this seller."""
        return self._of(provider).get(provider, folded) if provider in self._sellers else []

    def _of(self, provider: str) -> Rows:
        rows = self._loaded.get(provider)
        if rows is None:  # two threads may both make them, and the same
            rows = self._loaded[provider] = Rows(self._load(provider))
        return rows


class PriceTable:
    """The user's rows over the bundled ones. Looking up is remembered, so keep the table.

    Nothing in it changes after it was made; `with_user` makes another one.
    """

    def __init__(
        self, bundled: Iterable[PriceRow] | RowsBySeller = (), user: Iterable[PriceRow] = ()
    ) -> None:
        rows = tuple(user)
        self._bundled = bundled if isinstance(bundled, RowsBySeller) else Rows(bundled)
        self._user = Rows(rows)
        # A key that is written like the model of the call is meant for it, whoever sells it.
        self._as_written = Rows(_neutral(row) for row in rows if row.provider)
        self._routes: dict[tuple[str, str, str, str], Route] = {}

    def with_user(self, user: Iterable[PriceRow]) -> "PriceTable":
        """The same bundled rows, without reading them again, under other rows of the user."""
        table = PriceTable(user=user)
        table._bundled = self._bundled
        return table

    @property
    def bundled_rows(self) -> tuple[PriceRow, ...]:
        """Every bundled row."""
        return self._bundled.all

    @property
    def user_rows(self) -> tuple[PriceRow, ...]:
        """Every row of the user."""
        return self._user.all

    def find(self, provider: str, model: str, at_ms: int) -> PriceRow | None:
        """The row that prices this model from this seller at this time, by its exact id, a listed
        alias, a dated snapshot or another spelling; never by the beginning of its name."""
        hit = self.route(provider, model).at(at_ms)
        return hit.row if hit else None

    def route(
        self, provider: str, model: str, response_model: str = "", base_url: str = ""
    ) -> Route:
        """How calls of this model are billed; `response_model` is believed before the request's."""
        key = (provider, model, response_model, base_url)
        route = self._routes.get(key)
        if route is None:
            if len(self._routes) >= _MOST_ROUTES:
                self._routes.clear()
            route = self._routes[key] = self._find_route(*key)
        return route

    def _find_route(self, provider: str, model: str, response_model: str, base_url: str) -> Route:
        billed_by = seller(provider, base_url, model)
        free = is_free_variant(model) or is_free_variant(response_model)
        # The other of the two names may be that of the paid variant.
        names = tuple(
            name for name in (response_model, model) if name and (not free or is_free_variant(name))
        )
        local = runs_locally(provider, base_url, model)
        hits = tuple(self._hits(billed_by, names, own_only=local))
        included = billed_by in LIST_PRICE_OF and not any(
            hit.row.provider == billed_by and not hit.row.subscription for hit in hits
        )
        if included:
            fallback = CostSource.INCLUDED
        else:
            fallback = CostSource.FREE if free or local else CostSource.UNPRICED
        return Route(billed_by, fallback, included, hits)

    def _hits(self, billed_by: str, names: tuple[str, ...], *, own_only: bool) -> Iterator[Hit]:
        for name in names:
            yield from self._users_hits(billed_by, name)
        for name in names:
            yield from self._bundled_hits(billed_by, name)
        if own_only:
            return
        for name in names:
            yield from self._list_price_hits(billed_by, name)
        for name in names:
            if (plain := without_routing(name)) != name.strip().lower():
                yield from (Hit(hit.row, guessed=True) for hit in self._plain(billed_by, plain))

    def _plain(self, billed_by: str, name: str) -> Iterator[Hit]:
        yield from self._users_hits(billed_by, name)
        yield from self._bundled_hits(billed_by, name)
        yield from self._list_price_hits(billed_by, name)

    def _users_hits(self, billed_by: str, name: str) -> Iterator[Hit]:
        for form in spellings(billed_by, name):
            yield from map(Hit, self._user.get(billed_by, form))
        for form in spellings(billed_by, name):
            yield from map(Hit, self._as_written.get("", form))
        for form in spellings(billed_by, name):
            yield from map(Hit, self._user.get("", form))

    def _bundled_hits(self, billed_by: str, name: str) -> Iterator[Hit]:
        for form in spellings(billed_by, name):
            yield from map(Hit, self._bundled.get(billed_by, form))

    def _list_price_hits(self, billed_by: str, name: str) -> Iterator[Hit]:
        """The maker's price of what somebody else sells: exact through OpenRouter, which passes
        list prices on, and within a subscription; a guess elsewhere."""
        if maker := LIST_PRICE_OF.get(billed_by):
            yield from self._users_hits(maker, name)
            yield from self._bundled_hits(maker, name)
        for maker, form in vendor_spellings(billed_by, name):
            for row in (*self._user.get(maker, form), *self._bundled.get(maker, form)):
                yield Hit(row, guessed=billed_by not in (OPENROUTER, maker))


def _neutral(row: PriceRow) -> PriceRow:
    return replace(row, provider="", model=row.key, aliases=())


def rates(row: PriceRow, prompt_tokens: int, service_tier: str = "") -> Rates:
    """Pico-dollars per token of each bucket for a prompt of this size, cache included.

    For an expectation before a call; `price_call` uses the same. A service tier without prices of
    its own has the standard ones.
    """
    return row.services.get(service_tier, row.standard).at(prompt_tokens)[1]


def price_call(
    table: PriceTable,
    *,
    provider: str,
    model: str,
    usage: Usage,
    at_ms: int,
    response_model: str = "",
    base_url: str = "",
    provider_cost_nanos: int | None = None,
    service_tier: str = "",
    flags: tuple[str, ...] = (),
) -> Cost:
    """What one call costs, by the order of belief.

    Args:
        usage: the tokens of this one attempt; the size of *its* prompt decides the tier.
        at_ms: when the call was made; the row that held then is used, whatever came later.
        response_model: the model that the response names, "" if it names none.
        provider_cost_nanos: what the response says that the call cost.
        service_tier: the tier that the *response* names; "" and `default` are the standard.
        flags: the doubts that reading the usage left (`UsageReport.flags`); they stay on the cost.
    """
    route = table.route(provider, model, response_model, base_url)
    hit = route.at(at_ms)
    own = _price(hit, usage, service_tier, flags) if hit else None
    if provider_cost_nanos is not None and _believed(provider_cost_nanos, route):
        return _by_provider(provider_cost_nanos, own, flags)
    if own is None or route.included:
        return _without_charge(route.fallback, own, flags)
    if provider_cost_nanos == 0 and own.nanos:
        return replace(own, flags=(*own.flags, PROVIDER_ZERO))
    return own


def _believed(cost_nanos: int, route: Route) -> bool:
    """A zero is often a field that nobody filled in; OpenRouter fills it in."""
    free = route.fallback is not CostSource.UNPRICED
    return cost_nanos > 0 or (route.seller == OPENROUTER and not free)


def _by_provider(cost_nanos: int, own: Cost | None, flags: tuple[str, ...]) -> Cost:
    """The stated cost is certain; what our row says stays beside it."""
    if own is None:
        return Cost(cost_nanos, CostSource.PROVIDER, flags=flags)
    return Cost(
        cost_nanos,
        CostSource.PROVIDER,
        False,
        own.nanos,
        own.price_id,
        own.price_date,
        own.tier,
        flags,
    )


def _without_charge(source: CostSource, own: Cost | None, flags: tuple[str, ...]) -> Cost:
    nanos = None if source is CostSource.UNPRICED else 0
    if own is None:
        return Cost(nanos, source, flags=flags)
    return replace(
        own, nanos=0, source=source, estimated=False, estimate_nanos=own.nanos, flags=flags
    )


def _price(hit: Hit, usage: Usage, service_tier: str, flags: tuple[str, ...]) -> Cost:
    row = hit.row
    if row.subscription:
        return Cost(
            0, CostSource.INCLUDED, price_id=row.key, price_date=row.valid_from, flags=flags
        )
    service = service_name(service_tier) if service_tier else ""
    own_card = row.services.get(service) if service else None
    card = own_card or row.standard
    above, applied = card.at(usage.prompt_tokens) if card.tiers else (0, card.base)
    nanos = _nanos(usage, applied)
    return Cost(
        nanos,
        CostSource.FREE if not nanos and row.is_free else CostSource.PRICING,
        applied.estimated or hit.guessed or ESTIMATED_USAGE in flags,
        nanos,
        row.key,
        row.valid_from,
        _tier_name(service if own_card else "", above) if own_card or above else "",
        _doubts(usage, applied, "" if own_card else service, flags),
    )


def _nanos(usage: Usage, price: Rates) -> int:
    """Nano-dollars, exact until the one rounding at the end (half up)."""
    picos = (
        usage.input_tokens * price.input
        + usage.output_tokens * price.output
        + usage.cache_read_tokens * price.cache_read
        + usage.cache_write_tokens * price.cache_write
        + usage.cache_write_1h_tokens * price.cache_write_1h
    )
    return (picos + PICOS_PER_NANO // 2) // PICOS_PER_NANO


def service_name(tier: str) -> str:
    """The one name of a service tier: lower case, "" for the standard service."""
    name = tier.strip().lower()
    return "" if name in _STANDARD_TIERS else name


def _tier_name(service: str, above: int) -> str:
    return " ".join(filter(None, (service, f">{above}" if above else "")))


def _doubts(
    usage: Usage, price: Rates, unknown_service: str, flags: tuple[str, ...]
) -> tuple[str, ...]:
    merged = MERGED_CACHE_WRITE in flags and price.prices_cache_write_1h
    unlisted = (usage.cache_write_tokens and not price.prices_cache_write) or (
        usage.cache_write_1h_tokens and not price.prices_cache_write_1h
    )
    if merged or unlisted or (unknown_service and unknown_service not in _CHEAPER_TIERS):
        return (*flags, LOWER_BOUND)
    return (*flags, UPPER_BOUND) if unknown_service else flags

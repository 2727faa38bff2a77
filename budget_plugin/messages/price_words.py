"""`prices` in words: which row prices a model, from where, and what has none."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path

from ..policy.events import CostSource
from ..policy.prices.price_rows import PriceRow, Rates
from ..policy.prices.pricing import Route
from .layout import short


@dataclass(frozen=True, slots=True)
class Priced:
    """A model from one seller, and the row that holds now; `calls` without a price so far."""

    provider: str
    model: str
    route: Route
    row: PriceRow | None
    guessed: bool = False
    unpriced_calls: int = 0

    @property
    def has_price(self) -> bool:
        """Whether its next call will not be unpriced."""
        return self.row is not None or self.route.fallback is not CostSource.UNPRICED


def prices_summary(
    bundled: int, day: date | None, own: int, user_file: Path, problems: int, prefix: str
) -> str:
    """Where the prices come from."""
    since = f", as of {day.isoformat()}" if day else ""
    yours = f"{own} of your own in {user_file}" if own else f"none of your own ({user_file})"
    lines = [f"{bundled:,} bundled prices{since}; {yours}."]
    if problems:
        lines.append(f"{problems} of them not understood: see {prefix} check")
    lines.append(f"For one model: {prefix} prices <model>")
    lines.append(f"Models in use without a price: {prefix} prices check")
    return "\n".join(lines)


def priced_text(found: Sequence[Priced], user_file: Path) -> str:
    """The row of one model, once for each seller that it was used with."""
    return "\n".join(_one(priced, user_file) for priced in found)


def _one(priced: Priced, user_file: Path) -> str:
    name = short(priced.model)
    from_whom = f" from {priced.route.seller or priced.provider}" if priced.provider else ""
    if priced.row is None:
        return _without_row(priced, f"{name}{from_whom}", user_file)
    row = priced.row
    doubt = " (a guess)" if priced.guessed or row.estimated else ""
    since = f", since {row.valid_from}" if row.valid_from else ""
    head = f"{name}{from_whom}: row {short(row.key)} of {row.source or 'the table'}{since}{doubt}"
    if priced.route.included or row.subscription:
        return f"{head}\n  included in a subscription: nothing is charged"
    return "\n".join([head, *(f"  {line}" for line in _rates(row))])


def _without_row(priced: Priced, name: str, user_file: Path) -> str:
    if priced.route.fallback is CostSource.FREE:
        return f"{name}: costs nothing."
    if priced.route.fallback is CostSource.INCLUDED:
        return f"{name}: included in a subscription; nothing is charged."
    return (
        f"{name}: no price is known, so its calls count as unpriced. "
        f"Add a row to {user_file}:\n"
        f"models:\n  {_as_key(priced.model)}: {{input: 1.00, output: 2.00}}"
    )


def _as_key(model: str) -> str:
    return '"' + model.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _rates(row: PriceRow) -> list[str]:
    lines = [_line("", row.standard.base)]
    lines += [_line(f"prompts over {above:,} tokens: ", r) for above, r in row.standard.tiers]
    lines += [_line(f"{name}: ", card.base) for name, card in row.services.items()]
    return lines


def _line(what: str, rates: Rates) -> str:
    cached = f", cache read {_usd(rates.cache_read)}" if rates.prices_cache_read else ""
    written = f", cache write {_usd(rates.cache_write)}" if rates.prices_cache_write else ""
    return (
        f"{what}{_usd(rates.input)} in, {_usd(rates.output)} out{cached}{written} "
        "per million tokens"
    )


def _usd(picos_per_token: int) -> str:
    """Dollars per million tokens: a pico-dollar a token is a millionth of that."""
    usd = Decimal(picos_per_token) / 1_000_000
    return f"${usd:.2f}" if usd == round(usd, 2) else f"${usd.normalize():f}"


_MOST_NAMED = 3


def not_in_dollars(models: Sequence[str], prefix: str) -> str:
    """Beside an amount in dollars that leaves calls out."""
    named = [short(model) for model in models[:_MOST_NAMED]]
    if (more := len(models) - _MOST_NAMED) > 0:
        named.append(f"{more} more")
    return (
        f"No price is known for {', '.join(named)}: limits in dollars do not see such calls. "
        f"What to do: {prefix} prices check"
    )


def unpriced_text(
    found: Sequence[Priced], used: int, days: int, user_file: Path, prefix: str
) -> str:
    """The models in use that have no price."""
    if not used:
        return f"No model was used in the last {days} days."
    if not found:
        which = "The one model" if used == 1 else f"All {used} models"
        return f"{which} of the last {days} days {'has' if used == 1 else 'have'} a price."
    lines = [f"{len(found)} of {used} models of the last {days} days have no price:"]
    for priced in found:
        calls = "1 call" if priced.unpriced_calls == 1 else f"{priced.unpriced_calls} calls"
        lines.append(f"- {short(priced.model)} from {priced.provider or 'unknown'}: {calls}")
    lines.append(f"Add a row for each to {user_file}, in dollars per million tokens:")
    lines += [
        "models:",
        *(f"  {_as_key(priced.model)}: {{input: 1.00, output: 2.00}}" for priced in found),
    ]
    lines.append(f'Or limit calls ({prefix} set global daily "900 calls"),')
    lines.append("or refuse what has no price: on_unpriced: block in budget.yaml.")
    return "\n".join(lines)


def priced_data(priced: Priced) -> dict[str, object]:
    """A model's price for programs; rates in dollars per million tokens, as text."""
    row = priced.row
    base = row.standard.base if row else None
    return {
        "provider": priced.provider,
        "model": priced.model,
        "seller": priced.route.seller,
        "priced": priced.has_price,
        "row": row.key if row else None,
        "source": row.source if row else None,
        "valid_from": (row.valid_from or None) if row else None,
        "guess": bool(row) and (priced.guessed or bool(row and row.estimated)),
        "included": priced.route.included or bool(row and row.subscription),
        "input_usd_per_mtok": _plain(base.input) if base else None,
        "output_usd_per_mtok": _plain(base.output) if base else None,
        "unpriced_calls": priced.unpriced_calls,
    }


def _plain(picos_per_token: int) -> str:
    return f"{Decimal(picos_per_token) / 1_000_000:f}"

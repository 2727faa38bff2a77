"""Money: integer nano-dollars inside, `Decimal` at the border, never a float.

One nano-dollar is 10^-9 USD. A price of $0.0028 per million tokens is 2.8 nano-dollars a token, so
the cost of a call is exact and thousands of sub-cent calls add up without loss.
"""

from decimal import Decimal, InvalidOperation
from typing import Final

NANOS_PER_USD: Final = 1_000_000_000
_NANO: Final = Decimal(NANOS_PER_USD)

MAX_USD: Final = Decimal(1_000_000_000)
"""Largest amount that is accepted as a limit; one more digit is a typing error, not a budget."""


class AmountError(ValueError):
    """A text or value that is not an amount of money; the message says what would be right."""


def nanos_from_usd(usd: Decimal | int) -> int:
    """Nano-dollars of an amount in dollars, rounded half to even at the ninth decimal."""
    return int((Decimal(usd) * _NANO).to_integral_value())


def usd_from_nanos(nanos: int) -> Decimal:
    """Dollars, exact."""
    return Decimal(nanos) / _NANO


def parse_usd(value: object) -> int:
    """Nano-dollars of a number or of a plain number in text (`7.50`, `"5"`, `1_000`).

    Raises:
        AmountError: for a currency sign, a comma, a boolean, NaN, infinity, a negative number, or
            more than `MAX_USD`.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise AmountError("expected a number of dollars such as 5 or 7.50")
    text = str(value).strip()
    try:
        amount = Decimal(text.replace("_", ""))
    except InvalidOperation:
        raise AmountError(_hint(text)) from None
    if not amount.is_finite():
        raise AmountError("expected a finite number of dollars such as 5 or 7.50")
    if amount < 0:
        raise AmountError("a limit cannot be negative; 0 allows nothing, null means no limit")
    if amount > MAX_USD:
        raise AmountError(f"more than {MAX_USD:,} dollars; check the decimal point")
    return nanos_from_usd(amount)


def _hint(text: str) -> str:
    bare = text.removeprefix("$").removesuffix("USD").removesuffix("$").strip()
    if "," in bare:
        return f"write the decimal point as a dot: {bare.replace(',', '.', 1)}"
    if bare != text and bare:
        return f"write the plain number: {bare}"
    return "expected a number of dollars such as 5 or 7.50"


def written_usd(nanos: int) -> str:
    """As it is typed and stands in budget.yaml: `7.50`, `3`, `0.0018`; exact."""
    if nanos % NANOS_PER_USD == 0:
        return str(nanos // NANOS_PER_USD)
    whole, decimals = f"{usd_from_nanos(nanos):.9f}".split(".")
    return f"{whole}.{decimals.rstrip('0'):0<2}"


def format_usd(nanos: int, *, up: bool = False) -> str:
    """`$3.10`; below one cent four decimals or as many as show a first digit (`$0.0018`).

    Rounded down when it would otherwise reach the next cent: a spend of $4.9999 must not read as
    the $5.00 limit that it has not reached.

    Args:
        up: round up, for what is needed: $0.0165 does not fit into $0.01.
    """
    sign = "-" if nanos < 0 else ""
    value = abs(nanos)
    if value == 0 or value >= NANOS_PER_USD // 100:
        cents = _divided(value * 100, up=up)
        return f"{sign}${cents // 100:,}.{cents % 100:02d}"
    decimals = 4
    while decimals < 9 and value * 10**decimals < NANOS_PER_USD:
        decimals += 1
    return f"{sign}${_divided(value * 10**decimals, up=up) / 10**decimals:.{decimals}f}"


def _divided(value: int, *, up: bool) -> int:
    return -(-value // NANOS_PER_USD) if up else value // NANOS_PER_USD

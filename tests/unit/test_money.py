"""Money is exact: integer nano-dollars inside, plain numbers in, rounded only for the eye."""

from __future__ import annotations

from decimal import Decimal

import pytest

from budget_plugin.policy.money import (
    MAX_USD,
    AmountError,
    format_usd,
    nanos_from_usd,
    parse_usd,
    usd_from_nanos,
)

CENT = 10_000_000


@pytest.mark.parametrize(
    ("usd", "nanos"),
    [
        ("1", 1_000_000_000),
        ("0.0018088", 1_808_800),  # 1,680 + 30.8 + 98 millionths of a dollar
        ("0.0000000015", 2),  # half a nano-dollar goes to the even neighbour …
        ("0.0000000025", 2),  # … on both sides
        ("-0.5", -500_000_000),
    ],
)
def test_dollars_become_nano_dollars(usd: str, nanos: int) -> None:
    assert nanos_from_usd(Decimal(usd)) == nanos


@pytest.mark.parametrize("nanos", [0, 1, 1_808_800, 10**18 + 1, -7])
def test_there_and_back_is_exact(nanos: int) -> None:
    assert nanos_from_usd(usd_from_nanos(nanos)) == nanos


@pytest.mark.case("A22")
def test_a_thousand_calls_below_a_cent_add_up() -> None:
    each = nanos_from_usd(Decimal("0.0018088"))
    assert each * 1000 == 1_808_800_000  # $1.8088; rounded to cents each would be $0.00
    assert format_usd(each) == "$0.0018"


@pytest.mark.case("A27")
@pytest.mark.parametrize(
    ("value", "nanos"),
    [
        (5, 5_000_000_000),
        (0, 0),
        (7.50, 7_500_000_000),
        (0.1, 100_000_000),  # not 0.1000000000000000055
        ("5", 5_000_000_000),
        (" 2.50 ", 2_500_000_000),
        ("1_000", 1_000_000_000_000),
        (Decimal("0.000000001"), 1),
        (MAX_USD, 10**18),
    ],
)
def test_plain_numbers_are_amounts(value: object, nanos: int) -> None:
    assert parse_usd(value) == nanos


@pytest.mark.case("A27", "T22")
@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("$5", "write the plain number: 5"),
        ("5 USD", "write the plain number: 5"),
        ("5$", "write the plain number: 5"),
        ("5,00", "write the decimal point as a dot: 5.00"),
        ("$5,00", "write the decimal point as a dot: 5.00"),
        ("five", "expected a number of dollars such as 5 or 7.50"),
        ("", "expected a number of dollars such as 5 or 7.50"),
        ("100%", "expected a number of dollars such as 5 or 7.50"),
        (True, "expected a number of dollars such as 5 or 7.50"),
        (None, "expected a number of dollars such as 5 or 7.50"),
        ([5], "expected a number of dollars such as 5 or 7.50"),
        ("nan", "expected a finite number of dollars such as 5 or 7.50"),
        (float("inf"), "expected a finite number of dollars such as 5 or 7.50"),
        (-1, "a limit cannot be negative; 0 allows nothing, null means no limit"),
        ("1e400", "more than 1,000,000,000 dollars; check the decimal point"),
        (MAX_USD + 1, "more than 1,000,000,000 dollars; check the decimal point"),
    ],
)
def test_everything_else_is_refused_and_told_what_would_be_right(value: object, says: str) -> None:
    with pytest.raises(AmountError) as refusal:
        parse_usd(value)
    assert str(refusal.value) == says


@pytest.mark.parametrize(
    ("nanos", "text"),
    [
        (0, "$0.00"),
        (5_000_000_000, "$5.00"),
        (1_234_567_890_000_000, "$1,234,567.89"),
        (4_999_999_999, "$4.99"),  # never rounded up to a limit that it has not reached
        (CENT, "$0.01"),
        (CENT - 1, "$0.0099"),
        (1_808_800, "$0.0018"),
        (100_000, "$0.0001"),
        (99_999, "$0.00009"),  # as many decimals as show a first digit
        (4_500, "$0.000004"),
        (1, "$0.000000001"),
        (-1_500_000_000, "-$1.50"),
    ],
)
def test_amounts_for_people(nanos: int, text: str) -> None:
    assert format_usd(nanos) == text


@pytest.mark.parametrize(
    ("nanos", "down", "up"),
    [
        (16_500_000, "$0.01", "$0.02"),
        (20_000_000, "$0.02", "$0.02"),
        (4_999_900_000, "$4.99", "$5.00"),
        (1_840_001, "$0.0018", "$0.0019"),
        (9_999_999, "$0.0099", "$0.0100"),
        (0, "$0.00", "$0.00"),
    ],
)
def test_what_is_needed_is_rounded_up(nanos: int, down: str, up: str) -> None:
    assert (format_usd(nanos), format_usd(nanos, up=True)) == (down, up)

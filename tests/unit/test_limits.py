"""Which limits hold for an id: override over default, null lifts, 0 allows nothing."""

from __future__ import annotations

import pytest

from budget_plugin.policy.limits import (
    KEYS,
    SCOPES,
    Amounts,
    Budget,
    Limit,
    Measure,
    Problem,
    Scope,
    ScopeLimits,
)
from budget_plugin.policy.windows import Window

USD = 1_000_000_000


def amounts(**values: int | None) -> Amounts:
    return {KEYS[name]: value for name, value in values.items()}


def budget(
    scope: Scope, default: dict[str, int | None], **overrides: dict[str, int | None]
) -> Budget:
    limits = ScopeLimits(amounts(**default), {k: amounts(**v) for k, v in overrides.items()})
    return Budget(scopes={scope: limits})


def shown(limits: tuple[Limit, ...]) -> dict[str, tuple[int, bool]]:
    return {f"{x.window}_{x.measure}": (x.amount, x.from_override) for x in limits}


def test_every_window_has_a_key_for_every_measure() -> None:
    assert set(KEYS) == {f"{window}_{measure}" for window in Window for measure in Measure}
    assert {"hourly_usd", "daily_usd", "weekly_tokens", "monthly_calls", "total_usd"} <= set(KEYS)


def test_every_scope_is_described_once() -> None:
    assert list(SCOPES) == list(Scope)
    assert [kind.takes_id for kind in SCOPES.values()] == [False, *[True] * (len(Scope) - 1)]
    assert len({kind.config_key for kind in SCOPES.values()}) == len(Scope)


@pytest.mark.case("T29")
def test_an_override_that_names_only_the_day_keeps_the_month_of_the_default() -> None:
    found = budget(
        Scope.CRON_JOB,
        {"daily_usd": 1 * USD, "monthly_usd": 20 * USD},
        nightly={"daily_usd": 3 * USD},
    ).limits_for(Scope.CRON_JOB, "nightly")
    assert shown(found) == {"daily_usd": (3 * USD, True), "monthly_usd": (20 * USD, False)}


@pytest.mark.case("A26", "T21")
@pytest.mark.parametrize(
    ("amount", "expected"),
    [({"daily_usd": 0}, {"daily_usd": (0, False)}), ({"daily_usd": None}, {}), ({}, {})],
)
def test_zero_is_a_limit_and_null_is_none(
    amount: dict[str, int | None], expected: dict[str, tuple[int, bool]]
) -> None:
    found = budget(Scope.GLOBAL, amount)
    assert shown(found.limits_for(Scope.GLOBAL, "")) == expected
    assert found.has_limits == bool(expected)


def test_null_in_an_override_lifts_the_default() -> None:
    found = budget(Scope.SENDER, {"daily_usd": USD}, vip={"daily_usd": None})
    assert found.limits_for(Scope.SENDER, "vip") == ()
    assert shown(found.limits_for(Scope.SENDER, "other")) == {"daily_usd": (USD, False)}


def test_a_limit_only_in_an_override_holds_for_that_id_alone() -> None:
    found = budget(Scope.PROFILE, {}, research={"monthly_usd": 40 * USD})
    assert found.has_limits
    assert shown(found.limits_for(Scope.PROFILE, "research")) == {"monthly_usd": (40 * USD, True)}
    assert found.limits_for(Scope.PROFILE, "work") == ()


@pytest.mark.parametrize("scope", [s for s in Scope if s is not Scope.GLOBAL])
def test_nobodys_money_matches_no_limit_not_even_the_default(scope: Scope) -> None:
    assert budget(scope, {"daily_usd": 0}).limits_for(scope, "") == ()


def test_the_limits_come_in_the_order_of_the_windows() -> None:
    found = budget(
        Scope.GLOBAL, {"total_calls": 9, "daily_usd": 1, "hourly_tokens": 2, "daily_calls": 3}
    )
    assert list(shown(found.limits_for(Scope.GLOBAL, ""))) == [
        "hourly_tokens",
        "daily_usd",
        "daily_calls",
        "total_calls",
    ]


def test_no_configuration_is_no_limit() -> None:
    assert not Budget().has_limits
    assert Budget().limits_for(Scope.GLOBAL, "") == ()


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (Problem("b.yaml", 3, "budgets", "is odd"), "b.yaml:3: budgets: is odd"),
        (Problem("b.yaml", None, "", "cannot be read"), "b.yaml: cannot be read"),
    ],
)
def test_a_problem_says_where_it_is(problem: Problem, text: str) -> None:
    assert str(problem) == text

"""The sections `tiers` and `roles` of budget.yaml."""

from __future__ import annotations

import pytest

from budget_plugin.policy.limits import Problem
from budget_plugin.policy.tiers import Downgrade, OnBreach, Role, Tier, TierPolicy
from budget_plugin.store.files.config import parse_budget

WHOLE = """\
tiers:
  models:
    cheap: ["*haiku*", "*mini*"]
    dear: "*opus*"
  on_breach: warn
  on_soft: {provider: anthropic, model: claude-opus-4-1, to: claude-haiku-4-5}
roles:
  main: {may_dispatch: [leaf, judge]}
  leaf: {highest: cheap, may_dispatch: []}
  judge: {judges_only: true, lowest: dear}
"""


def policy_of(text: str) -> TierPolicy:
    parsed = parse_budget(text.encode(), "budget.yaml")
    assert parsed.value is not None, parsed.problems
    assert parsed.problems == ()
    return parsed.value.tiers


def test_every_key_is_understood() -> None:
    policy = policy_of(WHOLE)
    assert policy.tiers == (Tier("cheap", ("*haiku*", "*mini*")), Tier("dear", ("*opus*",)))
    assert policy.on_breach is OnBreach.WARN
    assert policy.downgrades == (Downgrade("anthropic", "claude-opus-4-1", "claude-haiku-4-5"),)
    assert dict(policy.roles) == {
        "main": Role("main", may_dispatch=frozenset({"leaf", "judge"})),
        "leaf": Role("leaf", highest="cheap", may_dispatch=frozenset()),
        "judge": Role("judge", lowest="dear", judges_only=True),
    }
    assert policy.role_names() == {"main", "leaf", "judge"}


@pytest.mark.parametrize("text", ["", "tiers:", "roles:", "tiers: {}\nroles: {}"])
def test_nothing_is_declared_until_it_is_written(text: str) -> None:
    assert not policy_of(text).declares_anything()


@pytest.mark.parametrize(
    ("text", "key", "said"),
    [
        ("tiers: 5", "tiers", "expected a mapping"),
        ("tiers:\n  models: [a]", "tiers.models", "expected tiers"),
        ("tiers:\n  models: {cheap: }", "tiers.models.cheap", "patterns of models"),
        ("tiers:\n  models: {cheap: [{a: b}]}", "tiers.models.cheap", "patterns of models"),
        ("tiers:\n  on_breach: explode", "tiers.on_breach", "record, warn or refuse"),
        ("tiers:\n  on_soft: downgrade", "tiers.on_soft", "{provider: …}"),
        ("tiers:\n  on_soft: [{provider: p, to: b}]", "tiers.on_soft", "model is missing"),
        (
            "tiers:\n  on_soft: {provider: p, model: a, to: [b]}",
            "tiers.on_soft.to",
            "expected a single value",
        ),
        ("roles: [a]", "roles", "expected roles"),
        ("roles:\n  judge: true", "roles.judge", "expected a mapping"),
        ("roles:\n  judge: {judges_only: perhaps}", "roles.judge.judges_only", "true or false"),
        ("roles:\n  judge: {may_dispatch: [[a]]}", "roles.judge.may_dispatch", "expected roles"),
        ("roles:\n  judge: {highest: dear}", "roles.judge.highest", "tiers.models is empty"),
        (
            "tiers: {models: {cheap: a, dear: b}}\nroles:\n  judge: {lowest: deer}",
            "roles.judge.lowest",
            "did you mean dear",
        ),
    ],
)
def test_a_value_that_is_not_understood_is_named_with_its_line(
    text: str, key: str, said: str
) -> None:
    (found,) = parse_budget(text.encode(), "budget.yaml").problems
    assert (found.key, found.fatal, found.line) == (key, True, text.count("\n") + 1)
    assert said in found.message


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("tiers: {model: {cheap: a}}", "models"),
        ("roles: {judge: {judge_only: true}}", "judges_only"),
    ],
)
def test_an_unknown_key_is_a_warning_with_a_hint(text: str, near: str) -> None:
    found: Problem
    (found,) = parse_budget(text.encode(), "budget.yaml").problems
    assert not found.fatal
    assert f"did you mean {near}" in found.message

"""The section `claims` of budget.yaml: which tools have effects, and what names them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from budget_plugin.policy.claims import STARTERS, EffectTool, Per, effect_of
from budget_plugin.policy.limits import Problem
from budget_plugin.store.files.config import parse_budget

WHOLE = """\
claims:
  starters: true
  per: ticket
  tools:
    email_supplier: {identity: [supplier_id, topic], per: day}
    terminal: [command]
    pager: number
    calendar: {identity: [title], when: {action: [create, ""]}}
"""


def claims_of(text: str) -> tuple[Mapping[str, tuple[EffectTool, ...]], tuple[Problem, ...]]:
    parsed = parse_budget(text.encode(), "budget.yaml")
    assert parsed.value is not None, parsed.problems
    return parsed.value.claims, parsed.problems


def problem(text: str) -> Problem:
    (found,) = parse_budget(text.encode(), "budget.yaml").problems
    return found


def test_every_key_is_understood() -> None:
    claims, problems = claims_of(WHOLE)
    assert problems == ()
    assert {tool.tool for tool in STARTERS} < set(claims)
    assert claims["email_supplier"] == (
        EffectTool("email_supplier", ("supplier_id", "topic"), per=Per.DAY),
    )
    assert claims["terminal"] == (EffectTool("terminal", ("command",), per=Per.TICKET),)
    assert claims["pager"][0].identity == ("number",)
    assert len(claims["cronjob"]) == 2
    assert {tool.per for tool in claims["cronjob"]} == {Per.TICKET}
    created = effect_of(claims["calendar"], "calendar", {"action": "create", "title": "a"})
    assert created is not None
    assert effect_of(claims["calendar"], "calendar", {"title": "a"}) is not None
    assert effect_of(claims["calendar"], "calendar", {"action": "list", "title": "a"}) is None


@pytest.mark.parametrize(
    "text", ["", "claims:", "claims: {}", "claims: {starters: false}", "claims: {tools: {}}"]
)
def test_nothing_is_claimed_until_a_tool_is_named(text: str) -> None:
    assert claims_of(text) == ({}, ())


def test_a_tool_that_is_named_replaces_its_starters() -> None:
    claims, _ = claims_of("claims: {starters: true, tools: {cronjob: [job_id]}}")
    assert claims["cronjob"] == (EffectTool("cronjob", ("job_id",)),)


@pytest.mark.parametrize(
    ("text", "key", "said"),
    [
        ("claims: 5", "claims", "expected a mapping"),
        ("claims:\n  starters: maybe", "claims.starters", "true or false"),
        ("claims:\n  per: week", "claims.per", "run_tree, ticket or day"),
        ("claims:\n  tools: [terminal]", "claims.tools", "expected tools"),
        ("claims:\n  tools: {mail: }", "claims.tools.mail", "the arguments that name"),
        ("claims:\n  tools: {mail: []}", "claims.tools.mail", "the arguments that name"),
        ("claims:\n  tools: {mail: [[a]]}", "claims.tools.mail", "the arguments that name"),
        ("claims:\n  tools: {mail: {per: day}}", "claims.tools.mail", "the arguments that name"),
        ("claims:\n  tools: {mail: {identity: [a], when: b}}", "claims.tools.mail.when", "values"),
    ],
)
def test_a_value_that_is_not_understood_is_named_with_its_line(
    text: str, key: str, said: str
) -> None:
    found = problem(text)
    assert (found.key, found.fatal, found.line) == (key, True, text.count("\n") + 1)
    assert said in found.message


def test_an_unknown_key_is_a_warning_with_a_hint() -> None:
    found = problem("claims: {starter: true}")
    assert not found.fatal
    assert "did you mean starters" in found.message

"""The section `runs` of budget.yaml: ceilings of single runs, read with line and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from budget_plugin.policy.limits import Problem
from budget_plugin.policy.runs.run_limits import OnExhausted, Report, RunPolicy, TicketSource
from budget_plugin.store.files.config import BudgetFile, parse_budget

WHOLE = """\
runs:
  default: {tool_calls: 40, wall_clock_s: 900, tokens: 400000, dispatches: 8, usd: 4.00,
            context_pct: 0.70}
  cron: {wall_clock_s: 1800}
  child: {tool_calls: 20, usd: null}
  platforms:
    telegram: {tool_calls: 10}
  commands:
    support-ticket: {dispatches: 4, batch: 25}
  soft_pct: 0.60
  token_stop_pct: 0.95
  on_exhausted: report
  retries_per_operation: 5
  report: partial
"""


def runs_of(text: str) -> tuple[RunPolicy, tuple[Problem, ...]]:
    parsed = parse_budget(text.encode(), "budget.yaml")
    assert parsed.value is not None, parsed.problems
    return parsed.value.runs, parsed.problems


def problem(text: str) -> Problem:
    """The one problem of a text."""
    (found,) = parse_budget(text.encode(), "budget.yaml").problems
    return found


def test_every_key_is_understood() -> None:
    policy, problems = runs_of(WHOLE)
    assert problems == ()
    chat = policy.terms("chat").limits
    assert (chat.tool_calls, chat.wall_clock_s, chat.tokens) == (40, 900, 400_000)
    assert (chat.dispatches, chat.cost_nanos, chat.context_pct) == (8, 4_000_000_000, 0.70)
    assert chat.retries_per_operation == 5
    assert policy.terms("cron").limits.wall_clock_s == 1800
    child = policy.terms("child").limits
    assert (child.tool_calls, child.cost_nanos) == (20, None)
    assert policy.terms("chat", "telegram").limits.tool_calls == 10
    support = policy.terms("chat", "telegram", "support-ticket").limits
    assert (support.dispatches, support.tool_calls, support.batch) == (4, 10, 25)
    rules = policy.rules
    assert (rules.soft_pct, rules.token_stop_pct) == (0.60, 0.95)
    assert (rules.report, rules.on_exhausted) == (Report.PARTIAL, OnExhausted.REPORT)


def test_a_run_is_sent_on_only_under_a_ceiling_on_tokens() -> None:
    policy, problems = runs_of("runs: {default: {tokens: 9000}, continuation: true}")
    assert policy.rules.continuation
    assert problems == ()
    assert not runs_of("runs: {default: {tokens: 9000}}")[0].rules.continuation
    found = problem("runs: {default: {tool_calls: 4}, continuation: true}")
    assert (found.key, found.fatal) == ("runs.continuation", False)
    assert "ceiling on tokens" in found.message


@pytest.mark.parametrize("text", ["", "runs:", "runs: {}", "runs: {default: {}}", "budgets: {}"])
def test_nothing_is_limited_until_a_number_is_set(text: str) -> None:
    policy, problems = runs_of(text)
    assert not policy.has_limits
    assert problems == ()


@pytest.mark.parametrize(
    ("text", "key", "said"),
    [
        ("runs: 5", "runs", "expected ceilings of runs"),
        ("runs:\n  default: 40", "runs.default", "expected ceilings"),
        ("runs:\n  default: {tool_calls: -1}", "runs.default.tool_calls", "negative"),
        ("runs:\n  default: {tool_calls: 4.5}", "runs.default.tool_calls", "whole number"),
        ("runs:\n  default: {tokens: 1e6}", "runs.default.tokens", "whole number"),
        ("runs:\n  cron: {usd: $4}", "runs.cron.usd", ""),
        ("runs:\n  cron: {usd: .nan}", "runs.cron.usd", ""),
        ("runs:\n  cron: {wall_clock_s: 15m}", "runs.cron.wall_clock_s", "seconds such as 900"),
        ("runs:\n  cron: {wall_clock_s: inf}", "runs.cron.wall_clock_s", "seconds"),
        ("runs:\n  cron: {context_pct: 70}", "runs.cron.context_pct", "0.7"),
        ("runs:\n  cron: {dispatches: [8]}", "runs.cron.dispatches", "one number"),
        ("runs:\n  soft_pct: 70", "runs.soft_pct", "0.7"),
        ("runs:\n  report: sometimes", "runs.report", "always"),
        ("runs:\n  on_exhausted: explode", "runs.on_exhausted", "report"),
        ("runs:\n  commands: [a]", "runs.commands", "expected names"),
        ("runs:\n  ticket: SUP-1", "runs.ticket", "expected {env: NAME}"),
        ("runs:\n  ticket: {}", "runs.ticket", "expected {env: NAME}"),
        ("runs:\n  ticket: {env: A-B}", "runs.ticket.env", "environment variable"),
        ("runs:\n  ticket: {pattern: 'SUP-['}", "runs.ticket.pattern", "not a pattern"),
        ("runs:\n  ticket: {pattern: '.*'}", "runs.ticket.pattern", "empty text"),
    ],
)
def test_a_value_that_is_not_understood_is_named_with_its_line(
    text: str, key: str, said: str
) -> None:
    found = problem(text)
    assert (found.key, found.fatal) == (key, True)
    assert found.line == text.count("\n") + 1
    assert said in found.message


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("runs:\n  default: {tool_call: 40}", "tool_calls"),
        ("runs:\n  kron: {tool_calls: 40}", "cron"),
        ("runs:\n  comands: {a: {tool_calls: 4}}", "commands"),
        ("runs:\n  ticket: {patern: 'a+'}", "pattern"),
    ],
)
def test_an_unknown_key_is_a_warning_with_a_hint(text: str, near: str) -> None:
    found = problem(text)
    assert not found.fatal
    assert f"did you mean {near}" in found.message


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("{env: HERMES_KANBAN_TASK}", TicketSource("HERMES_KANBAN_TASK")),
        ("{pattern: 'SUP-[0-9]+'}", TicketSource(pattern="SUP-[0-9]+")),
        ("{env: A, pattern: 'b+'}", TicketSource("A", "b+")),
        ("null", TicketSource()),
    ],
)
def test_where_the_ticket_of_a_run_is_read(text: str, source: TicketSource) -> None:
    policy, problems = runs_of(f"runs: {{ticket: {text}}}")
    assert (policy.ticket, problems) == (source, ())


def test_what_a_run_does_that_ran_out() -> None:
    policy, problems = runs_of(
        "runs: {on_exhausted: ask, cron: {on_exhausted: report},"
        " commands: {migrate-db: {on_exhausted: abort}}}"
    )
    kinds = [("chat", ""), ("cron", ""), ("chat", "migrate-db")]
    ways = [policy.terms(kind, "", command).rules.on_exhausted for kind, command in kinds]
    assert (ways, problems) == ([OnExhausted.ASK, OnExhausted.REPORT, OnExhausted.ABORT], ())


def test_null_lifts_the_cap_on_retries() -> None:
    policy, _ = runs_of("runs: {retries_per_operation: null}")
    assert policy.terms("chat").limits.retries_per_operation is None


def test_a_misspelt_ceiling_does_not_take_one_away_that_was_in_force(tmp_path: Path) -> None:
    path = tmp_path / "budget.yaml"
    path.write_text("runs: {default: {tool_calls: 40}}")
    file = BudgetFile(path)
    assert file.current().runs.terms("chat").limits.tool_calls == 40
    path.write_text("runs: {default: {tool_cals: 40}}   # longer")
    assert file.current().runs.terms("chat").limits.tool_calls == 40

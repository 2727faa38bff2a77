"""Observed limits: nothing is blocked, everything that would have been is written down."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from budget_plugin.commands import chat, table
from budget_plugin.commands.asking import OK, PROBLEM, USAGE, Answer, Caller
from budget_plugin.engine.decisions import WOULD_HAVE
from budget_plugin.engine.engine import Engine
from budget_plugin.policy.admission import Kind
from budget_plugin.policy.limit_changes import flat, with_limits
from budget_plugin.policy.limits import Budget, Key, Measure, Scope
from budget_plugin.policy.runs.run_limits import RunLimits
from budget_plugin.policy.windows import Window
from budget_plugin.store.files.config import parse_budget
from budget_plugin.store.journal import Decision
from budget_plugin.testing import FakeClock, make_engine, make_run
from tests.billing import NOON, ask, bill, counts, opened, run_in, usd

OWNER = Caller("owner", "command line")
DAILY = Key(Window.DAILY, Measure.USD)
MONTHLY = Key(Window.MONTHLY, Measure.USD)
A_DOLLAR = counts(fresh=333_334)  # of Sonnet, at $3.00 a million tokens


def parsed(yaml: str) -> Budget:
    budget = parse_budget(yaml.encode(), "budget.yaml").value
    assert budget is not None
    return budget


def amounts(budget: Budget, scope: Scope, scope_id: str = "") -> tuple[list[int], list[int]]:
    """What is enforced and what is observed, in dollars."""
    enforced, observed = budget.limits_for(scope, scope_id), budget.observed_for(scope, scope_id)
    return [x.amount // 10**9 for x in enforced], [x.amount // 10**9 for x in observed]


def say(engine: Engine, text: str, caller: Caller = OWNER) -> Answer:
    name, args, _ = chat.parse(text, caller)
    return table.answer(lambda: engine, name, args)


def would_have(engine: Engine) -> list[Decision]:
    assert engine.recorder.flush(60)
    return [d for d in reversed(engine.journal.decisions(100)) if d.action == WOULD_HAVE]


# ---------------------------------------------------------------------- the file


@pytest.mark.parametrize(
    ("yaml", "scope_id", "enforced", "observed"),
    [
        ("default: {daily_usd: 5, mode: observe}", "a", [], [5]),
        ("default: {daily_usd: 5, mode: enforce}", "a", [5], []),
        ("default: {daily_usd: 5, mode: }", "a", [5], []),
        # an override inherits what it does not name, the mode too
        ("default: {daily_usd: 5, mode: observe}, overrides: {a: {daily_usd: 3}}", "a", [], [3]),
        (
            "default: {daily_usd: 5, mode: observe}, overrides: {a: {daily_usd: 3, mode: enforce}}",
            *("a", [3], []),
        ),
        # each limit has the mode of the part that names it, and takes the place of the default's
        (
            "default: {daily_usd: 5, monthly_usd: 9},"
            " overrides: {a: {daily_usd: 3, mode: observe}}",
            *("a", [9], [3]),
        ),
        (
            "default: {daily_usd: 5, mode: observe}, overrides: {a: {daily_usd: null}}",
            *("a", [], []),
        ),
    ],
)
def test_each_part_of_the_file_has_a_mode(
    yaml: str, scope_id: str, enforced: list[int], observed: list[int]
) -> None:
    budget = parsed(f"budgets: {{per_sender: {{{yaml}}}}}")
    assert amounts(budget, Scope.SENDER, scope_id) == (enforced, observed)
    assert (budget.has_limits, budget.observes) == _switched_on(budget)


def _switched_on(budget: Budget) -> tuple[bool, bool]:
    numbers = [(a, o) for x in budget.scopes.values() for _, _, a, o in x.amounts()]
    return any(a and not o for a, o in numbers), any(a and o for a, o in numbers)


@pytest.mark.parametrize(
    ("yaml", "key"),
    [
        ("budgets: {global: {daily_usd: 5, mode: look}}", "budgets.global.mode"),
        ("budgets: {global: {daily_usd: 5, mode: [observe]}}", "budgets.global.mode"),
        ("runs: {default: {tokens: 5, mode: watch}}", "runs.default.mode"),
    ],
)
def test_a_mode_that_is_not_understood_keeps_the_last_good_file(yaml: str, key: str) -> None:
    looked = parse_budget(yaml.encode(), "budget.yaml")
    assert looked.value is None
    assert [problem.key for problem in looked.problems] == [key]


def test_a_misspelt_mode_is_named() -> None:
    (problem,) = parse_budget(b"budgets: {global: {daily_usd: 5, mod: observe}}", "f").problems
    assert "did you mean mode" in problem.message


def test_ceilings_of_runs_have_a_mode() -> None:
    runs = parsed(
        "runs: {default: {tokens: 9, tool_calls: 4, mode: observe}, cron: {tokens: 7},"
        " child: {tool_calls: 2, mode: enforce}}"
    ).runs
    assert (runs.has_limits, runs.observes) == (True, True)
    assert runs.terms("chat").limits == RunLimits()
    assert runs.terms("chat").observed == RunLimits(
        tool_calls=4, tokens=9, retries_per_operation=None
    )
    cron = runs.terms("cron").observed
    assert cron is not None
    assert (cron.tokens, cron.tool_calls) == (7, 4)
    child = runs.terms("child")
    assert child.limits.tool_calls == 2
    assert child.observed is not None
    assert (child.observed.tokens, child.observed.tool_calls) == (9, None)


def test_an_observed_limit_is_no_limit_to_the_guard() -> None:
    budget = parsed("budgets: {global: {daily_usd: 5, monthly_usd: 9, mode: observe}}")
    places = {(Scope.GLOBAL, "", DAILY): None, (Scope.GLOBAL, "", MONTHLY): None}
    assert flat(budget) == places
    assert with_limits(budget, places) == budget
    # what is held in force is enforced; beside it the file's other limit is observed still
    held = with_limits(budget, {**places, (Scope.GLOBAL, "", DAILY): usd("2")})
    assert amounts(held, Scope.GLOBAL) == ([2], [9])


def test_a_held_override_goes_on_to_inherit() -> None:
    """Were it observed already, it would lift the default that is in force."""
    file = parsed(
        "budgets: {per_sender: {default: {daily_usd: 1},"
        " overrides: {a: {daily_usd: 3, mode: observe}}}}"
    )
    in_force = {(Scope.SENDER, "", DAILY): usd("1")}
    assert amounts(with_limits(file, in_force), Scope.SENDER, "a") == ([1], [])


# ---------------------------------------------------------------------- the gates

OBSERVED = """
budgets:
  global:     {daily_usd: 1.50, mode: observe}
  per_sender: {default: {daily_calls: 1, mode: observe}}
"""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with opened(tmp_path, OBSERVED) as engine:
        yield engine


def test_nothing_is_blocked_and_everything_noted_once(engine: Engine) -> None:
    """$1.00 a call: the second reaches $1.50 and stops the run, as would each one after it."""
    breaches: list[object] = []
    engine.on_hard = lambda run, verdict: breaches.append(verdict)
    live, other = run_in(engine), run_in(engine, sender_id="telegram:1")
    for run in (live, live, live, other, other):
        bill(engine, run, A_DOLLAR)
        assert engine.recorder.flush(60)  # a total that is new is built behind its first call
    noted = [(d.run_id, d.scope, d.gate, d.level, d.used) for d in would_have(engine)]
    assert noted == [
        (live.run.run_id, "global", "ledger", "observed", 2_000_004_000),
        (other.run.run_id, "global", "ledger", "observed", 4_000_008_000),
        (other.run.run_id, "sender", "ledger", "observed", 1),
    ]
    permit, _ = ask(engine, live)
    assert (permit.kind, permit.output_cap, permit.standings) == (Kind.NORMAL, None, ())
    assert engine.tool_verdict(live) is None
    assert engine.new_alerts(live) == []
    assert (breaches, live.stopped) == ([], False)


def test_a_limit_beside_it_holds_as_ever(tmp_path: Path) -> None:
    yaml = OBSERVED + "  per_model: {default: {daily_usd: 2.50}}\n"
    with opened(tmp_path, yaml) as engine:
        live = run_in(engine)
        bill(engine, live, A_DOLLAR)
        bill(engine, live, A_DOLLAR)
        permit, _ = ask(engine, live, prompt_tokens=300_000)
        assert permit.refused
        assert permit.verdict is not None
        assert permit.verdict.limit.scope is Scope.MODEL


def test_the_status_shows_what_would_have_been(engine: Engine) -> None:
    assert "No budgets configured" not in say(engine, "status").text
    bill(engine, run_in(engine), A_DOLLAR)
    now = replace(make_run(sender_id="telegram:1"), started_ms=NOON)
    bill(engine, engine.open_run(now), A_DOLLAR)
    assert engine.recorder.flush(60)
    answer = say(engine, "status --check")
    assert answer.exit_code == OK
    told = answer.in_a_chat()
    assert "Observed: these block nothing" in told
    assert told.count("would have stopped 1 run") == 2
    assert isinstance(answer.data, dict)
    (everything, sender) = answer.data["observed_limits"]
    assert (everything["limit"], everything["would_block"]) == ("1.5", True)
    assert (sender["id"], sender["runs_that_would_have_stopped"]) == ("telegram:1", 1)
    in_chat = Caller("telegram:1", "chat", "/budget", may_change=False, sender_id="telegram:1")
    assert "Observed" not in say(engine, "status", in_chat).text


# ---------------------------------------------------------------------- ceilings of runs


def test_observed_ceilings_let_everything_pass(tmp_path: Path) -> None:
    yaml = "runs: {default: {tool_calls: 2, dispatches: 1, tokens: 500000, mode: observe}}\n"
    with opened(tmp_path, yaml) as engine:
        live = run_in(engine)
        assert [engine.guard.try_tool(live, "terminal", {}) for _ in range(4)] == [None] * 4
        assert engine.guard.try_tool(live, "delegate_task", {}, 3) is None
        bill(engine, live, A_DOLLAR)
        bill(engine, live, A_DOLLAR)
        assert engine.telling.note(live) is None
        permit, _ = ask(engine, live)
        assert permit.kind is Kind.NORMAL
        noted = [(d.gate, d.measure, d.level, d.used, d.amount) for d in would_have(engine)]
        of_the_tools = ("tool_calls", "observed", 2, 2)
        assert noted == [("tool", *of_the_tools), ("model", *of_the_tools)]
        assert "would have stopped 1 run in 30 days" in say(engine, "status").text
        engine.end_run(live, "completed")
        assert engine.recorder.flush(60)
        why = say(engine, "why").text
        assert "tool calls of the run: 2 of 2" in why
        assert "is reached" not in why  # nobody was told so


def test_children_draw_on_the_observed_account_of_their_root(tmp_path: Path) -> None:
    with opened(tmp_path, "runs: {default: {tokens: 500000, mode: observe}}\n") as engine:
        root = run_in(engine)
        bill(engine, root, A_DOLLAR)
        engine.delegated(root, "a-child", "")
        child = run_in(engine, session_id="a-child", kind="child")
        bill(engine, child, A_DOLLAR)  # 666,668 tokens in all
        ask(engine, child)
        (noted,) = would_have(engine)
        assert (noted.run_id, noted.measure, noted.used) == (child.run.run_id, "tokens", 666_668)


def test_an_enforced_ceiling_beside_observed_ones_holds(tmp_path: Path) -> None:
    yaml = "runs: {default: {tool_calls: 1, mode: observe}, cron: {tool_calls: 3, mode: enforce}}\n"
    with opened(tmp_path, yaml) as engine:
        live = run_in(engine, kind="cron")
        answers = [engine.guard.try_tool(live, "terminal", {}) for _ in range(4)]
        assert [answer is None for answer in answers] == [True] * 3 + [False]
        assert would_have(engine) == []  # cron's own number takes the place of the default's


# ---------------------------------------------------------------------- changing the mode


def test_set_keeps_the_mode_and_says_so(engine: Engine) -> None:
    answer = say(engine, "set global daily 3")
    assert "It is only observed" in answer.text
    assert amounts(engine.rules().budget, Scope.GLOBAL) == ([], [3])
    assert "mode: observe" in engine.budget_file.path.read_text()
    (change,) = engine.journal.changes(10)
    assert (change.state, change.before, change.after) == ("observed", usd("1.50"), usd("3"))
    assert "(observed)" in say(engine, "history").text


def test_an_observed_limit_of_ones_own_lifts_the_default_as_a_persons_word(
    tmp_path: Path,
) -> None:
    """The default of $1.50 is reached; were the change taken for an editor's, it would wait."""
    yaml = (
        "budgets:\n  per_sender:\n    default: {daily_usd: 1.50}\n"
        "    overrides: {a: {monthly_usd: 90, mode: observe}}\n"
    )
    with opened(tmp_path, yaml) as engine:
        now = replace(make_run(sender_id="a"), started_ms=NOON)
        live = engine.open_run(now)
        bill(engine, live, A_DOLLAR)
        assert ask(engine, live, prompt_tokens=300_000)[0].refused
        assert engine.recorder.flush(60)
        say(engine, "set sender a daily 3")
        assert engine.held_limits() == []
        assert amounts(engine.rules().budget, Scope.SENDER, "a") == ([], [3, 90])


def test_enforce_and_observe_are_in_the_history(engine: Engine) -> None:
    assert "budgets.global" in say(engine, "enforce global").text
    assert amounts(engine.rules().budget, Scope.GLOBAL) == ([1], [])
    assert "budgets.global" in say(engine, "observe global").text
    assert amounts(engine.rules().budget, Scope.GLOBAL) == ([], [1])
    changes = [(c.who, c.via, c.before, c.after) for c in engine.journal.changes(10)]
    limit = usd("1.50")
    assert changes == [
        ("owner", "command line", limit, None),
        ("owner", "command line", None, limit),
    ]
    assert say(engine, "enforce").data == {
        "changed": ["budgets.global", "budgets.per_sender.default"],
        "mode": "enforce",
    }
    assert not engine.rules().budget.observes


def test_an_enforced_limit_stops_at_once(engine: Engine) -> None:
    live = run_in(engine)
    bill(engine, live, A_DOLLAR)
    bill(engine, live, A_DOLLAR)
    say(engine, "enforce global")
    permit, _ = ask(engine, live)
    assert permit.refused


def test_what_is_reached_already_is_said(engine: Engine) -> None:
    """$2 of $1.50: whoever enforces that should know that nothing goes on."""
    now = replace(make_run(sender_id="telegram:1"), started_ms=NOON)
    live = engine.open_run(now)
    bill(engine, live, A_DOLLAR)
    assert "reached" not in say(engine, "enforce runs").text
    said = say(engine, "enforce global").text
    assert said == "Enforced from now on:\n  budgets.global"
    say(engine, "observe global")
    bill(engine, live, A_DOLLAR)
    said = say(engine, "enforce").text
    assert "The daily limit of $1.50 for everything together is reached: $2.00 of $1.50" in said
    assert "To go on before that: hermes budget set global daily 4.00" in said
    assert 'for sender "telegram:1" is reached' in said


def test_the_ceilings_of_runs_are_enforced_by_name(tmp_path: Path) -> None:
    yaml = "runs:\n  default: {tokens: 9, mode: observe}  # mine\n  cron: {tokens: 7}\n"
    with opened(tmp_path, yaml) as engine:
        say(engine, "enforce runs cron")
        assert engine.recorder.flush(60)
        (change,) = engine.journal.ceiling_changes(10)
        told = (change.layer, change.key, change.before, change.after, change.state)
        assert told == ("cron", "tokens", None, 7, "done")
        runs = engine.rules().budget.runs
        assert (runs.terms("cron").limits.tokens, runs.terms("chat").limits.tokens) == (7, None)
        say(engine, "observe runs cron")
        assert engine.recorder.flush(60)
        assert engine.journal.ceiling_changes(1)[0].after is None
        assert "runs.cron.tokens from 7 to no limit" in say(engine, "history").text
        say(engine, "enforce runs")
        assert engine.rules().budget.runs.terms("chat").limits.tokens == 9
        assert "# mine" in engine.budget_file.path.read_text()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("observe", USAGE),
        ("enforce globl", USAGE),
        ("enforce global x", USAGE),
        ("observe runs", OK),
    ],
)
def test_what_is_named_must_be_there(engine: Engine, text: str, code: int) -> None:
    before = engine.budget_file.path.read_text()
    answer = say(engine, text)
    assert (answer.exit_code, engine.budget_file.path.read_text()) == (code, before)


def test_a_sender_in_a_chat_changes_no_mode(engine: Engine) -> None:
    nobody = Caller("telegram:1", "chat", "/budget", may_change=False, sender_id="telegram:1")
    assert say(engine, "enforce", nobody).exit_code == PROBLEM
    assert engine.rules().budget.observes


# ---------------------------------------------------------------------- by an editor


def test_turning_a_reached_limit_to_observe_waits_for_a_person(tmp_path: Path) -> None:
    with opened(tmp_path, "budgets: {global: {daily_usd: 1.50}}\n") as engine:
        live = run_in(engine)
        bill(engine, live, A_DOLLAR)
        assert ask(engine, live, prompt_tokens=300_000)[0].refused  # nothing more fits
        assert engine.recorder.flush(60)
        file = engine.budget_file.path
        file.write_text("budgets: {global: {daily_usd: 1.50, mode: observe}}\n# longer\n")
        assert ask(engine, live)[0].refused
        assert [(h.in_force, h.in_file) for h in engine.held_limits()] == [(usd("1.50"), None)]
        say(engine, "confirm")
        assert not ask(engine, live)[0].refused


def test_enforcing_by_hand_acts_at_once_and_is_noted(tmp_path: Path) -> None:
    with opened(tmp_path, OBSERVED) as engine:
        engine.rules()
        file = engine.budget_file.path
        file.write_text(file.read_text().replace("1.50, mode: observe", "1.50, mode: enforce"))
        assert amounts(engine.rules().budget, Scope.GLOBAL) == ([1], [])
        (change,) = engine.journal.changes(10)
        assert (change.via, change.before, change.after) == ("editor", None, usd("1.50"))


def test_only_observed_limits_leave_the_tool_gate_open(tmp_path: Path) -> None:
    engine = make_engine(tmp_path, OBSERVED, FakeClock(NOON))
    assert not engine.rules().has_limits
    assert engine.tool_verdict(run_in(engine)) is None
    engine.close()

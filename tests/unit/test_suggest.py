"""`suggest`: the number, the sentence that explains it, and the path to a limit in force."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from budget_plugin.commands import chat, table
from budget_plugin.commands.asking import OK, PROBLEM, USAGE, Answer, Caller
from budget_plugin.engine.engine import Engine
from budget_plugin.policy.limits import Scope
from budget_plugin.policy.money import parse_usd
from budget_plugin.policy.runs.endings import Outcome, ending_of
from budget_plugin.policy.runs.receipts import receipt_of
from budget_plugin.policy.runs.run_limits import Meter, RunLimits
from budget_plugin.policy.runs.run_state import RunUsage
from budget_plugin.policy.runs.run_steps import begun
from budget_plugin.policy.suggest import (
    Suggestion,
    TooLittle,
    as_written,
    suggest_ceilings,
    suggest_spending,
)
from budget_plugin.testing import FakeClock, at, make_engine, make_run, spend
from tests import six_weeks

OWNER = Caller("owner", "command line")
DAY_S = 86_400


def used(**meters: list[float]) -> dict[Meter, list[float]]:
    """What runs used; of the meters that are not named nothing."""
    runs = max(len(numbers) for numbers in meters.values())
    return {meter: meters.get(str(meter), [0] * runs) for meter in Meter}


# ---------------------------------------------------------------------- the numbers


def test_a_ceiling_is_half_as_much_again_as_99_of_100_used() -> None:
    """The resolved runs of the six weeks: 4 hops at the median, 9 at the 99th percentile → 14."""
    hops: list[float] = [hops for hops, resolved in six_weeks.a_day() if resolved]
    (found,) = suggest_ceilings("chat", used(dispatches=hops))
    assert isinstance(found, Suggestion)
    assert (found.p50, found.p99, found.number) == (4, 9, 14)
    assert (found.part, found.key, found.count) == (("runs", "chat"), "dispatches", len(hops))


@pytest.mark.parametrize(
    ("meter", "most", "written"),
    [
        ("dispatches", 1, "2"),  # half of one is no head-room: one more at least
        ("tool_calls", 26, "39"),
        ("tokens", 226_000, "340000"),  # 339,000, two digits that say something
        ("wall_clock_s", 101.4, "180"),  # 152.1 s, to half a minute
        ("usd", parse_usd("2.61"), "4"),  # $3.915
        ("usd", parse_usd("0.0041"), "0.01"),  # to the cent
        ("usd", parse_usd("0.11"), "0.17"),  # $0.165
    ],
)
def test_numbers_are_rounded_up_as_a_person_writes_them(
    meter: str, most: float, written: str
) -> None:
    (found,) = suggest_ceilings("cron", used(**{meter: [most] * 20}))
    assert isinstance(found, Suggestion)
    assert as_written(found) == written


def test_a_rare_child_is_not_forbidden() -> None:
    """199 of 200 runs start none; a ceiling of 0 would allow none to the last."""
    (found,) = suggest_ceilings("chat", used(dispatches=[0] * 199 + [5]))
    assert isinstance(found, Suggestion)
    assert (found.p99, found.number) == (0, 1)


def test_too_little_is_said_as_such() -> None:
    assert suggest_ceilings("cron", used(tokens=[5] * 19)) == [
        TooLittle(("runs", "cron"), "runs", 19)
    ]
    (few,) = suggest_spending(("budgets", "global"), [1] * 6, monthly=True)
    assert isinstance(few, TooLittle)
    assert few.needed == 7


def test_a_month_is_31_mean_days_with_head_room() -> None:
    """Days of $1 … $7: the largest and half of it is $10.50, rounded up; 31 × $4 × 1.5 is $186."""
    days = [parse_usd(str(n)) for n in range(1, 8)]
    daily, monthly = suggest_spending(("budgets", "global"), days, monthly=True)
    assert isinstance(daily, Suggestion)
    assert isinstance(monthly, Suggestion)
    assert (as_written(daily), as_written(monthly)) == ("11", "190")


def test_what_costs_nothing_gets_no_limit() -> None:
    assert suggest_spending(("budgets", "global"), [0] * 9, monthly=True) == []


# ---------------------------------------------------------------------- the command


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(at("2026-11-01 12:00"))


@pytest.fixture
def engine(tmp_path: Path, clock: FakeClock) -> Iterator[Engine]:
    engine = make_engine(tmp_path, "", clock)
    yield engine
    engine.close()


def a_run(
    engine: Engine, clock: FakeClock, *, usd: str = "0.10", outcome: Outcome = Outcome.ANSWERED,
    dispatches: int = 4, kind: str = "chat", **scopes: str,
) -> None:  # fmt: skip
    """A run with one call and its receipt."""
    run = replace(make_run(kind=kind, **scopes), started_ms=clock.now_ms())
    spend(engine, usd, run=run)
    clock.advance(20)
    account = RunUsage(dispatches, 10, 1_000, parse_usd(usd), calls=1)
    state = begun(RunLimits(), clock.monotonic() - 20, used=account)
    receipt = receipt_of(run.run_id, state, ending_of(outcome), clock.monotonic())
    engine.run_records.add(receipt, clock.now_ms(), 5.0)


def ten_days(engine: Engine, clock: FakeClock) -> None:
    """A day: three chats of $0.10, a job of $0.30, and a run that failed at $9."""
    for _ in range(10):
        for _ in range(3):
            a_run(engine, clock)
        a_run(engine, clock, usd="0.30", kind="cron", cron_job_id="nightly")
        a_run(engine, clock, usd="9.00", outcome=Outcome.FAILED, dispatches=90)
        clock.advance(DAY_S)


def say(engine: Engine, text: str, caller: Caller = OWNER) -> Answer:
    name, args, _ = chat.parse(text, caller)
    return table.answer(lambda: engine, name, args)


def test_each_number_has_its_sentence(engine: Engine, clock: FakeClock) -> None:
    """Resolved days cost $0.60: the limit is $0.90. What failed counts for nothing."""
    ten_days(engine, clock)
    answer = say(engine, "suggest")
    assert isinstance(answer.data, dict)
    told = {(".".join(x["part"]), x["key"]): x["value"] for x in answer.data["suggestions"]}
    assert told == {
        ("budgets.global", "daily_usd"): "0.90",
        ("budgets.global", "monthly_usd"): "28",  # 31 × $0.60 × 1.5 = $27.90
        ("budgets.per_cron_job.overrides.nightly", "daily_usd"): "0.45",
        ("runs.chat", "dispatches"): "6",
        ("runs.chat", "tool_calls"): "15",
        ("runs.chat", "tokens"): "1500",
        ("runs.chat", "wall_clock_s"): "30",
        ("runs.chat", "usd"): "0.15",
    }
    text = " ".join(answer.in_a_chat().split())
    assert (
        "half of 30 runs that resolved used 4 children or less, none more than 4 children" in text
    )
    assert "One run of the kind cron: too little to go by, 10 of the 20 resolved runs" in text
    assert "suggest --apply" in text
    assert not engine.budget_file.path.exists()


def test_a_day_that_is_not_over_does_not_count(engine: Engine, clock: FakeClock) -> None:
    ten_days(engine, clock)
    a_run(engine, clock, usd="50.00")
    answer = say(engine, "suggest").data
    assert isinstance(answer, dict)
    daily = answer["suggestions"][0]
    assert (daily["key"], daily["value"], daily["count"]) == ("daily_usd", "0.90", 10)


def test_the_lines_to_paste_are_what_apply_writes(engine: Engine, clock: FakeClock) -> None:
    from budget_plugin.store.files.config import parse_budget

    ten_days(engine, clock)
    pasted = say(engine, "suggest").data
    assert isinstance(pasted, dict)
    by_hand = parse_budget(pasted["yaml"].encode(), "budget.yaml")
    assert by_hand.problems == ()
    assert say(engine, "suggest --apply").exit_code == OK
    assert engine.rules().budget == by_hand.value


def test_what_a_person_has_set_stays(engine: Engine, clock: FakeClock) -> None:
    ten_days(engine, clock)
    file = engine.budget_file.path
    file.write_text(
        "# mine\nbudgets:\n  global: {daily_usd: 7}   # enough\nruns:\n  chat: {tokens: 9}\n"
    )
    answer = say(engine, "suggest --apply")
    assert isinstance(answer.data, dict)
    assert [x["key"] for x in answer.data["already_set"]] == ["daily_usd", "tokens"]
    # beside what is enforced a new number would block at once
    assert "monthly_usd" in [x["key"] for x in answer.data["enforced"]]
    text = file.read_text()
    assert text.startswith("# mine\nbudgets:\n  global: {daily_usd: 7}   # enough\n")
    assert "nightly" in text
    assert say(engine, "suggest --apply").exit_code == OK
    assert file.read_text() == text  # a second time there is nothing new


def test_an_empty_ledger_says_so(engine: Engine) -> None:
    said = " ".join(say(engine, "suggest").text.split())
    assert "Everything together: too little to go by, 0 of the 7 whole days with spending" in said
    assert "One run of the kind chat: too little to go by, 0 of the 20 resolved runs" in said
    assert "What Hermes noted before this plugin counts too: hermes budget import" in said
    assert say(engine, "suggest --days many").exit_code == USAGE


def test_a_sender_in_a_chat_gets_none(engine: Engine) -> None:
    nobody = Caller("telegram:1", "chat", "/budget", may_change=False, sender_id="telegram:1")
    assert say(engine, "suggest --apply", nobody).exit_code == PROBLEM
    assert chat.changes_something("suggest --apply")


def test_a_file_with_a_mistake_is_left_alone(engine: Engine, clock: FakeClock) -> None:
    ten_days(engine, clock)
    engine.budget_file.path.write_text("budgets: {global: {daily_usd: $5}}\n")
    assert say(engine, "suggest --apply").exit_code == PROBLEM
    assert engine.budget_file.path.read_text() == "budgets: {global: {daily_usd: $5}}\n"


def test_from_a_suggestion_to_a_limit_in_force(engine: Engine, clock: FakeClock) -> None:
    """The path of a new user: record, apply, see what would have been, look back, enforce."""
    ten_days(engine, clock)
    say(engine, "suggest --apply")
    rules = engine.rules()
    assert (rules.has_limits, rules.observes) == (False, True)
    who = [(change.who, change.state) for change in engine.journal.changes(10)]
    assert engine.recorder.flush(60)
    assert who == [("owner", "observed")] * 3
    ceilings = {(c.layer, c.key, c.before, c.after) for c in engine.journal.ceiling_changes(10)}
    assert ("chat", "dispatches", None, 6) in ceilings
    assert "runs.chat.dispatches from no limit to 6 (observed)" in say(engine, "history").text

    # the next day goes over: nothing is blocked, and the status says what would have been
    live = engine.open_run(replace(make_run(), started_ms=clock.now_ms()))
    for _ in range(4):
        spend(engine, "0.30", run=live.run)
    assert engine.tool_verdict(live) is None
    played = say(engine, "replay").data
    assert isinstance(played, dict)
    (row,) = played["candidates"]
    assert row["runs_cut"] >= 1
    told = say(engine, "status").text
    assert "Observed: these block nothing" in told
    assert "$1.20 of $0.90" in told

    # in force
    say(engine, "enforce")
    assert [limit.amount for limit in engine.rules().budget.limits_for(Scope.GLOBAL, "")] == [
        parse_usd("0.90"),
        parse_usd("28"),
    ]
    verdict = engine.strictest_now(live.run)
    assert verdict is not None
    assert verdict.blocks
    assert engine.rules().budget.runs.terms("chat").limits.dispatches == 6

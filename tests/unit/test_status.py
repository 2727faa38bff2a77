"""What `status` shows, word for word; no line is wider than a telephone."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from budget_plugin.commands import chat, table
from budget_plugin.commands.asking import OK, OVER_BUDGET, PROBLEM, Answer, Args, Caller
from budget_plugin.engine.decisions import decision_of
from budget_plugin.engine.engine import Engine
from budget_plugin.messages.layout import bar, percent, short
from budget_plugin.messages.terminal import print_status
from budget_plugin.policy.limits import Scope
from budget_plugin.policy.verdicts import closed as full
from budget_plugin.policy.windows import Window
from budget_plugin.store.journal import Pause
from budget_plugin.store.sql.database import LedgerError
from budget_plugin.testing import FakeClock, at, make_engine, make_run, spend

OWNER = Caller("owner", "chat", "/budget")
SENDER = Caller("telegram:1", "chat", "/budget", may_change=False, sender_id="telegram:1")

LIMITS = """\
timezone: Europe/Berlin
budgets:
  global: {daily_usd: 5.00, monthly_usd: 100, daily_calls: 900}
  per_cron_job:
    default: {daily_usd: 1.00}
    overrides: {nightly-report: {daily_usd: 0}}
  per_sender:
    default: {daily_usd: 2.00}
    overrides: {"telegram:9": {monthly_usd: 40}}
"""


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(at("2026-11-30 14:00", "Europe/Berlin"))


@pytest.fixture
def engine(tmp_path: Path, clock: FakeClock) -> Iterator[Engine]:
    engine = make_engine(tmp_path, LIMITS, clock)
    yield engine
    engine.close()


@pytest.fixture
def bare(tmp_path: Path, clock: FakeClock) -> Iterator[Engine]:
    engine = make_engine(tmp_path / "bare", "", clock, "Europe/Berlin")
    yield engine
    engine.close()


def status(engine: Engine, caller: Caller = OWNER, *, check: bool = False) -> Answer:
    answer = table.answer(lambda: engine, "status", Args(caller, check=check))
    return replace(answer, text=answer.in_a_chat())


def test_everything_on_a_telephone(engine: Engine) -> None:
    spend(engine, "3.10", sender_id="telegram:1", platform="telegram")
    spend(engine, "1.20", cron_job_id="abc123", platform="cron")
    assert (
        status(engine).text
        == """\
Global
  daily  $4.30 of $5.00
  ██████░░ 86 %, until 2026-12-01 00:00
    past the mark of 80 %
  daily  2 calls of 900 calls
  █░░░░░░░ 0 %, until 2026-12-01 00:00
  monthly  $4.30 of $100.00
  █░░░░░░░ 4 %, until 2026-12-01 00:00

Cron jobs
 abc123
  daily  $1.20 of $1.00
  ████████ 120 %, until 2026-12-01 00:00
    reached: calls are refused

Senders
 telegram:1
  daily  $3.10 of $2.00
  ████████ 155 %, until 2026-12-01 00:00
    reached: calls are refused

Limits without activity: cron job
  "nightly-report" daily $0.00 (blocks
  all), sender "telegram:9" monthly
  $40.00.

abc123: The next run will likely be
  stopped: its last runs cost $1.20
  each, and $0.70 is left of the daily
  limit.

A reached limit stops tools and model
  calls.
Times are Europe/Berlin."""
    )


def test_nothing_configured(bare: Engine) -> None:
    assert status(bare).text == (
        "No budgets configured.\nNothing was spent this month.\nTo set one:\n"
        "  /budget set global daily 5.00\nOr let the past suggest some:\n"
        "  /budget import\n  /budget suggest"
    )


def test_nothing_configured_but_something_spent(bare: Engine) -> None:
    spend(bare, "0.12", model="m")
    assert (
        status(bare).text
        == """\
Global
  today $0.12, month $0.12
  no limit"""
    )


def test_platforms_and_models_are_shown_where_one_has_a_limit(
    tmp_path: Path, clock: FakeClock
) -> None:
    yaml = "budgets: {per_model: {overrides: {large: {daily_usd: 1}}}}\n"
    engine = make_engine(tmp_path, yaml, clock)
    spend(engine, "0.12", model="small", platform="telegram")
    assert "Models" not in status(engine).text
    spend(engine, "0.25", model="large", platform="telegram")
    said = status(engine).text
    assert "Models\n large\n  daily  $0.25 of $1.00\n" in said
    assert "\n small\n  today $0.12, month $0.12\n  no limit\n" in said
    assert "Platforms" not in said
    sections = json.loads(json.dumps(status(engine).data))["sections"]
    assert [entry["id"] for entry in sections["platform"]] == ["telegram"]
    engine.close()


def test_runs_that_a_limit_has_stopped_are_counted(engine: Engine) -> None:
    """Nothing that still fits may look like a limit that does nothing."""
    spend(engine, "4.99")
    (verdict, *_) = engine.judge.read_now((Scope.GLOBAL, ""))
    daily = full(verdict)
    for n, (action, period) in enumerate(
        [
            ("refused", daily.period.key),
            ("blocked", daily.period.key),
            ("last answer", daily.period.key),
            ("reached", daily.period.key),  # nobody was stopped by that alone
            ("refused", "2026-11-29"),  # the day before
        ]
    ):
        run = make_run(run_id=f"r{n}")
        decision = decision_of(run, daily, "model", action, engine.clock.now_ms())
        engine.journal.note_decision(replace(decision, period_key=period), 10.0)
    engine.journal.note_decision(
        decision_of(make_run(run_id="r0"), daily, "tool", "blocked", engine.clock.now_ms()), 10.0
    )
    found = status(engine)
    assert "    3 runs stopped, as nothing more\n      fitted\n" in found.text
    limits = json.loads(json.dumps(found.data))["global"]["limits"]
    assert [limit["runs_stopped"] for limit in limits] == [3, 0, 0]


def test_why_runs_were_stopped_is_said_only_where_it_is_so(engine: Engine) -> None:
    """The limit was reached; it has been raised since, and holds more than was spent."""
    spend(engine, "4.99")
    (daily, *_) = engine.judge.read_now((Scope.GLOBAL, ""))
    for n, verdict in enumerate((daily, full(daily))):
        decision = decision_of(
            make_run(run_id=f"r{n}"), verdict, "model", "refused", engine.clock.now_ms()
        )
        engine.journal.note_decision(decision, 10.0)
    assert "    2 runs stopped\n" in status(engine).text


@pytest.mark.parametrize("yaml", ["budgets: {global: {daily_usd: 5}}\n", ""])
def test_models_without_a_price_are_named_with_what_to_do(
    tmp_path: Path, clock: FakeClock, yaml: str
) -> None:
    engine = make_engine(tmp_path, yaml, clock)
    for model in ("new-model", "other-model"):
        spend(engine, None, model=model)
    said = " ".join(status(engine).text.split())
    assert (
        "No price is known for new-model, other-model: limits in dollars do not see such calls. "
        "What to do: /budget prices check"
    ) in said
    visitor = Caller("telegram:1", "chat", "/budget", False, "telegram:1")
    assert "No price" not in status(engine, visitor).text

    # A price that was added since is no news; that the sum is too low, still is.
    (tmp_path / "budget" / "pricing.yaml").write_text(
        "unit: usd_per_million_tokens\nmodels:\n"
        "  new-model: {input: 1, output: 1}\n  other-model: {input: 1, output: 1}\n"
    )
    said = status(engine).text
    assert "No price" not in said
    assert "2 calls are unpriced" in said
    engine.close()


def test_a_limit_without_activity_is_not_nothing(engine: Engine) -> None:
    said = status(engine).text
    assert "No budgets configured" not in said
    assert "every cron job daily $1.00" in " ".join(said.split())


def test_what_is_uncertain_is_said(engine: Engine) -> None:
    spend(engine, "1.00")
    spend(engine, "0.40", estimated=True)
    spend(engine, None)
    said = status(engine).text
    assert (
        "  daily  at least $1.40 of $5.00\n"
        "  ██░░░░░░ 28 %, until 2026-12-01 00:00\n"
        "    $0.40 of it is estimated\n"
        "    1 call is unpriced\n"
    ) in said


@pytest.mark.case("T2")
def test_over_only_by_estimates_is_not_blocked(engine: Engine) -> None:
    spend(engine, "4.90")
    spend(engine, "0.40", estimated=True)
    answer = status(engine, check=True)
    assert "    over only by estimates: not blocked\n" in answer.text
    assert answer.exit_code == OK


@pytest.mark.case("T21")
def test_nothing_allowed_and_no_limit_read_differently(tmp_path: Path, clock: FakeClock) -> None:
    engine = make_engine(tmp_path, "budgets: {global: {daily_usd: 0}}\n", clock)
    spend(engine, "0.0018", profile="work")
    said = status(engine).text
    assert "Global\n  daily  $0.00 (blocks all)\n    $0.0018 used\n" in said
    assert "Profiles\n work\n  today $0.0018, month $0.0018\n  no limit\n" in said
    engine.close()


@pytest.mark.case("A41")
def test_the_spend_is_there_right_after_a_restart(tmp_path: Path, clock: FakeClock) -> None:
    yaml = "budgets: {global: {daily_usd: 5.00}}\n"
    engine = make_engine(tmp_path, yaml, clock)
    spend(engine, "4.27")
    engine.close()
    again = make_engine(tmp_path, yaml, clock)
    assert "$4.27 of $5.00" in status(again).text
    spend(again, "0.80")
    answer = status(again, check=True)
    assert "$5.07 of $5.00" in answer.text
    assert answer.exit_code == OVER_BUDGET
    again.close()


@pytest.mark.case("A37")
@pytest.mark.parametrize(
    ("now", "ends"),
    [("2026-01-31 10:00", "2026-02-01T08:00"), ("2026-02-01 00:00", "2026-03-01T08:00")],
)
def test_monthly_is_a_calendar_month(tmp_path: Path, now: str, ends: str) -> None:
    zone = "America/Los_Angeles"
    clock = FakeClock(at(now, zone))
    yaml = f"timezone: {zone}\nbudgets: {{global: {{monthly_usd: 10}}}}\n"
    engine = make_engine(tmp_path, yaml, clock)
    answer = status(engine)
    assert isinstance(answer.data, dict)
    (limit,) = answer.data["global"]["limits"]
    assert limit["end_ms"] == at(ends)
    assert f"until {ends[:10]} 00:00" in answer.text
    engine.close()


def test_ids_of_long_ago_are_not_listed(engine: Engine, clock: FakeClock) -> None:
    spend(engine, "1.00", sender_id="telegram:1")
    clock.advance(31 * 86_400)
    said = status(engine).text
    assert "Senders" not in said
    assert "every sender daily $2.00" in " ".join(said.split())


def test_many_ids_are_not_all_shown_but_all_told_to_programs(engine: Engine) -> None:
    for number in range(25):
        spend(engine, "0.01", sender_id=f"telegram:{number:02}")
    answer = status(engine)
    assert " telegram:19\n" in answer.text
    assert " telegram:20\n" not in answer.text
    assert " … and 5 more" in answer.text
    assert isinstance(answer.data, dict)
    assert len(answer.data["sections"]["sender"]) == 25


# ------------------------------------------------------------------- waiting, paused, in trouble


def test_a_ledger_that_does_not_answer(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(*_: object) -> None:
        raise LedgerError("disk I/O error")

    monkeypatch.setattr(engine.judge, "read_now", silent)
    answer = status(engine)
    assert answer.text.startswith("The ledger does not answer: disk I/O\n  error\n")
    assert answer.exit_code == PROBLEM
    assert "No budgets configured" not in answer.text


def test_a_sender_is_not_told_where_the_ledger_lies(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: object) -> None:
        raise LedgerError("unable to open /home/owner/ledger.db")

    monkeypatch.setattr(engine.judge, "read_now", silent)
    answer = status(engine, SENDER)
    assert "The ledger does not answer." in answer.text
    assert "/home/owner" not in answer.text + json.dumps(answer.data)


def test_not_enforcing_since(engine: Engine, clock: FakeClock) -> None:
    engine.recorder.failing_since_ms = clock.now_ms()
    answer = status(engine)
    assert answer.text.startswith(
        "Not enforcing since 2026-11-30 14:00:\n  the ledger takes no rows.\n"
    )
    assert isinstance(answer.data, dict)
    assert answer.data["enforcing"] is False


def test_paused_jobs(engine: Engine, clock: FakeClock) -> None:
    engine.journal.note_pause(
        Pause(
            "abc123",
            clock.now_ms(),
            at("2026-12-01", "Europe/Berlin"),
            "budget",
            Scope.GLOBAL,
            "",
            Window.DAILY,
            "",
        ),
        patience_s=10.0,
    )
    assert (
        "Paused cron jobs\n abc123\n  since 2026-11-30 14:00\n  until 2026-12-01 00:00\n"
    ) in status(engine).text
    assert "abc123" not in status(engine, SENDER).text


def test_ceilings_of_runs_are_mentioned(engine: Engine) -> None:
    engine.budget_file.path.write_text("runs: {default: {tool_calls: 4}}\n")
    engine.reload_config()
    assert "Single runs have ceilings" in status(engine).text


def test_mistakes_in_the_settings(engine: Engine) -> None:
    engine.budget_file.path.write_text("budgets: {global: {daily_usd: $6}}\n")
    engine.reload_config()
    said = status(engine).text
    assert said.startswith(
        "The settings have a mistake. The last\n  good settings stay in force.\n"
    )
    assert "of $5.00" in said
    assert "daily_usd" in said
    assert "mistake" not in status(engine, SENDER).text


def test_the_model_gate_is_off(tmp_path: Path, clock: FakeClock) -> None:
    yaml = "budgets: {global: {daily_usd: 1}}\nmodel_gate: {enabled: false}\n"
    engine = make_engine(tmp_path, yaml, clock)
    spend(engine, "1.00")
    said = status(engine).text
    assert "    reached: tools are refused\n" in said
    assert "tools only" in said
    engine.close()


# ----------------------------------------------------------------------------- what concerns one


@pytest.mark.case("A60")
def test_a_sender_sees_themselves_and_the_total_as_a_share(engine: Engine) -> None:
    spend(engine, "0.50", sender_id="telegram:1")
    spend(engine, "2.77", sender_id="telegram:9", cron_job_id="abc123", profile="work")
    answer = status(engine, SENDER)
    assert (
        answer.text
        == """\
Everything together
  daily  65 % of $5.00
  █████░░░ until 2026-12-01 00:00
  daily  0 % of 900 calls
  █░░░░░░░ until 2026-12-01 00:00
  monthly  3 % of $100.00
  █░░░░░░░ until 2026-12-01 00:00

You
 telegram:1
  daily  $0.50 of $2.00
  ██░░░░░░ 25 %, until 2026-12-01 00:00

Times are Europe/Berlin."""
    )
    told = json.dumps(answer.data)
    assert not {"telegram:9", "abc123", "work"} & set(told.replace('"', " ").split())
    assert "2.77" not in told + answer.text


def test_nobody_in_particular_sees_the_share_alone(engine: Engine) -> None:
    spend(engine, "2.77", sender_id="telegram:9")
    nobody = Caller("unknown", "chat", "/budget", may_change=False)
    said = status(engine, nobody).text
    assert "You" not in said
    assert "2.77" not in said


# ------------------------------------------------------------------------------- 40 columns, JSON


@pytest.mark.case("T30", "A32")
@pytest.mark.parametrize(
    "scope_id",
    [
        "🚀 nightly v1.2",
        "@alice",
        "O'Brien",
        'a "quoted" id',
        "x" * 5000,
        "a\nb: forged",
        "-100123",
    ],
)
def test_any_id_fits_and_cannot_forge_a_line(engine: Engine, scope_id: str) -> None:
    spend(engine, "1.00", sender_id=scope_id)
    answer = status(engine)
    lines = answer.text.splitlines()
    assert max(map(len, lines)) <= 40
    assert "b: forged" not in lines
    assert isinstance(answer.data, dict)
    assert answer.data["sections"]["sender"][0]["id"] == scope_id


def test_large_amounts_fit_too(tmp_path: Path, clock: FakeClock) -> None:
    yaml = "budgets: {global: {monthly_usd: 999999999.99, total_tokens: 1000000000000}}\n"
    engine = make_engine(tmp_path, yaml, clock)
    spend(engine, "12345678.90", tokens=987_654_321_000)
    spend(engine, None)
    assert max(map(len, status(engine).text.splitlines())) <= 40
    engine.close()


def test_the_data_is_json_and_exact(engine: Engine) -> None:
    spend(engine, "0.000000001", tokens=7)
    data = json.loads(json.dumps(status(engine).data))
    assert data["version"] == 1
    limit = data["global"]["limits"][0]
    assert (limit["window"], limit["measure"], limit["limit"]) == ("daily", "usd", "5")
    assert limit["used"] == "0.000000001"
    assert limit["spend"]["tokens"] == 7
    assert data["sections"]["model"][0]["today"]["usd"] == "0.000000001"


def test_check_has_an_exit_code(engine: Engine) -> None:
    assert status(engine, check=True).exit_code == OK
    spend(engine, "5.00")
    assert status(engine).exit_code == OK
    assert status(engine, check=True).exit_code == OVER_BUDGET


def test_json_by_chat(engine: Engine) -> None:
    said = chat.reply(lambda: engine, "status —json", OWNER)
    assert json.loads(said)["timezone"] == "Europe/Berlin"


# ------------------------------------------------------------------------------- on a terminal


def on_terminal(engine: Engine, *, colour: bool, width: int = 120) -> str:
    report = status(engine).report
    assert report is not None
    console = Console(
        file=io.StringIO(),
        width=width,
        force_terminal=colour,
        no_color=not colour,
        highlight=False,
    )
    print_status(report, "hermes budget", console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_table_on_a_terminal(engine: Engine) -> None:
    spend(engine, "4.30", sender_id="telegram:1")
    shown = on_terminal(engine, colour=False)
    row = next(line for line in shown.splitlines() if line.startswith("Global"))
    assert row.split() == [
        *("Global", "daily", "$4.30", "of", "$5.00", "██████░░", "86", "%"),
        *("until", "2026-12-01", "00:00", "past", "the", "mark", "of", "80", "%"),
    ]
    assert "sender telegram:1" in shown
    assert "\x1b" not in shown
    assert "\x1b[33m" in on_terminal(engine, colour=True)


@pytest.mark.parametrize("width", [40, 60, 79, 80, 81, 90, 100, 140])
def test_no_number_is_cut_off_on_a_narrow_terminal(engine: Engine, width: int) -> None:
    spend(engine, "1.00", profile="a profile of some length", platform="cli")
    spend(engine, None, sender_id="telegram:1")
    shown = on_terminal(engine, colour=False, width=width)
    assert max(map(len, shown.splitlines())) <= width
    for whole in (
        "at least $1.00 of $5.00",
        "until 2026-12-01 00:00",
        "at least $0.00 of $2.00",
        "today $1.00",
        "month $1.00",
    ):
        assert whole in shown


def test_markup_in_an_id_is_text(engine: Engine) -> None:
    spend(engine, "1.00", sender_id="[red]x[/red]")
    assert "[red]x[/red]" in on_terminal(engine, colour=False)


def test_a_terminal_without_limits(bare: Engine) -> None:
    assert "No budgets configured." in on_terminal(bare, colour=False)
    assert "hermes budget set global" in on_terminal(bare, colour=False)


# -------------------------------------------------------------------------------- small things


@given(share=st.floats(0, 100, allow_nan=False))
def test_a_bar_is_full_only_when_the_limit_is_reached(share: float) -> None:
    assert len(bar(share)) == 8
    assert (bar(share) == "█" * 8) == (share >= 1)
    assert (bar(share) == "░" * 8) == (share == 0)
    assert (int(percent(share).removesuffix(" %")) >= 100) == (share >= 1 - 1e-11)


@given(scope_id=st.text(max_size=9000))
def test_a_shortened_id_is_short_and_printable(scope_id: str) -> None:
    said = short(scope_id)
    assert len(said) <= 36
    assert said.isprintable()


def test_rows_that_wait_are_named(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(engine.recorder), "waiting_calls", 3)
    assert "3 rows wait to be written." in status(engine).text

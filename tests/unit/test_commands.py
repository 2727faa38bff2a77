"""The commands: what is typed, what it does, what is answered, by chat and by command line."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from budget_plugin import cli
from budget_plugin.commands import chat, table
from budget_plugin.commands.asking import OK, PROBLEM, USAGE, Answer, Args, Caller, Host, Usage
from budget_plugin.commands.catalogue import COMMANDS
from budget_plugin.commands.grammar import split, take_options
from budget_plugin.engine.engine import Engine
from budget_plugin.engine.permits import Request
from budget_plugin.messages.diagnosis import fine, problem
from budget_plugin.messages.parts import quoted
from budget_plugin.messages.verdicts import raise_command
from budget_plugin.policy.limits import SCOPES, Measure, Scope
from budget_plugin.policy.windows import Window
from budget_plugin.store.sql.database import LedgerError
from budget_plugin.testing import FakeClock, at, make_engine, make_run, spend

OWNER = Caller("owner", "command line")
PRICES = "models: {a-model: {input: 1.00, output: 2.00}}\n"

ODD_IDS = [
    "nightly report",
    "telegram:123456",
    "@alice",
    "🚀 nightly v1.2",
    "O'Brien",
    'says "hi"',
    "back\\slash",
    "daily",
    "calls",
    "NO",
    "007",
    "-100123",
    "#not: a comment",
    "null",
    "x" * 5000,
]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(at("2026-11-30 12:00"))


@pytest.fixture
def engine(tmp_path: Path, clock: FakeClock) -> Iterator[Engine]:
    (tmp_path / "budget").mkdir()
    (tmp_path / "budget" / "pricing.yaml").write_text(PRICES)
    engine = make_engine(tmp_path, "", clock)
    yield engine
    engine.close()


def say(engine: Engine, text: str) -> str:
    """By chat, as the person at the machine."""
    return chat.reply(lambda: engine, text, replace(OWNER, via="chat", prefix="/budget"))


def ask(engine: Engine, *words: str, **options: object) -> Answer:
    """By command line."""
    name, *rest = words
    args = Args(OWNER, tuple(rest), **options)  # type: ignore[arg-type]
    return table.answer(lambda: engine, name, args)


def budgets(engine: Engine) -> dict[str, dict[str, object]]:
    return dict(yaml.safe_load(engine.budget_file.path.read_text())["budgets"])


# ---------------------------------------------------------- every scope × window × measure, whole

AMOUNTS = {Measure.USD: "2.00", Measure.TOKENS: "2000 tokens", Measure.CALLS: "2 calls"}
FIELDS = {
    Scope.GLOBAL: "profile",
    Scope.CRON_JOB: "cron_job_id",
    Scope.SENDER: "sender_id",
    Scope.PROFILE: "profile",
    Scope.PLATFORM: "platform",
}
USED = {Measure.USD: "$1.00", Measure.TOKENS: "1,000 tokens", Measure.CALLS: "1 call"}
REQUEST = Request("", "a-model", "", 400, 100)


@pytest.mark.parametrize("measure", Measure)
@pytest.mark.parametrize("window", Window)
@pytest.mark.parametrize(
    ("scope", "by_id"),
    [(scope, by_id) for scope in Scope for by_id in sorted({SCOPES[scope].takes_id, False})],
)
def test_set_record_status_forecast_gate_unset(
    engine: Engine, scope: Scope, by_id: bool, window: Window, measure: Measure
) -> None:
    takes_id = SCOPES[scope].takes_id
    scope_id = "a-model" if scope is Scope.MODEL else "some one" if takes_id else ""
    target = f"{scope} {quoted(scope_id)}" if by_id else str(scope)
    run = make_run(**({} if scope is Scope.MODEL else {FIELDS[scope]: "some one"}))

    assert "was no limit, is" in say(engine, f"set {target} {window} {AMOUNTS[measure]}")
    live = engine.open_run(replace(run, model="a-model", started_ms=engine.clock.now_ms()))
    assert not engine.admit(live, REQUEST).refused

    spend(engine, "1.00", tokens=1000, run=run)
    assert USED[measure] in say(engine, "status")
    forecast = say(engine, f"forecast {scope} {quoted(scope_id) if takes_id else ''} {window}")
    assert f"{USED[measure]} of " in forecast

    spend(engine, "1.00", tokens=1000, run=run)
    (verdict,) = engine.judge.read_now((scope, scope_id))
    assert verdict.blocks
    assert engine.admit(live, REQUEST).refused
    assert ask(engine, "status", check=True).exit_code == 3

    assert "is no limit" in say(engine, f"unset {target} {window} {measure}")
    live = engine.open_run(make_run())
    assert not engine.admit(live, REQUEST).refused
    assert engine.ledger.verify()[1] == []
    assert len(engine.journal.changes(10)) == 2


# --------------------------------------------------------------------------------- what is typed


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("  set  global\tdaily 5 ", ["set", "global", "daily", "5"]),
        ('set "nightly report" daily', ["set", "nightly report", "daily"]),
        ("set 'nightly report' daily", ["set", "nightly report", "daily"]),
        ("set “nightly report” daily", ["set", "nightly report", "daily"]),
        ("set „nightly report“ daily", ["set", "nightly report", "daily"]),
        ("O'Brien says", ["O'Brien", "says"]),
        ("“never closed", ["“never", "closed"]),
        (r'"a \"b\" \\ c"', ['a "b" \\ c']),
        (r"C:\temp", [r"C:\temp"]),
        ('""', [""]),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert split(text) == words


@pytest.mark.parametrize("text", ['set "nightly', "'", 'set sender "telegram:1 daily 5'])
def test_a_quote_that_is_not_closed(engine: Engine, text: str) -> None:
    with pytest.raises(Usage):
        split(text)
    assert say(engine, text) == "A quotation mark is not closed."


@pytest.mark.case("T30")
@given(word=st.text(min_size=1))
def test_what_is_quoted_is_read_back(word: str) -> None:
    assert split(f"set {quoted(word)} daily") == ["set", word, "daily"]


def test_options_stand_anywhere() -> None:
    words, options = take_options(["sender", "—id", "a b", "daily", "--json", "5", "--id=c"])
    assert words == ["sender", "daily", "5"]
    assert options == {"id": "c", "json": "json"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sett global daily 5", 'no command "sett". Did you mean /budget set?'),
        ("xyzzy", "See /budget help."),
        ("set", "Write: /budget set <scope> [<id>] <window> <amount>"),
        ("set global daily", "Write: /budget set"),
        ("set globl daily 5", '"globl" is no scope. Did you mean global?'),
        ("set galaxy daily 5", "Known are: global, cron_job, sender, profile, platform, model."),
        ("set global dayly 5", '"dayly" is no window. Did you mean daily?'),
        ("set global day 5", '"day" is no window. Did you mean daily?'),
        ("set global today 5", '"today" is no window. Did you mean daily?'),
        ("set global fortnightly 5", "Known are: hourly, daily, weekly, monthly, total."),
        ("set global daily $5", '"$5" is not an amount: write the plain number: 5.'),
        ("set global daily 5,00", "write the decimal point as a dot: 5.00"),
        ("set global daily -1", "a limit cannot be negative"),
        ("set global daily nan", "is not an amount"),
        ("set global daily 1e400", "is not an amount"),
        ("set global daily 1.5 calls", "expected a whole number of calls"),
        ("set global telegram:1 daily 5", "takes no id"),
        ("set global daily 5 --id x", "takes no id"),
        ('set sender "" daily 5', "An empty id matches nobody."),
        ("set sender daily 5 --id", "--id needs a value behind it."),
        ("set sender a daily 5 --id b", 'Two ids were given, "a" and "b".'),
        (
            "set cron_job nightly report daily 900 calls",
            'in quotes: /budget set cron_job "nightly report" daily 900 calls',
        ),
        ("unset global", "Write: /budget unset <scope>"),
        ("unset global dayly", "Did you mean daily?"),
        ("prices a b", 'prices does not know what to do with "b".'),
    ],
)
def test_what_is_not_understood_changes_nothing(engine: Engine, text: str, said: str) -> None:
    assert said in say(engine, text)
    assert not engine.budget_file.path.exists()


@given(text=st.text(max_size=60))
def test_no_text_is_a_fault(text: str) -> None:
    """Up to the point where the engine would be needed, which is never reached here."""

    def no_engine() -> Engine:
        raise LedgerError("not asked in this test")

    assert isinstance(chat.reply(no_engine, text, OWNER), str)


# -------------------------------------------------------------------------------------- set, unset


def test_set_says_what_was_what_is_and_what_it_means(engine: Engine) -> None:
    assert say(engine, "set global daily 5") == (
        "Daily limit for everything together: was no limit, is $5.00. "
        "$0.00 used today, resets 2026-12-01 00:00 UTC."
    )
    spend(engine, "3.10")
    assert say(engine, "set global daily 7.50") == (
        "Daily limit for everything together: was $5.00, is $7.50. "
        "$3.10 used today, resets 2026-12-01 00:00 UTC."
    )
    spend(engine, None)
    assert say(engine, "set global daily 3") == (
        "Daily limit for everything together: was $7.50, is $3.00. "
        "At least $3.10 used today, resets 2026-12-01 00:00 UTC. The limit is reached."
    )
    assert "$3.00, as before." in say(engine, "set global daily 3.00")
    assert "is $0.00 (blocks all)." in say(engine, "set global daily 0")
    assert say(engine, "set global daily none") == (
        "Daily limit for everything together: was $0.00 (blocks all), is no limit."
    )


@pytest.mark.case("T21")
@pytest.mark.parametrize("amount", ["0", "0.00", "0 calls", "0 tokens"])
def test_zero_allows_nothing(engine: Engine, amount: str) -> None:
    say(engine, f"set global daily {amount}")
    live = engine.open_run(make_run())
    assert engine.admit(live, REQUEST).refused


@pytest.mark.case("T30", "A32")
@pytest.mark.parametrize("scope_id", ODD_IDS)
@pytest.mark.parametrize("door", ["chat", "option", "middle"])
def test_any_id_can_be_set_enforced_and_taken_back(
    engine: Engine, scope_id: str, door: str
) -> None:
    doors: dict[str, Callable[[], object]] = {
        "chat": lambda: say(engine, f"set sender {quoted(scope_id)} daily 1.00"),
        "option": lambda: ask(engine, "set", "sender", "daily", "1.00", scope_id=scope_id),
        "middle": lambda: ask(engine, "set", "sender", scope_id, "daily", "1.00"),
    }
    doors[door]()
    assert budgets(engine)["per_sender"] == {"overrides": {scope_id: {"daily_usd": 1.00}}}
    spend(engine, "1.00", sender_id=scope_id)
    spend(engine, "1.00", sender_id=f"{scope_id} not")
    blocked = engine.open_run(make_run(sender_id=scope_id))
    free = engine.open_run(make_run(sender_id=f"{scope_id} not"))
    assert engine.admit(blocked, REQUEST).refused
    assert not engine.admit(free, REQUEST).refused
    assert "is no limit" in say(engine, f"unset sender {quoted(scope_id)} daily")


@pytest.mark.case("T20")
@pytest.mark.parametrize("scope_id", ["nightly", "nightly report", 'a "b" c'])
def test_the_command_of_a_block_lifts_exactly_that_block(engine: Engine, scope_id: str) -> None:
    say(engine, "set cron_job daily 5.00")
    say(engine, f"set cron_job {quoted(scope_id)} daily 1.00")
    spend(engine, "1.40", cron_job_id=scope_id)
    (verdict,) = engine.judge.read_now((Scope.CRON_JOB, scope_id))
    assert verdict.blocks
    say(engine, raise_command(verdict).removeprefix("/budget "))
    (verdict,) = engine.judge.read_now((Scope.CRON_JOB, scope_id))
    assert not verdict.blocks
    assert budgets(engine)["per_cron_job"]["default"] == {"daily_usd": 5.00}


@pytest.mark.case("T29")
def test_an_override_inherits_what_it_does_not_name(engine: Engine) -> None:
    say(engine, "set sender daily 2")
    say(engine, "set sender monthly 20")
    said = say(engine, "set sender telegram:1 daily 3")
    assert "was $2.00, is $3.00" in said
    assert "of $20.00 used" in say(engine, "forecast sender telegram:1 monthly")
    assert say(engine, "unset sender telegram:1 daily").endswith(
        "The limit of every sender holds again."
    )


def test_an_id_that_nobody_has_seen_is_named(engine: Engine) -> None:
    assert 'No activity of sender "telegarm:1"' in say(engine, "set sender telegarm:1 daily 2")
    spend(engine, "0.10", sender_id="telegram:1")
    assert "No activity" not in say(engine, "set sender telegram:1 daily 2")


def test_unset_what_is_not_set(engine: Engine) -> None:
    say(engine, "set global daily 900 calls")
    assert say(engine, "unset global daily") == (
        "There was no daily limit in dollars for everything together. "
        "There is one in calls: /budget unset global daily calls"
    )
    assert "was 900 calls, is no limit" in say(engine, "unset global daily calls")
    assert say(engine, "unset sender telegram:1 daily") == (
        'There was no daily limit in dollars for sender "telegram:1".'
    )


@pytest.mark.case("T24")
@pytest.mark.parametrize("command", ["set global daily 5", "unset global daily"])
def test_a_file_with_a_mistake_is_left_alone(engine: Engine, command: str) -> None:
    path = engine.budget_file.path
    path.write_text("budgets: [oops")
    answer = ask(engine, *command.split())
    assert answer.exit_code == PROBLEM
    assert answer.text.startswith("Nothing was changed: ")
    assert f"- {path}:2: not valid YAML" in answer.text
    assert path.read_text() == "budgets: [oops"
    assert engine.journal.changes(10) == []


def test_a_ledger_that_does_not_answer_does_not_stop_a_limit(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: object, **__: object) -> None:
        raise LedgerError("disk full")

    monkeypatch.setattr(engine.database, "writing", silent)
    answer = ask(engine, "set", "global", "daily", "5")
    assert budgets(engine)["global"] == {"daily_usd": 5}
    assert "the change is not in the history" in answer.text
    assert answer.exit_code == OK


def test_a_change_arms_the_alerts_again(engine: Engine) -> None:
    say(engine, "set sender daily 1.00")
    spend(engine, "0.90", sender_id="telegram:1")
    live = engine.open_run(make_run(sender_id="telegram:1"))
    assert len(engine.new_alerts(live)) == 1
    assert engine.new_alerts(live) == []
    say(engine, "set sender daily 1.10")
    assert len(engine.new_alerts(live)) == 1


def test_history(engine: Engine, clock: FakeClock) -> None:
    assert say(engine, "history") == "No limit has been changed yet."
    say(engine, "set global daily 5")
    clock.advance(3600)
    ask(engine, "set", "sender", "daily", "900", "calls", scope_id="telegram:1")
    assert say(engine, "history").splitlines() == [
        "2026-11-30 13:00 owner (command line): "
        'daily limit for sender "telegram:1" from no limit to 900 calls',
        "2026-11-30 12:00 owner (chat): daily limit for everything together from no limit to $5.00",
    ]


# ------------------------------------------------------------------------- check, verify, prices


def test_check(engine: Engine) -> None:
    answer = ask(engine, "check")
    assert answer.exit_code == OK
    assert "not there, which is fine" in answer.text
    engine.budget_file.path.write_text("budgets:\n  global:\n    daily_usd: $5\n")
    engine.prices.user_file.write_text("models:\n  m: {input: -1, output: 2}\n")
    answer = ask(engine, "check")
    assert answer.exit_code == PROBLEM
    first, *lines = answer.text.splitlines()
    assert first == "2 problems found. Nothing is limited until that is mended."
    assert "budget.yaml:3: budgets.global.daily_usd:" in lines[0]
    assert "pricing.yaml:2: models.m.input:" in lines[1]
    assert isinstance(answer.data, dict)
    assert [found["line"] for found in answer.data["problems"]] == [3, 2]


def test_verify(engine: Engine) -> None:
    say(engine, "set global daily 5")
    spend(engine, "1.00")
    say(engine, "status")
    assert ask(engine, "verify").text == (
        "1 total compared with the recorded calls: no difference."
    )
    with engine.database.writing(1.0) as connection:
        connection.execute("UPDATE spend_totals SET certain_nanos = certain_nanos + 1000000000")
    answer = ask(engine, "verify")
    assert answer.exit_code == PROBLEM
    assert answer.text == (
        "1 total compared with the recorded calls: 1 differ.\n"
        "- everything together, daily from 2026-11-30 00:00: stored $2.00, calls add up to $1.00"
    )


def test_a_ledger_that_does_not_answer_is_an_answer(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: object, **__: object) -> None:
        raise LedgerError("disk I/O error")

    monkeypatch.setattr(engine.ledger, "verify", silent)
    answer = ask(engine, "verify")
    assert (answer.text, answer.exit_code) == (
        "The ledger does not answer: disk I/O error.",
        PROBLEM,
    )


def test_the_price_of_a_model(engine: Engine) -> None:
    answer = ask(engine, "prices", "a-model")
    assert answer.exit_code == OK
    assert answer.text == (
        "a-model: row a-model of your pricing.yaml\n  $1.00 in, $2.00 out per million tokens"
    )
    bundled = ask(engine, "prices", "claude-sonnet-4-5", provider="anthropic")
    assert "row anthropic/claude-sonnet-4-5 of genai-prices" in bundled.text
    assert "prompts over 200,000 tokens:" in bundled.text


def test_a_model_without_a_price(engine: Engine) -> None:
    answer = ask(engine, "prices", "nobody-knows")
    assert answer.exit_code == PROBLEM
    assert "no price is known, so its calls count as unpriced" in answer.text
    row = answer.text.partition("models:\n")[2]
    engine.prices.user_file.write_text(f"models:\n{row}\n")
    assert ask(engine, "prices", "nobody-knows").exit_code == OK


def test_models_in_use_without_a_price(engine: Engine, clock: FakeClock) -> None:
    assert ask(engine, "prices", "check").text == "No model was used in the last 30 days."
    spend(engine, "1.00", model="a-model")
    assert ask(engine, "prices", "check").text == "The one model of the last 30 days has a price."
    spend(engine, None, model="nobody-knows")
    answer = ask(engine, "prices", "check")
    assert answer.exit_code == PROBLEM
    assert "1 of 2 models of the last 30 days have no price:" in answer.text
    assert "- nobody-knows from a-provider: 1 call" in answer.text
    clock.advance(31 * 86_400)
    assert ask(engine, "prices", "check").exit_code == OK


def test_a_limit_in_dollars_that_does_not_see_all_calls_says_so(engine: Engine) -> None:
    spend(engine, None, model="new-model")
    said = say(engine, "set global daily 5")
    assert "At least $0.00 used today" in said
    assert said.endswith(
        "No price is known for new-model: limits in dollars do not see such calls. "
        "What to do: /budget prices check"
    )
    assert "No price" not in say(engine, "set global daily 900 calls")
    assert 'hermes budget set global daily "900 calls"' in ask(engine, "prices", "check").text
    assert "on_unpriced: block" in ask(engine, "prices", "check").text


def test_prices_say_where_they_come_from(engine: Engine) -> None:
    answer = ask(engine, "prices")
    assert "bundled prices, as of 20" in answer.text
    assert "1 of your own in" in answer.text


# ----------------------------------------------------------------------------------------- doctor


def test_doctor_on_a_sound_home(engine: Engine) -> None:
    say(engine, "set global daily 5")
    answer = ask(engine, "doctor", host=Host(lambda: [fine("plugin", "loaded once")]))
    assert answer.exit_code == OK, answer.text
    assert answer.text.endswith("No problem was found.")
    assert "ok       plugin: loaded once" in answer.text
    assert "note     not stopped: small calls on the side" in answer.text
    assert "journal mode wal" in answer.text


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        ("a typing error in a limit", "PROBLEM  limits: "),
        ("a typing error in a price", "PROBLEM  prices: "),
        ("a total that does not equal its calls", "PROBLEM  totals: 1 of 1 do not equal"),
        ("a clock that was set back", "PROBLEM  clock: it is 2026-11-30 12:00 here"),
        ("something in the host", "PROBLEM  plugin: loaded 2 times"),
    ],
)
def test_doctor_finds_what_is_wrong(engine: Engine, harm: str, said: str) -> None:
    say(engine, "set global daily 5")
    say(engine, "status")
    found = [fine("plugin", "loaded once")]
    if harm == "a typing error in a limit":
        engine.budget_file.path.write_text("budgets: {global: {daily_usd: $6}}\n")
    elif harm == "a typing error in a price":
        engine.prices.user_file.write_text("models: {m: {input: -1, output: 1}}\n")
    elif harm == "a total that does not equal its calls":
        with engine.database.writing(1.0) as connection:
            connection.execute("UPDATE spend_totals SET tokens = 1")
    elif harm == "a clock that was set back":
        spend(engine, "1.00", at_ms=at("2026-11-30 12:02"))
    else:
        found = [problem("plugin", "loaded 2 times")]
    answer = ask(engine, "doctor", host=Host(lambda: found))
    assert said in answer.text
    assert answer.text.endswith("1 problem was found.")
    assert answer.exit_code == PROBLEM


def test_doctor_says_when_prices_are_old(engine: Engine, clock: FakeClock) -> None:
    clock.advance(400 * 86_400)
    assert "days old" in ask(engine, "doctor").text


# ------------------------------------------------------------------------------------------- help


def test_help_names_every_command(engine: Engine) -> None:
    said = say(engine, "help")
    for command in COMMANDS.values():
        assert f"/budget {command.usage}" in said


# --------------------------------------------------------------------------------- command line


@pytest.fixture
def home(hermes_home: Path) -> Path:
    (hermes_home / "budget").mkdir()
    (hermes_home / "budget" / "budget.yaml").write_text("timezone: UTC\n")
    return hermes_home


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        cli.main(argv)
    shown = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, shown.out + shown.err


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        ("", OK, "No budgets configured."),
        ("status", OK, "No budgets configured."),
        ("set global daily 5", OK, "is $5.00"),
        ("set cron_job --id 'nightly report' monthly 30", OK, 'cron job "nightly report"'),
        ("set --id telegram:1 sender daily 3 --json", OK, '"after": "3"'),
        ("set sender daily 900 calls --id=-100123", OK, "900 calls"),
        ("set cron_job nightly daily 900 calls", OK, "900 calls"),
        ("set global fortnightly 5", USAGE, "is no window"),
        ("set global daily $5x", USAGE, "is not an amount"),
        ("sett", USAGE, "Did you mean hermes budget set?"),
        ("xyzzy", USAGE, "See hermes budget help."),
        ("set --wrong", USAGE, "unrecognized arguments: --wrong"),
        ("verify", OK, "no difference"),
        ("check", OK, "no problem found"),
        ("history", OK, "No limit has been changed yet."),
        ("doctor", OK, "inside it: hermes budget doctor"),
        ("prices", OK, "bundled prices"),
        ("forecast", OK, "Not enough data yet."),
        ("help", OK, "hermes budget set <scope>"),
        ("status --json", OK, '"version": 1'),
    ],
)
def test_the_command_line(
    home: Path, capsys: pytest.CaptureFixture[str], argv: str, code: int, said: str
) -> None:
    assert said in (shown := run(capsys, *shlex.split(argv))[1])
    assert "Traceback" not in shown
    assert run(capsys, *shlex.split(argv))[0] == code


def test_over_budget_has_its_own_exit_code(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "set", "global", "daily", "0")
    assert run(capsys, "status")[0] == OK
    assert run(capsys, "status", "--check")[0] == 3


def test_json_of_a_refusal(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, shown = run(capsys, "set", "global", "daily", "x", "--json")
    assert code == USAGE
    assert "is not an amount" in json.loads(shown)["error"]


def test_help_needs_no_database(tmp_path: Path) -> None:
    """In a process of its own: this one has imported everything long ago."""
    code = (
        "import sys, argparse\n"
        "from budget_plugin import cli\n"
        "cli.build_parser(argparse.ArgumentParser()).format_help()\n"
        "print([m for m in ('sqlalchemy', 'alembic', 'yaml', 'rich') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path.cwd()
    )
    assert done.stdout.strip() == "[]"

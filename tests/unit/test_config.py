"""budget.yaml is understood as written, or a problem names file, line, key and the remedy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from budget_plugin.policy.limits import (
    KEYS,
    Budget,
    CronPolicy,
    CronResume,
    LedgerPolicy,
    ModelGate,
    OnError,
    OnEstimated,
    OnUnpriced,
    Problem,
    Scope,
    Thresholds,
)
from budget_plugin.store.files.config import MAX_BYTES, BudgetFile, parse_budget
from budget_plugin.store.files.config_reading import MAX_PROBLEMS
from budget_plugin.store.files.watched_file import Parsed
from budget_plugin.store.resources import resource

USD = 1_000_000_000


def read(text: str) -> Parsed[Budget]:
    return parse_budget(text.encode(), "budget.yaml")


def accepted(text: str) -> Budget:
    parsed = read(text)
    assert parsed.problems == ()
    assert parsed.value is not None
    return parsed.value


def refused(text: str) -> Problem:
    parsed = read(text)
    assert parsed.value is None
    (problem,) = parsed.problems
    assert problem.fatal
    return problem


def warned(text: str) -> tuple[Budget, Problem]:
    parsed = read(text)
    assert parsed.value is not None
    (problem,) = parsed.problems
    assert not problem.fatal
    return parsed.value, problem


def amounts(budget: Budget, scope: Scope = Scope.GLOBAL, scope_id: str = "") -> dict[str, int]:
    limits = budget.limits_for(scope, scope_id)
    return {f"{limit.window}_{limit.measure}": limit.amount for limit in limits}


def in_global(limits: str) -> str:
    return f"budgets:\n  global:\n    {limits}\n"


# --- numbers ------------------------------------------------------------------------------------


@pytest.mark.case("A26", "T21")
def test_zero_is_a_limit_and_null_is_none() -> None:
    assert amounts(accepted(in_global("daily_usd: 0"))) == {"daily_usd": 0}
    assert accepted(in_global("daily_usd: 0")).has_limits
    assert amounts(accepted(in_global("daily_usd: null"))) == {}
    assert amounts(accepted("budgets: {global: }")) == {}


@pytest.mark.case("A27")
@pytest.mark.parametrize(
    ("written", "nanos"),
    [
        ("5", 5 * USD),
        ('"5"', 5 * USD),
        ("'7.50'", 7_500_000_000),
        ("1_000", 1000 * USD),
        ("0.0018", 1_800_000),
        ("1e3", 1000 * USD),
        (".5", USD // 2),
        ("0.000000001", 1),
    ],
)
def test_a_number_may_be_text(written: str, nanos: int) -> None:
    assert amounts(accepted(in_global(f"daily_usd: {written}"))) == {"daily_usd": nanos}


@pytest.mark.case("A27")
@pytest.mark.parametrize("word", ["none", "unlimited", "null", "~", "", "None", '"unlimited"'])
def test_words_for_no_limit(word: str) -> None:
    budget = accepted(in_global(f"daily_usd: {word}\n    monthly_usd: 7"))
    assert amounts(budget) == {"monthly_usd": 7 * USD}


@pytest.mark.case("A27", "T22")
@pytest.mark.parametrize(
    ("written", "right"),
    [
        ('"$5"', "write the plain number: 5"),
        ("$5", "write the plain number: 5"),
        ("5 USD", "write the plain number: 5"),
        ("5,00", "write the decimal point as a dot: 5.00"),
        ("1,000", "write it without commas: 1000"),
        ("1,234,567.89", "write it without commas: 1234567.89"),
        ("007", "write it without a leading zero: 7"),
        ("true", "expected a number of dollars such as 5 or 7.50"),
        ("off", "expected a number of dollars such as 5 or 7.50"),
        (".nan", "expected a number of dollars"),
        ("nan", "expected a finite number of dollars"),
        (".inf", "expected a number of dollars"),
        ("inf", "expected a finite number of dollars"),
        ("1e400", "more than 1,000,000,000 dollars; check the decimal point"),
        ("1e-400", "round it to cents, or write 0 to allow nothing"),
        ("-1", "0 allows nothing, null means no limit"),
        ("[5]", "expected one number, such as daily_usd: 5"),
        ("{usd: 5}", "expected one number, such as daily_usd: 5"),
        ('"100%"', "expected a number of dollars"),
        ("1:30", "expected a number of dollars"),
        ("0x10", "expected a number of dollars"),
        ('""', "expected a number of dollars"),
        ("2026-11-30", "expected a number of dollars"),
    ],
)
def test_what_is_not_an_amount_is_refused_with_what_would_be_right(
    written: str, right: str
) -> None:
    problem = refused(in_global(f"monthly_usd: 9\n    daily_usd: {written}"))
    assert (problem.file, problem.line, problem.key) == (
        "budget.yaml",
        4,
        "budgets.global.daily_usd",
    )
    assert right in problem.message


def test_a_problem_reads_as_one_sentence() -> None:
    assert str(refused(in_global('daily_usd: "$5"'))) == (
        'budget.yaml:3: budgets.global.daily_usd: "$5" is not accepted: write the plain number: 5'
    )


@pytest.mark.parametrize(
    ("written", "right"),
    [
        ("1.5", "expected a whole number of calls such as 900"),
        ("900.0", "expected a whole number of calls such as 900"),
        ("2k", "expected a whole number of calls such as 900"),
        ("-3", "0 allows nothing"),
        ("9" * 30, "write none for no limit"),
        ("9" * 5000, "write none for no limit"),
        ("1,000", "write it without commas: 1000"),
    ],
)
def test_calls_and_tokens_are_whole_numbers(written: str, right: str) -> None:
    assert right in refused(in_global(f"daily_calls: {written}")).message
    assert amounts(accepted(in_global("daily_tokens: 1_000"))) == {"daily_tokens": 1000}


@pytest.mark.case("A27")
def test_a_comma_in_a_number_inside_braces_is_no_second_key() -> None:
    problem = refused("budgets:\n  global: {daily_usd: 5,00}")
    assert (problem.line, problem.key) == (2, "budgets.global.00")
    assert "write 5.00 or 1000, without commas" in problem.message


# --- keys ---------------------------------------------------------------------------------------


@pytest.mark.case("A28", "A29", "T28")
@pytest.mark.parametrize(
    "written",
    [
        *("012345670123", "20260907_210243_123456", "12306", "0x1F", "1e3", "12:30:45"),
        *("NO", "on", "off", "yes", "true", "null", "~", "2026-11-30", "3.10", ".5", "="),
    ],
)
def test_an_id_is_the_text_that_was_written(written: str) -> None:
    overrides = f"budgets: {{per_cron_job: {{overrides: {{{written}: {{daily_usd: 1}}}}}}}}"
    assert amounts(accepted(overrides), Scope.CRON_JOB, written) == {"daily_usd": USD}


@pytest.mark.case("A32", "T30")
@pytest.mark.parametrize(
    "scope_id",
    ["telegram:123456", "@alice", "🚀 nightly v1.2", "a.b.c", 'say "hi"', "\\", "x" * 5000, "<<"],
)
def test_ids_of_any_characters_in_quotes(scope_id: str) -> None:
    key = yaml.safe_dump(scope_id, allow_unicode=True, default_style='"', width=9999).strip()
    text = f"budgets:\n  per_sender:\n    overrides:\n      ? {key}\n      : {{daily_usd: 2}}\n"
    assert amounts(accepted(text), Scope.SENDER, scope_id) == {"daily_usd": 2 * USD}


@pytest.mark.case("A32")
def test_an_unquoted_at_sign_is_a_syntax_problem_with_a_hint() -> None:
    problem = refused("budgets:\n  per_sender:\n    overrides:\n      @alice: {daily_usd: 1}\n")
    assert problem.line == 4
    assert "put a text that begins with @ in quotes" in problem.message


@pytest.mark.case("A30")
@pytest.mark.parametrize(
    ("text", "key", "lines"),
    [
        (in_global("daily_usd: 5\n    daily_usd: 50"), "budgets.global.daily_usd", "lines 3 and 4"),
        ("budgets: {global: {daily_usd: 5, daily_usd: 50}}", "budgets.global.daily_usd", "line 1"),
        ("budgets: {}\ncron: {}\nbudgets: {}", "budgets", "lines 1 and 3"),
        (
            'budgets: {per_sender: {overrides: {1: {}, "1": {}}}}',
            "budgets.per_sender.overrides.1",
            "",
        ),
        ("runs:\n  a: 1\n  a: 2", "runs.a", "lines 2 and 3"),
    ],
)
def test_a_key_twice_names_both_lines(text: str, key: str, lines: str) -> None:
    problem = refused(text)
    assert problem.key == key
    assert lines in problem.message
    assert "keep the one you mean" in problem.message


@pytest.mark.case("A31", "T23")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (in_global("dayly_usd: 5"), "unknown key dayly_usd, did you mean daily_usd"),
        (in_global("daily_dollars: 5"), "unknown key daily_dollars, did you mean daily_"),
        ("budgets: {per_cronjob: {default: {daily_usd: 5}}}", "did you mean per_cron_job"),
        ("budgts: {global: {daily_usd: 5}}", "unknown key budgts, did you mean budgets"),
        ("Budgets: {global: {daily_usd: 5}}", "did you mean budgets"),
        ("global: {daily_usd: 5}", "it belongs under budgets"),
        ("daily_usd: 5", "a limit belongs under global, a default, or an id in overrides"),
        ("budgets: {daily_usd: 5}", "a limit belongs under global"),
        ("budgets: {per_sender: {daily_usd: 5}}", "a limit belongs under global, a default"),
        ("budgets: {per_sender: {alice: {daily_usd: 5}}}", "ids belong under overrides"),
        ("modle_gate: {enabled: false}", "did you mean model_gate"),
        ("thresholds: {soft: 0.5}", "did you mean soft_pct"),
        ("mode: observe", "unknown key mode"),
    ],
)
def test_an_unknown_key_is_said_and_the_rest_holds(text: str, said: str) -> None:
    budget, problem = warned(f"week_start: sunday\n{text}")
    assert said in problem.message
    assert budget.week_start == 6


# --- inheritance --------------------------------------------------------------------------------


@pytest.mark.case("T29")
def test_an_override_that_names_only_the_day_keeps_the_month() -> None:
    budget = accepted(
        "budgets:\n"
        "  per_cron_job:\n"
        "    default: {daily_usd: 1, monthly_usd: 20}\n"
        "    overrides:\n"
        "      day: {daily_usd: 3}\n"
        "      lifted: {daily_usd: null}\n"
        "      bare:\n"
    )
    assert amounts(budget, Scope.CRON_JOB, "day") == {"daily_usd": 3 * USD, "monthly_usd": 20 * USD}
    assert amounts(budget, Scope.CRON_JOB, "lifted") == {"monthly_usd": 20 * USD}
    assert amounts(budget, Scope.CRON_JOB, "bare") == amounts(budget, Scope.CRON_JOB, "other")


@pytest.mark.parametrize("word", ["null", "~", "none", "unlimited", "5"])
def test_an_id_without_a_mapping_is_refused(word: str) -> None:
    problem = refused(f"budgets: {{per_sender: {{overrides: {{alice: {word}}}}}}}")
    assert problem.key == "budgets.per_sender.overrides.alice"


def test_an_empty_id_is_refused() -> None:
    text = 'budgets: {per_sender: {overrides: {"": {daily_usd: 1}}}}'
    assert "an empty id matches nobody" in refused(text).message


def test_anchors_and_merges_mean_what_yaml_says_and_what_is_written_wins() -> None:
    budget = accepted(
        "budgets:\n"
        "  global: &all {daily_usd: 5, monthly_usd: 50}\n"
        "  per_sender: {default: *all}\n"
        "  per_profile:\n"
        "    default: {<<: *all, daily_usd: 1}\n"
        "    overrides: {a: {<<: [{daily_calls: 3}, *all]}}\n"
    )
    assert amounts(budget, Scope.SENDER, "x") == {"daily_usd": 5 * USD, "monthly_usd": 50 * USD}
    assert amounts(budget, Scope.PROFILE, "x") == {"daily_usd": USD, "monthly_usd": 50 * USD}
    assert amounts(budget, Scope.PROFILE, "a")["daily_calls"] == 3


def test_every_scope_window_and_measure_is_read() -> None:
    numbers = ", ".join(f"{key}: 3" for key in KEYS)
    text = f"budgets:\n  global: {{{numbers}}}\n" + "".join(
        f"  per_{scope}: {{default: {{{numbers}}}}}\n" for scope in Scope if scope != Scope.GLOBAL
    )
    budget = accepted(text)
    for scope in Scope:
        assert amounts(budget, scope, "" if scope is Scope.GLOBAL else "x").keys() == KEYS.keys()


# --- everything else ----------------------------------------------------------------------------


def test_every_other_section_is_read() -> None:
    budget = accepted(
        "timezone: Europe/Berlin\n"
        "week_start: Sunday\n"
        "thresholds: {soft_pct: [0.9, 0.5, 0.5], hard_pct: 0.95}\n"
        "on_estimated: {mode: enforce}\n"
        "on_unpriced: block\n"
        "model_gate: {enabled: off, reserve: no, wrap_up_calls: 2}\n"
        "cron: {pause: false, resume: manual}\n"
        'admins: ["telegram:123456", "slack:U 1", "telegram:123456"]\n'
        "ledger: {url: sqlite:///other.db, on_error: block}\n"
    )
    assert budget == Budget(
        timezone="Europe/Berlin",
        week_start=6,
        thresholds=Thresholds((0.5, 0.9), 0.95),
        on_estimated=OnEstimated.ENFORCE,
        on_unpriced=OnUnpriced.BLOCK,
        model_gate=ModelGate(enabled=False, reserve=False, wrap_up_calls=2),
        cron=CronPolicy(pause=False, resume=CronResume.MANUAL),
        ledger=LedgerPolicy("sqlite:///other.db", OnError.BLOCK),
        admins=("telegram:123456", "slack:U 1"),
    )


@pytest.mark.parametrize(
    ("text", "key", "right"),
    [
        ("timezone: Europe/Berln", "timezone", "did you mean Europe/Berlin"),
        ("timezone: berlin", "timezone", "did you mean Europe/Berlin"),
        ("timezone: New York", "timezone", "America/New_York"),
        ("timezone: ../../etc/passwd", "timezone", "time zone"),
        ("timezone: Europe", "timezone", "time zone"),
        (f"timezone: {'x' * 5000}", "timezone", "time zone"),
        ("timezone: [UTC]", "timezone", "expected a single value"),
        ("week_start: sundy", "week_start", "did you mean sunday"),
        ("week_start: 1", "week_start", "expected monday, tuesday"),
        ("thresholds: {soft_pct: 80}", "thresholds.soft_pct", "write 0.8 for 80 %"),
        ("thresholds: {soft_pct: 80%}", "thresholds.soft_pct", "write 0.8 for 80 %"),
        ("thresholds: {soft_pct: [0.5, 0]}", "thresholds.soft_pct", "above 0 and at most 1"),
        ("thresholds: {hard_pct: 1.1}", "thresholds.hard_pct", "above 0 and at most 1"),
        ("thresholds: {hard_pct: .nan}", "thresholds.hard_pct", "above 0 and at most 1"),
        ("thresholds: {hard_pct: 1e-999}", "thresholds.hard_pct", "above 0 and at most 1"),
        ("thresholds: 0.8", "thresholds", "expected a mapping such as {soft_pct: …}"),
        ("on_estimated: enforce", "on_estimated", "expected a mapping such as {mode: …}"),
        ("on_estimated: {mode: enforced}", "on_estimated.mode", "did you mean enforce"),
        ("on_unpriced: stop", "on_unpriced", "expected warn or block"),
        ("model_gate: {enabled: maybe}", "model_gate.enabled", "expected true or false"),
        ("model_gate: {wrap_up_calls: -1}", "model_gate.wrap_up_calls", "from 0 to 99"),
        ("cron: {resume: never}", "cron.resume", "expected auto or manual"),
        ("admins: [123456]", "admins", '"telegram:123456"'),
        ("admins: ['alice']", "admins", '"telegram:123456"'),
        ("admins: [telegram: 5]", "admins", '"telegram:123456"'),
        ("admins: telegram:5", "admins", 'expected a list, such as ["telegram:123456"]'),
        ("ledger: {url: sqlite://}", "ledger.url", "sqlite:///path/to/ledger.db"),
        ("ledger: {url: 'sqlite:///:memory:'}", "ledger.url", "sqlite:///path/to/ledger.db"),
        ("ledger: {url: mysql://h/db}", "ledger.url", "only SQLite in this version"),
        ("ledger: {on_error: ignore}", "ledger.on_error", "expected allow or block"),
        ("ledger: {keep_days: 30}", "ledger.keep_days", "expected at least 62"),
        ("ledger: {keep_days: 62.5}", "ledger.keep_days", "expected a whole number of days"),
        ("ledger: {keep_days: -1}", "ledger.keep_days", "expected a whole number of days"),
        ("ledger: {keep_days: forever}", "ledger.keep_days", "leave it out to keep every call"),
        ("budgets: 5", "budgets", "expected a mapping such as {global: …}"),
        ("budgets: {global: 5}", "budgets.global", "expected limits such as {daily_usd: 5.00}"),
        ("budgets: {global: [daily_usd: 5]}", "budgets.global", "expected limits"),
        ("budgets: {per_sender: {overrides: [a]}}", "budgets.per_sender.overrides", "expected ids"),
    ],
)
def test_a_wrong_setting_is_refused_with_what_would_be_right(
    text: str, key: str, right: str
) -> None:
    problem = refused(text)
    assert problem.key == key
    assert right in problem.message


@pytest.mark.parametrize("host", ["host", "[host", "host\u2100", ""])
def test_a_refused_url_does_not_repeat_its_password(host: str) -> None:
    problem = refused(f"ledger: {{url: 'postgresql://user:hunter2@{host}/db'}}")
    assert problem.line == 1
    assert "postgresql://… is not supported" in problem.message
    assert "hunter2" not in str(problem)


def test_all_problems_of_a_file_are_named_at_once_with_their_lines() -> None:
    parsed = read("timezone: Mars\nadmins: [1]\nrunz: {}\nbudgets:\n  global: {daily_usd: x}\n")
    assert parsed.value is None
    assert [problem.line for problem in parsed.problems] == [1, 2, 3, 5]


# --- files that are no budget -------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "\n", "# only words\n", "---\n", "null\n", "{}", "\ufeff{}"])
def test_an_empty_file_limits_nothing(text: str) -> None:
    assert accepted(text) == Budget()


@pytest.mark.case("T23")
@pytest.mark.parametrize(
    ("data", "line", "said"),
    [
        (b"- daily_usd: 5\n", 1, "expected keys at top level"),
        (b"daily\n", 1, "expected keys at top level"),
        (b"cron:\n\tpause: true\n", 2, "indent with spaces, not with tabs"),
        (b"budgets: {global: {daily_usd: 5}\ncron: {}\n", 2, "not valid YAML"),
        (b"cron: {}\n---\ncron: {}\n", 2, "a second document begins here"),
        (b"a: *nobody\n", 1, "is not defined above"),
        (b"cron: {}\na: &a\n  b: *a\n", 3, "contains itself"),
        (b"cron: {}\na: !!python/object/apply:os.system [ls]\n", 2, "remove the tag"),
        (b"budgets: {global: {daily_usd: !!str 5}}\n", 1, "remove the tag"),
        (b"a: 1\nb: \xff\n", 2, "is not UTF-8 text"),
        ("a: 1\n".encode("utf-16"), 1, "is not UTF-8 text"),
        (b"a: 1\nb: \x00\n", 2, "U+0000"),
        (b"? [a, b]\n: 1\n", 1, "a key must be one text"),
        (b"<<: 5\n", 1, "expected an alias of a mapping"),
    ],
)
def test_a_malformed_file_is_refused_with_its_line(data: bytes, line: int, said: str) -> None:
    parsed = parse_budget(data, "budget.yaml")
    assert parsed.value is None
    (problem,) = parsed.problems
    assert problem.line == line
    assert said in problem.message


@pytest.mark.parametrize("data", [b"[" * 100_000, b"{a: " * 100_000, b"- " * 100_000])
def test_nesting_that_would_crash_the_loader_is_refused(data: bytes) -> None:
    (problem,) = parse_budget(data, "budget.yaml").problems
    assert "nested too deeply" in problem.message


def test_a_huge_file_is_refused_unread() -> None:
    (problem,) = parse_budget(b"#" * (MAX_BYTES + 1), "budget.yaml").problems
    assert "more than 1 MiB" in problem.message


def test_a_bomb_of_merges_is_refused() -> None:
    base = ", ".join(f"k{n}: 1" for n in range(1000))
    bomb = "\n".join(f"m{n}: {{<<: *a}}" for n in range(1000))
    (problem,) = read(f"a: &a {{{base}}}\n{bomb}\n").problems
    assert "<< brings in over 10,000 keys" in problem.message


def test_a_bucket_that_many_ids_share_is_read_and_told_once() -> None:
    ids = ", ".join(f"i{n}: *shared" for n in range(30_000))
    text = f"budgets: {{per_sender: {{default: &shared {{daily_usd: x}}, overrides: {{{ids}}}}}}}"
    assert len(read(text).problems) == 2


def test_endless_problems_end() -> None:
    parsed = read("".join(f"budgets{n}: 1\n" for n in range(5000)))
    assert len(parsed.problems) == MAX_PROBLEMS + 1
    assert parsed.value is None
    assert "more than 50 problems" in parsed.problems[-1].message


def test_a_problem_stays_on_one_line_and_short() -> None:
    problem = refused(in_global(f'daily_usd: "\\n\\e[31m{"x" * 9000}"'))
    assert "\n" not in str(problem)
    assert "\x1b" not in str(problem)
    assert len(str(problem)) < 300


def test_without_the_c_loader_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = [
        in_global("daily_usd: 5"),
        in_global("a: 1\n    a: 2"),
        "a: \x01",
        "@a: 1",
        "[" * 99,
    ]
    with_c = [read(text) for text in documents]
    monkeypatch.delattr(yaml, "CSafeLoader")
    without = [read(text) for text in documents]
    assert [p.value for p in without] == [p.value for p in with_c]
    assert [[q.line for q in p.problems] for p in without] == [
        [q.line for q in p.problems] for p in with_c
    ]


# --- the file in force --------------------------------------------------------------------------


@pytest.mark.case("T31")
def test_without_a_file_nothing_is_limited_and_none_is_written(tmp_path: Path) -> None:
    file = BudgetFile(tmp_path / "budget" / "budget.yaml")
    assert file.current() == Budget()
    assert not file.current().has_limits
    assert list(tmp_path.glob("budget*")) == []


@pytest.mark.case("A31", "T23")
def test_a_misspelt_edit_does_not_take_away_a_limit_that_was_in_force(tmp_path: Path) -> None:
    path = tmp_path / "budget.yaml"
    path.write_text("budgets: {global: {daily_usd: 5, monthly_usd: 50}}")
    file = BudgetFile(path)
    before = file.current()

    path.write_text("budgets: {global: {dayly_usd: 4, monthly_usd: 50}}")

    assert file.current() == before
    assert [problem.key for problem in file.problems] == [
        "budgets.global.dayly_usd",
        "budgets.global.daily_usd",
    ]
    assert "correct that" in file.problems[1].message


@pytest.mark.case("A31")
def test_on_the_first_load_what_was_understood_holds(tmp_path: Path) -> None:
    path = tmp_path / "budget.yaml"
    path.write_text("budgets: {global: {dayly_usd: 4, monthly_usd: 50}}")
    file = BudgetFile(path)
    assert amounts(file.current()) == {"monthly_usd": 50 * USD}
    path.write_text("budgets: {global: {dayly_usd: 4, monthly_usd: 30, hourly_usd: 1}}")
    assert amounts(file.current()) == {"hourly_usd": USD, "monthly_usd": 30 * USD}


def test_a_limit_that_is_removed_on_purpose_goes(tmp_path: Path) -> None:
    path = tmp_path / "budget.yaml"
    file = BudgetFile(path)
    path.write_text("runs: {}\nbudgets: {per_sender: {overrides: {a: {daily_usd: 5}}}}")
    assert file.current().has_limits
    path.write_text("runs: {}\nfuture: {}\nbudgets: {}")
    assert not file.current().has_limits


# --- the example --------------------------------------------------------------------------------


@pytest.mark.case("T31")
def test_the_example_loads_without_a_problem_and_limits_nothing() -> None:
    assert accepted(resource("budget.yaml.example").read_text("utf-8")) == Budget()


def test_the_example_with_everything_taken_in_names_every_key() -> None:
    example = resource("budget.yaml.example").read_text("utf-8")
    keys = re.compile(r'# ((?: *)(?:- "|"?[\w./:-]+"?:(?: |$)))')
    text = "\n".join(
        keys.sub(r"\1", line, count=1) for line in example.splitlines() if keys.match(line)
    )
    budget = accepted(text)
    assert all(budget.scopes[scope] for scope in Scope)
    for section in ("timezone", "week_start", "soft_pct", "hard_pct", "mode", "on_unpriced"):
        assert f"{section}:" in text
    for key in ("enabled", "reserve", "wrap_up_calls", "pause", "resume", "admins", "url"):
        assert f"{key}:" in text

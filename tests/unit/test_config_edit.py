"""`set` and `unset` change one value of budget.yaml, or leave the file exactly as it was."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from budget_plugin.policy.limits import KEYS, SCOPES, Measure, Scope
from budget_plugin.policy.money import AmountError
from budget_plugin.store.files import config_edit
from budget_plugin.store.files.config import parse_budget
from budget_plugin.store.files.config_edit import (
    Change,
    ConfigRefused,
    parse_amount,
    set_limit,
    unset_limit,
)

USD = 1_000_000_000
DAY, MONTH = KEYS["daily_usd"], KEYS["monthly_usd"]

COMMENTED = """\
# The family's budgets – last looked at in November
timezone:   Europe/Berlin      # where we live
future_key: [1,   2,
   3]

budgets:
  # everything
  global:        {daily_usd: 5.00, monthly_usd: "100"}   # agreed on Monday
  per_profile:
      default:
          daily_usd: 1.00      # small
          # a month is not limited

      overrides:
          "日本語 プロファイル":
              monthly_usd: 40
          NO: {daily_usd: 012345.5}
  # the end of the budgets

# nobody else
admins: ["telegram:123456"]
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "budget" / "budget.yaml"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text.encode())
    return path


def limit(path: Path, scope: Scope, scope_id: str, key: object = DAY) -> int | None:
    budget = parse_budget(path.read_bytes(), str(path)).value
    assert budget is not None
    found = [
        x.amount
        for x in budget.limits_for(scope, scope_id)
        if KEYS[f"{x.window}_{x.measure}"] == key
    ]
    return found[0] if found else None


def changed_lines(before: str, after: str) -> tuple[list[str], list[str]]:
    old, new = before.splitlines(), after.splitlines()
    return [line for line in old if line not in new], [line for line in new if line not in old]


# --- what is written ----------------------------------------------------------------------------


@pytest.mark.case("A33", "T25")
def test_only_the_value_changes(path: Path) -> None:
    write(path, COMMENTED)
    change = set_limit(path, Scope.GLOBAL, "", DAY, 7_500_000_000)
    assert path.read_text("utf-8") == COMMENTED.replace("daily_usd: 5.00", "daily_usd: 7.50")
    assert change == Change(
        Scope.GLOBAL, "", DAY, 5 * USD, 7_500_000_000, "budgets.global.daily_usd"
    )


@pytest.mark.case("A33", "T25")
@pytest.mark.parametrize(
    ("scope", "scope_id", "key", "added"),
    [
        (Scope.PROFILE, "", MONTH, ["          monthly_usd: 3"]),
        (Scope.PROFILE, "日本語 プロファイル", DAY, ["              daily_usd: 3"]),
        (Scope.PROFILE, "new", DAY, ['          "new":', "            daily_usd: 3"]),
        (Scope.SENDER, "", DAY, ["  per_sender:", "    default:", "      daily_usd: 3"]),
    ],
)
def test_what_is_new_is_added_and_nothing_else_moves(
    path: Path, scope: Scope, scope_id: str, key: object, added: list[str]
) -> None:
    write(path, COMMENTED)
    set_limit(path, scope, scope_id, key, 3 * USD)  # type: ignore[arg-type]
    text = path.read_text("utf-8")
    assert changed_lines(COMMENTED, text) == ([], added)
    assert limit(path, scope, scope_id or "anyone", key) == 3 * USD


@pytest.mark.case("A33")
def test_inside_braces_it_stays_inside_braces(path: Path) -> None:
    write(path, COMMENTED)
    set_limit(path, Scope.GLOBAL, "", KEYS["daily_calls"], 900)
    set_limit(path, Scope.PROFILE, "NO", MONTH, 0)
    text = path.read_text("utf-8")
    assert (
        '  global:        {daily_usd: 5.00, monthly_usd: "100", daily_calls: 900}   # agreed'
        in text
    )
    assert "NO: {daily_usd: 012345.5, monthly_usd: 0}" in text


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "    daily_usd: 3"),
        ("# nothing yet", "    daily_usd: 3"),
        ("budgets:   # none\n# later: x\ncron: {}\n", "    daily_usd: 3"),
        ("budgets: {}\n", "budgets: {global: {daily_usd: 3}}"),
        ("budgets: null # none\n", "    daily_usd: 3"),
        ("budgets: {global: }\n", "budgets: {global: {daily_usd: 3}}"),
        (
            "budgets: {global: {daily_calls: 1,}}\n",
            "budgets: {global: {daily_calls: 1, daily_usd: 3,}}",
        ),
        ("budgets:\n  global:\n    daily_usd:   # open\n", "    daily_usd: 3   # open"),
        ("budgets:\n  global:\n    daily_usd: ~\n", "    daily_usd: 3"),
        (
            "budgets:\n  global:\n    daily_usd: |\n      5\n    daily_calls: 2\n",
            "    daily_usd: 3",
        ),
        ("budgets:\n  global:\n    daily_usd: '5'", "    daily_usd: 3"),
        ("a: &a {daily_usd: 1}\nbudgets:\n  global:\n    <<: *a\n", "    daily_usd: 3"),
        ("a: &a 1\nbudgets:\n  global:\n    daily_usd: *a\n", "    daily_usd: 3"),
    ],
)
def test_every_way_to_write_a_place(path: Path, text: str, line: str) -> None:
    write(path, text)
    set_limit(path, Scope.GLOBAL, "", DAY, 3 * USD)
    assert line in path.read_text("utf-8").splitlines()
    assert limit(path, Scope.GLOBAL, "") == 3 * USD


def test_line_ends_and_byte_order_mark_stay(path: Path) -> None:
    write(path, "\ufeff# c\r\nbudgets:\r\n  global:\r\n    daily_usd: 5\r\n")
    set_limit(path, Scope.GLOBAL, "", MONTH, 3 * USD)
    assert path.read_bytes().decode() == (
        "\ufeff# c\r\nbudgets:\r\n  global:\r\n    daily_usd: 5\r\n    monthly_usd: 3\r\n"
    )


@pytest.mark.parametrize(
    ("key", "amount", "written"),
    [
        ("daily_usd", 3 * USD, "3"),
        ("daily_usd", 0, "0"),
        ("daily_usd", 7_500_000_000, "7.50"),
        ("daily_usd", 1_800_000, "0.0018"),
        ("daily_usd", 123_456_789_123_456_789, "123456789.123456789"),
        ("daily_usd", None, "null"),
        ("daily_calls", 900, "900"),
        ("total_tokens", 10**9, "1000000000"),
    ],
)
def test_amounts_are_written_as_a_person_would(
    path: Path, key: str, amount: int | None, written: str
) -> None:
    change = set_limit(path, Scope.GLOBAL, "", KEYS[key], amount)
    assert f"    {key}: {written}\n" in path.read_text("utf-8")
    assert change.after == amount


@pytest.mark.case("A32", "T30")
@pytest.mark.parametrize(
    "scope_id",
    [
        *("telegram:123456", "@alice", "🚀 nightly v1.2", "a.b.c", 'say "hi" \\', "it's", " edge "),
        *("012345670123", "NO", "null", "~", "<<", "- a", "# b", "{x}", "? y", "*z", "&w", "!v"),
        *("x" * 5000, "é" * 1500, "two\nlines\ttab", "\u2028\u0085\u200b\x7f\x01", "日本"),
    ],
)
@pytest.mark.parametrize("start", ["", "budgets: {per_sender: {default: {daily_usd: 9}}}"])
def test_any_id_can_be_set_changed_and_unset(path: Path, scope_id: str, start: str) -> None:
    write(path, start)
    before = limit(path, Scope.SENDER, scope_id)
    assert set_limit(path, Scope.SENDER, scope_id, DAY, 2 * USD).before == before
    assert limit(path, Scope.SENDER, scope_id) == 2 * USD
    assert set_limit(path, Scope.SENDER, scope_id, DAY, 3 * USD).before == 2 * USD
    assert unset_limit(path, Scope.SENDER, scope_id, DAY).after == before
    assert limit(path, Scope.SENDER, scope_id) == before


def test_every_scope_and_key_is_set_and_unset(path: Path) -> None:
    for scope, kind in SCOPES.items():
        for scope_id in ("", "some id") if kind.takes_id else ("",):
            for key in KEYS.values():
                amount = 3 * USD if key.measure is Measure.USD else 3
                set_limit(path, scope, scope_id, key, amount)
                assert limit(path, scope, scope_id or ("x" if kind.takes_id else ""), key) == amount
                unset_limit(path, scope, scope_id, key)
    budget = parse_budget(path.read_bytes(), "").value
    assert budget is not None
    assert not budget.has_limits


# --- what it answers ----------------------------------------------------------------------------


@pytest.mark.case("T20", "T29")
def test_an_override_is_changed_by_its_own_id_and_inherits_again_when_unset(path: Path) -> None:
    write(
        path, "budgets: {per_cron_job: {default: {daily_usd: 1}, overrides: {a: {daily_usd: 3}}}}"
    )
    assert set_limit(path, Scope.CRON_JOB, "", DAY, 2 * USD).before == USD
    assert limit(path, Scope.CRON_JOB, "a") == 3 * USD
    change = set_limit(path, Scope.CRON_JOB, "a", DAY, 9 * USD)
    assert (change.before, change.after) == (3 * USD, 9 * USD)
    assert limit(path, Scope.CRON_JOB, "other") == 2 * USD
    assert unset_limit(path, Scope.CRON_JOB, "a", DAY).after == 2 * USD
    lifted = set_limit(path, Scope.CRON_JOB, "a", DAY, None)
    assert (lifted.before, lifted.after) == (2 * USD, None)
    assert limit(path, Scope.CRON_JOB, "a") is None


@pytest.mark.case("T21")
def test_zero_is_written_and_allows_nothing(path: Path) -> None:
    set_limit(path, Scope.GLOBAL, "", DAY, 0)
    assert limit(path, Scope.GLOBAL, "") == 0


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (
            "budgets:\n  global:\n    daily_usd: 5  # d\n    # month\n    monthly_usd: 9\n",
            "budgets:\n  global:\n    # month\n    monthly_usd: 9\n",
        ),
        ("budgets: {global: {daily_usd: 5}}\n", "budgets: {global: {}}\n"),
        (
            "budgets: {global: {daily_usd: 5, monthly_usd: 9}}",
            "budgets: {global: {monthly_usd: 9}}",
        ),
        (
            "budgets: {global: {monthly_usd: 9, daily_usd: 5}}",
            "budgets: {global: {monthly_usd: 9}}",
        ),
        ("budgets:\n  global:\n    daily_usd: 5\n# after\n", "budgets:\n  global:\n# after\n"),
        ("budgets:\n  global:\n    daily_usd: 5", "budgets:\n  global:\n"),
    ],
)
def test_unset_takes_one_entry_away(path: Path, text: str, left: str) -> None:
    write(path, text)
    change = unset_limit(path, Scope.GLOBAL, "", DAY)
    assert (change.before, change.after) == (5 * USD, None)
    assert path.read_text("utf-8") == left


def test_unset_of_what_is_not_there_touches_nothing(path: Path) -> None:
    assert unset_limit(path, Scope.GLOBAL, "", DAY).before is None
    assert not path.parent.exists()
    write(path, COMMENTED)
    unset_limit(path, Scope.MODEL, "gpt-4.1", DAY)
    assert path.read_text("utf-8") == COMMENTED


# --- what it refuses ----------------------------------------------------------------------------


@pytest.mark.case("T24")
@pytest.mark.parametrize(
    "text",
    [
        "budgets: {global: {daily_usd: 5}",
        "- a list\n",
        "budgets:\n\tglobal: 5\n",
        "budgets: {global: {daily_usd: $5}}",
        "budgets: {global: {daily_usd: 5, daily_usd: 6}}",
    ],
)
def test_a_file_that_is_not_understood_is_left_as_it_is(path: Path, text: str) -> None:
    write(path, text)
    for edit in (
        lambda: set_limit(path, Scope.GLOBAL, "", DAY, USD),
        lambda: unset_limit(path, Scope.GLOBAL, "", DAY),
    ):
        with pytest.raises(ConfigRefused, match="correct it first") as refusal:
            edit()
        assert refusal.value.problems[0].fatal
    assert path.read_text("utf-8") == text


def test_global_takes_no_id(path: Path) -> None:
    with pytest.raises(ConfigRefused, match="global takes no id; leave out bob"):
        set_limit(path, Scope.GLOBAL, "bob", DAY, USD)
    assert not path.exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: &a {daily_usd: 1}\nbudgets: {global: *a}\n", "is an alias"),
        (
            "budgets:\n  global: {daily_usd: &n 1}\n  per_model: {default: {daily_usd: *n}}\n",
            "edit it by hand",
        ),
        ("budgets:\n  global: &a {daily_usd: 1}\n  per_sender: {default: *a}\n", "edit it by hand"),
    ],
)
def test_a_value_that_others_share_is_not_changed_for_all(path: Path, text: str, said: str) -> None:
    write(path, text)
    with pytest.raises(ConfigRefused, match=said):
        set_limit(path, Scope.GLOBAL, "", DAY, 7 * USD)
    assert path.read_text("utf-8") == text


def test_an_inherited_merge_cannot_be_unset(path: Path) -> None:
    text = "a: &a {daily_usd: 1}\nbudgets:\n  global:\n    <<: *a\n    daily_usd: 2\n"
    write(path, text)
    with pytest.raises(ConfigRefused, match="edit it by hand"):
        unset_limit(path, Scope.GLOBAL, "", DAY)
    assert path.read_text("utf-8") == text


def test_beside_a_misspelt_key_a_limit_is_set_but_not_removed(path: Path) -> None:
    text = "budgets: {global: {dayly_calls: 5, daily_usd: 5}}"
    write(path, text)
    with pytest.raises(ConfigRefused, match="set the limit to none") as refusal:
        unset_limit(path, Scope.GLOBAL, "", DAY)
    assert refusal.value.problems[0].key == "budgets.global.dayly_calls"
    assert path.read_text("utf-8") == text
    assert set_limit(path, Scope.GLOBAL, "", DAY, None).after is None


def test_a_change_that_would_not_mean_what_was_asked_is_not_kept(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(path, COMMENTED)
    monkeypatch.setattr(config_edit, "put", lambda text, *_: text.replace("5.00", "50.0"))
    with pytest.raises(ConfigRefused, match="edit it by hand"):
        set_limit(path, Scope.GLOBAL, "", DAY, 7 * USD)
    assert path.read_text("utf-8") == COMMENTED


# --- the file -----------------------------------------------------------------------------------


def test_a_missing_file_and_folder_are_made_for_their_owner_only(path: Path) -> None:
    set_limit(path, Scope.GLOBAL, "", DAY, USD)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert path.read_text("utf-8").startswith("# ")


def test_the_mode_is_kept(path: Path) -> None:
    write(path, COMMENTED).chmod(0o640)
    set_limit(path, Scope.GLOBAL, "", DAY, USD)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_symlink_stays_one_and_its_target_is_changed(path: Path, tmp_path: Path) -> None:
    target = write(tmp_path / "dotfiles" / "limits.yaml", COMMENTED)
    path.parent.mkdir()
    path.symlink_to(target)
    set_limit(path, Scope.GLOBAL, "", DAY, USD)
    assert path.is_symlink()
    assert limit(target, Scope.GLOBAL, "") == USD


@pytest.mark.case("A33")
def test_a_crash_before_the_rename_leaves_the_old_file_whole(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(path, COMMENTED)

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", crash)
    with pytest.raises(KeyboardInterrupt):
        set_limit(path, Scope.GLOBAL, "", DAY, USD)
    assert path.read_text("utf-8") == COMMENTED
    assert sorted(p.name for p in path.parent.iterdir()) == ["budget.yaml", "budget.yaml.lock"]


def test_a_disk_that_refuses_is_a_refusal(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(path, COMMENTED)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigRefused, match="No space left on device"):
        set_limit(path, Scope.GLOBAL, "", DAY, USD)
    assert path.read_text("utf-8") == COMMENTED


WRITER = """
import sys
from pathlib import Path
from budget_plugin.policy.limits import (KEYS, Scope)
from budget_plugin.store.files import config_edit
config_edit._HAS_FLOCK = sys.argv[3] == "flock"
path, name = Path(sys.argv[1]), sys.argv[2]
for n in range(50):
    config_edit.set_limit(path, Scope.SENDER, f"{name}.{n}", KEYS["daily_calls"], n)
"""


@pytest.mark.case("T26")
@pytest.mark.parametrize("lock", ["flock", "exclusive file"])
def test_four_processes_lose_nothing(path: Path, lock: str) -> None:
    root = str(Path(config_edit.__file__).parents[2])
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), name, lock],
            cwd=root,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in ("a", "b", "c", "d")
    ]
    for writer in writers:
        _, said = writer.communicate()
        assert writer.returncode == 0, said
    budget = parse_budget(path.read_bytes(), str(path)).value
    assert budget is not None
    overrides = budget.scopes[Scope.SENDER].overrides
    assert len(overrides) == 200
    assert all(
        overrides[f"{name}.{n}"] == {KEYS["daily_calls"]: n} for name in "abcd" for n in range(50)
    )
    assert not list(path.parent.glob(".*.tmp"))


@pytest.mark.parametrize("has_flock", [True, False])
def test_a_lock_that_another_keeps_is_not_waited_for_for_ever(
    path: Path, monkeypatch: pytest.MonkeyPatch, *, has_flock: bool
) -> None:
    write(path, COMMENTED)
    monkeypatch.setattr(config_edit, "_HAS_FLOCK", has_flock)
    monkeypatch.setattr(config_edit, "LOCK_WAIT_S", 0.0)
    take = config_edit._take_flock if has_flock else config_edit._take_exclusive_file
    release = take(path.with_name("budget.yaml.lock"))
    assert release is not None
    with pytest.raises(ConfigRefused, match=r"another writer has held .*budget\.yaml\.lock"):
        set_limit(path, Scope.GLOBAL, "", DAY, USD)
    assert path.read_text("utf-8") == COMMENTED
    release()
    assert set_limit(path, Scope.GLOBAL, "", DAY, USD).after == USD


def test_a_lock_file_left_behind_by_a_crash_is_taken_over(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config_edit, "_HAS_FLOCK", False)
    lock = write(path.with_name("budget.yaml.lock"), "")
    long_ago = time.time() - 10 * config_edit.STALE_LOCK_S
    os.utime(lock, (long_ago, long_ago))
    set_limit(path, Scope.GLOBAL, "", DAY, USD)
    assert not lock.exists()


# --- amounts in commands ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "measure", "amount"),
    [
        ("7.50", Measure.USD, 7_500_000_000),
        (" 0 ", Measure.USD, 0),
        ("900 calls", Measure.CALLS, 900),
        ("1 call", Measure.CALLS, 1),
        ("200000 tokens", Measure.TOKENS, 200_000),
        ("200_000Tokens", Measure.TOKENS, 200_000),
        ("none", Measure.USD, None),
        ("unlimited calls", Measure.CALLS, None),
    ],
)
def test_an_amount_says_what_it_counts(text: str, measure: Measure, amount: int | None) -> None:
    assert parse_amount(text) == (measure, amount)


def test_a_bare_number_counts_what_the_caller_says() -> None:
    assert parse_amount("900", Measure.CALLS) == (Measure.CALLS, 900)


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("$5", "write the plain number: 5"),
        ("5,00", "5.00"),
        ("-1", "cannot be negative"),
        ("", "7.50, 900 calls or 200000 tokens"),
        ("calls", "expected a number of dollars"),
        ("1.5 calls", "whole number of calls"),
        ("lots", "expected a number of dollars"),
        ("9 9 calls", "whole number of calls"),
    ],
)
def test_an_amount_that_is_none_says_what_would_be_right(text: str, right: str) -> None:
    with pytest.raises(AmountError, match=right):
        parse_amount(text)

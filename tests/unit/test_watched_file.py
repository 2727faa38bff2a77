"""A watched file costs one stat while it is unchanged, and no fault of it reaches the caller."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from budget_plugin.policy.limits import Budget
from budget_plugin.store.files.config import BudgetFile
from budget_plugin.store.files.watched_file import Parsed, WatchedFile

GOOD = "budgets: {global: {daily_usd: 5}}"
BETTER = "budgets: {global: {daily_usd: 2.5}}"
BAD = "budgets: {global: {daily_usd: five}}"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "budget.yaml"


class Disk:
    """Counts how often one path is looked at and opened."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = path
        self.stats = self.reads = 0
        self._stat: Callable[..., Any] = os.stat
        self._read: Callable[..., bytes] = Path.read_bytes
        monkeypatch.setattr(os, "stat", self._counted_stat)
        disk = self

        def read_bytes(path: Path) -> bytes:
            disk.reads += path == disk.path
            return disk._read(path)

        monkeypatch.setattr(Path, "read_bytes", read_bytes)

    def _counted_stat(self, path: Any, *args: Any, **kwargs: Any) -> Any:
        self.stats += path in (self.path, str(self.path))
        return self._stat(path, *args, **kwargs)


def daily(budget: Budget) -> int | None:
    return next(
        (limit.amount for scope in budget.scopes for limit in budget.limits_for(scope, "")), None
    )


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]


def test_an_unchanged_file_costs_one_stat_and_no_open(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_text(GOOD)
    file = BudgetFile(path)
    first = file.current()
    disk = Disk(path, monkeypatch)
    for _ in range(10):
        assert file.current() is first
    assert (disk.stats, disk.reads) == (10, 0)


@pytest.mark.case("T27")
def test_a_changed_file_is_read_once_at_the_next_look(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_text(GOOD)
    file = BudgetFile(path)
    file.current()
    generation = file.generation
    path.write_text(BETTER)
    disk = Disk(path, monkeypatch)
    assert [daily(file.current()) for _ in range(3)] == [2_500_000_000] * 3
    assert (disk.stats, disk.reads) == (3, 1)
    assert file.generation == generation + 1


def test_a_missing_file_is_remembered_and_found_only_when_looked_for(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = BudgetFile(path)
    assert file.current(look_again=False) == Budget()
    assert file.missing
    path.write_text(GOOD)
    disk = Disk(path, monkeypatch)
    assert file.current(look_again=False) == Budget()
    assert (disk.stats, disk.reads) == (0, 0)
    assert daily(file.current()) == 5_000_000_000
    assert not file.missing


def test_a_file_that_goes_away_takes_its_limits_along(path: Path) -> None:
    path.write_text(GOOD)
    file = BudgetFile(path)
    assert file.current().has_limits
    path.unlink()
    assert file.current() == Budget()
    assert file.problems == ()


@pytest.mark.case("T23")
@pytest.mark.parametrize("text", [BAD, "- a list\n", "budgets: {", "a: 1\na: 2\n", "\x00"])
def test_a_malformed_file_leaves_the_last_good_limits_in_force(path: Path, text: str) -> None:
    path.write_text(GOOD)
    file = BudgetFile(path)
    before = file.current()
    path.write_text(text)
    assert file.current() == before
    assert file.problems
    path.write_text(BETTER)
    assert daily(file.current()) == 2_500_000_000
    assert file.problems == ()


def test_a_file_that_was_never_good_limits_nothing(path: Path) -> None:
    path.write_text(BAD)
    file = BudgetFile(path)
    assert file.current() == Budget()
    assert [problem.key for problem in file.problems] == ["budgets.global.daily_usd"]


def test_a_failure_is_remembered_until_the_file_changes(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_text(BAD)
    file = BudgetFile(path)
    disk = Disk(path, monkeypatch)
    for _ in range(5):
        file.current()
    assert disk.reads == 1


def test_a_streak_of_failures_warns_once(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    path.write_text(GOOD)
    file = BudgetFile(path)
    file.current()
    for text in (BAD, BAD + " ", BAD + "  "):
        path.write_text(text)
        file.current()
    assert len(warnings(caplog)) == 1
    assert warnings(caplog)[0].startswith(f"{path}:1: budgets.global.daily_usd: ")
    assert warnings(caplog)[0].endswith("what was in force before stays so")
    assert len([r for r in caplog.records if r.levelno == logging.DEBUG]) == 2

    path.write_text(GOOD)
    file.current()
    path.write_text(BAD)
    file.current()
    assert len(warnings(caplog)) == 2


def test_a_warning_does_not_say_that_old_settings_hold(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path.write_text(f"{GOOD}\nsoup: {{}}\n")
    assert BudgetFile(path).current().has_limits
    assert warnings(caplog) == [f"{path}:2: soup: unknown key soup; ignored"]


def test_a_yaml_library_that_cannot_be_imported_is_a_problem_of_the_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_text(GOOD)
    monkeypatch.setitem(sys.modules, "yaml", None)
    file = BudgetFile(path)
    assert file.current() == Budget()
    assert "yaml" in file.problems[0].message
    monkeypatch.undo()
    path.write_text(BETTER)
    assert daily(file.current()) == 2_500_000_000


def test_a_parser_that_raises_is_a_problem_of_the_file(path: Path) -> None:
    path.write_text("x")

    def parse(data: bytes) -> Parsed[str]:
        raise RuntimeError(f"no {data.decode()}")

    file = WatchedFile(path, parse, "default")
    assert file.current() == "default"
    assert file.problems[0].message == "cannot be read: no x"


def test_a_path_that_cannot_be_looked_at_is_a_problem_and_keeps_the_limits(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_text(GOOD)
    file = BudgetFile(path)
    before = file.current()

    def denied(*_: object, **__: object) -> os.stat_result:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "stat", denied)
    assert file.current() == before
    assert "cannot be looked at: " in file.problems[0].message
    assert "Permission denied" in file.problems[0].message
    monkeypatch.undo()
    assert file.current() == before
    assert file.problems == ()


def test_a_path_below_a_file_and_a_folder_in_its_place_are_problems(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "file" / "budget.yaml", tmp_path / "folder", tmp_path / "a\0b"):
        file = BudgetFile(path)
        assert file.current() == Budget()
        assert file.problems


def test_a_change_during_the_read_is_seen_by_the_next_look(path: Path) -> None:
    path.write_text("one")

    def parse(data: bytes) -> Parsed[str]:
        if data == b"one":
            path.write_text("second")
        return Parsed(data.decode())

    file = WatchedFile(path, parse, "")
    assert [file.current(), file.current()] == ["one", "second"]


def test_reload_reads_again_what_has_not_changed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_text(GOOD)
    file = BudgetFile(path)
    file.current()
    generation = file.generation
    disk = Disk(path, monkeypatch)
    assert daily(file.reload()) == 5_000_000_000
    assert disk.reads == 1
    assert file.generation == generation + 1

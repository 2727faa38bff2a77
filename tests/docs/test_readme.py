"""The README is what the program does: its commands run, its tables are complete."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from budget_plugin.commands.catalogue import COMMANDS
from budget_plugin.policy.limits import SCOPES
from budget_plugin.policy.windows import Window
from budget_plugin.store.files.config import parse_budget
from budget_plugin.testing import FakeClock, make_engine, spend

REPO = Path(__file__).resolve().parents[2]
README = (REPO / "README.md").read_text(encoding="utf-8")
DAY_MS = 86_400_000
DOCS = README + "".join(p.read_text(encoding="utf-8") for p in (REPO / "docs").glob("*.md"))


def section(title: str) -> str:
    return README.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def indented(text: str) -> list[str]:
    """The commands of a section: its lines indented by four, without what is said beside them."""
    lines = [
        line[4:].partition("  #")[0].strip() for line in text.splitlines() if line[:4] == "    "
    ]
    return [line for line in lines if line]


def run(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "budget_plugin", *words],
        cwd=REPO,
        env={**os.environ, "HERMES_HOME": str(home), "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


def run_all(home: Path, commands: list[str]) -> None:
    for command in commands:
        words = shlex.split(command)
        assert words[:2] == ["hermes", "budget"], command
        done = run(home, *words[2:])
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def test_the_first_limits_in_two_minutes(tmp_path: Path) -> None:
    """Over a week of $1 a day; tests/host walks the same path with the real Hermes."""
    clock = FakeClock(int(time.time() * 1000) - 8 * DAY_MS)
    engine = make_engine(tmp_path, "", clock)
    for _ in range(8):
        spend(engine, "1.00")
        clock.advance(DAY_MS / 1000)
    engine.close()
    commands = indented(section("First limits in two minutes"))
    assert [command.split()[2] for command in commands] == [
        "import", "status", "suggest", "suggest", "status", "replay", "enforce",
    ]  # fmt: skip
    run_all(tmp_path, commands)
    budget = (tmp_path / "budget" / "budget.yaml").read_text()
    assert "daily_usd: 1.50" in budget
    assert "mode: observe" not in budget


def test_numbers_of_ones_own(tmp_path: Path) -> None:
    run_all(tmp_path, indented(section("Or say the numbers yourself")))
    budget = (tmp_path / "budget" / "budget.yaml").read_text()
    assert "nightly-report" in budget
    assert "daily_calls: 900" in budget


def test_the_table_of_commands_is_complete() -> None:
    table = set(re.findall(r"^\| `(\w+)", section("Commands"), re.MULTILINE))
    assert table == set(COMMANDS)


def test_every_scope_and_window_is_named() -> None:
    for word in [*SCOPES, *Window]:
        assert f"`{word}`" in section("Commands"), word


@pytest.mark.parametrize("target", ["demo", "test"])
def test_both_commands_are_made(target: str) -> None:
    assert f"make {target}" in section("Try it")
    assert re.search(rf"^{target}:", (REPO / "Makefile").read_text(), re.MULTILINE)


def test_the_packages_of_a_directory_install_are_those_that_are_missed() -> None:
    """The line to copy has all that Hermes does not bring itself."""
    (command,) = [c for c in indented(section("Install into Hermes")) if "sqlalchemy" in c]
    from budget_plugin.hermes.plugin import REQUIREMENTS

    brought_by_the_host = {"yaml"}
    wanted = {spec for name, spec in REQUIREMENTS.items() if name not in brought_by_the_host}
    assert set(shlex.split(command)[2:]) == wanted


def test_the_requirements_are_those_of_the_distribution() -> None:
    from budget_plugin.hermes.plugin import REQUIREMENTS

    text = (REPO / "pyproject.toml").read_text()
    for spec in REQUIREMENTS.values():
        assert f'"{spec}"' in text


def test_every_link_leads_somewhere() -> None:
    for target in re.findall(r"\]\(([\w./-]+)\)", README):
        assert (REPO / target).exists(), target


def test_the_example_limits_nothing_and_loads_without_a_word() -> None:
    parsed = parse_budget((REPO / "budget.yaml.example").read_bytes(), "budget.yaml.example")
    assert parsed.problems == ()
    assert parsed.value is not None
    assert not parsed.value.has_limits

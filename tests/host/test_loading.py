"""Every way into Hermes ends in one plugin, loaded once, that costs the start nothing."""

from __future__ import annotations

import re
import shlex
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from tests.host.hermes_home import FAKE_PRICES, REPO, HermesHome, git_repository

NewHome = Callable[..., HermesHome]

NOT_SHIPPED_BY_HOST = ("sqlalchemy", "alembic", "cachetools", "tzlocal")
MANIFEST = yaml.safe_load((REPO / "plugin.yaml").read_text())
HOOKS = set(MANIFEST["provides_hooks"])


@pytest.mark.case("T36")
@pytest.mark.parametrize("times", ["once", "again"])
@pytest.mark.parametrize("plugin", ["entry_point", "directory", "both"])
def test_each_hook_is_registered_once(new_home: NewHome, plugin: str, times: str) -> None:
    home = new_home(plugin=plugin)
    found = home.inside("loaded", times)
    assert found["hooks"] == dict.fromkeys(HOOKS, 1)
    assert found["middleware"] == {"llm_execution": 1}
    assert found["commands"] == ["budget"]
    assert len(found["modules"]) == 1
    # What fails half-way through must have the gate in place already.
    assert found["order"][0] == "llm_execution"
    assert warnings_of(home) == []


@pytest.mark.parametrize("plugin", ["entry_point", "directory"])
def test_registering_imports_no_database_library(new_home: NewHome, plugin: str) -> None:
    assert new_home(plugin=plugin).inside("loaded")["heavy"] == []


@pytest.mark.case("T31")
def test_first_load_writes_no_limit_and_asks_nobody(home: HermesHome) -> None:
    found = home.inside("loaded")
    assert "No budgets configured" in found["answer"]
    assert found["connections"] == []
    assert not (home.budget_dir / "budget.yaml").exists()


def test_plugins_enable_finds_the_pip_install(new_home: NewHome) -> None:
    home = new_home(plugin="none")
    assert home.inside("loaded")["hooks"] == {}
    done = home.hermes("plugins", "enable", "budget")
    assert done.returncode == 0, done.stdout
    assert set(home.inside("loaded")["hooks"]) == HOOKS


def test_plugins_install_from_git_then_a_recorded_chat(new_home: NewHome, tmp_path: Path) -> None:
    home = new_home(plugin="none", hide=("budget_plugin",))
    address = git_repository(tmp_path / "any-name")
    done = home.hermes("plugins", "install", address, "--enable")
    assert done.returncode == 0, done.stdout
    assert (home.home / "plugins" / "budget" / "plugin.yaml").exists()

    assert "three things done" in home.chat("[[scene:three_tools]] go")
    assert home.recorded_nanos() == home.billed_nanos() > 0


def test_a_reinstall_keeps_the_ledger(new_home: NewHome, tmp_path: Path) -> None:
    home = new_home(plugin="none", hide=("budget_plugin",))
    address = git_repository(tmp_path / "any-name")
    for _ in range(2):
        done = home.hermes("plugins", "install", address, "--enable", "--force")
        assert done.returncode == 0, done.stdout
        home.oneshot("[[scene:text]] hello")
    assert len(home.ledger("SELECT * FROM calls")) == 2
    assert (home.budget_dir / "pricing.yaml").read_text() == FAKE_PRICES


# ------------------------------------------------------------------- without its dependencies


@pytest.fixture
def bare(new_home: NewHome) -> HermesHome:
    """A directory install in an environment where nobody ran pip."""
    return new_home(
        plugin="directory", hide=NOT_SHIPPED_BY_HOST, budget="budgets: {global: {daily_usd: 0}}\n"
    )


def test_without_dependencies_the_agent_works_and_one_line_says_what_to_run(
    bare: HermesHome,
) -> None:
    assert "three things done" in bare.chat("[[scene:three_tools]] go")
    told = [line for line in bare.agent_log().splitlines() if "pip install" in line]
    assert len(told) == 1
    assert_pip_command(told[0])
    assert len(warnings_of(bare)) == 1


def test_without_dependencies_the_chat_command_answers_the_same(bare: HermesHome) -> None:
    found = bare.inside("loaded")
    assert_pip_command(found["answer"])


@pytest.mark.parametrize("command", ["doctor", "status"])
def test_without_dependencies_the_command_line_says_it_and_fails(
    bare: HermesHome, command: str
) -> None:
    done = bare.hermes("budget", command)
    assert_pip_command(done.stdout)
    assert done.returncode == 1


def test_doctor_is_content_with_a_whole_install(home: HermesHome) -> None:
    done = home.hermes("budget", "doctor")
    assert done.returncode == 0, done.stdout


def assert_pip_command(text: str) -> None:
    """It names this interpreter, every missing package, and versions that we accept."""
    hit = re.search(r"(\S+) -m pip install (.+)", text)
    assert hit, text
    assert Path(hit.group(1)).parent == Path(sys.executable).parent
    named = {
        requirement.name.lower(): requirement.specifier
        for word in shlex.split(hit.group(2).strip("`. "))
        if not word.startswith("-")
        for requirement in [Requirement(word)]
    }
    project = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
    wanted = {r.name: r.specifier for r in map(Requirement, project["dependencies"])}
    assert set(NOT_SHIPPED_BY_HOST) <= set(named)
    assert all(named[name] == wanted[name] for name in NOT_SHIPPED_BY_HOST)


def warnings_of(home: HermesHome) -> list[str]:
    """What we said in the host's log at WARNING and above."""
    lines = home.agent_log().splitlines()
    return [line for line in lines if re.search(r"(WARNING|ERROR|CRITICAL).*budget", line)]

"""The model cannot change its own budget: a corpus of hostile spellings and of honest work."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budget_plugin.commands.catalogue import COMMANDS
from budget_plugin.hermes.parts import Parts
from budget_plugin.hermes.realm import Realm
from budget_plugin.hermes.self_protection import SelfProtection
from budget_plugin.messages.protection import change_refused
from budget_plugin.policy import protection
from budget_plugin.testing import hook_kwargs
from tests.unit.self_protection_calls import CONFIG, HONEST, HOSTILE, shown, terminal, write


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A person's folders: `~/.hermes` with a profile, projects beside it, links into it."""
    user = tmp_path_factory.mktemp("world") / "user"
    home = user / ".hermes"
    for folder in (
        home / "budget", home / "profiles" / "research" / "budget", home / "plugins" / "budget",
        home / "skills", user / "project" / "budget", user / "project" / "src", user / "elsewhere",
    ):  # fmt: skip
        folder.mkdir(parents=True)
    for file in ("budget.yaml", "pricing.yaml", "ledger.db"):
        (home / "budget" / file).write_text("x: 1\n")
    (home / "config.yaml").write_text(CONFIG)
    (user / "project" / "budget" / "budget.yaml").write_text("mine: 1\n")
    (user / "elsewhere" / "folder").symlink_to(home / "budget")
    (user / "elsewhere" / "file.txt").symlink_to(home / "budget" / "budget.yaml")
    (user / "elsewhere" / "above").symlink_to(home)
    (user / "link").symlink_to(home)
    os.link(home / "budget" / "budget.yaml", user / "elsewhere" / "hard.txt")
    return user


@pytest.fixture
def world(folders: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, with the environment that leads there; no test changes the files."""
    monkeypatch.setenv("HOME", str(folders))
    monkeypatch.setenv("HERMES_HOME", str(folders / ".hermes"))
    monkeypatch.delenv("TERMINAL_CWD", raising=False)
    return folders


def guard_of(world: Path, cwd: str = "project", **options: Any) -> SelfProtection:
    realm = Realm(world / ".hermes", package=world / "site-packages" / "budget_plugin", **options)
    return SelfProtection(realm, lambda task_id: str(world / cwd))


@pytest.mark.case("A59")
@pytest.mark.parametrize("call", HOSTILE, ids=map(shown, HOSTILE))
def test_a_call_that_changes_the_budget_is_refused(
    world: Path, call: tuple[str, dict[str, Any]]
) -> None:
    assert guard_of(world).refuses(*call, "task")


@pytest.mark.parametrize("call", HONEST, ids=map(shown, HONEST))
def test_honest_work_is_left_alone(world: Path, call: tuple[str, dict[str, Any]]) -> None:
    assert not guard_of(world).refuses(*call, "task")


@pytest.mark.parametrize(
    "call",
    [
        terminal("sed -i s/5/500/ budget.yaml"),
        terminal("rm *"),
        terminal("touch -d yesterday *.db"),
        terminal("python3 fix.py budget.yaml"),
        write("budget.yaml"),
        write("ledger.db-wal"),
    ],
    ids=shown,
)
def test_a_session_that_stands_in_our_folder(world: Path, call: tuple[str, dict[str, Any]]) -> None:
    """A `cd` of an earlier command lasts."""
    assert guard_of(world, cwd=".hermes/budget").refuses(*call, "task")
    assert not guard_of(world, cwd="project/src").refuses(*call, "task")


@pytest.mark.parametrize(
    "call",
    [
        terminal("ls -la; cat budget.yaml | head -3"),
        terminal("hermes budget status"),
        terminal("git status && cd ~/project && make"),
        terminal("cd ~/project; sed -i s/1/2/ budget/budget.yaml"),
        write("~/project/budget.yaml"),
    ],
    ids=shown,
)
def test_who_stands_in_our_folder_may_read_and_work_elsewhere(
    world: Path, call: tuple[str, dict[str, Any]]
) -> None:
    assert not guard_of(world, cwd=".hermes/budget").refuses(*call, "task")


def test_the_working_folder_of_one_command(world: Path) -> None:
    guard = guard_of(world)
    args = {"command": "sed -i s/5/500/ budget.yaml", "workdir": "~/.hermes/budget"}
    assert guard.refuses("terminal", args, "task")
    assert not guard.refuses("terminal", {**args, "workdir": "~/project/budget"}, "task")


def test_names_are_compared_as_the_file_system_does(world: Path) -> None:
    call = write("~/.Hermes/BUDGET/Budget.yaml")
    assert guard_of(world, folds=True).refuses(*call, "task")
    assert not guard_of(world, folds=False).refuses(*call, "task")
    rm = terminal("rm ~/.HERMES/budget/*.YAML")
    assert guard_of(world, folds=True).refuses(*rm, "task")


def test_a_profile_guards_its_siblings_and_the_root(world: Path) -> None:
    realm = Realm(
        world / ".hermes" / "profiles" / "research", package=world / "p" / "budget_plugin"
    )
    guard = SelfProtection(realm, lambda task_id: str(world))
    assert guard.refuses(*write("~/.hermes/budget/budget.yaml"), "task")
    assert guard.refuses(*write("~/.hermes/profiles/other/budget/budget.yaml"), "task")
    assert guard.refuses(*write("$HERMES_HOME/profiles/research/budget/budget.yaml"), "task")
    assert not guard.refuses(*write("~/.hermes/profiles/other/notes/budget.yaml"), "task")


def test_a_ledger_that_lies_elsewhere_is_guarded(world: Path) -> None:
    guard = guard_of(world, extra=lambda: world / "elsewhere" / "spend.db")
    assert guard.refuses(*write("~/elsewhere/spend.db"), "task")
    assert guard.refuses(*terminal("cd ../elsewhere && echo > spend.db-wal"), "task")
    assert not guard.refuses(*write("~/elsewhere/other.db"), "task")


def test_a_home_that_is_a_link(world: Path) -> None:
    realm = Realm(world / "link", package=world / "p" / "budget_plugin")
    guard = SelfProtection(realm, lambda task_id: str(world))
    assert guard.refuses(*write("~/.hermes/budget/budget.yaml"), "task")
    assert guard.refuses(*write("link/budget/budget.yaml"), "task")


@pytest.mark.parametrize(
    "args", [None, [], "x", {}, {"command": None}, {"command": 5}, {"path": "\0"}, {"path": 1}]
)
@pytest.mark.parametrize(
    "tool", ["terminal", "write_file", "patch", "execute_code", "process", "x"]
)
def test_odd_arguments_are_no_error(world: Path, tool: str, args: object) -> None:
    assert not guard_of(world).refuses(tool, args, "")


def test_a_knot_that_cannot_be_read_opens_no_door(world: Path) -> None:
    knot = '"$(' * 2_000
    guard = guard_of(world)
    assert guard.refuses(*terminal(f"echo {knot}; rm ~/.hermes/budget/budget.yaml"), "task")
    assert not guard.refuses(*terminal(f"echo {knot}; rm x"), "task")


@pytest.mark.parametrize(
    "command",
    [
        "rm " + "{a,b}" * 60 + "budget",
        "rm {" + "," * 50_000 + "budget",
        "for x in a b c d e f g h; do rm " + "$x" * 60 + "budget; done",
        "rm " + "{" * 20_000 + "budget",
        "python -c '" + "open(" * 20_000 + "budget'",
        "echo '" + "hermes " * 20_000 + "'; rm x",
        "cat <<A\n" * 2_000 + "budget",
        ">" * 20_000 + "budget",
        "`" * 20_001 + "budget",
        "\\",
        "$(",
        "rm $",
    ],
    ids=lambda command: command[:24],
)
def test_no_command_takes_long_or_fails(world: Path, command: str) -> None:
    """The work grows with the text, not with what could be made of it."""
    assert not guard_of(world).refuses(*terminal(command), "task")


@given(st.text("ab ~./$(){}[]<>|&;'\"`\\\n*?=-#!budget hermes", max_size=60))
def test_any_text_can_be_read(text: str) -> None:
    protection.effects_of(text, "/work", {"HOME": "/home/user"})
    protection.setter_in_code(text)
    protection.patched_paths(text)


@pytest.mark.case("A61")
def test_the_log_names_the_tool_and_a_digest_only(
    world: Path, caplog: pytest.LogCaptureFixture
) -> None:
    command = "curl -H 'Authorization: Bearer sk-TEST-123' -o ~/.hermes/budget/budget.yaml x"
    with caplog.at_level(logging.DEBUG):
        assert guard_of(world).refuses("terminal", {"command": command}, "task")
    assert "terminal" in caplog.text
    assert "sk-TEST-123" not in caplog.text
    assert "curl" not in caplog.text


def test_the_hook_refuses_where_a_budget_is_configured_and_only_there(hermes_home: Path) -> None:
    parts = Parts(hermes_home)
    hooks, tools = parts.hooks, parts.tools
    tool, args = terminal("rm $HERMES_HOME/budget/budget.yaml")
    call = hook_kwargs(tool_name=tool, args=args)
    hooks.pre_llm_call(**call)
    assert tools.pre_tool_call(**call) is None
    (hermes_home / "budget" / "budget.yaml").write_text("timezone: UTC\n")
    hooks.pre_llm_call(**call)
    assert tools.pre_tool_call(**call) == {"action": "block", "message": change_refused()}
    assert tools.pre_tool_call(**{**call, "args": {"command": "ls"}}) is None
    hooks._runtime.engine().close()


def test_the_refusal_names_no_way_to_a_larger_budget() -> None:
    text = change_refused().lower()
    assert "person" in text
    for way in ("/budget", "hermes", "yaml", "confirm", "$", "set "):
        assert way not in text


def test_every_command_of_ours_is_known_as_reading_or_setting() -> None:
    reading = {name for name, command in COMMANDS.items() if not command.changes}
    setting = COMMANDS.keys() - reading
    assert reading <= protection.READING_COMMANDS
    assert not setting & protection.READING_COMMANDS
    assert all(protection.is_setter(["hermes", "budget", name]) for name in setting)

"""For every test: a temporary Hermes home; and an answer to which known failure is tested where."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from budget_plugin.engine import judge

CASE_ID = re.compile(r"[AT]\d\d?")
CASES = pytest.StashKey[dict[str, list[str]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cases", action="store_true", help="list each known failure and the tests that guard it"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Collect the `case` markers; a misspelt one is an error, for it would guard nothing."""
    cases: dict[str, list[str]] = defaultdict(list)
    for item in items:
        for case_id in cases_of(item):
            cases[case_id].append(item.nodeid)
    config.stash[CASES] = cases


def cases_of(item: pytest.Item) -> Iterator[str]:
    for marker in item.iter_markers("case"):
        for case_id in marker.args:
            if not CASE_ID.fullmatch(case_id):
                raise pytest.UsageError(f"{item.nodeid}: no case is called {case_id!r}")
            yield case_id


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if not config.getoption("cases"):
        return
    terminalreporter.section("known failures and their tests")
    for case_id, tests in sorted(config.stash.get(CASES, {}).items()):
        for test in tests:
            terminalreporter.write_line(f"{case_id:4} {test}")


@pytest.fixture(autouse=True)
def hermes_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty HERMES_HOME: no test may see, or write, the one of the person who runs it."""
    home = tmp_path / "hermes_home"
    home.mkdir()
    monkeypatch.setenv("HERMES_HOME", str(home))
    return home


@pytest.fixture(autouse=True)
def patient_gate(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tool gate waits for a verdict as long as it takes: a busy machine is no failure.

    What it does when the verdict does not come in time is the matter of `tests/faults`.
    """
    if "faults" not in request.path.parts:
        monkeypatch.setattr(judge, "PATIENCE_S", 30.0)

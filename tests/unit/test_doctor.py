"""What `doctor` finds in the host: hooks, duplicates of the plugin, settings nobody reads."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from budget_plugin.hermes.commands import Commands
from budget_plugin.hermes.diagnosis import host_findings
from budget_plugin.hermes.runtime import Runtime
from budget_plugin.messages.diagnosis import Finding, Grade

OURS = Commands(Runtime(Path("unused")))
EXPECTED = ("llm_execution", "pre_gateway_dispatch")


@pytest.fixture(autouse=True)
def packages(monkeypatch: pytest.MonkeyPatch) -> list[SimpleNamespace]:
    """The entry points of this Python: ours is not among them, unless a test puts it there."""
    points: list[SimpleNamespace] = []
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points)
    return points


Host = Callable[..., None]


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    """A host with one sound plugin; the arguments make it less sound."""

    def make(**changes: Any) -> None:
        plugin = {"name": "budget", "enabled": True, "error": None, "source": "entrypoint"}
        manager = SimpleNamespace(
            list_plugins=lambda: changes.get("plugins", [plugin]),
            _hooks=changes.get("hooks", {"pre_gateway_dispatch": [OURS.pre_gateway_dispatch]}),
            _middleware={"llm_execution": [OURS.budget, lambda: None]},
        )
        module = SimpleNamespace(get_plugin_manager=lambda: manager)
        monkeypatch.setitem(sys.modules, "hermes_cli", SimpleNamespace(plugins=module))
        monkeypatch.setitem(sys.modules, "hermes_cli.plugins", module)

    make()
    return make


def found(home: Path) -> dict[str, Finding]:
    return {finding.about: finding for finding in host_findings(home, EXPECTED)}


def test_a_sound_host(host: Host, tmp_path: Path) -> None:
    findings = found(tmp_path)
    assert findings["plugin"].grade is Grade.FINE
    assert findings["hooks"].text == "all 2 registered"
    assert "installation" not in findings


@pytest.mark.parametrize(
    ("changes", "about", "said"),
    [
        ({"plugins": []}, "plugin", "not enabled: hermes plugins enable budget"),
        ({"hooks": {}}, "hooks", "not registered: pre_gateway_dispatch"),
        (
            {"hooks": {"pre_gateway_dispatch": [OURS.pre_gateway_dispatch] * 2}},
            "hooks",
            "registered more than once: pre_gateway_dispatch",
        ),
        ({"plugins": None}, "plugin", "did not load: 'NoneType' object is not iterable"),
    ],
)
def test_what_is_wrong(
    host: Host, tmp_path: Path, changes: dict[str, Any], about: str, said: str
) -> None:
    host(**changes)
    finding = found(tmp_path)[about]
    assert (finding.grade, finding.text) == (Grade.PROBLEM, said)


@pytest.mark.case("T36")
def test_both_ways_of_installing_at_once(
    host: Host, tmp_path: Path, packages: list[SimpleNamespace]
) -> None:
    folder = tmp_path / "plugins" / "any-name"
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text("manifest_version: 1\nname: budget\n")
    assert "installation" not in found(tmp_path)
    packages.append(SimpleNamespace(name="budget", value="budget_plugin"))
    finding = found(tmp_path)["installation"]
    assert finding.grade is Grade.PROBLEM
    assert f"(budget_plugin) and in {folder}" in finding.text


@pytest.mark.parametrize(
    ("yaml", "grade"),
    [
        ("# only comments\n", Grade.NOTE),
        ("budgets: {global: {daily_usd: 5}}\n", Grade.PROBLEM),
        ("budgets: [not understood\n", Grade.PROBLEM),
    ],
)
def test_a_budget_yaml_that_nobody_reads(
    host: Host, tmp_path: Path, yaml: str, grade: Grade
) -> None:
    folder = tmp_path / "plugins" / "budget"
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text('name: "budget"\n')
    (folder / "budget.yaml").write_text(yaml)
    finding = found(tmp_path)["installation"]
    assert finding.grade is grade
    assert str(tmp_path / "budget" / "budget.yaml") in finding.text


def test_other_plugins_are_not_ours(host: Host, tmp_path: Path) -> None:
    folder = tmp_path / "plugins" / "budget-of-another"
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text("name: budget-of-another\n")
    (folder / "budget.yaml").write_text("x: 1\n")
    assert "installation" not in found(tmp_path)

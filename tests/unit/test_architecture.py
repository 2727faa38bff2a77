"""The floors of the house: imports go down only, and a directory install finds the package."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]


def test_imports_go_down_only() -> None:
    # A process of its own: the linter silences every logger of the process that it runs in.
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter, "--no-cache"], cwd=REPO, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_package_imports_itself_relatively() -> None:
    """As a directory plugin it has another name: an absolute import of itself would fail there."""
    absolute = [
        f"{path.relative_to(REPO)}:{node.lineno}"
        for path in sorted((REPO / "budget_plugin").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if "budget_plugin" in top_level_names(node)
    ]
    assert absolute == []


def top_level_names(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name.partition(".")[0] for alias in node.names}
    if isinstance(node, ast.ImportFrom) and node.level == 0:
        return {(node.module or "").partition(".")[0]}
    return set()


def test_the_root_imports_nothing_until_it_is_asked_to_register() -> None:
    tree = ast.parse((REPO / "__init__.py").read_text())
    at_import = {name for node in tree.body for name in top_level_names(node)}
    assert at_import <= {"typing", "__future__"}


def test_the_root_hands_over_under_whatever_name_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location(
        "hermes_plugins_like.some_name",
        REPO / "__init__.py",
        submodule_search_locations=[str(REPO)],
    )
    assert spec is not None
    assert spec.loader is not None
    root = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, root)
    spec.loader.exec_module(root)

    package = importlib.import_module(f"{spec.name}.budget_plugin")
    given = []
    monkeypatch.setattr(package, "register", given.append)
    context = object()
    root.register(context)
    assert given == [context]

"""What is released: an sdist from which the wheel is built, and a wheel that is whole."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

pytestmark = pytest.mark.packaging

REPO = Path(__file__).resolve().parents[2]
RESOURCES = (
    "migrations",
    "migrations/env.py",
    "pricing.yaml",
    "budget.yaml.example",
    "plugin.yaml",
)
FIND_ALL = f"""
from budget_plugin.store.resources import resource
for name in {RESOURCES!r}:
    print(resource(name))
"""


def run(*command: str | Path, cwd: Path, **env: str) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env={**os.environ, **env},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """sdist and, out of it, the wheel: so the sdist is proved to be whole."""
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, REPO, cwd=out)
    return out


@pytest.fixture(scope="module")
def installed(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a fresh environment with the wheel, its dependencies, and no Hermes."""
    place = tmp_path_factory.mktemp("fresh")
    venv.create(place, with_pip=True)
    python = place / "bin" / "python"
    (wheel,) = dist.glob("*.whl")
    run(python, "-m", "pip", "install", "--quiet", wheel, cwd=place)
    return python


def test_the_wheel_finds_its_files(installed: Path, tmp_path: Path) -> None:
    found = run(installed, "-c", FIND_ALL, cwd=tmp_path).split()
    assert len(found) == len(RESOURCES)
    assert all("site-packages/budget_plugin/" in path for path in found)


def test_a_checkout_finds_its_files(tmp_path: Path) -> None:
    found = run(sys.executable, "-c", FIND_ALL, cwd=tmp_path, PYTHONPATH=str(REPO)).split()
    assert [Path(path) for path in found] == [REPO / name for name in RESOURCES]


@pytest.mark.parametrize("args", [("status",), ("help",), ("verify",)])
def test_the_command_works_without_hermes(
    installed: Path, tmp_path: Path, args: tuple[str, ...]
) -> None:
    command = installed.with_name("hermes-budget")
    assert run(command, *args, cwd=tmp_path, HERMES_HOME=str(tmp_path / "home")).strip()


def test_the_wheel_holds_the_package_and_nothing_else(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    top = {name.partition("/")[0] for name in ZipFile(wheel).namelist()}
    assert {name for name in top if not name.endswith(".dist-info")} == {"budget_plugin"}
    names = ZipFile(wheel).namelist()
    assert [name for name in names if name.endswith(".pyc") or "__pycache__" in name] == []
    assert "budget_plugin/py.typed" in names


def test_the_sdist_can_be_tested(dist: Path) -> None:
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"Makefile", "README.md", "LICENSE", "pyproject.toml", "tests/conftest.py"}
    assert wanted <= names

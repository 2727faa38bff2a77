"""The real host: every test in this folder drives hermes-agent as a process of its own."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.host.hermes_home import HermesHome
from tests.host.provider import Options, Provider

HERE = Path(__file__).parent
HOST_VERSION = "0.19.0"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lies here; without the host fail, since a skipped suite looks like a green one."""
    here = [item for item in items if HERE in item.path.parents]
    for item in here:
        item.add_marker(pytest.mark.host)
    if here:
        require_host()


def require_host() -> None:
    try:
        found = importlib.metadata.version("hermes-agent")
    except importlib.metadata.PackageNotFoundError:
        found = "none"
    if found != HOST_VERSION:
        raise pytest.UsageError(
            f"tests/host needs hermes-agent {HOST_VERSION} in this environment, found {found}. "
            "`make test` installs it; by hand: pip install -e . --group dev --group host"
        )


@pytest.fixture
def new_home(tmp_path: Path) -> Iterator[Callable[..., HermesHome]]:
    """Make a Hermes home: `new_home(budget="…", sized=True, plugin="directory", …)`.

    Options of the provider and of the home may be mixed; each home has a provider of its own. At
    the end of the test every home's totals must equal its rows.
    """
    with ExitStack() as stack:
        count = 0

        def make(*, budget: str | None = None, **options: Any) -> HermesHome:
            nonlocal count
            count += 1
            place = tmp_path / f"home{count}"
            place.mkdir()
            known = {key: options.pop(key) for key in list(options) if key in PROVIDER_OPTIONS}
            provider = stack.enter_context(Provider(place / "calls.jsonl", Options(**known)))
            home = HermesHome(place, provider, **options)
            stack.callback(verify, home)
            if budget is not None:
                home.write_budget(budget)
            return home

        yield make


def verify(home: HermesHome) -> None:
    if (home.budget_dir / "ledger.db").exists():
        home.verify()


PROVIDER_OPTIONS = frozenset(Options.__dataclass_fields__)


@pytest.fixture
def home(new_home: Callable[..., HermesHome]) -> HermesHome:
    """The plain case: found by its entry point, no budget set."""
    return new_home()

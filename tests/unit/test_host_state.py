"""The host's database is read whatever it looks like, and never changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from budget_plugin.store.host_state import Counts, HostState

KEY = ("session_id", "model", "billing_provider", "billing_base_url", "billing_mode", "task")
COUNTS = (
    "api_call_count", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens",
    "reasoning_tokens", "estimated_cost_usd", "actual_cost_usd", "cost_status", "last_seen",
)  # fmt: skip
AT_S = 1_796_000_000.5


class Host:
    """A state.db as some version of the host writes it."""

    def __init__(self, path: Path, columns: tuple[str, ...] = (*KEY, *COUNTS)) -> None:
        self.path = path
        self.columns = columns
        self.run(f"CREATE TABLE session_model_usage ({', '.join(columns)})")

    def run(self, sql: str, values: tuple[object, ...] = ()) -> None:
        with closing(sqlite3.connect(self.path)) as connection, connection:
            connection.execute(sql, values)

    def row(self, **values: object) -> None:
        """What the host has counted up for one session, route and task, in place of before."""
        known = {
            "session_id": "s1", "model": "m", "billing_provider": "custom",
            "billing_base_url": "http://p", "billing_mode": "", "task": "title_generation",
            "api_call_count": 1, "input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 0,
            "cache_write_tokens": 0, "reasoning_tokens": 0, "last_seen": AT_S, **values,
        }  # fmt: skip
        names = [name for name in self.columns if name in known]
        key = [name for name in KEY if name in names]
        self.run(
            f"DELETE FROM session_model_usage WHERE {' AND '.join(f'{k} = ?' for k in key)}",
            tuple(known[name] for name in key),
        )
        marks = ", ".join("?" * len(names))
        self.run(
            f"INSERT INTO session_model_usage ({', '.join(names)}) VALUES ({marks})",
            tuple(known[name] for name in names),
        )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def counts_in(path: Path) -> list[Counts]:
    return [row.counts for row in HostState(path).auxiliary_usage(0)]


def test_a_row_is_read_with_all_its_counts(path: Path) -> None:
    Host(path).row(
        api_call_count=2, input_tokens=300, output_tokens=6, cache_read_tokens=40,
        cache_write_tokens=50, reasoning_tokens=3,
    )  # fmt: skip
    (row,) = HostState(path).auxiliary_usage(0)
    assert row.counts == Counts(2, 300, 6, 40, 50, 3, 0)
    assert (row.session_id, row.model, row.provider) == ("s1", "m", "custom")
    assert (row.base_url, row.task) == ("http://p", "title_generation")
    assert row.last_seen_ms == 1_796_000_000_500


def test_the_main_loop_is_not_auxiliary(path: Path) -> None:
    host = Host(path)
    host.row(task="", input_tokens=9_000)
    host.row(task="compression", input_tokens=7)
    assert counts_in(path) == [Counts(1, 7)]


@pytest.mark.parametrize("task", ["background_review", "moa_aggregator"])
def test_what_passes_the_model_gate_is_not_read_again(path: Path, task: str) -> None:
    Host(path).row(task=task, input_tokens=7)
    assert counts_in(path) == []


def test_only_what_was_added_to_since(path: Path) -> None:
    Host(path).row(input_tokens=7)
    assert len(HostState(path).auxiliary_usage(1_796_000_000_500)) == 1
    assert HostState(path).auxiliary_usage(1_796_000_000_501) == []


@pytest.mark.parametrize(
    ("status", "stated", "nanos"),
    [("actual", 0.0193, 19_300_000), ("estimated", 0.0193, 0), (None, 0.0193, 0), ("actual", 0, 0)],
)
def test_only_an_actual_cost_is_believed(
    path: Path, status: str | None, stated: float, nanos: int
) -> None:
    Host(path).row(input_tokens=7, actual_cost_usd=stated, cost_status=status)
    assert counts_in(path) == [Counts(1, 7, actual_nanos=nanos)]


# ------------------------------------------------------------------- hosts of other versions


def test_a_host_that_does_not_tell_tasks_apart_has_none(path: Path) -> None:
    columns = tuple(name for name in (*KEY, *COUNTS) if name != "task")
    Host(path, columns).row(input_tokens=7)
    assert counts_in(path) == []


@pytest.mark.parametrize("missing", [*KEY[2:5], *COUNTS])
def test_a_column_that_is_not_there_counts_nothing(path: Path, missing: str) -> None:
    columns = tuple(name for name in (*KEY, *COUNTS) if name != missing)
    Host(path, columns).row(api_call_count=2, input_tokens=7, output_tokens=8)
    (counts,) = counts_in(path)
    whole = {"calls": 2, "input_tokens": 7, "output_tokens": 8}
    lacking = {"api_call_count": {"calls": 1}}.get(missing, {missing: 0})
    assert counts == Counts(**{**whole, **{k: v for k, v in lacking.items() if k in whole}})


def test_columns_that_we_do_not_know_are_left_alone(path: Path) -> None:
    Host(path, (*KEY, *COUNTS, "upstream_provider")).row(input_tokens=7)
    assert counts_in(path) == [Counts(1, 7)]


def test_no_file_is_nothing_seen_and_makes_none(path: Path) -> None:
    assert counts_in(path) == []
    assert not path.exists()


@pytest.mark.parametrize("content", [b"", b"not a database at all" * 100])
def test_an_empty_or_damaged_file_is_nothing_seen(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert counts_in(path) == []
    assert path.read_bytes() == content


def test_a_table_that_is_locked_is_looked_at_the_next_time(path: Path) -> None:
    Host(path).row(input_tokens=7)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert counts_in(path) == []
    assert counts_in(path) == [Counts(1, 7)]


@pytest.mark.parametrize(
    "odd", [{"input_tokens": v} for v in (-5, "12k", float("inf"), None, b"\xff")]
)
def test_a_count_that_cannot_be_counts_nothing(path: Path, odd: Mapping[str, Any]) -> None:
    Host(path).row(**{"output_tokens": 8, **odd})
    assert counts_in(path) == [Counts(1, 0, 8)]


def test_a_row_beyond_belief_is_left_out(path: Path) -> None:
    host = Host(path)
    host.row(input_tokens=10**18)
    host.row(model="other", input_tokens=7)
    assert counts_in(path) == [Counts(1, 7)]


def test_rows_of_two_routes_have_two_names(path: Path) -> None:
    """A colon in one part must not make two rows look like one."""
    host = Host(path)
    host.row(model="a:b", billing_provider="c", input_tokens=1)
    host.row(model="a", billing_provider="b:c", input_tokens=2)
    host.row(model="a", billing_provider="b:c", billing_base_url="http://q", input_tokens=3)
    assert len({row.key for row in HostState(path).auxiliary_usage(0)}) == 3

"""Calls that are under way when the process ends are written down as estimates."""

from __future__ import annotations

from pathlib import Path

from budget_plugin.policy.prices.usage import read_usage
from tests.billing import ask, bill, counts, opened, rows, run_in

UNLIMITED = "timezone: UTC\n"


def test_what_is_under_way_at_the_end_is_an_estimate(tmp_path: Path) -> None:
    """A prompt of 1,000 tokens; the answer is charged at what was expected."""
    with opened(tmp_path, UNLIMITED) as engine:
        permit, _ = ask(engine, run_in(engine), prompt_tokens=1_000)
        assert rows(engine) == []
        engine.in_flight.write()
        (row,) = rows(engine)
        assert (row["attempt_id"], row["estimated"]) == (permit.attempt_id, 1)
        assert "in_flight" in row["flags"].split()
        assert row["input_tokens"] == 1_000


def test_closing_writes_it_too(tmp_path: Path) -> None:
    with opened(tmp_path, UNLIMITED) as engine:
        ask(engine, run_in(engine))
    with opened(tmp_path, UNLIMITED) as again:
        assert len(rows(again)) == 1


def test_what_came_back_is_not_written_again(tmp_path: Path) -> None:
    with opened(tmp_path, UNLIMITED) as engine:
        live = run_in(engine)
        bill(engine, live, counts(1_000, 10))
        refused, _ = ask(engine, live)
        engine.release(refused)  # the provider said no: nothing was billed
        engine.in_flight.write()
        (row,) = rows(engine)
        assert row["estimated"] == 0


def test_an_answer_that_comes_after_all_replaces_the_estimate(tmp_path: Path) -> None:
    with opened(tmp_path, UNLIMITED) as engine:
        live = run_in(engine)
        permit, request = ask(engine, live, prompt_tokens=10)
        engine.in_flight.write()
        report = read_usage(counts(9_000, 500), approx_input_tokens=9_000)
        engine.record(live, permit, request, report)
        (row,) = rows(engine)
        assert (row["input_tokens"], row["estimated"]) == (9_000, 0)

"""Exported rows say what the ledger has, and nothing in them acts."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from budget_plugin.commands import chat, table
from budget_plugin.commands.asking import OK, USAGE, Answer, Args, Caller
from budget_plugin.engine.engine import Engine
from budget_plugin.messages.exports import as_csv, as_json_lines, header
from budget_plugin.store.export import TABLES
from budget_plugin.testing import at, spend
from tests.billing import opened, rows, run_in

ME = Caller("me", "command line", "hermes budget")
DOCS = (Path(__file__).parents[2] / "docs" / "export.md").read_text()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with opened(tmp_path, "timezone: Europe/Berlin\n") as engine:
        yield engine


def ask(engine: Engine, text: str, caller: Caller = ME) -> Answer:
    name, args, _ = chat.parse(f"export {text}", caller)
    return table.answer(lambda: engine, name, args)


def lines(engine: Engine, text: str) -> list[str]:
    stream = ask(engine, text).stream
    assert stream is not None
    return list(stream)


def read(engine: Engine, text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO("".join(lines(engine, text)))))


@pytest.mark.parametrize("what", TABLES)
def test_the_columns_are_those_of_the_page(what: str) -> None:
    section = DOCS.partition(f"\n## {what}\n")[2].partition("\n## ")[0]
    paragraphs = [part for part in section.split("\n\n") if part.strip().startswith("`")]
    documented = next(part for part in paragraphs if part.count("`, `") + part.count("`,\n`") > 5)
    assert re.findall(r"`(\w+)`", documented) == header(TABLES[what].columns)


def test_a_call_is_exported_as_it_was_recorded(engine: Engine) -> None:
    spend(engine, "0.123456789", sender_id="telegram:1", at_ms=at("2026-11-30 12:00"))
    spend(engine, None, at_ms=at("2026-11-30 13:00"))
    first, second = read(engine, "calls")
    assert (first["cost_usd"], second["cost_usd"]) == ("0.123456789", "")
    assert first["sender_id"] == "telegram:1"
    assert first["at_ms"] == str(at("2026-11-30 12:00"))
    assert first["at"] == "2026-11-30T13:00:00.000+01:00"
    assert first["run_id"] == rows(engine)[0]["run_id"]


@pytest.mark.parametrize(
    ("options", "hours"),
    [
        ("", [22, 23, 24]),
        ("--since 2026-12-01", [23, 24]),  # midnight in Berlin is 23:00 UTC
        ("--until 2026-11-30", [22]),
        ("--since 2026-12-01 --until 2026-12-01", [23, 24]),
        ("--since 2026-12-02", []),
    ],
)
def test_days_are_those_of_the_zone(engine: Engine, options: str, hours: list[int]) -> None:
    begin = at("2026-11-30 00:00")
    for hour in (22, 23, 24):
        spend(engine, "1", at_ms=begin + hour * 3_600_000)
    found = [(int(row["at_ms"]) - begin) // 3_600_000 for row in read(engine, f"calls {options}")]
    assert found == hours


def test_runs_and_receipts(engine: Engine) -> None:
    live = run_in(engine)
    engine.end_run(live, "completed")
    run_in(engine)
    assert engine.recorder.flush(60)
    found = read(engine, "runs")
    assert [(row["outcome"], row["state"]) for row in found] == [
        ("completed", "RESOLVED"),
        ("", ""),
    ]
    (line,) = lines(engine, "receipts --format jsonl")
    receipt = json.loads(line)
    assert (receipt["run_id"], receipt["status"]) == (live.run.run_id, "complete")
    assert receipt["receipt"]["state"] == "RESOLVED"
    (row,) = read(engine, "receipts")
    assert json.loads(row["receipt"]) == receipt["receipt"]


def test_into_a_file_that_is_its_owners_alone(engine: Engine, tmp_path: Path) -> None:
    spend(engine, "1")
    target = tmp_path / "calls.csv"
    target.write_text("before")
    answer = ask(engine, f"calls --output {target}")
    assert answer.text == f"1 calls were written to {target}."
    assert target.read_bytes().decode() == "".join(lines(engine, "calls"))
    assert target.stat().st_mode & 0o777 == 0o600
    gone = ask(engine, f"calls --output {tmp_path / 'no' / 'calls.csv'}")
    assert "was not written" in gone.text
    assert {path.name for path in tmp_path.iterdir()} >= {"calls.csv"}
    assert not list(tmp_path.glob(".calls.csv*"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Say what to export: calls, days, runs, receipts."),
        ("everything", "Say what to export"),
        ("calls --format xml", '"xml" is no format. Known are: csv, jsonl.'),
        ("calls --since soon", '--since "soon" is not understood: a date such as 2026-11-30.'),
    ],
)
def test_what_is_not_understood(engine: Engine, text: str, said: str) -> None:
    answer = ask(engine, text)
    assert answer.exit_code == USAGE
    assert said in answer.text


def test_a_chat_is_no_place_for_it(engine: Engine) -> None:
    spend(engine, "1")
    answer = ask(engine, "calls", Caller("telegram:1", "chat", "/budget"))
    assert (answer.exit_code, answer.stream) == (USAGE, None)


COLUMNS = ("run_id", "at_ms", "model", "cost_nanos")
cells = st.tuples(
    st.text(max_size=20),
    st.integers(0, 4_000_000_000_000),
    st.text(max_size=20),
    st.none() | st.integers(0, 10**15),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(cells, max_size=5))
def test_what_goes_out_reads_back(written: list[tuple[Any, ...]]) -> None:
    from zoneinfo import ZoneInfo

    zone = ZoneInfo("Europe/Berlin")
    text = "".join(as_csv(COLUMNS, written, zone))
    found = list(csv.reader(io.StringIO(text, newline="")))[1:]
    objects = [json.loads(line) for line in as_json_lines(COLUMNS, written, zone)]
    assert len(found) == len(objects) == len(written)
    for row, read_back, obj in zip(written, found, objects, strict=True):
        assert (obj["run_id"], obj["at_ms"], obj["model"]) == row[:3]
        assert obj["cost_usd"] is None or float(obj["cost_usd"]) == row[3] / 10**9
        assert not read_back[0].startswith(("=", "+", "-", "@", "\t", "\r"))
        assert read_back[0].removeprefix("'") == row[0].removeprefix("'")
        assert int(read_back[1]) == row[1]


def test_args_of_the_command_line_reach_it(engine: Engine) -> None:
    answer = table.answer(lambda: engine, "export", Args(ME, ("calls",), options={}))
    assert answer.exit_code == OK

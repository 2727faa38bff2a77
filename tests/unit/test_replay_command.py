"""`replay`: what is typed and what is answered, in a chat, in a shell, for programs, drawn."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from budget_plugin.commands import chat, replay, table, tree
from budget_plugin.commands.asking import OK, PROBLEM, USAGE, Answer, Args, Caller
from budget_plugin.engine.engine import Engine
from budget_plugin.messages.replay_svg import labels
from budget_plugin.messages.replays import ReplayReport
from budget_plugin.messages.terminal import print_replay, watched
from budget_plugin.policy.events import Edge
from budget_plugin.policy.runs.endings import Outcome, ending_of
from budget_plugin.policy.runs.receipts import receipt_of
from budget_plugin.policy.runs.run_limits import RunLimits
from budget_plugin.policy.runs.run_steps import begun
from budget_plugin.store.history import recorded_between
from budget_plugin.testing import FakeClock, at, make_engine, make_run, spend

OWNER = Caller("owner", "command line")
HOUR_S = 3_600


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(at("2026-11-01 12:00"))


@pytest.fixture
def engine(tmp_path: Path, clock: FakeClock) -> Iterator[Engine]:
    engine = make_engine(tmp_path, "", clock)
    yield engine
    engine.close()


def a_run(engine: Engine, clock: FakeClock, calls: int, *, resolved: bool = True, **scopes: str):
    """A run of so many calls at $0.50, a minute and a dispatch between two; it ends."""
    run = replace(make_run(**scopes), started_ms=clock.now_ms())
    for number in range(calls):
        if number:
            edge = Edge(f"{run.run_id}-child-{number}", run.run_id, "", clock.now_ms())
            engine.ledger.add_edge(edge, run, 5.0)
        spend(engine, "0.50", run=run)
        clock.advance(60)
    outcome = Outcome.ANSWERED if resolved else Outcome.FAILED
    receipt = receipt_of(run.run_id, begun(RunLimits(), 0.0), ending_of(outcome), 0.0)
    engine.run_records.add(receipt, clock.now_ms(), 5.0)
    return run


@pytest.fixture
def two_days(engine: Engine, clock: FakeClock) -> Engine:
    """Day one: 3 calls, 5 calls, both resolved; day two: 10 calls of a run that failed."""
    a_run(engine, clock, 3, sender_id="telegram:1")
    a_run(engine, clock, 5, sender_id="telegram:1")
    clock.advance(24 * HOUR_S)
    a_run(engine, clock, 10, resolved=False, cron_job_id="nightly")
    return engine


def ask(engine: Engine, text: str, caller: Caller = OWNER) -> Answer:
    name, args, _ = chat.parse(text, caller)
    return table.answer(lambda: engine, name, args)


def test_a_root_is_told_before_its_children(engine: Engine, clock: FakeClock) -> None:
    """Also where the root itself did nothing in the period."""
    root, child = make_run(), make_run(session_id="a-child", kind="child")
    engine.ledger.add_run(root, 5.0)
    engine.ledger.add_edge(Edge("a-child", root.run_id, "", clock.now_ms() - 1), root, 5.0)
    spend(engine, "0.50", run=replace(child, root_run_id=root.run_id))
    told = list(recorded_between(engine.database, clock.now_ms(), clock.now_ms() + 1))
    names = [(type(event).__name__, event.run_id) for event in told]
    assert names == [
        ("RecordedRun", root.run_id),
        ("RecordedRun", child.run_id),
        ("RecordedCall", child.run_id),
    ]


def test_who_did_nothing_for_days_is_told_again(engine: Engine, clock: FakeClock) -> None:
    """So that a stream over a year remembers the runs of a day."""
    first, second, third = (make_run(run_id=name) for name in ("first", "second", "third"))
    for run in (first, second, third, first):
        spend(engine, "0.50", run=run)
        clock.advance(20 * HOUR_S)
    told = recorded_between(engine.database, 0, clock.now_ms())
    names = [event.run_id for event in told if type(event).__name__ == "RecordedRun"]
    assert names == ["first", "second", "third", "first"]  # the third comes after 40 hours


def test_a_sweep_adds_up(two_days: Engine) -> None:
    """2, 4 and 8 dispatches; a refused dispatch leaves one last answer.

    ceiling 2: of 5 calls the 4th answers, 1 is saved; of 10 the 4th answers, 6 are saved
    ceiling 4: of 10 calls the 6th answers, 4 are saved
    ceiling 8: of 10 calls the 10th answers: cut, nothing saved
    """
    answer = ask(two_days, "replay --dispatches 2,8,4 --cost-per-handoff 1.00")
    assert answer.exit_code == OK
    data = json.loads(json.dumps(answer.data))
    told = [
        (row["value"], row["runs_cut"], row["cut_resolved"], row["saved_usd"])
        for row in data["candidates"]
    ]
    assert told == [(2, 2, 1, "3.5"), (4, 1, 0, "2"), (8, 1, 0, "0")]
    assert (data["days"], data["runs"], data["calls"]) == (2, 3, 18)
    # a day: $1.75 less half a handled run; $1.00; nothing
    nets = [row["net_usd_per_day"] for row in data["candidates"]]
    assert nets == ["1.25", "1", "0"]
    assert (data["best"], data["flat"]) == ("2 dispatches", None)


def test_the_text_names_best_and_flat(two_days: Engine) -> None:
    text = ask(two_days, "replay --usd 0.60,1.00 --cost-per-handoff 0").in_a_chat()
    assert "2026-11-01 to 2026-11-02, 2 days" in text
    assert "Flat from $0.60 a run to $1.00 a run" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 40


def test_one_candidate_names_causes_and_runs(two_days: Engine) -> None:
    text = ask(two_days, "replay global daily 2.00 and cron_job nightly daily 1.00").text
    assert "Daily $2.00, Cron job" in text or "daily $2.00, Cron job" in text
    assert "had resolved" in text
    # day one: 8 calls, the 5th and later refused (run 2 after its 1st); day two: 8 of 10 refused
    assert "cuts 2 of 3 runs (67 %)" in text


def test_without_words_the_file_is_replayed(tmp_path: Path, clock: FakeClock) -> None:
    yaml = "budgets: {global: {daily_usd: 1.00}}\n"
    engine = make_engine(tmp_path, yaml, clock)
    a_run(engine, clock, 4)
    data = ask(engine, "replay").data
    assert isinstance(data, dict)
    (row,) = data["candidates"]
    assert (row["name"], row["calls_saved"]) == ("budget.yaml", 2)
    engine.close()


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("replay", "Name a limit to try"),
        ("replay --dispatches many", "--dispatches"),
        ("replay --dispatches none", "--dispatches"),
        ("replay --dispatches 1,2 --usd 1,2", "Only one limit"),
        ("replay --dispatches 1,2,3,4,5,6,7,8,9,10,11,12,13", "at most 12"),
        ("replay --dispatches 3 --days 0", "--days"),
        ("replay --dispatches 3 --from yesterday", "--from"),
        ("replay --dispatches 3 --from 2026-11-02 --to 2026-11-01", "is after"),
        ("replay --dispatches 3 --kind batch", "--kind"),
        ("replay --dispatches 3 --cost-per-handoff $4", "--cost-per-handoff"),
        ("replay global dayly 3", "Did you mean daily"),
        ("replay 5", "For example"),
        ("replay global daily none", "daily_usd"),
        ("replay --dispatches 3 --svg budget.yaml", "ends in .svg"),
        ("replay --dispatches 3 --svg /no/such/folder/x.svg", "no folder"),
    ],
)
def test_what_is_not_understood_is_said(two_days: Engine, typed: str, said: str) -> None:
    answer = ask(two_days, typed)
    assert answer.exit_code == USAGE
    assert said in answer.text


def test_a_period_without_calls(two_days: Engine) -> None:
    answer = ask(two_days, "replay --dispatches 3 --from 2026-01-01 --to 2026-01-31")
    assert (answer.exit_code, "Nothing is recorded" in answer.text) == (OK, True)


def test_days_count_back_from_today(two_days: Engine) -> None:
    data = ask(two_days, "replay --dispatches 20 --days 1").data
    assert isinstance(data, dict)
    assert (data["runs"], data["from"], data["days"]) == (1, "2026-11-02", 1)


def test_a_chat_is_capped_and_writes_no_file(
    two_days: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    in_chat = Caller("telegram:1", "chat", "/budget")
    assert ask(two_days, "replay --dispatches 3", in_chat).exit_code == OK
    drawn = ask(two_days, f"replay --dispatches 3 --svg {tmp_path / 'x.svg'}", in_chat)
    assert drawn.exit_code == USAGE
    monkeypatch.setattr(replay, "MOST_CALLS_IN_CHAT", 10)
    answer = ask(two_days, "replay --dispatches 3", in_chat)
    assert (answer.exit_code, "command line" in answer.text) == (PROBLEM, True)
    assert ask(two_days, "replay --dispatches 3").exit_code == OK
    nobody = replace(in_chat, may_change=False)
    assert ask(two_days, "replay --dispatches 3", nobody).exit_code == PROBLEM


def test_the_picture_is_well_formed(two_days: Engine, tmp_path: Path) -> None:
    file = tmp_path / "sweep.svg"
    ask(two_days, f"replay --usd 0.60,1.00,9 --cost-per-handoff 0.10 --svg {file}")
    drawing = ElementTree.fromstring(file.read_text(encoding="utf-8"))
    words = [text.text for text in drawing.iter("{http://www.w3.org/2000/svg}text")]
    assert {"flat", "$1.00", "$9.00", "0 cut"} <= set(words)
    assert str(words[0]).startswith("$0.60 a run to $9.00 a run: dollars a day")


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (["8 dispatches", "11 dispatches"], ["8", "11"]),
        (["daily $3.00", "daily $5.00"], ["$3.00", "$5.00"]),
        (["$1.00 a run (cron)", "$2.00 a run (cron)"], ["$1.00", "$2.00"]),
        (["14 dispatches, daily $3.00"], ["14 dispatches, daily $3.00"]),
    ],
)
def test_the_picture_names_what_differs(names: list[str], short: list[str]) -> None:
    assert labels(names) == short


def test_a_terminal_gets_a_table(two_days: Engine) -> None:
    report = ask(two_days, "replay --dispatches 2,4,8 --cost-per-handoff 1.00").report
    assert isinstance(report, ReplayReport)
    out = io.StringIO()
    print_replay(report, Console(file=out, width=100, color_system=None))
    rows = [line.split() for line in out.getvalue().splitlines() if "dispatches " in line]
    assert rows[0][:7] == ["2", "dispatches", "2", "1", "$1.75", "$0.50", "$1.25"]


def test_options_may_stand_first_on_the_command_line(
    two_days: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    import argparse

    parser = tree.build_parser(argparse.ArgumentParser())
    parsed = parser.parse_args(["replay", "--dispatches", "2,4", "--json"])
    assert tree.run(parsed, lambda: two_days) == OK
    assert len(json.loads(capsys.readouterr().out)["candidates"]) == 2


def test_the_bar_passes_every_event_on(capsys: pytest.CaptureFixture[str]) -> None:
    from budget_plugin.policy.replay.recorded import RecordedDispatch

    events = [RecordedDispatch(n, "r") for n in range(5_000)]
    assert list(watched(events, 4_000)) == events
    assert tree._progress(events, 10**6) is events  # no terminal: no bar
    assert capsys.readouterr().out == ""


def test_args_are_plain_where_nobody_watches() -> None:
    assert list(Args(OWNER).progress([], 0)) == []

"""The recorder: a write is done at once, or waits, counts, is tried again and never lost."""

from __future__ import annotations

import logging
import stat
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from budget_plugin.engine.recorder import PATIENCE_S as AGENT_PATIENCE_S
from budget_plugin.engine.recorder import Recorder, Write
from budget_plugin.policy.events import Call, Cost, CostSource, Run, Usage
from budget_plugin.policy.verdicts import NOTHING_SPENT
from budget_plugin.policy.windows import Window, period
from budget_plugin.store.sql.database import (
    LedgerBusy,
    LedgerError,
    LedgerInUse,
    LedgerReplaced,
    WriteRefused,
)
from budget_plugin.store.waiting import WaitingRows
from tests.ledgers import CENT, GLOBAL, NOON, UTC, a_call, a_run

DAY = period(Window.DAILY, NOON, UTC)
RUN = a_run("r")


class Target:
    """Takes writes, or raises what it was told to; remembers who asked and how patiently."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.errors: list[Exception] = []
        self.asked: list[tuple[str, float]] = []
        self.open = threading.Event()
        self.open.set()
        self.told: list[str] = []

    def write(self, call: Call) -> Write:
        return Write(lambda patience_s: self._apply(call, patience_s), call, RUN, self.told.append)

    def _apply(self, call: Call, patience_s: float) -> str:
        self.asked.append((threading.current_thread().name, patience_s))
        if not self.open.is_set():
            raise LedgerBusy("locked")
        if self.errors:
            raise self.errors.pop(0)
        self.written.append(call.attempt_id)
        return call.attempt_id


@pytest.fixture
def target() -> Target:
    return Target()


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    made = Recorder(WaitingRows(tmp_path))
    yield made
    made.close(0.0)


def test_a_write_is_done_on_the_callers_thread(recorder: Recorder, target: Target) -> None:
    assert recorder.now(target.write(a_call("a", RUN)), NOON)
    assert target.written == target.told == ["a"]
    assert target.asked == [(threading.current_thread().name, AGENT_PATIENCE_S)]


def test_what_fails_waits_counts_and_is_written_later(recorder: Recorder, target: Target) -> None:
    target.open.clear()
    assert not recorder.now(target.write(a_call("a", RUN, 3 * CENT)), NOON)
    assert recorder.waiting_calls == 1
    assert recorder.pending(GLOBAL, DAY).certain_nanos == 3 * CENT
    assert (recorder.failing_since_ms, recorder.last_error) == (NOON, "locked")
    target.open.set()
    assert recorder.flush(10.0)
    assert target.written == ["a"]
    assert recorder.pending(GLOBAL, DAY) == NOTHING_SPENT
    assert (recorder.failing_since_ms, recorder.last_error, recorder.waiting_calls) == (None, "", 0)


@pytest.mark.case("A56", "T32")
def test_while_it_fails_the_agents_thread_asks_once_and_the_log_has_one_line(
    recorder: Recorder, target: Target, caplog: pytest.LogCaptureFixture
) -> None:
    target.open.clear()
    for number in range(30):
        assert not recorder.now(target.write(a_call(f"a{number}", RUN)), NOON)
    me = threading.current_thread().name
    assert [patience for name, patience in target.asked if name == me] == [AGENT_PATIENCE_S]
    assert recorder.waiting_calls == 30
    assert len([r for r in caplog.records if r.levelno >= logging.WARNING]) == 1
    target.open.set()
    assert recorder.flush(10.0)
    assert target.written == [f"a{number}" for number in range(30)]
    # The next fault is said again.
    target.errors = [LedgerError("disk I/O error")]
    recorder.now(target.write(a_call("b", RUN)), NOON)
    assert len([r for r in caplog.records if r.levelno >= logging.WARNING]) == 2


@pytest.mark.case("A57")
def test_three_io_errors_lose_nothing_and_double_nothing(
    recorder: Recorder, target: Target
) -> None:
    target.errors = [LedgerError("disk I/O error") for _ in range(3)]
    for number in range(5):
        recorder.now(target.write(a_call(f"a{number}", RUN)), NOON)
    assert recorder.flush(10.0)
    assert target.written == [f"a{number}" for number in range(5)]


def test_a_write_does_not_stand_in_line_behind_small_talk(
    recorder: Recorder, target: Target
) -> None:
    inside, leave = threading.Event(), threading.Event()

    def slow(_patience_s: float) -> None:
        inside.set()
        leave.wait()

    recorder.later(Write(slow))
    inside.wait()
    assert recorder.now(target.write(a_call("a", RUN)), NOON)
    leave.set()


def test_a_call_counts_until_it_is_written_and_is_then_told_of_once(recorder: Recorder) -> None:
    call = a_call("a", RUN)
    seen: list[tuple[str, int]] = []
    fail = [LedgerError("once")]

    def apply(_patience_s: float) -> None:
        if fail:
            raise fail.pop()
        seen.append(("applying", recorder.pending(GLOBAL, DAY).calls))

    def after(_result: object) -> None:
        seen.append(("after", recorder.pending(GLOBAL, DAY).calls))

    recorder.now(Write(apply, call, RUN, after), NOON)
    assert recorder.flush(10.0)
    recorder.close(0.0)  # the thread may have done it: what follows is done before it ends
    assert seen == [("applying", 1), ("after", 0)]


def test_another_file_is_not_a_fault_but_another_try(
    recorder: Recorder, target: Target, caplog: pytest.LogCaptureFixture
) -> None:
    target.errors = [LedgerReplaced("removed")]
    assert recorder.now(target.write(a_call("a", RUN)), NOON)
    assert target.written == ["a"]
    assert recorder.failing_since_ms is None
    assert not caplog.records


def test_to_meet_another_thread_of_ours_is_no_fault_of_the_ledger(
    recorder: Recorder, target: Target, caplog: pytest.LogCaptureFixture
) -> None:
    target.errors = [LedgerInUse("another thread is writing")]
    assert not recorder.now(target.write(a_call("a", RUN)), NOON)
    assert recorder.failing_since_ms is None
    assert recorder.flush(10.0)
    assert target.written == ["a"]
    assert not caplog.records


def test_an_impossible_row_does_not_block_those_behind_it(
    recorder: Recorder, target: Target, caplog: pytest.LogCaptureFixture
) -> None:
    target.errors = [LedgerError("full"), WriteRefused("constraint")]
    for name in ("impossible", "good"):
        recorder.now(target.write(a_call(name, RUN)), NOON)
    assert recorder.flush(10.0)
    assert target.written == ["good"]
    assert "dropped" in caplog.text


def test_only_calls_of_the_scope_and_the_period_count(recorder: Recorder, target: Target) -> None:
    target.open.clear()
    yesterday = a_call("a", RUN, at_ms=DAY.start_ms - 1)
    for call in (yesterday, a_call("b", RUN, at_ms=DAY.start_ms)):
        recorder.now(target.write(call), NOON)
    assert recorder.pending(GLOBAL, DAY).calls == 1
    assert recorder.pending((GLOBAL[0], "another"), DAY).calls == 0


# ---------------------------------------------------------------------- the end of the process


def test_what_waits_at_the_end_goes_into_a_file_and_comes_back_once(
    recorder: Recorder, target: Target, tmp_path: Path
) -> None:
    target.open.clear()
    call = replace(
        a_call("a", RUN, 7 * CENT, estimated=True),
        usage=Usage(1, 2, 3, 4, 5, 6),
        cost=Cost(None, CostSource.UNPRICED, flags=("lower_bound", "late")),
    )
    for each in (call, a_call("b", RUN)):
        recorder.now(target.write(each), NOON)
    recorder.finish(0.0)
    assert recorder.waiting_calls == 0
    [file] = tmp_path.glob("waiting-*")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    back: list[tuple[Call, Run]] = []
    assert WaitingRows(tmp_path).take_up(lambda *row: back.append(row)) == 2
    assert back == [(call, RUN), (a_call("b", RUN), RUN)]
    assert WaitingRows(tmp_path).take_up(lambda *row: back.append(row)) == 0


def test_a_file_whose_rows_cannot_be_added_stays(tmp_path: Path) -> None:
    waiting = WaitingRows(tmp_path)
    file = waiting.keep([(a_call("a", RUN), RUN)])

    def refuse(_call: Call, _run: Run) -> None:
        raise LedgerBusy("locked")

    with pytest.raises(LedgerBusy):
        waiting.take_up(refuse)
    assert file.exists()


def test_a_line_that_is_no_row_costs_itself_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    waiting = WaitingRows(tmp_path)
    file = waiting.keep([(a_call("a", RUN), RUN)])
    file.write_text('{"call": {}}\nnot json\n[]\n' + file.read_text())
    back: list[Call] = []
    assert waiting.take_up(lambda call, _run: back.append(call)) == 1
    assert [call.attempt_id for call in back] == ["a"]
    assert [r.levelno for r in caplog.records] == [logging.ERROR] * 3


def test_where_no_file_can_be_written_the_rows_stay_and_it_is_said(
    target: Target, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "no folder").write_text("")
    recorder = Recorder(WaitingRows(tmp_path / "no folder"))
    target.open.clear()
    recorder.now(target.write(a_call("a", RUN)), NOON)
    recorder.finish(0.0)
    assert recorder.waiting_calls == 1
    assert "1 billed calls could not be written anywhere" in caplog.text
    target.open.set()
    recorder.close(10.0)
    assert target.written == ["a"]


def test_a_closed_recorder_ends_its_thread(recorder: Recorder, target: Target) -> None:
    before = set(threading.enumerate())
    recorder.later(target.write(a_call("a", RUN)))
    [thread] = set(threading.enumerate()) - before
    recorder.close(10.0)
    thread.join()
    assert target.written == ["a"]

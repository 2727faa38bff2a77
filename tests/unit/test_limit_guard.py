"""Edits of budget.yaml: each is written down once, and a raise of a reached limit waits."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from budget_plugin.commands import chat, table
from budget_plugin.commands.asking import Args, Caller
from budget_plugin.engine.engine import Engine
from budget_plugin.engine.limit_guard import owner_of
from budget_plugin.policy.charges import run_scopes
from budget_plugin.policy.limit_changes import Place, flat, is_looser, with_limits
from budget_plugin.policy.limits import KEYS, Scope
from budget_plugin.policy.verdicts import closed
from budget_plugin.store import limit_history
from budget_plugin.store.files.config import parse_budget
from budget_plugin.store.files.config_edit import ConfigRefused
from budget_plugin.store.sql.database import LedgerError
from budget_plugin.testing import FakeClock, at, make_engine, make_run, spend

USD = 10**9
OWNER = Caller("owner", "chat", "/budget")
STRANGER = Caller("telegram:2", "chat", "/budget", may_change=False, sender_id="telegram:2")
DAILY: Place = (Scope.GLOBAL, "", KEYS["daily_usd"])

NewEngine = Callable[[], Engine]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(at("2026-11-30 14:00"))


@pytest.fixture
def new_engine(tmp_path: Path, clock: FakeClock) -> Iterator[NewEngine]:
    """Each engine stands for a process: they share the home, and nothing in memory."""
    engines: list[Engine] = []

    def make() -> Engine:
        engine = make_engine(tmp_path, "", clock)
        engines.append(engine)
        engine.rules()  # as at the start of a turn
        return engine

    yield make
    for engine in engines:
        engine.close()


class Home:
    """The folder with its budget.yaml."""

    def __init__(self, home: Path) -> None:
        self.file = home / "budget" / "budget.yaml"
        self.file.parent.mkdir(parents=True, exist_ok=True)

    def write(self, budgets: str) -> None:
        self.file.write_text(f"timezone: UTC\nbudgets: {budgets}\n")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def daily(engine: Engine) -> int | None:
    """The daily limit of everything together, as the gates see it."""
    amounts = flat(engine.rules().budget)
    return amounts.get(DAILY)


def history(engine: Engine) -> list[tuple[str, int | None, int | None, str]]:
    """Via, before, after, state; oldest first."""
    rows = engine.journal.changes(100)
    return [(row.via, row.before, row.after, row.state) for row in reversed(rows)]


def blocks(engine: Engine) -> bool:
    """What the tool gate says to a new run."""
    verdict = engine.tool_verdict(engine.open_run(make_run()))
    return verdict is not None and verdict.blocks


# ---------------------------------------------------------------------------------- written down


def test_the_first_look_is_a_beginning_and_not_a_change(home: Home, new_engine: NewEngine) -> None:
    home.write("{global: {daily_usd: 5}}")
    assert daily(new_engine()) == 5 * USD
    assert history(new_engine()) == []


def test_the_first_limit_of_a_running_process_is_a_change(
    home: Home, new_engine: NewEngine
) -> None:
    engine = new_engine()
    assert daily(engine) is None
    home.write("{global: {daily_usd: 5}}")
    assert daily(engine) == 5 * USD
    assert history(engine) == [("editor", None, 5 * USD, "done")]


def test_each_difference_is_written_down_once_over_all_processes(
    home: Home, new_engine: NewEngine
) -> None:
    home.write("{global: {daily_usd: 5, monthly_usd: 50}, per_sender: {default: {daily_usd: 1}}}")
    engines = [new_engine() for _ in range(3)]
    for engine in engines:
        daily(engine)
    home.write("{global: {daily_usd: 4, monthly_usd: 50}, per_sender: {default: {daily_usd: 2}}}")
    for engine in engines:
        assert daily(engine) == 4 * USD
    assert daily(new_engine()) == 4 * USD
    assert history(engines[0]) == [
        ("editor", 5 * USD, 4 * USD, "done"),
        ("editor", 1 * USD, 2 * USD, "done"),
    ]


def test_many_that_look_at_once_write_one_row(home: Home, new_engine: NewEngine) -> None:
    home.write("{global: {daily_usd: 5}}")
    engines = [new_engine() for _ in range(6)]
    for engine in engines:
        daily(engine)
    home.write("{global: {daily_usd: 4}}")
    barrier = threading.Barrier(len(engines))

    def look(engine: Engine) -> None:
        barrier.wait()
        engine.rules()
        while engine.limits.waits:
            engine.rules()

    threads = [threading.Thread(target=look, args=(engine,)) for engine in engines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert history(engines[0]) == [("editor", 5 * USD, 4 * USD, "done")]


def test_a_process_that_was_overtaken_compares_anew(
    home: Home, new_engine: NewEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its look at the ledger and its turn to write, another one has settled the file."""
    home.write("{global: {daily_usd: 5}}")
    engine, other = new_engine(), new_engine()
    home.write("{global: {daily_usd: 4}}")
    known = engine.limits._history.known

    def overtaken() -> limit_history.Known | None:
        found = known()
        daily(other)
        return found

    monkeypatch.setattr(engine.limits._history, "known", overtaken)
    assert daily(engine) == 4 * USD
    assert history(engine) == [("editor", 5 * USD, 4 * USD, "done")]


def test_a_comment_is_no_change_and_lets_no_run_begin_anew(
    home: Home, new_engine: NewEngine
) -> None:
    home.write("{global: {daily_usd: 1}}")
    engine = new_engine()
    live = engine.open_run(make_run())
    spend(engine, "1.50")
    verdict = engine.tool_verdict(live)
    assert verdict is not None
    engine.blocked_tool(live, verdict)
    live.last_answers_used = 1
    home.file.write_text(home.file.read_text() + "# touched\n")
    assert engine.tool_verdict(live) is not None
    assert (live.closing, live.last_answers_used) == (verdict, 1)
    assert history(engine) == []


def test_a_change_by_command_is_the_persons_and_no_editors(
    home: Home, new_engine: NewEngine
) -> None:
    engine, other = new_engine(), new_engine()
    daily(other)
    table.answer(lambda: engine, "set", Args(OWNER, ("global", "daily", "5")))
    assert daily(other) == 5 * USD
    table.answer(lambda: engine, "unset", Args(OWNER, ("global", "daily")))
    assert daily(other) is None
    assert history(other) == [("chat", None, 5 * USD, "done"), ("chat", 5 * USD, None, "done")]
    assert {row.who for row in other.journal.changes(9)} == {"owner"}


def test_who_sees_the_file_before_the_command_is_done_knows_whose_it_is(
    home: Home, new_engine: NewEngine
) -> None:
    """Between the write of the file and its record another process may look, at a reached limit."""
    home.write("{global: {daily_usd: 1}}")
    engine, other = new_engine(), new_engine()
    daily(other)
    spend(engine, "1.50")
    with engine.limits.changed_by("owner", "chat", DAILY, 9 * USD):
        home.write("{global: {daily_usd: 9}}")
        assert daily(other) == 9 * USD
    assert daily(engine) == 9 * USD
    assert history(engine) == [("chat", 1 * USD, 9 * USD, "done")]
    assert other.held_limits() == []


def test_a_refused_command_leaves_no_name_behind(home: Home, new_engine: NewEngine) -> None:
    home.write("{global: {daily_usd: 1}}")
    engine = new_engine()
    spend(engine, "1.50")
    by = engine.limits.changed_by("owner", "chat", DAILY, 9 * USD)
    with pytest.raises(ConfigRefused, match="not writable"), by:
        raise ConfigRefused("not writable")
    home.write("{global: {daily_usd: 9}}")
    assert daily(engine) == 1 * USD
    assert [row[0] for row in history(engine)] == ["editor"]


def test_an_announcement_is_for_that_amount_and_that_minute(
    home: Home, new_engine: NewEngine, clock: FakeClock
) -> None:
    home.write("{global: {daily_usd: 1}}")
    engine, other = new_engine(), new_engine()
    daily(other)
    spend(engine, "1.50")
    with engine.limits.changed_by("owner", "chat", DAILY, 2 * USD):
        home.write("{global: {daily_usd: 500}}")  # somebody else was quicker
        assert daily(other) == 1 * USD
        home.write("{global: {daily_usd: 2}}")
        clock.advance(limit_history.ANNOUNCED_FOR_MS / 1000 + 1)
        assert daily(other) == 1 * USD  # an announcement as old as that is a dead command's
    assert daily(engine) == 2 * USD


def test_who_changed_it_is_the_files_owner(home: Home, tmp_path: Path) -> None:
    home.write("{}")
    assert owner_of(home.file) == home.file.owner()
    assert owner_of(tmp_path / "gone") == "someone"


# ---------------------------------------------------------------------------------- what waits


@pytest.mark.case("A59")
def test_a_raise_of_a_reached_limit_waits_in_every_process(
    home: Home, new_engine: NewEngine, caplog: pytest.LogCaptureFixture
) -> None:
    home.write("{global: {daily_usd: 5}}")
    engine, other = new_engine(), new_engine()
    spend(engine, "5.10")
    assert blocks(engine)
    daily(other)
    with caplog.at_level(logging.WARNING):
        home.write("{global: {daily_usd: 500}}")
        assert blocks(engine)
        assert blocks(other)
        assert blocks(new_engine())  # after a restart
    assert [daily(e) for e in (engine, other, new_engine())] == [5 * USD] * 3
    assert history(engine) == [("editor", 5 * USD, 500 * USD, "held")]
    assert [("confirm" in record.message) for record in caplog.records] == [True]


def test_a_confirmation_acts_everywhere(home: Home, new_engine: NewEngine) -> None:
    home.write("{global: {daily_usd: 5}}")
    engine, other = new_engine(), new_engine()
    daily(other)
    spend(engine, "5.10")
    home.write("{global: {daily_usd: 500}}")
    assert (daily(engine), daily(other)) == (5 * USD, 5 * USD)
    (change,) = other.confirm("owner", "chat")
    assert (change.who, change.before, change.after) == ("owner", 5 * USD, 500 * USD)
    assert (daily(engine), daily(other), daily(new_engine())) == (500 * USD,) * 3
    assert not blocks(engine)
    assert other.confirm("owner", "chat") == []
    assert history(engine) == [
        ("editor", 5 * USD, 500 * USD, "confirmed"),
        ("chat", 5 * USD, 500 * USD, "done"),
    ]


def test_a_raise_of_a_limit_that_is_not_reached_acts_at_once(
    home: Home, new_engine: NewEngine
) -> None:
    home.write("{global: {daily_usd: 5}}")
    engine = new_engine()
    spend(engine, "4.90")
    home.write("{global: {daily_usd: 500}}")
    assert daily(engine) == 500 * USD
    assert history(engine) == [("editor", 5 * USD, 500 * USD, "done")]


@pytest.mark.case("T27")
def test_a_lowered_limit_acts_at_the_next_check_of_the_tool_gate(
    home: Home, new_engine: NewEngine
) -> None:
    home.write("{global: {daily_usd: 5}}")
    engine = new_engine()
    spend(engine, "1.50")
    live = engine.open_run(make_run())
    verdict = engine.tool_verdict(live)
    assert verdict is not None
    assert not verdict.blocks
    home.write("{global: {daily_usd: 1}}")
    verdict = engine.tool_verdict(live)
    assert verdict is not None
    assert verdict.blocks
    assert history(engine) == [("editor", 5 * USD, 1 * USD, "done")]


def test_the_tool_gate_asks_no_ledger_on_its_own_thread(
    home: Home, new_engine: NewEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.write("{global: {daily_usd: 5}}")
    engine = new_engine()
    live = engine.open_run(make_run())
    engine.tool_verdict(live)
    here = threading.get_ident()
    settle = engine.limits.settle
    threads: list[int] = []
    monkeypatch.setattr(
        engine.limits, "settle", lambda *a: threads.append(threading.get_ident()) or settle(*a)
    )
    home.write("{global: {daily_usd: 9}}")
    engine.tool_verdict(live)
    assert engine.judge.rules(look_again=False).budget.limits_for(Scope.GLOBAL, "")[0].amount == (
        9 * USD
    )
    assert threads
    assert here not in threads


def test_a_limit_under_which_nothing_more_fits_is_reached_too(
    home: Home, new_engine: NewEngine
) -> None:
    """Admission stops before the number is reached; the decision is what remembers it."""
    home.write("{global: {daily_usd: 5}}")
    engine = new_engine()
    spend(engine, "4.90")
    live = engine.open_run(make_run())
    (verdict,) = (v for s in run_scopes(live.run) for v in engine.judge.read_now(s))
    engine.blocked_tool(live, closed(verdict))
    assert engine.recorder.flush(5.0)
    home.write("{global: {daily_usd: 500}}")
    assert daily(engine) == 5 * USD


@pytest.mark.parametrize(
    ("before", "after", "sender"),
    [
        ("{global: {daily_usd: 1}}", "{}", "2"),
        ("{global: {daily_usd: 1}}", "{global: {daily_usd: null}}", "2"),
        ("{global: {daily_usd: 0}}", "{global: {daily_usd: 1}}", "0"),
        ("{global: {daily_calls: 1}}", "{global: {daily_calls: 9}}", "0"),
        ("{per_sender: {default: {daily_usd: 1}}}", "{per_sender: {default: {daily_usd: 9}}}", "2"),
        (
            "{per_sender: {default: {daily_usd: 1}}}",
            '{per_sender: {default: {daily_usd: 1}, overrides: {"s:1": {daily_usd: 9}}}}',
            "2",
        ),
        (
            '{per_sender: {default: {daily_usd: 9}, overrides: {"s:1": {daily_usd: 1}}}}',
            "{per_sender: {default: {daily_usd: 9}}}",
            "2",
        ),
        (
            '{per_sender: {default: {daily_usd: 9}, overrides: {"s:1": {daily_usd: 1}}}}',
            '{per_sender: {default: {daily_usd: 9}, overrides: {"s:1": {daily_usd: null}}}}',
            "2",
        ),
    ],
)
def test_every_way_to_loosen_a_reached_limit_waits(
    home: Home, new_engine: NewEngine, before: str, after: str, sender: str
) -> None:
    home.write(before)
    engine = new_engine()
    spend(engine, sender, sender_id="s:1")
    limits = engine.rules().budget.limits_for(Scope.SENDER, "s:1")
    overall = engine.rules().budget.limits_for(Scope.GLOBAL, "")
    home.write(after)
    budget = engine.rules().budget
    assert budget.limits_for(Scope.SENDER, "s:1") == limits
    assert budget.limits_for(Scope.GLOBAL, "") == overall
    assert len(engine.held_limits()) == 1
    assert engine.confirm("owner", "chat")
    assert flat(engine.rules().budget) == flat(engine.budget_file.current())


def test_only_what_is_reached_waits(home: Home, new_engine: NewEngine) -> None:
    home.write("{global: {daily_usd: 1, monthly_usd: 50}, per_sender: {default: {daily_usd: 5}}}")
    engine = new_engine()
    spend(engine, "2", sender_id="s:1")
    home.write("{global: {daily_usd: 9, monthly_usd: 90}, per_sender: {default: {daily_usd: 9}}}")
    amounts = flat(engine.rules().budget)
    assert amounts[DAILY] == 1 * USD
    assert amounts[Scope.GLOBAL, "", KEYS["monthly_usd"]] == 90 * USD
    assert amounts[Scope.SENDER, "", KEYS["daily_usd"]] == 9 * USD


def test_a_file_that_is_removed_takes_no_reached_limit_with_it(
    home: Home, new_engine: NewEngine
) -> None:
    home.write("{global: {daily_usd: 1}}")
    engine = new_engine()
    spend(engine, "2")
    daily(engine)
    home.file.unlink()
    engine.rules()
    for process in (engine, new_engine()):
        assert blocks(process)
        assert not process.nothing_configured
    assert engine.confirm("owner", "chat")
    assert not blocks(engine)
    assert engine.nothing_configured


def test_a_file_that_is_removed_is_no_limit_when_none_is_reached(
    home: Home, new_engine: NewEngine
) -> None:
    home.write("{global: {daily_usd: 5}}")
    engine = new_engine()
    daily(engine)
    home.file.unlink()
    assert daily(engine) is None
    assert engine.nothing_configured


def test_a_file_that_is_broken_takes_no_limit_with_it_over_a_restart(
    home: Home, new_engine: NewEngine
) -> None:
    home.write("{global: {daily_usd: 1}}")
    spend(new_engine(), "2")
    daily(new_engine())
    home.file.write_text("budgets: [oops")
    engine = new_engine()
    assert daily(engine) == 1 * USD
    assert blocks(engine)
    home.write("{global: {daily_usd: 1}}")
    assert daily(engine) == 1 * USD
    assert history(engine) == []


def test_what_waits_does_so_after_the_reset(
    home: Home, new_engine: NewEngine, clock: FakeClock
) -> None:
    home.write("{global: {daily_usd: 1}}")
    engine = new_engine()
    spend(engine, "2")
    home.write("{global: {daily_usd: 500}}")
    assert daily(engine) == 1 * USD
    clock.advance(86_400)
    assert daily(engine) == 1 * USD
    assert not blocks(engine)


@pytest.mark.parametrize(("new", "in_force"), [("1", 1), ("0.5", 0.5)])
def test_an_edit_back_ends_the_waiting(
    home: Home, new_engine: NewEngine, new: str, in_force: float
) -> None:
    home.write("{global: {daily_usd: 1}}")
    engine = new_engine()
    spend(engine, "2")
    home.write("{global: {daily_usd: 500}}")
    daily(engine)
    home.write(f"{{global: {{daily_usd: {new}}}}}")
    assert daily(engine) == in_force * USD
    assert engine.held_limits() == []
    assert history(engine) == [
        ("editor", 1 * USD, 500 * USD, "replaced"),
        ("editor", 500 * USD, in_force * USD, "done"),
    ]


def test_a_raise_that_another_limit_has_overtaken_waits_no_more(
    home: Home, new_engine: NewEngine
) -> None:
    home.write("{per_sender: {default: {daily_usd: 1}}}")
    engine = new_engine()
    spend(engine, "2", sender_id="s:1")
    home.write('{per_sender: {default: {daily_usd: 1}, overrides: {"s:1": {daily_usd: 9}}}}')
    assert len(engine.held_limits()) == 1
    table.answer(lambda: engine, "set", Args(OWNER, ("sender", "daily", "20")))
    assert engine.held_limits() == []
    assert [limit.amount for limit in engine.rules().limits((Scope.SENDER, "s:1"))] == [9 * USD]
    assert [row[3] for row in history(engine)] == ["replaced", "done"]


def test_a_further_raise_waits_with_the_first(home: Home, new_engine: NewEngine) -> None:
    home.write("{global: {daily_usd: 1}}")
    engine = new_engine()
    spend(engine, "2")
    for amount in (500, 900, 700):
        home.write(f"{{global: {{daily_usd: {amount}}}}}")
        assert daily(engine) == 1 * USD
    assert [row[3] for row in history(engine)] == ["replaced", "replaced", "held"]
    (held,) = engine.held_limits()
    assert (held.in_force, held.in_file) == (1 * USD, 700 * USD)


def test_a_persons_command_is_their_word(home: Home, new_engine: NewEngine) -> None:
    home.write("{global: {daily_usd: 1}}")
    engine, other = new_engine(), new_engine()
    spend(engine, "2")
    home.write("{global: {daily_usd: 500}}")
    assert (daily(engine), daily(other)) == (1 * USD, 1 * USD)
    # The same amount as the file already says: nothing is written, and yet it is their word.
    table.answer(lambda: engine, "set", Args(OWNER, ("global", "daily", "500")))
    assert (daily(engine), daily(other)) == (500 * USD, 500 * USD)
    assert history(engine) == [
        ("editor", 1 * USD, 500 * USD, "confirmed"),
        ("chat", 1 * USD, 500 * USD, "done"),
    ]


def test_a_limit_that_holds_anew_is_spoken_of_anew(home: Home, new_engine: NewEngine) -> None:
    """Also where the shared default is what was changed: it is the limit of each."""
    home.write("{per_sender: {default: {daily_usd: 1}}}")
    engine = new_engine()
    spend(engine, "0.90", sender_id="s:1")
    live = engine.open_run(make_run(sender_id="s:1"))
    assert len(engine.new_alerts(live)) == 1
    assert new_engine().new_alerts(live) == []
    home.write("{per_sender: {default: {daily_usd: 1.10}}}")
    assert len(new_engine().new_alerts(live)) == 1
    assert new_engine().new_alerts(live) == []


# ---------------------------------------------------------------------------------- no ledger


def test_while_the_ledger_does_not_answer_tighter_acts_and_looser_waits(
    home: Home, new_engine: NewEngine, tmp_path: Path
) -> None:
    home.write("{global: {daily_usd: 5, monthly_usd: 50}}")
    engine = new_engine()
    engine.rules()
    month = (Scope.GLOBAL, "", KEYS["monthly_usd"])
    with closing(sqlite3.connect(tmp_path / "budget" / "ledger.db")) as lock:
        lock.execute("BEGIN IMMEDIATE")
        home.write("{global: {daily_usd: 4, monthly_usd: 90}}")
        amounts = flat(engine.rules().budget)
        assert (amounts[DAILY], amounts[month]) == (4 * USD, 50 * USD)
        assert history(engine) == []
    amounts = flat(engine.rules().budget)
    assert (amounts[DAILY], amounts[month]) == (4 * USD, 90 * USD)
    assert len(history(engine)) == 2


def test_a_persons_command_acts_without_a_ledger(
    home: Home, new_engine: NewEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.write("{global: {daily_usd: 5}}")
    engine = new_engine()
    daily(engine)
    with monkeypatch.context() as broken:
        broken.setattr(limit_history.LimitHistory, "announce", _fails)
        broken.setattr(limit_history.LimitHistory, "changing", _fails)
        answer = table.answer(lambda: engine, "set", Args(OWNER, ("global", "daily", "9")))
        assert "not in the history" in answer.text
        assert daily(engine) == 9 * USD
    assert daily(engine) == 9 * USD
    assert history(engine) == [("chat", 5 * USD, 9 * USD, "done")]


def _fails(*_: object) -> None:
    raise LedgerError("does not answer")


def test_two_homes_on_one_ledger_do_not_see_each_others_limits(
    tmp_path: Path, clock: FakeClock
) -> None:
    url = f"ledger: {{url: 'sqlite:///{tmp_path / 'shared.db'}'}}\n"
    first = make_engine(tmp_path / "a", f"budgets: {{global: {{daily_usd: 1}}}}\n{url}", clock)
    second = make_engine(tmp_path / "b", f"budgets: {{global: {{daily_usd: 9}}}}\n{url}", clock)
    with closing(first), closing(second):
        assert (daily(first), daily(second)) == (1 * USD, 9 * USD)
        spend(first, "2")
        text = (tmp_path / "a" / "budget" / "budget.yaml").read_text()
        (tmp_path / "a" / "budget" / "budget.yaml").write_text(text.replace("usd: 1", "usd: 7"))
        assert (daily(first), daily(second)) == (1 * USD, 9 * USD)
        assert [len(engine.held_limits()) for engine in (first, second)] == [1, 0]


# ---------------------------------------------------------------------------------- said


def say(engine: Engine, text: str, caller: Caller = OWNER) -> str:
    return chat.reply(lambda: engine, text, caller)


def test_status_history_and_confirm_say_it(home: Home, new_engine: NewEngine) -> None:
    home.write("{global: {daily_usd: 5}}")
    engine = new_engine()
    spend(engine, "5.10", sender_id="telegram:2")
    home.write("{global: {daily_usd: 500}}")
    status = say(engine, "status")
    assert "$5.00 is in force" in " ".join(status.split())
    assert "/budget confirm" in status
    assert max(map(len, status.splitlines())) <= 40
    assert "waits for a confirmation" in say(engine, "history")
    assert "500" not in say(engine, "status", STRANGER)
    data = table.answer(lambda: engine, "status", Args(OWNER)).data
    assert isinstance(data, dict)
    assert data["held_limits"] == [
        {"scope": "global", "id": "", "window": "daily", "measure": "usd",
         "in_force": "5", "in_file": "500"}
    ]  # fmt: skip
    assert "does not know" in say(engine, "confirm please")
    assert "was $5.00, is $500.00" in say(engine, "confirm")
    assert "confirm" not in say(engine, "status")
    assert "Nothing waits" in say(engine, "confirm")


def test_only_an_admin_confirms(home: Home, new_engine: NewEngine) -> None:
    home.write("{global: {daily_usd: 5}}")
    engine = new_engine()
    spend(engine, "5.10")
    home.write("{global: {daily_usd: 500}}")
    assert "admin" in say(engine, "confirm", STRANGER)
    assert daily(engine) == 5 * USD
    assert chat.changes_something("confirm")  # and not by a sender who is not certain


# ---------------------------------------------------------------------------------- pure


@pytest.mark.parametrize(
    ("before", "after", "looser"),
    [
        ("{daily_usd: 5}", "{daily_usd: 6}", True),
        ("{daily_usd: 5}", "{daily_usd: 5}", False),
        ("{daily_usd: 5}", "{daily_usd: 4}", False),
        ("{daily_usd: 5}", "{daily_usd: null}", True),
        ("{daily_usd: 5}", "{}", True),
        ("{}", "{daily_usd: 5}", False),
        ("{daily_usd: null}", "{daily_usd: 5}", False),
        ("{daily_usd: 0}", "{daily_usd: 0.01}", True),
    ],
)
def test_what_is_looser(before: str, after: str, looser: bool) -> None:
    maps = []
    for text in (before, after):
        budget = parse_budget(f"budgets: {{global: {text}}}".encode(), "f").value
        assert budget is not None
        assert flat(with_limits(budget, flat(budget))) == flat(budget)
        maps.append(flat(budget))
    assert is_looser(*maps, DAILY) is looser

"""Import: what the host noted before, once, with the right owners, and out again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from budget_plugin.commands import chat, table
from budget_plugin.commands.asking import OK, PROBLEM, USAGE, Answer, Caller
from budget_plugin.engine.engine import Engine
from budget_plugin.policy.limits import Scope
from tests.billing import NOON, SONNET, bill, counts, opened, rows, run_in
from tests.unit.test_host_state import COUNTS, KEY, Host

ME = Caller("me", "command line", "hermes budget")
NOON_S = NOON / 1000
HOUR_S = 3_600
CALL = 1_000 * 3_000 + 100 * 15_000  # nano-dollars of 1,000 tokens in and 100 out
SESSIONS = (
    "CREATE TABLE sessions (id, source, user_id, profile_name, parent_session_id, started_at)"
)


class State(Host):
    """The host's database with its sessions."""

    def __init__(self, home: Path) -> None:
        super().__init__(home / "state.db", (*KEY, *COUNTS, "first_seen"))
        self.run(SESSIONS)

    def session(self, session_id: str, source: str = "cli", **values: object) -> None:
        known = {"user_id": None, "profile_name": None, "parent_session_id": None, **values}
        row = (session_id, source, *known.values(), NOON_S - HOUR_S)
        self.run("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?)", row)

    def used(self, session_id: str, calls: int, **values: object) -> None:
        """So many calls of 1,000 tokens in and 100 out within the last hour."""
        self.row(**{
            "session_id": session_id, "model": SONNET, "task": "", "api_call_count": calls,
            "input_tokens": 1_000 * calls, "output_tokens": 100 * calls,
            "first_seen": NOON_S - HOUR_S, "last_seen": NOON_S, **values,
        })  # fmt: skip


@pytest.fixture
def state(tmp_path: Path) -> State:
    return State(tmp_path)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with opened(tmp_path, "timezone: UTC\n") as engine:
        yield engine


def say(engine: Engine, text: str) -> Answer:
    name, args, _ = chat.parse(text, ME)
    return table.answer(lambda: engine, name, args)


def data(engine: Engine, text: str = "import") -> dict[str, Any]:
    found = say(engine, text).data
    assert isinstance(found, dict)
    return found


def nanos(engine: Engine, scope: Scope = Scope.GLOBAL, scope_id: str = "") -> int:
    return engine.ledger.spend_between((scope, scope_id), 0, NOON * 2).nanos


def is_exact(engine: Engine) -> bool:
    return not engine.ledger.verify()[1]


def test_each_call_is_a_row_between_the_first_and_the_last(engine: Engine, state: State) -> None:
    state.session("s1")
    state.used("s1", 3)
    assert data(engine)["calls"] == 3
    found = rows(engine)
    assert [row["at_ms"] for row in found] == [NOON - 3_600_000, NOON - 1_800_000, NOON]
    assert [row["cost_nanos"] for row in found] == [CALL] * 3
    assert all("imported" in row["flags"].split() for row in found)
    assert is_exact(engine)


def test_the_same_again_adds_nothing_and_growth_is_added(engine: Engine, state: State) -> None:
    state.session("s1")
    for calls, new in ((2, 2), (2, 0), (5, 3), (5, 0)):
        state.used("s1", calls)
        assert data(engine)["imported"] == new
    assert nanos(engine) == 5 * CALL


def test_removal_restores_what_was(engine: Engine, state: State) -> None:
    bill(engine, run_in(engine, session_id="live"), counts(1_000, 100))
    say(engine, "set global total 100")
    before = engine.judge.read_now((Scope.GLOBAL, ""))
    state.session("s1")
    state.used("s1", 4)
    say(engine, "import")
    assert engine.judge.read_now((Scope.GLOBAL, ""))[0].used == 5 * CALL
    assert data(engine, "import --remove") == {"removed": 4}
    assert engine.judge.read_now((Scope.GLOBAL, ""))[0].used == before[0].used == CALL
    assert is_exact(engine)
    assert len(rows(engine)) == 1
    assert data(engine)["imported"] == 4  # and once more


def test_what_we_recorded_is_not_taken_again(engine: Engine, state: State) -> None:
    """Of five calls the ledger has two: three are missing."""
    live = run_in(engine, session_id="s1")
    for _ in range(2):
        bill(engine, live, counts(1_000, 100))
    assert engine.recorder.flush(60)
    state.session("s1")
    state.used("s1", 5)
    found = data(engine)
    assert (found["imported"], found["already"]) == (3, 2)
    assert nanos(engine) == 5 * CALL


def test_a_session_that_we_saw_whole_is_not_taken_under_another_name(
    engine: Engine, state: State
) -> None:
    bill(engine, run_in(engine, session_id="s1"), counts(1_000, 100))
    assert engine.recorder.flush(60)
    state.session("s1")
    state.used("s1", 1, model="claude-as-the-host-calls-it")
    assert data(engine)["imported"] == 0


def test_whose_money_it_was(engine: Engine, state: State) -> None:
    """A child's spend is its root's; a circle of parents ends."""
    state.session("cron_job7_20261130_120000", "cron", profile_name="research")
    state.session("child", "subagent", parent_session_id="cron_job7_20261130_120000")
    state.session("t1", "telegram", user_id="42")
    state.session("a", parent_session_id="b")
    state.session("b", parent_session_id="a")
    for session_id in ("cron_job7_20261130_120000", "child", "t1", "a"):
        state.used(session_id, 1)
    assert data(engine)["sessions"] == 4
    assert nanos(engine, Scope.CRON_JOB, "job7") == 2 * CALL
    assert nanos(engine, Scope.PROFILE, "research") == 2 * CALL
    assert nanos(engine, Scope.SENDER, "telegram:42") == CALL
    assert nanos(engine) == 4 * CALL
    assert is_exact(engine)


@pytest.mark.parametrize(
    ("values", "cost", "estimated"),
    [
        ({"cost_status": "actual", "actual_cost_usd": 0.5}, 250_000_000, 0),  # of two calls, each
        ({"cost_status": "estimated", "estimated_cost_usd": 0.5}, CALL, 0),  # our price is known
        ({"model": "acme-7b", "estimated_cost_usd": 0.5}, 250_000_000, 1),
        ({"model": "acme-7b"}, None, 0),
    ],
)
def test_what_a_call_cost(
    engine: Engine, state: State, values: dict[str, Any], cost: int | None, estimated: int
) -> None:
    state.session("s1")
    state.used("s1", 2, **values)
    found = data(engine)
    assert [row["cost_nanos"] for row in rows(engine)] == [cost] * 2
    assert [row["estimated"] for row in rows(engine)] == [estimated] * 2
    assert found["unpriced_calls"] == (2 if cost is None else 0)


def test_auxiliary_calls_of_before_are_taken_and_later_ones_left(
    engine: Engine, state: State
) -> None:
    state.session("s1")
    state.used("s1", 1, task="title_generation")
    assert data(engine)["imported"] == 1
    state.used("s1", 4, task="title_generation")  # these are counted live
    assert data(engine)["imported"] == 0


def test_a_session_is_not_replayed_as_one_run(engine: Engine, state: State) -> None:
    """Its money counts under limits of money, not under ceilings of a run."""
    state.session("s1")
    state.used("s1", 40)
    say(engine, "import")
    assert "cuts no run" in say(engine, "replay --tokens 5000").text
    assert "cuts 1 of 1 run" in say(engine, "replay global daily 0.10").text


def test_a_dry_run_writes_nothing(engine: Engine, state: State) -> None:
    state.session("s1")
    state.used("s1", 3)
    answer = say(engine, "import --dry-run")
    assert answer.text.startswith("Would import 3 calls of 1 session: $0.01\nFrom ")
    assert rows(engine) == []


def test_since_a_day(engine: Engine, state: State) -> None:
    state.session("old")
    state.used("old", 2, first_seen=NOON_S - 90 * 24 * HOUR_S, last_seen=NOON_S - 89 * 24 * HOUR_S)
    state.session("new")
    state.used("new", 1)
    assert data(engine, "import --since 2026-11-01")["imported"] == 1
    assert data(engine)["imported"] == 2
    assert say(engine, "import --since yesterday").exit_code == USAGE


def test_without_a_database_there_is_nothing(engine: Engine) -> None:
    answer = say(engine, "import")
    assert (answer.exit_code, answer.text) == (OK, "There is nothing to import.")


def test_a_database_that_cannot_be_read_is_named(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "state.db").write_bytes(b"not a database, whatever it is called" * 99)
    answer = say(engine, "import")
    assert answer.exit_code == PROBLEM
    assert answer.text.startswith(f"Nothing was imported: {tmp_path / 'state.db'} cannot be read")


def test_an_older_host_is_read_as_far_as_it_goes(engine: Engine, tmp_path: Path) -> None:
    host = Host(tmp_path / "state.db", ("session_id", "model", "input_tokens", "output_tokens"))
    host.run("INSERT INTO session_model_usage VALUES ('s1', ?, 1000, 100)", (SONNET,))
    assert data(engine)["imported"] == 1
    assert nanos(engine) == CALL


def test_only_who_may_change_limits_may_import(engine: Engine) -> None:
    visitor = Caller("telegram:2", "chat", "/budget", may_change=False, sender_id="telegram:2")
    assert "admin" in chat.reply(lambda: engine, "import", visitor)
    assert rows(engine) == []

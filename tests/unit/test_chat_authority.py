"""`/budget` in a chat app: who is asking, and what they may do."""

from __future__ import annotations

import asyncio
import random
import sys
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from budget_plugin.engine.engine import Engine
from budget_plugin.hermes.commands import Commands
from budget_plugin.hermes.runtime import Runtime
from budget_plugin.policy.limits import Scope
from budget_plugin.testing import FakeClock, at, gateway_event, make_engine, spend

ADMIN, OTHER_ADMIN, GUEST = "111", "112", "222"
YAML = """\
timezone: UTC
budgets:
  global: {daily_usd: 5.00}
  per_sender: {default: {daily_usd: 2.00}}
admins: ["telegram:111", "Telegram:112"]
"""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = make_engine(tmp_path, YAML, FakeClock(at("2026-11-30 12:00")))
    yield engine
    engine.close()


@pytest.fixture
def commands(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    runtime = Runtime(tmp_path)
    monkeypatch.setattr(runtime, "engine", lambda: engine)
    return Commands(runtime)


async def message(
    commands: Commands, user_id: str | None, text: str, *, gateway: Any = None
) -> str:
    """One message as the gateway treats it: the hook and the handler in the same task."""
    event = gateway_event(user_id, f"/budget {text}")
    commands.pre_gateway_dispatch(event=event, gateway=gateway, session_store=None)
    await asyncio.sleep(0)
    return await commands.budget(text)


def say(commands: Commands, user_id: str | None, text: str, **more: Any) -> str:
    return asyncio.run(message(commands, user_id, text, **more))


def daily(engine: Engine) -> int | None:
    engine.reload_config()
    (limit,) = engine.rules().limits((Scope.GLOBAL, ""))
    return limit.amount // 10**9


# ---------------------------------------------------------------------------------- who may what


@pytest.mark.case("A60")
def test_a_group_chat(commands: Commands, engine: Engine) -> None:
    spend(engine, "1.23", sender_id="telegram:111", cron_job_id="secret-job")
    refused = say(commands, GUEST, "set global daily 500")
    assert refused == (
        "Only an admin may change limits here. You can ask for status and forecast; "
        "to have a limit changed, ask the owner of this agent."
    )
    assert daily(engine) == 5
    asked = say(commands, GUEST, "status")
    assert "24 % of $5.00" in asked
    assert not {"1.23", "secret-job", "telegram:111"} & set(asked.split())
    assert "was $5.00, is $500.00" in say(commands, ADMIN, "set global daily 500")
    assert daily(engine) == 500
    (change,) = engine.journal.changes(10)
    assert (change.who, change.via) == ("telegram:111", "chat")
    assert change.at_ms == at("2026-11-30 12:00")


@pytest.mark.parametrize(
    "text",
    ["set global daily 9", "unset global daily", "history", "check", "verify", "doctor", "prices"],
)
def test_a_guest_may_only_ask(commands: Commands, engine: Engine, text: str) -> None:
    assert say(commands, GUEST, text).startswith("Only an admin may")
    assert daily(engine) == 5
    assert engine.journal.changes(10) == []


@pytest.mark.parametrize("text", ["", "status", "forecast", "help", "forecast sender"])
def test_everybody_may_ask(commands: Commands, engine: Engine, text: str) -> None:
    spend(engine, "0.10", sender_id="telegram:222")
    assert "admin" not in say(commands, GUEST, text)


def test_the_platform_of_an_admin_may_be_written_with_a_capital(
    commands: Commands, engine: Engine
) -> None:
    say(commands, OTHER_ADMIN, "set global daily 6")
    assert daily(engine) == 6


def test_the_same_number_on_another_platform_is_somebody_else(
    commands: Commands, engine: Engine
) -> None:
    async def on_discord() -> str:
        event = gateway_event(ADMIN, platform="discord")
        commands.pre_gateway_dispatch(event=event, gateway=None)
        return await commands.budget("set global daily 500")

    assert "Only an admin" in asyncio.run(on_discord())
    assert daily(engine) == 5


@pytest.mark.parametrize("user_id", [None, ""])
def test_a_message_without_a_sender_changes_nothing(
    commands: Commands, engine: Engine, user_id: str | None
) -> None:
    assert "Only an admin" in say(commands, user_id, "set global daily 500")
    assert "$5.00" in say(commands, user_id, "status")
    assert daily(engine) == 5


@pytest.mark.parametrize(
    "kwargs",
    [{}, {"event": None}, {"event": SimpleNamespace(source=None)}, {"event": object()}],
)
def test_an_odd_event_is_nobody(commands: Commands, engine: Engine, kwargs: dict[str, Any]) -> None:
    async def odd() -> str:
        await message(commands, ADMIN, "status")
        commands.pre_gateway_dispatch(**kwargs)
        return await commands.budget("set global daily 500")

    assert "Only an admin" in asyncio.run(odd())
    assert daily(engine) == 5


class Unreadable:
    """An event of a host that has changed."""

    @property
    def source(self) -> None:
        raise RuntimeError("no such thing any more")


def test_an_event_that_cannot_be_read_does_not_leave_the_one_before(
    commands: Commands, engine: Engine
) -> None:
    async def admin_then_unreadable() -> str:
        await message(commands, ADMIN, "status")
        commands.pre_gateway_dispatch(event=Unreadable(), gateway=None)
        return await commands.budget("set global daily 500")

    assert "Only an admin" in asyncio.run(admin_then_unreadable())
    assert daily(engine) == 5


# --------------------------------------------------------------------------- the host's own list


def with_policy(monkeypatch: pytest.MonkeyPatch, *, enabled: bool, admins: set[str]) -> None:
    """The host's helper; without a list of its own it calls everybody an admin."""

    def policy_for_source(config: Any, source: Any) -> Any:
        assert config == "the gateway's configuration"
        return SimpleNamespace(
            enabled=enabled, is_admin=lambda user_id: not enabled or user_id in admins
        )

    module = SimpleNamespace(policy_for_source=policy_for_source)
    monkeypatch.setitem(sys.modules, "gateway", SimpleNamespace(slash_access=module))
    monkeypatch.setitem(sys.modules, "gateway.slash_access", module)


GATEWAY = SimpleNamespace(config="the gateway's configuration")


def test_the_hosts_own_admins_may_set(
    commands: Commands, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_policy(monkeypatch, enabled=True, admins={"333"})
    say(commands, "333", "set global daily 7", gateway=GATEWAY)
    assert daily(engine) == 7
    assert "Only an admin" in say(commands, GUEST, "set global daily 8", gateway=GATEWAY)


def test_a_host_without_a_list_makes_nobody_an_admin(
    commands: Commands, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_policy(monkeypatch, enabled=False, admins=set())
    assert "Only an admin" in say(commands, GUEST, "set global daily 8", gateway=GATEWAY)
    assert daily(engine) == 5


# ------------------------------------------------------------------------------ nobody leaks in


def test_many_senders_at_once_are_never_confused(commands: Commands, engine: Engine) -> None:
    """Sixty messages interleave; each sees the sender of its own and no other."""
    dice = random.Random(60)

    async def one(number: int) -> tuple[str, str]:
        user_id = ADMIN if number % 3 == 0 else str(1000 + number)
        event = gateway_event(user_id)
        for _ in range(dice.randrange(4)):
            await asyncio.sleep(0)
        commands.pre_gateway_dispatch(event=event, gateway=None)
        for _ in range(dice.randrange(8)):
            await asyncio.sleep(0)
        return user_id, await commands.budget(f"set profile p{number} daily {number + 1}")

    async def all_at_once() -> list[tuple[str, str]]:
        return await asyncio.gather(*(one(number) for number in range(60)))

    answers = asyncio.run(all_at_once())
    done = {user_id for user_id, said in answers if said.startswith("Daily limit")}
    refused = {user_id for user_id, said in answers if said.startswith("Only an admin")}
    assert done == {ADMIN}
    assert len(refused) == 40
    assert ADMIN not in refused
    changes = engine.journal.changes(100)
    assert {change.who for change in changes} == {"telegram:111"}
    assert {change.scope_id for change in changes} == {f"p{n}" for n in range(0, 60, 3)}


def test_one_task_with_one_message_after_another(commands: Commands, engine: Engine) -> None:
    async def conversation() -> list[str]:
        return [
            await message(commands, ADMIN, "set global daily 6"),
            await message(commands, GUEST, "set global daily 7"),
            await message(commands, None, "set global daily 8"),
            await message(commands, ADMIN, "status"),
        ]

    first, second, third, _ = asyncio.run(conversation())
    assert "is $6.00" in first
    assert "Only an admin" in second
    assert "Only an admin" in third
    assert daily(engine) == 6


def test_a_task_that_an_admins_message_started_speaks_for_itself(
    commands: Commands, engine: Engine
) -> None:
    """It inherits the context, and with it the admin's name; that is not enough."""

    async def later() -> str:
        return await commands.budget("set global daily 500")

    async def admin_then_background() -> str:
        await message(commands, ADMIN, "status")
        return await asyncio.create_task(later())

    assert "Only an admin" in asyncio.run(admin_then_background())
    assert daily(engine) == 5


def test_a_gateway_stays_one_when_no_message_is_known(commands: Commands, engine: Engine) -> None:
    say(commands, ADMIN, "status")

    async def unknown() -> str:
        return await commands.budget("set global daily 500")

    assert "Only an admin" in asyncio.run(unknown())
    assert daily(engine) == 5


def test_a_gateway_that_called_no_hook_yet(
    commands: Commands, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gateway.run", SimpleNamespace())

    async def first_thing() -> str:
        return await commands.budget("set global daily 500")

    assert "Only an admin" in asyncio.run(first_thing())
    assert daily(engine) == 5


# ---------------------------------------------------------------------------------- at the machine


def test_the_person_at_the_machine_may_do_all(
    commands: Commands, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The terminal programs call the handler from a plain thread and run what it returns."""
    monkeypatch.setattr("getpass.getuser", lambda: "ada")
    assert "is $9.00" in asyncio.run(commands.budget("set global daily 9"))
    (change,) = engine.journal.changes(10)
    assert (change.who, change.via) == ("ada", "chat")


def test_the_answer_may_be_awaited_on_another_thread(commands: Commands) -> None:
    """The host does so when a loop is running already: the sender was read before that."""
    answers: list[str] = []

    async def in_gateway() -> None:
        commands.pre_gateway_dispatch(event=gateway_event(ADMIN), gateway=None)
        awaitable = commands.budget("set global daily 9")
        thread = threading.Thread(target=lambda: answers.append(asyncio.run(awaitable)))
        thread.start()
        await asyncio.to_thread(thread.join)

    asyncio.run(in_gateway())
    assert "is $9.00" in answers[0]


# ----------------------------------------------------------------------------- the loop, and faults


@pytest.mark.case("T38")
def test_the_event_loop_goes_on_while_a_command_works(
    commands: Commands, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command waits for something that only the loop can do; so the loop must be free."""
    began, freed = threading.Event(), threading.Event()
    read_now = engine.judge.read_now

    def slow(scope: Any) -> Any:
        began.set()
        assert freed.wait(10), "the event loop stood still"
        return read_now(scope)

    monkeypatch.setattr(engine.judge, "read_now", slow)

    async def both() -> str:
        asked = asyncio.ensure_future(message(commands, ADMIN, "status"))
        while not asked.done():
            await asyncio.sleep(0)
            if began.is_set():
                freed.set()
        return await asked

    assert "$5.00" in asyncio.run(both())


def test_a_fault_of_ours_is_an_answer(
    commands: Commands, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr(engine, "rules", broken)
    assert say(commands, ADMIN, "status") == (
        "The budget command failed. The log has the details; nothing else was changed."
    )


# -------------------------------------------------------------------------- while the agent is busy


@pytest.mark.parametrize(
    "text", ["/budget", "/budget status", " /budget  status ", "/budget@my_bot status"]
)
def test_a_question_that_reached_the_model_is_answered(
    commands: Commands, engine: Engine, text: str
) -> None:
    spend(engine, "1.23", sender_id="telegram:111")
    spend(engine, "0.50", sender_id="telegram:222")
    said = commands.answer_from_text(text, GUEST, "telegram")
    assert said is not None
    assert "$0.50 of $2.00" in said
    assert "1.23" not in said


@pytest.mark.parametrize("sender_id", [ADMIN, GUEST, ""])
def test_a_change_that_reached_the_model_is_not_done(
    commands: Commands, engine: Engine, sender_id: str
) -> None:
    said = commands.answer_from_text("/budget set global daily 500", sender_id, "telegram")
    assert said is not None
    assert "was not carried out" in said
    assert daily(engine) == 5
    assert engine.journal.changes(10) == []


@pytest.mark.parametrize(
    "text",
    ["", "hello", "what does /budget do?", "/budgets", "/budgetary status", None, ["/budget"]],
)
def test_any_other_message_is_the_models(commands: Commands, text: object) -> None:
    assert commands.answer_from_text(text, GUEST, "telegram") is None


def test_an_admins_sender_is_not_certain_there(commands: Commands, engine: Engine) -> None:
    spend(engine, "1.23", sender_id="telegram:999")
    said = commands.answer_from_text("/budget status", ADMIN, "telegram")
    assert said is not None
    assert "telegram:999" not in said


def test_at_the_machine_it_is_the_persons(commands: Commands, engine: Engine) -> None:
    spend(engine, "1.23", sender_id="telegram:999")
    said = commands.answer_from_text("/budget status", "", "cli")
    assert said is not None
    assert "telegram:999" in said


def test_the_handler_is_awaitable_as_the_host_expects(commands: Commands) -> None:
    answer: Coroutine[Any, Any, str] = commands.budget("help")
    assert asyncio.iscoroutine(answer)
    assert "/budget status" in asyncio.run(answer)

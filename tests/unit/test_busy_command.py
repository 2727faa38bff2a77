"""A `/budget …` sent while the agent is busy reaches the model as text: answered, not billed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from budget_plugin.engine.engine import Engine
from budget_plugin.hermes.parts import Parts
from budget_plugin.testing import FakeClock, at, hook_kwargs, make_engine, spend

LIMIT = "timezone: UTC\nbudgets: {global: {daily_usd: 5.00}}\n"


class Host:
    """One process of the host, with the calls that reached the model."""

    def __init__(self, home: Path) -> None:
        self.engine: Engine = make_engine(home, LIMIT, FakeClock(at("2026-11-30 12:00")))
        self.parts = Parts(home)
        self.parts.runtime._engine = self.engine
        self.asked = 0

    def turn(self, message: str, **more: Any) -> str:
        """What the person reads; counts whether the model was asked."""
        kwargs = hook_kwargs(**more)
        self.parts.hooks.pre_llm_call(user_message=message, **kwargs)
        reply = self.parts.gate.llm_execution(
            next_call=self._model, request={"messages": []}, api_mode="chat_completions", **kwargs
        )
        return str(reply.choices[0].message.content)

    def _model(self, *_: Any) -> Any:
        from budget_plugin.hermes.replies import final_answer

        self.asked += 1
        return final_answer("chat_completions", "a-model", "the model speaks")


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path)
    yield made
    made.engine.close()


@pytest.mark.parametrize("message", ["/budget", "/budget status", "  /budget status  "])
def test_a_question_is_answered_without_a_call(host: Host, message: str) -> None:
    spend(host.engine, "1.25")
    assert "$1.25 of $5.00" in host.turn(message)
    assert host.asked == 0
    assert host.engine.reservations.abandoned(0) == []


def test_nothing_is_changed_since_the_sender_is_not_certain(host: Host) -> None:
    before = host.engine.budget_file.path.read_text()
    answer = host.turn("/budget set global daily 500", platform="telegram", sender_id="1")
    assert host.asked == 0
    assert "500" not in host.engine.budget_file.path.read_text()
    assert host.engine.budget_file.path.read_text() == before
    assert "busy" in answer or "again" in answer


def test_of_other_peoples_spending_nothing_is_told(host: Host) -> None:
    spend(host.engine, "1.25", sender_id="telegram:2")
    answer = host.turn("/budget status", platform="telegram", sender_id="1")
    assert "telegram:2" not in answer
    assert "1.25" not in answer


@pytest.mark.parametrize("message", ["what is my /budget status?", "budget status", "/budgets", ""])
def test_other_messages_go_to_the_model(host: Host, message: str) -> None:
    assert host.turn(message) == "the model speaks"
    assert host.asked == 1

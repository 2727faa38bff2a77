"""A mistake in budget.yaml is said under the next answer, once for each state of the file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from budget_plugin.hermes.parts import Parts
from budget_plugin.testing import FakeClock, at, hook_kwargs, make_engine

GOOD = "timezone: UTC\nbudgets: {global: {daily_usd: 5}}\n"


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    made = Parts(tmp_path)
    engine = make_engine(tmp_path, GOOD, FakeClock(at("2026-11-30 12:00")))
    made.runtime._engine = engine
    yield made
    engine.close()


def answer(parts: Parts, **more: Any) -> str | None:
    """What is added under the answer of one turn."""
    turn = hook_kwargs(**more)
    parts.hooks.pre_llm_call(user_message="hello", **turn)
    return parts.hooks.transform_llm_output(response_text="The answer.", **turn)


def test_a_mistake_is_said_once(parts: Parts) -> None:
    file = parts.runtime.engine().budget_file.path
    assert answer(parts) is None
    file.write_text("timezone: UTC\nbudgets: {global: {daily_usd: $5}}\n")
    said = answer(parts)
    assert said is not None
    assert said.startswith("The answer.\n\nBudget: ")
    assert f"{file}:2: budgets.global.daily_usd" in said
    assert "The last good settings stay in force." in said
    assert answer(parts) is None

    file.write_text("timezone: UTC\nbudgets: {global: {daily_usd: five}}\n")
    assert answer(parts) is not None  # another mistake


def test_in_a_chat_app_nobody_reads_it_under_an_answer(parts: Parts) -> None:
    parts.runtime.engine().budget_file.path.write_text("budgets: [1]\n")
    assert answer(parts, platform="telegram", sender_id="1") is None

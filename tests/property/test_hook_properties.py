"""Whatever the host brings is recorded or ignored, and never an exception that the host sees."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from budget_plugin.engine import recorder
from budget_plugin.hermes.parts import Parts
from budget_plugin.hermes.plugin import HOOKS
from tests.billing import SONNET, opened, rows

LIMITS = """\
budgets:
  global: {daily_usd: 5000, daily_calls: 100000}
  per_sender: {default: {daily_usd: 5000}}
  per_cron_job: {default: {daily_usd: 5000}}
"""

NAMES = (
    "api_mode", "api_request_id", "args", "assistant_content_chars", "aux_task", "base_url",
    "child_role", "child_session_id", "child_status", "completed", "error", "event", "gateway",
    "interrupted", "model", "parent_session_id", "parent_turn_id", "platform", "provider",
    "reason", "request", "response_model", "response_text", "result", "sender_id", "session_id",
    "session_store", "status", "task", "task_id", "tool_call_id", "tool_name", "turn_id", "usage",
    "user_message",
)  # fmt: skip
"""Every argument of the host that we read, and some that we do not."""


class Hostile:
    """Nothing about it can be asked."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("equal")

    def __bool__(self) -> bool:
        raise RuntimeError("true")

    def __str__(self) -> str:
        raise RuntimeError("text")

    __hash__ = None  # type: ignore[assignment]
    __repr__ = object.__repr__


class Word(str):
    """A text that is not quite one."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("equal")

    def __hash__(self) -> int:
        raise RuntimeError("hash")


simple = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([10**30, 2**63]),
    st.builds(lambda digits: -(10**digits), st.integers(0, 5_000)),
    st.floats(),
    st.text(st.characters(exclude_categories=())),
    st.sampled_from(["", "cron_job_20261130_120000", "cronjob", "/budget set global daily 1"]),
    st.builds(lambda size: "x" * size, st.integers(0, 200_000)),
    st.binary(),
    st.builds(Hostile),
    st.builds(Word, st.text()),
    st.builds(object),
)
anything = st.recursive(
    simple,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
usages = st.dictionaries(
    st.sampled_from(
        ["input_tokens", "output_tokens", "prompt_tokens", "completion_tokens", "request_count",
         "cache_read_tokens", "cache_write_tokens", "reasoning_tokens", "cost", "cost_details"]
    ),
    anything,
)  # fmt: skip
arguments = st.dictionaries(st.sampled_from(NAMES), anything, max_size=12)
with_usage = st.builds(lambda more, usage: {**more, "usage": usage}, arguments, usages)


class Lines(logging.Handler):
    """What is said aloud."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.kinds: list[tuple[object, ...]] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == recorder.__name__:
            return  # a machine so busy that the ledger's lock was long in coming
        error = record.exc_info[0] if record.exc_info else None
        what = record.args[:1] if error and isinstance(record.args, tuple) else record.args
        self.kinds.append((record.name, record.msg, what, error))


@pytest.fixture
def said() -> Iterator[Lines]:
    handler, logger = Lines(), logging.getLogger("budget_plugin")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


many = settings(
    max_examples=200,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@pytest.mark.parametrize("yaml", ["", LIMITS], ids=["unlimited", "limited"])
def test_no_hook_raises_or_repeats_itself_in_the_log(
    tmp_path: Path, said: Lines, yaml: str
) -> None:
    with opened(tmp_path, yaml) as engine:
        parts = Parts(tmp_path)
        parts.runtime._engine = engine

        @many
        @given(
            st.sampled_from([*HOOKS.items(), ("post_auxiliary_call", "hooks")]),
            arguments | with_usage,
        )
        def play(hook: tuple[str, str], kwargs: dict[str, Any]) -> None:
            name, owner = hook
            answer = getattr(getattr(parts, owner), name)(**kwargs)
            assert answer is None or isinstance(answer, str | dict)

        play()
    assert_no_kind_twice(said)


@pytest.mark.parametrize("yaml", ["", LIMITS], ids=["unlimited", "limited"])
def test_each_call_of_the_middleware_is_one_row_and_its_outcome_the_hosts(
    tmp_path: Path, said: Lines, yaml: str
) -> None:
    class Refused(Exception):
        status_code = 429

    with opened(tmp_path, yaml) as engine:
        parts = Parts(tmp_path)
        parts.runtime._engine = engine
        made: list[object] = []

        @many
        @given(arguments, st.one_of(anything, usages, st.just(Refused())))
        def play(kwargs: dict[str, Any], outcome: object) -> None:
            def next_call(*_: object) -> object:
                if isinstance(outcome, Refused):
                    raise outcome
                made.append(outcome)
                return outcome

            if isinstance(outcome, Refused):
                with pytest.raises(Refused) as raised:
                    parts.gate.llm_execution(**{**kwargs, "next_call": next_call})
                assert raised.value is outcome
            else:
                answer = parts.gate.llm_execution(**{**kwargs, "next_call": next_call})
                assert answer is outcome

        play()
        assert len(rows(engine)) == len(made) > 100
    assert_no_kind_twice(said)


def test_a_response_of_the_wildest_kind_is_a_row(tmp_path: Path) -> None:
    with opened(tmp_path) as engine:
        parts = Parts(tmp_path)
        parts.runtime._engine = engine
        kwargs = {"model": SONNET, "request": {"messages": [{"content": "hello"}]}}
        for outcome in (Hostile(), Word("text"), {"usage": Hostile()}, {"usage": {"cost": Word()}}):
            parts.gate.llm_execution(**kwargs, next_call=lambda made=outcome, *_: made)
        assert len(rows(engine)) == 4


def assert_no_kind_twice(said: Lines) -> None:
    assert len(said.kinds) == len(set(said.kinds)), said.kinds

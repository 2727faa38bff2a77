"""The middleware as the host calls it: what went out is recorded, what was raised is raised."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from budget_plugin.engine.engine import Engine
from budget_plugin.hermes.model_gate import ModelGate, was_not_billed
from budget_plugin.hermes.replies import final_answer
from budget_plugin.hermes.runs import Runs
from budget_plugin.hermes.runtime import Runtime
from budget_plugin.policy.verdicts import Spend
from budget_plugin.testing import hook_kwargs, spend
from tests.billing import SONNET, counts, opened, rows, spent, usd

ONE_DOLLAR = "budgets: {global: {daily_usd: 1.00}}"
EACH = 1_000 * 3_000 + 100 * 15_000  # of `ANSWERED`

ANSWERED = {"prompt_tokens": 1_000, "completion_tokens": 100}


class Host:
    """One process of the host: it plays the attempts of one request after another."""

    def __init__(self, engine: Engine, home: Path) -> None:
        self.engine = engine
        runtime = Runtime(home)
        runtime._engine = engine
        self.gate = ModelGate(runtime, Runs(runtime))
        self.kwargs = hook_kwargs(
            model=SONNET,
            provider="custom",
            base_url="https://provider.example/v1",
            api_mode="chat_completions",
            request={"model": SONNET, "messages": [{"role": "user", "content": "x" * 3_900}]},
        )

    def attempt(self, answers: Callable[..., Any], **changes: Any) -> Any:
        """One pass through the middleware."""
        return self.gate.llm_execution(**{**self.kwargs, "next_call": answers, **changes})

    def report(self, usage: object, **changes: Any) -> None:
        """The host's own word on an answer that it accepted."""
        self.gate.reported({**self.kwargs, "usage": usage, **changes})


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with opened(tmp_path) as engine:
        yield Host(engine, tmp_path)


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Host]:
    with opened(tmp_path, ONE_DOLLAR) as engine:
        yield Host(engine, tmp_path)


def answer(usage: object = None, text: str = "ok", **more: Any) -> Any:
    """A response as the SDK gives it."""
    message = SimpleNamespace(content=text, tool_calls=None)
    choice = SimpleNamespace(message=message, finish_reason=more.pop("finish_reason", "stop"))
    shaped = SimpleNamespace(**usage) if isinstance(usage, dict) else usage
    return SimpleNamespace(id="r1", model=SONNET, usage=shaped, choices=[choice], **more)


def raising(error: BaseException) -> Callable[..., Any]:
    def call(*_: Any) -> Any:
        raise error

    return call


def reservations(engine: Engine) -> int:
    assert engine.recorder.flush(60)
    with engine.ledger.reading() as connection:
        found: int = connection.execute("SELECT COUNT(*) FROM reservations").fetchone()[0]
    return found


# ------------------------------------------------------------------------- answers


def test_the_response_goes_on_as_it_came(host: Host) -> None:
    response = answer(ANSWERED)
    assert host.attempt(lambda *_: response) is response
    assert spent(host.engine) == Spend(certain_nanos=EACH, tokens=1_100, calls=1)


def test_tool_calls_that_were_cut_off_are_attempts_of_one_request(host: Host) -> None:
    """The host asks again under the same id, and reports only the answer that it took."""
    for _ in range(2):
        host.attempt(lambda *_: answer(ANSWERED, finish_reason="length"))
    host.attempt(lambda *_: answer(ANSWERED))
    host.report(counts(1_000, 100))
    assert len({row["attempt_id"] for row in rows(host.engine)}) == 3
    assert spent(host.engine).certain_nanos == 3 * EACH


@pytest.mark.case("T07")
def test_the_hosts_report_of_what_we_saw_adds_nothing(host: Host) -> None:
    host.attempt(lambda *_: answer(ANSWERED))
    for _ in range(3):
        host.report(counts(1_000, 100))
    assert spent(host.engine) == Spend(certain_nanos=EACH, tokens=1_100, calls=1)


@pytest.mark.case("A15", "T07")
def test_the_hosts_report_is_taken_where_the_response_said_nothing(host: Host) -> None:
    host.attempt(lambda *_: answer(None, "a" * 800))
    (row,) = rows(host.engine)
    assert (row["estimated"], row["output_tokens"]) == (1, 200)
    for _ in range(3):
        host.report(counts(1_000, 100))
    assert spent(host.engine) == Spend(certain_nanos=EACH, tokens=1_100, calls=1)


@pytest.mark.case("A15")
def test_an_answer_without_usage_is_estimated_from_its_length(host: Host) -> None:
    host.attempt(lambda *_: answer(None, "a" * 6_000))
    host.report(None)
    (row,) = rows(host.engine)
    prompt = row["input_tokens"]
    assert 975 <= prompt <= 1_025  # 3,900 characters and their keys
    assert row["output_tokens"] == 1_500
    assert row["cost_nanos"] == prompt * 3_000 + 1_500 * 15_000
    assert row["estimated"] == 1


@pytest.mark.case("A18")
def test_a_call_that_we_did_not_see_is_one_row_however_often_it_is_reported(host: Host) -> None:
    """Another plugin's middleware answered before ours was asked."""
    for out in (3, 3, 400):
        host.report(counts(10, out, cr=15_000, cw=12_000))
    whole = 10 * 3_000 + 15_000 * 300 + 12_000 * 3_750 + 400 * 15_000
    assert whole == usd("0.05553")
    assert [row["cost_nanos"] for row in rows(host.engine)] == [whole]


def test_reports_without_any_request_id_are_calls_of_their_own(host: Host) -> None:
    for _ in range(2):
        host.report(counts(1_000, 100), api_request_id="", turn_id="", session_id="s")
    assert spent(host.engine) == Spend(certain_nanos=2 * EACH, tokens=2_200, calls=2)


def test_another_plugins_answer_without_usage_and_without_us_is_nothing(host: Host) -> None:
    host.report(None)
    assert rows(host.engine) == []


def test_requests_without_an_id_are_told_apart_by_their_turn(host: Host) -> None:
    turns = [{"api_request_id": None, "turn_id": turn} for turn in ("one", "two")]
    for ids in turns:
        host.attempt(lambda *_: answer(None), **ids)
    for ids, out in zip(turns, (100, 200), strict=True):
        host.report(counts(1_000, out), **ids)
    assert [(row["run_id"], row["output_tokens"]) for row in rows(host.engine)] == [
        ("one", 100),
        ("two", 200),
    ]


# ------------------------------------------------------------------------- refusals


def test_a_refusal_reaches_no_provider_and_is_no_row(limited: Host) -> None:
    spend(limited.engine, "1.00")
    asked: list[int] = []
    reply = limited.attempt(lambda *_: asked.append(1))
    limited.report(None)
    limited.report(counts(0, 0))
    assert asked == []
    assert "$1.00" in reply.choices[0].message.content
    assert len(rows(limited.engine)) == 1  # what was spent before
    assert reservations(limited.engine) == 0


@pytest.mark.parametrize("api_mode", ["chat_completions", "codex_responses", "anthropic_messages"])
def test_the_refusal_of_another_copy_of_us_is_no_row(limited: Host, api_mode: str) -> None:
    ours = final_answer(api_mode, SONNET, "the budget is spent")
    assert limited.attempt(lambda *_: ours) is ours
    limited.report(None)
    assert rows(limited.engine) == []
    assert reservations(limited.engine) == 0


# ------------------------------------------------------------------------- errors


class HttpError(Exception):
    def __init__(self, status_code: object) -> None:
        super().__init__(f"status {status_code}")
        self.status_code = status_code


class OnItsResponse(Exception):
    def __init__(self, status: int) -> None:
        super().__init__("refused")
        self.response = SimpleNamespace(status_code=status)


class ConnectTimeout(Exception):
    """By the name of httpx."""


class Wrapped(Exception):
    """As the host wraps what the provider raised."""

    def __init__(self, original: BaseException) -> None:
        super().__init__("wrapped")
        self.original = original


NOT_BILLED = [
    HttpError(400), HttpError(429), HttpError(529), OnItsResponse(503), Wrapped(HttpError(500)),
    Wrapped(Wrapped(HttpError(404))), ConnectionRefusedError(), Wrapped(ConnectTimeout()),
]  # fmt: skip
PERHAPS_BILLED = [
    TimeoutError("read"), KeyboardInterrupt(), SystemExit(1), GeneratorExit(),
    InterruptedError("stopped by the user"), HttpError(None), HttpError("500"), HttpError(200),
]  # fmt: skip


@pytest.mark.case("A17")
@pytest.mark.parametrize("error", NOT_BILLED, ids=repr)
def test_what_the_provider_refused_is_not_billed(limited: Host, error: BaseException) -> None:
    with pytest.raises(type(error)) as raised:
        limited.attempt(raising(error))
    assert raised.value is error
    assert rows(limited.engine) == []
    assert reservations(limited.engine) == 0


@pytest.mark.parametrize("error", PERHAPS_BILLED, ids=repr)
def test_what_was_cut_off_is_charged_as_expected_and_flagged(
    limited: Host, error: BaseException
) -> None:
    request = {**limited.kwargs["request"], "max_tokens": 500}
    with pytest.raises(type(error)) as raised:
        limited.attempt(raising(error), request=request)
    assert raised.value is error
    (row,) = rows(limited.engine)
    assert row["cost_nanos"] == row["input_tokens"] * 3_000 + 500 * 15_000
    assert row["estimated"] == 1
    assert "interrupted" in row["flags"].split()
    assert reservations(limited.engine) == 0


@pytest.mark.case("A17")
def test_two_errors_and_an_answer_are_one_billed_call(limited: Host) -> None:
    for status in (429, 529):
        with pytest.raises(HttpError):
            limited.attempt(raising(HttpError(status)))
    limited.attempt(lambda *_: answer(ANSWERED))
    limited.report(counts(1_000, 100))
    assert spent(limited.engine) == Spend(certain_nanos=EACH, tokens=1_100, calls=1)


def test_causes_that_go_in_a_circle_end() -> None:
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert not was_not_billed(first)


# ------------------------------------------------------------------------- odd responses


class Unreadable:
    """An object of which nothing can be looked at."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"{name} is not for you")


class Undecided(Exception):
    """An error of which nothing can be looked at."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("status_code", "response", "original"):
            raise RuntimeError(f"{name} is not for you")
        return super().__getattribute__(name)


def kind(value: object) -> str:
    """A test id that is the same in every process."""
    return type(value).__name__


@pytest.mark.parametrize("response", [None, "text", 7, {}, [], object(), Unreadable()], ids=kind)
def test_a_response_that_cannot_be_read_is_billed_all_the_same(
    limited: Host, response: object
) -> None:
    assert limited.attempt(lambda *_: response) is response
    (row,) = rows(limited.engine)
    assert row["cost_nanos"] > 0
    assert row["estimated"] == 1
    assert reservations(limited.engine) == 0


def test_an_error_that_cannot_be_read_is_charged_as_a_guess(limited: Host) -> None:
    with pytest.raises(Undecided):
        limited.attempt(raising(Undecided()))
    assert [row["estimated"] for row in rows(limited.engine)] == [1]
    assert reservations(limited.engine) == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"request": None},
        {"request": "text"},
        {"request": {"messages": object(), "max_tokens": "many"}},
        {"model": None, "provider": 3, "base_url": b"x", "api_mode": []},
        {"session_id": None, "turn_id": None, "task_id": None, "api_request_id": None},
        {"session_id": 10**5_000, "turn_id": ["a"], "api_request_id": object()},
        {"session_id": "\ud800", "turn_id": "x" * 100_000, "model": "\udfff\x00"},
    ],
)
def test_whatever_the_host_brings_the_call_is_made_and_recorded(
    limited: Host, changes: dict[str, Any]
) -> None:
    response = answer(ANSWERED)
    assert limited.attempt(lambda *_: response, **changes) is response
    (row,) = rows(limited.engine)
    assert (row["input_tokens"], row["output_tokens"]) == (1_000, 100)
    assert reservations(limited.engine) == 0


def test_without_a_next_call_there_is_nothing_to_do(host: Host) -> None:
    assert host.gate.llm_execution() is None

"""What counts as the same call, the same result, the same error."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budget_plugin.policy.digests import (
    DIGEST_BYTES,
    action_of,
    args_digest,
    canonical,
    digest,
    error_digest,
    exit_code,
    normalise_error,
    result_digest,
    target_digest,
    waits,
)

UUID = "6f1c9a52-1111-4222-8333-444455556666"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"limit": 5}, {"limit": 5.0}),
        ({"q": "jazz"}, {"q": " jazz ", "region": None}),
        ({"q": "jazz clubs"}, {"q": "jazz   clubs"}),
        ({"a": {"b": [1, {"c": 2.0}]}}, {"a": {"b": (1, {"c": 2})}}),
        ({1: "x"}, {"1": "x"}),
    ],
)
def test_the_same_arguments(one: Any, other: Any) -> None:
    assert args_digest(one) == args_digest(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"path": "a.py"}, {"path": "b.py"}),
        ({"offset": 100}, {"offset": 200}),
        ({"command": "mv img1.jpeg img1.jpg"}, {"command": "mv img2.jpeg img2.jpg"}),
        ({"content": "if x:\n  y"}, {"content": "if x:\n    y"}),
        ({"q": "x" * 400 + "  y"}, {"q": "x" * 400 + " y"}),
        ({"q": "Jazz"}, {"q": "jazz"}),
        ({"flag": True}, {"flag": 1}),
        ({"q": ""}, {}),
        (["a", "b"], ["b", "a"]),
        ("", {}),
    ],
)
def test_other_arguments(one: Any, other: Any) -> None:
    assert args_digest(one) != args_digest(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("at 2026-05-01T10:42:12Z: up", "at 2026-05-02T11:00:59.5+02:00: up"),
        ("2026-05-01 10:42 nothing new", "2026-05-01 10:43 nothing new"),
        ("[10:42:12] idle", "[10:43:00] idle"),
        ('{"updated_at": "a", "n": 1}', '{"updated_at": "b", "n": 1}'),
        ('{"duration_ms":12.5}', '{"duration_ms":99}'),
        ('{"ok": true, "message_id": "om_1"}', '{"ok": true, "message_id": "om_2"}'),
        ("1 failed in 0.31s", "1 failed in 2.5 s"),
        ("took 12 ms", "took 400 ms"),
        ("running, pid 4711", "running, pid 4712"),
        ("now 1760000000", "now 1760000031123"),
        (f"job {UUID} waits", f"job {UUID.replace('1', '7')} waits"),
        (
            "10:42:12 " + "x" * 9_000 + " took 3 s",
            "10:42:13 " + "x" * 9_000 + " took 4 s",
        ),
        ({"b": 1, "a": 2}, {"a": 2, "b": 1}),
    ],
)
def test_the_same_result(one: Any, other: Any) -> None:
    assert result_digest(one) == result_digest(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("10 %", "30 %"),
        ("3 failed, 7 passed", "2 failed, 8 passed"),
        ("a.py:30: x = 1", "a.py:31: x = 1"),
        ('{"id": "a"}', '{"id": "b"}'),
        ('{"session_id": "a"}', '{"session_id": "b"}'),
        ("/tmp/a", "/tmp/b"),
        ("score 3:1", "score 3:2"),
        ("y", "Y"),
        ("x" * 9_000, "x" * 9_001),
        ("x" * 4_000 + "a" + "x" * 4_000, "x" * 4_000 + "b" + "x" * 4_000),
        ("", " "),
    ],
)
def test_another_result(one: Any, other: Any) -> None:
    assert result_digest(one) != result_digest(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("no row 17 in 3,000", "no row 18 in 3,001"),
        ("customer CUS-103 not found", "customer CUS-9921 not found"),
        ("Permission denied: /srv/a/out.txt", "permission denied:  /opt/b.log"),
        (r"C:\a\b.txt missing", r"D:\x\y\z.txt missing"),
        ('File "/tmp/s1.py", line 3: at 0x7f3a99', 'File "/tmp/s2.py", line 41: at 0x7f3b00'),
        ("GET https://a.example/1 gave 429", "GET https://b.example/2 gave 429"),
        (f"task {UUID} failed", f"task {UUID.replace('4', 'b')} failed"),
        ("\x1b[31mboom\x1b[0m at 10:42:12", "boom at 11:00:00"),
        ("refused: 10.0.0.1:8080", "refused: 10.0.0.2:9090"),
        ("head " + "a" * 1000 + "b" * 2000 + "c" * 1000, "head " + "a" * 1000 + "d" + "c" * 1000),
    ],
)
def test_the_same_error(one: str, other: str) -> None:
    assert normalise_error(one) == normalise_error(other)
    assert error_digest(one) == error_digest(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("action is required", "target is required"),
        ("no module named foo", "no module named bar"),
        ("could not find old_string", "could not find new_string"),
        ("missing semicolon", "unknown type size"),
    ],
)
def test_another_error(one: str, other: str) -> None:
    assert error_digest(one) != error_digest(other)


@pytest.mark.parametrize("nothing", ["", "  \n", None, 7, b"x"])
def test_an_error_without_a_text_is_no_error(nothing: object) -> None:
    assert error_digest(nothing) == ""


def test_a_digest_is_short_and_holds_nothing_of_the_text() -> None:
    secret = "sk-live-0123456789"
    assert len(digest(secret)) == 2 * DIGEST_BYTES
    assert "sk" not in args_digest({"key": secret})


def test_retries_of_one_operation_have_one_target() -> None:
    first = {"command": "make", "timeout": 30}
    assert target_digest(first) == target_digest({"command": "make ", "timeout": 60})
    assert target_digest({"path": "doc/"}) == target_digest({"path": "doc"})
    assert target_digest(first) != target_digest({"command": "make test"})
    assert target_digest({"flag": True}) == target_digest("text") == target_digest({}) == ""


@pytest.mark.parametrize(
    ("result", "code"),
    [
        ('{"output": "x", "exit_code": 128, "error": null}', 128),
        ('{"exit_code":-9}', -9),
        ("plain", None),
        ({"exit_code": 1}, None),
        ('{"exit_code": 1}' + " " * 500, None),
    ],
)
def test_the_exit_code_at_the_end(result: object, code: int | None) -> None:
    assert exit_code(result) == code


def test_the_action_is_a_plain_word_or_nothing() -> None:
    assert action_of({"action": "poll"}) == "poll"
    for other in ({"action": "send the secret"}, {"action": 3}, {"action": "x" * 40}, {}, "poll"):
        assert action_of(other) == ""


@pytest.mark.parametrize(
    ("args", "waiting"),
    [
        ({"command": "sleep 60; gh run view 7"}, True),
        ({"code": "import time\ntime.sleep(3)"}, True),
        ({"action": "wait", "session_id": "p"}, True),
        ({"command": "grep sleep a.py"}, False),
        ({"action": "list"}, False),
        ("sleep 3", False),
    ],
)
def test_a_call_that_waits(args: object, waiting: bool) -> None:
    assert waits(args) is waiting


def test_what_has_no_json_is_written_by_its_type() -> None:
    circle: list[object] = []
    circle.append(circle)
    deep: object = "x"
    for _ in range(100_000):
        deep = [deep]
    assert canonical({"f": object()}) == '{"f":"<object>"}'
    assert canonical(circle) == canonical(deep) == "<list>"
    assert args_digest({"x": float("nan")})
    assert digest("\ud83d")


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text(), inner) | st.dictionaries(st.integers(), inner)
    ),
    max_leaves=10,
)


@settings(max_examples=200, deadline=None, database=None)
@given(ANYTHING)
def test_nothing_raises_and_the_same_is_the_same(value: Any) -> None:
    for read in (args_digest, result_digest, error_digest, target_digest):
        assert read(value) == read(value)
    assert isinstance(waits(value), bool)

"""An effect happens once; the second caller is told what was done."""

from __future__ import annotations

from typing import Any

import pytest

from budget_plugin.policy.claims import (
    EXPIRES_AFTER_S,
    STARTERS,
    Answer,
    Claim,
    Effect,
    EffectTool,
    Outcome,
    Per,
    State,
    claim_key,
    effect_of,
    judge,
    outcome_of,
    settle,
    standing,
)

SUPPLIER = EffectTool("email_supplier", ("supplier_id", "topic"))


def effect(args: dict[str, Any], tool: str = "email_supplier") -> Effect:
    found = effect_of((SUPPLIER, *STARTERS), tool, args)
    assert found is not None
    return found


ASKED = effect({"supplier_id": "SUP-118", "topic": "stock_query", "body": "any left?"})
CLAIM = Claim("run_tree:r1:k", ASKED, "run-child", "call-1", 1_000.0)
LATER = 1_000.0 + EXPIRES_AFTER_S


def test_an_effect_is_named_by_its_identity_alone() -> None:
    other_body = {"topic": "stock_query", "supplier_id": " SUP-118 ", "body": "still none?"}
    assert effect(other_body).key == ASKED.key
    assert effect({"supplier_id": "SUP-118", "topic": "price"}).key != ASKED.key
    assert ASKED.shown == (("supplier_id", "SUP-118"), ("topic", "stock_query"))


def test_two_children_that_send_the_same_message_name_the_same_effect() -> None:
    one = effect({"target": "telegram:1", "message": "The report\nis ready"}, "send_message")
    other = effect(
        {"action": "send", "target": "telegram:1", "message": "The report is ready"},
        "send_message",
    )
    third = effect({"target": "telegram:2", "message": "The report is ready"}, "send_message")
    assert one.key == other.key != third.key


def test_contents_are_neither_stored_nor_shown() -> None:
    secret = effect({"target": "telegram:1", "message": "the code is 1234"}, "send_message")
    assert secret.shown == (("target", "telegram:1"),)
    assert "1234" not in repr(secret)
    long = effect({"supplier_id": "x" * 61, "topic": "a"})
    assert long.shown == (("topic", "a"),)


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("send_message", {"action": "list"}),
        ("send_message", {"action": "react", "target": "telegram:1", "emoji": "👍"}),
        ("send_message", {}),
        ("cronjob", {"action": "list"}),
        ("cronjob", {"action": "create"}),
        ("discord", {"action": "fetch_messages", "channel_id": "1"}),
        ("read_file", {"path": "a"}),
        ("send_message", "text"),
        ("send_message", None),
    ],
)
def test_no_effect(tool: str, args: Any) -> None:
    assert effect_of(STARTERS, tool, args) is None


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("cronjob", {"action": "create", "schedule": "30m", "prompt": "look"}),
        ("cronjob", {"action": "run", "job_id": "j1"}),
        ("kanban_create", {"title": "a", "assignee": "b"}),
        ("kanban_comment", {"task_id": "t", "body": "done"}),
        ("discord", {"action": "create_thread", "channel_id": "1", "name": "n"}),
        ("yb_send_dm", {"user_id": "u", "message": "m"}),
        ("yb_send_sticker", {"chat_id": "c", "sticker": "s"}),
        ("feishu_drive_add_comment", {"file_token": "f", "content": "c"}),
        ("feishu_drive_reply_comment", {"file_token": "f", "comment_id": "1", "content": "c"}),
    ],
)
def test_the_hosts_own_effects(tool: str, args: dict[str, Any]) -> None:
    assert effect(args, tool).tool == tool


def test_values_cannot_run_into_one_another() -> None:
    tool = (EffectTool("t", ("a", "b")),)
    one, other = (
        effect_of(tool, "t", {"a": "x", "b": "y"}),
        effect_of(tool, "t", {"a": "x y", "b": ""}),
    )
    assert one is not None
    assert other is not None
    assert one.key != other.key


@pytest.mark.parametrize(
    ("per", "ticket", "start"),
    [
        (Per.RUN_TREE, "T1", "run_tree:root:"),
        (Per.TICKET, "T1", "ticket:T1:"),
        (Per.TICKET, "", "run_tree:root:"),
        (Per.DAY, "T1", "day:2026-11-30:"),
    ],
)
def test_within_what_it_happens_once(per: Per, ticket: str, start: str) -> None:
    named = Effect("t", "k", (), per)
    key = claim_key(named, run_tree="root", ticket=ticket, day="2026-11-30")
    assert key == f"{start}k"


def test_the_first_caller_goes_and_the_same_call_may_ask_again() -> None:
    assert judge(None, "call-1", 1_000.0).answer is Answer.GO
    assert judge(CLAIM, "call-1", 1_001.0).answer is Answer.GO


def test_the_second_caller_is_told_what_when_and_where() -> None:
    done = settle(CLAIM, Outcome.SUCCESS, 1_010.0, "call-1 in session s")
    told = judge(done, "call-2", 1_070.0)
    assert told.answer is Answer.DONE
    assert (told.effect, told.run_id, told.at_s, told.age_s, told.answer_at) == (
        ASKED,
        "run-child",
        1_010.0,
        60.0,
        "call-1 in session s",
    )


@pytest.mark.parametrize(
    ("claim", "now_s", "answer"),
    [
        (CLAIM, 1_001.0, Answer.UNDER_WAY),
        (CLAIM, LATER, Answer.ASK),
        (settle(CLAIM, Outcome.SUCCESS, 1_000.0), LATER - 1, Answer.DONE),
        (settle(CLAIM, Outcome.SUCCESS, 1_000.0), LATER, Answer.GO),
        (settle(CLAIM, Outcome.FAILURE, 1_000.0), 1_001.0, Answer.GO),
        (settle(CLAIM, Outcome.UNKNOWN, 1_000.0), 1_001.0, Answer.ASK),
        (settle(CLAIM, Outcome.UNKNOWN, 1_000.0), LATER * 100, Answer.ASK),
    ],
)
def test_what_another_caller_is_told(claim: Claim, now_s: float, answer: Answer) -> None:
    assert judge(claim, "call-2", now_s).answer is answer


def test_a_crash_between_effect_and_settling_never_allows_a_second_one_silently() -> None:
    found_later = settle(CLAIM, Outcome.UNKNOWN, 1_500.0)
    for days in range(0, 400, 20):
        assert standing(found_later, 1_500.0 + days * 86_400.0) is State.UNKNOWN


def test_what_is_settled_stays_so_and_the_unknown_may_become_known() -> None:
    done = settle(CLAIM, Outcome.SUCCESS, 1_010.0)
    assert settle(done, Outcome.FAILURE, 1_020.0) == done
    unknown = settle(CLAIM, Outcome.UNKNOWN, 1_010.0)
    assert settle(unknown, Outcome.SUCCESS, 1_020.0).state is State.DONE
    assert settle(unknown, Outcome.FAILURE, 1_020.0).state is State.FAILED


@pytest.mark.parametrize(
    ("status", "error", "outcome"),
    [
        ("ok", "", Outcome.SUCCESS),
        ("error", "no such channel", Outcome.FAILURE),
        ("error", "Request timed out after 30 s", Outcome.UNKNOWN),
        ("error", "Connection reset by peer", Outcome.UNKNOWN),
        ("error", "HTTP 504", Outcome.UNKNOWN),
        ("blocked", "not allowed", Outcome.FAILURE),
        ("cancelled", "", Outcome.UNKNOWN),
        ("", "", Outcome.UNKNOWN),
    ],
)
def test_how_a_call_ended(status: str, error: str, outcome: Outcome) -> None:
    assert outcome_of(status, error) is outcome

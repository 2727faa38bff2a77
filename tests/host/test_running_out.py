"""Running out in the real host: a person grants more, work is undone, tickets are shared."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.host.hermes_home import HermesHome
from tests.host.provider import refusal_in

NewHome = Callable[..., HermesHome]


def limits(text: str, **more: str) -> str:
    rest = "".join(f"  {key}: {value}\n" for key, value in more.items())
    return f"timezone: UTC\nruns:\n  default: {{{text}}}\n{rest}"


def tools_that_ran(home: HermesHome) -> int:
    rows = home.host_state("SELECT content FROM messages WHERE role = 'tool' ORDER BY id")
    return sum(not refusal_in(str(row["content"])) for row in rows)


def receipts(home: HermesHome) -> list[dict[str, Any]]:
    found = home.ledger("SELECT receipt FROM run_endings ORDER BY id")
    return [json.loads(row["receipt"]) for row in found]


def told(home: HermesHome, text: str) -> int:
    return sum(text in call["last_text"] for call in home.provider_calls())


def test_a_person_grants_more_and_the_next_turn_goes_on_with_exactly_that(
    new_home: NewHome,
) -> None:
    home = new_home(budget=limits("tool_calls: 2", on_exhausted="ask"))
    first, _, second = home.turns(
        "[[scene:obedient]] go", "/budget extend 1", "[[scene:obedient]] on"
    )
    denied = home.hermes("budget", "deny")
    assert "Request 1: 1 more tool calls, to go on. Yes: /budget extend 1" in first
    assert "Request 2" in second
    assert "Request 2 is denied" in denied.stdout
    decided = home.ledger("SELECT state, via FROM extensions ORDER BY number")
    assert [tuple(row.values()) for row in decided] == [
        ("granted", "chat"),
        ("denied", "command line"),
    ]
    assert [end["tools"] for end in receipts(home)] == [2, 3]  # carried over, and one more
    assert tools_that_ran(home) == 3
    links = home.ledger("SELECT linked_run_id FROM runs ORDER BY started_ms, rowid")
    assert [bool(row["linked_run_id"]) for row in links] == [False, True]
    assert told(home, "extend") == 0
    assert told(home, "A person is asked") == 2


def test_what_was_done_is_undone_with_five_calls(new_home: NewHome) -> None:
    home = new_home(budget=limits("tool_calls: 3", on_exhausted="abort"))
    answer = home.chat("[[scene:runaway]] go", "--max-turns", "30")
    assert tools_that_ran(home) == 3 + 5
    assert told(home, "This run is aborted. Undo what it did, newest first") == 5
    assert told(home, "This is the last answer of this run") == 1
    (end,) = receipts(home)
    assert (end["cause"], end["status"]) == ("tool-call budget", "partial")
    assert "tool-call budget" in answer


def test_processes_of_one_kanban_task_share_the_ceiling(new_home: NewHome) -> None:
    home = new_home(budget=limits("tool_calls: 3", ticket="{env: HERMES_KANBAN_TASK}"))
    for _ in range(2):
        home.chat("[[scene:runaway]] go", "--max-turns", "9", HERMES_KANBAN_TASK="task-7")
    assert tools_that_ran(home) == 3
    rows = home.ledger("SELECT DISTINCT ticket_id FROM runs")
    assert [row["ticket_id"] for row in rows] == ["task-7"]


def test_a_ticket_named_in_the_first_message_binds_a_whole_conversation(new_home: NewHome) -> None:
    home = new_home(budget=limits("tool_calls: 3", ticket="{pattern: 'SUP-[0-9]+'}"))
    home.turns("[[scene:three_tools]] about SUP-7", "[[scene:three_tools]] and now?")
    assert tools_that_ran(home) == 3
    rows = home.ledger("SELECT ticket_id FROM runs")
    assert [row["ticket_id"] for row in rows] == ["SUP-7", "SUP-7"]


SKILL = """\
---
name: support-ticket
description: Answers a support ticket.
---
Answer the ticket.
"""


def test_the_skill_of_a_job_is_its_command(new_home: NewHome) -> None:
    home = new_home(budget=limits("tool_calls: 9", commands="{support-ticket: {tool_calls: 2}}"))
    folder = home.home / "skills" / "support-ticket"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(SKILL)
    done = home.hermes(
        *("cron", "create", "every 1m", "[[scene:runaway]] report", "--name", "support"),
        *("--deliver", "local", "--skill", "support-ticket"),
    )
    assert done.returncode == 0, done.stdout
    home.cron_tick()
    (end,) = receipts(home)
    assert (end["tools"], end["budgets"]["tool_calls"]["limit"]) == (2, 2)

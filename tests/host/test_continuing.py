"""A turn that the real host would end is sent on."""

from __future__ import annotations

from collections.abc import Callable

from tests.host.hermes_home import HermesHome

NewHome = Callable[..., HermesHome]


def record(home: HermesHome) -> list[tuple[str, str]]:
    rows = home.ledger(
        "SELECT action, detail FROM decisions WHERE measure = 'continuation' ORDER BY id"
    )
    return [(row["action"], row["detail"]) for row in rows]


def test_a_turn_that_changed_files_is_sent_on_as_often_as_the_host_asks(new_home: NewHome) -> None:
    home = new_home(budget="runs: {default: {tokens: 400000}, continuation: true}\n")
    answer = home.chat("[[scene:edits]] go")
    assert "and a little more" in answer
    assert [action for action, _ in record(home)] == ["sent on"] * 3 + ["ended"]
    assert len(home.provider_calls()) == 5  # the edit, the answer, three times more
    nudged = [call for call in home.provider_calls() if "Keep working" in call["last_text"]]
    assert len(nudged) == 3


def test_diminishing_returns_end_it_where_the_host_asks_on(new_home: NewHome) -> None:
    home = new_home(
        budget="runs: {default: {tokens: 400000}, continuation: true}\n",
        config={"agent": {"max_verify_nudges": 20}},
    )
    home.chat("[[scene:edits]] go")
    ended = ("ended", "diminishing returns after 3 continuations, 20 new tokens")
    assert record(home)[-1] == ended
    assert len(home.provider_calls()) == 5


def test_without_the_switch_a_turn_ends(new_home: NewHome) -> None:
    home = new_home(budget="runs: {default: {tokens: 400000}}\n")
    home.chat("[[scene:edits]] go")
    assert len(home.provider_calls()) == 2
    assert record(home) == []

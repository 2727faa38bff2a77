"""Effects that happen once, in the real host."""

from __future__ import annotations

from collections.abc import Callable

from tests.host.hermes_home import HermesHome
from tests.host.provider import refusal_in

NewHome = Callable[..., HermesHome]


def refusals(home: HermesHome) -> list[str]:
    rows = home.host_state("SELECT content FROM messages WHERE role = 'tool' ORDER BY id")
    return [text for row in rows if (text := refusal_in(str(row["content"])))]


def test_two_children_that_send_the_same_send_it_once(new_home: NewHome) -> None:
    home = new_home(budget="claims: {tools: {terminal: [command]}}\n")
    home.oneshot("[[scene:delegate_senders]] go")
    assert (home.work / "sent.txt").read_text() == "sent\n"
    (refused,) = refusals(home)
    assert "echo sent >> sent.txt" in refused
    assert "session" in refused
    ((claim),) = home.ledger("SELECT * FROM claims JOIN runs USING (run_id)")
    assert (claim["state"], claim["kind"]) == ("done", "child")
    assert "sent.txt" not in repr(claim)


def test_the_hosts_own_scheduling_happens_once(new_home: NewHome) -> None:
    home = new_home(budget="claims: {starters: true}\n")
    home.chat("[[scene:schedules_twice]] go")
    assert len(home.cron_jobs()) == 1
    (refused,) = refusals(home)
    assert "cronjob" in refused
    assert "was done at" in refused


def test_without_claims_everything_is_done_as_often_as_it_is_asked_for(new_home: NewHome) -> None:
    home = new_home(budget="budgets: {global: {daily_usd: 50}}\n")
    home.oneshot("[[scene:delegate_senders]] go")
    assert (home.work / "sent.txt").read_text() == "sent\nsent\n"
    assert home.ledger("SELECT * FROM claims") == []

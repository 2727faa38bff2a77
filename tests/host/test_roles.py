"""Roles and tiers in the real host."""

from __future__ import annotations

from collections.abc import Callable

from tests.host.hermes_home import HermesHome, fallback_to
from tests.host.provider import refusal_in

NewHome = Callable[..., HermesHome]

ROLES = """\
tiers: {models: {cheap: fake-second, dear: fake-model}, on_breach: REFUSE}
roles: {main: {may_dispatch: [leaf, judge]}, judge: {judges_only: true, highest: HIGHEST}}
"""


def roles(on_breach: str = "record", highest: str = "dear") -> str:
    return ROLES.replace("REFUSE", on_breach).replace("HIGHEST", highest)


def refusals(home: HermesHome) -> list[str]:
    rows = home.host_state("SELECT content FROM messages WHERE role = 'tool' ORDER BY id")
    return [text for row in rows if (text := refusal_in(str(row["content"])))]


def decisions(home: HermesHome) -> list[tuple[str, str, str]]:
    rows = home.ledger("SELECT measure, action, detail FROM decisions ORDER BY id")
    return [tuple(row.values()) for row in rows]  # type: ignore[misc]


def test_a_child_that_judges_writes_nothing(new_home: NewHome) -> None:
    home = new_home(budget=roles())
    home.oneshot("[[scene:delegate_judge]] go")
    (refused,) = refusals(home)
    assert "judge only judges: it may not use terminal" in refused
    assert home.ledger("SELECT role FROM subagent_edges") == [{"role": "judge"}]


def test_who_may_not_be_dispatched_does_not_start(new_home: NewHome) -> None:
    home = new_home(budget=roles())
    home.oneshot("[[scene:delegate_deep]] go")
    (refused,) = refusals(home)
    assert "main may not hand work to orchestrator" in refused
    assert home.ledger("SELECT * FROM subagent_edges") == []


def test_a_role_whose_model_is_too_dear_does_not_start(new_home: NewHome) -> None:
    home = new_home(budget=roles("refuse", "cheap"))
    home.oneshot("[[scene:delegate_judge]] go")
    (refused,) = refusals(home)
    assert "fake-model is above it" in refused
    assert home.ledger("SELECT * FROM subagent_edges") == []


def test_the_hosts_fallback_is_a_recorded_change_of_tier(new_home: NewHome) -> None:
    home = new_home(budget=roles())
    home.config = fallback_to(home.provider)
    home.write_config()
    home.chat("[[scene:second_model]] go")
    assert ("tier", "changed", "fallback: fake-model (dear) to fake-second (cheap)") in decisions(
        home
    )


def test_past_a_soft_mark_the_host_works_with_the_cheaper_model(new_home: NewHome) -> None:
    home = new_home(
        budget="budgets: {global: {daily_usd: 5.00}}\nthresholds: {soft_pct: 0.10}\n"
        "tiers: {on_soft: {provider: custom, model: fake-model, to: fake-second}}\n"
    )
    first, second, third = home.turns(
        "[[scene:costly]] go", "[[scene:three_tools]] and then?", "[[scene:text]] thanks"
    )
    assert "took the place" not in first
    for answer in (second, third):
        assert "fake-second took the place of fake-model" in answer
    asked = [call["model"] for call in home.provider_calls()]
    assert asked == ["fake-model"] + ["fake-second"] * 5
    rows = home.ledger("SELECT model, response_model FROM calls ORDER BY id")
    assert [row["model"] for row in rows] == [row["response_model"] for row in rows] == asked
    assert home.recorded_nanos() == home.billed_nanos()

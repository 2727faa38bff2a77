"""What the host asks a model by itself is in the ledger too, though no hook sees it go out."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.host.hermes_home import HermesHome
from tests.host.provider import AUXILIARY

NewHome = Callable[..., HermesHome]

ROOMY = "budgets: {global: {daily_usd: 500}, per_profile: {default: {daily_usd: 500}}}\n"
TITLES = {"auxiliary": {"title_generation": {"enabled": True}}}


@pytest.fixture
def titled(new_home: NewHome) -> HermesHome:
    """A home in which conversations get a title, by a call of the host's own."""
    return new_home(budget=ROOMY, config=TITLES)


def test_a_title_is_seen_by_the_next_turn(titled: HermesHome) -> None:
    titled.turns("[[scene:three_tools]] go", "title:", "[[scene:text]] and now")
    assert len([c for c in titled.provider_calls(auxiliary=True) if c["scene"] == AUXILIARY]) == 1
    assert_everything_is_recorded(titled)
    (row,) = titled.ledger("SELECT * FROM calls WHERE auxiliary_task <> ''")
    assert (row["auxiliary_task"], row["model"]) == ("title_generation", "fake-model")
    assert (row["input_tokens"], row["output_tokens"]) == (300, 6)
    first, _second = titled.ledger("SELECT * FROM runs ORDER BY started_ms")
    assert row["run_id"] == first["run_id"]


def test_a_title_after_the_last_turn_is_seen_at_the_end(titled: HermesHome) -> None:
    titled.turns("[[scene:text]] go", "title:")
    assert_everything_is_recorded(titled)


def test_what_one_process_leaves_another_finds_and_none_repeats(titled: HermesHome) -> None:
    titled.turns("[[scene:text]] go", "title:")
    titled.turns("[[scene:text]] go", "title:")
    for _ in range(2):
        titled.oneshot("[[scene:text]] hello")
    assert_everything_is_recorded(titled)
    assert len(titled.ledger("SELECT * FROM calls WHERE auxiliary_task <> ''")) == 2


def test_what_was_before_the_plugin_is_not_charged(new_home: NewHome) -> None:
    home = new_home(budget=ROOMY, config=TITLES, plugin="none")
    home.turns("[[scene:text]] go", "title:")
    assert home.host_state("SELECT * FROM session_model_usage WHERE task <> ''")
    home.plugin = "entry_point"
    home.write_config()
    home.oneshot("[[scene:text]] hello")
    assert home.ledger("SELECT * FROM calls WHERE auxiliary_task <> ''") == []


def test_the_status_counts_it(titled: HermesHome) -> None:
    titled.turns("[[scene:text]] go", "title:")
    nanos = titled.billed_nanos(auxiliary=True)
    stored = titled.ledger("SELECT certain_nanos FROM spend_totals WHERE scope = 'global'")
    assert stored == [{"certain_nanos": nanos}]


def assert_everything_is_recorded(home: HermesHome) -> None:
    assert home.recorded_nanos() == home.billed_nanos(auxiliary=True) > 0
    assert len(home.ledger("SELECT * FROM calls")) == len(home.provider_calls(auxiliary=True))

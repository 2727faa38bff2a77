"""Import from a database that the real host has written before the plugin was there."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.host.hermes_home import HermesHome

NewHome = Callable[..., HermesHome]
TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens")
SUMS = ", ".join(f"SUM({name}) AS {name}" for name in TOKENS)


def test_what_was_spent_before_is_taken_over_once_and_out_again(new_home: NewHome) -> None:
    home = new_home(plugin="none")
    home.chat("[[scene:three_tools]] do three things")
    home.oneshot("[[scene:delegate_one]] have it done")
    home.plugin = "entry_point"
    home.write_config()
    home.write_budget("timezone: UTC\nbudgets: {global: {monthly_usd: 50}}\n")

    def budget(*words: str) -> dict[str, object]:
        done = home.hermes("budget", *words, "--json")
        assert done.returncode == 0, done.stdout
        return dict(json.loads(done.stdout))

    found = budget("import")
    assert found["imported"] == len(home.provider_calls())
    (host,) = home.host_state(f"SELECT {SUMS}, SUM(api_call_count) AS calls FROM sessions")
    (ours,) = home.ledger(f"SELECT {SUMS}, COUNT(*) AS calls FROM calls")
    assert ours == host
    assert home.recorded_nanos() == home.billed_nanos()
    assert budget("status")["global"]["limits"][0]["used"] == found["usd"]  # type: ignore[index]
    home.verify()

    assert budget("import")["imported"] == 0
    home.chat("[[scene:text]] and now with the plugin")  # recorded by ourselves
    assert budget("import")["imported"] == 0
    assert home.recorded_nanos() == home.billed_nanos()

    assert budget("import", "--remove")["removed"] == found["imported"]
    assert len(home.ledger("SELECT * FROM calls")) == 1
    home.verify()

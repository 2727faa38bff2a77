"""A stranger's path: Hermes used for a week without us, then import, suggest, observe, enforce.

Only what a person would type, in one home; what was called and refused says the provider's log.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from typing import Any

import pytest

from tests.host.hermes_home import HermesHome
from tests.host.provider import refusal_in

NewHome = Callable[..., HermesHome]

DAY_S = 86_400
COSTLY = Decimal("0.8115")  # 270,000 × $3 + 100 × $15, a million
LETTER = Decimal("0.063")  # 20,000 × $3 + 200 × $15
CLOSE = Decimal("0.0033")  # 1,000 × $3 + 20 × $15
COSTLY_RUN = COSTLY + CLOSE

WROTE = """\
budgets:
  global:
    mode: observe
    daily_usd: 2.50
    monthly_usd: 76
runs:
  chat:
    mode: observe
    tokens: 31000
    wall_clock_s: 30
    usd: 0.10
"""


def test_from_the_first_import_to_the_first_refused_call(
    new_home: NewHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    home = new_home(plugin="none")
    home.turns(*["[[scene:costly]] go"] * 14)
    spread_over_the_week_before(home)
    assert home.hermes("plugins", "enable", "budget").returncode == 0

    said = budget(home, "import")
    assert f"14 calls of 1 session: ${14 * COSTLY:.2f}" in said  # $11.36
    assert "To take it out again: hermes budget import --remove" in said

    home.turns(*["[[scene:letter]] write"] * 20)
    assert spent(home) == 20 * LETTER  # $1.26 today

    # A day of two calls cost $1.623: × 1.5 is $2.4345. A month is 31 × $1.623 × 1.5 = $75.47.
    # A letter took 20,200 tokens and $0.063: × 1.5 is 30,300, and $0.0945.
    said = budget(home, "suggest", "--apply")
    assert "half of 7 days cost $1.62 or less, none more than $1.62" in said
    assert "half of 20 runs that resolved used 20,200 tokens or less" in said
    assert "observed only: nothing is blocked" in said
    assert (home.budget_dir / "budget.yaml").read_text().endswith(WROTE)

    # $2.0748, $2.8896 and $3.7044: the 2nd and the 3rd pass the day, all three a run's tokens.
    answers = home.turns(*["[[scene:costly_then_tools]] go"] * 3)
    assert answers == ["done after all"] * 3
    assert len(home.provider_calls()) == 14 + 20 + 3 * 2
    assert not any(refusal_in(row["content"]) for row in home.host_state(_TOOL_RESULTS))
    noted = home.ledger("SELECT gate, scope, measure, action, COUNT(*) AS n FROM decisions "
                        "GROUP BY gate, scope, measure, action ORDER BY gate")  # fmt: skip
    assert [tuple(row.values()) for row in noted] == [
        ("ledger", "global", "usd", "would have stopped", 2),
        ("model", "run", "tokens", "would have stopped", 3),
        ("tool", "run", "tokens", "would have stopped", 3),
    ]
    used = 20 * LETTER + 3 * COSTLY_RUN
    assert spent(home) == used

    said = budget(home, "status")
    assert f"${used:.2f} of $2.50" in said
    assert "would have stopped 2 runs" in said
    assert "would have stopped 3 runs in 30 days" in said
    (played,) = json.loads(budget(home, "replay", "--json"))["candidates"]
    # The 2nd run loses its last call, the 3rd both.
    assert played["runs_cut"] == 2
    assert Decimal(played["saved_usd"]) == CLOSE + COSTLY_RUN

    said = budget(home, "enforce")
    assert "budgets.global" in said
    assert f"The daily limit of $2.50 for everything together is reached: ${used:.2f}" in said

    before = home.provider_calls()
    answer = home.chat("[[scene:text]] one more")
    assert home.provider_calls() == before
    assert f"${used:.2f} of $2.50 is used" in answer
    assert "hermes budget set global daily" in answer


_TOOL_RESULTS = "SELECT content FROM messages WHERE role = 'tool'"


def spread_over_the_week_before(home: HermesHome) -> None:
    """Two calls on each of the last seven days, at 6 and at 18: the host was used in one go."""
    today = int(time.time()) // DAY_S * DAY_S
    first, last = today - 7 * DAY_S + DAY_S // 4, today - DAY_S // 4
    with closing(sqlite3.connect(home.home / "state.db")) as connection, connection:
        connection.execute("UPDATE sessions SET started_at = ?", [first])
        connection.execute(
            "UPDATE session_model_usage SET first_seen = ?, last_seen = ?", [first, last]
        )


def budget(home: HermesHome, *words: str) -> str:
    done = home.hermes("budget", *words)
    assert done.returncode == 0, done.stdout
    return " ".join(done.stdout.split()) if "--json" not in words else done.stdout


def spent(home: HermesHome) -> Decimal:
    """What was recorded and not imported, and the provider billed just so much for it."""
    rows: list[dict[str, Any]] = home.ledger(
        "SELECT COALESCE(SUM(cost_nanos), 0) AS nanos FROM calls JOIN runs USING (run_id) "
        "WHERE kind <> 'import'"
    )
    nanos = int(rows[0]["nanos"])
    assert home.recorded_nanos() == home.billed_nanos()
    return Decimal(nanos) / 10**9

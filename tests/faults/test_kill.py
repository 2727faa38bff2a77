"""Kill -9 at random moments under load; `python -m bench.kill9` does it two hundred times."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import kill9


@pytest.mark.case("T08", "T16")
def test_what_was_said_to_be_recorded_survives_and_nothing_stays_reserved(tmp_path: Path) -> None:
    kills = kill9.run(kill9.make_home(tmp_path / "home"), kills=8, seed=8)
    assert [kill for kill in kills if not kill.clean] == []
    assert sum(kill.acknowledged for kill in kills) >= 8

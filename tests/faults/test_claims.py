"""Claims over processes: of two that race one passes, and what the dead had begun is unknown."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from budget_plugin.engine.engine import Engine
from budget_plugin.policy.claims import Answer, Outcome, State, Told
from budget_plugin.testing import make_run

ROOT = Path(__file__).parents[2]
CLAIMS = "claims: {per: PER, tools: {mail: [to]}}\n"
CALLER = """
import sys
from pathlib import Path
from tests.faults.test_claims import ask
from budget_plugin.engine.engine import Engine

home, tree = sys.argv[1:]
engine = Engine(Path(home))
engine.database.engine()
print("ready", flush=True)
sys.stdin.readline()
print(ask(engine, tree).answer, flush=True)
sys.stdin.readline()  # the effect has happened; killed here, nobody settles it
"""


def ask(engine: Engine, tree: str) -> Told:
    """May a run of this tree write to the supplier?"""
    live = engine.open_run(make_run(run_id=tree))
    effect = engine.claims.effect_of(engine.rules(), "mail", {"to": "SUP-118"})
    assert effect is not None
    return engine.claims.claim(live, engine.rules(), effect, "")


def a_home(folder: Path, per: str = "run_tree") -> Path:
    (folder / "budget").mkdir()
    (folder / "budget" / "budget.yaml").write_text(CLAIMS.replace("PER", per))
    return folder


class Caller:
    """A process that asks when it is told to."""

    def __init__(self, home: Path, tree: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", CALLER, str(home), tree],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        assert self._line(self._process.stdout) == "ready"

    def go(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    @property
    def answer(self) -> str:
        return self._line(self._process.stdout)

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    @staticmethod
    def _line(out: IO[str] | None) -> str:
        assert out is not None
        return out.readline().strip()


def test_of_two_processes_exactly_one_passes(tmp_path: Path) -> None:
    home = a_home(tmp_path, "day")
    callers = [Caller(home, f"tree {number}") for number in range(2)]
    for caller in callers:
        caller.go()
    assert sorted(caller.answer for caller in callers) == ["go", "under_way"]
    for caller in callers:
        caller.kill()


@pytest.mark.parametrize("tree", ["the same tree", "the next tree"])
def test_what_was_killed_between_effect_and_settling_is_never_repeated_silently(
    tmp_path: Path, tree: str
) -> None:
    home = a_home(tmp_path)
    caller = Caller(home, "the same tree")
    caller.go()
    assert caller.answer == "go"
    caller.kill()
    engine = Engine(home)
    for _ in range(2):
        assert ask(engine, tree).answer is Answer.ASK
    assert engine.claims.abandon(10.0) == 1
    assert engine.claims.abandon(10.0) == 0
    assert ask(engine, tree).answer is Answer.ASK
    (held,) = engine.claims.unknown(9)
    assert (held.claim.run_id, held.claim.state) == ("the same tree", State.UNKNOWN)
    engine.close()


def test_what_was_settled_before_the_kill_stays_done(tmp_path: Path) -> None:
    home = a_home(tmp_path, "day")
    first = Engine(home)
    assert ask(first, "tree").answer is Answer.GO
    effect = first.claims.effect_of(first.rules(), "mail", {"to": "SUP-118"})
    live = first.runs.find("tree")
    assert effect is not None
    assert live is not None
    first.claims.ended(live, effect, "", Outcome.SUCCESS)
    caller = Caller(home, "another tree")
    caller.go()
    assert caller.answer == "done"
    caller.kill()
    assert ask(first, "a third").answer is Answer.DONE
    first.close()

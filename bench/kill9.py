"""Kill -9 at random moments under load: `python -m bench.kill9 [how many] [seed]`.

A process loads a ledger from two threads (admissions, records, delegations, totals that come into
use) and says each attempt that it was told is recorded. It is killed; what it left is opened by a
new process's engine. Nothing that was said may be missing, totals must equal their rows, and no
reservation of the dead may be left: each is a flagged row. All on one home, one after another.
"""

import itertools
import os
import random
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from budget_plugin.engine.engine import Engine
from budget_plugin.engine.permits import Request
from budget_plugin.policy.events import Usage
from budget_plugin.policy.prices.usage import UsageReport
from budget_plugin.testing import make_run

ROOT: Final = Path(__file__).parents[1]
BUDGET: Final = """\
timezone: UTC
budgets:
  global:       {hourly_usd: 100000, daily_usd: 100000, monthly_usd: 1000000}
  per_cron_job: {default: {daily_usd: 100000}}
  per_sender:   {default: {daily_usd: 100000}}
"""
PRICES: Final = "unit: usd_per_million_tokens\nmodels:\n  a-model: {input: 3, output: 15}\n"
REQUEST: Final = Request("a-provider", "a-model", "", 4_000, 1_000)
MOST_ACKNOWLEDGED: Final = 40


@dataclass(frozen=True, slots=True)
class Kill:
    """What one kill left, and what the next start made of it."""

    acknowledged: int
    lost: int
    reserved: int
    flagged: int
    still_reserved: int
    differences: int
    sound: bool

    @property
    def clean(self) -> bool:
        """Whether nothing is wrong."""
        nothing_wrong = self.lost == self.still_reserved == self.differences == 0
        return nothing_wrong and self.flagged == self.reserved and self.sound


def make_home(folder: Path) -> Path:
    """A home with limits, so that calls are admitted and totals kept."""
    (folder / "budget").mkdir(parents=True)
    (folder / "budget" / "budget.yaml").write_text(BUDGET)
    (folder / "budget" / "pricing.yaml").write_text(PRICES)
    return folder


def load(home: Path) -> None:
    """Load the ledger for ever, from two threads; print each attempt when it is recorded."""
    engine = Engine(home)
    threads = [threading.Thread(target=_load, args=(engine, n), daemon=True) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _load(engine: Engine, thread: int) -> None:
    for number in itertools.count():
        parent = engine.open_run(make_run(**_scopes(thread, number)))
        child_session = f"child of {parent.run.session_id}"
        if number % 2:
            engine.delegated(parent, child_session, "")
        child = engine.open_run(make_run(session_id=child_session, run_id=f"c-{parent.run.run_id}"))
        if not number % 2:  # what it spends is moved when the delegation arrives
            _call(engine, child)
            engine.delegated(parent, child_session, "")
        for live in (parent, child):
            _call(engine, live)
        engine.end_run(child, "completed")


def _scopes(thread: int, number: int) -> dict[str, str]:
    scope = f"{random.randrange(10**9)}"
    return {
        "run_id": f"r{thread}-{number}-{scope}",
        "session_id": f"s{thread}-{number}-{scope}",
        "cron_job_id": f"job {number % 3}",
        "sender_id": f"sender {number % 4}",
    }


def _call(engine: Engine, live: "object") -> None:
    permit = engine.admit(live, REQUEST)  # type: ignore[arg-type]
    report = UsageReport(Usage(random.randrange(2_000), random.randrange(500)))
    engine.record(live, permit, REQUEST, report)  # type: ignore[arg-type]
    if not engine.recorder.waiting_calls:
        os.write(1, f"{permit.attempt_id}\n".encode())  # whole lines, whichever thread


def kill_once(home: Path, chance: random.Random) -> Kill:
    """Start the load, kill it at a random moment, open what it left."""
    with subprocess.Popen(
        [sys.executable, "-m", "bench.kill9", "load", str(home)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        assert process.stdout is not None
        wanted = chance.randint(1, MOST_ACKNOWLEDGED)
        said = [line.strip() for line in itertools.islice(process.stdout, wanted)]
        for _ in range(chance.randrange(20_000)):  # anywhere inside the next call
            pass
        process.kill()
        said += process.stdout.read().splitlines()
    return inspect(home, set(said))


def inspect(home: Path, said: set[str]) -> Kill:
    """Open the ledger as the next start does, and compare."""
    engine = Engine(home)
    try:
        with engine.ledger.reading() as connection:
            there = {row[0] for row in connection.execute("SELECT attempt_id FROM calls")}
            reserved = _count(connection, "reservations")
            flagged = _count(connection, "calls WHERE flags = 'abandoned'")
        live = engine.open_run(make_run(run_id=f"next {len(there)}"))
        engine.release(engine.admit(live, REQUEST))
        engine.recorder.flush(30.0)
        _, differences = engine.ledger.verify()
        with engine.ledger.reading() as connection:
            return Kill(
                acknowledged=len(said),
                lost=len(said - there),
                reserved=reserved,
                flagged=_count(connection, "calls WHERE flags = 'abandoned'") - flagged,
                still_reserved=_count(connection, "reservations"),
                differences=len(differences),
                sound=connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok",
            )
    finally:
        engine.close()


def _count(connection: "object", table: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])  # type: ignore[attr-defined]


def run(home: Path, kills: int, seed: int) -> list[Kill]:
    """So many kills of one home."""
    chance = random.Random(seed)
    return [kill_once(home, chance) for _ in range(kills)]


def main(kills: int = 200, seed: int = 9) -> int:
    """Kill, print what came of it; 1 when anything was wrong."""
    with tempfile.TemporaryDirectory() as folder:
        done = run(make_home(Path(folder) / "home"), kills, seed)
    wrong = [kill for kill in done if not kill.clean]
    said, lost = sum(kill.acknowledged for kill in done), sum(kill.lost for kill in done)
    reserved, flagged = sum(kill.reserved for kill in done), sum(kill.flagged for kill in done)
    print(f"{len(done)} kills (seed {seed}), {len(wrong)} of them not clean")
    print(f"{said} calls were said to be recorded, {lost} of them are missing")
    print(f"{reserved} reservations of the dead, {flagged} became flagged rows")
    print(f"{sum(kill.differences for kill in done)} totals differ from their rows")
    for kill in wrong:
        print(kill)
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["load"]:
        load(Path(sys.argv[2]))
    else:
        sys.exit(main(*map(int, sys.argv[1:])))

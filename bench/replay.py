"""How long a month takes to replay, and how much memory: 100,000 calls and a million.

Each size is played in a process of its own, so that its peak memory is its own.
"""

import json
import resource
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from budget_plugin.commands import table
from budget_plugin.commands.asking import Args, Caller
from budget_plugin.engine.engine import Engine
from budget_plugin.store.history import recorded_between

from .homes import DAY_MS, MODEL, PROVIDER, make_home
from .timing import Row

MONTH, LARGE = 100_000, 1_000_000
CALLS_OF_A_RUN = 20
TOOLS_OF_A_CALL = 2
SWEEP = "8,11,14,20"

_CALL = (
    "INSERT INTO calls (attempt_id, run_id, at_ms, provider, model, input_tokens, output_tokens, "
    "cost_nanos, cost_source) VALUES (?,?,?,?,?,?,?,?,?)"
)
_RUN = (
    "INSERT INTO runs (run_id, session_id, root_run_id, kind, started_ms, ended_ms, cron_job_id, "
    "sender_id, profile, platform, model) VALUES (?,?,?,?,?,?,?,?,?,?,?)"
)
_ENDING = (
    "INSERT INTO run_endings (run_id, at_ms, state, cause, status, receipt) VALUES (?,?,?,?,?,?)"
)
_TOOL = (
    "INSERT INTO tool_events (run_id, seq, at_ms, tool, args_digest, result_digest, status, step) "
    "VALUES (?,?,?,?,?,?,?,?)"
)
_EDGE = "INSERT INTO subagent_edges (child_session_id, parent_run_id, started_ms) VALUES (?,?,?)"


def rows(folder: Path, *, quick: bool) -> list[Row]:
    """A month in a sweep of four, one with its tool calls, and a year's worth of calls."""
    found = [_sweep(folder / "month", MONTH), _loops(folder / "loops", MONTH)]
    return found if quick else [*found, _several(folder / "large", LARGE)]


def _sweep(home: Path, calls: int) -> Row:
    seconds, _, _ = _played(home, calls, "--dispatches", SWEEP)
    what = f"replay of {calls:,} calls, a sweep of 4 ceilings in one pass"
    return Row(what, "≤ 2 s", f"{seconds:.1f} s", seconds <= 2)


def _loops(home: Path, calls: int) -> Row:
    seconds, peak_mib, before_mib = _played(home, calls, "--loops", "on", tools=TOOLS_OF_A_CALL)
    grown = peak_mib - before_mib
    return Row(
        f"replay of {calls:,} calls and {TOOLS_OF_A_CALL * calls:,} tool calls, loop detectors on",
        "≤ 8 s, flat memory",
        f"{seconds:.1f} s, {grown:.0f} MiB",
        seconds <= 8 and grown <= 64,
    )


def _several(home: Path, calls: int) -> Row:
    words = ("--dispatches", "14", "global", "daily", "50", "and", "sender", "daily", "5")
    seconds, peak_mib, before_mib = _played(home, calls, *words)
    grown = peak_mib - before_mib
    return Row(
        f"replay of {calls:,} calls, a ceiling and two limits",
        "≤ 20 s, flat memory",
        f"{seconds:.1f} s, {grown:.0f} MiB",
        seconds <= 20 and grown <= 64,
    )


def _played(home: Path, calls: int, *words: str, tools: int = 0) -> tuple[float, float, float]:
    """Processor seconds, peak memory and memory before, of one command in a fresh process."""
    engine = Engine(make_home(home))
    with engine.ledger.reading():
        pass  # makes the file
    _fill(engine.database.path, calls, engine.clock.now_ms(), tools)
    engine.close()
    command = [sys.executable, "-m", "bench.replay", str(home), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told = json.loads(done.stdout.splitlines()[-1])
    return told["seconds"], told["peak_mib"], told["before_mib"]


def _fill(path: Path, calls: int, now_ms: int, tools: int) -> None:
    """A month of runs of 20 calls and 4 to 23 dispatches, one after another.

    Args:
        tools: tool calls behind each call.
    """
    with closing(sqlite3.connect(path)) as connection, connection:
        runs = calls // CALLS_OF_A_RUN
        start_ms, step_ms = now_ms - 29 * DAY_MS, 29 * DAY_MS // calls
        for number in range(runs):
            at_ms = start_ms + number * CALLS_OF_A_RUN * step_ms
            _add(connection, number, at_ms, step_ms)
            connection.executemany(_TOOL, _tools(number, at_ms, step_ms, tools))


def _add(connection: sqlite3.Connection, number: int, at_ms: int, step_ms: int) -> None:
    run_id = f"run-{number}"
    sender = f"telegram:{number % 50}"
    end_ms = at_ms + CALLS_OF_A_RUN * step_ms
    connection.execute(
        _RUN, (run_id, run_id, run_id, "chat", at_ms, end_ms, "", sender, "", "telegram", MODEL)
    )
    receipt = json.dumps({"tools": 30, "calls": CALLS_OF_A_RUN})
    connection.execute(_ENDING, (run_id, end_ms, "RESOLVED", "answered", "complete", receipt))
    connection.executemany(_CALL, _calls(number, run_id, at_ms, step_ms))
    hops = 4 if number % 50 else 23
    connection.executemany(
        _EDGE, ((f"{run_id}-{n}", run_id, at_ms + n * step_ms // 2) for n in range(hops))
    )


def _calls(number: int, run_id: str, at_ms: int, step_ms: int) -> Iterator[tuple[object, ...]]:
    for n in range(CALLS_OF_A_RUN):
        attempt = f"attempt-{number}-{n}"
        yield (
            *(attempt, run_id, at_ms + n * step_ms, PROVIDER, MODEL),
            *(12_000, 933, 49_995_000, "pricing"),
        )


def _tools(number: int, at_ms: int, step_ms: int, each: int) -> Iterator[tuple[object, ...]]:
    """Different calls, but for every tenth run, which makes the same one again and again."""
    loops = number % 10 == 0
    for n in range(each * CALLS_OF_A_RUN):
        args = "0123456789abcdef" if loops else f"{n:016x}"
        step = f"{n // each:016x}"
        ended_ms = at_ms + (n // each) * step_ms + 1 + n % each
        yield (f"run-{number}", n, ended_ms, "terminal", args, "fedcba9876543210", "ok", step)


def _mib() -> float:
    """Peak memory of this process; `ru_maxrss` alone begins with what its parent had."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    lines = status.read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def play(home: Path, words: list[str]) -> None:
    """The playing process: tells how long the command took and what memory it came to."""
    engine = Engine(home)
    now_ms = engine.clock.now_ms()
    next(recorded_between(engine.database, 0, now_ms), None)
    options = {"cost-per-handoff": "4.00", words[0].removeprefix("--"): words[1]}
    args = Args(Caller("bench", "command line"), tuple(words[2:]), options=options)
    before_mib, begun = _mib(), time.process_time()
    answer = table.answer(lambda: engine, "replay", args)
    seconds = time.process_time() - begun
    assert answer.exit_code == 0, answer.text
    print(json.dumps({"seconds": seconds, "peak_mib": _mib(), "before_mib": before_mib}))


if __name__ == "__main__":
    play(Path(sys.argv[1]), sys.argv[2:])

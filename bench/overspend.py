"""Does a hard limit hold? A model that never stops, one and four processes, against $1.00.

Three ways to guard the money are played side by side, each through what the host calls at a turn:

    plugin     hooks and middleware as registered
    tool gate  the same with `model_gate: {enabled: false}`: tools are blocked, calls are not
    check-add  plain `sqlite3`: look at the sum, call, add the cost

The fake provider's own log is the bill: a line for every call that reached it.
"""

import json
import sqlite3
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from types import SimpleNamespace as Obj
from typing import Any, Final

from budget_plugin.hermes.parts import Parts

from .at_once import at_once, wait_for_start
from .homes import MODEL, PROVIDER, make_home

LIMIT_USD: Final = 1.00
CALL_USD: Final = 0.05
ITERATIONS: Final = 90
"""The host's own cap on a turn's calls: what the bill of a model that never stops ends at."""

PROCESSES: Final = (1, 4)
LATENCIES_S: Final = (0.0, 0.1, 0.5, 2.0)
GUARDS: Final = ("plugin", "tool gate", "check-add")

_LIMITED: Final = "timezone: UTC\nbudgets:\n  global: {daily_usd: 1.00}\n"
_PROMPT_TOKENS: Final = 11_667  # at $3 per million: 3.5 cents
_OUTPUT_TOKENS: Final = 1_000  # at $15 per million: 1.5 cents
_WRAP_UP_WORDS: Final = "This is the last answer that fits"


@dataclass(frozen=True, slots=True)
class Cell:
    """One guard at one latency: the bill, call by call."""

    guard: str
    processes: int
    latency_s: float
    bill: tuple[tuple[float, float], ...]
    """Seconds since the first call and dollars, in the order of the answers."""
    last_answers: int
    """Runs that were told to finish and were let through once more to do so."""
    ended_by_text: int
    """Runs that the gate ended with a text of its own."""

    @property
    def spent_usd(self) -> float:
        return sum(usd for _, usd in self.bill)

    @property
    def over_usd(self) -> float:
        return max(0.0, self.spent_usd - LIMIT_USD)

    @property
    def holds(self) -> bool:
        """Nothing over, all but two calls used, and every run came to its end."""
        full = self.spent_usd >= LIMIT_USD - 2 * CALL_USD - 1e-6
        return self.over_usd < 1e-6 and full and self.last_answers == self.processes


def play(folder: Path, scale: float) -> list[Cell]:
    """The whole matrix. The provider answers after `scale` times the latency.

    The cells of one latency are played at the same time, but for those without any.
    """
    cells: list[Cell] = []
    for latency_s in LATENCIES_S:
        with ThreadPoolExecutor(6 if latency_s else 1) as pool:
            cells += pool.map(
                lambda kind, latency_s=latency_s: _cell(folder, kind[1], kind[0], latency_s, scale),
                product(PROCESSES, GUARDS),
            )
    return cells


def _cell(folder: Path, guard: str, processes: int, latency_s: float, scale: float) -> Cell:
    off = "model_gate: {enabled: false}\n" if guard == "tool gate" else ""
    name = f"{guard.replace(' ', '-')}-{processes}-{latency_s}"
    home = make_home(folder / name, _LIMITED + off)
    command = [sys.executable, "-m", "bench.overspend", str(home), guard]
    told = at_once([[*command, str(n), str(latency_s * scale)] for n in range(processes)])
    bill = sorted((at, usd) for run in told for at, usd in run["bill"])
    begun = min(run["begun"] for run in told)
    return Cell(
        guard,
        processes,
        latency_s,
        tuple(((at - begun) / scale, usd) for at, usd in bill),
        sum(run["last_answers"] for run in told),
        sum(run["ended_by_text"] for run in told),
    )


# ---------------------------------------------------------------------- one process, one run


class Provider:
    """Answers every call with another tool call, after a while, and writes the bill."""

    def __init__(self, latency_s: float) -> None:
        self._latency_s = latency_s
        self.bill: list[tuple[float, float]] = []
        self.last_answers = 0

    def answer(self, request: dict[str, Any]) -> Any:
        time.sleep(self._latency_s)
        usd = (_PROMPT_TOKENS * 3 + _OUTPUT_TOKENS * 15) / 1e6
        self.bill.append((time.time(), usd))
        self.last_answers += _WRAP_UP_WORDS in str(request["messages"][-1]["content"])
        usage = Obj(
            prompt_tokens=_PROMPT_TOKENS,
            completion_tokens=_OUTPUT_TOKENS,
            total_tokens=_PROMPT_TOKENS + _OUTPUT_TOKENS,
        )
        function = Obj(name="terminal", arguments='{"command": "true"}')
        call = Obj(id=f"call-{len(self.bill)}", type="function", function=function)
        message = Obj(role="assistant", content="", tool_calls=[call], reasoning_content=None)
        choice = Obj(index=0, finish_reason="tool_calls", message=message)
        return Obj(id="x", object="chat.completion", model=MODEL, usage=usage, choices=[choice])


def a_turn(parts: Parts, provider: Provider, number: int) -> bool:
    """The host's loop for one message: ask, run tools, ask again. `True` when our text ended it."""
    ids = {"turn_id": f"turn-{number}", "session_id": f"session-{number}", "task_id": ""}
    hooks, messages = parts.hooks, [{"role": "user", "content": "x" * (_PROMPT_TOKENS * 4)}]
    hooks.pre_llm_call(**ids, platform="cli", model=MODEL, sender_id="")
    ended_by_text = False
    for step in range(ITERATIONS):
        request = {"model": MODEL, "messages": list(messages), "max_tokens": 65_536}
        response = parts.gate.llm_execution(
            **ids,
            request=request,
            next_call=lambda changed=None, request=request: provider.answer(changed or request),
            api_request_id=f"{number}-{step}",
            api_mode="chat_completions",
            provider=PROVIDER,
            model=MODEL,
            base_url="",
            platform="cli",
        )
        choice = response.choices[0]
        if not choice.message.tool_calls:
            ended_by_text = True
            break
        blocked = parts.tools.pre_tool_call(**ids, tool_name="terminal", args={"command": "true"})
        # (The prompt stays as long as it was: every call costs the same.)
        del messages[1:]
        messages.append({"role": "tool", "content": blocked["message"] if blocked else "done"})
    hooks.transform_llm_output(**ids, response_text="", model=MODEL, platform="cli")
    hooks.on_session_end(**ids, completed=True, interrupted=False)
    return ended_by_text


def _guarded_by_plugin(home: Path, provider: Provider, number: int) -> Callable[[], bool]:
    parts = Parts(home)
    parts.runtime.engine().rules()
    return lambda: a_turn(parts, provider, number)


def _guarded_by_check_then_add(home: Path, provider: Provider, _: int) -> Callable[[], bool]:
    path = home / "spend.db"
    with closing(sqlite3.connect(path, timeout=10)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE IF NOT EXISTS spend (usd REAL NOT NULL)")
        connection.commit()

    def turn() -> bool:
        request = {"messages": [{"role": "user", "content": ""}]}
        with closing(sqlite3.connect(path, timeout=10, isolation_level=None)) as connection:
            for _ in range(ITERATIONS):
                spent = connection.execute("SELECT coalesce(sum(usd), 0) FROM spend").fetchone()[0]
                if spent >= LIMIT_USD:
                    return True
                provider.answer(request)
                connection.execute("INSERT INTO spend VALUES (?)", (provider.bill[-1][1],))
        return False

    return turn


def run_one(home: Path, guard: str, number: int, latency_s: float) -> None:
    """One process of a cell: waits for its start, plays its turn, tells its bill."""
    provider = Provider(latency_s)
    make = _guarded_by_check_then_add if guard == "check-add" else _guarded_by_plugin
    turn = make(home, provider, number)
    wait_for_start()
    begun = time.time()
    ended_by_text = turn()
    told = {
        "begun": begun,
        "bill": provider.bill,
        "last_answers": provider.last_answers,
        "ended_by_text": int(ended_by_text),
    }
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    run_one(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))

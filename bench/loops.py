"""What the loop detectors cost: before a tool, after it, and in memory."""

import tracemalloc
from functools import partial
from pathlib import Path
from typing import Any

from budget_plugin.hermes.parts import Parts
from budget_plugin.policy.loops import Hop, LoopPolicy, ToolEvent, Watch, read_tool_event

from .homes import ALL_SCOPES, make_home
from .timing import Row, cpu_us

_ON = "loops: {all: true}\n"
_WINDOW = LoopPolicy().window
_HOOK: dict[str, Any] = {
    "turn_id": "turn",
    "session_id": "cron_job-0_20261130_120000",
    "task_id": "",
    "tool_name": "terminal",
    "args": {"command": "make test"},
    "platform": "telegram",
    "sender_id": "0",
    "model": "a-model",
}


def rows(folder: Path) -> list[Row]:
    """The rows of the table."""
    return [
        _detectors(),
        _memory(),
        _gate(folder / "gate"),
        *(_after(folder / f"after-{size}", size) for size in (200, 2_000, 100_000)),
    ]


def _full_watch() -> tuple[Watch, list[ToolEvent]]:
    """A watch whose window is full, and the calls of a run that goes on."""
    watch = Watch(LoopPolicy())
    events = [
        read_tool_event(n, "terminal", {"command": f"step {n % 300}"}, f"result {n % 250}")
        for n in range(2 * _WINDOW)
    ]
    for event in events:
        watch.tool(event)
    for number in range(50):
        watch.hop(Hop(number, f"a{number % 5}", f"b{number % 7}", "s", "s"))
    return watch, events


def _detectors() -> Row:
    watch, events = _full_watch()

    def all_of_them() -> None:
        for event in events:
            watch.tool(event)

    taken = cpu_us(all_of_them, calls=10) / len(events)
    what = f"all detectors, one tool call, a window of {_WINDOW}"
    return Row(what, "≤ 20 µs", f"{taken:.1f} µs", taken <= 20)


def _memory() -> Row:
    tracemalloc.start()
    held = _full_watch()[0]
    kib = tracemalloc.get_traced_memory()[0] / 1024
    tracemalloc.stop()
    assert held.news
    return Row("memory of one full watch", "≤ 512 KiB", f"{kib:.0f} KiB", kib <= 512)


def _gate(home: Path) -> Row:
    """Warm, every detector on, in a run that has gone on for a while."""
    parts = Parts(make_home(home, ALL_SCOPES + _ON))
    engine = parts.runtime.engine()
    parts.runtime.profile = lambda: "default"
    parts.hooks.pre_llm_call(**_HOOK)
    for number in range(50):
        parts.tools.post_tool_call(**_HOOK, result=f"{number}", status="ok")
    taken = cpu_us(partial(parts.tools.pre_tool_call, **_HOOK), calls=2_000)
    engine.close()
    what = "tool gate, warm, all scopes of a run and all detectors on"
    return Row(what, "≤ 15 µs", f"{taken:.1f} µs", taken <= 15)


def _after(home: Path, size: int) -> Row:
    """`post_tool_call` of a home without settings: what is watched there costs this."""
    parts = Parts(make_home(home))
    engine = parts.runtime.engine()
    parts.hooks.pre_llm_call(**_HOOK)
    numbers = iter(range(10**9))
    text = "a line of a result with words and 17 numbers\n" * (size // 45 + 1)

    def end() -> None:
        parts.tools.post_tool_call(**_HOOK, result=f"{next(numbers)} {text[:size]}", status="ok")

    taken = cpu_us(end, calls=50)
    engine.close()
    what = f"post_tool_call without settings, a result of {size:,} characters"
    return Row(what, "≤ 1 ms", f"{taken / 1000:.2f} ms", taken <= 1_000)

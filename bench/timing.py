"""Timing that stands noise: medians over many short batches, and what the machine was."""

import os
import platform
import sqlite3
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: what was measured, what it may be, what it was, in words."""

    what: str
    bar: str
    reached: str
    ok: bool
    note: str = ""


def cpu_us(function: Callable[[], object], *, calls: int, batches: int = 21) -> float:
    """Microseconds of processor time a call: the median over batches of the batch's mean.

    On a quiet machine this is the time that passes; on a busy one it leaves out the neighbours.
    """
    function()
    return statistics.median(_batch_us(function, calls) for _ in range(batches))


def cpu_us_in_turns(
    first: Callable[[], object], second: Callable[[], object], *, calls: int, batches: int
) -> tuple[float, float]:
    """`cpu_us` of two functions whose batches alternate, so that both meet the same noise."""
    pairs = [(_batch_us(first, calls), _batch_us(second, calls)) for _ in range(batches)]
    ours, theirs = zip(*pairs, strict=True)
    return statistics.median(ours), statistics.median(theirs)


def _batch_us(function: Callable[[], object], calls: int) -> float:
    begun = time.thread_time_ns()
    for _ in range(calls):
        function()
    return (time.thread_time_ns() - begun) / calls / 1000


def each_us(function: Callable[[], object], calls: int) -> list[float]:
    """Microseconds on the clock of each of so many calls."""
    clock = time.perf_counter_ns
    taken = []
    for _ in range(calls):
        begun = clock()
        function()
        taken.append((clock() - begun) / 1000)
    return taken


def machine() -> str:
    """Processor, cores, load, versions: what the figures rest on."""
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return (
        f"{_processor()}, {os.cpu_count()} cores, load {load}; "
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {platform.system()}"
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown processor"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()

"""The corpus of short traces: loops.yaml, honest.yaml, and how a step in them is written.

    [tool, args, result]              a call; a fourth entry is the model's answer that asked for it
    [tool, args, {error: text}]       one that failed; {blocked: text} did not run
    {hop: a>b, state: s>t}            a hop with its states; goal, role, lineage as they are
    {checkpoint: nothing, fact: …}    an account of progress
    {head: [name, artifact, score]}   a draft
    {resumed: true}, {person: true}   after a pause; a person spoke
    {gap: seconds}                    time passes; no event
    {times: n, do: [steps]}           n times; {i} in a text is the number of the round, from 0

Calls go through the reader and its digests, as they would in a run. A step takes five seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from budget_plugin.policy.digests import args_digest, digest
from budget_plugin.policy.loops import (
    Answer,
    Checkpoint,
    Detector,
    Event,
    Finding,
    Head,
    Hop,
    Level,
    LoopPolicy,
    PersonSpoke,
    Resumed,
    Watch,
    read_tool_event,
)

HERE = Path(__file__).parent
SECONDS_PER_STEP = 5.0


@dataclass(frozen=True)
class Trace:
    """One trace; `finds` and `at` are absent for honest work, `warns` may be."""

    name: str
    events: tuple[Event, ...]
    finds: Detector | None
    at: int | None
    warns: frozenset[Detector]


@cache
def corpus() -> tuple[Trace, ...]:
    return (*_read("loops.yaml"), *_read("honest.yaml"))


def _read(file: str) -> tuple[Trace, ...]:
    entries = yaml.safe_load((HERE / file).read_text("utf-8"))
    return tuple(
        Trace(
            entry["name"],
            tuple(events_of(entry["steps"])),
            Detector(entry["finds"]) if "finds" in entry else None,
            entry.get("at"),
            frozenset(Detector(name) for name in entry.get("warns", ())),
        )
        for entry in entries
    )


def events_of(steps: list[Any]) -> Iterator[Event]:
    at_s, seq = 0.0, 0
    for step in _unrolled(steps):
        if isinstance(step, dict) and "gap" in step:
            at_s += step["gap"]
            continue
        seq += 1
        at_s += SECONDS_PER_STEP
        yield _event(step, seq, at_s)


def _unrolled(steps: list[Any], round_: int | None = None) -> Iterator[Any]:
    for step in steps:
        if isinstance(step, dict) and "times" in step:
            for inner in range(step["times"]):
                yield from _unrolled(step["do"], inner)
        else:
            yield step if round_ is None else _numbered(step, round_)


def _numbered(value: Any, round_: int) -> Any:
    if isinstance(value, str):
        return value.replace("{i}", str(round_))
    if isinstance(value, list):
        return [_numbered(item, round_) for item in value]
    if isinstance(value, dict):
        return {key: _numbered(item, round_) for key, item in value.items()}
    return value


def _event(step: Any, seq: int, at_s: float) -> Event:
    if isinstance(step, list):
        return _call(seq, at_s, *step)
    if "hop" in step:
        return _hop(step, seq)
    if "checkpoint" in step:
        fact = digest(step["fact"]) if "fact" in step else ""
        return Checkpoint(seq, Answer(step["checkpoint"]), fact)
    if "head" in step:
        name, artifact, *score = step["head"]
        return Head(seq, name, digest(artifact), *score)
    return Resumed(seq, at_s) if "resumed" in step else PersonSpoke(seq)


def _call(seq: int, at_s: float, tool: str, args: Any, result: Any, answer: str = "") -> Event:
    status, text = "ok", result
    if isinstance(result, dict):
        ((status, text),) = result.items()
    error = text if status == "error" else None
    return read_tool_event(
        seq, tool, args, text, status=status, error=error, at_s=at_s, step=answer
    )


def _hop(step: dict[str, Any], seq: int) -> Hop:
    source, target = step["hop"].split(">")
    before, after = step.get("state", ">").split(">")
    lineage = tuple((role, _goal(goal)) for role, goal in step.get("lineage", ()))
    return Hop(
        seq,
        source,
        target,
        before,
        after,
        step.get("role", ""),
        _goal(step.get("goal", "")),
        lineage,
    )


def _goal(text: str) -> str:
    return args_digest(text.lower()) if text else ""


@dataclass(frozen=True)
class Judged:
    """A trace and what was found in it."""

    trace: Trace
    findings: tuple[Finding, ...]

    @property
    def first(self) -> Finding | None:
        """The first finding that would have been acted on."""
        return next((each for each in self.findings if each.level is Level.ACT), None)

    def acted(self, detector: Detector) -> bool:
        return any(each.level is Level.ACT for each in self.findings if each.detector is detector)


def judged(trace: Trace, policy: LoopPolicy | None = None) -> Judged:
    watch = Watch(policy or LoopPolicy())
    return Judged(trace, tuple(each for event in trace.events for each in watch.see(event)))


@dataclass(frozen=True)
class Score:
    """Of one detector. A loop that another detector finds as well is no mistake of this one."""

    loops: int
    found: int
    on_time: int
    honest_stopped: int

    @property
    def precision(self) -> float:
        called = self.found + self.honest_stopped
        return self.found / called if called else 1.0

    @property
    def recall(self) -> float:
        return self.found / self.loops if self.loops else 1.0


def scores() -> dict[Detector, Score]:
    """Precision and recall of each detector over the corpus."""
    counts: dict[Detector, Counter[str]] = {detector: Counter() for detector in Detector}
    for each in map(judged, corpus()):
        trace = each.trace
        for detector, count in counts.items():
            if trace.finds is detector:
                count["loops"] += 1
                count["found"] += each.acted(detector)
                first = each.first
                count["on_time"] += first is not None and first.seq == trace.at
            elif trace.finds is None:
                count["honest"] += each.acted(detector)
    return {
        detector: Score(n["loops"], n["found"], n["on_time"], n["honest"])
        for detector, n in counts.items()
    }


if __name__ == "__main__":
    print(f"{len(corpus())} traces, {sum(t.finds is not None for t in corpus())} of them loops")
    for detector, score in scores().items():
        print(
            f"{detector:15} loops {score.loops:3}  found {score.found:3}  on time {score.on_time:3}"
            f"  honest stopped {score.honest_stopped}"
            f"  precision {score.precision:.2f}  recall {score.recall:.2f}"
        )

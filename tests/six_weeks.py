"""Six weeks of traffic, constructed: many runs that work, a few that need long, some that circle.

The facts are those of a published sweep: resolved runs take 4 hops at the median and 9 at the 99th
percentile; a ceiling of 14 instead of 11 costs $24 a day more and spares 19 tickets; 20 instead of
14 costs $46 more and spares 6. A hop costs 20 cents at first and more later, since each carries the
conversation so far.
"""

from collections.abc import Iterator, Sequence
from typing import Final
from zoneinfo import ZoneInfo

from budget_plugin.policy.limits import Budget, ModelGate
from budget_plugin.policy.money import parse_usd
from budget_plugin.policy.replay.outcome import flat_region
from budget_plugin.policy.replay.player import Candidate, Player
from budget_plugin.policy.replay.recorded import (
    Event,
    RecordedCall,
    RecordedDispatch,
    RecordedRun,
)
from budget_plugin.policy.runs.run_limits import RunLayer, RunPolicy
from budget_plugin.testing import at

DAYS: Final = 42
DAY_MS: Final = 86_400_000
MODEL: Final = "a-model"

SHORT: Final = ((2, 400), (3, 800), (4, 900), (5, 400), (6, 200), (7, 100), (8, 60), (9, 40))
"""Hops → resolved runs a day that no ceiling of the sweep touches but the smallest."""

LONG: Final = (
    *(12,) * 14,  # 19 runs that 11 hops cut and 14 do not, 24 hops beyond their 11th
    *(13,) * 5,
    *(18,) * 2,  # 6 runs that 14 cut and 20 do not, 28 hops beyond their 14th
    *(19,) * 4,
    *(24,) * 3,  # 3 that all of them cut
)
CIRCLES: Final = (41,) * 23
"""Runs that never resolve: control goes round until the customer leaves."""


def hop_nanos(hop: int) -> int:
    """What the hop of this number costs, counted from 1."""
    usd = "0.20" if hop <= 14 else "0.25" if hop <= 20 else "0.94"
    return parse_usd(usd)


def a_day() -> list[tuple[int, bool]]:
    """Hops of each run of a day, and whether it resolves."""
    short = [(hops, True) for hops, runs in SHORT for _ in range(runs)]
    return [*short, *((hops, True) for hops in LONG), *((hops, False) for hops in CIRCLES)]


def events(start_ms: int, days: int = DAYS) -> Iterator[Event]:
    """All runs of these days, one after another."""
    numbers = iter(range(10**9))
    for day in range(days):
        for position, (hops, resolved) in enumerate(a_day()):
            at_ms = start_ms + day * DAY_MS + position * 20_000
            yield from _run(f"run-{next(numbers)}", at_ms, hops, resolved=resolved)


def _run(run_id: str, at_ms: int, hops: int, *, resolved: bool) -> Iterator[Event]:
    yield RecordedRun(run_id, run_id, "chat", at_ms, resolved=resolved)
    if hops <= 9:  # one batch and one call: what no ceiling cuts need not be told hop by hop
        yield RecordedDispatch(at_ms, run_id, hops)
        yield RecordedCall(at_ms, run_id, MODEL, 22_600 * hops, _sum(range(1, hops + 1)))
        return
    for hop in range(1, hops + 1):
        yield RecordedDispatch(at_ms + hop, run_id)
        yield RecordedCall(at_ms + hop, run_id, MODEL, 22_600, hop_nanos(hop))


def _sum(hops: Sequence[int]) -> int:
    return sum(hop_nanos(hop) for hop in hops)


SWEEP: Final = (8, 11, 14, 20, 40)


def check_sweep(days: int) -> None:
    """Play the sweep over so many days, and do its arithmetic: a handled ticket costs $4.00."""
    players = [Player(Candidate(str(n), _ceiling(n), n), ZoneInfo("UTC")) for n in SWEEP]
    for event in events(at("2026-10-19 08:00"), days):
        for player in players:
            player.play(event)
    came_to = [player.outcome(days) for player in players]
    _, at_11, at_14, at_20, _ = came_to
    ticket = parse_usd("4.00")

    # 14 → 11 saves another $24 a day, and costs 19 tickets
    assert at_11.saved_per_day - at_14.saved_per_day == parse_usd("24")
    assert at_11.cut_resolved - at_14.cut_resolved == 19 * days
    assert at_11.handoffs_per_day(ticket) - at_14.handoffs_per_day(ticket) == parse_usd("76")
    # and triples the runs that would have finished but did not
    assert (at_14.cut_resolved, at_11.cut_resolved) == (9 * days, 28 * days)
    # 14 → 20 gives back $46 for six fewer
    assert at_14.saved_per_day - at_20.saved_per_day == parse_usd("46")
    assert at_14.handoffs_per_day(ticket) - at_20.handoffs_per_day(ticket) == parse_usd("24")

    nets = [outcome.net_per_day(ticket) for outcome in came_to]
    assert max(nets) == nets[SWEEP.index(14)]
    assert flat_region(nets) == (SWEEP.index(11), SWEEP.index(20))


def _ceiling(dispatches: int) -> Budget:
    runs = RunPolicy(default=RunLayer({"dispatches": dispatches}))
    return Budget(runs=runs, model_gate=ModelGate(wrap_up_calls=0))

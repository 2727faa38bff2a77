"""Verdicts in memory: never older than what this process has recorded, read once for many."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from budget_plugin.engine.engine import Engine
from budget_plugin.engine.verdict_cache import TTL_S, Refresher, VerdictCache
from budget_plugin.policy.charges import ScopeId
from budget_plugin.policy.limits import Limit, Measure, OnEstimated, Scope, Thresholds
from budget_plugin.policy.verdicts import Level, Spend, Verdict, evaluate
from budget_plugin.policy.windows import Window, period
from budget_plugin.store.ledger import Recorded
from budget_plugin.testing import FakeClock
from tests.faults.engines import an_engine, begin, bill, level
from tests.ledgers import CENT, GLOBAL, NOON, UTC, a_call

DAY = period(Window.DAILY, NOON, UTC)
LIMIT = Limit(Scope.GLOBAL, "", Window.DAILY, Measure.USD, 100 * CENT)


def verdicts(nanos: int) -> tuple[Verdict, ...]:
    spend = Spend(certain_nanos=nanos, calls=1)
    return (evaluate(LIMIT, spend, DAY, Thresholds(), OnEstimated.WARN_ONLY),)


def used(cache: VerdictCache) -> int | None:
    entry = cache.get(GLOBAL, NOON)
    return None if entry is None else entry.verdicts[0].used


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOON)


@pytest.fixture
def cache(clock: FakeClock) -> VerdictCache:
    return VerdictCache(clock)


@pytest.mark.parametrize("change", ["put", "drop", "clear"])
def test_what_was_read_before_a_change_does_not_replace_what_is_known_since(
    cache: VerdictCache, change: str
) -> None:
    seen = cache.changed(GLOBAL)
    if change == "put":
        cache.put(GLOBAL, verdicts(9 * CENT))
    elif change == "drop":
        cache.drop([GLOBAL])
    else:
        cache.clear()
    assert not cache.put(GLOBAL, verdicts(CENT), since=seen)
    assert used(cache) == (9 * CENT if change == "put" else None)
    assert cache.put(GLOBAL, verdicts(CENT), since=cache.changed(GLOBAL))
    assert used(cache) == CENT


def test_totals_of_an_earlier_transaction_do_not_replace_those_of_a_later_one(
    cache: VerdictCache,
) -> None:
    assert cache.put(GLOBAL, verdicts(9 * CENT), order=2)
    assert not cache.put(GLOBAL, verdicts(CENT), order=1)
    assert used(cache) == 9 * CENT


def test_an_entry_ends_after_five_seconds_and_is_then_the_last(
    cache: VerdictCache, clock: FakeClock
) -> None:
    cache.put(GLOBAL, verdicts(CENT))
    clock.advance(TTL_S - 0.001)
    assert used(cache) == CENT
    clock.advance(0.001)
    assert used(cache) is None
    assert cache.last(GLOBAL, NOON) is not None


@pytest.mark.case("A40")
def test_an_entry_ends_with_its_window(cache: VerdictCache, clock: FakeClock) -> None:
    clock.set(DAY.end_ms - 1)
    cache.put(GLOBAL, verdicts(CENT))
    entry = cache.get(GLOBAL, DAY.end_ms - 1)
    assert entry is not None
    assert entry.until_s == pytest.approx(clock.monotonic() + 0.001)
    assert cache.get(GLOBAL, DAY.end_ms) is None
    assert cache.last(GLOBAL, DAY.end_ms) is None


class Loads:
    """A slow reader of scopes: each load waits to be let go on."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.go_on = threading.Semaphore(0)
        self.scopes: list[ScopeId] = []

    def __call__(self, scope: ScopeId) -> None:
        self.scopes.append(scope)
        self.begun.release()
        self.go_on.acquire()


def test_many_who_ask_are_served_by_one_load_and_those_after_its_start_by_the_next() -> None:
    loads = Loads()
    refresher = Refresher(loads)
    first = refresher._ask(GLOBAL)
    loads.begun.acquire()
    later = {refresher._ask(GLOBAL) for _ in range(10)}
    assert len(later) == 1
    assert first not in later
    loads.go_on.release()
    loads.begun.acquire()
    assert first.is_set()
    assert not any(event.is_set() for event in later)
    loads.go_on.release()
    assert refresher.wait_for([], 0.0)
    assert all(event.wait(10.0) for event in later)
    assert loads.scopes == [GLOBAL, GLOBAL]
    refresher.close()


def test_who_waits_in_vain_is_told_so() -> None:
    loads = Loads()
    refresher = Refresher(loads)
    assert not refresher.wait_for([GLOBAL], 0.0)
    loads.go_on.release()
    refresher.close()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    made = an_engine(tmp_path)
    yield made
    made.close()


def test_threads_that_record_at_once_leave_the_verdict_of_the_last(engine: Engine) -> None:
    live = begin(engine)
    take, first, second = engine.judge.take, threading.Event(), threading.Event()

    def first_comes_last(recorded: Recorded) -> object:
        if recorded.order == earliest:
            first.set()
            second.wait()
        return take(recorded)

    earliest = engine.ledger.add_call(a_call("0", live.run), live.run, 10.0).order + 1
    engine.judge.take = first_comes_last  # type: ignore[assignment, method-assign]
    thread = threading.Thread(target=bill, args=[engine, live, 1, 40 * CENT, "first"])
    thread.start()
    first.wait()
    bill(engine, live, 1, 60 * CENT, "second")
    second.set()
    thread.join()
    assert level(engine, live) is Level.HARD


def test_a_read_that_began_before_a_call_was_recorded_is_read_again(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = begin(engine)
    spends = engine.ledger.spends
    overtaken = [True]

    def slow(*args: object) -> object:
        found = spends(*args)  # type: ignore[arg-type]
        if overtaken:
            overtaken.pop()
            bill(engine, live, 10, 10 * CENT)
        return found

    monkeypatch.setattr(engine.ledger, "spends", slow)
    [verdict] = engine.judge.read_now(GLOBAL)
    assert verdict.used == 100 * CENT
    assert level(engine, live) is Level.HARD

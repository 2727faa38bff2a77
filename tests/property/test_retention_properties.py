"""Old calls become sums of days: no amount that anybody can still ask for changes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budget_plugin.policy.charges import ScopeId
from budget_plugin.policy.events import IMPORTED, Call, CostSource, Run, Usage
from budget_plugin.policy.limits import Scope
from budget_plugin.policy.verdicts import Spend
from budget_plugin.policy.windows import Period, Window, period
from budget_plugin.store.day_sums import IN_ONE_STEP, DaySums
from budget_plugin.store.imports import Imports
from budget_plugin.store.ledger import Ledger
from tests.ledgers import (
    CENT,
    GLOBAL,
    NOON,
    PATIENCE_S,
    a_call,
    a_run,
    assert_totals_equal_rows,
    delegate,
    open_ledger,
    record,
    rows,
)

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
KEPT_DAYS = 62
IDS = ("", "one", "two")
SCOPES: list[ScopeId] = [
    GLOBAL,
    *((scope, name) for scope in Scope if scope is not Scope.GLOBAL for name in IDS[1:]),
]
ZONES = ["UTC", "Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe"]

RUNS = st.lists(
    st.tuples(*[st.sampled_from(IDS)] * 4, st.sampled_from(["chat", "cron", IMPORTED])),
    min_size=1,
    max_size=4,
)
CALLS = st.lists(
    st.tuples(
        st.integers(0, 3),  # which run
        st.integers(0, 200 * 24 * 4),  # quarters of an hour ago
        st.none() | st.integers(0, 5 * CENT),
        st.booleans(),
        st.sampled_from(["one", "two"]),
        st.sampled_from(["", "", "", "title"]),
    ),
    max_size=15,
)


@contextmanager
def a_ledger() -> Iterator[Ledger]:
    with tempfile.TemporaryDirectory() as folder:
        ledger = open_ledger(Path(folder))
        yield ledger
        ledger.database.close()


def day_of(at_ms: int, zone: ZoneInfo) -> int:
    return period(Window.DAILY, at_ms, zone).start_ms


def sum_up(ledger: Ledger, zone: ZoneInfo, kept_days: int = KEPT_DAYS) -> int:
    """All that is old; how many calls."""
    before_ms = day_of(NOON - kept_days * DAY_MS, zone)
    total, sums = 0, DaySums(ledger.database)
    while oldest := sums.oldest(0, before_ms):
        numbers = [number for number, _ in oldest]
        sums.sum_up(numbers, before_ms, lambda at_ms: day_of(at_ms, zone), PATIENCE_S)
        total += len(oldest)
    return total


def windows(times: list[int], zone: ZoneInfo) -> set[Period]:
    """All time, and every local day, week and month in which something was called."""
    kinds = (Window.DAILY, Window.WEEKLY, Window.MONTHLY, Window.TOTAL)
    return {period(each, at_ms, zone) for each in kinds for at_ms in times}


def amounts(
    ledger: Ledger, times: list[int], zone: ZoneInfo
) -> dict[tuple[ScopeId, str, str], Spend]:
    """What every scope spent in every window, from the rows."""
    return {
        (scope, each.window, each.key): ledger.spend_between(scope, each.start_ms, each.end_ms)
        for scope in SCOPES
        for each in windows(times, zone)
    }


def running_totals(
    ledger: Ledger, zone: ZoneInfo, at_ms: int = NOON
) -> dict[tuple[ScopeId, Window], Spend]:
    """What limits see at this time, from totals that are built where they are missing."""
    found = {}
    with ledger.reading() as connection:
        for scope in SCOPES:
            asked = [period(window, at_ms, zone) for window in Window]
            spends = ledger.spends(connection, scope, asked, at_ms, PATIENCE_S)
            found |= {(scope, each.window): spend for each, spend in spends.items()}
    return found


def recorded(ledger: Ledger, runs: list[tuple[str, ...]], calls: list[tuple[object, ...]]) -> None:
    written: list[Run] = []
    for number, (job, sender, profile, platform, kind) in enumerate(runs):
        run = a_run(f"r{number}", cron_job_id=job, sender_id=sender, profile=profile)
        written.append(Run(**{**_fields(run), "platform": platform, "kind": kind}))
    for number, (which, ago, nanos, estimated, model, task) in enumerate(calls):
        run = written[which % len(written)]  # type: ignore[operator]
        at_ms = NOON - ago * HOUR_MS // 4  # type: ignore[operator]
        call = a_call(f"a{number}", run, nanos, at_ms, estimated=bool(estimated), model=str(model))  # type: ignore[arg-type]
        usage = Usage(number, 20 * number, 300 * number, 4_000 * number, 50_000 * number, number)
        record(ledger, Call(**{**_fields(call), "auxiliary_task": task, "usage": usage}), run)


def _fields(value: Run | Call) -> dict[str, object]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


@settings(max_examples=30, deadline=None)
@given(runs=RUNS, calls=CALLS, zone=st.sampled_from(ZONES).map(ZoneInfo))
def test_every_amount_is_the_same_before_and_after(
    runs: list[tuple[str, ...]], calls: list[tuple[object, ...]], zone: ZoneInfo
) -> None:
    with a_ledger() as ledger:
        recorded(ledger, runs, calls)
        times = [at_ms for (at_ms,) in rows(ledger, "at_ms")]  # type: ignore[misc]
        for at_ms in times[:5]:  # limits have looked at windows that are long over
            running_totals(ledger, zone, at_ms)  # type: ignore[arg-type]
        before, limits = amounts(ledger, times, zone), running_totals(ledger, zone)  # type: ignore[arg-type]
        imports = Imports(ledger.database)
        asked = [
            (f"session of r{n}", model, task)
            for n in range(4)
            for model in IDS[1:]
            for task in ("", "title")
        ]
        written = [imports.written(*each) for each in asked]
        of_sessions = [imports.calls_of(session, task) for session, _, task in asked]

        old_ms = day_of(NOON - KEPT_DAYS * DAY_MS, zone)
        left = f"calls WHERE at_ms >= {old_ms} OR auxiliary_task <> '' OR run_id IN "
        left += f"(SELECT run_id FROM runs WHERE kind = '{IMPORTED}')"
        kept = rows(ledger, "*", left)
        assert sum_up(ledger, zone) == len(calls) - len(kept)

        assert rows(ledger, "*") == kept
        assert amounts(ledger, times, zone) == before  # type: ignore[arg-type]
        assert running_totals(ledger, zone) == limits
        assert_totals_equal_rows(ledger)
        assert [imports.written(*each) for each in asked] == written
        assert [imports.calls_of(session, task) for session, _, task in asked] == of_sessions

        with ledger.database.writing(PATIENCE_S) as connection:
            connection.execute("DELETE FROM spend_totals")
        assert running_totals(ledger, zone) == limits  # a limit that is set today sees the same
        assert sum_up(ledger, zone) == 0


@settings(max_examples=15, deadline=None)
@given(runs=RUNS, calls=CALLS, zones=st.lists(st.sampled_from(ZONES), min_size=2, max_size=3))
def test_other_zones_and_late_delegations_leave_totals_and_rows_equal(
    runs: list[tuple[str, ...]], calls: list[tuple[object, ...]], zones: list[str]
) -> None:
    with a_ledger() as ledger:
        recorded(ledger, runs, calls)
        for kept_days, name in enumerate(zones, start=KEPT_DAYS):
            zone = ZoneInfo(name)
            everything = running_totals(ledger, zone)[GLOBAL, Window.TOTAL]
            sum_up(ledger, zone, 2 * KEPT_DAYS - kept_days)
            assert running_totals(ledger, zone)[GLOBAL, Window.TOTAL] == everything
            assert_totals_equal_rows(ledger)
            parent = a_run(f"parent {name}", cron_job_id="one")
            delegate(ledger, parent, "session of r0")
            record(ledger, a_call(f"late {name}", parent, at_ms=NOON), parent)
            assert_totals_equal_rows(ledger)


def test_calls_of_a_day_a_session_and_a_model_become_one_row() -> None:
    run = a_run("r", cron_job_id="job")
    with a_ledger() as ledger:
        old = NOON - 100 * DAY_MS
        for number, (at_ms, model, nanos) in enumerate(
            [
                (old, "small", 1 * CENT),
                (old + HOUR_MS, "small", 2 * CENT),
                (old + HOUR_MS, "small", None),
                (old, "large", 4 * CENT),
                (old + 12 * HOUR_MS, "small", 8 * CENT),  # noon to midnight: the next day
                (NOON, "small", 16 * CENT),
            ]
        ):
            record(ledger, a_call(f"a{number}", run, nanos, at_ms, model=model), run)
        assert sum_up(ledger, ZoneInfo("UTC")) == 5
        columns = "model, certain_nanos, calls, unpriced_calls, input_tokens, cron_job_id"
        assert rows(ledger, columns, "day_sums ORDER BY day_ms, model") == [
            ("large", 4 * CENT, 1, 0, 100, "job"),
            ("small", 3 * CENT, 3, 1, 300, "job"),
            ("small", 8 * CENT, 1, 0, 100, "job"),
        ]
        # A row that comes late for such a day is added to its sum.
        record(ledger, a_call("late", run, 5 * CENT, old, model="large"), run)
        assert sum_up(ledger, ZoneInfo("UTC")) == 1
        assert rows(ledger, "certain_nanos, calls", "day_sums WHERE model = 'large'") == [
            (9 * CENT, 2)
        ]


def test_what_a_provider_stated_and_a_guess_stay_apart() -> None:
    run = a_run("r")
    with a_ledger() as ledger:
        old = NOON - 100 * DAY_MS
        record(ledger, a_call("stated", run, CENT, old, source=CostSource.PROVIDER), run)
        record(ledger, a_call("guess", run, 2 * CENT, old, estimated=True), run)
        sum_up(ledger, ZoneInfo("UTC"))
        total = ledger.spend_between(GLOBAL, 0, NOON)
    assert total == Spend(CENT, 2 * CENT, 200, 2, 0, 1)


def test_what_another_process_has_summed_up_meanwhile_counts_once() -> None:
    run = a_run("r")
    with a_ledger() as ledger:
        old = NOON - 100 * DAY_MS
        ledger.add_calls([a_call(f"a{n}", run, CENT, old + n) for n in range(3)], run, PATIENCE_S)
        sums = DaySums(ledger.database)
        numbers = [number for number, _ in sums.oldest(0, NOON)]
        for some in (numbers[:2], numbers, numbers):
            sums.sum_up(some, NOON, lambda _: old, PATIENCE_S)
        assert rows(ledger, "certain_nanos, calls", "day_sums") == [(3 * CENT, 3)]


@pytest.mark.parametrize("left", [0, 1])
def test_a_step_is_small_and_the_next_goes_on_from_there(left: int) -> None:
    run = a_run("r")
    with a_ledger() as ledger:
        old = NOON - 100 * DAY_MS
        calls = [a_call(f"a{n}", run, at_ms=old + n) for n in range(IN_ONE_STEP + left)]
        ledger.add_calls(calls, run, PATIENCE_S)
        sums = DaySums(ledger.database)
        oldest = sums.oldest(0, NOON)
        assert [at_ms - old for _, at_ms in oldest] == list(range(IN_ONE_STEP))
        assert len(sums.oldest(oldest[-1][1] + 1, NOON)) == left
        assert sums.oldest(0, old) == []

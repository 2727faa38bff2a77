"""Import: what the host's own database knows of the time before this plugin was there.

Limits then start from the truth. Of calls that the ledger has already, nothing is taken twice.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ..policy.events import IMPORTED, Call, Cost, CostSource, Run
from ..policy.prices.pricing import price_call
from ..policy.session_ids import cron_job_of, sender_of
from ..store.auxiliary import Baseline
from ..store.host_state import Counts, HostState, SessionUsage
from ..store.imports import Imported, Imports
from .auxiliary import report_of, shares

if TYPE_CHECKING:
    from .engine import Engine

FLAG: Final = "imported"
HOST_ESTIMATE: Final = "host_estimate"
"""The cost is what the host believed; no provider stated it and no price of ours was at hand."""

_IN_ONE_STEP: Final = 200
"""Calls written in one transaction: other processes wait for it."""

PATIENCE_S: Final = 10.0


class Importing:
    """Imports into one engine's ledger."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._host = HostState(engine.folder.parent / "state.db")
        self._book = Imports(engine.database)

    def run(self, since_ms: int, *, dry: bool) -> Imported:
        """Take over what was spent; the same again adds nothing.

        Args:
            since_ms: what a session used is taken as a whole, if it was used since then.

        Raises:
            HostStateError: the host's database cannot be read.
            LedgerError: the ledger does not answer; what was written until then stays, and doing
                it again takes the rest.
        """
        baseline = self._baseline(dry=dry)
        total, sessions = Imported(), set[str]()
        for usage in self._host.usage():
            if usage.used.last_seen_ms < since_ms:
                continue
            calls, already = self._missing(usage, baseline)
            total = replace(total, already=total.already + already)
            if not calls:
                continue
            sessions.add(usage.used.session_id)
            if not dry:
                self._write(calls, _run_of(usage, calls[0].at_ms))
            total = _plus(total, calls)
        if not dry:
            self._engine.reload_config()
        return replace(total, sessions=len(sessions))

    def remove(self) -> int:
        """Take out everything that was imported; how many calls there were.

        Raises:
            LedgerError: the ledger does not answer.
        """
        removed = self._book.remove(PATIENCE_S)
        self._engine.reload_config()
        return removed

    def _baseline(self, *, dry: bool) -> Baseline:
        """Auxiliary calls are counted live from a certain moment on; what lies before is ours."""
        baseline = Baseline(self._engine.folder)
        baseline.load()
        if baseline.taken_ms is None and not dry:
            self._engine.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            baseline.take(self._host.auxiliary_usage(0), self._engine.clock.now_ms())
        return baseline

    def _missing(self, usage: SessionUsage, baseline: Baseline) -> tuple[list[Call], int]:
        """The calls that the ledger lacks, and how many it has."""
        used = usage.used
        known = used.counts
        if used.task and baseline.taken_ms is not None:
            known = baseline.of(used.key)
        written = self._book.written(used.session_id, used.model, used.task)
        new = known.less(written._replace(actual_nanos=0))
        if not used.task and self._book.calls_of(used.session_id, "") >= known.calls:
            return [], known.calls  # the host may call a model otherwise than the request did
        if not new.calls:
            return [], known.calls
        return list(self._calls(usage, known, new)), known.calls - new.calls

    def _calls(self, usage: SessionUsage, known: Counts, new: Counts) -> Iterator[Call]:
        used, first = usage.used, known.calls - new.calls
        # What of the money belongs to the new ones is not known: their share by number.
        stated = new._replace(actual_nanos=known.actual_nanos * new.calls // known.calls)
        for number, part in enumerate(shares(stated), start=first):
            report = report_of(part)
            assert report.usage is not None
            at_ms = _moment(usage, number, known.calls)
            cost = price_call(
                self._engine.prices.table(),
                provider=used.provider,
                model=used.model,
                usage=report.usage,
                at_ms=at_ms,
                base_url=used.base_url,
                provider_cost_nanos=part.actual_nanos or None,
                flags=(*report.flags, FLAG),
            )
            yield Call(
                attempt_id=f"import:{used.key}:{number}",
                run_id=_run_id(used.session_id),
                at_ms=at_ms,
                provider=used.provider,
                model=used.model,
                response_model="",
                usage=report.usage,
                cost=_or_the_hosts(cost, usage.estimated_nanos // known.calls),
                auxiliary_task=used.task,
            )

    def _write(self, calls: list[Call], run: Run) -> None:
        for start in range(0, len(calls), _IN_ONE_STEP):
            self._engine.ledger.add_calls(calls[start : start + _IN_ONE_STEP], run, PATIENCE_S)
        self._engine.ledger.end_run(run.run_id, calls[-1].at_ms, "completed", PATIENCE_S)


def _or_the_hosts(cost: Cost, estimate_nanos: int) -> Cost:
    """Where no price is known, the host's own estimate, marked as one."""
    if cost.nanos is not None or not estimate_nanos:
        return cost
    return replace(
        cost,
        nanos=estimate_nanos,
        source=CostSource.PRICING,
        estimated=True,
        price_id="host",
        flags=(*cost.flags, HOST_ESTIMATE),
    )


def _moment(usage: SessionUsage, number: int, count: int) -> int:
    """When a call was made: the host knows the first and the last, the others lie between."""
    first, last = usage.first_ms, max(usage.first_ms, usage.used.last_seen_ms)
    return last if count <= 1 else first + (last - first) * number // (count - 1)


def _run_id(session_id: str) -> str:
    return f"import:{session_id}"


def _run_of(usage: SessionUsage, at_ms: int) -> Run:
    run_id = _run_id(usage.used.session_id)
    return Run(
        run_id=run_id,
        session_id=usage.used.session_id,
        root_run_id=run_id,
        kind=IMPORTED,
        started_ms=at_ms,
        cron_job_id=cron_job_of(usage.root_session_id),
        sender_id=sender_of(usage.source, usage.user_id),
        profile=usage.profile,
        platform=usage.source,
        model=usage.used.model,
    )


def _plus(total: Imported, calls: Iterable[Call]) -> Imported:
    for call in calls:
        nanos = call.cost.nanos
        total = replace(
            total,
            calls=total.calls + 1,
            nanos=total.nanos + (nanos or 0),
            unpriced=total.unpriced + (nanos is None),
            first_ms=min(call.at_ms, total.first_ms or call.at_ms),
            last_ms=max(call.at_ms, total.last_ms or call.at_ms),
        )
    return total

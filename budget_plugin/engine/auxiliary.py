"""Auxiliary calls: titles, compression, vision and what else the host asks a model by itself.

They pass no gate and cannot be stopped, but they are billed; so they are written down, marked with
their task, and count against the limits of whoever caused them. Two ways lead here: the host's own
database, whose counts are compared with what is in the ledger, or the hook of a newer host.
"""

import logging
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from ..policy.events import Call, Run, Usage
from ..policy.prices.pricing import price_call
from ..policy.prices.usage import UsageReport, read_usage
from ..store import auxiliary as known
from ..store.host_state import AuxiliaryUsage, Counts, HostState
from ..store.sql.database import WriteRefused
from .recorder import Write

if TYPE_CHECKING:
    from .engine import Engine

log = logging.getLogger(__name__)

KIND: Final = "auxiliary"
"""The kind of a run that stands for calls without a run of their own."""

_HORIZON_MS: Final = 31 * 86_400_000
"""How far back a new process looks for what others have left behind."""

_SLACK_MS: Final = 600_000
"""The host stamps a row before it has the lock to write it, so that rows may come late."""

OpenRun = Callable[[str, int], Run]
"""Session id and time → a run for a session of which we have none."""


class Auxiliary:
    """Finds and records auxiliary calls of one home.

    Args:
        open_run: makes the run to charge when the session has none.
    """

    def __init__(self, engine: "Engine", host: HostState, open_run: OpenRun) -> None:
        self.engine = engine
        self._host = host
        self._open_run = open_run
        self._baseline = known.Baseline(engine.folder)
        self._lock = threading.Lock()
        self._is_asked = False
        self._done: dict[str, Counts] = {}
        """The host's rows, as they were when we had written all of them."""
        self._since_ms = 0

    # ------------------------------------------------------------------ from the host's database

    def look_soon(self) -> None:
        """Have the recorder's thread look for calls that are new; costs the caller nothing."""
        with self._lock:
            if self._is_asked:
                return
            self._is_asked = True
        self.engine.recorder.later(Write(self.look))

    def look(self, patience_s: float) -> int:
        """Write down what the host has noted since the last look, each call once.

        Returns:
            How many calls were new.

        Raises:
            LedgerError: the ledger does not answer; looking again later finds the rest.
        """
        self._is_asked = False  # whatever comes from now on needs another look
        if not self._begin():
            return 0
        rows = self._host.auxiliary_usage(self._since_ms - _SLACK_MS)
        new = [row for row in rows if self._done.get(row.key) != row.counts]
        if not new:
            return 0
        with known.alone(self.engine.folder) as mine:
            # Whoever else looks now writes the same; what is left then, the next look finds.
            if not mine:
                return 0
            count = sum(self._take(row, patience_s) for row in new)
        latest_ms = max(row.last_seen_ms for row in new)
        self._since_ms = max(self._since_ms, min(latest_ms, self.engine.clock.now_ms()))
        return count

    def _begin(self) -> bool:
        """Whether there is a ledger, and a baseline that was taken when it began."""
        with self.engine.ledger.reading() as connection:
            begun_ms = known.begun_ms(connection)
        if begun_ms is None:
            return False
        baseline, now_ms = self._baseline, self.engine.clock.now_ms()
        if not baseline.is_of(begun_ms):
            self._done.clear()
            baseline.load()
        if not baseline.is_of(begun_ms):  # a new ledger
            try:
                baseline.take(self._host.auxiliary_usage(0), max(now_ms, begun_ms))
            except OSError as error:
                log.debug("auxiliary calls are not counted: %s", error)
                return False
        if not self._since_ms:
            self._since_ms = now_ms - _HORIZON_MS
        return True

    def _take(self, row: AuxiliaryUsage, patience_s: float) -> int:
        engine = self.engine
        with engine.ledger.reading() as connection:
            written = known.recorded(connection, row.key)
            run_id = known.run_at(connection, row.session_id, row.last_seen_ms)
        before = self._baseline.of(row.key).plus(written)
        new = row.counts.less(before)
        added = []
        if any(new):
            run = self._run_of(row, run_id)
            added = list(self._calls(row, before.calls, new, run))
            for call in added:
                self._write(call, run, patience_s)
        self._done[row.key] = row.counts
        return len(added)

    def _write(self, call: Call, run: Run, patience_s: float) -> None:
        try:
            self.engine.record_unasked(call, run, patience_s)
        except WriteRefused:
            log.exception("the ledger refused an auxiliary call; it is dropped")
            return
        if run.kind == KIND:  # nothing else will happen in it
            self.engine.ledger.end_run(run.run_id, call.at_ms, "completed", patience_s)

    def _run_of(self, row: AuxiliaryUsage, run_id: str | None) -> Run:
        run = self.engine.ledger.run(run_id) if run_id else None
        return run or self.own_run(row.session_id, row.last_seen_ms)

    def own_run(self, session_id: str, at_ms: int) -> Run:
        """The run that stands for the auxiliary calls of a session without one."""
        run_id = f"aux:{session_id}"
        opened = self._open_run(session_id, at_ms)
        return replace(opened, run_id=run_id, root_run_id=run_id, kind=KIND)

    def _calls(self, row: AuxiliaryUsage, first: int, new: Counts, run: Run) -> Iterator[Call]:
        for number, part in enumerate(shares(new), start=first + 1):
            report = report_of(part)
            yield self._priced(
                run,
                attempt_id=f"{row.key}:{number}",
                at_ms=row.last_seen_ms or self.engine.clock.now_ms(),
                provider=row.provider,
                model=row.model,
                base_url=row.base_url,
                task=row.task,
                report=replace(report, provider_cost_nanos=part.actual_nanos or None),
            )

    # ------------------------------------------------------------------ from the host's hook

    def reported(
        self,
        run: Run,
        report: UsageReport,
        *,
        provider: str,
        model: str,
        response_model: str,
        base_url: str,
        task: str,
    ) -> None:
        """Record one call that the host reports by itself, off the caller's thread."""
        call = self._priced(
            run,
            attempt_id=f"aux:{uuid.uuid4().hex}",
            at_ms=self.engine.clock.now_ms(),
            provider=provider,
            model=model,
            response_model=response_model,
            base_url=base_url,
            task=task,
            report=report,
        )
        self.engine.recorder.later(Write(partial(self._write, call, run), call, run))

    def _priced(
        self,
        run: Run,
        *,
        attempt_id: str,
        at_ms: int,
        provider: str,
        model: str,
        base_url: str,
        task: str,
        report: UsageReport,
        response_model: str = "",
    ) -> Call:
        usage = report.usage or Usage()
        cost = price_call(
            self.engine.prices.table(),
            provider=provider,
            model=model,
            usage=usage,
            at_ms=at_ms,
            response_model=response_model,
            base_url=base_url,
            provider_cost_nanos=report.provider_cost_nanos,
            service_tier=report.service_tier,
            flags=report.flags,
        )
        return Call(
            attempt_id, run.run_id, at_ms, provider, model, response_model, usage, cost, task
        )


def report_of(part: Counts) -> UsageReport:
    """What one of the host's calls has used, read as any other report."""
    return read_usage(
        {
            "input_tokens": part.input_tokens,
            "output_tokens": part.output_tokens,
            "cache_read_tokens": part.cache_read_tokens,
            "cache_write_tokens": part.cache_write_tokens,
            "reasoning_tokens": part.reasoning_tokens,
        }
    )


def shares(new: Counts) -> Iterator[Counts]:
    """Several calls of which only the sums are known, as evenly as whole tokens allow."""
    calls = max(new.calls, 1)
    for n in range(calls):
        parts = [total // calls + (n < total % calls) for total in new[1:]]
        yield Counts(1, *parts)

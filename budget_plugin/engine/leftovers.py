"""What processes that died left behind: rows in files, and money set aside for calls in flight."""

import logging
import threading
from functools import partial
from typing import Final

from ..policy.events import Call, Cost, CostSource, Run, Usage
from ..policy.prices.pricing import ESTIMATED_USAGE, price_call
from ..store.files.prices import PriceBook
from ..store.ledger import Ledger
from ..store.reservations import Reservation, Reservations
from ..store.sql.database import LedgerError
from ..store.waiting import WaitingRows
from .clock import Clock
from .judge import Judge
from .recorder import PATIENCE_S

log = logging.getLogger(__name__)

_ABANDONED: Final = ("abandoned",)

PAUSE_S: Final = 60.0
"""Between two looks for the dead while calls are refused."""


class Leftovers:
    """Turns what the dead left into rows of the ledger."""

    def __init__(
        self,
        ledger: Ledger,
        reservations: Reservations,
        waiting_rows: WaitingRows,
        prices: PriceBook,
        judge: Judge,
        clock: Clock,
    ) -> None:
        self._ledger = ledger
        self._reservations = reservations
        self._waiting_rows = waiting_rows
        self._prices = prices
        self._judge = judge
        self._clock = clock
        self._lock = threading.Lock()
        self._next_look = 0.0

    def take_up(self, patience_s: float) -> int:
        """Write the rows that wait in files, then sweep; the start of a process does this.

        The files come first: a row that is known settles its reservation at its true cost.

        Returns:
            How many rows there were of both kinds.

        Raises:
            LedgerError: the ledger does not answer; doing it again is right.
        """
        return self._waiting_rows.take_up(partial(self._add, patience_s=patience_s)) + self.sweep()

    def sweep(self) -> int:
        """Turn the reservations of dead processes into flagged rows: they may have been billed.

        Returns:
            How many there were.

        Raises:
            LedgerError: the ledger does not answer.
        """
        found = self._reservations.abandoned(self._clock.now_ms())
        for reservation in found:
            self._charge(reservation)
        return len(found)

    def sweep_now_and_then(self) -> int:
        """Sweep, unless that was done within `PAUSE_S` or the ledger does not answer."""
        now = self._clock.monotonic()
        with self._lock:
            if now < self._next_look:
                return 0
            self._next_look = now + PAUSE_S
        try:
            return self.sweep()
        except LedgerError as error:
            log.debug("no look for the reservations of dead processes: %s", error)
            return 0

    def _charge(self, reservation: Reservation) -> None:
        run = self._ledger.run(reservation.run_id)
        if run is None:
            self._reservations.release(reservation.attempt_id, PATIENCE_S)
            return
        usage = Usage(input_tokens=reservation.tokens)
        call = Call(
            attempt_id=reservation.attempt_id,
            run_id=run.run_id,
            at_ms=reservation.since_ms,
            provider=reservation.provider,
            model=reservation.model,
            response_model="",
            usage=usage,
            cost=self._cost(reservation, usage),
        )
        self._add(call, run, patience_s=PATIENCE_S)

    def _cost(self, reservation: Reservation, usage: Usage) -> Cost:
        """What was set aside; nothing set aside is free, included or unpriced, as it would be."""
        if not reservation.nanos:
            return price_call(
                self._prices.table(),
                provider=reservation.provider,
                model=reservation.model,
                usage=usage,
                at_ms=reservation.since_ms,
                flags=(ESTIMATED_USAGE, *_ABANDONED),
            )
        return Cost(reservation.nanos, CostSource.PRICING, estimated=True, flags=_ABANDONED)

    def _add(self, call: Call, run: Run, *, patience_s: float) -> None:
        self._judge.take(self._ledger.add_call(call, run, patience_s))

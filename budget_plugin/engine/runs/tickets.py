"""Tickets: runs that share one budget, within a process and across processes.

In a process the runs of a ticket draw on one budget in memory, so that a tool call asks no ledger.
Across processes the ledger holds the sum. A dispatch and a model call are decided while the account
is locked there; tool calls are told to the others off the hot path, right after they have ended.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

from cachetools import LRUCache

from ...policy.admission import NOTHING_HELD
from ...policy.runs.lifecycle import begin
from ...policy.runs.run_budget import RunBudget
from ...policy.runs.run_limits import RunLimits, RunRules
from ...policy.runs.run_state import elapsed_s
from ...policy.runs.ticket_account import Account, account_of, adopted, bounded, plus
from ...store.sql.database import LedgerError
from ...store.tickets import OpenAccount, TicketAccounts
from ..clock import Clock
from ..recorder import Recorder, Write
from .guarded_runs import GuardedRun

log = logging.getLogger(__name__)

KEPT: Final = 1_024
PATIENCE_S: Final = 0.5
"""How long a dispatch or a call to the model may wait for its ticket's account."""

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Ticket:
    """A ticket, as this process sees it.

    Attributes:
        shared: the budget on which its runs draw.
        open_runs: ceilings of its runs that are open here; the strictest hold for all.
        others: what other processes used, as far as is known.
        told: what the ledger has of ours.
        paused_s: seconds on its clock while no run of it is open here.
        refreshing: somebody is about to look at the ledger.
    """

    ticket_id: str
    shared: GuardedRun
    open_runs: dict[str, RunLimits] = field(default_factory=dict)
    others: Account = field(default_factory=dict)
    told: Account = field(default_factory=dict)
    paused_s: float = 0.0
    refreshing: bool = False

    def exchange(self, account: OpenAccount, now_s: float) -> None:
        """Tell the ledger what is ours, calls under way included; learn what the others used."""
        used = account_of(self.shared.budget.state, now_s if self.open_runs else self._at_s)
        held = sum(self.shared.in_flight.values(), NOTHING_HELD)
        under_way = {("tokens", ""): held.tokens, ("cost_nanos", ""): held.nanos}
        ours = plus(plus(used, self.others, -1), under_way)
        account.add(plus(ours, self.told, -1))
        self.told = ours
        others = plus(account.total(), ours, -1)
        difference = plus(others, self.others, -1)
        self.others = others
        self.paused_s += difference.get(("elapsed_ms", ""), 0) / 1000
        self.shared.budget.swap(lambda state: adopted(state, difference, now_s))

    @property
    def _at_s(self) -> float:
        """The moment at which its clock stands while no run is open."""
        return self.shared.budget.state.started_s + self.paused_s


class Tickets:
    """The tickets of this process."""

    def __init__(self, accounts: TicketAccounts, recorder: Recorder, clock: Clock) -> None:
        self._accounts = accounts
        self._recorder = recorder
        self._clock = clock
        self._lock = threading.Lock()
        self._known: LRUCache[str, Ticket] = LRUCache(KEPT)

    def join(self, ticket_id: str, run_id: str, limits: RunLimits, rules: RunRules) -> Ticket:
        """A run of a ticket begins: it draws on what the ticket's other runs have left."""
        ticket = self._ticket(ticket_id, limits, rules)
        with ticket.shared.lock:
            self._bound(ticket, {**ticket.open_runs, run_id: limits})
        self.together(ticket, lambda: None)
        return ticket

    def leave(self, ticket: Ticket, run_id: str) -> None:
        """A run of a ticket has ended."""
        with ticket.shared.lock:
            self._bound(ticket, {r: at for r, at in ticket.open_runs.items() if r != run_id})
        self.refresh(ticket)

    def together(self, ticket: Ticket, decide: Callable[[], T]) -> T:
        """Decide while nobody else can: what the others used is known, and they learn the answer.

        While the ledger does not answer it is decided by what is known here.
        """
        if self._recorder.failing_since_ms is not None:
            return decide()
        with ticket.shared.lock:
            told, answers = ticket.told, list[T]()
            try:
                with self._accounts.opened(
                    ticket.ticket_id, self._clock.now_ms(), PATIENCE_S
                ) as account:
                    ticket.exchange(account, self._clock.monotonic())
                    answers.append(decide())
                    ticket.exchange(account, self._clock.monotonic())
            except LedgerError as error:
                log.debug("the ticket was not looked up: %s", error)
                ticket.told = told
                self.refresh(ticket)
            return answers[0] if answers else decide()

    def refresh(self, ticket: Ticket) -> None:
        """Tell and learn soon, on the recorder's thread; many at once are one."""
        if ticket.refreshing:
            return
        ticket.refreshing = True
        self._recorder.later(Write(partial(self._refresh, ticket)))

    def _refresh(self, ticket: Ticket, patience_s: float) -> None:
        ticket.refreshing = False
        with ticket.shared.lock:
            told = ticket.told
            try:
                with self._accounts.opened(
                    ticket.ticket_id, self._clock.now_ms(), patience_s
                ) as account:
                    ticket.exchange(account, self._clock.monotonic())
            except LedgerError:
                ticket.told = told
                raise

    def _ticket(self, ticket_id: str, limits: RunLimits, rules: RunRules) -> Ticket:
        with self._lock:
            ticket = self._known.get(ticket_id)
            if ticket is None:
                budget = RunBudget.create(
                    limits, self._clock.monotonic(), rules=rules, run_id=f"ticket:{ticket_id}"
                )
                shared = GuardedRun(budget, rules, begin(rules.on_exhausted), limited=True)
                ticket = self._known[ticket_id] = Ticket(ticket_id, shared)
                shared.ticket = ticket
            return ticket

    def _bound(self, ticket: Ticket, open_runs: dict[str, RunLimits]) -> None:
        """The strictest ceilings of the open runs hold; without any the clock stands still."""
        now_s, budget = self._clock.monotonic(), ticket.shared.budget
        anew = not ticket.open_runs
        at_s = ticket.paused_s if anew else elapsed_s(budget.state, now_s)
        ticket.open_runs = open_runs
        ticket.paused_s = at_s
        if not open_runs:
            return
        first, *rest = open_runs.values()
        limits = first.stricter(*rest)
        budget.swap(lambda state: bounded(state, limits, at_s, now_s, anew=anew))

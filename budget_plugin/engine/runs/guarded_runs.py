"""A run under its own budget, as this process sees it."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from ...policy.admission import Held
from ...policy.runs.checkpoints import Checkpoints
from ...policy.runs.effects import Effects
from ...policy.runs.lifecycle import Life
from ...policy.runs.refusals import Refusal
from ...policy.runs.run_budget import RunBudget
from ...policy.runs.run_limits import RunRules
from ...policy.runs.statements import Declared

if TYPE_CHECKING:
    from .tickets import Ticket


@dataclass(slots=True, eq=False)
class GuardedRun:
    """One run: its budget, where it is in its life, and what is on its way to the model.

    Attributes:
        limited: some ceiling holds for it; without one it is only counted, for its receipt.
        outer: what it draws on: its parent, the run that it goes on for, or its ticket.
        goes_on: the host opened it by itself, for the outer run: they have their last answers in
            common.
        ticket: the ticket at the far end of what it draws on.
        linked_run_id: the ended run whose account it carries on, since a person granted more.
        effects: what it is to undo when it runs out; `None` unless that is asked of it.
        is_nobodys: it stands for what happens outside of any turn, and has no ending of its own.
        lock: the tree's; held while it is decided what still fits.
        in_flight: expected use of calls under way, by attempt; those of its children too.
        ends: what the last answers of the open runs under this budget will need, by run.
        tools: tool calls of a run without ceilings.
        failed: operations that failed last time, by tool and target.
        stop: why the run has to finish.
        observed: the budget under ceilings that are only observed; it refuses nothing.
        goes_on_unasked: it has ended and may go on all the same: the host says "end" after each
            turn, and only what was stopped stays stopped.
        told_low: it has been told that its budget runs low.
        told_late: it has been told that its deadline comes before its next step would end.
        called_s: when its last call to the model began, on the monotonic clock.
        judged: somebody who only judges has been asked about its work.
        points: the checkpoints that it has passed.
        declared: how it ends by its own account.
        window_tokens: size of the model's window, where the host says it.
    """

    budget: RunBudget
    rules: RunRules
    life: Life
    limited: bool
    outer: "GuardedRun | None" = None
    goes_on: bool = False
    ticket: "Ticket | None" = None
    is_nobodys: bool = False
    linked_run_id: str = ""
    effects: Effects | None = None
    lock: threading.RLock = field(default_factory=threading.RLock)
    in_flight: dict[str, Held] = field(default_factory=dict)
    ends: dict[str, Held] = field(default_factory=dict)
    tools: "count[int]" = field(default_factory=count)
    failed: set[str] = field(default_factory=set)
    last_answers_used: int = 0
    refused_first: bool = False
    stop: Refusal | None = None
    window_tokens: int | None = None
    told_low: bool = False
    told_late: bool = False
    called_s: float | None = None
    goes_on_unasked: bool = False
    observed: RunBudget | None = None
    judged: bool = False
    points: Checkpoints = field(default_factory=Checkpoints)
    declared: Declared = field(default_factory=Declared)

    @property
    def owner(self) -> "GuardedRun":
        """The run whose turns these are: the host may have opened this one for an earlier one."""
        return self.outer if self.goes_on and self.outer is not None else self

    @property
    def root(self) -> "GuardedRun":
        """The run at the top of its tree; a ticket is no run."""
        run, shared = self, self.ticket.shared if self.ticket is not None else None
        while run.outer is not None and run.outer is not shared:
            run = run.outer
        return run

    @property
    def chain(self) -> "Iterator[GuardedRun]":
        """This run and those that it draws on, outwards; in the order of `RunBudget.states`."""
        run: GuardedRun | None = self
        while run is not None:
            yield run
            run = run.outer

"""RunBudget: the budget of one run, for anyone who drives agents, with or without Hermes.

    budget = RunBudget.create(RunLimits(dispatches=14, wall_clock_s=180), started_s=now())
    if budget.charge(now(), hops=1, tokens=1200, cost_nanos=parse_usd("0.02")):
        receipt = budget.resolve(now(), delivered=[…], gaps=[…], next_owner="billing")

There is one authoritative copy, and it is this object. What a model reads is `render`, and nothing
that a model writes flows back, apart from `report`, which can only add. Budgets nest: a child draws
on its parent, and the runs of a ticket draw on the ticket, so that splitting work resets nothing.

Safe to share between threads. `now_s` is always monotonic seconds, so that a slow stream or a
changed clock moves no deadline.
"""

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Final

from .endings import Outcome, TerminalState, ending_of
from .receipts import LoopSeen, Receipt, receipt_of
from .refusals import Refusal
from .run_limits import Cause, Meter, RunLimits, RunRules
from .run_rendering import rendered
from .run_state import (
    Reading,
    RunState,
    is_too_late,
    most_used,
    near_misses,
    remaining,
    tightest,
)
from .run_steps import (
    Answer,
    Charge,
    ask_call,
    ask_delegation,
    ask_dispatch,
    ask_step,
    ask_tool_call,
    begun,
    charged,
    observed,
    reported,
    spent,
)

_Ask = Callable[[RunState], Answer]

_ENDED: Final = Refusal(Cause.ENDED)


class RunBudget:
    """The budget of one run. Make one with `create`."""

    def __init__(self, state: RunState, run_id: str = "", outer: "RunBudget | None" = None) -> None:
        self.run_id = run_id
        self._state = state
        self._receipt: Receipt | None = None
        self._chain: tuple[RunBudget, ...] = (self, *(outer._chain if outer else ()))
        # One lock for a whole tree: what is granted must fit under every budget at once.
        self._lock: Lock = outer._lock if outer else Lock()

    @classmethod
    def create(
        cls,
        limits: RunLimits,
        started_s: float,
        *,
        rules: RunRules | None = None,
        run_id: str = "",
        outer: "RunBudget | None" = None,
    ) -> "RunBudget":
        """A run that starts now, under an outer budget if there is one: its parent's, its ticket's.

        What is charged here is charged there too, and the stricter of all bounds holds.
        """
        if rules is None:
            rules = outer.state.rules if outer else RunRules()
        return cls(begun(limits, started_s, rules), run_id, outer)

    def child(self, limits: RunLimits, started_s: float, run_id: str = "") -> "RunBudget":
        """The budget of a run that this one starts; ask `try_dispatch` first."""
        return RunBudget.create(limits, started_s, run_id=run_id, outer=self)

    # --- what happened --------------------------------------------------------------------------

    def charge(
        self,
        now_s: float,
        *,
        hops: int = 0,
        tool_calls: int = 0,
        calls: int = 0,
        tokens: int = 0,
        cost_nanos: int | None = 0,
        context_pct: float = 0.0,
    ) -> Cause | None:
        """Count what happened, then say what is spent: dispatches, tokens, dollars, deadline, then
        tool calls and context. A charge that reaches a ceiling spends it.

        Args:
            hops: transfers of control.
            cost_nanos: `None` when the price is not known; the receipt then says "at least".
            context_pct: how much of its window the last prompt filled, 0 to 1.

        Raises:
            ValueError: for a negative number.
        """
        own = Charge(hops, tool_calls, calls, tokens, cost_nanos, context_pct)
        # A conversation fills its own window, nobody else's.
        passed_on = Charge(hops, tool_calls, calls, tokens, cost_nanos)
        with self._lock:
            if self._receipt is None:
                self._state = charged(self._state, own, now_s)
            for outer in self._chain[1:]:
                outer._state = charged(outer._state, passed_on, now_s)
            return self._spent(now_s)

    def report(
        self,
        now_s: float,
        *,
        critique_retries: int = 0,
        rejudges: int = 0,
        retriages: int = 0,
        head: str = "",
    ) -> Cause | None:
        """Take over counts that a model states of itself. A smaller one than before is ignored."""
        with self._lock:
            if self._receipt is None:
                self._report(Cause.CRITIQUES, critique_retries, now_s, head)
                self._report(Cause.REJUDGES, rejudges, now_s)
                self._report(Cause.RETRIAGES, retriages, now_s)
            return self._spent(now_s)

    def _report(self, step: Cause, count: int, now_s: float, name: str = "") -> None:
        added = count - self._state.counts.get((step, name), 0)
        if added <= 0:
            return
        for budget in self._chain:
            total = budget._state.counts.get((step, name), 0) + added
            budget._state = reported(budget._state, step, total, now_s, name)

    # --- what may happen ------------------------------------------------------------------------

    def try_dispatch(self, count: int, now_s: float) -> Refusal | None:
        """Start `count` children: all of them (`None`), or none, why, and how many would fit."""
        return self._try(lambda state: ask_dispatch(state, count, now_s))

    def try_tool_call(self, now_s: float, retry_of: str = "") -> Refusal | None:
        """Start one tool call. `retry_of` names the operation that it repeats, if it does."""
        if not retry_of and self._one_tool_call(now_s):
            return None  # nearly always, and at every tool
        return self._try(
            lambda state: ask_tool_call(state, now_s, retry_of),
            lambda state: ask_tool_call(state, now_s),  # the operation is this run's own
        )

    def _one_tool_call(self, now_s: float) -> bool:
        """Take it from a run that is alone or has one budget above it, in few steps."""
        with self._lock:
            if self._receipt is not None or len(self._chain) > 2:
                return False
            state, refused = ask_tool_call(self._state, now_s)
            if refused is not None:
                return False
            if len(self._chain) == 2:
                outer = self._chain[1]
                outer_state, refused = ask_tool_call(outer._state, now_s)
                if refused is not None or outer._was_stopped:
                    return False
                outer._state = outer_state
            self._state = state
            return True

    def try_delegation(self, count: int, now_s: float) -> Refusal | None:
        """Start the tool call that starts `count` children: it is a tool call, too."""
        return self._try(lambda state: ask_delegation(state, count, now_s))

    def try_call(self, now_s: float, tokens: int = 0, cost_nanos: int = 0) -> Refusal | None:
        """Start a call to the model that is expected to use so much; charge it afterwards.

        Calls in flight are not known here: who makes several at once adds up their expectations.
        """
        return self._try(lambda state: ask_call(state, now_s, tokens, cost_nanos))

    def try_critique(self, now_s: float, head: str = "") -> Refusal | None:
        """Send a head's draft back once more. Refused, the draft goes on as it is."""
        return self._try(lambda state: ask_step(state, Cause.CRITIQUES, now_s, head))

    def try_rejudge(self, now_s: float) -> Refusal | None:
        """Let the judge look again. Refused, the run escalates for low confidence."""
        return self._try(lambda state: ask_step(state, Cause.REJUDGES, now_s))

    def try_retriage(self, now_s: float) -> Refusal | None:
        """Sort the run anew. Refused, the run escalates."""
        return self._try(lambda state: ask_step(state, Cause.RETRIAGES, now_s))

    def _try(self, ask: _Ask, ask_outer: _Ask | None = None) -> Refusal | None:
        """Ask every budget of the chain, and take from all of them or from none."""
        with self._lock:
            if self.over:
                return _ENDED
            asks = (ask, *(ask_outer or ask,) * (len(self._chain) - 1))
            answers = [
                (budget, *ask_it(budget._state))
                for budget, ask_it in zip(self._chain, asks, strict=True)
            ]
            refused = [refusal for _, _, refusal in answers if refusal is not None]
            for budget, state, refusal in answers:
                if refusal is not None or not refused:
                    budget._state = state
            return min(refused, key=lambda refusal: refusal.fits, default=None)

    # --- how it stands --------------------------------------------------------------------------

    @property
    def state(self) -> RunState:
        """The account now, a value that does not change any more."""
        return self._state

    @property
    def states(self) -> tuple[RunState, ...]:
        """The accounts along the chain: this run's, its parent's, … its ticket's."""
        return tuple(budget._state for budget in self._chain)

    @property
    def receipt(self) -> Receipt | None:
        """How the run ended; `None` while it has not."""
        return self._receipt

    @property
    def over(self) -> bool:
        """Whether nothing of it starts any more: it or one that it draws on has been stopped."""
        return self._receipt is not None or any(b._was_stopped for b in self._chain[1:])

    def exhausted(self, now_s: float) -> Cause | None:
        """What is spent, here or further out; `None` while the run may go on."""
        with self._lock:
            return self._spent(now_s)

    def soft(self, now_s: float) -> bool:
        """Whether the run converges: some meter is past 70 %, here or further out. One way."""
        with self._lock:
            self._observe(now_s)
            return any(budget._state.converging for budget in self._chain)

    def exhaust(self, now_s: float, cause: Cause) -> None:
        """A gate knows that this is spent: the next call does not fit, a daily limit is reached."""
        with self._lock:
            if self._receipt is None:
                self._state = spent(self._state, cause, now_s)

    def remaining(self, now_s: float) -> RunLimits:
        """What is left, the strictest along the chain. Give it to a child as its own limits."""
        return RunLimits(retries_per_operation=None).stricter(
            *(remaining(budget._state, now_s) for budget in self._chain)
        )

    def seconds_left(self, now_s: float) -> float | None:
        """Until the nearest deadline of the chain; `None` without one."""
        return self.remaining(now_s).wall_clock_s

    def too_late(self, now_s: float) -> bool:
        """Whether a deadline of the chain is past, and with it the time to begin a last answer."""
        return any(is_too_late(budget._state, now_s) for budget in self._chain)

    def most_used(self, now_s: float) -> Reading:
        """The meter that is used most, by share; checkpoints follow it."""
        return max((most_used(b._state, now_s) for b in self._chain), key=lambda r: r.share)

    def near_misses(self, now_s: float) -> tuple[Meter, ...]:
        """The meters of which 95 % or more is used."""
        return near_misses(self._state, now_s)

    def swap(self, change: Callable[[RunState], RunState]) -> RunState:
        """Put another account in place of this one, in one step: what was read elsewhere is new."""
        with self._lock:
            self._state = change(self._state)
            return self._state

    @property
    def _was_stopped(self) -> bool:
        return self._receipt is not None and self._receipt.ending.is_breach

    def _spent(self, now_s: float) -> Cause | None:
        self._observe(now_s)
        causes = (budget._state.cause for budget in self._chain)
        ended = None if self._receipt is None else Cause.ENDED
        return next((cause for cause in causes if cause is not None), ended)

    def _observe(self, now_s: float) -> None:
        if self._receipt is None:
            self._state = observed(self._state, now_s)
        for outer in self._chain[1:]:
            outer._state = observed(outer._state, now_s)

    # --- what a model reads ---------------------------------------------------------------------

    def render(
        self,
        now_s: float,
        *,
        stop_when: Sequence[str] = (),
        usual: Mapping[Meter, str] | None = None,
    ) -> str:
        """What is left and when to stop, as text for a model. Reading it back is not possible.

        Args:
            stop_when: the task's own conditions: "the refund is issued".
            usual: what runs like this one need, e.g. `{Meter.DISPATCHES: "3 to 4"}`; a ceiling is
                not a target.
        """
        cause, soft = self.exhausted(now_s), self.soft(now_s)
        rows = tightest((budget._state for budget in self._chain), now_s)
        return rendered(rows, cause, soft=soft, stop_when=stop_when, usual=usual or {})

    # --- the end --------------------------------------------------------------------------------

    def resolve(
        self,
        now_s: float,
        *,
        outcome: Outcome = Outcome.ANSWERED,
        state: TerminalState | None = None,
        delivered: Sequence[str] = (),
        gaps: Sequence[str] = (),
        next_owner: str = "",
        loops: Sequence[LoopSeen] = (),
    ) -> Receipt:
        """End the run, and give its receipt. The first ending stays: later ones change nothing.

        Args:
            state: the ending that the run names itself. A run that is exhausted is never resolved.
            gaps: what is missing; with any the run is partial.
            next_owner: who takes over what is missing.
            loops: circles in which it went.
        """
        with self._lock:
            if self._receipt is None:
                ending = ending_of(outcome, self._spent(now_s), state, gaps=bool(gaps))
                self._receipt = receipt_of(
                    self.run_id,
                    self._state,
                    ending,
                    now_s,
                    delivered=delivered,
                    gaps=gaps,
                    next_owner=next_owner,
                    loops=loops,
                )
            return self._receipt

"""The spend limits of a candidate along a stream of calls: a window each, one after another."""

from collections.abc import Callable, Iterable
from zoneinfo import ZoneInfo

from ..charges import ScopeId
from ..limits import Budget, Limit, Measure
from ..verdicts import NOTHING_SPENT, Spend, Verdict, evaluate, hard_mark
from ..windows import Period, Window, period


class LimitWindow:
    """One limit in the window that is now, with what was spent in it.

    Attributes:
        verdict: hard once the limit is reached; `None` before.
    """

    __slots__ = ("_budget", "_end_ms", "_mark", "_period_at", "is_usd", "limit", "spend", "verdict")

    def __init__(
        self, limit: Limit, budget: Budget, period_at: Callable[[Window, int], Period]
    ) -> None:
        self.limit = limit
        self.is_usd = limit.measure is Measure.USD
        self._budget = budget
        self._period_at = period_at
        self._mark = hard_mark(limit, budget.thresholds)
        self._end_ms = -1
        self.spend = NOTHING_SPENT
        self.verdict: Verdict | None = None

    def turn_to(self, at_ms: int) -> None:
        """Begin the window that contains this moment, if the last one is over."""
        if at_ms >= self._end_ms:
            self._end_ms = self._period_at(self.limit.window, at_ms).end_ms
            self.spend, self.verdict = NOTHING_SPENT, None
            self._judge(at_ms)

    def add(self, spend: Spend, at_ms: int) -> None:
        """Count a call, then judge."""
        self.spend += spend
        self._judge(at_ms)

    def _judge(self, at_ms: int) -> None:
        # Below its mark a limit cannot be hard, whatever part is estimated; past it the one
        # function that judges has the word.
        measure, spend = self.limit.measure, self.spend
        if measure is Measure.USD:
            total = spend.certain_nanos + spend.estimated_nanos
        else:
            total = spend.tokens if measure is Measure.TOKENS else spend.calls
        if total >= self._mark:
            budget, now = self._budget, self._period_at(self.limit.window, at_ms)
            verdict = evaluate(self.limit, spend, now, budget.thresholds, budget.on_estimated)
            self.verdict = verdict if verdict.blocks else None


class SpendLimits:
    """All windows of a candidate, by scope and id; made when somebody first spends there."""

    def __init__(self, budget: Budget, zone: ZoneInfo) -> None:
        self._budget = budget
        self._zone = zone
        self._of_scope: dict[ScopeId, tuple[LimitWindow, ...]] = {}
        self._periods: dict[Window, Period] = {}

    def covering(self, scopes: Iterable[ScopeId]) -> tuple[LimitWindow, ...]:
        """The limits over these scopes."""
        return tuple(window for scope in scopes for window in self._of(scope))

    def _of(self, scope: ScopeId) -> tuple[LimitWindow, ...]:
        found = self._of_scope.get(scope)
        if found is None:
            found = self._of_scope[scope] = tuple(
                LimitWindow(limit, self._budget, self._period_at)
                for limit in self._budget.limits_for(*scope)
            )
        return found

    def _period_at(self, window: Window, at_ms: int) -> Period:
        known = self._periods.get(window)
        if known is not None and known.contains(at_ms):
            return known
        found = self._periods[window] = period(window, at_ms, self._zone, self._budget.week_start)
        return found

"""What is said about a run's own budget: to the model that spends it, and to the person."""

from ..policy.money import format_usd
from ..policy.runs.receipts import BudgetUse, Receipt
from ..policy.runs.refusals import Refusal
from ..policy.runs.run_limits import METERS, Meter, Number

_FINISH = (
    "Write the final answer now: what is established, what is not, what comes next, and that this "
    "budget ran out."
)


def run_budget_note(rendered: str) -> str:
    """A run's budget as a note to its model: once in its middle, or at the start of a child."""
    return f"[budget] {rendered}"


def run_tool_refused(refused: Refusal) -> str:
    """The tool gate's answer; where only this one request is refused, the run goes on."""
    if not refused.cause.ends_run or refused.fits or refused.limit == 0:
        return f"Budget of this run: {refused}"
    return f"Budget of this run: {refused} No tool will work in this run any more. {_FINISH}"


def run_last_answer(stop: Refusal) -> str:
    """Told with the last call that a run may make once its budget is spent."""
    return f"[budget] {stop} This is the last answer of this run. Call no tools. {_FINISH}"


def run_call_refused(stop: Refusal) -> str:
    """The final answer of a run whose next model call was refused by its own budget."""
    return (
        f"Stopped by the budget of this run before the next model call. {stop} The work is not "
        "complete: what was not said above is missing."
    )


def run_call_refused_to_model(stop: Refusal) -> str:
    """A child's answer in that case; its reader is the parent's model."""
    return (
        f"This subtask was stopped by its budget before it was finished. {stop} Treat its result "
        "as missing; do not start it again."
    )


def account(receipt: Receipt) -> str:
    """One line under the final answer: how the run ended and what it used of its ceilings."""
    limited = [use_of(m, use) for m, use in receipt.budgets.items() if use.limit is not None]
    missing = " Not all of it is done." if receipt.is_partial else ""
    return f"Run: {how_it_ended(receipt)}; {', '.join(limited) or totals(receipt)}.{missing}"


def how_it_ended(receipt: Receipt) -> str:
    """`partial, tool-call budget`."""
    ending = receipt.ending
    trigger = f" ({ending.trigger})" if ending.trigger else ""
    return f"{ending.status}, {ending.cause}{trigger}"


def totals(receipt: Receipt) -> str:
    """What any run has: calls, tools, dollars."""
    least = "at least " if receipt.unpriced_calls else ""
    tools = receipt.used(Meter.TOOL_CALLS)
    return (
        f"{many(receipt.calls, 'call')}, {many(int(tools), 'tool')}, "
        f"{least}{format_usd(int(receipt.used(Meter.USD)))}"
    )


def many(count: int, noun: str) -> str:
    """`1 call`, `1,200 calls`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def use_of(meter: Meter, use: BudgetUse) -> str:
    """One meter: `tool calls: 38 of 40 (95 %)`."""
    used = _amount(meter, use.used)
    if use.limit is None:
        return f"{METERS[meter].noun}: {used}"
    share = "" if use.peak_pct is None else f" ({int(use.peak_pct)} %)"
    return f"{METERS[meter].noun}: {used} of {_amount(meter, use.limit)}{share}"


def _amount(meter: Meter, number: Number) -> str:
    if meter is Meter.USD:
        return format_usd(int(number))
    if meter is Meter.WALL_CLOCK_S:
        return f"{int(number):,} s"
    return f"{int(100 * number)} %" if meter is Meter.CONTEXT_PCT else f"{int(number):,}"

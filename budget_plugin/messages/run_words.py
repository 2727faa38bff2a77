"""What is said about a run's own budget: to the model that spends it, and to the person."""

from collections.abc import Iterable, Sequence
from typing import Final

from ..policy.money import format_usd
from ..policy.runs.effects import SeenEffect
from ..policy.runs.receipts import BudgetUse, Receipt
from ..policy.runs.refusals import Refusal
from ..policy.runs.run_limits import METERS, Cause, Meter, Number
from .layout import many

_FINISH = (
    "Write the final answer now: what is established, what is not, what comes next, and that this "
    "budget ran out."
)

_FINISH_CIRCLE = (
    "Write the final answer now: what is established, what is not, and what a person should see."
)

_UNDO_SHOWN: Final = 20
"""Effects that a run is told; it has five calls to undo them."""


def run_budget_note(rendered: str) -> str:
    """A run's budget as a note to its model: once in its middle, or at the start of a child."""
    return f"[budget] {rendered}"


def tool_without_run() -> str:
    """A tool of the budget that was called outside of any run."""
    return "There is no budget here. Go on without it."


def no_such_state(known: Iterable[str]) -> str:
    """An ending that is none."""
    return f"state must be one of {', '.join(known)}. Nothing was noted."


def ending_noted() -> str:
    """The answer to a run that says how it ends."""
    return "Noted. Write the final answer now; the run ends with it."


def run_tool_refused(refused: Refusal, *, to_undo: bool = False) -> str:
    """The tool gate's answer; where only this one request is refused, the run goes on.

    Args:
        to_undo: the run is told with its next call to the model what it has to undo.
    """
    if to_undo and refused.cause.ends_run:
        return (
            f"Budget of this run: {refused} What this run has done is to be undone now: with the "
            "next message you are told what, and how many tool calls there are for it."
        )
    if not refused.cause.ends_run or refused.fits or refused.limit == 0:
        return f"Budget of this run: {refused}"
    if refused.cause.is_circle:
        return f"{refused} No tool will work in this run any more. {_FINISH_CIRCLE}"
    return f"Budget of this run: {refused} No tool will work in this run any more. {_FINISH}"


def run_last_answer(stop: Refusal, *, asks: bool = False) -> str:
    """Told with the last call that a run may make once its budget is spent.

    Args:
        asks: a person is asked for more.
    """
    asked = " A person is asked whether to grant more; a later run would go on." if asks else ""
    finish = _FINISH_CIRCLE if stop.cause.is_circle else _FINISH
    return f"[budget] {stop} This is the last answer of this run. Call no tools. {finish}{asked}"


def run_undo(stop: Refusal, effects: Sequence[SeenEffect], count: int, calls_left: int) -> str:
    """Told before the last answer of a run that is aborted: what it did, newest first.

    Args:
        count: how many effects there were; of very many only the latest are named.
        calls_left: tool calls for undoing them.
    """
    shown = effects[:_UNDO_SHOWN]
    lines = [
        f"{effect.number}. {effect.tool}, target {effect.target}"
        + (" (it reported a failure)" if effect.failed else "")
        for effect in shown
    ]
    more = f"\n({count - len(shown)} earlier ones are not listed.)" if count > len(shown) else ""
    listed = "\n".join(lines)
    return (
        f"[budget] {stop} This run is aborted. Undo what it did, newest first, as far as that is "
        f"safe; {many(calls_left, 'tool call')} are left for it, and nothing new may be started. "
        "Your calls that may have changed something, numbered in their order:\n"
        f"{listed}{more}\nThen write the final answer: what was undone, what was not and stands."
    )


def _fact(stop: Refusal) -> str:
    return f"{stop}" if stop.cause in (Cause.ENDED, Cause.LOOPED, Cause.STUCK) else stop.fact


def run_call_refused(stop: Refusal) -> str:
    """The final answer of a run whose next model call was refused by its own budget."""
    return (
        f"Stopped by the budget of this run before the next model call. {_fact(stop)} The work is "
        "not complete: what was not said above is missing."
    )


def run_call_refused_to_model(stop: Refusal) -> str:
    """A child's answer in that case; its reader is the parent's model."""
    return (
        f"This subtask was stopped by its budget before it was finished. {stop} Treat its result "
        "as missing; do not start it again."
    )


def account(receipt: Receipt, spent_ticket: str = "") -> str:
    """One line under the final answer: how the run ended and what it used of its ceilings.

    Args:
        spent_ticket: the ticket whose budget ended it; its other runs used the rest.
    """
    limited = [use_of(m, use) for m, use in receipt.budgets.items() if use.limit is not None]
    missing = " Not all of it is done." if receipt.is_partial else ""
    shared = f" of ticket {spent_ticket}, with its other runs" if spent_ticket else ""
    used = ", ".join(limited) or totals(receipt)
    return f"Run: {how_it_ended(receipt)}{shared}; {used}.{missing}"


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


def use_of(meter: Meter, use: BudgetUse) -> str:
    """One meter: `tool calls: 38 of 40 (95 %)`."""
    used = meter_amount(meter, use.used)
    if use.limit is None:
        return f"{METERS[meter].noun}: {used}"
    share = "" if use.peak_pct is None else f" ({int(use.peak_pct)} %)"
    return f"{METERS[meter].noun}: {used} of {meter_amount(meter, use.limit)}{share}"


def meter_amount(meter: Meter, number: Number) -> str:
    """An amount of one meter, in its unit: `$4.00`, `900 s`, `70 %`, `1,200`."""
    if meter is Meter.USD:
        return format_usd(int(number))
    if meter is Meter.WALL_CLOCK_S:
        return f"{int(number):,} s"
    return f"{int(100 * number)} %" if meter is Meter.CONTEXT_PCT else f"{int(number):,}"

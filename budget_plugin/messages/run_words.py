"""What is said about a run's own budget: to the model that spends it, and to the person."""

from ..policy.refusals import Refusal

_FINISH = (
    "Write the final answer now: what is established, what is not, what comes next, and that this "
    "budget ran out."
)


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

"""From what a driver of agents knows about a call to the event that the detectors look at."""

from typing import Final

from ..digests import (
    action_of,
    args_digest,
    error_digest,
    exit_code,
    result_digest,
    target_digest,
    waits,
)
from .events import Status, ToolEvent

_STATUSES: Final = {str(status): status for status in Status}


def read_tool_event(
    seq: int,
    tool: str,
    args: object,
    result: object,
    *,
    status: str = "ok",
    error: str | None = None,
    at_s: float = 0.0,
    step: str = "",
) -> ToolEvent:
    """Read one call that has ended.

    A command that exits with another code than 0 and says why counts as an error, though the host
    calls it a success; one that says nothing (`grep` without a match) does not.

    Args:
        status: `ok`, `error`, `blocked` or `cancelled`; another word is read as `ok`.
        error: the error's text; without one, an error is known by its result.
        step: id of the model's answer that asked for the call.
    """
    known = _STATUSES.get(status, Status.OK)
    failure = _failure(known, result, error)
    if failure and known is Status.OK:
        known = Status.ERROR
    return ToolEvent(
        seq=seq,
        tool=tool,
        args_digest=args_digest(args),
        target=target_digest(args),
        result_digest=result_digest(result),
        status=known,
        error_digest=error_digest(failure) if known is Status.ERROR else "",
        at_s=at_s,
        step=step,
        action=action_of(args),
        waits=waits(args),
    )


def _failure(status: Status, result: object, error: str | None) -> str:
    if status is Status.ERROR:
        return error or (result if isinstance(result, str) else "")
    if status is Status.OK and exit_code(result) and isinstance(result, str):
        return result if _says_something(result) else ""
    return ""


def _says_something(result: str) -> bool:
    return '"output": ""' not in result and '"output":""' not in result

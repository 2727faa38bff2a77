"""What is said of a run that asks for more, and of what a person answered."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..policy.money import usd_from_nanos
from ..policy.runs.extensions import RequestState
from ..policy.runs.run_limits import METERS, Meter
from .layout import short
from .run_words import meter_amount

if TYPE_CHECKING:  # the store brings SQLAlchemy
    from ..store.extensions import Request

_UNITS = {
    Meter.USD: "dollars such as 2.00",
    Meter.WALL_CLOCK_S: "seconds such as 300",
}


def more_of(meter: Meter, amount: int) -> str:
    """`20 more tool calls`, `$2.00 more`, `450 s more`."""
    said = meter_amount(meter, amount)
    if meter in (Meter.USD, Meter.WALL_CLOCK_S):
        return f"{said} more"
    return f"{said} more {METERS[meter].noun}"


def request_line(request: "Request", *, local: bool = False) -> str:
    """Under the last answer, for the person: the number, and how to say yes or no.

    Args:
        local: its reader sits at the machine, and may have typed the question into a shell.
    """
    shell = f" (in a shell: hermes budget extend {request.number})" if local else ""
    return (
        f"Request {request.number}: {more_of(request.meter, request.asked)}, to go on. "
        f"Yes: /budget extend {request.number}{shell}. No: /budget deny {request.number}"
    )


def request_short(request: "Request") -> str:
    """`request 3: 20 more tool calls, granted by alice`."""
    amount = request.asked if request.granted is None else request.granted
    by = f" by {short(request.who)}" if request.who else ""
    return f"request {request.number}: {more_of(request.meter, amount)}, {request.state}{by}"


def granted(request: "Request", amount: int) -> str:
    """What a grant leads to."""
    if request.cron_job_id:
        when = "The next run of the job goes on with it."
    elif request.ticket_id:
        when = "The next run of the conversation or the ticket goes on with it."
    else:
        when = "The next message in that conversation goes on with it."
    return f"Request {request.number} is granted: {more_of(request.meter, amount)}. {when}"


def denied(request: "Request") -> str:
    """What a denial leads to."""
    return f"Request {request.number} is denied. The run stays ended."


def decided_before(request: "Request") -> str:
    """Somebody was faster, or a later run has asked anew."""
    if request.state is RequestState.LAPSED:
        return f"Request {request.number} has lapsed: a later run of the same work has asked anew."
    by = f" by {short(request.who)}" if request.who else ""
    return f"Request {request.number} is {request.state} already{by}."


def no_request(name: str) -> str:
    """Nothing to decide under that name."""
    if not name:
        return "No run asks for more."
    return f'No run called "{short(name)}" has asked for more, and no request has that number.'


def several(requests: "Sequence[Request]", command: str) -> str:
    """Which one is meant must be said."""
    lines = [f"{len(requests)} runs ask for more. Name one, such as {command}:"]
    lines += [
        f"  {r.number}: {more_of(r.meter, r.asked)}, run {short(r.run_id[-8:])}" for r in requests
    ]
    return "\n".join(lines)


def how_to_decide(command: str, *, amount: bool) -> str:
    """How the command is written."""
    return f"Usage: {command} [<number>|<run>]{' [<amount>]' if amount else ''}"


def amount_wrong(meter: Meter, text: str, why: str) -> str:
    """An amount that cannot be granted."""
    unit = _UNITS.get(meter, f"a number of {METERS[meter].noun} such as 20")
    reason = f": {why}" if why else ""
    return f'"{short(text)}" cannot be granted{reason}. Expected {unit}.'


def request_data(request: "Request") -> dict[str, Any]:
    """A request for programs."""
    return {
        "number": request.number,
        "run_id": request.run_id,
        "session_id": request.session_id,
        "cron_job_id": request.cron_job_id,
        "ticket_id": request.ticket_id,
        "cause": str(request.cause),
        "meter": str(request.meter),
        "asked": _plain(request.meter, request.asked),
        "granted": None if request.granted is None else _plain(request.meter, request.granted),
        "state": str(request.state),
        "asked_ms": request.asked_ms,
        "decided_ms": request.decided_ms,
        "who": request.who,
        "via": request.via,
        "linked_run_id": request.linked_run_id,
    }


def _plain(meter: Meter, amount: int) -> str | int:
    return f"{usd_from_nanos(amount):f}" if meter is Meter.USD else amount

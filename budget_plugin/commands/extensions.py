"""`extend` and `deny`: a person's word for a run that ran out and asks for more."""

from ..engine.engine import Engine
from ..messages import extensions as said
from ..policy.limits import Measure
from ..policy.money import AmountError
from ..policy.runs.run_limits import Meter
from ..store.extensions import Request
from ..store.files.config_values import amount_from_text
from .asking import PROBLEM, Answer, Args, Usage


def extend(engine: Engine, args: Args) -> Answer:
    """Grant what a run asks for, or another amount."""
    if len(args.words) > 2:
        raise Usage(said.how_to_decide(f"{args.caller.prefix} extend", amount=True))
    request = _request(engine, args, "extend")
    if request is None:
        return Answer(said.no_request(_name(args)), None, PROBLEM)
    amount = _amount(request.meter, args.words[1]) if len(args.words) > 1 else request.asked
    if not engine.extensions.grant(request, amount, args.caller.who, args.caller.via):
        return _too_late(engine, request)
    return Answer(said.granted(request, amount), _data(engine, request))


def deny(engine: Engine, args: Args) -> Answer:
    """Say no: the run stays ended."""
    if len(args.words) > 1:
        raise Usage(said.how_to_decide(f"{args.caller.prefix} deny", amount=False))
    request = _request(engine, args, "deny")
    if request is None:
        return Answer(said.no_request(_name(args)), None, PROBLEM)
    if not engine.extensions.deny(request, args.caller.who, args.caller.via):
        return _too_late(engine, request)
    return Answer(said.denied(request), _data(engine, request))


def _name(args: Args) -> str:
    return args.scope_id or (args.words[0] if args.words else "")


def _request(engine: Engine, args: Args, command: str) -> Request | None:
    """The request that is named, or the only one that waits."""
    name = _name(args)
    if name:
        return engine.extensions.requests.named(name)
    waiting = engine.extensions.requests.still_open()
    if len(waiting) > 1:
        raise Usage(said.several(waiting, f"{args.caller.prefix} {command} {waiting[0].number}"))
    return waiting[0] if waiting else None


def _amount(meter: Meter, text: str) -> int:
    try:
        amount = amount_from_text(Measure.USD if meter is Meter.USD else Measure.CALLS, text)
    except AmountError as error:
        raise Usage(said.amount_wrong(meter, text, str(error))) from None
    if not amount:
        raise Usage(said.amount_wrong(meter, text, ""))
    return amount


def _too_late(engine: Engine, request: Request) -> Answer:
    now = engine.extensions.requests.of_run(request.run_id) or request
    return Answer(said.decided_before(now), said.request_data(now), PROBLEM)


def _data(engine: Engine, request: Request) -> object:
    return said.request_data(engine.extensions.requests.of_run(request.run_id) or request)

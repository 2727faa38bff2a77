"""`claims`: the effects of unknown outcome, and a person's word for one of them."""

from typing import Final

from ..engine.engine import Engine
from ..messages import claims as said
from ..policy.claims import Outcome
from .asking import PROBLEM, Answer, Args, Usage

SHOWN: Final = 20
_OUTCOMES: Final = {"done": Outcome.SUCCESS, "free": Outcome.FAILURE}


def claims(engine: Engine, args: Args) -> Answer:
    """Without words the list; with a number, that it happened (`done`) or did not (`free`)."""
    zone = engine.rules().zone
    if not args.words:
        held = engine.claims.unknown(SHOWN)
        return Answer(
            said.unknown_text(held, zone, args.caller.prefix), [said.claim_data(h) for h in held]
        )
    number, outcome = args.words[0], _OUTCOMES.get(args.words[-1].lower())
    if len(args.words) != 2 or outcome is None or not (number.isascii() and number.isdigit()):
        raise Usage(said.how_to_decide(args.caller.prefix))
    held_now = engine.claims.decide(int(number), outcome, args.caller.who, args.caller.via)
    if held_now is None:
        return Answer(said.no_such_effect(number), None, PROBLEM)
    return Answer(said.decided(held_now), said.claim_data(held_now))

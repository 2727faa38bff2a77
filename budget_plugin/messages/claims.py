"""What a model reads when it was about to do something a second time."""

from datetime import datetime
from zoneinfo import ZoneInfo

from ..policy.claims import Answer, Effect, Told


def effect_refused(told: Told, zone: ZoneInfo) -> str:
    """Why a call was not carried out: what was done, when, by whom, and where its answer is."""
    what = _what(told.effect)
    by = f"by run {told.run_id}" if told.run_id else "before"
    where = f" Its result is in {told.answer_at}." if told.answer_at else ""
    if told.answer is Answer.DONE:
        return (
            f"This was not done again: {what} was done at {_when(told, zone)} {by}.{where} "
            "Take it as done and go on from there."
        )
    if told.answer is Answer.UNDER_WAY:
        where = f" Its result will be in {told.answer_at}." if told.answer_at else ""
        return (
            f"This was not started a second time: {what} has been under way since "
            f"{_when(told, zone)}, {by}.{where} Do not repeat it; go on with something else."
        )
    where = f" It was {told.answer_at}." if told.answer_at else ""
    return (
        f"This was not done: {what} was begun at {_when(told, zone)} {by}, and nobody knows "
        f"whether it happened.{where} It may have. Check in the place it would show, or ask the "
        "person before it is repeated; do not try it by another way."
    )


def effect_not_recorded(effect: Effect) -> str:
    """The ledger does not answer, and then nothing with an effect may start."""
    return (
        f"This was not done: {_what(effect)} may happen only once, and the record of what has been "
        "done does not answer at the moment. Say in the final answer that it is still to be done."
    )


def _what(effect: Effect | None) -> str:
    """The tool and what the present call itself names; contents by their digest."""
    if effect is None:
        return "this effect"
    named = ", ".join(f"{name} {value}" for name, value in effect.shown)
    return f"{effect.tool} ({named or f'effect {effect.key}'})"


def _when(told: Told, zone: ZoneInfo) -> str:
    return (
        "an unknown time"
        if told.at_s is None
        else f"{datetime.fromtimestamp(told.at_s, zone):%H:%M}"
    )

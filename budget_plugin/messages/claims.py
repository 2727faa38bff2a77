"""What a model reads when it was about to do something a second time, and a person about it."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from ..policy.claims import Answer, Effect, State, Told
from .layout import moment, page, short

if TYPE_CHECKING:
    from ..store.claims import Held


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
    return "an unknown time" if told.at_s is None else moment(round(told.at_s * 1000), zone)


# ---------------------------------------------------------------------- for a person


def unknown_text(held: "Sequence[Held]", zone: ZoneInfo, prefix: str) -> str:
    """The effects of which nobody knows whether they happened, and how to say it."""
    if not held:
        return "Of every effect that was begun it is known how it came out."
    lines = ["These may have happened; they are not repeated:"]
    lines += [line for each in held for line in _effect_lines(each, zone)]
    number = held[0].number
    lines += ["", f"If it happened: {prefix} claims {number} done"]
    return page([*lines, f"If it did not: {prefix} claims {number} free"])


def _effect_lines(held: "Held", zone: ZoneInfo) -> Iterator[str]:
    claim = held.claim
    yield from ("", f" {held.number}: {short(claim.effect.tool)}")
    yield f"  {moment(round(claim.claimed_s * 1000), zone)}, run {short(claim.run_id[-8:])}"
    if claim.answer_at:
        yield f"  {short(claim.answer_at, 72)}"


def decided(held: "Held") -> str:
    """A person has said how it came out."""
    if held.claim.state is State.DONE:
        return f"{held.claim.effect.tool} counts as done; it is not done again."
    return f"{held.claim.effect.tool} counts as not done; it may be done once."


def no_such_effect(number: str) -> str:
    """Nothing of unknown outcome has that number."""
    return f"No effect {short(number)} waits for a word. The command claims lists those that do."


def how_to_decide(prefix: str) -> str:
    """The command was not understood."""
    return f"Write {prefix} claims 3 done if effect 3 happened, {prefix} claims 3 free if not."


def claim_data(held: "Held") -> dict[str, object]:
    """An effect for programs."""
    claim = held.claim
    return {
        "number": held.number,
        "tool": claim.effect.tool,
        "effect": claim.effect.key,
        "state": str(claim.state),
        "per": str(claim.effect.per),
        "run_id": claim.run_id,
        "claimed_ms": round(claim.claimed_s * 1000),
        "answer_at": claim.answer_at,
    }

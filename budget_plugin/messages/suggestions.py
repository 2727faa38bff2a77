"""`suggest` in words: each number with the sentence that explains it, and the lines to paste."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ..policy.limits import SCOPES, Scope
from ..policy.money import NANOS_PER_USD, format_usd
from ..policy.runs.run_limits import Number
from ..policy.suggest import (
    DAYS_OF_A_MONTH,
    Basis,
    Suggestion,
    TooLittle,
    as_written,
    lines_of,
)
from .layout import Page, job_label, page

_NOUNS: Final = {
    "dispatches": ("child", "children"),
    "tool_calls": ("tool call", "tool calls"),
    "tokens": ("token", "tokens"),
    "wall_clock_s": ("second", "seconds"),
}


@dataclass(frozen=True, slots=True)
class Advised:
    """What is suggested, and what is not.

    Attributes:
        new: what the file does not say yet.
        already_set: where a person has chosen a number.
        enforced: where a number would block at once, beside others that do.
        applied: the new ones are in the file now.
    """

    days: int
    new: tuple[Suggestion, ...] = ()
    already_set: tuple[Suggestion, ...] = ()
    enforced: tuple[Suggestion, ...] = ()
    too_little: tuple[TooLittle, ...] = ()
    applied: bool = False
    job_names: Mapping[str, str] = field(default_factory=dict)


def suggest_text(advised: Advised, prefix: str) -> Page:
    """Numbers with their reasons, then what to do with them."""
    lines = [f"From what worked in {advised.days} days"]
    if advised.new:
        lines.append("Half as much again is put on top of each number, and it is rounded up.")
    lines += _grouped(advised, advised.new)
    if advised.already_set:
        lines += ["", "Set already, and left as they are:"]
        lines += [f"  {_place(each)}" for each in advised.already_set]
    if advised.enforced:
        lines += ["", "Left out, since other limits there are enforced; set them by hand:"]
        lines += [f"  {_place(each)}: {as_written(each)}" for each in advised.enforced]
    for few in advised.too_little:
        lines += ["", _too_little(few, advised)]
    if not (advised.new or advised.already_set or advised.enforced or advised.too_little):
        lines += ["", "Nothing is recorded in that time, so there is nothing to go by."]
    return page([*lines, *_what_now(advised, prefix)])


def _grouped(advised: Advised, found: Sequence[Suggestion]) -> Iterator[str]:
    named: tuple[str, ...] = ()
    for each in found:
        if each.part != named:
            named = each.part
            yield ""
            yield _whose(each.part, advised)
        yield f"  {each.key}: {as_written(each)}"
        yield f"    {_why(each)}"


def _why(each: Suggestion) -> str:
    """`half of 1,204 runs that resolved used 4 children or less, 99 of 100 9 children or less`."""
    if each.key == "monthly_usd":
        return (
            f"{DAYS_OF_A_MONTH} days of {_amount(each, each.p50)}, the average of {each.count} days"
        )
    if each.basis is Basis.DAYS:
        return f"half of {each.count} days cost {_amount(each, each.p50)} or less, {_most(each)}"
    return (
        f"half of {each.count:,} runs that resolved used {_amount(each, each.p50)} or less, "
        f"{_most(each)}"
    )


def _most(each: Suggestion) -> str:
    """With fewer than a hundred the 99th of a hundred is the largest of all."""
    most = _amount(each, each.p99)
    return f"99 of 100 {most} or less" if each.count >= 100 else f"none more than {most}"


def _amount(each: Suggestion, number: Number) -> str:
    if each.key.endswith("usd"):
        return format_usd(round(number))
    whole = math.ceil(number)  # "none more than" it
    one, many = _NOUNS[each.key]
    return f"{whole:,} {one if whole == 1 else many}"


def _whose(part: tuple[str, ...], advised: Advised) -> str:
    if part[0] == "runs":
        return f"One run of the kind {part[1]}"
    if part[-1] == SCOPES[Scope.GLOBAL].config_key:
        return "Everything together"
    return f"Cron job {job_label(part[-1], advised.job_names)}"


def _place(each: Suggestion) -> str:
    return f"{'.'.join(each.part)}.{each.key}"


def _too_little(few: TooLittle, advised: Advised) -> str:
    what = "resolved runs" if few.basis is Basis.RUNS else "whole days with spending"
    return (
        f"{_whose(few.part, advised)}: too little to go by, {few.count} of the {few.needed} {what} "
        "that are needed."
    )


def _what_now(advised: Advised, prefix: str) -> Iterator[str]:
    if not advised.new:
        if any(few.basis is Basis.DAYS for few in advised.too_little):
            yield from ("", f"What Hermes noted before this plugin counts too: {prefix} import")
        return
    yield ""
    if advised.applied:
        yield "Written to budget.yaml, observed only: nothing is blocked."
        yield f"What they would have stopped: {prefix} status, {prefix} replay"
        yield f"To enforce them: {prefix} enforce"
        return
    yield "For budget.yaml:"
    yield ""
    yield from lines_of(advised.new)
    yield ""
    yield f"To have them written: {prefix} suggest --apply"


# ---------------------------------------------------------------------- for programs


def suggest_data(advised: Advised) -> dict[str, object]:
    """The same as JSON takes it; docs/json.md describes it."""
    return {
        "version": 1,
        "days": advised.days,
        "applied": advised.applied,
        "suggestions": [_data(each) for each in advised.new],
        "already_set": [_data(each) for each in advised.already_set],
        "enforced": [_data(each) for each in advised.enforced],
        "too_little": [
            {
                "part": list(few.part),
                "basis": str(few.basis),
                "count": few.count,
                "needed": few.needed,
            }
            for few in advised.too_little
        ],
        "yaml": "\n".join(lines_of(advised.new)),
    }


def _data(each: Suggestion) -> dict[str, object]:
    return {
        "part": list(each.part),
        "key": each.key,
        "value": as_written(each),
        "basis": str(each.basis),
        "count": each.count,
        "p50": _plain(each, each.p50),
        "p99": _plain(each, each.p99),
        "why": _why(each),
    }


def _plain(each: Suggestion, number: Number) -> float:
    return round(number) / NANOS_PER_USD if each.key.endswith("usd") else number

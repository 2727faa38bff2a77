"""What is said about a limit: to a model, and to a person.

What a model reads names scope, window, spent, limit and reset, asks for a summary, and never says
how a limit is raised. What a person reads has the same facts and the command that lifts the block.
"""

import shlex
from collections.abc import Iterable, Sequence
from zoneinfo import ZoneInfo

from ..policy.limits import Measure, Problem
from ..policy.money import NANOS_PER_USD
from ..policy.verdicts import Verdict
from ..policy.windows import END_OF_TIME_MS
from .parts import amount, in_force, limit_name, quoted, reset_time, target, used_of


def _resets(verdict: Verdict, zone: ZoneInfo) -> str:
    if verdict.period.end_ms >= END_OF_TIME_MS:
        return "It does not reset by itself."
    return f"It resets at {reset_time(verdict.period, zone)}."


def _fact(verdict: Verdict) -> str:
    """What happened to a limit, as a full sentence."""
    limit = verdict.limit
    name = limit_name(limit)
    if verdict.unknown:
        return f"The spend ledger does not answer, so {name} cannot be checked."
    if limit.amount == 0:
        return f"Nothing may be spent: {name} allows nothing."
    if verdict.nothing_fits:
        return f"Nothing more fits under {name}: {used_of(verdict)} is used{_needs(verdict)}."
    return f"{name[0].upper()}{name[1:]} is reached: {used_of(verdict)} is used."


def _needs(verdict: Verdict) -> str:
    if not verdict.next_needs or verdict.limit.measure is Measure.CALLS:
        return ""
    needs = amount(verdict.next_needs, verdict.limit.measure, up=True)
    return f", and the next call needs about {needs}"


def raise_command(verdict: Verdict) -> str:
    """The command that lifts exactly this block, ready to be typed."""
    limit = verdict.limit
    must_hold = max(limit.amount, round((verdict.used + verdict.next_needs) / verdict.hard_share))
    half_as_much_again = must_hold * 3 // 2
    if limit.measure is Measure.USD:
        new = _round_dollars(half_as_much_again)
    else:
        new = f"{half_as_much_again + 1} {limit.measure}"
    return " ".join(["/budget set", *target(limit), limit.window, new])


def _round_dollars(nanos: int) -> str:
    """Dollars for a command, rounded up: to whole ones from two on, below to whole cents."""
    if not nanos:
        return "1.00"
    unit = 100 if nanos >= 2 * NANOS_PER_USD else 1
    cents = -(-nanos * 100 // (unit * NANOS_PER_USD)) * unit
    return f"{cents // 100}.{cents % 100:02d}"


# ---------------------------------------------------------------------- to the model


def tool_refused(verdict: Verdict, zone: ZoneInfo) -> str:
    """The tool gate's answer; the same breach always reads the same."""
    return (
        f"Budget: {_fact(verdict)} {_resets(verdict, zone)} No tool will work{_until(verdict)}, so "
        "do not try another one. Write your final answer now: what is done, what is missing, and "
        "what the next step would be."
    )


def _until(verdict: Verdict) -> str:
    """Only a window that ends is waited for."""
    ends = verdict.period.end_ms < END_OF_TIME_MS and not verdict.unknown
    return " until then" if ends else ""


def job_refused(verdict: Verdict, zone: ZoneInfo) -> str:
    """The answer to a model that would set a cron job going whose budget is spent."""
    return (
        f"Budget: this job may not be started now. {_fact(verdict)} {_resets(verdict, zone)} "
        "Leave it paused and tell the person."
    )


def last_answer(verdict: Verdict, zone: ZoneInfo) -> str:
    """Told with the last call that still fits."""
    return (
        f"[budget] {_fact(verdict)} {_resets(verdict, zone)} This is the last answer that fits. "
        "Call no tools. Write the final answer now: what is done, what is missing, and what the "
        "next step would be."
    )


def soft_alert_for_model(verdicts: Iterable[Verdict], zone: ZoneInfo) -> str:
    """Put before the model once per window: it is short, since it is replayed on later turns."""
    facts = " ".join(
        f"{used_of(v)} is used under {limit_name(v.limit)}. {_resets(v, zone)}" for v in verdicts
    )
    return f"[budget] {facts} Prefer the shortest way to a finished answer."


def call_refused_to_model(verdict: Verdict, zone: ZoneInfo) -> str:
    """A child's answer when its next model call was refused; its reader is the parent's model."""
    return (
        f"This subtask was stopped by the budget before it was finished. {_fact(verdict)} "
        f"{_resets(verdict, zone)} Treat its result as missing; do not start it again."
    )


# ---------------------------------------------------------------------- to the person


def call_refused(verdict: Verdict, zone: ZoneInfo, *, unpriced_model: str = "") -> str:
    """The final answer of a run whose next model call was refused."""
    if unpriced_model:
        fact = (
            f"The price of {unpriced_model} is not known, and calls without a known price are "
            f"blocked while {limit_name(verdict.limit)} is set."
        )
        return f"Stopped by the budget before the next model call. {fact}"
    return (
        f"Stopped by the budget before the next model call. {_fact(verdict)} "
        f"{_resets(verdict, zone)}"
    )


def person_line(verdict: Verdict, zone: ZoneInfo, answer: str = "", *, local: bool = False) -> str:
    """One line under the answer: what was reached, until when, and how to go on.

    Where the answer says the fact itself (a refused call), only how to go on.

    Args:
        local: its reader sits at the machine, and may have typed the question into a shell.
    """
    if not verdict.blocks:
        share = round(100 * (verdict.soft_share or 0))
        doubt = " (only with estimated costs)" if verdict.on_estimates else ""
        return (
            f"Budget: more than {share} % of {limit_name(verdict.limit)} is used{doubt}: "
            f"{used_of(verdict)}. {_resets(verdict, zone)}"
        )
    if verdict.unknown:
        return f"Budget: {_fact(verdict)}"
    command = raise_command(verdict)
    in_a_shell = f" (in a shell: hermes {command.removeprefix('/')})" if local else ""
    way_on = f"To go on before that: {command}{in_a_shell}"
    if _fact(verdict) in answer:
        return way_on
    return f"Budget: {_fact(verdict)} {_resets(verdict, zone)} {way_on}"


def settings_mistake(problems: Sequence[Problem], *, limited: bool) -> str:
    """The first mistake in the settings, how many more there are, and what holds meanwhile."""
    more = f" ({len(problems) - 1} more)" if len(problems) > 1 else ""
    said = (f"Budget: {problems[0]}{more}.", in_force(problems, limited=limited))
    return " ".join((*filter(None, said), "See: hermes budget check"))


def reached_already(verdict: Verdict, zone: ZoneInfo) -> list[str]:
    """How a limit stands that blocks, in two sentences."""
    return [_fact(verdict), _resets(verdict, zone)]


def pause_reason(verdict: Verdict, zone: ZoneInfo) -> str:
    """Why a cron job was paused, as `hermes cron list` and the owner see it."""
    return f"budget: {_fact(verdict)} {_resets(verdict, zone)}"


# ---------------------------------------------------------------------- the plugin itself


def missing_packages(names: Sequence[str], requirements: Sequence[str], python: str) -> str:
    """One line that says what is missing and the exact command that mends it."""
    are = "is" if len(names) == 1 else "are"
    return (
        f"hermes-budget is not active: {', '.join(names)} {are} not installed in this Python. "
        f"Install with: {quoted(python)} -m pip install "
        f"{' '.join(shlex.quote(r) for r in requirements)}"
    )

"""Claims: an effect on the world happens once.

Two agents of one run that write to the same person use few tokens and break no limit, and what they
did cannot be taken back. So the bound is on identity: the arguments that name the effect are
claimed before it happens, and the second caller is told what was done instead.

    (none) ──claim──▶ claimed ──success──▶ done ──3600 s──▶ (free)
                         ├─────failure────▶ failed ───────▶ (free)
                         └─no answer, crash, 3600 s──▶ unknown: ask a person

An unknown outcome is never free by itself, since the effect may have happened. What was done
in a run tree is forgotten after an hour; once a day or once a ticket holds for as long as the day
or the ticket does.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from .digests import canonical, digest

EXPIRES_AFTER_S: Final = 3600.0
"""How long a settled effect of a run tree is remembered, how long any may be under way, and how
long one of unknown outcome is asked about outside of its own bound."""

_SHOWN_CHARS: Final = 60


class Per(StrEnum):
    """Within what an effect happens once."""

    RUN_TREE = "run_tree"
    TICKET = "ticket"
    DAY = "day"


@dataclass(frozen=True, slots=True)
class EffectTool:
    """A tool whose calls have an effect, and the arguments that name it.

    Attributes:
        identity: these arguments together name the effect; others do not matter.
        contents: those among them that are never stored or shown, only digested.
        when: the call has the effect only with one of these values; "" stands for an absent one.
    """

    tool: str
    identity: tuple[str, ...]
    contents: frozenset[str] = frozenset()
    when: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))
    per: Per = Per.RUN_TREE


def _action(*names: str) -> Mapping[str, frozenset[str]]:
    return MappingProxyType({"action": frozenset(names)})


STARTERS: Final = (
    EffectTool("send_message", ("target", "message"), frozenset({"message"}), _action("", "send")),
    EffectTool(
        "cronjob",
        ("action", "schedule", "prompt", "script", "skills", "deliver"),
        frozenset({"prompt"}),
        _action("create"),
    ),
    EffectTool("cronjob", ("action", "job_id"), when=_action("run")),
    EffectTool("kanban_create", ("board", "title", "assignee")),
    EffectTool("kanban_comment", ("board", "task_id", "body"), frozenset({"body"})),
    EffectTool("discord", ("action", "channel_id", "name"), when=_action("create_thread")),
    EffectTool(
        "yb_send_dm",
        ("group_code", "user_id", "name", "message", "media_files"),
        frozenset({"message"}),
    ),
    EffectTool("yb_send_sticker", ("chat_id", "sticker", "reply_to")),
    EffectTool("feishu_drive_add_comment", ("file_token", "content"), frozenset({"content"})),
    EffectTool(
        "feishu_drive_reply_comment",
        ("file_token", "comment_id", "content"),
        frozenset({"content"}),
    ),
)
"""The host's own tools that send, post or schedule. What may be done twice without harm (reactions,
pins, switching a light) is not among them."""


@dataclass(frozen=True, slots=True)
class Effect:
    """One effect by name.

    Attributes:
        key: digest of the tool and of all that names it.
        shown: `(argument, value)` that may be stored and shown; contents and long values are not.
    """

    tool: str
    key: str
    shown: tuple[tuple[str, str], ...]
    per: Per


def effect_of(tools: Iterable[EffectTool], tool: str, args: object) -> Effect | None:
    """The effect of a call, `None` if it has none that is configured, or nothing names it."""
    if not isinstance(args, Mapping):
        return None
    for entry in tools:
        if entry.tool == tool and _applies(entry, args):
            return _effect(entry, args)
    return None


def _applies(entry: EffectTool, args: Mapping[object, object]) -> bool:
    return all(_text(args.get(name)) in values for name, values in entry.when.items())


def _effect(entry: EffectTool, args: Mapping[object, object]) -> Effect | None:
    named = [(name, _text(args.get(name))) for name in entry.identity]
    # The action alone says what kind of thing is done, not which.
    if not any(value for name, value in named if name not in entry.when):
        return None
    shown = tuple(pair for pair in named if pair[1] and _may_be_shown(entry, *pair))
    return Effect(entry.tool, digest(canonical([entry.tool, named])), shown, entry.per)


def _text(value: object) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else canonical(value)
    return " ".join(text.split())


def _may_be_shown(entry: EffectTool, name: str, value: str) -> bool:
    return name not in entry.contents and len(value) <= _SHOWN_CHARS


def claim_key(effect: Effect, *, run_tree: str, ticket: str, day: str) -> str:
    """The one name under which an effect is claimed; unique in the ledger.

    Args:
        run_tree: id of the run at the top.
        ticket: "" when there is none; the run tree then stands for it.
        day: the local date, e.g. `2026-11-30`.
    """
    within = {Per.RUN_TREE: run_tree, Per.TICKET: ticket or run_tree, Per.DAY: day}[effect.per]
    per = Per.RUN_TREE if effect.per is Per.TICKET and not ticket else effect.per
    return f"{per}:{within}:{effect.key}"


class State(StrEnum):
    """How far an effect has come."""

    CLAIMED = "claimed"
    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Outcome(StrEnum):
    """What is known of a call that has ended, or of a process that died in it."""

    SUCCESS = "success"
    FAILURE = "failure"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Claim:
    """Who does, or did, an effect. Times are seconds of the wall clock.

    Attributes:
        call_id: the call that claimed it; the same call asking again is let through.
        answer_at: where its result can be read, e.g. the id of the call in that run's session.
    """

    key: str
    effect: Effect
    run_id: str
    call_id: str
    claimed_s: float
    state: State = State.CLAIMED
    settled_s: float | None = None
    answer_at: str = ""


class Answer(StrEnum):
    """What a caller is told."""

    GO = "go"
    DONE = "done"
    UNDER_WAY = "under_way"
    ASK = "ask"


@dataclass(frozen=True, slots=True)
class Told:
    """The answer to a caller and, unless it may go, what is known of the effect.

    Attributes:
        at_s: when it was done, or claimed.
        age_s: how long ago that is.
    """

    answer: Answer
    effect: Effect | None = None
    run_id: str = ""
    at_s: float | None = None
    age_s: float | None = None
    answer_at: str = ""


def standing(claim: Claim, now_s: float) -> State | None:
    """The state that a stored claim has by now; `None` when the effect is free again."""
    if claim.state is State.FAILED:
        return None
    if claim.state is State.UNKNOWN:
        return State.UNKNOWN
    if claim.state is State.DONE and claim.effect.per is not Per.RUN_TREE:
        return State.DONE
    if now_s - _since_s(claim) < EXPIRES_AFTER_S:
        return claim.state
    return None if claim.state is State.DONE else State.UNKNOWN


def _since_s(claim: Claim) -> float:
    return claim.claimed_s if claim.settled_s is None else claim.settled_s


def judge(claim: Claim | None, call_id: str, now_s: float) -> Told:
    """May this caller bring the effect about, given the claim that is stored under its key?"""
    if claim is None or (claim.state is State.CLAIMED and claim.call_id == call_id):
        return Told(Answer.GO)
    state = standing(claim, now_s)
    if state is None:
        return Told(Answer.GO)
    return _told(_ANSWERS[state], claim, now_s)


def judge_all(own: Claim | None, elsewhere: Iterable[Claim], call_id: str, now_s: float) -> Told:
    """The same, beside claims of the same effect under other keys (another run tree, another day).

    A run tree that died took its claims along, and the next one would repeat the effect without a
    word. So what may have happened elsewhere within the last hour is asked about as well.
    """
    told = judge(own, call_id, now_s)
    if told.answer is Answer.GO:
        for claim in elsewhere:
            unknown = standing(claim, now_s) is State.UNKNOWN
            if unknown and now_s - _since_s(claim) < EXPIRES_AFTER_S:
                return _told(Answer.ASK, claim, now_s)
    return told


def _told(answer: Answer, claim: Claim, now_s: float) -> Told:
    at_s = _since_s(claim)
    return Told(answer, claim.effect, claim.run_id, at_s, now_s - at_s, claim.answer_at)


def abandoned(claim: Claim) -> Claim:
    """The claim of a process that is gone: what was under way there may have happened."""
    return replace(claim, state=State.UNKNOWN) if claim.state is State.CLAIMED else claim


_ANSWERS: Final = {
    State.CLAIMED: Answer.UNDER_WAY,
    State.DONE: Answer.DONE,
    State.UNKNOWN: Answer.ASK,
}


def settle(claim: Claim, outcome: Outcome, now_s: float, answer_at: str = "") -> Claim:
    """The claim after its call ended. What is settled stays so; an unknown one may become known."""
    if claim.state in (State.DONE, State.FAILED):
        return claim
    state = _SETTLED[outcome]
    return replace(claim, state=state, settled_s=now_s, answer_at=answer_at or claim.answer_at)


_SETTLED: Final = {
    Outcome.SUCCESS: State.DONE,
    Outcome.FAILURE: State.FAILED,
    Outcome.UNKNOWN: State.UNKNOWN,
}

_CUT_SHORT: Final = 124
"""Exit codes from here on are those of `timeout`, and 128 and the number of a signal."""

_NEVER_RAN: Final = (126, 127)
_MAY_HAVE_HAPPENED: Final = (
    "timed out",
    "timeout",
    "connection reset",
    "connection aborted",
    "connection closed",
    "disconnected",
    "broken pipe",
    "interrupted",
    "502",
    "504",
)


def outcome_of(status: str, error: str = "", exit_code: int | None = None) -> Outcome:
    """Read how a call ended (`ok`, `error`, `blocked`, `cancelled`).

    An error that came after the request went out, as a timeout does, leaves open what happened, and
    so does a command that was ended by a signal or a clock; a call that was blocked did not run.

    Args:
        exit_code: of a command, whose host calls it `ok` whatever it is.
    """
    if status == "ok" and not exit_code:
        return Outcome.SUCCESS
    if status == "ok":
        return Outcome.UNKNOWN if _was_cut_short(exit_code or 0) else Outcome.FAILURE
    if status == "blocked":
        return Outcome.FAILURE
    if status != "error":
        return Outcome.UNKNOWN
    text = error.lower()
    open_end = any(words in text for words in _MAY_HAVE_HAPPENED)
    return Outcome.UNKNOWN if open_end else Outcome.FAILURE


def _was_cut_short(exit_code: int) -> bool:
    return exit_code < 0 or (exit_code >= _CUT_SHORT and exit_code not in _NEVER_RAN)

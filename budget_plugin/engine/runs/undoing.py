"""`on_exhausted: abort`: what a run did is noted, listed when it runs out, and undone."""

from ...policy.digests import args_digest, target_digest
from ...policy.runs.effects import Effects, changes_something
from ...policy.runs.refusals import Refusal
from ..live_runs import LiveRun
from ..permits import Undo
from .guarded_runs import GuardedRun


def note_effect(run: GuardedRun, tool: str, args: object, *, failed: bool) -> None:
    """What a run or its children did, where it may have to be undone; not the undoing itself."""
    for each in run.chain:
        if each.effects is not None and not each.effects.told and changes_something(tool):
            target = target_digest(args) or args_digest(args)
            each.effects.note(tool, target, failed=failed)


def undo_of(effects: Effects | None) -> Undo | None:
    """What a run that ran out is to undo now, with one call to the model for each tool call."""
    if effects is None or not effects.count or not min(effects.rounds_left, effects.calls_left):
        return None
    effects.told = True
    effects.rounds_left -= 1
    return Undo(effects.newest_first(), effects.count, effects.calls_left)


def is_to_undo(live: LiveRun) -> bool:
    """Whether a run that runs out is told next what it has to undo."""
    effects = live.guarded.owner.effects if live.guarded is not None else None
    return effects is not None and bool(effects.count) and effects.calls_left > 0


def undoes(run: GuardedRun, refused: Refusal, now_s: float) -> bool:
    """A run that was told to undo what it did has a few tool calls for it; they are counted."""
    effects = run.owner.effects
    if effects is None or not refused.cause.ends_run or run.budget.over:
        return False
    if run.budget.too_late(now_s):
        return False
    with run.lock:
        granted = effects.take_call()
    if granted:
        run.budget.charge(now_s, tool_calls=1)
    return granted

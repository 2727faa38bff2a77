"""`enforce` and `observe`: whether a limit blocks, or only notes that it would have."""

from collections.abc import Iterable
from contextlib import ExitStack
from typing import Final

from ..engine.engine import Engine
from ..messages import observing, reports
from ..policy.limit_changes import changed, flat
from ..policy.limits import SCOPES, Mode
from ..store.files.config_edit import ConfigRefused, planned, rewrite
from ..store.files.mode_edit import ModeChange, ModeEdit, Part, part_of, parts
from .asking import OK, PROBLEM, Answer, Args, Caller, Usage
from .grammar import scope_of

RUNS: Final = "runs"


def enforce(engine: Engine, args: Args) -> Answer:
    """Put observed limits in force: all of them, or those of what was named."""
    return _with_mode(engine, args, Mode.ENFORCE)


def observe(engine: Engine, args: Args) -> Answer:
    """Let limits only note what they would have done."""
    if not args.words:
        raise Usage(observing.observe_usage(args.caller.prefix))
    return _with_mode(engine, args, Mode.OBSERVE)


def _with_mode(engine: Engine, args: Args, mode: Mode) -> Answer:
    named = _named(args)
    engine.reload_config()
    changes: list[ModeChange] = []
    try:
        while (part := _next(engine, named, mode, changes)) is not None:
            _write(engine, args.caller, ModeEdit(engine.budget_file.path, part, mode))
            changes.append(ModeChange(part))
            engine.reload_config()
    except ConfigRefused as refused:
        text = reports.not_changed(str(refused), refused.problems)
        return Answer(text, {"changed": [change.name for change in changes]}, PROBLEM)
    text = observing.modes_changed(changes, mode)
    return Answer(text, {"changed": [change.name for change in changes], "mode": str(mode)}, OK)


def _named(args: Args) -> Part | None:
    """The beginning of the parts that are meant; `None` for all."""
    if not args.words:
        return None
    first, *rest = args.words
    if first.lower() == RUNS:
        return (RUNS, *rest)
    scope = scope_of(first)
    scope_id = args.scope_id or " ".join(rest)
    if scope_id and not SCOPES[scope].takes_id:
        raise Usage(reports.takes_no_id(scope, scope_id))
    return part_of(scope, scope_id)


def _next(
    engine: Engine, named: Part | None, mode: Mode, done: Iterable[ModeChange]
) -> Part | None:
    """The next part of the file that is still in the other mode."""
    other = Mode.OBSERVE if mode is Mode.ENFORCE else Mode.ENFORCE
    seen = {change.part for change in done}
    return next(
        (
            part
            for part in parts(engine.budget_file.current(), other)
            if part not in seen and (named is None or part[: len(named)] == named)
        ),
        None,
    )


def _write(engine: Engine, caller: Caller, edit: ModeEdit) -> None:
    """Every limit that holds, or holds no longer, is this person's word, and in the history."""
    before, after = (flat(budget) for budget in planned(edit))
    with ExitStack() as words:
        for place in changed(before, after):
            amount = after.get(place)
            words.enter_context(engine.limits.changed_by(caller.who, caller.via, place, amount))
        rewrite(edit)

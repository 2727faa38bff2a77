"""`enforce` and `observe`: whether a limit blocks, or only notes that it would have."""

from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial
from typing import Final

from ..engine.engine import Engine
from ..engine.recorder import Write
from ..messages import observing, reports
from ..policy.limit_changes import CeilingChange, changed, flat
from ..policy.limits import SCOPES, Budget, Mode, Scope
from ..policy.runs.run_limits import RUN_LIMIT_KEYS
from ..policy.verdicts import Verdict
from ..store.activity import active_ids
from ..store.files.config_edit import ConfigRefused, planned, rewrite
from ..store.files.mode_edit import ModeChange, ModeEdit, Part, part_of, parts, run_parts
from ..store.sql.database import LedgerError
from .asking import OK, PROBLEM, Answer, Args, Caller, Usage
from .grammar import scope_of
from .spending import ACTIVE_DAYS, DAY_MS

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
    reached = _reached(engine) if mode is Mode.ENFORCE and changes else []
    text = observing.modes_changed(changes, mode, reached, args.caller.prefix, engine.rules().zone)
    return Answer(text, {"changed": [change.name for change in changes], "mode": str(mode)}, OK)


def _reached(engine: Engine) -> list[Verdict]:
    """The limits that block from this moment on, of everything together and of who was active."""
    since_ms = engine.clock.now_ms() - ACTIVE_DAYS * DAY_MS
    try:
        active = [
            (scope, scope_id)
            for scope, kind in SCOPES.items()
            if kind.takes_id
            for scope_id in active_ids(engine.database, scope, since_ms)
        ]
        scopes = [(Scope.GLOBAL, ""), *active]
        return [v for scope in scopes for v in engine.judge.read_now(scope) if v.blocks]
    except LedgerError:  # the file is changed all the same, and that is what was asked for
        return []


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
        was, now = rewrite(edit)
    note_ceilings(engine, caller, was, now)


def note_ceilings(engine: Engine, caller: Caller, before: Budget, after: Budget) -> None:
    """Ceilings of runs that hold, or hold no longer, or are observed anew, for the history."""
    was, now = _ceilings(before), _ceilings(after)
    for place in sorted(was.keys() | now.keys()):
        (old, watched), (new, watches) = was.get(place, _NONE), now.get(place, _NONE)
        if (old, watched) == (new, watches):
            continue
        state = "observed" if watches and (watched or old is None) else "done"
        if state == "done":  # to the gates an observed ceiling is none
            old, new = (None if watched else old), (None if watches else new)
        change = CeilingChange(
            engine.clock.now_ms(), caller.who, caller.via, *place, old, new, state
        )
        engine.recorder.later(Write(partial(engine.journal.note_ceiling, change)))


_NONE: Final = (None, False)
_Ceilings = dict[tuple[str, str], tuple[int | None, bool]]


def _ceilings(budget: Budget) -> _Ceilings:
    """By layer and key the number, and whether it is only observed."""
    keys = {field: key for key, field in RUN_LIMIT_KEYS.items()}
    return {
        (".".join(part[1:]), keys[field]): (
            None if number is None else round(number * (100 if field == "context_pct" else 1)),
            budget.runs.is_observed(layer),
        )
        for part, layer in run_parts(budget)
        for field, number in layer.amounts.items()
    }

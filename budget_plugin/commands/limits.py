"""`set`, `unset` and `history`: a limit is changed in budget.yaml, and that written down."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Final

from ..engine.engine import Engine
from ..messages import reports
from ..messages.job_pauses import still_paused
from ..messages.observing import only_observed
from ..messages.price_words import not_in_dollars
from ..policy.limit_changes import CeilingChange
from ..policy.limits import KEYS, Key, Measure, Scope
from ..policy.verdicts import Verdict
from ..store.activity import active_ids
from ..store.files import config_edit
from ..store.files.config_edit import Change, ConfigRefused
from ..store.journal import LimitChange, Pause
from ..store.sql.database import LedgerError
from .asking import OK, PROBLEM, Answer, Args, Caller
from .grammar import Place, limit_to_set, limit_to_unset
from .job_pauses import resumes_by_itself
from .naming import scope_id
from .prices import unpriced_models
from .spending import ACTIVE_DAYS, DAY_MS

_MOST_CHANGES: Final = 30


def set_limit(engine: Engine, args: Args) -> Answer:
    """Write one limit and say what was, what is, and what that means now."""
    typed, key, amount = limit_to_set(args.words, args.scope_id, args.caller.prefix)
    place = _found(engine, typed)
    try:
        change = set_by(engine, args.caller, place, key, amount)
    except ConfigRefused as refused:
        return _refused(refused)
    answer = _done(engine, change, args.caller)
    if place != typed:
        known = reports.known_as(typed.scope_id, place.scope_id)
        return replace(answer, text=f"{answer.text} {known}")
    return answer


def set_by(engine: Engine, caller: Caller, place: Place, key: Key, amount: int | None) -> Change:
    """Write one limit as this person's word, with its row in the history.

    Raises:
        ConfigRefused: the file was left as it is.
    """
    path = engine.budget_file.path
    with _by(engine, caller, place, key, amount):
        change = config_edit.set_limit(path, place.scope, place.scope_id, key, amount)
    if change.observed:
        _note_observed(engine, change, caller)
    return change


def unset_limit(engine: Engine, args: Args) -> Answer:
    """Remove one limit; an override then inherits the shared one again."""
    place, key = limit_to_unset(args.words, args.scope_id, args.caller.prefix)
    if not _is_written(engine, place, key):  # a name that the file itself holds is taken as it is
        place = _found(engine, place)
    if not _is_written(engine, place, key):
        return _nothing_to_unset(engine, args, place, key)
    path = engine.budget_file.path
    try:
        with _by(engine, args.caller, place, key, None):
            change = config_edit.unset_limit(path, place.scope, place.scope_id, key)
    except ConfigRefused as refused:
        return _refused(refused)
    answer = _done(engine, change, args.caller)
    if change.after is not None and place.scope_id:
        inherited = reports.still_inherited(change)
        return Answer(f"{answer.text} {inherited}", answer.data, answer.exit_code)
    return answer


def history(engine: Engine, args: Args) -> Answer:
    """The latest changes of limits, newest first."""
    both: list[LimitChange | CeilingChange] = [
        *engine.journal.changes(_MOST_CHANGES),
        *engine.journal.ceiling_changes(_MOST_CHANGES),
    ]
    changes = sorted(both, key=lambda change: -change.at_ms)[:_MOST_CHANGES]
    text = reports.history(changes, engine.rules().zone)
    return Answer(text, [reports.change_data(change) for change in changes])


def _found(engine: Engine, place: Place) -> Place:
    """The place by the id that limits go by; a person may have named a cron job."""
    return replace(place, scope_id=scope_id(engine, place.scope, place.scope_id))


def _by(
    engine: Engine, caller: Caller, place: Place, key: Key, amount: int | None
) -> AbstractContextManager[None]:
    """The change of the file is this person's word: it acts at once, and the history says so."""
    where = (place.scope, place.scope_id, key)
    if amount is not None and config_edit.would_be_observed(
        engine.budget_file.path, *where, amount
    ):
        amount = None  # as far as the gates are concerned
    return engine.limits.changed_by(caller.who, caller.via, where, amount)


def _refused(refused: ConfigRefused) -> Answer:
    text = reports.not_changed(str(refused), refused.problems)
    return Answer(text, {"changed": False, "reason": str(refused)}, PROBLEM)


def _written(engine: Engine, place: Place) -> set[Key]:
    """The keys that the file itself names for this id, or for the default."""
    engine.reload_config()
    limits = engine.budget_file.current().scopes.get(place.scope)
    if limits is None:
        return set()
    return set(limits.overrides.get(place.scope_id, {}) if place.scope_id else limits.default)


def _is_written(engine: Engine, place: Place, key: Key) -> bool:
    # A file with a mistake is not what its last good meaning says: then the editor has the word.
    written = _written(engine, place)
    return key in written or bool(engine.budget_file.problems)


def _nothing_to_unset(engine: Engine, args: Args, place: Place, key: Key) -> Answer:
    others = [
        other.measure
        for other in KEYS.values()
        if other.window is key.window and other in _written(engine, place)
    ]
    command = " ".join([f"{args.caller.prefix} unset", *args.words[:-1], str(key.window)])
    if args.words[-1] == key.window:
        command = " ".join([f"{args.caller.prefix} unset", *args.words])
    change = Change(place.scope, place.scope_id, key, None, None, "")
    return Answer(reports.nothing_to_unset(change, others, command), {"changed": False})


def _done(engine: Engine, change: Change, caller: Caller) -> Answer:
    rules = engine.reload_config()
    recorded = change.before == change.after or engine.limits.recorded
    verdict, unseen = _standing(engine, change)
    text = reports.changed(change, verdict, rules.zone, unseen=unseen, recorded=recorded)
    if verdict is not None and _leaves_out(verdict) and (models := unpriced_models(engine)):
        text = f"{text} {not_in_dollars(models, caller.prefix)}"
    if paused := _still_paused(engine, change):
        text = f"{text} {_told_of(paused, engine, caller)}"
    if change.observed:
        text = f"{text} {only_observed(change.scope, change.scope_id, caller.prefix)}"
    data = reports.changed_data(change, verdict, recorded=recorded)
    return Answer(text, data, OK)


def _still_paused(engine: Engine, change: Change) -> list[Pause]:
    """Our pauses of jobs under a limit that is higher now, or gone."""
    raised = change.after is None or (change.before is not None and change.after > change.before)
    if change.before is None or not raised:
        return []
    try:
        pauses = engine.journal.pauses()
    except LedgerError:
        return []
    return [
        pause
        for pause in pauses
        if (pause.scope, pause.window) == (change.scope, change.key.window)
        and change.scope_id in ("", pause.scope_id)
    ]


def _told_of(pauses: Sequence[Pause], engine: Engine, caller: Caller) -> str:
    jobs = [pause.cron_job_id for pause in pauses]
    by_itself = resumes_by_itself(engine, pauses[0].until_ms)  # all are of one window
    return still_paused(jobs, engine.jobs.names(), caller.prefix, by_itself=by_itself)


def _leaves_out(verdict: Verdict) -> bool:
    """Whether calls without a price are in a sum of dollars."""
    return verdict.limit.measure is Measure.USD and bool(verdict.spend.unpriced_calls)


def _note_observed(engine: Engine, change: Change, caller: Caller) -> None:
    """What is only observed is no limit to the guard, but a change by a person all the same."""
    place = (change.scope, change.scope_id, change.key)
    engine.limits.note_observed(caller.who, caller.via, place, change.before, change.after)


def _standing(engine: Engine, change: Change) -> tuple[Verdict | None, bool]:
    """How the changed limit stands now, and whether nobody of that id was seen lately."""
    if change.scope is not Scope.GLOBAL and not change.scope_id:
        return None, False
    try:
        verdicts = engine.judge.read_now((change.scope, change.scope_id))
        unseen = change.scope is not Scope.GLOBAL and not _is_known(engine, change)
    except LedgerError:
        return None, False
    return _of_key(verdicts, change.key), unseen


def _is_known(engine: Engine, change: Change) -> bool:
    if change.scope is Scope.CRON_JOB and change.scope_id in engine.jobs.names():
        return True
    since_ms = engine.clock.now_ms() - ACTIVE_DAYS * DAY_MS
    return change.scope_id in active_ids(engine.database, change.scope, since_ms)


def _of_key(verdicts: tuple[Verdict, ...], key: Key) -> Verdict | None:
    for verdict in verdicts:
        if (verdict.limit.window, verdict.limit.measure) == (key.window, key.measure):
            return verdict
    return None

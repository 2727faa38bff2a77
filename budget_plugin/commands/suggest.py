"""`suggest`: limits from what runs that worked have used; `--apply` writes them, as observed."""

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Final

from ..engine.engine import Engine
from ..messages import reports, suggestions
from ..policy.limits import KEYS, SCOPES, Mode, Scope
from ..policy.runs.run_limits import RUN_LIMIT_KEYS
from ..policy.suggest import (
    Advice,
    Basis,
    Suggestion,
    TooLittle,
    suggest_ceilings,
    suggest_spending,
)
from ..policy.windows import Window
from ..store.files import config_edit
from ..store.files.config_edit import ConfigRefused
from ..store.files.mode_edit import ModeEdit, part_of, run_parts
from ..store.files.run_edit import CeilingEdit
from ..store.usage_history import spent_since, used_since
from .asking import OK, PROBLEM, Answer, Args
from .grammar import Place
from .limits import set_by
from .modes import RUNS, note_ceilings
from .replay import days_of
from .spending import DAY_MS

KINDS: Final = ("chat", "cron", "child")


def suggest(engine: Engine, args: Args) -> Answer:
    """Ceilings by kind of run, a daily limit for each job, a daily and a monthly one overall."""
    days = days_of(args.options)
    advice = list(_advice(engine, engine.clock.now_ms() - days * DAY_MS))
    found = [each for each in advice if isinstance(each, Suggestion)]
    taken = {id(each) for each in found if _is_set(engine, each)}
    new = [each for each in found if id(each) not in taken]
    closed = [each for each in new if _is_enforced(engine, each.part)]
    new = [each for each in new if each not in closed]
    few = [each for each in advice if isinstance(each, TooLittle)]
    written = False
    if "apply" in args.options and new:
        try:
            _apply(engine, args, new)
        except ConfigRefused as refused:
            text = reports.not_changed(str(refused), refused.problems)
            return Answer(text, {"applied": False, "reason": str(refused)}, PROBLEM)
        written = True
    report = suggestions.Advised(
        days=days,
        new=tuple(new),
        already_set=tuple(each for each in found if id(each) in taken),
        enforced=tuple(closed),
        too_little=tuple(few),
        applied=written,
        job_names=engine.jobs.names(),
    )
    text = suggestions.suggest_text(report, args.caller.prefix)
    return Answer(text, suggestions.suggest_data(report), OK)


def _advice(engine: Engine, since_ms: int) -> Iterator[Advice]:
    yield from _spending(engine, since_ms)
    by_kind = used_since(engine.database, since_ms).by_kind
    if not by_kind:
        yield TooLittle((RUNS, KINDS[0]), Basis.RUNS, 0)
    for kind in KINDS:
        if kind in by_kind:
            yield from suggest_ceilings(kind, by_kind[kind])


def _spending(engine: Engine, since_ms: int) -> Iterator[Advice]:
    overall: dict[date, int] = defaultdict(int)
    of_job: dict[str, dict[date, int]] = defaultdict(lambda: defaultdict(int))
    zone = engine.rules().zone
    today = datetime.fromtimestamp(engine.clock.now_ms() / 1000, UTC).astimezone(zone).date()
    for quarter in spent_since(engine.database, since_ms):
        day = datetime.fromtimestamp(quarter.at_ms / 1000, UTC).astimezone(zone).date()
        if day == today:
            continue  # it is not over
        overall[day] += quarter.nanos
        if quarter.cron_job_id:
            of_job[quarter.cron_job_id][day] += quarter.nanos
    yield from suggest_spending(part_of(Scope.GLOBAL, ""), list(overall.values()), monthly=True)
    for job_id, days in sorted(of_job.items()):
        part = part_of(Scope.CRON_JOB, job_id)
        yield from suggest_spending(part, list(days.values()), monthly=False)


# ---------------------------------------------------------------------- what the file says


def _is_set(engine: Engine, suggestion: Suggestion) -> bool:
    """Whether the file has a number there, whatever it is: a person's choice stays."""
    budget = engine.budget_file.current()
    if suggestion.part[0] == "runs":
        field = RUN_LIMIT_KEYS[suggestion.key]
        return any(p == suggestion.part and field in x.amounts for p, x in run_parts(budget))
    return any(
        part_of(scope, scope_id) == suggestion.part and key == KEYS[suggestion.key]
        for scope, limits in budget.scopes.items()
        for scope_id, key, _, _ in limits.amounts()
    )


def _is_enforced(engine: Engine, part: tuple[str, ...]) -> bool:
    """Whether a limit written there would block at once, beside others that do."""
    budget = engine.budget_file.current()
    if part[0] == "runs":
        return any(
            p == part and layer.amounts and not budget.runs.is_observed(layer)
            for p, layer in run_parts(budget)
        )
    return any(
        part_of(scope, scope_id) == part and not observed
        for scope, limits in budget.scopes.items()
        for scope_id, _, _, observed in limits.amounts()
    )


# ---------------------------------------------------------------------- writing


def _apply(engine: Engine, args: Args, found: list[Suggestion]) -> None:
    """The mode comes first: at no moment does a suggestion block anything."""
    path = engine.budget_file.path
    for part in dict.fromkeys(each.part for each in found):
        config_edit.rewrite(ModeEdit(path, part, Mode.OBSERVE))
    for each in found:
        if each.part[0] == "runs":
            edit = CeilingEdit(path, each.part, each.key, each.number)
            note_ceilings(engine, args.caller, *config_edit.rewrite(edit))
        else:
            key = KEYS[each.key]
            set_by(engine, args.caller, _place(each.part, key.window), key, each.number)
    engine.reload_config()


def _place(part: tuple[str, ...], window: Window) -> Place:
    scope = next(scope for scope, kind in SCOPES.items() if kind.config_key == part[1])
    return Place(scope, part[-1] if "overrides" in part[:-1] else "", window)

"""From what was typed behind `replay` to the limits that are tried, one of them a sweep at most."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from ..messages import replays
from ..messages.layout import upper_first, whose
from ..messages.parts import WINDOW_WORDS, amount
from ..policy.limits import Budget, Key, Measure, Scope, ScopeLimits
from ..policy.loops import Detector, LoopPolicy
from ..policy.money import NANOS_PER_USD, AmountError
from ..policy.observing import enforcing_all
from ..policy.replay.played_loops import REPLAYED
from ..policy.replay.player import Candidate
from ..policy.runs.run_limits import RUN_LIMIT_KEYS, RunLayer, RunPolicy
from .asking import Args, Usage
from .grammar import Place, limit_to_set

CEILINGS: Final = ("dispatches", "tool-calls", "tokens", "wall-clock-s", "usd")
"""Options that name a ceiling of one run; what the ledger does not tell cannot be replayed."""

ALL_DETECTORS: Final = "on"
KINDS: Final = ("chat", "cron", "child")
MOST: Final = 12
_UNITS: Final = ("call", "calls", "token", "tokens", "usd", "dollar", "dollars")


class _Choice(NamedTuple):
    """One value of one limit: how it is named, its place in a sweep, and what it adds."""

    name: str
    value: float
    add: Callable[[Budget], Budget]


def candidates(
    args: Args, file: Budget, id_of: Callable[[Scope, str], str] = lambda _, called: called
) -> list[Candidate]:
    """The limits to try. Without any, what budget.yaml says, observed limits included.

    Args:
        id_of: the id behind what a person calls something.

    Raises:
        Usage: something is not understood, or more than one limit has several values.
    """
    detectors = _detectors(args)
    axes = [*_ceilings(args), *_spend_limits(args, id_of)]
    if not (axes or detectors):
        if not (file.has_limits or file.observes or file.runs.has_limits):
            raise Usage(replays.name_a_limit(args.caller.prefix))
        return [Candidate("budget.yaml", enforcing_all(file))]
    sweeps = [axis for axis in axes if len(axis) > 1]
    if len(sweeps) > 1:
        raise Usage(replays.one_sweep_only())
    if any(len(axis) > MOST for axis in axes):
        raise Usage(replays.too_many_values(MOST))
    loops = _with_detectors(file.loops, detectors)
    base = replace(file, scopes={}, runs=RunPolicy(), loops=loops)
    fixed = [axis[0] for axis in axes if len(axis) == 1]
    for choice in fixed:
        base = choice.add(base)
    if not sweeps:
        names = [choice.name for choice in fixed]
        if detectors:
            names.append(replays.loops_name(detectors))
        return [Candidate(", ".join(names), base, loops=bool(detectors))]
    in_order = sorted(sweeps[0], key=lambda choice: choice.value)
    return [
        Candidate(choice.name, choice.add(base), choice.value, bool(detectors))
        for choice in in_order
    ]


# ---------------------------------------------------------------------- ceilings of one run


def _ceilings(args: Args) -> Iterator[list[_Choice]]:
    kind = args.options.get("kind", "")
    if kind and kind not in KINDS:
        raise Usage(replays.option_not_understood("kind", kind, ", ".join(KINDS)))
    for option in CEILINGS:
        text = args.options.get(option)
        if text is not None:
            yield [_ceiling(option, part.strip(), kind) for part in text.split(",")]


def _ceiling(option: str, text: str, kind: str) -> _Choice:
    from ..store.files.config_values import Wrong
    from ..store.files.run_config import ceiling_from_text

    key = option.replace("-", "_")
    try:
        number = ceiling_from_text(key, text)
    except (Wrong, AmountError) as error:
        raise Usage(replays.option_not_understood(option, text, str(error))) from None
    if number is None:
        raise Usage(replays.option_not_understood(option, text, "a number"))
    field = RUN_LIMIT_KEYS[key]

    def add(budget: Budget) -> Budget:
        return replace(budget, runs=_with_ceiling(budget.runs, kind, field, number))

    name = replays.ceiling_name(key, number, kind)
    return _Choice(name, number / NANOS_PER_USD if key == "usd" else number, add)


def _with_ceiling(runs: RunPolicy, kind: str, field: str, number: float) -> RunPolicy:
    layer = runs.kinds.get(kind, RunLayer()) if kind else runs.default
    layer = RunLayer({**layer.amounts, field: number})
    if kind:
        return replace(runs, kinds={**runs.kinds, kind: layer})
    return replace(runs, default=layer)


# ---------------------------------------------------------------------- loop detectors


def _detectors(args: Args) -> Sequence[Detector]:
    """Those that are to act: `--loops on`, or one by its name."""
    text = args.options.get("loops")
    if text is None:
        return ()
    word = text.lower().replace("-", "_")
    if word == ALL_DETECTORS:
        return REPLAYED
    if word not in set(REPLAYED):
        right = replays.which_detectors(ALL_DETECTORS, REPLAYED)
        raise Usage(replays.option_not_understood("loops", text, right))
    return (Detector(word),)


def _with_detectors(file: LoopPolicy, acting: Sequence[Detector]) -> LoopPolicy:
    """Counts and exceptions are those of budget.yaml; nothing but what is tried acts."""
    settings = {name: replace(file.of(name), on=name in acting) for name in Detector}
    return replace(file, settings=settings)


# ---------------------------------------------------------------------- limits of windows


def _spend_limits(args: Args, id_of: Callable[[Scope, str], str]) -> Iterator[list[_Choice]]:
    """`global daily 3,5,8 and cron_job daily 1.00`."""
    for words in _split_at_and(args.words):
        at = len(words) - (2 if words[-1].lower() in _UNITS else 1)
        values = words[at].split(",") if at >= 0 else [""]
        yield [
            _spend_limit([*words[:at], value, *words[at + 1 :]], args.caller.prefix, id_of)
            for value in values
        ]


def _split_at_and(words: Sequence[str]) -> Iterator[list[str]]:
    part: list[str] = []
    for word in [*words, "and"]:
        if word.lower() != "and":
            part.append(word)
        elif part:
            yield part
            part = []


def _spend_limit(words: Sequence[str], prefix: str, id_of: Callable[[Scope, str], str]) -> _Choice:
    try:
        place, key, number = limit_to_set(words, None, prefix)
    except Usage as usage:
        raise Usage(f"{usage} {replays.how_to_name_a_limit(prefix)}") from None
    place = replace(place, scope_id=id_of(place.scope, place.scope_id))
    if number is None:
        raise Usage(replays.option_not_understood(str(key), words[-1], "an amount"))

    def add(budget: Budget) -> Budget:
        return _with_limit(budget, place, key, number)

    name = f"{WINDOW_WORDS[key.window]} {amount(number, key.measure)}"
    if place.scope is not Scope.GLOBAL:
        name = f"{upper_first(whose(place.scope, place.scope_id))} {name}"
    is_usd = key.measure is Measure.USD
    return _Choice(name, number / NANOS_PER_USD if is_usd else number, add)


def _with_limit(budget: Budget, place: Place, key: Key, number: int) -> Budget:
    before = budget.scopes.get(place.scope, ScopeLimits())
    if place.scope_id:
        own = {**before.overrides.get(place.scope_id, {}), key: number}
        after = replace(before, overrides={**before.overrides, place.scope_id: own})
    else:
        after = replace(before, default={**before.default, key: number})
    return replace(budget, scopes={**budget.scopes, place.scope: after})

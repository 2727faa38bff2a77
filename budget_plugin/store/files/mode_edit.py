"""Writes `mode: observe` or `mode: enforce` into one part of budget.yaml, by `config_edit`."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...policy.limits import SCOPES, Budget, Mode, Scope
from ...policy.observing import enforcing_all
from ...policy.runs.run_limits import RunLayer
from .config import MODE_KEY
from .yaml_nodes import dotted
from .yaml_splice import Step, plain, put, quoted

Part = tuple[str, ...]
"""The keys of a part of budget.yaml that has a mode: `budgets`, `global`; `runs`, `cron`."""


@dataclass(frozen=True, slots=True)
class ModeEdit:
    """One part of one file, and the mode that it is to have; see `config_edit.FileEdit`."""

    path: Path
    part: Part
    mode: Mode
    remove: bool = False

    @property
    def steps(self) -> tuple[Step, ...]:
        """The keys that lead to the mode."""
        return steps_to(self.part, MODE_KEY)

    def apply(self, text: str) -> str:
        """The text of the file with this mode."""
        return put(text, self.steps, self.mode)

    def is_all(self, before: Budget, after: Budget) -> bool:
        """Whether nothing but modes is another."""
        return enforcing_all(before) == enforcing_all(after)


_NAMED: Final = ("overrides", "platforms", "commands")
"""Below these stand names, which may be any text."""


def steps_to(part: Part, key: str) -> tuple[Step, ...]:
    """The way to a key of a part, as it is written."""
    is_name = {n for n, above in enumerate(part, start=1) if above in _NAMED}
    steps = (quoted(each) if n in is_name else plain(each) for n, each in enumerate(part))
    return (*steps, plain(key))


@dataclass(frozen=True, slots=True)
class ModeChange:
    """A part of the file that has another mode now."""

    part: Part

    @property
    def name(self) -> str:
        """For people: `budgets.global`."""
        return dotted(self.part)


def part_of(scope: Scope, scope_id: str) -> Part:
    """Where the limits of one id stand; of the default, where it is empty."""
    kind = SCOPES[scope]
    above = ("budgets", kind.config_key)
    if not kind.takes_id:
        return above
    return (*above, "overrides", scope_id) if scope_id else (*above, "default")


def parts(budget: Budget, mode: Mode) -> Iterator[Part]:
    """The parts of a file with limits in this mode; defaults before what inherits from them."""
    is_observed = mode is Mode.OBSERVE
    for scope, limits in budget.scopes.items():
        found = (
            scope_id
            for scope_id, _, amount, observed in limits.amounts()
            if amount is not None and observed is is_observed
        )
        yield from (part_of(scope, scope_id) for scope_id in dict.fromkeys(found))
    for part, layer in run_parts(budget):
        observed = budget.runs.is_observed(layer)
        if observed is is_observed and any(a is not None for a in layer.amounts.values()):
            yield part


def run_parts(budget: Budget) -> Iterator[tuple[Part, RunLayer]]:
    """The layers of ceilings, by where they stand."""
    runs = budget.runs
    yield ("runs", "default"), runs.default
    yield from ((("runs", kind), layer) for kind, layer in runs.kinds.items())
    for name, layers in (("platforms", runs.platforms), ("commands", runs.commands)):
        yield from ((("runs", name, key), layer) for key, layer in layers.items())

"""Writes one ceiling of runs into budget.yaml; see `config_edit`."""

from dataclasses import dataclass, replace
from pathlib import Path

from ...policy.limits import Budget
from ...policy.money import written_usd
from ...policy.runs.run_limits import RUN_LIMIT_KEYS, RunLayer
from .mode_edit import Part, run_parts, steps_to
from .yaml_splice import Step, put


@dataclass(frozen=True, slots=True)
class CeilingEdit:
    """One ceiling of one part of the section `runs`; money in nano-dollars."""

    path: Path
    part: Part
    key: str
    number: int
    remove: bool = False

    @property
    def steps(self) -> tuple[Step, ...]:
        """The keys that lead to it."""
        return steps_to(self.part, self.key)

    def apply(self, text: str) -> str:
        """The text of the file with this ceiling."""
        number = written_usd(self.number) if self.key == "usd" else str(self.number)
        return put(text, self.steps, number)

    def is_all(self, before: Budget, after: Budget) -> bool:
        """Whether this ceiling alone is another."""
        was, now = dict(run_parts(before)), dict(run_parts(after))
        layer = was.pop(self.part, RunLayer())
        amounts = {**layer.amounts, RUN_LIMIT_KEYS[self.key]: self.number}
        changed = now.pop(self.part, RunLayer())
        is_it = changed == replace(layer, amounts=amounts)
        return is_it and was == now and _rest(before) == _rest(after)


def _rest(budget: Budget) -> Budget:
    """The budget without the ceilings of runs."""
    runs = replace(budget.runs, default=RunLayer(), kinds={}, platforms={}, commands={})
    return replace(budget, runs=runs)

"""The parts of the plugin in one process, joined."""

from pathlib import Path
from typing import TYPE_CHECKING

from .hooks import Hooks
from .model_gate import ModelGate
from .runs import Runs
from .runtime import Runtime

if TYPE_CHECKING:
    from ..engine.engine import Engine


class Parts:
    """Runtime, gate and hooks of one home; made once, so that registering again finds the same."""

    def __init__(self, home: Path) -> None:
        self.runtime = Runtime(home)
        runs = Runs(self.runtime)
        self.gate = ModelGate(self.runtime, runs)
        self.hooks = Hooks(self.runtime, runs, self.gate)
        self.runtime.on_engine = _join_cron


def _join_cron(engine: "Engine") -> None:
    from .cron_jobs import CronJobs

    engine.on_hard = CronJobs(engine).on_hard

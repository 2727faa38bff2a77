"""The parts of the plugin in one process, joined."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from .auxiliary import AuxiliaryCalls
from .commands import Commands
from .cron_marker import MARKER
from .hooks import Hooks
from .model_gate import ModelGate
from .model_tools import ModelTools
from .runs import Runs
from .runtime import Runtime
from .tool_gate import ToolGate

if TYPE_CHECKING:
    from ..engine.engine import Engine


class Parts:
    """Runtime, gate and hooks of one home.

    Args:
        profile: the host's active profile, asked when a run begins.
    """

    def __init__(self, home: Path, profile: Callable[[], str] = str) -> None:
        self.runtime = Runtime(home)
        self.runtime.profile = profile
        runs = Runs(self.runtime)
        self.gate = ModelGate(self.runtime, runs)
        self.tools = ToolGate(self.runtime, runs)
        self.model_tools = ModelTools(self.runtime)
        self.commands = Commands(self.runtime)
        self.auxiliary = AuxiliaryCalls(self.runtime, runs)
        self.hooks = Hooks(self.runtime, runs, self.gate, self.commands, self.auxiliary)
        self.runtime.on_engine = partial(_join_cron, self.runtime)

    def resume_cron_jobs(self) -> None:
        """Resume the jobs of ours whose reset has come; for a process that has just begun."""
        self.runtime.engine()
        if self.runtime.cron is not None:
            self.runtime.cron.resume_due()


def _join_cron(runtime: Runtime, engine: "Engine") -> None:
    from .cron_jobs import CronJobs

    runtime.cron = cron = CronJobs(engine)
    engine.on_hard = cron.on_hard
    if (engine.folder / MARKER).exists():
        cron.wait_for_resets()

"""Finds or opens the run that a hook belongs to."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..engine.live_runs import LiveRun
from .identity import command_of, first_message, ids_of, origin_of, run_of
from .runtime import Runtime


class Runs:
    """From a hook's arguments to the live run; opens it where the hook is the first to speak."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def known(self, kwargs: Mapping[str, Any]) -> LiveRun | None:
        """The run that a hook speaks of, if this process knows it; touches no database."""
        ids = ids_of(kwargs)
        runs = self._runtime.engine().runs
        return runs.find(ids.turn_id, ids.session_id, ids.task_id)

    def of(self, kwargs: Mapping[str, Any]) -> LiveRun:
        """The run that a hook speaks of, opened if need be."""
        return self.known(kwargs) or self.open(kwargs)

    def open(self, kwargs: Mapping[str, Any]) -> LiveRun:
        """Open a run at the start of its turn; again for the same turn changes nothing."""
        engine = self._runtime.engine()
        run = run_of(kwargs, engine.clock.now_ms(), self._runtime.profile())
        foreground = run.kind != "review"
        message = kwargs.get("user_message")
        source = engine.judge.rules(look_again=False).budget.runs.ticket
        if source.env or source.pattern:
            ticket = source.find(os.environ, run.session_id, first_message(kwargs))
            run = replace(run, ticket_id=ticket)
        return engine.open_run(
            run,
            task_id=ids_of(kwargs).task_id,
            foreground=foreground,
            command=command_of(message),
            origin=origin_of(message),
        )

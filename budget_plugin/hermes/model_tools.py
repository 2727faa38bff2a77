"""The budget's own tools: a model asks what is left, answers a checkpoint, says how its run ends.

What it writes is read as a report: counts may only grow, texts are kept, and no ceiling moves.
"""

import json
import logging
from collections.abc import Mapping
from typing import Any, Final

from ..engine.live_runs import LiveRun
from ..messages import run_words
from ..policy.runs.endings import TerminalState
from ..policy.runs.statements import Declared, Progress
from .guard import guarded
from .identity import word
from .runtime import Runtime

log = logging.getLogger(__name__)

_MOST_LINES: Final = 20


def _answer(text: str) -> str:
    """Tools of the host answer in JSON."""
    return json.dumps({"budget": text}, ensure_ascii=False)


_NO_RUN: Final = _answer(run_words.tool_without_run())


class ModelTools:
    """One method per tool; the names are those of `tool_schemas`."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    @guarded(False)
    def offered(self) -> bool:
        """Whether some run has ceilings; without them there is nothing to ask or to say."""
        return self._runtime.engine().rules().budget.runs.has_limits

    @guarded(_NO_RUN)
    def budget_status(self, _args: Any, **where: Any) -> str:
        """What is left of the run's budget."""
        return self._left(self._run(where))

    @guarded(_NO_RUN)
    def budget_checkpoint(self, args: Any, **where: Any) -> str:
        """An account of progress; answered with what is left."""
        live = self._run(where)
        if live is not None:
            engine = self._runtime.engine()
            loops = engine.rules().budget.loops
            engine.statements.checkpoint(live, _progress(_said(args)), loops)
        return self._left(live)

    @guarded(_NO_RUN)
    def budget_resolve(self, args: Any, **where: Any) -> str:
        """How the run ends by its own account; it ends with its final answer."""
        live, said = self._run(where), _said(args)
        if live is None:
            return _NO_RUN
        try:
            state = TerminalState(word(said.get("state")))
        except ValueError:
            return _answer(run_words.no_such_state(list(TerminalState)))
        delivered, gaps = _lines(said.get("delivered")), _lines(said.get("gaps"))
        declared = Declared(state, delivered, gaps, word(said.get("next_owner")))
        self._runtime.engine().statements.declare(live, declared)
        return _answer(run_words.ending_noted())

    def _left(self, live: LiveRun | None) -> str:
        if live is None or live.guarded is None:
            return _NO_RUN
        return _answer(live.guarded.budget.render(self._runtime.engine().clock.monotonic()))

    def _run(self, where: Mapping[str, Any]) -> LiveRun | None:
        runs = self._runtime.engine().runs
        return runs.find("", word(where.get("session_id")), word(where.get("task_id")))


def _said(args: Any) -> Mapping[str, Any]:
    return args if isinstance(args, dict) else {}


def _progress(said: Mapping[str, Any]) -> Progress:
    established = said.get("established")
    score = said.get("score")
    return Progress(
        established=word(established) if established is not None else None,
        enough=word(said.get("enough")),
        smallest=word(said.get("smallest")),
        head=word(said.get("head")),
        artifact=word(said.get("artifact")),
        score=float(score) if isinstance(score, int | float) else None,
        critiques=_count(said.get("critiques")),
        rejudges=_count(said.get("rejudges")),
        retriages=_count(said.get("retriages")),
    )


def _count(value: object) -> int:
    return value if type(value) is int and 0 <= value < 10**6 else 0


def _lines(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,) if value else ()
    if not isinstance(value, list):
        return ()
    return tuple(text for item in value[:_MOST_LINES] if (text := word(item)))

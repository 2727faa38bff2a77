"""The tool gate: what is asked before a tool starts, and who hears of it when it has ended.

Both are lists in the order in which they are asked; a new rule is a new entry. Nothing here reads
the ledger: verdicts come from memory.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from .. import messages
from ..engine.live_runs import LiveRun
from ..engine.runs.undoing import is_to_undo
from ..messages.claims import effect_not_recorded, effect_refused
from ..messages.loops import loop_refused
from ..messages.protection import change_refused
from ..messages.roles import role_refused
from ..policy.claims import Answer, Effect, outcome_of
from ..policy.digests import exit_code
from ..policy.limits import Budget
from ..policy.loops import read_tool_event
from .child_roles import asked_children, asks_a_judge, dispatch_breach
from .guard import guarded
from .identity import DELEGATION, children_of, word
from .runs import Runs
from .runtime import Runtime
from .tool_schemas import NAMES as OWN_TOOLS

if TYPE_CHECKING:
    from ..engine.engine import Engine
    from ..engine.rules import Rules
    from .self_protection import SelfProtection

log = logging.getLogger(__name__)

CRON_TOOL: Final = "cronjob"


@dataclass(slots=True)  # not frozen: one is made at every tool, and that costs three times as much
class ToolCall:
    """One tool call of a run.

    Attributes:
        args: whatever the model wrote.
        said: what the host says of it besides: `tool_call_id`, `result`, `error_message`, …
    """

    live: LiveRun
    tool: str
    args: object
    task_id: str
    said: Mapping[str, Any]

    @property
    def call_id(self) -> str:
        """The model's own id of the call; few rules ask for it."""
        return word(self.said.get("tool_call_id"))


@dataclass(slots=True)
class ToolEnd:
    """A tool call that ran."""

    call: ToolCall
    failed: bool


Refusal = Callable[["Engine", ToolCall], str | None]
"""The text for the model that refuses a call, `None` to let it pass."""

Observer = Callable[["Engine", ToolEnd], None]
"""Takes note of a call that has ended."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry of the list.

    Attributes:
        speaks: whether the settings have a word on it.
        tool: the one tool that it is about; all of them where none is named.
    """

    refuses: Refusal
    speaks: Callable[[Budget], object] = lambda _budget: True
    tool: str = ""


class _Asked(NamedTuple):
    """What the settings leave of the rules, in order: for some tools, and for all others."""

    settings: "Rules | None"
    of_tool: Mapping[str, tuple[Refusal, ...]]
    of_others: tuple[Refusal, ...]


def _left_of(rules: Iterable[Rule], settings: "Rules") -> _Asked:
    speaking = [rule for rule in rules if rule.speaks(settings.budget)]

    def about(tool: str) -> tuple[Refusal, ...]:
        return tuple(rule.refuses for rule in speaking if rule.tool in ("", tool))

    return _Asked(settings, {rule.tool: about(rule.tool) for rule in speaking}, about(""))


class ToolGate:
    """`pre_tool_call` and `post_tool_call`."""

    def __init__(self, runtime: Runtime, runs: Runs) -> None:
        self._runtime = runtime
        self._runs = runs
        # The run's own budget is asked late: what another rule refuses is no tool call. Only an
        # effect is claimed after it: what was claimed and does not happen would hold up others.
        self._rules: tuple[Rule, ...] = (
            Rule(self._job, tool=CRON_TOOL),
            Rule(self._own_files),
            Rule(self._roles, lambda budget: budget.tiers.roles),
            Rule(self._loops, lambda budget: budget.loops.acts),
            Rule(self._ceilings),
            Rule(self._effects, lambda budget: budget.claims),
        )
        """Each after its forerunner; `_spent` before all."""
        self._asked = _Asked(None, {}, ())
        self._observers: tuple[Observer, ...] = (self._counted, self._retried, self._watched)

    @guarded(None)
    def pre_tool_call(self, **kwargs: Any) -> dict[str, str] | None:
        """May this tool start; without configuration nothing is asked."""
        if self._runtime.nothing_configured():
            return None
        engine = self._runtime.engine()
        task_id = word(kwargs.get("task_id"))
        live = engine.runs.find(
            word(kwargs.get("turn_id")), word(kwargs.get("session_id")), task_id
        )
        call = _call(live or self._runs.open(kwargs), kwargs, task_id)
        if call.tool in OWN_TOOLS:  # asking what is left uses nothing up
            return None
        text = self._spent(engine, call)  # it looks at budget.yaml, too
        if text is not None:
            return {"action": "block", "message": text}
        asked = self._asked
        if asked.settings is not engine.judge.latest_rules:
            asked = self._asked = _left_of(self._rules, engine.judge.latest_rules)
        for refuses in asked.of_tool.get(call.tool, asked.of_others):
            text = refuses(engine, call)
            if text is not None:
                return {"action": "block", "message": text}
        return None

    @guarded(None)
    def post_tool_call(self, **kwargs: Any) -> None:
        """A tool has ended; one that was blocked never ran."""
        if not self._runtime.ready:
            return
        status = kwargs.get("status")
        live = self._runs.known(kwargs)
        if live is None:
            return
        engine = self._runtime.engine()
        call = _call(live, kwargs, word(kwargs.get("task_id")))
        if call.tool in OWN_TOOLS:
            return
        if engine.claims.awaits_ends:
            self._settle(engine, call)
        if status not in ("ok", "error"):
            return
        end = ToolEnd(call, status == "error")
        for takes_note in self._observers:
            takes_note(engine, end)

    # -------------------------------------------------------------- the refusals, in their order

    @staticmethod
    def _spent(engine: "Engine", call: ToolCall) -> str | None:
        """A spend limit is reached: the run has to finish."""
        verdict = engine.tool_verdict(call.live)
        if verdict is None or not verdict.blocks:
            return None
        engine.blocked_tool(call.live, verdict)
        call.live.said.setdefault("hard", verdict)
        return messages.tool_refused(verdict, engine.rules().zone)

    def _job(self, engine: "Engine", call: ToolCall) -> str | None:
        """A model may not start a job whose own limit is spent."""
        if call.tool != CRON_TOOL or self._runtime.cron is None:
            return None
        verdict = self._runtime.cron.refuses_tool(call.args)
        return None if verdict is None else messages.job_refused(verdict, engine.rules().zone)

    def _own_files(self, _engine: "Engine", call: ToolCall) -> str | None:
        """A model may not change the budget that it is held to."""
        refused = self._protection.refuses(call.tool, call.args, call.task_id)
        return change_refused() if refused else None

    @staticmethod
    def _ceilings(engine: "Engine", call: ToolCall) -> str | None:
        """The ceilings of the run itself; a call that passes is counted."""
        children = children_of(call.args) if call.tool == DELEGATION else None
        refused = engine.guard.try_tool(call.live, call.tool, call.args, children)
        if refused is None:
            return None
        return messages.run_tool_refused(refused, to_undo=is_to_undo(call.live))

    @staticmethod
    def _roles(engine: "Engine", call: ToolCall) -> str | None:
        """Who may only judge writes nothing, and nobody dispatches whom they may not."""
        policy = engine.judge.latest_rules.budget.tiers
        breach = engine.roles.may_use(call.live, policy, call.tool)
        if breach is None and call.tool == DELEGATION:
            breach = dispatch_breach(engine.roles, policy, call.live, call.args)
            if breach is None and asks_a_judge(policy, call.args):
                return _judged(engine, call)
        return None if breach is None else role_refused(breach)

    @staticmethod
    def _loops(engine: "Engine", call: ToolCall) -> str | None:
        """A call that would only go on with a circle, where its detector is switched on."""
        delegates = call.tool == DELEGATION
        if not delegates and not engine.loops.may_refuse(call.live):
            return None
        budget = engine.judge.latest_rules.budget
        if delegates:
            children = asked_children(budget.tiers.role_names(), call.args)
            found = engine.loops.refuses_dispatch(call.live, budget.loops, children)
        else:
            found = engine.loops.refuses(call.live, budget.loops, call.tool, call.args)
        return None if found is None else loop_refused(found)

    @staticmethod
    def _effects(engine: "Engine", call: ToolCall) -> str | None:
        """What was done already is not done twice. Last of all: whoever passes here, does it."""
        rules = engine.judge.latest_rules
        effect = engine.claims.effect_of(rules, call.tool, call.args)
        return None if effect is None else _claimed(engine, rules, call, effect)

    # ------------------------------------------------------------------ the observers

    @staticmethod
    def _settle(engine: "Engine", call: ToolCall) -> None:
        """How the effect of a claimed call came out; also of one that another plugin blocked."""
        rules = engine.judge.latest_rules
        effect = engine.claims.effect_of(rules, call.tool, call.args)
        if effect is None:
            return
        status = word(call.said.get("status"))
        error = word(call.said.get("error_message"))
        outcome = outcome_of(status, error, exit_code(call.said.get("result")))
        engine.claims.ended(call.live, effect, call.call_id, outcome, blocked=status == "blocked")

    def _counted(self, engine: "Engine", end: ToolEnd) -> None:
        """Where nothing is configured the gate does no work at all: the call is counted here."""
        if self._runtime.nothing_configured():
            self._ceilings(engine, end.call)

    @staticmethod
    def _retried(engine: "Engine", end: ToolEnd) -> None:
        """The same on the same target after a failure is a retry."""
        engine.guard.tool_ended(end.call.live, end.call.tool, end.call.args, failed=end.failed)

    @staticmethod
    def _watched(engine: "Engine", end: ToolEnd) -> None:
        """What the call and its result reveal about going in circles; digests only."""
        call, said = end.call, end.call.said
        event = read_tool_event(
            engine.loops.next_number(),
            call.tool,
            call.args,
            said.get("result"),
            status=word(said.get("status")),
            error=word(said.get("error_message")) or None,
            at_s=engine.clock.monotonic(),
            # Calls of one script are judged as one: its model has not seen them one by one.
            step=word(said.get("api_request_id")) or f"script {call.task_id}",
        )
        policy = engine.judge.latest_rules.budget.loops
        engine.loops.tool_ended(call.live, policy, event, delegates=call.tool == DELEGATION)

    @cached_property
    def _protection(self) -> "SelfProtection":
        from .realm import Realm
        from .self_protection import SelfProtection

        runtime = self._runtime
        return SelfProtection(Realm(runtime.home, lambda: runtime.engine().database.path))


def _call(live: LiveRun, said: Mapping[str, Any], task_id: str) -> ToolCall:
    return ToolCall(live, word(said.get("tool_name")), said.get("args"), task_id, said)


def _judged(engine: "Engine", call: ToolCall) -> str | None:
    refused = engine.statements.judge_is_asked(call.live)
    return None if refused is None else messages.run_tool_refused(refused)


def _claimed(engine: "Engine", rules: "Rules", call: ToolCall, effect: Effect) -> str | None:
    from ..engine.claim_guard import NoAnswer

    try:
        told = engine.claims.claim(call.live, rules, effect, call.call_id)
    except NoAnswer:
        return effect_not_recorded(effect)
    return None if told.answer is Answer.GO else effect_refused(told, rules.zone)

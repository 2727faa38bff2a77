"""The host's hooks around turns and sessions; those around tools are in `tool_gate`."""

import logging
from typing import TYPE_CHECKING, Any

from .. import messages
from ..engine.live_runs import LiveRun
from ..messages.extensions import request_line
from ..messages.run_words import account
from ..policy.runs.extensions import RequestState
from ..policy.runs.run_limits import Report
from ..policy.verdicts import Verdict
from .auxiliary import AuxiliaryCalls
from .child_roles import role_of_child
from .commands import Commands
from .guard import guarded
from .identity import word
from .model_gate import ModelGate
from .runs import Runs
from .runtime import Runtime

if TYPE_CHECKING:
    from ..engine.rules import Rules

log = logging.getLogger(__name__)


class Hooks:
    """One method per hook that we register; the names are the host's."""

    def __init__(
        self,
        runtime: Runtime,
        runs: Runs,
        gate: ModelGate,
        commands: Commands,
        auxiliary: AuxiliaryCalls | None = None,
    ) -> None:
        self._runtime = runtime
        self._runs = runs
        self._gate = gate
        self._commands = commands
        self._told = 0
        """The generation of budget.yaml whose mistakes were told."""
        self._auxiliary = auxiliary or AuxiliaryCalls(runtime, runs)

    @guarded(None)
    def on_session_start(self, **_: Any) -> None:
        """A new session: the host prepares its first turn, we make the engine meanwhile."""
        self._runtime.preload()

    @guarded(None)
    def pre_llm_call(self, **kwargs: Any) -> dict[str, str] | None:
        """The start of a turn: open its run, look for a budget.yaml, give alerts that are due."""
        engine = self._runtime.engine()
        engine.rules()  # what the file says now holds for the run that begins
        live = self._runs.open(kwargs)
        self._auxiliary.look()  # a title is written after its turn: now is the time to see it
        live.answer = self._commands.answer_from_text(
            kwargs.get("user_message"),
            word(kwargs.get("sender_id")),
            word(kwargs.get("platform")),
        )
        rules = engine.rules()
        briefing = engine.telling.briefing(live)
        told = [] if briefing is None else [messages.run_budget_note(briefing)]
        if rules.has_limits:
            told += self._alerts(live, rules)
        return {"context": "\n".join(told)} if told else None

    def _alerts(self, live: LiveRun, rules: "Rules") -> list[str]:
        """The soft alerts that are due, for the model; all that are due are kept for the person."""
        engine = self._runtime.engine()
        alerts = engine.new_alerts(live)
        for verdict in alerts:
            live.said[f"{verdict.limit}"] = verdict
        soft = [verdict for verdict in alerts if not verdict.blocks]
        return [messages.soft_alert_for_model(soft, rules.zone)] if soft else []

    @guarded(None)
    def post_api_request(self, **kwargs: Any) -> None:
        """The host's own report of a billed call."""
        self._gate.reported(kwargs)

    @guarded(None)
    def pre_verify(self, **kwargs: Any) -> dict[str, str] | None:
        """A turn that changed files would end: where continuation is on, it may be sent on.

        The only hook that keeps a turn alive; the host asks it a few times in a turn at most.
        """
        if not self._runtime.ready or self._runtime.nothing_configured():
            return None
        live = self._runs.known(kwargs)
        nudge = self._runtime.engine().continuing.look(live) if live is not None else ""
        return {"action": "continue", "message": nudge} if nudge else None

    @guarded(None)
    def transform_llm_output(self, **kwargs: Any) -> str | None:
        """The end of a turn: add the line for the person, if there is something to say."""
        if not self._runtime.ready:
            return None
        live = self._runs.known(kwargs)
        text = kwargs.get("response_text")
        if live is None or not isinstance(text, str) or live.run.kind in ("child", "review"):
            return None
        said = (
            self._person_line(live, text),
            self._found(live),
            self._account(live),
            self._request(live),
            self._mistakes(live),
        )
        lines = [line for line in said if line]
        return "\n".join((f"{text}\n", *lines)) if lines else None

    @staticmethod
    def _found(live: LiveRun) -> str:
        """What roles and tiers were not kept in the run or under it, once."""
        remarks, live.remarks = live.remarks, []
        return messages.role_remarks(remarks) if remarks else ""

    def _mistakes(self, live: LiveRun) -> str:
        """That the settings have a mistake: once for each state of the file, to the local person.

        In a chat app any sender would read it; there `status` tells those who may change limits.
        """
        file = self._runtime.engine().budget_file
        if not file.problems or live.run.sender_id or self._told == file.generation:
            return ""
        self._told = file.generation
        return messages.settings_mistake(
            file.problems, limited=not self._runtime.engine().rules().limits_nothing
        )

    def _account(self, live: LiveRun) -> str:
        """How the run ended, under its answer; only where run limits are set."""
        receipt = self._runtime.engine().guard.account(live)
        if receipt is None or live.guarded is None:
            return ""
        report = live.guarded.rules.report
        if report is Report.NEVER or (report is Report.PARTIAL and not receipt.is_partial):
            return ""
        return account(receipt, _spent_ticket(live, receipt.ending.cause))

    def _request(self, live: LiveRun) -> str:
        """That the run asks for more, and how a person says yes or no."""
        request = self._runtime.engine().extensions.ask(live)
        if request is None or request.state is not RequestState.OPEN:
            return ""
        return request_line(request, local=live.run.platform == "cli")

    def _person_line(self, live: LiveRun, answer: str) -> str:
        said, live.said = live.said, {}
        if not said:
            return ""
        zone = self._runtime.engine().rules().zone
        shown: dict[object, Verdict] = {}
        for verdict in said.values():
            shown[verdict.limit] = verdict
        local = live.run.platform == "cli"
        return "\n".join(
            messages.person_line(verdict, zone, answer, local=local) for verdict in shown.values()
        )

    @guarded(None)
    def on_session_end(self, **kwargs: Any) -> None:
        """The end of a turn (the host's name is misleading: it comes after every turn)."""
        if not self._runtime.ready:
            return
        self._auxiliary.look()
        live = self._runs.known(kwargs)
        if live is None:
            return
        interrupted = bool(kwargs.get("interrupted"))
        completed = bool(kwargs.get("completed"))
        outcome = "interrupted" if interrupted else "completed" if completed else "failed"
        self._runtime.engine().end_run(live, outcome)

    @guarded(None)
    def on_session_finalize(self, **kwargs: Any) -> None:
        """A conversation is put away: what it asked for besides its turns is there by now, and a
        run that waits for a delegation is not gone on with."""
        if self._runtime.ready:
            engine = self._runtime.engine()
            live = engine.runs.find("", word(kwargs.get("session_id")))
            if live is not None:
                engine.guard.release(live)
        self._auxiliary.look()

    @guarded(None)
    def post_auxiliary_call(self, **kwargs: Any) -> None:
        """A newer host's own report of a call that passes no gate."""
        self._auxiliary.reported(kwargs)

    @guarded(None)
    def subagent_start(self, **kwargs: Any) -> None:
        """A run delegates: bind the child's session before the child begins."""
        child = word(kwargs.get("child_session_id"))
        if not child:
            return
        parent_ids = {
            "turn_id": kwargs.get("parent_turn_id"),
            "session_id": kwargs.get("parent_session_id"),
        }
        parent = self._runs.of(parent_ids)
        engine = self._runtime.engine()
        role = role_of_child(engine.roles, parent, kwargs)
        engine.delegated(parent, child, role)
        policy = engine.judge.latest_rules.budget.loops
        engine.loops.dispatched(parent, policy, child, role, word(kwargs.get("child_goal")))

    @guarded(None)
    def subagent_stop(self, **kwargs: Any) -> None:
        """A child has stopped."""
        child = word(kwargs.get("child_session_id"))
        if child and self._runtime.ready:
            engine = self._runtime.engine()
            status = word(kwargs.get("child_status"))
            answered = status == "completed" and bool(word(kwargs.get("child_summary")))
            engine.loops.returned(child, answered=answered)
            engine.child_stopped(child, status)
            live = engine.runs.find("", child)
            if live is not None:
                engine.end_run(live, status or "stopped")


def _spent_ticket(live: LiveRun, cause: str) -> str:
    """The ticket whose budget ended a run, or "": the run's own numbers would not explain it."""
    ticket = live.guarded.ticket if live.guarded is not None else None
    if ticket is None or ticket.shared.budget.state.cause != cause:
        return ""
    return "" if live.guarded is None or live.guarded.is_nobodys else ticket.ticket_id

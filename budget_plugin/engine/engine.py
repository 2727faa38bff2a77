"""The engine: the one object that joins policy and store. Runs, verdicts, admission, recording.

A process has one engine per ledger. Everything here is safe to call from many threads; nothing
here knows the host's dictionaries.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from cachetools import LRUCache

from ..policy.admission import Expected, Kind
from ..policy.charges import ScopeId, call_scopes, run_scopes
from ..policy.events import Call, CostSource, Edge, Run
from ..policy.limit_changes import HeldLimit
from ..policy.prices.pricing import price_call
from ..policy.prices.usage import CHARS_PER_TOKEN, UsageReport, estimate_usage
from ..policy.runs.endings import Outcome
from ..policy.verdicts import Level, Verdict, strictest
from ..store.checkpoints import CheckpointBook
from ..store.claims import Claims
from ..store.day_sums import DaySums
from ..store.extensions import ExtensionRequests
from ..store.files.config import BudgetFile
from ..store.files.prices import PriceBook
from ..store.host_jobs import HostJobs
from ..store.journal import Journal, LimitChange
from ..store.ledger import Ledger, Recorded, charged_like
from ..store.limit_history import LimitHistory
from ..store.local_zone import local_zone
from ..store.reservations import Reservations
from ..store.run_records import RunRecords
from ..store.sql.database import Database, LedgerError
from ..store.tickets import TicketAccounts
from ..store.tool_events import ToolEvents
from ..store.waiting import WaitingRows
from .admissions import Admissions
from .claim_guard import ClaimGuard
from .clock import Clock, SystemClock
from .decisions import decision_of
from .downgrades import Downgrades
from .in_flight import InFlight
from .judge import Judge
from .leftovers import Leftovers
from .limit_guard import Breaches, LimitGuard
from .live_runs import LiveRun, LiveRuns, Origin
from .loop_guard import LoopGuard
from .observer import Observer
from .permits import Permit, Request
from .recorder import PATIENCE_S, Recorder, Write
from .retention import Retention
from .role_guard import RoleGuard
from .rules import Rules, zone_of
from .runs.continuing import Continuing
from .runs.extensions import Extensions
from .runs.run_beginnings import RunBeginnings
from .runs.run_guard import RunGuard
from .runs.run_statements import RunStatements
from .runs.run_telling import RunTelling
from .runs.tickets import Tickets
from .tool_log import ToolLog

log = logging.getLogger(__name__)

OnHard = Callable[[Run, Verdict], None]


class Engine:
    """Budgets of one home folder.

    Args:
        home: the host's home; everything of ours lies in `<home>/budget/`.
        local_zone: the machine's time zone, asked when budget.yaml names none.
    """

    def __init__(
        self,
        home: Path,
        *,
        clock: Clock | None = None,
        local_zone: Callable[[], ZoneInfo] = local_zone,
    ) -> None:
        self.folder = home / "budget"
        self.clock = clock or SystemClock()
        self.budget_file = BudgetFile(self.folder / "budget.yaml")
        self.prices = PriceBook(self.folder / "pricing.yaml")
        self.jobs = HostJobs(home)
        self.database = Database(ledger_path(self.folder, self.budget_file))
        self.ledger = Ledger(self.database)
        self.journal = Journal(self.database)
        self.reservations = Reservations(self.database)
        waiting_rows = WaitingRows(self.folder)
        self.recorder = Recorder(waiting_rows)
        zone = partial(zone_of, local_zone)
        history = LimitHistory(self.database, self.budget_file.path)
        breaches = Breaches(self.ledger, history, self.recorder, self.clock, zone)
        self.limits = LimitGuard(self.budget_file, history, breaches, self.clock)
        self.judge = Judge(
            self.budget_file, self.ledger, self.recorder, self.clock, self.limits, zone
        )
        self.observer = Observer(self.judge, self.journal, self.recorder, self.clock)
        self.run_records = RunRecords(self.database)
        self.claims = ClaimGuard(Claims(self.database), self.journal, self.recorder, self.clock)
        tickets = Tickets(TicketAccounts(self.database), self.recorder, self.clock)
        self.extensions = Extensions(
            ExtensionRequests(self.database), self.journal, self.recorder, self.clock
        )
        self._beginnings = RunBeginnings(
            self.run_records, self.recorder, self.clock, tickets, self.extensions
        )
        self.guard = RunGuard(
            self.run_records,
            self.journal,
            self.recorder,
            self.clock,
            tickets,
            self.extensions,
            self._beginnings,
        )
        self.telling = RunTelling(self.clock)
        self.admissions = Admissions(
            self.judge, self.reservations, self.prices, self.clock, self.guard
        )
        self.leftovers = Leftovers(
            self.ledger, self.reservations, waiting_rows, self.prices, self.judge, self.clock
        )
        self.retention = Retention(DaySums(self.database), self.judge, self.recorder, self.clock)
        self.in_flight = InFlight(self.record)
        self._took_up = False
        self.runs = LiveRuns()
        self.continuing = Continuing(self.runs, self.journal, self.recorder, self.clock)
        self.roles = RoleGuard(self.runs, self.journal, self.recorder, self.clock)
        self.downgrades = Downgrades(self.roles)
        self.tool_log = ToolLog(ToolEvents(self.database), self.recorder, self.clock)
        self.loops = LoopGuard(
            self.runs, self.guard, self.journal, self.recorder, self.tool_log, self.clock
        )
        self.checkpoints = CheckpointBook(self.database)
        self.statements = RunStatements(
            self.checkpoints, self.guard, self.loops, self.recorder, self.clock
        )
        self.on_hard: OnHard = lambda run, verdict: None
        """Called once per run and limit when a hard verdict covers a run; must return quickly."""
        self._noted: LRUCache[tuple[object, ...], bool] = LRUCache(4_096)
        self._unpriced: LRUCache[tuple[str, str], bool] = LRUCache(1_024)

    # ------------------------------------------------------------------ runs

    def open_run(
        self,
        run: Run,
        *,
        task_id: str = "",
        foreground: bool = True,
        command: str = "",
        origin: Origin = Origin.PERSON,
    ) -> LiveRun:
        """Begin a run, or find the one that has begun. A child is charged like its root.

        Args:
            command: what the run carries out, where that is known.
            origin: who has opened the turn. One of the host's own draws on the budget of the run
                that caused it.
        """
        known = self.runs.find(run.run_id)
        if known is not None:
            return self.runs.add(known.run, task_id=task_id, foreground=foreground)
        run = self._charged(run)
        before = self.runs.find("", run.session_id) if foreground else None
        live = self.runs.add(run, task_id=task_id, foreground=foreground)
        caused_by = self._begin(live, before, command=command, origin=origin)
        self.recorder.later(Write(partial(self.ledger.add_run, run)))
        self.retention.look_now_and_then()
        self._beginnings.link(live, caused_by)
        return live

    def _begin(
        self, live: LiveRun, before: LiveRun | None, *, command: str, origin: Origin
    ) -> LiveRun | None:
        """Give a run its own budget, under its parent's or that of the run it goes on for.

        Returns:
            The run that caused it, where the host has opened it by itself.
        """
        if before is not None and before is not live:
            live.model_before = before.first_model or before.model_before
            live.carry_from(before)
            self.guard.stopped_without_a_word(before)
        policy = self.judge.rules(look_again=False).budget.runs
        parent, caused_by = self.runs.parent_of(live.run.session_id), None
        if parent is None and origin is not Origin.PERSON:
            caused_by = self.runs.cause_of(live.run.session_id, origin) or before
        outer = parent or caused_by
        goes_on = caused_by is not None
        guarded = outer.guarded if outer else None
        self._beginnings.begin(live, policy, guarded, command, goes_on=goes_on)
        by_person = origin is Origin.PERSON and live.run.kind == "chat"
        self.loops.begin(live, before, by_person=by_person)
        return caused_by

    def _charged(self, run: Run) -> Run:
        """The run with the scopes of its root; a background review is charged like its session."""
        if run.kind == "review":
            reviewed = self.runs.find("", run.session_id)
            return charged_like(run, self.root_of(reviewed.run)) if reviewed else run
        parent = self.parent_of(run)
        if parent is not None:
            return replace(charged_like(run, self.root_of(parent)), kind="child")
        return self._continued(run)

    def _continued(self, run: Run) -> Run:
        """A session that compression has renamed goes on at the cost of its cron job."""
        before = self.runs.find("", run.session_id)
        if before is None or before.run.session_id == run.session_id:
            return run
        return replace(run, cron_job_id=run.cron_job_id or before.run.cron_job_id)

    def parent_of(self, run: Run) -> Run | None:
        """The run that delegated to this run's session, from memory, else from the ledger."""
        known = self.runs.parent_of(run.session_id)
        if known is not None:
            return known.run
        if run.kind != "child":
            return None
        try:
            return self.ledger.parent_of_session(run.session_id)
        except LedgerError:
            return None

    def root_of(self, run: Run) -> Run:
        """The run whose scopes a run is charged to; the run itself where nothing else is known."""
        root = self.runs.find(run.root_run_id)
        return root.run if root is not None else run

    def end_run(self, live: LiveRun, outcome: str) -> None:
        """A turn of a run is over; its first ending stands.

        Args:
            outcome: in the host's words: completed, interrupted, failed, or another.
        """
        self.continuing.ended(live)
        self.guard.finish(live, _OUTCOMES.get(outcome, Outcome.FAILED))
        self.tool_log.flush()
        self.recorder.later(
            Write(
                lambda patience_s: self.ledger.end_run(
                    live.run.run_id, self.clock.now_ms(), outcome, patience_s
                )
            )
        )

    def delegated(self, parent: LiveRun, child_session_id: str, role: str) -> None:
        """A run has started a child session: whatever that spends is the root's."""
        self.runs.bind_child(child_session_id, parent, role)
        self.guard.delegated(parent)
        edge = Edge(child_session_id, parent.run.run_id, role, self.clock.now_ms())
        self.recorder.now(
            Write(lambda patience_s: self._add_edge(edge, parent.run, patience_s)),
            self.clock.now_ms(),
        )

    def _add_edge(self, edge: Edge, parent: Run, patience_s: float) -> None:
        moved = self.ledger.add_edge(edge, parent, patience_s)
        self.runs.replace(moved)
        for run in moved:
            self.judge.drop(run_scopes(run))

    def child_stopped(self, child_session_id: str, status: str) -> None:
        """Note how a child ended."""
        parent = self.runs.parent_of(child_session_id)
        if parent is not None:
            self.guard.returned(parent)
        now_ms = self.clock.now_ms()
        self.recorder.later(
            Write(
                lambda patience_s: self.ledger.close_edge(
                    child_session_id, now_ms, status, patience_s
                )
            )
        )

    # ------------------------------------------------------------------ gates

    def tool_verdict(self, live: LiveRun) -> Verdict | None:
        """The verdict that the tool gate acts on; see `Judge.tool_verdict`."""
        return self.judge.tool_verdict(live)

    def blocked_tool(self, live: LiveRun, verdict: Verdict) -> None:
        """A tool was refused: the run has to finish under this verdict."""
        live.closing = live.closing or verdict
        live.stopped = True
        self._hard(live.run, verdict, "tool", "blocked")

    def admit(self, live: LiveRun, request: Request) -> Permit:
        """The model gate; see `Admissions.admit`."""
        if not self._took_up:  # on the recorder's thread: the call need not wait for it
            self._took_up = True
            self.recorder.later(Write(self.leftovers.take_up))
            self.recorder.later(Write(self.guard.close_crashed))
            self.recorder.later(Write(self.claims.abandon))
        permit = self._admitted(live, request)
        if permit.verdict is not None:
            live.stopped = True
            action = "refused" if permit.refused else "last answer"
            self._hard(live.run, permit.verdict, "model", action)
        if not permit.refused:
            self.in_flight.left(live, permit, request)
        return permit

    def _admitted(self, live: LiveRun, request: Request) -> Permit:
        """Ask; before refusing, look whether it is the dead who hold the room."""
        closing, last_answers_used = live.closing, live.last_answers_used
        permit = self.admissions.admit(live, request)
        is_full = permit.refused and not permit.unpriced and permit.stop is None
        if is_full and self.leftovers.sweep_now_and_then():
            live.reopen()
            live.closing, live.last_answers_used = closing, last_answers_used
            permit = self.admissions.admit(live, request)
        return permit

    def unasked(self, attempt_id: str) -> Permit:
        """A permit for a call that went out without asking: it is recorded all the same."""
        return Permit(attempt_id, Kind.NORMAL, Expected(), self.clock.now_ms())

    def release(self, permit: Permit) -> None:
        """The call was not billed: give its reservation back."""
        self.in_flight.back(permit.attempt_id)
        self.guard.give_back(permit.attempt_id)
        if permit.reserved:
            release = partial(self.reservations.release, permit.attempt_id)
            self.recorder.now(Write(release), self.clock.now_ms())

    # ------------------------------------------------------------------ recording

    def record(
        self,
        live: LiveRun,
        permit: Permit,
        request: Request,
        report: UsageReport,
        *,
        response_model: str = "",
        output_chars: int | None = None,
        auxiliary_task: str = "",
    ) -> Call:
        """Write down what a call turned out to use; one row, whatever happens.

        Without usable usage the call is charged at its estimate and flagged.

        Args:
            output_chars: length of the answer, `None` when none came (it is then charged at what
                was expected).
        """
        self.in_flight.back(permit.attempt_id)
        if report.usage is None:
            report = _estimated(report, permit, output_chars)
        assert report.usage is not None
        cost = price_call(
            self.prices.table(),
            provider=request.provider,
            model=request.model,
            usage=report.usage,
            at_ms=permit.at_ms,
            response_model=response_model,
            base_url=request.base_url,
            provider_cost_nanos=report.provider_cost_nanos,
            service_tier=report.service_tier,
            flags=report.flags,
        )
        call = Call(
            attempt_id=permit.attempt_id,
            run_id=live.run.run_id,
            at_ms=permit.at_ms,
            provider=request.provider,
            model=request.model,
            response_model=response_model,
            usage=report.usage,
            cost=cost,
            auxiliary_task=auxiliary_task,
        )
        self.guard.charge(live, call)
        self.continuing.wrote(live, report.usage.output_tokens)
        self.roles.answered(
            live, self.judge.latest_rules.budget.tiers, request.model, response_model
        )
        self.write_call(live, permit, call)
        return call

    def write_call(self, live: LiveRun, permit: Permit, call: Call) -> None:
        """Write a priced call down, or keep it in memory until that succeeds."""
        self._warn_of_unpriced(call)
        run = live.run
        write = Write(
            partial(self.ledger.add_call, call, run),
            call,
            run,
            after=partial(self._recorded, live, permit, call),
        )
        if not self.recorder.now(write, self.clock.now_ms()):
            # The row waits in memory: verdicts must be made anew, with it counted in.
            self.judge.drop(call_scopes(run, call.model))

    def _recorded(self, live: LiveRun, permit: Permit, call: Call, recorded: Recorded) -> None:
        if recorded.run != live.run:  # another process has recorded who delegated to it
            self.runs.replace((recorded.run,))
        self.admissions.settled(live, permit, call, recorded.totals)
        self._judge_anew(recorded)

    def record_unasked(self, call: Call, run: Run, patience_s: float) -> None:
        """Write down a priced call that passed no gate; limits count it like any other.

        Raises:
            LedgerError: it is not written; doing it again is right.
        """
        self._warn_of_unpriced(call)
        self._judge_anew(self.ledger.add_call(call, run, patience_s))

    def _judge_anew(self, recorded: Recorded) -> None:
        verdicts, lacking = self.judge.take(recorded)
        self._tell_hard(recorded.run, verdicts)
        self.observer.recorded(recorded)
        for scope in lacking:
            self.recorder.later(Write(partial(self._judge_scope, recorded.run, scope)))

    def _warn_of_unpriced(self, call: Call) -> None:
        """Say it once for each model of a provider, not for each call."""
        key = (call.provider, call.model)
        if call.cost.source is CostSource.UNPRICED and key not in self._unpriced:
            self._unpriced[key] = True
            log.warning(
                "no price is known for %.200s from %.200s: its calls are counted, not their cost",
                call.model,
                call.provider or "an unnamed provider",
            )

    def _judge_scope(self, run: Run, scope: ScopeId, _patience_s: float) -> None:
        """Judge a scope whose totals had to be built first, off the agent's thread."""
        self._tell_hard(run, self.judge.read_now(scope))

    def _tell_hard(self, run: Run, verdicts: Iterable[Verdict]) -> None:
        for verdict in verdicts:
            if verdict.blocks:
                self._hard(run, verdict, "ledger", "reached")

    # ------------------------------------------------------------------ alerts and decisions

    def new_alerts(self, live: LiveRun) -> list[Verdict]:
        """The limits of a run that have reached a level of which nobody has spoken yet.

        Whoever inserts the row in `budget_alerts` may speak: once per window, scope and level,
        over all processes and restarts. A jump over several levels gives one alert.
        """
        fresh = []
        for verdict in self.judge.verdicts(run_scopes(live.run)):
            if verdict.level is Level.OK or verdict.limit.amount == 0:
                continue
            try:
                if self._claim(verdict, live.run.run_id):
                    fresh.append(verdict)
            except LedgerError as error:
                log.debug("no alert was claimed: %s", error)
        return fresh

    def _claim(self, verdict: Verdict, run_id: str) -> bool:
        shares = self.judge.rules(look_again=False).budget.thresholds.soft
        levels = [f"soft {share:g}" for share in shares if share <= (verdict.soft_share or 0)]
        if verdict.blocks:
            levels.append("hard")
        claimed = False
        for level in levels:  # the highest last: its claim is the one that counts
            key = (verdict.limit, verdict.period.key, level)
            claimed = key not in self._noted and self.journal.claim_alert(
                verdict, level, run_id, self.clock.now_ms(), PATIENCE_S
            )
            self._noted[key] = True
        return claimed

    def _hard(self, run: Run, verdict: Verdict, gate: str, action: str) -> None:
        key = (run.run_id, verdict.limit, verdict.period.key, gate, action)
        if key in self._noted:
            return
        self._noted[key] = True
        decision = decision_of(run, verdict, gate, action, self.clock.now_ms())
        self.recorder.later(Write(partial(self.journal.note_decision, decision)))
        self.on_hard(run, verdict)

    # ------------------------------------------------------------------ configuration

    def rules(self) -> Rules:
        """The configuration in force."""
        return self.judge.rules()

    def reload_config(self) -> Rules:
        """Read budget.yaml again and forget every cached verdict."""
        self._noted.clear()
        return self.judge.reload()

    @property
    def nothing_configured(self) -> bool:
        """Whether there is no budget.yaml, as far as is known, nor a limit that outlived it."""
        return self.budget_file.missing and not self.judge.rules(look_again=False).has_limits

    def held_limits(self) -> list[HeldLimit]:
        """The changes of limits that wait for a person's word."""
        self.judge.rules()
        return self.limits.held()

    def confirm(self, who: str, via: str) -> list[LimitChange]:
        """A person's word for every change that waits; it acts at once, in every process.

        Returns:
            What has changed.

        Raises:
            LedgerError: the ledger does not answer.
        """
        changes = self.limits.confirm(who, via)
        self.reload_config()
        return changes

    def strictest_now(self, run: Run) -> Verdict | None:
        """The verdict that decides over a run, read from the ledger on this thread."""
        return strictest(v for scope in run_scopes(run) for v in self.judge.read_now(scope))

    def strictest_over_job(self, cron_job_id: str, profile: str) -> Verdict | None:
        """The same over a run that a cron job would begin now."""
        session_id = f"cron_{cron_job_id}"
        return self.strictest_now(
            Run(
                run_id=session_id,
                session_id=session_id,
                root_run_id=session_id,
                kind="cron",
                started_ms=self.clock.now_ms(),
                cron_job_id=cron_job_id,
                profile=profile,
                platform="cron",
            )
        )

    def close(self) -> None:
        """Write what waits, or keep it in a file, and close the ledger."""
        self.in_flight.close()
        self.tool_log.close()
        self.recorder.close(PATIENCE_S)
        self.judge.close()
        self.database.close()


_OUTCOMES: Final = {
    "completed": Outcome.ANSWERED,
    "interrupted": Outcome.INTERRUPTED,
    "stopped": Outcome.STOPPED,
}


def _estimated(report: UsageReport, permit: Permit, output_chars: int | None) -> UsageReport:
    expected = permit.expected
    if output_chars is None:
        output_chars = expected.output_tokens * CHARS_PER_TOKEN
    estimate = estimate_usage(expected.prompt_tokens, output_chars, flags=report.flags)
    return replace(
        estimate,
        provider_cost_nanos=report.provider_cost_nanos,
        service_tier=report.service_tier,
    )


def ledger_path(folder: Path, file: BudgetFile) -> Path:
    """Where the ledger lies: the default file, or the one that `ledger.url` names."""
    url = file.current().ledger.url
    prefix = "sqlite:///"
    return Path(url.removeprefix(prefix)) if url.startswith(prefix) else folder / "ledger.db"

"""Run limits: the ceilings of one run, and which ceilings a run gets.

Calendar limits (`limits.py`) say how much may be spent until midnight; these say how much *one run*
may use, whatever the day still holds. `None` is no limit, `0` allows nothing.

Six of them are meters, used up as a run goes on (`METERS`, in the order in which they are checked).
The others count steps that have an outcome of their own (`STEPS`) or bound a single request
(`batch`).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

UNKNOWN_COMMAND_DISPATCHES: Final = 8
"""What a command gets that budget.yaml does not name while it names others: the ceiling that serves
a support run of several heads, most of which need 3 or 4."""

Number = int | float


class Cause(StrEnum):
    """Why something of a run is spent, in the words that receipts and refusals use."""

    HOPS = "hop budget"
    TOKENS = "token budget"
    SPEND = "spend budget"
    DEADLINE = "wall-clock deadline"
    TOOL_CALLS = "tool-call budget"
    CONTEXT = "context budget"
    RETRIAGES = "re-triage budget"
    REJUDGES = "re-judge budget"
    WINDOW = "spending limit"  # not the run's own: a daily or monthly limit stopped it
    # No budget is spent: the run goes in circles, by what it did or by its own account.
    LOOPED = "looped"
    STUCK = "stuck"
    CRITIQUES = "critique retries"
    RETRIES = "retries of one operation"
    BATCH = "batch size"
    ENDED = "ended run"

    @property
    def ends_run(self) -> bool:
        """Whether the run is over with it; else only that one request is refused."""
        return self not in _REFUSES_ONLY

    @property
    def is_circle(self) -> bool:
        """Whether nothing is spent: more of the same would not help."""
        return self in (Cause.LOOPED, Cause.STUCK)


_REFUSES_ONLY: Final = frozenset({Cause.CRITIQUES, Cause.RETRIES, Cause.BATCH, Cause.ENDED})


class Meter(StrEnum):
    """What a run uses up, under its name in budget.yaml."""

    DISPATCHES = "dispatches"
    TOKENS = "tokens"
    USD = "usd"
    WALL_CLOCK_S = "wall_clock_s"
    TOOL_CALLS = "tool_calls"
    CONTEXT_PCT = "context_pct"


@dataclass(frozen=True, slots=True)
class MeterKind:
    """One row of the table of meters.

    Attributes:
        field: its name in `RunLimits` and `RunUsage`; money is in nano-dollars there.
        cause: what a receipt says when it is spent.
        noun: its word for people and models.
    """

    meter: Meter
    field: str
    cause: Cause
    noun: str


METERS: Final[Mapping[Meter, MeterKind]] = MappingProxyType(
    {
        kind.meter: kind
        for kind in (
            MeterKind(Meter.DISPATCHES, "dispatches", Cause.HOPS, "dispatches"),
            MeterKind(Meter.TOKENS, "tokens", Cause.TOKENS, "tokens"),
            MeterKind(Meter.USD, "cost_nanos", Cause.SPEND, "cost"),
            MeterKind(Meter.WALL_CLOCK_S, "wall_clock_s", Cause.DEADLINE, "time"),
            MeterKind(Meter.TOOL_CALLS, "tool_calls", Cause.TOOL_CALLS, "tool calls"),
            MeterKind(Meter.CONTEXT_PCT, "context_pct", Cause.CONTEXT, "context"),
        )
    }
)
"""The six meters in the order of their checks: the first that is spent is the cause."""

STEPS: Final[Mapping[Cause, str]] = MappingProxyType(
    {
        Cause.RETRIES: "retries_per_operation",
        Cause.CRITIQUES: "critique_retries",
        Cause.REJUDGES: "rejudges",
        Cause.RETRIAGES: "retriages",
    }
)
"""Steps that are counted by name (an operation, a head, or `""`) → their ceiling in `RunLimits`."""


@dataclass(frozen=True, slots=True)
class RunLimits:
    """The ceilings of one run. `None` = no limit, `0` = nothing.

    Attributes:
        dispatches: transfers to other agents, and children started, by the whole tree.
        tool_calls: tool calls, retries included.
        tokens: prompt and completion tokens of all calls, each once.
        wall_clock_s: seconds since the run began, on a monotonic clock.
        cost_nanos: nano-dollars (`usd` in budget.yaml).
        context_pct: share of the model's window that one prompt may fill, 0 to 1.
        retries_per_operation: repeats of the same tool on the same target; each is a tool call too.
        critique_retries: new drafts of one head after a critique.
        rejudges: times that a judge may look again.
        retriages: times that a run may be sorted anew.
        batch: dispatches in one request.

    Raises:
        ValueError: for a negative number or NaN.
    """

    dispatches: int | None = None
    tool_calls: int | None = None
    tokens: int | None = None
    wall_clock_s: float | None = None
    cost_nanos: int | None = None
    context_pct: float | None = None
    retries_per_operation: int | None = 3
    critique_retries: int | None = None
    rejudges: int | None = None
    retriages: int | None = None
    batch: int | None = None

    def __post_init__(self) -> None:
        for name in RUN_LIMIT_FIELDS:
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise ValueError(f"{name} cannot be {value}; 0 allows nothing, None is no limit")

    def of(self, meter: Meter) -> Number | None:
        """The ceiling of one meter, money in nano-dollars."""
        amount: Number | None = getattr(self, METERS[meter].field)
        return amount

    def stricter(self, *others: "RunLimits | None") -> "RunLimits":
        """Per ceiling the smallest that anyone sets: own, the root's, any outer bound."""
        bounds = (self, *(other for other in others if other is not None))
        return RunLimits(**{name: _least(bounds, name) for name in RUN_LIMIT_FIELDS})


RUN_LIMIT_FIELDS: Final = tuple(ceiling.name for ceiling in fields(RunLimits))

RUN_LIMIT_KEYS: Final[Mapping[str, str]] = MappingProxyType(
    {("usd" if name == "cost_nanos" else name): name for name in RUN_LIMIT_FIELDS}
)
"""Key in budget.yaml → field of `RunLimits`; only money has another name, since it is dollars."""


def _least(bounds: tuple[RunLimits, ...], name: str) -> Any:
    return min((x for b in bounds if (x := getattr(b, name)) is not None), default=None)


class OnExhausted(StrEnum):
    """What a run does that has run out."""

    REPORT = "report"  # one last answer: what is established, what is not, what comes next
    ASK = "ask"  # the same, and a request for more that a person grants or denies
    ABORT = "abort"  # undo what was half done: migrations, deploys, bulk writes


class Report(StrEnum):
    """When the final answer carries a short account of the run."""

    ALWAYS = "always"
    PARTIAL = "partial"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class RunRules:
    """How a run is led along its ceilings.

    Attributes:
        soft_pct: share of any one meter from which the run converges.
        token_stop_pct: share of the tokens at which it stops: the last tenth produces noise.
        checkpoints: share of the most used meter between two checkpoints; 0 for none.
        continuation: the run is nudged to go on until its tokens are used; then tokens converge at
            `token_stop_pct`, so that nobody is told to hurry and to go on at once.
    """

    soft_pct: float = 0.70
    token_stop_pct: float = 0.90
    on_exhausted: OnExhausted = OnExhausted.REPORT
    checkpoints: float = 0.0
    report: Report = Report.ALWAYS
    continuation: bool = False


def _no_amounts() -> Mapping[str, Number | None]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class RunLayer:
    """What one part of budget.yaml says: a missing field inherits, `None` lifts.

    Attributes:
        observe: its ceilings stop nothing and only note what they would have done; `None` inherits
            from the default.
    """

    amounts: Mapping[str, Number | None] = field(default_factory=_no_amounts)
    on_exhausted: OnExhausted | None = None
    observe: bool | None = None


@dataclass(frozen=True, slots=True)
class TicketSource:
    """Where the ticket of a run is read: an environment variable, or a pattern over texts."""

    env: str = ""
    pattern: str = ""

    def find(self, environment: Mapping[str, str], *texts: str) -> str:
        """The ticket's id, or "". The pattern's first group counts, or else all that it matched.

        Args:
            texts: where the pattern looks, in order: the session's id, the first message.
        """
        if self.env and (found := environment.get(self.env, "").strip()):
            return found
        if not self.pattern:
            return ""
        matches = (re.search(self.pattern, text) for text in texts)
        return next((m[1] if m.re.groups else m[0] for m in matches if m), "") or ""


@dataclass(frozen=True, slots=True)
class RunTerms:
    """The ceilings and rules of one run.

    Attributes:
        observed: ceilings that stop nothing; `None` where there are none.
    """

    limits: RunLimits = RunLimits()
    rules: RunRules = RunRules()
    observed: RunLimits | None = None


def _no_layers() -> Mapping[str, RunLayer]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class RunPolicy:
    """The section `runs` of budget.yaml, understood. The default value limits nothing.

    Attributes:
        kinds: by kind of run: `cron`, `chat`, `child`.
        platforms: by messaging platform.
        commands: by the command or skill that the run carries out.
    """

    default: RunLayer = RunLayer()
    kinds: Mapping[str, RunLayer] = field(default_factory=_no_layers)
    platforms: Mapping[str, RunLayer] = field(default_factory=_no_layers)
    commands: Mapping[str, RunLayer] = field(default_factory=_no_layers)
    rules: RunRules = RunRules()
    retries_per_operation: int | None = 3
    ticket: TicketSource = TicketSource()

    @property
    def has_limits(self) -> bool:
        """Whether any ceiling is enforced; the cap on retries alone switches nothing on."""
        return self._sets_any(observed=False)

    @property
    def observes(self) -> bool:
        """Whether any ceiling is only observed."""
        return self._sets_any(observed=True)

    def _sets_any(self, *, observed: bool) -> bool:
        return any(
            amount is not None
            for layer in self.layers()
            if self.is_observed(layer) is observed
            for amount in layer.amounts.values()
        )

    def is_observed(self, layer: RunLayer) -> bool:
        """Whether the ceilings of a part stop nothing; a mode left out is the default's."""
        return bool(self.default.observe if layer.observe is None else layer.observe)

    def layers(self) -> Iterator[RunLayer]:
        """All parts that name ceilings."""
        yield self.default
        for named in (self.kinds, self.platforms, self.commands):
            yield from named.values()

    def terms(self, kind: str, platform: str = "", command: str = "") -> RunTerms:
        """What holds for one run; the later of default, kind, platform, command wins.

        An unknown command gets 8 dispatches where commands are configured and nothing else says
        how many. The bounds of a root or a ticket come on top: `RunLimits.stricter`.
        """
        layers = (
            self.default,
            self.kinds.get(kind, RunLayer()),
            self.platforms.get(platform, RunLayer()),
            self.commands.get(command, RunLayer()),
        )
        amounts: dict[str, Any] = {"retries_per_operation": self.retries_per_operation}
        if command and self.commands and command not in self.commands:
            amounts["dispatches"] = UNKNOWN_COMMAND_DISPATCHES
        observed: dict[str, Any] = {}
        for layer in layers:
            is_observed = self.is_observed(layer)
            here, elsewhere = (observed, amounts) if is_observed else (amounts, observed)
            here.update(layer.amounts)
            for name in layer.amounts:
                elsewhere.pop(name, None)
        chosen = [layer.on_exhausted for layer in layers if layer.on_exhausted is not None]
        watched = None
        if any(amount is not None for amount in observed.values()):
            watched = RunLimits(**{"retries_per_operation": None, **observed})
        return RunTerms(RunLimits(**amounts), _with(self.rules, chosen), watched)


def _with(rules: RunRules, chosen: list[OnExhausted]) -> RunRules:
    return replace(rules, on_exhausted=chosen[-1]) if chosen else rules


def nobodys_key(now_ms: int) -> str:
    """The key under which runs without an id share their ceilings: one per UTC day."""
    return f"day:{datetime.fromtimestamp(now_ms // 1000, UTC):%Y-%m-%d}"

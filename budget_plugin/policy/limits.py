"""Limits: who may spend how much of what in which window, and how a scope's limits are resolved.

One table of scopes (`SCOPES`) drives the configuration, the commands, status, forecast and the
gates alike. `None` or an absent key is no limit; `0` allows nothing. In an override an absent key
inherits the default and `null` lifts it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from .claims import EffectTool
from .loops.settings import LoopPolicy
from .runs.run_limits import RunPolicy
from .tiers import TierPolicy
from .windows import Window


class Scope(StrEnum):
    """Whose money a limit speaks about."""

    GLOBAL = "global"
    CRON_JOB = "cron_job"
    SENDER = "sender"
    PROFILE = "profile"
    PLATFORM = "platform"
    MODEL = "model"


@dataclass(frozen=True, slots=True)
class ScopeKind:
    """How a scope is written and shown: its key in budget.yaml, its words for people."""

    scope: Scope
    config_key: str
    noun: str
    heading: str

    @property
    def takes_id(self) -> bool:
        """Everything but `global` is about one of many."""
        return self.scope is not Scope.GLOBAL


SCOPES: Final[Mapping[Scope, ScopeKind]] = MappingProxyType(
    {
        kind.scope: kind
        for kind in (
            ScopeKind(Scope.GLOBAL, "global", "everything", "Global"),
            ScopeKind(Scope.CRON_JOB, "per_cron_job", "cron job", "Cron jobs"),
            ScopeKind(Scope.SENDER, "per_sender", "sender", "Senders"),
            ScopeKind(Scope.PROFILE, "per_profile", "profile", "Profiles"),
            ScopeKind(Scope.PLATFORM, "per_platform", "platform", "Platforms"),
            ScopeKind(Scope.MODEL, "per_model", "model", "Models"),
        )
    }
)


class Measure(StrEnum):
    """What is counted. Amounts are nano-dollars for `usd`, plain counts otherwise."""

    USD = "usd"
    TOKENS = "tokens"
    CALLS = "calls"


@dataclass(frozen=True, slots=True)
class Key:
    """The name of one number in budget.yaml, e.g. `daily_usd`."""

    window: Window
    measure: Measure

    def __str__(self) -> str:
        return f"{self.window}_{self.measure}"


KEYS: Final[Mapping[str, Key]] = MappingProxyType(
    {str(key): key for key in (Key(w, m) for w in Window for m in Measure)}
)
"""Every limit key that budget.yaml knows: `hourly_usd` … `total_calls`."""

Amounts = Mapping[Key, int | None]
"""Limits of one bucket; `None` lifts (in an override) or is no limit (in a default)."""

_NOTHING: Final[Amounts] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Limit:
    """Scope × window × measure → a number. `amount` in nano-dollars for usd; 0 allows nothing."""

    scope: Scope
    scope_id: str
    window: Window
    measure: Measure
    amount: int
    from_override: bool = False


@dataclass(frozen=True, slots=True)
class ScopeLimits:
    """What budget.yaml says of one scope: a shared default and overrides by id.

    Attributes:
        observed: the limits that block nothing and only note what they would have done, as id and
            key; the id of the default is empty.
    """

    default: Amounts = field(default_factory=lambda: _NOTHING)
    overrides: Mapping[str, Amounts] = field(default_factory=lambda: MappingProxyType({}))
    observed: frozenset[tuple[str, Key]] = frozenset()

    def amounts(self) -> Iterator[tuple[str, Key, int | None, bool]]:
        """All that is written: id (empty for the default), key, amount, whether only observed."""
        for scope_id, amounts in (("", self.default), *self.overrides.items()):
            for key, amount in amounts.items():
                yield scope_id, key, amount, (scope_id, key) in self.observed


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Shares of a limit at which a verdict turns; `soft` ascending, e.g. `(0.5, 0.8)`."""

    soft: tuple[float, ...] = (0.80,)
    hard: float = 1.00


class Mode(StrEnum):
    """What a limit does once it is reached: it blocks, or only notes that it would have."""

    ENFORCE = "enforce"
    OBSERVE = "observe"


class OnEstimated(StrEnum):
    """What a hard verdict does that only estimated spend carries over the limit."""

    WARN_ONLY = "warn_only"
    ENFORCE = "enforce"


class OnUnpriced(StrEnum):
    """What happens to a call whose price nobody knows while a dollar limit covers it."""

    WARN = "warn"
    BLOCK = "block"


class OnError(StrEnum):
    """What the gates do when the ledger does not answer."""

    ALLOW = "allow"
    BLOCK = "block"


class CronResume(StrEnum):
    """Who resumes a job that we paused."""

    AUTO = "auto"
    MANUAL = "manual"


@dataclass(frozen=True, slots=True)
class ModelGate:
    """The gate in front of the model; `wrap_up_calls` last answers pass after a breach."""

    enabled: bool = True
    reserve: bool = True
    wrap_up_calls: int = 1


@dataclass(frozen=True, slots=True)
class CronPolicy:
    """Whether a hard verdict pauses the job that it covers, and who resumes it."""

    pause: bool = True
    resume: CronResume = CronResume.AUTO


LEAST_KEEP_DAYS: Final = 62
"""Two whole months: no window that is not over, and no report, looks back farther than 31 days."""


@dataclass(frozen=True, slots=True)
class LedgerPolicy:
    """The ledger: where it lies, what follows from its faults, how long it keeps single calls.

    Attributes:
        url: `sqlite` is the default file; or an SQLAlchemy URL.
        keep_days: older calls are kept as sums of days; `None` keeps all of them.
    """

    url: str = "sqlite"
    on_error: OnError = OnError.ALLOW
    keep_days: int | None = None


@dataclass(frozen=True, slots=True)
class Budget:
    """budget.yaml, understood. The default value is "installed without configuration"."""

    timezone: str | None = None
    week_start: int = 0
    scopes: Mapping[Scope, ScopeLimits] = field(default_factory=lambda: MappingProxyType({}))
    thresholds: Thresholds = Thresholds()
    on_estimated: OnEstimated = OnEstimated.WARN_ONLY
    on_unpriced: OnUnpriced = OnUnpriced.WARN
    model_gate: ModelGate = ModelGate()
    cron: CronPolicy = CronPolicy()
    ledger: LedgerPolicy = LedgerPolicy()
    admins: tuple[str, ...] = ()
    runs: RunPolicy = field(default_factory=RunPolicy)
    claims: Mapping[str, tuple[EffectTool, ...]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    """The tools that have an effect which happens once, by name."""
    tiers: TierPolicy = field(default_factory=TierPolicy)
    loops: LoopPolicy = field(default_factory=LoopPolicy)
    """What follows from a run that goes in circles; nothing by default."""

    @property
    def has_limits(self) -> bool:
        """Whether any number at all is enforced; else the gates stay open and touch nothing."""
        return any(amount is not None and not observed for amount, observed in self._amounts())

    @property
    def observes(self) -> bool:
        """Whether any number is only observed."""
        return any(amount is not None and observed for amount, observed in self._amounts())

    def _amounts(self) -> Iterator[tuple[int | None, bool]]:
        return (
            (amount, observed)
            for limits in self.scopes.values()
            for _, _, amount, observed in limits.amounts()
        )

    def limits_for(self, scope: Scope, scope_id: str) -> tuple[Limit, ...]:
        """The limits that hold for one id, override over default, in the order of the windows.

        An empty id outside `global` is nobody's money: it matches no limit, `default` included.
        """
        return self._limits_for(scope, scope_id, observed=False)

    def observed_for(self, scope: Scope, scope_id: str) -> tuple[Limit, ...]:
        """The limits of one id that are only observed; an override takes the default's place."""
        return self._limits_for(scope, scope_id, observed=True)

    def _limits_for(self, scope: Scope, scope_id: str, *, observed: bool) -> tuple[Limit, ...]:
        limits = self.scopes.get(scope)
        if limits is None or (scope is not Scope.GLOBAL and not scope_id):
            return ()
        override = limits.overrides.get(scope_id, _NOTHING)
        merged = {**limits.default, **override}
        return tuple(
            Limit(scope, scope_id, key.window, key.measure, amount, key in override)
            for key in KEYS.values()
            if (amount := merged.get(key)) is not None
            and ((scope_id if key in override else "", key) in limits.observed) is observed
        )


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a file that was not understood: where, what it says, and what would be right."""

    file: str
    line: int | None
    key: str
    message: str
    fatal: bool = True
    """A fatal problem keeps the last good configuration in force; others are warnings."""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{where}: {self.key}: {self.message}" if self.key else f"{where}: {self.message}"

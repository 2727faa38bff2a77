"""The limits in force: what budget.yaml says, except for what waits for a person's word.

Whoever can write a file can write budget.yaml, a model with a shell included. So an edit that
raises or lifts a limit which is reached now is held until a person confirms it; everything else
acts at once. Each difference is written down once, whichever process sees it first.

A new generation of the file is *settled* with the ledger: compared with what it knows, under its
write lock. Until that is done what is tighter acts, and what is looser waits.
"""

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from ..policy.limit_changes import (
    Flat,
    HeldLimit,
    Place,
    changed,
    effective,
    flat,
    holding,
    is_looser,
    loosened,
    with_limits,
)
from ..policy.limits import Budget, Limit, Scope
from ..policy.verdicts import NOTHING_SPENT, evaluate
from ..policy.windows import Period
from ..store.activity import active_ids
from ..store.files.config import BudgetFile
from ..store.files.watched_file import Look
from ..store.journal import LimitChange
from ..store.ledger import Ledger
from ..store.limit_history import Changing, Known, LimitHistory, Word
from ..store.sql.database import LedgerError
from .clock import Clock
from .recorder import Recorder
from .rules import Rules

log = logging.getLogger(__name__)

PATIENCE_S: Final = 0.1
"""How long a gate may wait for the ledger; what is looser waits meanwhile."""

PERSON_PATIENCE_S: Final = 2.0
"""How long a person's command may wait for it."""

_ATTEMPTS: Final = 5
_DAY_MS: Final = 86_400_000
EDITOR: Final = "editor"
SOMEONE: Final = "someone"


class Breaches:
    """Whether a limit is reached now, in the eyes of the gates."""

    def __init__(
        self,
        ledger: Ledger,
        history: LimitHistory,
        recorder: Recorder,
        clock: Clock,
        zone_of: Callable[[Budget], ZoneInfo],
    ) -> None:
        self._ledger = ledger
        self._history = history
        self._recorder = recorder
        self._clock = clock
        self._zone_of = zone_of

    def among(self, places: Iterable[Place], before: Flat, after: Budget) -> set[Place]:
        """The places that are loosened while somebody is stopped by what held before.

        Raises:
            LedgerError: the ledger does not answer.
        """
        rules = Rules(with_limits(after, before), self._zone_of(after), 0, has_limits=True)
        amounts = flat(after)
        return {place for place in places if self._blocks(place, before, amounts, rules)}

    def _blocks(self, place: Place, before: Flat, after: Flat, rules: Rules) -> bool:
        scope, _, key = place
        now_ms = self._clock.now_ms()
        period = rules.period(key.window, now_ms)
        return any(
            self._is_reached(limit, period, rules, now_ms)
            for scope_id in self._ids(place, period)
            if is_looser(before, after, (scope, scope_id, key))
            for limit in rules.limits((scope, scope_id))
            if (limit.window, limit.measure) == (key.window, key.measure)
        )

    def _ids(self, place: Place, period: Period) -> Sequence[str]:
        """Whom a place speaks about: its id, or everybody who may have spent in the window."""
        scope, scope_id, _ = place
        if scope_id or scope is Scope.GLOBAL:
            return (scope_id,)
        # A run that began on the day before may have spent in this window.
        return active_ids(self._ledger.database, scope, period.start_ms - _DAY_MS)

    def _is_reached(self, limit: Limit, period: Period, rules: Rules, now_ms: int) -> bool:
        scope = (limit.scope, limit.scope_id)
        with self._ledger.reading() as connection:
            spends = self._ledger.spends(connection, scope, [period], now_ms, PATIENCE_S)
        spend = spends.get(period, NOTHING_SPENT) + self._recorder.pending(scope, period)
        budget = rules.budget
        verdict = evaluate(limit, spend, period, budget.thresholds, budget.on_estimated)
        # Or nothing more fitted, which only the gate that closed can know.
        return verdict.blocks or self._history.was_hard(limit, period)


class LimitGuard:
    """What of budget.yaml is in force, in this process as in every other on the ledger."""

    def __init__(
        self, file: BudgetFile, history: LimitHistory, breaches: Breaches, clock: Clock
    ) -> None:
        self._file = file
        self._history = history
        self._breaches = breaches
        self._clock = clock
        self._lock = threading.RLock()
        self._known: Known | None = None
        self._holds = False
        self._settled = -1
        self._words: list[Word] = []
        self.version = 0
        """Grows when what is in force may have changed without the file."""

    @property
    def waits(self) -> bool:
        """Whether the ledger has to be asked: the file is new, or a person may have confirmed."""
        return self._holds or self._settled != self._file.generation

    def in_force(self, look: Look[Budget]) -> Budget:
        """The budget that holds, from memory. A file that cannot be read changes no limit."""
        known = self._known
        if known is None:
            return look.value
        amounts = flat(look.value)
        if self._settled == look.generation:
            force: Flat = known.force
        else:
            force = holding(known.force, amounts, set(loosened(known.force, amounts)))
        return look.value if force == amounts else with_limits(look.value, force)

    def held(self) -> list[HeldLimit]:
        """What waits for a person's word, as this process knows it."""
        known = self._known
        if known is None:
            return []
        return [
            HeldLimit(*place, effective(known.force, place), effective(known.file, place))
            for place in known.held
        ]

    # ------------------------------------------------------------------ settling

    def settle(self, patience_s: float = PATIENCE_S) -> bool:
        """Compare the file with what the ledger knows; `True` when that is done.

        A ledger that does not answer is asked again at the next check.
        """
        with self._lock:
            try:
                for _ in range(_ATTEMPTS):
                    if self._settle_once(patience_s):
                        return True
            except LedgerError as error:
                log.debug("the limits could not be compared with the ledger: %s", error)
            return False

    def _settle_once(self, patience_s: float) -> bool:
        look, known = self._file.look(), self._history.known()
        if look.failing:
            self._take(known, look)
            return True
        after = flat(look.value)
        if known is not None and known.file == after and not self._words:
            self._take(known, look)
            return True
        reached = set() if known is None else self._reached(known, look.value)
        with self._history.changing(patience_s) as changing:
            # Seen anew under the lock: else an old look would be taken for a change back.
            if self._file.look().generation != look.generation or changing.known() != known:
                return False
            words = [*changing.words(self._clock.now_ms()), *self._words]
            settled = _Settling(changing, known, after, words).done(
                reached, self._clock.now_ms(), owner_of(self._file.path)
            )
            for word in self._words:
                changing.withdraw(word)
        self._words.clear()
        self._take(settled, look)
        return True

    def _reached(self, known: Known, after: Budget) -> set[Place]:
        held = set(known.held)
        fresh = (place for place in loosened(known.force, flat(after)) if place not in held)
        return self._breaches.among(fresh, known.force, after)

    def _take(self, known: Known | None, look: Look[Budget]) -> None:
        if known != self._known:
            self._know(known)
        self._settled = look.generation

    def _know(self, known: Known | None) -> None:
        self._known = known
        self._holds = known is not None and known.force != known.file
        self.version += 1

    # ------------------------------------------------------------------ a person's word

    @contextmanager
    def changed_by(self, who: str, via: str, place: Place, amount: int | None) -> Iterator[None]:
        """While a person changes one limit of the file: it acts at once, and is theirs.

        Args:
            amount: what the file will say; `None` for no limit, or for a limit taken away.
        """
        self.settle(PERSON_PATIENCE_S)  # what was before is not theirs
        word = self._announced(Word(who, via, place, amount))
        try:
            yield
        except BaseException:
            self._withdraw(word)
            raise
        with self._lock:
            self._words.append(word)
            if not self.settle(PERSON_PATIENCE_S):
                self._let_pass(word)

    def note_observed(
        self, who: str, via: str, place: Place, before: int | None, after: int | None
    ) -> None:
        """A person has changed a limit that is only observed: for the history alone."""
        change = LimitChange(self._clock.now_ms(), who, via, *place, before, after, "observed")
        try:
            with self._history.changing(PERSON_PATIENCE_S) as changing:
                changing.note(change)
        except LedgerError as error:
            log.debug("a change of an observed limit is not in the history: %s", error)

    @property
    def recorded(self) -> bool:
        """Whether every word of a person in this process is in the ledger."""
        return not self._words

    def confirm(self, who: str, via: str) -> list[LimitChange]:
        """A person's word for everything that waits; it is in force from now on, everywhere.

        Raises:
            LedgerError: the ledger does not answer.
        """
        with self._lock:
            self.settle(PERSON_PATIENCE_S)
            with self._history.changing(PERSON_PATIENCE_S) as changing:
                known = changing.known()
                if known is None:
                    return []
                changes = [
                    _change(place, known.force, known.file, self._clock.now_ms(), who, via)
                    for place in known.held
                ]
                for change in changes:
                    changing.close_held((change.scope, change.scope_id, change.key), "confirmed")
                    changing.note(change)
                confirmed = Known(known.file, known.file)
                changing.save(known, confirmed)
            self._know(confirmed)
            return changes

    def _announced(self, word: Word) -> Word:
        try:
            number = self._history.announce(word, self._clock.now_ms(), PERSON_PATIENCE_S)
        except LedgerError as error:
            log.debug("a change of a limit could not be announced: %s", error)
            return word
        return replace(word, number=number)

    def _withdraw(self, word: Word) -> None:
        if word.number is None:
            return
        try:
            self._history.withdraw(word.number, PATIENCE_S)
        except LedgerError as error:
            log.debug("an announcement stays until it is too old: %s", error)

    def _let_pass(self, word: Word) -> None:
        """The ledger does not answer: in this process at least the person's word holds."""
        if self._known is not None:
            force = {**self._known.force, word.place: word.amount}
            self._know(replace(self._known, force=force))


class _Settling:
    """One comparison of the file with what is known of it, inside one transaction."""

    def __init__(
        self, changing: Changing, known: Known | None, after: Flat, words: Iterable[Word]
    ) -> None:
        self._changing = changing
        self._before = known
        self._known = known or Known(after, after)  # a first look is a beginning, not a change
        self._after = after
        self._edited = changed(self._known.file, after)
        open_places = {*self._edited, *self._known.held}
        self._said = {
            word.place: word
            for word in words
            if word.place in open_places and after.get(word.place) == word.amount
        }

    def done(self, reached: Collection[Place], now_ms: int, owner: str) -> Known:
        """Writes down what has changed; returns what is known from now on."""
        held = self._held(reached)
        for place in self._edited:
            if place not in self._said:
                self._note_edit(place, held=place in held, now_ms=now_ms, owner=owner)
        for word in self._said.values():
            self._note_word(word, now_ms)
        for place in set(self._known.held) - held - self._said.keys():
            self._changing.close_held(place, "replaced")
        after = Known(self._after, holding(self._known.force, self._after, held))
        self._changing.save(self._before, after)
        return after

    def _held(self, reached: Collection[Place]) -> set[Place]:
        """What was held stays so while it is looser than what holds, whatever is reached now."""
        held = {*self._known.held, *reached} - self._said.keys()
        force = holding(self._known.force, self._after, held)
        return {place for place in held if is_looser(force, self._after, place)}

    def _note_edit(self, place: Place, *, held: bool, now_ms: int, owner: str) -> None:
        self._changing.close_held(place, "replaced")
        before = self._known.file
        if effective(before, place) == effective(self._after, place):
            return
        change = _change(place, before, self._after, now_ms, owner, EDITOR)
        self._changing.note(replace(change, state="held" if held else "done"))
        if held:
            log.warning(
                "%s in budget.yaml was raised or lifted while it is reached: the old limit stays "
                "in force until a person confirms the change (hermes budget confirm)",
                " ".join([*filter(None, map(str, place))]),
            )

    def _note_word(self, word: Word, now_ms: int) -> None:
        self._changing.withdraw(word)
        self._changing.close_held(word.place, "confirmed")
        change = _change(word.place, self._known.force, self._after, now_ms, word.who, word.via)
        if change.before != change.after:
            self._changing.note(change)


def _change(
    place: Place, before: Flat, after: Flat, now_ms: int, who: str, via: str
) -> LimitChange:
    was, now = effective(before, place), effective(after, place)
    return LimitChange(now_ms, who, via, *place, was, now)


def owner_of(path: Path) -> str:
    """The name of a file's owner, as far as the system knows one."""
    try:
        return path.owner()
    except (OSError, KeyError, NotImplementedError):
        return SOMEONE

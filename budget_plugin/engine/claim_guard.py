"""The claim guard: an effect on the world is claimed in the ledger before it happens.

The only part of the tool gate that waits for the ledger, and only for tools whose effects are
configured. When the ledger does not answer within `PATIENCE_S`, `ledger.on_error` decides; what is
let through then is remembered in this process and written down as soon as that is possible.
"""

import logging
import threading
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from cachetools import LRUCache

from ..policy import claims as policy
from ..policy.claims import Answer, Claim, Effect, Outcome, Per, State, Told
from ..policy.limits import OnError
from ..policy.windows import Window
from ..store.claims import Claims, Held
from ..store.journal import Journal
from ..store.processes import is_gone, this_process
from ..store.sql.database import LedgerError
from .clock import Clock
from .decisions import about_run
from .live_runs import LiveRun
from .recorder import Recorder, Write
from .rules import Rules

log = logging.getLogger(__name__)

PATIENCE_S: Final = 0.5
"""How long a tool with an effect may wait for the ledger."""

_IN_WORDS: Final = {
    Answer.DONE: "it is done",
    Answer.UNDER_WAY: "it is under way",
    Answer.ASK: "nobody knows whether it happened",
}
_KEPT: Final = 1_024
_LOOKED_AT: Final = 10_000


class NoAnswer(Exception):
    """The ledger does not answer, and `ledger.on_error` says to refuse then."""


class ClaimGuard:
    """Claims of the tool calls of this process."""

    def __init__(self, book: Claims, journal: Journal, recorder: Recorder, clock: Clock) -> None:
        self._book = book
        self._journal = journal
        self._recorder = recorder
        self._clock = clock
        self._lock = threading.Lock()
        self._open: LRUCache[_Name, Claim] = LRUCache(_KEPT)
        """Claims under way here, by the call that made them."""
        self._namesakes: Counter[_Name] = Counter()
        """Calls that were refused and have the name of one under way: not its end is theirs."""
        self._unwritten: LRUCache[str, Claim] = LRUCache(_KEPT)
        """Claims that the ledger did not take, by key."""

    def effect_of(self, rules: Rules, tool: str, args: object) -> Effect | None:
        """The effect of a call, `None` for almost all: their tools have none that is configured."""
        entries = rules.budget.claims.get(tool)
        return None if entries is None else policy.effect_of(entries, tool, args)

    def claim(self, live: LiveRun, rules: Rules, effect: Effect, call_id: str) -> Told:
        """May this call bring the effect about? If so, that it does is on the disk now.

        Args:
            call_id: the host's id of the tool call; "" where it has none.

        Raises:
            NoAnswer: the ledger does not answer and `ledger.on_error` is `block`.
        """
        now_ms = self._clock.now_ms()
        key = policy.claim_key(
            effect,
            run_tree=_tree_of(live),
            ticket=live.run.ticket_id,
            day=rules.period(Window.DAILY, now_ms).key if effect.per is Per.DAY else "",
        )
        # A name of its own: not all providers give each call another id.
        claim = Claim(key, effect, live.run.run_id, uuid.uuid4().hex, now_ms / 1000)
        claim = replace(claim, answer_at=_place(live, call_id))
        told = self._take(claim, rules.budget.ledger.on_error)
        name = _name(live, effect, call_id)
        with self._lock:
            if told.answer is Answer.GO:
                self._open[name] = claim
                return told
            if name in self._open:
                self._namesakes[name] += 1
        self._note(live, effect, told.answer)
        return replace(told, effect=effect)

    def _take(self, claim: Claim, on_error: OnError) -> Told:
        decide = partial(_decided, claim)
        asked = Held(claim, this_process())
        with self._lock:
            unwritten = self._unwritten.get(claim.key)
        if unwritten is not None:
            told = policy.judge(unwritten, claim.call_id, claim.claimed_s)
            if told.answer is not Answer.GO:
                return told
        try:
            return self._book.take(asked, decide, PATIENCE_S)
        except LedgerError as error:
            log.warning("an effect of %s could not be claimed: %s", claim.effect.tool, error)
        if on_error is OnError.BLOCK:
            raise NoAnswer
        return self._take_here(asked)

    def _take_here(self, asked: Held) -> Told:
        """Without the ledger an effect still happens once in this process."""
        claim = asked.claim
        with self._lock:
            told = policy.judge(self._unwritten.get(claim.key), claim.call_id, claim.claimed_s)
            if told.answer is Answer.GO:
                self._unwritten[claim.key] = claim
        if told.answer is Answer.GO:
            self._recorder.later(Write(partial(self._book.add, asked)))
        return told

    @property
    def awaits_ends(self) -> bool:
        """Whether some claimed call of this process has not ended yet."""
        return bool(self._open)

    def ended(
        self,
        live: LiveRun,
        effect: Effect,
        call_id: str,
        outcome: Outcome,
        *,
        blocked: bool = False,
    ) -> None:
        """A call has ended, or was blocked by somebody, which may have been us."""
        name, now_ms = _name(live, effect, call_id), self._clock.now_ms()
        with self._lock:
            if blocked and self._namesakes[name] > 0:
                self._namesakes[name] -= 1
                return
            claim = self._open.pop(name, None)
            del self._namesakes[name]
            if claim is None:
                return
            settled = policy.settle(claim, outcome, now_ms / 1000)
            waits = claim.key in self._unwritten
            if waits:
                self._unwritten[claim.key] = settled
        write = Write(partial(self._book.settle, settled))
        if waits:  # in line behind the claim itself
            self._recorder.later(write)
        else:
            self._recorder.now(write, now_ms)

    def _note(self, live: LiveRun, effect: Effect, answer: Answer) -> None:
        detail = f"{effect.tool}, effect {effect.key}: {_IN_WORDS[answer]}"
        self._record(live.run.run_id, "tool", "refused", detail)

    def _record(self, run_id: str, gate: str, action: str, detail: str) -> None:
        now_ms = self._clock.now_ms()
        decision = about_run(run_id, gate, "effect", action, detail, at_ms=now_ms, used=1, amount=1)
        self._recorder.later(Write(partial(self._journal.note_decision, decision)))

    def unknown(self, most: int) -> list[Held]:
        """The latest effects of which nobody knows whether they happened, newest first."""
        self.abandon(PATIENCE_S)
        return self._book.latest(State.UNKNOWN, most)

    def decide(self, number: int, outcome: Outcome, who: str, via: str) -> Held | None:
        """A person's word for an effect of unknown outcome; `None` where none has this number.

        Raises:
            LedgerError: the ledger does not answer.
        """
        held = self._book.numbered(number)
        if held is None or held.claim.state is not State.UNKNOWN:
            return None
        settled = policy.settle(held.claim, outcome, self._clock.now_ms() / 1000)
        if not self._book.settle(settled, PATIENCE_S):
            return None
        effect = settled.effect
        detail = f"{effect.tool}, effect {effect.key}: by {who} via {via}"
        self._record(settled.run_id, "person", str(settled.state), detail)
        return replace(held, claim=settled)

    def abandon(self, patience_s: float) -> int:
        """Whatever dead processes had under way may have happened: it is unknown from now on.

        Returns:
            How many there were.

        Raises:
            LedgerError: the ledger does not answer; doing it again is right.
        """
        held = self._book.latest(State.CLAIMED, _LOOKED_AT)
        dead = [policy.abandoned(each.claim) for each in held if is_gone(each.owner)]
        return sum(self._book.settle(claim, patience_s) for claim in dead)


def _decided(claim: Claim, own: Held | None, elsewhere: Sequence[Held]) -> Told:
    return policy.judge_all(
        None if own is None else _as_it_stands(own),
        [_as_it_stands(each) for each in elsewhere],
        claim.call_id,
        claim.claimed_s,
    )


def _as_it_stands(held: Held) -> Claim:
    return policy.abandoned(held.claim) if is_gone(held.owner) else held.claim


def _tree_of(live: LiveRun) -> str:
    """The run at the top: the one that children, and turns that go on for another, draw on."""
    outermost = live.run.run_id
    if live.guarded is not None:
        outermost = live.guarded.root.budget.run_id
    return live.run.root_run_id if outermost == live.run.run_id else outermost


_Name = tuple[str, str, str]


def _name(live: LiveRun, effect: Effect, call_id: str) -> _Name:
    """What names a call both when it starts and when it ends.

    A tool may change its arguments while it runs, so that an id counts where there is one.
    """
    return live.run.run_id, effect.tool, call_id or effect.key


def _place(live: LiveRun, call_id: str) -> str:
    call = f"tool call {call_id}" if call_id else "a tool call"
    return f"{call} of session {live.run.session_id}"

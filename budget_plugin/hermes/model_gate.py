"""The model gate: every attempt at the model is admitted before and recorded after.

Registered as `llm_execution` middleware, the only place that sees each billed attempt, those
included that the host's own accounting misses (answers cut by length, truncated tool calls).
"""

import logging
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from cachetools import LRUCache

from .. import messages
from ..engine.live_runs import LiveRun
from ..engine.permits import Permit, Request
from ..messages.loops import loop_note
from ..policy.admission import Kind
from ..policy.expectation import size_of
from ..policy.loops.responses import is_attended
from ..policy.prices.usage import UsageReport, read_usage
from ..policy.runs.refusals import Refusal
from ..policy.runs.run_limits import OnExhausted
from ..policy.tiers import Change
from .guard import guarded
from .identity import ids_of, word
from .replies import answer_length, final_answer, is_ours, longest_answer, with_cap, with_note
from .runs import Runs
from .runtime import Runtime

log = logging.getLogger(__name__)

UNREADABLE: Final = "unreadable_response"
"""The response could not be looked at; the call is charged at what was expected."""

_REFUSED: Final = frozenset({400, 401, 403, 404, 422})

_NEVER_SENT: Final = frozenset({"ConnectError", "ConnectTimeout", "ConnectionRefusedError"})
"""Errors, by the name of their class, under which no request has reached the provider."""


@dataclass(slots=True)
class _Attempt:
    """One pass through the gate, remembered for the host's own report of it, however often."""

    live: LiveRun
    permit: Permit
    request: Request
    moved: Change | None = None
    """The request goes to a cheaper model than the host has asked for."""
    reported_usage: bool = False
    """The response itself said what it used: the host's report of it adds nothing."""


class ModelGate:
    """Admission before, recording after; never in the way when something of ours fails."""

    def __init__(self, runtime: Runtime, runs: Runs) -> None:
        self._runtime = runtime
        self._runs = runs
        self._lock = threading.Lock()
        self._attempts: LRUCache[str, _Attempt] = LRUCache(1_024)

    def llm_execution(self, **kwargs: Any) -> Any:
        """Middleware: refuse with a final answer, or call on and write down what it cost."""
        next_call: Callable[..., Any] = kwargs.get("next_call") or _nobody
        answer = self._answer(kwargs)
        if answer:
            return final_answer(word(kwargs.get("api_mode")), word(kwargs.get("model")), answer)
        moved = self._moved(kwargs)
        refused = self._misfit(kwargs, moved)
        if refused:
            return final_answer(word(kwargs.get("api_mode")), word(kwargs.get("model")), refused)
        attempt = self._begin(kwargs, moved)
        if attempt is None:
            return next_call()
        if attempt.permit.refused:
            return self._refusal(attempt, kwargs)
        changed = self._changed_request(attempt, kwargs)
        try:
            response = next_call() if changed is None else next_call(changed)
        except BaseException as error:
            self._failed(attempt, error)
            raise
        self._record(attempt, response)
        return response

    @guarded(None)
    def _answer(self, kwargs: dict[str, Any]) -> str | None:
        """The answer to a `/budget …` that the host handed to the model: it costs no call."""
        live = self._runs.known(kwargs)
        return live.answer if live is not None else None

    @guarded(None)
    def _moved(self, kwargs: dict[str, Any]) -> Change | None:
        """The cheaper model that a call goes to past a soft mark, where that is set."""
        engine = self._runtime.engine()
        policy = engine.judge.latest_rules.budget.tiers
        body = kwargs.get("request")
        if not policy.downgrades or not isinstance(body, dict) or "model" not in body:
            return None
        live = self._runs.of(kwargs)
        return engine.downgrades.change_for(
            live,
            policy,
            word(kwargs.get("provider")),
            word(kwargs.get("model")),
            lambda: engine.tool_verdict(live),
        )

    @guarded(None)
    def _misfit(self, kwargs: dict[str, Any], moved: Change | None) -> str | None:
        """The answer in place of a model that this run's role may not use."""
        engine = self._runtime.engine()
        policy = engine.judge.latest_rules.budget.tiers
        if not policy.declares_anything():
            return None
        live = self._runs.of(kwargs)
        breach = engine.roles.may_call(live, policy, _model_of(kwargs, moved))
        if breach is None:
            return None
        engine.guard.refused_outright(live)
        return messages.model_refused(breach)

    @guarded(None)
    def _begin(self, kwargs: dict[str, Any], moved: Change | None) -> _Attempt | None:
        engine = self._runtime.engine()
        live = self._runs.of(kwargs)
        body = kwargs.get("request")
        body = body if isinstance(body, dict) else {}
        request = Request(
            provider=word(kwargs.get("provider")),
            model=_model_of(kwargs, moved),
            base_url=word(kwargs.get("base_url")),
            size=size_of(body),
            max_tokens=longest_answer(body),
        )
        _look_up_window(live, request)
        attempt = _Attempt(live, engine.admit(live, request), request, moved)
        with self._lock:
            self._attempts[_key(kwargs)] = attempt
        return attempt

    def _refusal(self, attempt: _Attempt, kwargs: dict[str, Any]) -> Any:
        return final_answer(
            word(kwargs.get("api_mode")), attempt.request.model, self._refusal_text(attempt)
        )

    @guarded("Stopped by the budget before the next model call.")
    def _refusal_text(self, attempt: _Attempt) -> str:
        stop, verdict = attempt.permit.stop, attempt.permit.verdict
        is_child = attempt.live.run.kind == "child"
        if verdict is None and stop is not None:
            said = messages.run_call_refused_to_model if is_child else messages.run_call_refused
            return said(stop)
        zone = self._runtime.engine().rules().zone
        assert verdict is not None
        if is_child:
            return messages.call_refused_to_model(verdict, zone)
        attempt.live.said.setdefault("hard", verdict)
        unpriced = attempt.request.model if attempt.permit.unpriced else ""
        return messages.call_refused(verdict, zone, unpriced_model=unpriced)

    @guarded(None)
    def _changed_request(self, attempt: _Attempt, kwargs: dict[str, Any]) -> dict[str, Any] | None:
        permit, api_mode = attempt.permit, word(kwargs.get("api_mode"))
        body: dict[str, Any] = kwargs["request"]
        changed = body if attempt.moved is None else {**body, "model": attempt.moved.after}
        if permit.output_cap is not None:
            changed = with_cap(changed, api_mode, permit.output_cap)
        if permit.kind is Kind.LAST and permit.verdict is not None:
            zone = self._runtime.engine().rules().zone
            changed = with_note(changed, api_mode, messages.last_answer(permit.verdict, zone))
            attempt.live.said.setdefault("hard", permit.verdict)
        elif permit.kind is Kind.LAST and permit.stop is not None:
            changed = with_note(changed, api_mode, _last_words(attempt.live, permit, permit.stop))
        elif notes := self._notes(attempt.live):
            changed = with_note(changed, api_mode, "\n".join(notes))
        return None if changed is body else changed

    def _notes(self, live: LiveRun) -> list[str]:
        """What a run is told in its middle, each thing once."""
        engine = self._runtime.engine()
        note = engine.telling.note(live)
        notes = [] if note is None else [messages.run_budget_note(note)]
        finish = not is_attended(live.run.kind)
        notes += [loop_note(found, finish=finish) for found in engine.loops.to_tell(live)]
        return notes

    @guarded(None)
    def _record(self, attempt: _Attempt, response: Any) -> None:
        engine = self._runtime.engine()
        if _is_ours(response):
            engine.release(attempt.permit)
            return
        report = _usage_in(response, attempt.permit.expected.prompt_tokens)
        attempt.reported_usage = report.usage is not None
        engine.record(
            attempt.live,
            attempt.permit,
            attempt.request,
            report,
            response_model=_model_in(response),
            output_chars=_length_of(response),
        )

    @guarded(None)
    def _failed(self, attempt: _Attempt, error: BaseException) -> None:
        """An attempt that raised: not billed when the provider said so, else charged as a guess."""
        engine = self._runtime.engine()
        if attempt.moved is not None and _is_refused_by_provider(error):
            engine.downgrades.refused(attempt.live, attempt.request.provider, attempt.moved)
        if _was_not_billed(error):
            engine.release(attempt.permit)
        else:
            report = UsageReport(None, flags=("interrupted",))
            engine.record(attempt.live, attempt.permit, attempt.request, report)

    @guarded(None)
    def reported(self, kwargs: dict[str, Any]) -> None:
        """`post_api_request`: the host's own report of an attempt, which may say more than ours."""
        with self._lock:
            attempt = self._attempts.get(_key(kwargs))
        if attempt is not None and (attempt.permit.refused or attempt.reported_usage):
            return  # our own synthetic answer, or a call that is written down already
        report = read_usage(kwargs.get("usage"))
        if report.usage is None:
            return
        if attempt is None:
            attempt = self._unseen(kwargs)
        self._runtime.engine().record(
            attempt.live,
            attempt.permit,
            attempt.request,
            report,
            response_model=word(kwargs.get("response_model")),
        )

    def _unseen(self, kwargs: dict[str, Any]) -> _Attempt:
        """A call that did not pass our middleware (another plugin answered in its place)."""
        engine = self._runtime.engine()
        live = self._runs.of(kwargs)
        request = Request(
            word(kwargs.get("provider")),
            word(kwargs.get("model")),
            word(kwargs.get("base_url")),
            0,
            None,
        )
        # Without a request id nothing tells a repeated report from another call.
        attempt_id = ids_of(kwargs).api_request_id or uuid.uuid4().hex
        return _Attempt(live, engine.unasked(attempt_id), request)


def _last_words(live: LiveRun, permit: Permit, stop: Refusal) -> str:
    """What a run is told that has run out: to undo what it did, or that this is its last answer."""
    undo = permit.undo
    if undo is not None:
        return messages.run_undo(stop, undo.effects, undo.count, undo.calls_left)
    run = live.guarded
    asks = run is not None and run.rules.on_exhausted is OnExhausted.ASK
    asks = asks and not stop.cause.is_circle  # more of the same is nobody's wish
    return messages.run_last_answer(stop, asks=asks and live.run.kind != "child")


def _look_up_window(live: LiveRun, request: Request) -> None:
    """Only a ceiling on the window needs to know how large it is."""
    run = live.guarded
    if run is None or run.budget.state.limits.context_pct is None:
        return
    from .model_window import window_tokens

    run.window_tokens = window_tokens(request.model, request.base_url)


def _model_of(kwargs: dict[str, Any], moved: Change | None) -> str:
    return word(kwargs.get("model")) if moved is None else moved.after


def _nobody(*_: object) -> None:
    """In place of a host that brought no next call."""


def _key(kwargs: dict[str, Any]) -> str:
    """What names an attempt to both the middleware and the host's report of it."""
    ids = ids_of(kwargs)
    return ids.api_request_id or ids.turn_id or ids.session_id


# A response is what the provider, or another plugin, made it. Where a part of it cannot be read the
# call was billed all the same.


@guarded(False)
def _is_ours(response: Any) -> bool:
    return is_ours(response)


@guarded(UsageReport(None, flags=(UNREADABLE,)))
def _usage_in(response: Any, prompt_tokens: int) -> UsageReport:
    return read_usage(response, approx_input_tokens=prompt_tokens)


@guarded("")
def _model_in(response: Any) -> str:
    return word(getattr(response, "model", ""))


@guarded(None)
def _length_of(response: Any) -> int | None:
    return answer_length(response)


@guarded(False)
def _was_not_billed(error: BaseException) -> bool:
    return was_not_billed(error)


def was_not_billed(error: BaseException) -> bool:
    """Whether the provider answered with an error status, or was never reached.

    The host wraps what the provider raised, so the causes are looked at too. Timeouts and
    interruptions are not among them: the provider may have done the work.
    """
    return any(
        _status_of(cause) >= 400 or type(cause).__name__ in _NEVER_SENT for cause in _causes(error)
    )


@guarded(False)
def _is_refused_by_provider(error: BaseException) -> bool:
    """Whether it was the request that the provider did not like, and not the moment."""
    return any(_status_of(cause) in _REFUSED for cause in _causes(error))


def _causes(error: BaseException) -> Iterator[Any]:
    """An error and what lies below it."""
    seen: set[int] = set()
    cause: Any = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = getattr(cause, "original", None) or getattr(cause, "__cause__", None)


def _status_of(error: Any) -> int:
    """The HTTP status that an SDK's error carries, itself or on its response; 0 without one."""
    for carrier in (error, getattr(error, "response", None)):
        status = getattr(carrier, "status_code", None)
        if isinstance(status, int):
            return status
    return 0

"""The model gate: every attempt at the model is admitted before and recorded after.

Registered as `llm_execution` middleware, the only place that sees each billed attempt, those
included that the host's own accounting misses (answers cut by length, truncated tool calls).
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cachetools import LRUCache

from .. import messages
from ..engine.live_runs import LiveRun
from ..engine.permits import Permit, Request
from ..policy.admission import Kind
from ..policy.expectation import size_of
from ..policy.usage import UsageReport, read_usage
from .guard import guarded
from .identity import ids_of, word
from .replies import answer_length, final_answer, longest_answer, with_cap, with_note
from .runs import Runs
from .runtime import Runtime

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Attempt:
    """One pass through the gate, kept until the host's own report of it has come."""

    live: LiveRun
    permit: Permit
    request: Request
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
        next_call: Callable[..., Any] = kwargs["next_call"]
        answer = self._answer(kwargs)
        if answer:
            return final_answer(word(kwargs.get("api_mode")), word(kwargs.get("model")), answer)
        attempt = self._begin(kwargs)
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
    def _begin(self, kwargs: dict[str, Any]) -> _Attempt | None:
        engine = self._runtime.engine()
        live = self._runs.of(kwargs)
        body = kwargs.get("request")
        body = body if isinstance(body, dict) else {}
        request = Request(
            provider=word(kwargs.get("provider")),
            model=word(kwargs.get("model")),
            base_url=word(kwargs.get("base_url")),
            size=size_of(body),
            max_tokens=longest_answer(body),
        )
        attempt = _Attempt(live, engine.admit(live, request), request)
        with self._lock:
            self._attempts[ids_of(kwargs).api_request_id] = attempt
        return attempt

    def _refusal(self, attempt: _Attempt, kwargs: dict[str, Any]) -> Any:
        return final_answer(
            word(kwargs.get("api_mode")), attempt.request.model, self._refusal_text(attempt)
        )

    @guarded("Stopped by the budget before the next model call.")
    def _refusal_text(self, attempt: _Attempt) -> str:
        zone = self._runtime.engine().rules().zone
        verdict = attempt.permit.verdict
        assert verdict is not None
        if attempt.live.run.kind == "child":
            return messages.call_refused_to_model(verdict, zone)
        attempt.live.said.setdefault("hard", verdict)
        unpriced = attempt.request.model if attempt.permit.unpriced else ""
        return messages.call_refused(verdict, zone, unpriced_model=unpriced)

    @guarded(None)
    def _changed_request(self, attempt: _Attempt, kwargs: dict[str, Any]) -> dict[str, Any] | None:
        permit, api_mode = attempt.permit, word(kwargs.get("api_mode"))
        body: dict[str, Any] = kwargs["request"]
        changed = body
        if permit.output_cap is not None:
            changed = with_cap(changed, api_mode, permit.output_cap)
        if permit.kind is Kind.LAST and permit.verdict is not None:
            zone = self._runtime.engine().rules().zone
            changed = with_note(changed, api_mode, messages.last_answer(permit.verdict, zone))
            attempt.live.said.setdefault("hard", permit.verdict)
        return None if changed is body else changed

    @guarded(None)
    def _record(self, attempt: _Attempt, response: Any) -> None:
        report = read_usage(response, approx_input_tokens=attempt.permit.expected.prompt_tokens)
        attempt.reported_usage = report.usage is not None
        self._runtime.engine().record(
            attempt.live,
            attempt.permit,
            attempt.request,
            report,
            response_model=word(getattr(response, "model", "")),
            output_chars=answer_length(response),
        )

    @guarded(None)
    def _failed(self, attempt: _Attempt, error: BaseException) -> None:
        """An attempt that raised: not billed when the provider said so, else charged as a guess."""
        engine = self._runtime.engine()
        if was_not_billed(error):
            engine.release(attempt.permit)
        else:
            report = UsageReport(None, flags=("interrupted",))
            engine.record(attempt.live, attempt.permit, attempt.request, report)

    @guarded(None)
    def reported(self, kwargs: dict[str, Any]) -> None:
        """`post_api_request`: the host's own report of an attempt, which may say more than ours."""
        ids = ids_of(kwargs)
        with self._lock:
            attempt = self._attempts.pop(ids.api_request_id, None)
        if attempt is not None and (attempt.permit.refused or attempt.reported_usage):
            return  # our own synthetic answer, or a call that is written down already
        report = read_usage(kwargs.get("usage"))
        if report.usage is None:
            return
        if attempt is None:
            attempt = self._unseen(kwargs, ids.api_request_id)
        self._runtime.engine().record(
            attempt.live,
            attempt.permit,
            attempt.request,
            report,
            response_model=word(kwargs.get("response_model")),
        )

    def _unseen(self, kwargs: dict[str, Any], api_request_id: str) -> _Attempt:
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
        return _Attempt(live, engine.unasked(api_request_id), request)


def was_not_billed(error: BaseException) -> bool:
    """Whether the provider answered with an error status, or was never reached.

    The host wraps what the provider raised, so the causes are looked at too. Timeouts and
    interruptions are not among them: the provider may have done the work.
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        status = getattr(error, "status_code", None)
        if isinstance(status, int) and status >= 400:
            return True
        if type(error).__name__ in ("ConnectError", "ConnectionRefusedError"):
            return True
        error = getattr(error, "original", None) or error.__cause__  # type: ignore[assignment]
    return False

"""Replies and requests in the host's three wire shapes.

A refused call is answered by a well-formed final answer, so that the host ends the turn. The wrong
shape would make it retry and fall back to other providers (observed on hermes-agent 0.19.0).
"""

from collections.abc import Mapping
from types import SimpleNamespace as Obj
from typing import Any, Final

_CAP_KEYS: Final = ("max_completion_tokens", "max_output_tokens", "max_tokens")
_OURS: Final = "budget-stop"
_DEFAULT_CAP_KEY: Final = {"codex_responses": "max_output_tokens"}


def final_answer(api_mode: str, model: str, text: str) -> Any:
    """A synthetic reply that the host takes as the model's final answer; it was never billed."""
    if api_mode == "anthropic_messages":
        return Obj(
            id=_OURS,
            type="message",
            role="assistant",
            model=model,
            usage=None,
            stop_reason="end_turn",
            content=[Obj(type="text", text=text)],
        )
    if api_mode == "codex_responses":
        return Obj(
            id=_OURS,
            model=model,
            usage=None,
            status="completed",
            incomplete_details=None,
            error=None,
            output_text=text,
            output=[
                Obj(
                    type="message",
                    role="assistant",
                    status="completed",
                    id=f"{_OURS}-message",
                    phase=None,
                    content=[Obj(type="output_text", text=text)],
                )
            ],
        )
    message = Obj(
        role="assistant", content=text, tool_calls=None, refusal=None, reasoning_content=None
    )
    return Obj(
        id=_OURS,
        object="chat.completion",
        model=model,
        usage=None,
        choices=[Obj(index=0, finish_reason="stop", message=message)],
    )


def is_ours(response: Any) -> bool:
    """Whether a reply is such a synthetic one, from another copy of us within the same process."""
    return bool(_get(response, "id") == _OURS)


def longest_answer(request: Mapping[str, Any]) -> int | None:
    """The longest answer that a request allows, in tokens; `None` when it does not say."""
    for key in _CAP_KEYS:
        value = request.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def with_cap(request: Mapping[str, Any], api_mode: str, cap: int) -> dict[str, Any]:
    """A copy of the request that asks for an answer of at most `cap` tokens."""
    for key in _CAP_KEYS:
        if request.get(key):
            return {**request, key: cap}
    return {**request, _DEFAULT_CAP_KEY.get(api_mode, "max_tokens"): cap}


def with_note(request: Mapping[str, Any], api_mode: str, note: str) -> dict[str, Any]:
    """A copy of the request whose last message carries one more line.

    The host's own messages are not touched, so the line leaves no trace in later requests.
    """
    key = "input" if api_mode == "codex_responses" else "messages"
    messages = request.get(key)
    if not isinstance(messages, list) or not messages or not isinstance(messages[-1], Mapping):
        return dict(request)
    last = dict(messages[-1])
    content_key = "output" if "output" in last and "content" not in last else "content"
    last[content_key] = _appended(last.get(content_key), note)
    return {**request, key: [*messages[:-1], last]}


def _appended(content: Any, note: str) -> Any:
    if isinstance(content, list):
        kinds = [part.get("type") for part in content if isinstance(part, Mapping)]
        kind = "input_text" if "input_text" in kinds else "text"
        return [*content, {"type": kind, "text": note}]
    return f"{content}\n\n{note}" if isinstance(content, str) and content else note


def answer_length(response: Any) -> int:
    """Characters of the answer in a response, for an estimate when no usage came."""
    total = 0
    for choice in _list(response, "choices"):
        message = _get(choice, "message")
        total += _length(_get(message, "content")) + _length(_get(message, "reasoning_content"))
        for call in _list(message, "tool_calls"):
            total += _length(_get(_get(call, "function"), "arguments"))
    for part in (*_list(response, "content"), *_list(response, "output")):
        total += _length(_get(part, "text"))
        total += sum(_length(_get(inner, "text")) for inner in _list(part, "content"))
        total += _length(_get(part, "arguments"))
    return total


def _get(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _list(value: Any, name: str) -> list[Any]:
    found = _get(value, name)
    return found if isinstance(found, list) else []


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str) else 0

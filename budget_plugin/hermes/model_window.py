"""How many tokens a model's window holds, as far as the host knows without asking anybody."""

from functools import lru_cache
from typing import Any

from .guard import guarded


@lru_cache(256)
def window_tokens(model: str, base_url: str) -> int | None:
    """The window of a model, from the host's configuration, else from what it has learnt before.

    The host's full answer may ask the provider over the network, which has no place in a gate.
    """
    return _configured(model) or _learnt(model, base_url)


@guarded(None)
def _configured(model: str) -> int | None:
    from hermes_cli.config import load_config

    section: Any = load_config().get("model")
    if not isinstance(section, dict) or section.get("default") != model:
        return None
    return _whole(section.get("context_length"))


@guarded(None)
def _learnt(model: str, base_url: str) -> int | None:
    from agent.model_metadata import get_cached_context_length

    return _whole(get_cached_context_length(model, base_url))


def _whole(value: object) -> int | None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and value > 0 else None  # type: ignore[operator,return-value]

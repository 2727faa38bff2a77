"""The guard around everything that the host calls."""

import functools
import logging
from collections.abc import Callable
from typing import ParamSpec, TypeVar

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F")


def guarded(fallback: F) -> Callable[[Callable[P, T]], Callable[P, T | F]]:
    """Keep our own faults from the host: log each kind once, then answer `fallback`.

    The host treats an exception as "go on", and logs it at every call.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T | F]:
        told: set[str] = set()

        @functools.wraps(function)
        def guard(*args: P.args, **kwargs: P.kwargs) -> T | F:
            try:
                return function(*args, **kwargs)
            except Exception as error:
                kind = f"{type(error).__name__}"
                level = logging.DEBUG if kind in told else logging.ERROR
                told.add(kind)
                log.log(level, "%s failed: %s", function.__name__, error, exc_info=True)
                return fallback

        return guard

    return decorate

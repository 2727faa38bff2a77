"""Days as options: `--from 2026-11-30`, and which moments they stand for."""

from collections.abc import Mapping
from datetime import date

from ..messages import replays
from .asking import Usage


def day_option(options: Mapping[str, str], name: str) -> date | None:
    """The day that an option names, `None` without it.

    Raises:
        Usage: it is no day.
    """
    text = options.get(name)
    if text is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise Usage(
            replays.option_not_understood(name, text, "a date such as 2026-11-30")
        ) from None

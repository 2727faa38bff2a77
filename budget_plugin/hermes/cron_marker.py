"""The mark that jobs of ours are paused, and the wait for their reset in a process that just began.

Light, since `register` looks at it: one stat, and a thread only where the mark is there.
"""

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

MARKER: Final = "cron-resume-due"
"""A file in the budget folder; its modification time is the earliest reset."""

_LONGEST_NAP_S: Final = 30.0


def marker_due_ms(marker: Path) -> int | None:
    """When the earliest paused job is due, by one stat; `None` when no job of ours is paused."""
    try:
        return int(marker.stat().st_mtime * 1000)
    except OSError:
        return None


def take_over(folder: Path, resume: Callable[[], None]) -> None:
    """Resume what is due, or wait for it, if a mark says that jobs of ours are paused.

    Args:
        folder: the budget folder.
        resume: called once the earliest reset has come, on a thread of its own.

    A process that only ticks the scheduler ends soon, and must not end before a job that is due has
    been resumed: so that thread is no daemon.
    """
    due_ms = marker_due_ms(folder / MARKER)
    if due_ms is None:
        return
    overdue = due_ms <= time.time() * 1000
    threading.Thread(
        target=_wait, args=(due_ms, resume), name="budget-cron-take-over", daemon=not overdue
    ).start()


def _wait(due_ms: int, resume: Callable[[], None]) -> None:
    try:
        # In short naps: a laptop that slept, or a clock that was set, moves the reset.
        while (left_s := due_ms / 1000 - time.time()) > 0:
            time.sleep(min(left_s, _LONGEST_NAP_S))
        resume()
    except Exception:
        log.exception("paused cron jobs could not be looked at")

"""One process at a time in a folder: for beginning a ledger and for setting a damaged one aside."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

try:
    import fcntl
except ImportError:  # Windows: renaming an open file fails there, which guards the same moments
    fcntl = None  # type: ignore[assignment]

_PAUSE_S: Final = 0.002


@contextmanager
def folder_lock(folder: Path, deadline: float) -> Iterator[None]:
    """Hold the folder's lock; the kernel frees it when the process ends.

    Args:
        deadline: monotonic seconds; after it we go on without the lock, as we do on file systems
            that have none. What it guards is right without it, but for moments of microseconds.
    """
    descriptor = None if fcntl is None else os.open(folder, os.O_RDONLY)
    try:
        if descriptor is not None:
            _take(descriptor, deadline)
        yield
    finally:
        if descriptor is not None:
            _give_back(descriptor)


def _take(descriptor: int, deadline: float) -> None:
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return None
            time.sleep(_PAUSE_S)
        except OSError:
            return None


def _give_back(descriptor: int) -> None:
    try:
        # Said, not left to the close: a process forked meanwhile has the descriptor too.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    except OSError:
        pass
    finally:
        os.close(descriptor)

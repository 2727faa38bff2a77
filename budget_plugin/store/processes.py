"""Who owns a reservation: a process, told from a later one with the same number by its start."""

import os
import socket
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Owner:
    """A process on a host; `started` is whatever the system offers to tell two processes apart."""

    host: str
    pid: int
    started: str


def this_process() -> Owner:
    """The owner of what this process sets aside; a fork is an owner of its own."""
    return _owner(os.getpid())


@cache
def _owner(pid: int) -> Owner:
    return Owner(_host(), pid, _started(pid))


@cache
def _host() -> str:
    return socket.gethostname()


def is_gone(owner: Owner) -> bool:
    """Whether the owner can no longer settle: it ran on this host and does not run any more."""
    if owner.host != _host():
        return False
    if owner.pid == os.getpid():
        return owner.started != this_process().started
    return not _runs(owner.pid) or _started(owner.pid) != owner.started


def _runs(pid: int) -> bool:
    if sys.platform == "win32":
        return True  # a signal 0 would end the process there; time alone expires it
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _started(pid: int) -> str:
    """Clock ticks since boot at which the process started; "" where the system does not tell."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except OSError:
        return ""
    # The name in parentheses may hold spaces: count from behind it. A zombie no longer settles.
    fields = text.rpartition(")")[2].split()
    return "" if fields[0] == "Z" else fields[19]

"""Who owns a reservation: a process, told from a later one with the same number by its start."""

import os
import socket
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Owner:
    """A process on a host.

    Attributes:
        host: name of the machine and of its process numbers: containers that share a name and a
            folder do not see each other's processes.
        started: tells two processes with one number apart; "" where the system offers nothing.
    """

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
    try:
        numbers = os.readlink("/proc/self/ns/pid")  # noqa: PTH115  (no path: `pid:[4026531836]`)
    except OSError:
        return socket.gethostname()
    return f"{socket.gethostname()} {numbers}"


def is_visible(owner: Owner) -> bool:
    """Whether we would notice that the owner is gone; where not, time alone expires it."""
    return owner.host == _host() and bool(owner.started)


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
    """Boot and clock ticks since then at which the process started; "" where nobody tells."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except OSError:
        return ""
    # The name in parentheses may hold spaces: count from behind it. A zombie no longer settles.
    fields = text.rpartition(")")[2].split()
    return "" if fields[0] == "Z" else f"{_boot()} {fields[19]}"


@cache
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii")[:8]
    except OSError:
        return ""

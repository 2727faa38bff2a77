"""What must be put right around a fork: locks, threads and connections do not survive one.

A host may fork without executing anything else (`multiprocessing`). SQLite keeps its file locks per
process and does not notice: a child that opens the ledger beside an inherited connection holds no
lock of its own, and another process may delete the write-ahead log under it. In a trial of three
rows one was lost.
"""

import os
import threading
from typing import Protocol
from weakref import WeakSet


class ForkAware(Protocol):
    """Something that has to be told of a fork of this process."""

    def before_fork(self) -> None:
        """Come to rest; called on the thread that forks, must not take long."""

    def after_fork(self, *, in_child: bool) -> None:
        """Go on in the parent, begin anew in the child, where all other threads are gone."""


_watched: WeakSet[ForkAware] = WeakSet()
_resting: list[ForkAware] = []
_forking = threading.Lock()


def watch(thing: ForkAware) -> None:
    """Tell this object of every fork for as long as it lives."""
    _watched.add(thing)


def _before() -> None:
    _forking.acquire()
    _resting[:] = list(_watched)
    for thing in _resting:
        thing.before_fork()


def _after(*, in_child: bool) -> None:
    resting = list(_resting)
    _resting.clear()
    for thing in resting:
        thing.after_fork(in_child=in_child)
    _forking.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before,
        after_in_parent=lambda: _after(in_child=False),
        after_in_child=lambda: _after(in_child=True),
    )

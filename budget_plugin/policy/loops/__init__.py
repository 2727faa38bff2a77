"""Loops: runs that go in circles, seen before any limit is reached.

Each detector is a small object that is shown one event after another; `Watch` holds them all, and
`detect` is the same as a pure function over a window. Who repeats is never guessed from text, only
from equal digests, so a detector gives the same answer whatever the digests are.
"""

from .events import Answer, Checkpoint, Event, Head, Hop, PersonSpoke, Resumed, Status, ToolEvent
from .hops import LONGEST_CYCLE, recursion
from .reading import read_tool_event
from .settings import ALLOWED, DEFAULTS, Detector, Finding, Level, LoopPolicy, Setting
from .tools import Outcomes
from .watch import WATCHED_AT_ONCE, Watch, detect

__all__ = [
    "ALLOWED",
    "DEFAULTS",
    "LONGEST_CYCLE",
    "WATCHED_AT_ONCE",
    "Answer",
    "Checkpoint",
    "Detector",
    "Event",
    "Finding",
    "Head",
    "Hop",
    "Level",
    "LoopPolicy",
    "Outcomes",
    "PersonSpoke",
    "Resumed",
    "Setting",
    "Status",
    "ToolEvent",
    "Watch",
    "detect",
    "read_tool_event",
    "recursion",
]

"""Who asks what, and the answer: values that every command takes and gives. Light to import."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from ..messages.diagnosis import Finding
from ..messages.layout import Page
from ..messages.replays import ReplayReport
from ..messages.status import Status
from ..policy.replay.recorded import Event
from ..policy.schedules import Schedule

OK: Final = 0
PROBLEM: Final = 1
USAGE: Final = 2
OVER_BUDGET: Final = 3


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command says.

    Attributes:
        text: for a person; a report is a `Page`, which a chat breaks at 40 columns.
        data: the same for programs, as JSON takes it.
        exit_code: 0 ok, 1 a problem, 2 not understood, 3 over budget (`status --check`).
        stream: lines to be written as they come, in place of a text.
        report: the report behind the text, where a terminal can show it as a table.
    """

    text: str
    data: object = None
    exit_code: int = OK
    report: Status | ReplayReport | None = None
    stream: Iterable[str] | None = None

    def in_a_chat(self) -> str:
        """The text, a report as narrow as a telephone."""
        return self.text.within() if isinstance(self.text, Page) else self.text


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, and what they may do.

    Attributes:
        who: for the record of changes: `telegram:123456`, or the name of the local user.
        via: for the record of changes: `command line` or `chat`.
        prefix: how the caller writes a command: `/budget` or `hermes budget`.
        may_change: limits may be set, and everybody's spend be seen.
        sender_id: the caller's own scope id in a chat app, empty for the local user.
    """

    who: str
    via: str
    prefix: str = "hermes budget"
    may_change: bool = True
    sender_id: str = ""


def _nothing() -> Iterable[Finding]:
    return ()


@dataclass(frozen=True, slots=True)
class CronJob:
    """A cron job as the host has it.

    Attributes:
        paused_at: the host's own stamp of a pause; whoever pauses again makes a new one.
        paused_why: the host's note on a pause, empty where there is none.
        ended: it does not fire any more, paused or not.
        profile: under which profile it runs.
    """

    job_id: str
    paused: bool = False
    paused_at: str = ""
    paused_why: str = ""
    ended: bool = False
    profile: str = ""


class JobStoreError(Exception):
    """The host's job store did not do it; the text says why."""


class JobStore(Protocol):
    """The host's cron jobs; each call may raise `JobStoreError`."""

    def find(self, job_id: str) -> CronJob | None:
        """The job with this id; `None` when there is none."""

    def pause(self, job_id: str, why: str) -> None:
        """Let it fire no more; of a job that is paused already only the note changes."""

    def resume(self, job_id: str) -> None:
        """Let it fire again, next at its first firing from now."""


@dataclass(frozen=True, slots=True)
class Host:
    """What only the host knows; a command that runs outside it gets none of this.

    Attributes:
        findings: about the host itself, for `doctor`.
        schedules: the cron jobs and their firings from now (UTC ms) to an end; `None` when the
            host does not say.
        jobs: its cron jobs, to pause and resume them.
    """

    findings: Callable[[], Iterable[Finding]] = _nothing
    schedules: Callable[[int, int], Sequence[Schedule] | None] = lambda _now_ms, _end_ms: None
    jobs: JobStore | None = None


NO_HOST: Final = Host()


def _unwatched(events: Iterable[Event], _calls: int) -> Iterable[Event]:
    return events


@dataclass(frozen=True, slots=True)
class Args:
    """The words after the command's name, and its options.

    Attributes:
        scope_id: from `--id`; `None` where it was not given.
        check: `--check`: the exit code tells whether a limit is reached.
        partial: `--partial`: only the runs that left something undone.
        provider: `--provider`: who sells the model.
        options: the options that only one command has, by name.
        host: what only the host knows.
        progress: shows how far a long pass over so many calls is, where somebody watches.
    """

    caller: Caller
    words: tuple[str, ...] = ()
    scope_id: str | None = None
    check: bool = False
    partial: bool = False
    provider: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    host: Host = NO_HOST
    progress: Callable[[Iterable[Event], int], Iterable[Event]] = _unwatched


class Usage(Exception):
    """What was typed is not understood; the text says what would be right."""

"""What follows from a finding: nothing, a line, a refusal, the end.

Somebody who is there sees a run go in circles and can step in: it is told, and the repeated call is
refused. Where nobody is there, it is told to finish, and ended if it goes on with it.
"""

from enum import StrEnum

from .settings import Finding, Level, LoopPolicy


class Action(StrEnum):
    """What was done about a finding, mildest first."""

    WATCHED = "watched"
    WARNED = "warned"
    REFUSED = "refused"
    ENDED = "ended"


def is_attended(kind: str) -> bool:
    """Whether a person waits for a run of this kind: a turn of a chat, not a job's, a child's or a
    review."""
    return kind == "chat"


def response(
    policy: LoopPolicy, finding: Finding, *, attended: bool, told_to_finish: bool
) -> Action:
    """What follows from something that has just been seen.

    Args:
        attended: a person is there.
        told_to_finish: the run has read that it goes in circles and is to finish.
    """
    if not policy.of(finding.detector).on:
        return Action.WATCHED
    if finding.level is Level.ACT and told_to_finish and not attended:
        return Action.ENDED
    return Action.WARNED


def refusal(standing: Finding | None, *, attended: bool, told_to_finish: bool) -> Action | None:
    """What follows before a call that would go on with a loop; `None`: it may run.

    Args:
        standing: the loop that it would go on with.
    """
    if standing is None or not standing.acts:
        return None
    return Action.ENDED if told_to_finish and not attended else Action.REFUSED


def worse(first: Action, second: Action) -> Action:
    """The one that took more away."""
    return max(first, second, key=tuple(Action).index)

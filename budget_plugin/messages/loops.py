"""What is said of a run that goes in circles: to its model, and in reports."""

from typing import Final

from ..policy.loops import Detector, Finding
from ..policy.runs.receipts import LoopSeen

_REPEATS: Final = {
    Detector.REPEATED_CALL: "{who} was called {n} times with the same arguments and gave the same "
    "result each time, with nothing new in between",
    Detector.REPEATED_ERROR: "{who} failed {n} times with the same error",
    Detector.NO_NEW_FACTS: "{n} checkpoints in a row established nothing",
    Detector.IDLE_HOPS: "work was handed on {n} times in a row ({who}) and nothing was established",
    Detector.CYCLE: "the same work was handed on {n} times ({who}) and nothing was established",
    Detector.RECURSION: "the role and goal of this dispatch ({who}) are those of a run above",
    Detector.STUCK_HEAD: "{who} handed in the same draft {n} times and its score did not improve",
    Detector.BURST: "{n} calls since the run was resumed brought nothing new",
}
_INSTEAD: Final = {
    Detector.REPEATED_CALL: "Use the result that is there. If it has to change first, wait for "
    "that; if it does not help, look elsewhere.",
    Detector.REPEATED_ERROR: "Varying the arguments has not helped: read the error, and change the "
    "approach or the tool.",
    Detector.NO_NEW_FACTS: "Say what is missing and who could supply it.",
    Detector.IDLE_HOPS: "Do the work here, or say what is missing and who could supply it.",
    Detector.CYCLE: "Do the work here, or say what is missing and who could supply it.",
    Detector.RECURSION: "That work is under way there: do your own part of it, and report.",
    Detector.STUCK_HEAD: "Let the draft go on as it is, with its gaps named.",
    Detector.BURST: "Go on from where the run stood, not from the beginning.",
}


def loop_note(found: Finding, *, finish: bool) -> str:
    """A line with the next call to the model.

    Args:
        finish: nobody is there to step in: the run is to finish.
    """
    text = f"[budget] This goes in a circle: {_what(found)}. {_INSTEAD[found.detector]}"
    if not found.acts:
        return text
    if finish:
        return (
            f"{text} Finish now: write the final answer with what is established, what is not, and "
            "what was tried. If this goes on, the run is ended."
        )
    return f"{text} The same again will be refused until something new is known."


def loop_refused(found: Finding) -> str:
    """The tool gate's answer to a call that would go on with a circle."""
    return f"Not carried out, since it goes in a circle: {_what(found)}. {_INSTEAD[found.detector]}"


def loop_line(seen: LoopSeen) -> str:
    """`repeated call: terminal, 4 times (refused)`, for a receipt."""
    parts = ", ".join((*seen.subject, f"{seen.count} times"))
    return f"{seen.detector.replace('_', ' ')}: {parts} ({seen.action})"


def _what(found: Finding) -> str:
    return _REPEATS[found.detector].format(who=" → ".join(found.subject), n=found.count)

"""What `doctor` says: findings, each a sentence, worst first."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum


class Grade(IntEnum):
    """How bad a finding is; only a problem makes `doctor` fail."""

    FINE = 0
    NOTE = 1
    PROBLEM = 2


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at, and how it stands."""

    about: str
    grade: Grade
    text: str


_MARKS = {Grade.FINE: "ok  ", Grade.NOTE: "note", Grade.PROBLEM: "!!  "}


def diagnosis(findings: Sequence[Finding]) -> str:
    """All findings in the order of looking, then what to make of them."""
    lines = [f"{_MARKS[found.grade]} {found.about}: {found.text}" for found in findings]
    problems = sum(found.grade is Grade.PROBLEM for found in findings)
    if not problems:
        last = "All is well."
    else:
        last = "1 problem was found." if problems == 1 else f"{problems} problems were found."
    return "\n".join([*lines, last])

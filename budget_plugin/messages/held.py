"""What is said of edits of budget.yaml that wait for a person's word."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..policy.limit_changes import HeldLimit
from ..policy.limits import Key, Scope
from .layout import limit_or_none, plain, upper_first, whose
from .parts import WINDOW_WORDS

if TYPE_CHECKING:  # the store brings SQLAlchemy
    from ..store.journal import LimitChange


def held_lines(waiting: Sequence[HeldLimit], prefix: str) -> Iterator[str]:
    """For the status: what the file says, what holds, and the command that lets it through."""
    if not waiting:
        return
    yield "Raised or lifted in budget.yaml while reached; waits for your word:"
    for limit in waiting:
        measure = limit.key.measure
        yield (
            f"  {_name(limit.scope, limit.scope_id, limit.key)}: "
            f"{limit_or_none(limit.in_force, measure)} is in force, "
            f"{limit_or_none(limit.in_file, measure)} in the file"
        )
    yield f"  {prefix} confirm"


def held_data(limit: HeldLimit) -> dict[str, object]:
    """A change that waits, for programs."""
    measure = limit.key.measure
    return {
        "scope": str(limit.scope),
        "id": limit.scope_id,
        "window": str(limit.key.window),
        "measure": str(measure),
        "in_force": None if limit.in_force is None else plain(limit.in_force, measure),
        "in_file": None if limit.in_file is None else plain(limit.in_file, measure),
    }


def confirmed(changes: Sequence["LimitChange"]) -> str:
    """What a confirmation has put in force."""
    if not changes:
        return "Nothing waits for a confirmation."
    return "\n".join(
        f"{upper_first(_name(change.scope, change.scope_id, change.key))}: "
        f"was {limit_or_none(change.before, change.key.measure)}, "
        f"is {limit_or_none(change.after, change.key.measure)}."
        for change in changes
    )


def _name(scope: Scope, scope_id: str, key: Key) -> str:
    return f"{WINDOW_WORDS[key.window]} limit for {whose(scope, scope_id)}"

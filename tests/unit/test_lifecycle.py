"""How a run ends, and how it gets there."""

import pytest

from budget_plugin.policy.runs.endings import (
    Consequence,
    Ending,
    Outcome,
    Status,
    TerminalState,
    consequence,
    ending_of,
)
from budget_plugin.policy.runs.lifecycle import (
    UNDO_CALLS,
    Asked,
    Converged,
    Delegated,
    Event,
    Exhausted,
    Finished,
    Life,
    Phase,
    Released,
    Resumed,
    Returned,
    Work,
    begin,
    step,
)
from budget_plugin.policy.runs.run_limits import Cause, OnExhausted

RESOLVED = TerminalState.RESOLVED
ESCALATED = TerminalState.ESCALATED_TO_HUMAN
FOLLOW_UP = TerminalState.FOLLOW_UP_TICKET
NO_ANSWER = TerminalState.NO_ANSWER_SAFE_FALLBACK

ANSWERED = Finished(Outcome.ANSWERED)


# --- endings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "exhausted", "declared", "gaps", "state", "cause", "status"),
    [
        (Outcome.ANSWERED, None, None, False, RESOLVED, "answered", "complete"),
        (Outcome.ANSWERED, None, RESOLVED, False, RESOLVED, "answered", "complete"),
        (Outcome.ANSWERED, None, None, True, RESOLVED, "answered", "partial"),
        (Outcome.ANSWERED, None, ESCALATED, False, ESCALATED, "answered", "partial"),
        (Outcome.ANSWERED, None, FOLLOW_UP, False, FOLLOW_UP, "answered", "partial"),
        (Outcome.ANSWERED, None, NO_ANSWER, False, NO_ANSWER, "answered", "partial"),
        (Outcome.LOOPED, None, None, False, ESCALATED, "looped", "partial"),
        (Outcome.STUCK, None, RESOLVED, False, ESCALATED, "stuck", "partial"),
        (Outcome.INTERRUPTED, None, None, False, FOLLOW_UP, "interrupted", "partial"),
        (Outcome.FAILED, None, RESOLVED, False, ESCALATED, "failed", "partial"),
        (Outcome.CRASHED, None, RESOLVED, False, ESCALATED, "crashed", "partial"),
        (Outcome.CRASHED, Cause.SPEND, None, False, ESCALATED, "crashed", "partial"),
        (Outcome.REFUSED, None, None, False, NO_ANSWER, "refused", "partial"),
        (Outcome.REFUSED, Cause.SPEND, None, False, NO_ANSWER, "spend budget", "partial"),
        (Outcome.STOPPED, None, None, False, ESCALATED, "stopped", "partial"),
        (Outcome.ANSWERED, Cause.TOKENS, RESOLVED, False, ESCALATED, "token budget", "partial"),
        (Outcome.ANSWERED, Cause.TOKENS, FOLLOW_UP, False, FOLLOW_UP, "token budget", "partial"),
        (Outcome.ANSWERED, Cause.HOPS, FOLLOW_UP, False, ESCALATED, "hop budget", "partial"),
        (Outcome.FAILED, Cause.DEADLINE, None, False, ESCALATED, "wall-clock deadline", "partial"),
    ],
)
def test_what_happened_gives_one_state_one_cause_one_status(
    outcome: Outcome,
    exhausted: Cause | None,
    declared: TerminalState | None,
    gaps: bool,
    state: TerminalState,
    cause: str,
    status: str,
) -> None:
    ending = ending_of(outcome, exhausted, declared, gaps=gaps)
    assert (ending.state, ending.cause, ending.status) == (state, cause, status)


@pytest.mark.case("A54")
@pytest.mark.parametrize("cause", [cause for cause in Cause if cause.ends_run])
@pytest.mark.parametrize("declared", [None, *TerminalState])
@pytest.mark.parametrize("outcome", list(Outcome))
def test_an_exhausted_run_is_never_complete(
    cause: Cause, declared: TerminalState | None, outcome: Outcome
) -> None:
    ending = ending_of(outcome, cause, declared)
    assert ending.status is Status.PARTIAL
    assert ending.state is not RESOLVED
    assert ending.is_breach or outcome is Outcome.CRASHED
    # A run that went in circles has used up nothing.
    assert ending.is_exhausted is (outcome is not Outcome.CRASHED and not cause.is_circle)


@pytest.mark.parametrize(
    ("state", "cause"),
    [(RESOLVED, "hop budget"), (RESOLVED, "crashed"), (ESCALATED, "answered")],
)
def test_a_complete_ending_can_not_even_be_written_for_another_reason(
    state: TerminalState, cause: str
) -> None:
    with pytest.raises(ValueError, match="never complete"):
        Ending(state, cause, Status.COMPLETE)


@pytest.mark.parametrize(
    ("cause", "expected", "state"),
    [
        (Cause.HOPS, Consequence.ESCALATES, ESCALATED),
        (Cause.RETRIAGES, Consequence.ESCALATES, ESCALATED),
        (Cause.REJUDGES, Consequence.ESCALATES, ESCALATED),
        (Cause.TOKENS, Consequence.ENDS, ESCALATED),
        (Cause.CRITIQUES, Consequence.DRAFT_GOES_ON, None),
        (Cause.BATCH, Consequence.SPLIT, None),
        (Cause.RETRIES, Consequence.REFUSED, None),
    ],
)
def test_a_spent_ceiling_has_one_consequence(
    cause: Cause, expected: Consequence, state: TerminalState | None
) -> None:
    assert consequence(cause) is expected
    assert cause.ends_run is (state is not None)
    if state is not None:
        assert ending_of(Outcome.ANSWERED, cause).state is state


def test_spent_rejudges_name_low_confidence_as_the_trigger() -> None:
    triggers = {c: ending_of(Outcome.ANSWERED, c).trigger for c in Cause if c.ends_run}
    assert {c: t for c, t in triggers.items() if t} == {Cause.REJUDGES: "low confidence"}


# --- the way there ------------------------------------------------------------------------------


def after(*events: Event, life: Life | None = None) -> Life:
    life = life or begin(OnExhausted.REPORT)
    for event in events:
        life = step(life, event).life
    return life


@pytest.mark.parametrize(
    ("events", "phase"),
    [
        ((), Phase.RUNNING),
        ((Converged(),), Phase.CONVERGING),
        ((Exhausted(Cause.TOKENS),), Phase.EXHAUSTED),
        ((Delegated(),), Phase.RUNNING),
        ((Delegated(), ANSWERED), Phase.WAITING),
        ((Delegated(), Finished(Outcome.INTERRUPTED)), Phase.WAITING),
        ((Delegated(), ANSWERED, Resumed()), Phase.RUNNING),
        ((Converged(), Delegated(), ANSWERED, Resumed()), Phase.CONVERGING),
        ((Delegated(2), Returned(), ANSWERED), Phase.WAITING),
        ((Delegated(2), Returned(2), ANSWERED), Phase.ENDED),
        ((Delegated(), Returned(9), Delegated(), ANSWERED), Phase.WAITING),
        ((Delegated(0), ANSWERED), Phase.ENDED),
        ((ANSWERED,), Phase.ENDED),
        # stopped, or without a process: there is nothing to wait for
        ((Delegated(), Exhausted(Cause.SPEND), ANSWERED), Phase.ENDED),
        ((Delegated(), Finished(Outcome.LOOPED)), Phase.ENDED),
        ((Delegated(), Finished(Outcome.STUCK)), Phase.ENDED),
        ((Delegated(), Finished(Outcome.CRASHED)), Phase.ENDED),
        ((Delegated(), ANSWERED, Finished(Outcome.CRASHED)), Phase.ENDED),
        ((Delegated(), ANSWERED, Released()), Phase.ENDED),
    ],
)
def test_where_a_run_is(events: tuple[Event, ...], phase: Phase) -> None:
    assert after(*events).phase is phase


def test_a_waiting_run_ends_once_with_what_the_last_turn_came_to() -> None:
    waiting = after(Delegated(), Finished(Outcome.ANSWERED, FOLLOW_UP))
    assert waiting.ending is None
    released = after(Returned(), Released(), life=waiting)
    assert released.ending == ending_of(Outcome.ANSWERED, None, FOLLOW_UP)
    went_on = after(Returned(), Resumed(), ANSWERED, life=waiting)
    assert went_on.ending == ending_of(Outcome.ANSWERED)


def test_a_budget_that_runs_out_while_a_run_waits_makes_it_partial() -> None:
    life = after(Delegated(), ANSWERED, Exhausted(Cause.DEADLINE), Released())
    assert life.ending == ending_of(Outcome.ANSWERED, Cause.DEADLINE)


def test_the_first_budget_that_ran_out_is_the_cause() -> None:
    life = after(Exhausted(Cause.SPEND), Exhausted(Cause.HOPS), ANSWERED)
    assert life.ending is not None
    assert life.ending.cause == "spend budget"


@pytest.mark.parametrize(
    ("events", "accepted"),
    [
        ((), {Work.CALL, Work.TOOL_CALL}),
        ((Converged(),), {Work.CALL, Work.TOOL_CALL}),
        ((Exhausted(Cause.TOKENS),), {Work.LAST_ANSWER}),
        ((Exhausted(Cause.TOKENS), Asked(Work.LAST_ANSWER)), set()),
        ((Delegated(), ANSWERED), set()),
        ((ANSWERED,), set()),
    ],
)
def test_what_a_run_may_still_do(events: tuple[Event, ...], accepted: set[Work]) -> None:
    life = after(*events)
    assert {work for work in Work if step(life, Asked(work)).accepted} == accepted
    assert step(life, Delegated()).accepted is (Work.CALL in accepted)
    for work in set(Work) - accepted:
        refused = step(life, Asked(work))
        assert refused.life is life
        assert refused.why


def test_an_aborted_run_has_a_few_calls_to_undo_its_effects_and_one_to_say_so() -> None:
    life = after(Exhausted(Cause.TOOL_CALLS), life=begin(OnExhausted.ABORT))
    undone = 0
    while (done := step(life, Asked(Work.UNDO))).accepted:
        life, undone = done.life, undone + 1
    assert undone == UNDO_CALLS
    assert step(life, Asked(Work.LAST_ANSWER)).accepted
    assert not step(life, Asked(Work.TOOL_CALL)).accepted


@pytest.mark.parametrize("life", [Life(), after(Converged())])
@pytest.mark.parametrize("event", [Resumed(), Released()])
def test_only_a_waiting_run_is_resumed_or_released(life: Life, event: Event) -> None:
    refused = step(life, event)
    assert (refused.life, refused.accepted, refused.why) == (life, False, "the run is not waiting")


@pytest.mark.case("A54")
@pytest.mark.parametrize(
    "event",
    [
        *(Asked(work) for work in Work),
        Delegated(),
        Returned(),
        Converged(),
        Exhausted(Cause.SPEND),
        Resumed(),
        Released(),
        *(Finished(outcome) for outcome in Outcome),
    ],
    ids=str,
)
@pytest.mark.parametrize("first", [ANSWERED, Finished(Outcome.CRASHED)])
def test_whatever_comes_after_the_end_changes_nothing_and_is_told_so(
    first: Event, event: Event
) -> None:
    ended = after(first)
    late = step(ended, event)
    assert late.life is ended
    assert not late.accepted
    assert ended.ending is not None
    assert late.why == f"the run has ended: {ended.ending.state}"


@pytest.mark.parametrize(
    ("events", "go_on"),
    [
        ((Delegated(),), True),
        ((Delegated(), ANSWERED), True),
        ((Delegated(), ANSWERED, Released()), True),
        ((Delegated(), Exhausted(Cause.SPEND)), False),
        ((Delegated(), Exhausted(Cause.SPEND), ANSWERED), False),
        ((Delegated(), Finished(Outcome.LOOPED)), False),
        ((Delegated(), Finished(Outcome.CRASHED)), True),
    ],
)
def test_children_go_on_unless_their_parent_was_stopped(
    events: tuple[Event, ...], go_on: bool
) -> None:
    assert after(*events).lets_children_go_on is go_on

"""Every quarter of the budget: what is there, and is the rest enough."""

import pytest

from budget_plugin.policy.runs.checkpoints import (
    QUESTIONS,
    Checkpoints,
    answered,
    asked,
    due,
    questions,
)


def marks(shares: list[float], every: float = 0.25) -> list[int | None]:
    points, found = Checkpoints(every), []
    for share in shares:
        mark = due(points, share)
        found.append(mark)
        if mark is not None:
            points = answered(asked(points, mark), "a fact")
    return found


@pytest.mark.parametrize(
    ("shares", "every", "expected"),
    [
        ([0.0, 0.24, 0.25, 0.26, 0.5, 0.75, 0.99], 0.25, [None, None, 1, None, 2, 3, None]),
        ([0.6, 0.6, 0.76], 0.25, [2, None, 3]),  # of two passed at once, the last
        ([0.3, 0.2, 0.3], 0.25, [1, None, None]),
        ([1.0, 2.0], 0.25, [3, None]),  # the end itself is no checkpoint
        ([0.1, 0.2, 0.3], 0.10, [1, 2, 3]),  # 3 x 0.1 is 0.30000000000000004
        ([0.33, 0.34, 0.67], 1 / 3, [None, 1, 2]),
        ([0.5, 1.0], 0.0, [None, None]),
        ([0.5, 1.0], 1.0, [None, None]),
    ],
)
def test_each_mark_is_asked_about_once(
    shares: list[float], every: float, expected: list[int | None]
) -> None:
    assert marks(shares, every) == expected


@pytest.mark.parametrize(
    ("answers", "in_a_row"),
    [
        (["a fact"], 0),
        (["nothing"], 1),
        (["nothing", "Nothing new."], 2),
        (["nothing", "a fact", "nothing"], 1),
        (["nothing", None, "nothing"], 1),  # no answer is not "nothing"
        ([None, None, None], 0),
        (["", "  ", ""], 0),
        (["nothing is missing any more"], 0),
    ],
)
def test_nothing_twice_in_a_row_is_stuck(answers: list[str | None], in_a_row: int) -> None:
    points = Checkpoints()
    for mark, answer in enumerate(answers, 1):
        points = answered(asked(points, mark), answer)
    assert points.nothing_in_a_row == in_a_row
    assert points.stuck is (in_a_row >= 2)


def test_talking_without_being_asked_makes_nobody_stuck() -> None:
    points = answered(asked(Checkpoints(), 1), "nothing")
    for _ in range(5):
        points = answered(points, "nothing")
    assert not points.stuck


def test_an_answer_may_come_late_but_only_once() -> None:
    points = asked(Checkpoints(), 1)
    assert answered(points, None) == points
    assert answered(answered(points, None), "nothing").nothing_in_a_row == 1


def test_the_three_questions_are_put_in_one_line_each() -> None:
    lines = questions(asked(Checkpoints(), 2)).splitlines()
    assert lines[0].startswith("Checkpoint: 50 % of the budget is used.")
    assert lines[1:] == [f"{number}. {question}" for number, question in enumerate(QUESTIONS, 1)]
    assert len(QUESTIONS) == 3

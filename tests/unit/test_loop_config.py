"""The section `loops` of budget.yaml: which detectors act, and from which count on."""

from __future__ import annotations

import pytest

from budget_plugin.policy.limits import Problem
from budget_plugin.policy.loops import ALLOWED, DEFAULTS, Detector, LoopPolicy, Setting
from budget_plugin.store.files.config import parse_budget


def policy_of(text: str) -> LoopPolicy:
    parsed = parse_budget(text.encode(), "budget.yaml")
    assert parsed.problems == ()
    assert parsed.value is not None
    return parsed.value.loops


def problem(text: str) -> Problem:
    (found,) = parse_budget(text.encode(), "budget.yaml").problems
    return found


@pytest.mark.parametrize(
    ("said", "setting"),
    [
        ("true", Setting(on=True, warn=2, act=3)),
        ("false", Setting(on=False, warn=2, act=3)),
        ("{}", Setting(on=True, warn=2, act=3)),
        ("{warn: 3, act: 5}", Setting(on=True, warn=3, act=5)),
        ("{act: 1}", Setting(on=True, warn=1, act=1)),  # no warning after the act
        ("{warn: 9}", Setting(on=True, warn=9, act=9)),
        ("{on: false, act: 4}", Setting(on=False, warn=2, act=4)),
    ],
)
@pytest.mark.parametrize("detector", ["repeated_call", "repeated_error", "cycle"])
def test_what_is_said_of_one_detector(detector: str, said: str, setting: Setting) -> None:
    policy = policy_of(f"loops: {{{detector}: {said}}}")
    assert policy.of(Detector(detector)) == setting
    others = [each for each in Detector if each != detector]
    assert [policy.of(each) for each in others] == [DEFAULTS[each] for each in others]


def test_one_word_for_all() -> None:
    assert policy_of("loops: true") == policy_of("loops: {all: true}") != LoopPolicy()
    assert policy_of("loops: false") == LoopPolicy()


@pytest.mark.parametrize(
    "text", ["", "loops:", "loops: {}", "loops: {all: false}", "loops: {allow: []}"]
)
def test_nothing_acts_until_it_is_switched_on(text: str) -> None:
    assert policy_of(text) == LoopPolicy()


def test_all_of_them_but_one() -> None:
    policy = policy_of("loops: {all: true, idle_hops: false}")
    assert [each for each in Detector if not policy.of(each).on] == [Detector.IDLE_HOPS]


def test_tools_that_may_be_repeated_are_added_to_the_known_ones() -> None:
    policy = policy_of('loops: {allow: ["process:kill", my_queue]}')
    assert policy.allowed == ALLOWED | {"process:kill", "my_queue"}


@pytest.mark.parametrize(
    ("text", "key", "said"),
    [
        ("loops: 5", "loops", "expected true or false"),
        ("loops:\n  all: perhaps", "loops.all", "true or false"),
        ("loops:\n  cycle: 5", "loops.cycle", "true or false"),
        ("loops:\n  cycle: [3]", "loops.cycle", "expected true, false, or counts"),
        ("loops:\n  cycle: {act: 0}", "loops.cycle.act", "from 1 to 1,000"),
        ("loops:\n  cycle: {act: 2.5}", "loops.cycle.act", "whole number"),
        ("loops:\n  cycle: {warn: 1001}", "loops.cycle.warn", "from 1 to 1,000"),
        ("loops:\n  cycle: {act: ²}", "loops.cycle.act", "whole number"),
        ("loops:\n  cycle: {warn: 4, act: 3}", "loops.cycle", "warn is at most act"),
        ("loops:\n  cycle: {on: maybe}", "loops.cycle.on", "true or false"),
        ("loops:\n  allow: [[a]]", "loops.allow", "expected tools"),
        ("loops:\n  allow: {a: b}", "loops.allow", "expected tools"),
    ],
)
def test_a_value_that_is_not_understood_is_named_with_its_line(
    text: str, key: str, said: str
) -> None:
    found = problem(text)
    assert (found.key, found.fatal, found.line) == (key, True, text.count("\n") + 1)
    assert said in found.message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("loops: {repeated_cal: true}", "did you mean repeated_call"),
        ("loops: {cycle: {atc: 3}}", "did you mean act"),
    ],
)
def test_an_unknown_key_is_a_warning_with_a_hint(text: str, said: str) -> None:
    found = problem(text)
    assert not found.fatal
    assert said in found.message

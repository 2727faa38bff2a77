"""Who may use which model, who may dispatch whom, and which changes stand on the record."""

from __future__ import annotations

from dataclasses import replace

import pytest

from budget_plugin.policy.tiers import (
    Breach,
    Cause,
    Change,
    Direction,
    Downgrade,
    Kind,
    OnBreach,
    Role,
    Tier,
    TierPolicy,
    direction,
    downgrade,
    is_reason,
    judge_change,
    judge_dispatch,
    judge_model,
    judge_tool,
    tier_of,
)

HAIKU, SONNET, OPUS = "claude-haiku-4-5", "claude-sonnet-4-5", "claude-opus-4-1"
POLICY = TierPolicy(
    tiers=(
        Tier("cheap", ("*haiku*", "gpt-5-mini*")),
        Tier("middle", ("*sonnet*", "gpt-5*")),
        Tier("dear", ("*opus*", "gpt-5-pro")),
    ),
    roles={
        "hestia": Role("hestia"),
        "iris": Role("iris", highest="cheap", may_dispatch=frozenset()),
        "metis": Role("metis", highest="middle", may_dispatch=frozenset({"iris"})),
        "themis": Role("themis", lowest="dear", judges_only=True),
    },
    downgrades=(Downgrade("anthropic", OPUS, HAIKU), Downgrade("anthropic", HAIKU, OPUS)),
)


@pytest.mark.parametrize(
    ("model", "tier"),
    [
        (HAIKU, "cheap"),
        ("claude-sonnet-4.5", "middle"),
        (OPUS, "dear"),
        ("anthropic/claude-haiku-4.5", "cheap"),
        ("gpt-5-mini", "cheap"),
        ("gpt-5-pro", "dear"),
        ("openai/gpt-5", "middle"),
        ("llama-4", None),
    ],
)
def test_the_longest_pattern_names_the_tier(model: str, tier: str | None) -> None:
    found = tier_of(POLICY, model)
    assert (found.name if found else None) == tier


@pytest.mark.parametrize(
    ("dispatcher", "role", "ancestors", "kind"),
    [
        ("hestia", "metis", (), None),
        ("metis", "iris", ("hestia",), None),
        ("metis", "themis", ("hestia",), Kind.DISPATCH),
        ("iris", "metis", ("hestia",), Kind.DISPATCH),
        ("metis", "hestia", ("hestia",), Kind.DISPATCHES_BACK),
        ("iris", "metis", ("metis", "hestia"), Kind.DISPATCHES_BACK),
        ("leaf", "orchestrator", ("orchestrator",), None),
    ],
)
def test_who_may_dispatch_whom(
    dispatcher: str, role: str, ancestors: tuple[str, ...], kind: Kind | None
) -> None:
    breach = judge_dispatch(POLICY, dispatcher, role, ancestors)
    assert (breach.kind if breach else None) is kind
    assert breach is None or breach.refuse


def test_a_refused_dispatch_says_who_would_do() -> None:
    breach = judge_dispatch(POLICY, "metis", "themis")
    assert breach == Breach(Kind.DISPATCH, "metis", "themis", ("iris",), refuse=True)


@pytest.mark.parametrize(
    ("role", "tool", "refused"),
    [
        ("themis", "write_file", True),
        ("themis", "read_file", False),
        ("metis", "write_file", False),
        ("nobody", "write_file", False),
    ],
)
def test_a_judge_does_not_write(role: str, tool: str, refused: bool) -> None:
    breach = judge_tool(POLICY, role, tool)
    assert (breach is not None and breach.refuse) is refused


@pytest.mark.parametrize(
    ("role", "model", "kind"),
    [
        ("iris", HAIKU, None),
        ("iris", SONNET, Kind.TOO_DEAR),
        ("metis", HAIKU, None),
        ("metis", OPUS, Kind.TOO_DEAR),
        ("themis", SONNET, Kind.TOO_CHEAP),
        ("themis", OPUS, None),
        ("hestia", OPUS, None),
        ("iris", "llama-4", None),
        ("nobody", OPUS, None),
    ],
)
def test_premium_work_by_a_cheap_role_and_the_reverse(
    role: str, model: str, kind: Kind | None
) -> None:
    breach = judge_model(POLICY, role, model)
    assert (breach.kind if breach else None) is kind
    assert breach is None or not breach.refuse
    strict = judge_model(replace(POLICY, on_breach=OnBreach.REFUSE), role, model)
    assert strict is None or strict.refuse


@pytest.mark.parametrize(
    ("before", "after", "towards"),
    [
        (HAIKU, OPUS, Direction.UP),
        (OPUS, SONNET, Direction.DOWN),
        (SONNET, "gpt-5", Direction.LEVEL),
        (SONNET, "llama-4", Direction.UNKNOWN),
    ],
)
def test_where_a_change_leads(before: str, after: str, towards: Direction) -> None:
    assert direction(POLICY, Change(before, after)) is towards


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (Change(HAIKU, OPUS), Kind.UPGRADE_WITHOUT_REASON),
        (Change(HAIKU, OPUS, Cause.AGENT, "It might be better."), Kind.UPGRADE_WITHOUT_REASON),
        (Change(HAIKU, OPUS, Cause.OURS), Kind.UPGRADE_WITHOUT_REASON),
        (Change(HAIKU, OPUS, Cause.AGENT, "the draft failed review twice"), None),
        (Change(HAIKU, OPUS, Cause.PERSON), None),
        (Change(HAIKU, OPUS, Cause.FALLBACK), None),
        (Change(OPUS, HAIKU), Kind.UNRECORDED_DOWNGRADE),
        (Change(OPUS, HAIKU, Cause.NOBODY, " "), Kind.UNRECORDED_DOWNGRADE),
        (Change(OPUS, HAIKU, Cause.FALLBACK), None),
        (Change(OPUS, HAIKU, Cause.OURS, "soft limit"), None),
        (Change(SONNET, "gpt-5"), None),
        (Change(OPUS, "llama-4"), None),
    ],
)
def test_a_change_of_tier_stands_on_the_record(change: Change, kind: Kind | None) -> None:
    breach = judge_change(POLICY, change)
    assert (breach.kind if breach else None) is kind


def test_an_upgrade_is_refused_by_choice_and_a_downgrade_never() -> None:
    strict = replace(POLICY, on_breach=OnBreach.REFUSE)
    up, down = judge_change(strict, Change(HAIKU, OPUS)), judge_change(strict, Change(OPUS, HAIKU))
    assert up is not None
    assert up.refuse
    assert down is not None
    assert not down.refuse


@pytest.mark.parametrize(
    ("text", "tells"),
    [
        ("", False),
        ("it might be better", False),
        ("Better quality, just to be safe!", False),
        ("perhaps the stronger model will work", False),
        ("context of 190k tokens exceeds the window", True),
        ("two failed migrations", True),
    ],
)
def test_hope_is_no_reason(text: str, tells: bool) -> None:
    assert is_reason(text) is tells


def test_a_soft_verdict_moves_to_the_cheaper_model_and_says_so() -> None:
    change = downgrade(POLICY, "anthropic", "claude-opus-4.1")
    assert change is not None
    assert (change.after, change.cause) == (HAIKU, Cause.OURS)
    assert judge_change(POLICY, change) is None


@pytest.mark.parametrize(
    ("provider", "model"), [("bedrock", OPUS), ("anthropic", SONNET), ("anthropic", HAIKU)]
)
def test_else_the_model_stays(provider: str, model: str) -> None:
    assert downgrade(POLICY, provider, model) is None


def test_nothing_declared_finds_nothing() -> None:
    empty = TierPolicy()
    assert judge_change(empty, Change(HAIKU, OPUS)) is None
    assert judge_model(empty, "iris", OPUS) is None
    assert judge_dispatch(empty, "a", "b", ("b",)) is None
    assert judge_tool(empty, "themis", "write_file") is None

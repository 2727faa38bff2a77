"""Which ceilings a run gets."""

import pytest

from budget_plugin.policy.money import parse_usd
from budget_plugin.policy.runs.run_limits import (
    METERS,
    RUN_LIMIT_FIELDS,
    RUN_LIMIT_KEYS,
    STEPS,
    Cause,
    Meter,
    OnExhausted,
    RunLayer,
    RunLimits,
    RunPolicy,
    RunRules,
    TicketSource,
    nobodys_key,
)

POLICY = RunPolicy(
    default=RunLayer({"tool_calls": 40, "wall_clock_s": 900, "dispatches": None}),
    kinds={
        "cron": RunLayer({"wall_clock_s": 1800}),
        "child": RunLayer({"tool_calls": 20}, OnExhausted.ASK),
    },
    platforms={"telegram": RunLayer({"wall_clock_s": 300})},
    commands={
        "support-ticket": RunLayer({"dispatches": 8, "rejudges": 2, "critique_retries": 1}),
        "migrate-db": RunLayer({"wall_clock_s": None, "tool_calls": 0}, OnExhausted.ABORT),
    },
)


@pytest.mark.case("A55")
@pytest.mark.parametrize(
    ("kind", "platform", "command", "tool_calls", "wall_clock_s", "dispatches"),
    [
        ("chat", "", "", 40, 900, None),
        ("cron", "", "", 40, 1800, None),  # the chat's 900 s are not a cron run's
        ("child", "", "", 20, 900, None),
        ("chat", "telegram", "", 40, 300, None),
        ("cron", "telegram", "", 40, 300, None),  # the platform is closer than the kind
        ("chat", "telegram", "support-ticket", 40, 300, 8),
        ("cron", "telegram", "migrate-db", 0, None, None),  # 0 is nothing, null lifts
        ("other", "matrix", "", 40, 900, None),
    ],
)
def test_the_closest_layer_wins_and_what_it_leaves_out_is_inherited(
    kind: str,
    platform: str,
    command: str,
    tool_calls: int,
    wall_clock_s: float | None,
    dispatches: int | None,
) -> None:
    limits = POLICY.terms(kind, platform, command).limits
    found = (limits.tool_calls, limits.wall_clock_s, limits.dispatches)
    assert found == (tool_calls, wall_clock_s, dispatches)


COMMANDS = {"support-ticket": RunLayer({"dispatches": 12})}


@pytest.mark.parametrize(
    ("default", "commands", "command", "dispatches"),
    [
        ({}, COMMANDS, "support-ticket", 12),
        ({}, COMMANDS, "never-heard-of", 8),
        ({}, COMMANDS, "", None),  # no command at all is not an unknown one
        ({"dispatches": 20}, COMMANDS, "never-heard-of", 20),
        ({"dispatches": None}, COMMANDS, "never-heard-of", None),  # lifted on purpose
        ({}, {}, "never-heard-of", None),
    ],
)
def test_an_unknown_command_gets_eight_dispatches_where_commands_are_configured(
    default: dict[str, int | None],
    commands: dict[str, RunLayer],
    command: str,
    dispatches: int | None,
) -> None:
    policy = RunPolicy(default=RunLayer(default), commands=commands)
    assert policy.terms("chat", "", command).limits.dispatches == dispatches


@pytest.mark.parametrize(
    ("kind", "command", "mode"),
    [
        ("chat", "", OnExhausted.REPORT),
        ("child", "", OnExhausted.ASK),
        ("child", "migrate-db", OnExhausted.ABORT),
        ("chat", "support-ticket", OnExhausted.REPORT),
    ],
)
def test_what_a_run_does_when_it_has_run_out_is_set_per_kind_and_command(
    kind: str, command: str, mode: OnExhausted
) -> None:
    rules = POLICY.terms(kind, "", command).rules
    assert rules == RunRules(on_exhausted=mode)


def test_the_stricter_of_own_root_and_outer_bound_wins_ceiling_by_ceiling() -> None:
    own = RunLimits(tool_calls=20, tokens=None, wall_clock_s=900, dispatches=0)
    root = RunLimits(tool_calls=40, tokens=400_000, wall_clock_s=11.5, dispatches=8)
    outer = RunLimits(cost_nanos=parse_usd("4.00"), retries_per_operation=1)
    assert own.stricter(root, None, outer) == RunLimits(
        tool_calls=20,
        tokens=400_000,
        wall_clock_s=11.5,
        dispatches=0,
        cost_nanos=4_000_000_000,
        retries_per_operation=1,
    )


def test_three_retries_are_the_only_ceiling_that_is_set_by_itself() -> None:
    limits = RunPolicy().terms("chat").limits
    assert {name for name in RUN_LIMIT_FIELDS if getattr(limits, name) is not None} == {
        "retries_per_operation"
    }
    assert limits.retries_per_operation == 3


@pytest.mark.parametrize(
    ("policy", "on"),
    [
        (RunPolicy(), False),
        (RunPolicy(retries_per_operation=1), False),
        (RunPolicy(default=RunLayer({"tokens": None}), commands={"x": RunLayer({})}), False),
        (RunPolicy(default=RunLayer({"tokens": 0})), True),
        (RunPolicy(kinds={"cron": RunLayer({"tokens": 1})}), True),
        (RunPolicy(platforms={"irc": RunLayer({"tokens": 1})}), True),
        (RunPolicy(commands={"x": RunLayer({"batch": 25})}), True),
    ],
)
def test_run_limits_are_off_until_a_number_is_set(policy: RunPolicy, on: bool) -> None:
    assert policy.has_limits is on


@pytest.mark.parametrize("wrong", [{"tokens": -1}, {"wall_clock_s": float("nan")}])
def test_a_ceiling_is_a_number_from_zero_on(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        RunLimits(**wrong)  # type: ignore[arg-type]


def test_the_tables_name_fields_that_exist() -> None:
    assert set(METERS) == set(Meter)
    assert {kind.field for kind in METERS.values()} | set(STEPS.values()) | {"batch"} == set(
        RUN_LIMIT_FIELDS
    )
    assert RUN_LIMIT_KEYS["usd"] == "cost_nanos"
    assert set(RUN_LIMIT_KEYS) - {"usd"} == set(RUN_LIMIT_FIELDS) - {"cost_nanos"}
    assert set(Meter) <= set(RUN_LIMIT_KEYS)


def test_of_several_spent_meters_the_order_of_the_table_decides() -> None:
    assert [kind.cause for kind in METERS.values()] == [
        Cause.HOPS,
        Cause.TOKENS,
        Cause.SPEND,
        Cause.DEADLINE,
        Cause.TOOL_CALLS,
        Cause.CONTEXT,
    ]


@pytest.mark.parametrize(
    ("source", "environment", "texts", "ticket"),
    [
        (TicketSource(), {"TICKET": "7"}, ("SUP-118",), ""),
        (TicketSource(env="TICKET"), {"TICKET": " 7 "}, ("SUP-118",), "7"),
        (TicketSource(env="TICKET"), {}, ("SUP-118",), ""),
        (TicketSource(env="TICKET", pattern=r"SUP-\d+"), {"TICKET": ""}, ("SUP-118",), "SUP-118"),
        (TicketSource(pattern=r"SUP-(\d+)"), {}, ("cli-1", "see SUP-118, SUP-119"), "118"),
        (TicketSource(pattern=r"SUP-(\d+)?"), {}, ("SUP-",), ""),
        (TicketSource(pattern=r"SUP-\d+"), {}, ("cli-1", "hello"), ""),
    ],
)
def test_the_ticket_is_read_from_the_environment_or_a_pattern(
    source: TicketSource, environment: dict[str, str], texts: tuple[str, ...], ticket: str
) -> None:
    assert source.find(environment, *texts) == ticket


def test_runs_without_an_id_share_a_key_per_utc_day() -> None:
    midnight_ms = 1_796_083_200_000  # 2026-12-01 00:00 UTC
    assert nobodys_key(midnight_ms - 1) == "day:2026-11-30"
    assert nobodys_key(midnight_ms) == nobodys_key(midnight_ms + 86_399_999) == "day:2026-12-01"

"""Roles and tiers at the gates: what is refused, what is found, and what stands on the record."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from budget_plugin.commands.asking import Args, Caller
from budget_plugin.commands.runs import runs
from budget_plugin.commands.status import status
from budget_plugin.engine.engine import Engine
from budget_plugin.hermes.parts import Parts
from budget_plugin.policy.tier_costs import ModelSpend, TierCost, costs_by_tier
from budget_plugin.policy.tiers import Tier, TierPolicy
from budget_plugin.testing import hook_kwargs

TIERS = """\
tiers:
  models: {cheap: "*haiku*", dear: "*opus*"}
  on_breach: ON_BREACH
roles:
  main: {may_dispatch: [leaf, judge]}
  leaf: {highest: cheap}
  judge: {judges_only: true, lowest: dear}
"""
HAIKU, OPUS = "claude-haiku-4-5", "claude-opus-4-1"


class Refused(Exception):
    """The provider answers with an error."""

    def __init__(self, status: int) -> None:
        self.status_code = status


class Host:
    """One home, its hooks called as the host calls them."""

    def __init__(self, home: Path, on_breach: str = "record", yaml: str = TIERS) -> None:
        (home / "budget").mkdir()
        (home / "budget" / "budget.yaml").write_text(yaml.replace("ON_BREACH", on_breach))
        self.parts = Parts(home)
        self.main = self.turn()
        self.calls = 0
        self.sent: list[str] = []
        """The models that the provider was asked for."""

    @property
    def engine(self) -> Engine:
        return self.parts.runtime.engine()

    def turn(self, **ids: str) -> dict[str, Any]:
        kwargs = hook_kwargs(**ids)
        self.parts.hooks.pre_llm_call(**kwargs, user_message="go")
        return kwargs

    def child(self, role: str = "leaf", goal: str = "work", **parent: Any) -> dict[str, Any]:
        above = parent or self.main
        name = f"child of {above['session_id']} for {goal}"
        self.parts.hooks.subagent_start(
            parent_session_id=above["session_id"],
            parent_turn_id=above["turn_id"],
            child_session_id=name,
            child_role=role,
            child_goal=goal,
        )
        return self.turn(session_id=name, platform="subagent")

    def tool(self, whose: dict[str, Any], tool: str, **args: Any) -> str:
        refused = self.parts.tools.pre_tool_call(**whose, tool_name=tool, args=args)
        return "" if refused is None else refused["message"]

    def call(
        self, whose: dict[str, Any], model: str, answered_by: str = "", *, fails: int = 0
    ) -> str:
        """One call of the model: what came back."""
        self.calls += 1
        message = SimpleNamespace(content="hello", tool_calls=None, role="assistant")
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15, "cost": 0.25}
        request = {"model": model, "messages": []}

        def next_call(changed: dict[str, Any] = request) -> Any:
            self.sent.append(changed["model"])
            if fails:
                raise Refused(fails)
            return SimpleNamespace(
                id="r",
                model=answered_by or changed["model"],
                usage=usage,
                choices=[SimpleNamespace(index=0, finish_reason="stop", message=message)],
            )

        asked = {
            **whose,
            "api_request_id": f"a{self.calls}",
            "model": model,
            "provider": "anthropic",
            "api_mode": "chat_completions",
        }
        got = self.parts.gate.llm_execution(**asked, request=request, next_call=next_call)
        return str(got.choices[0].message.content)

    def decisions(self, whose: dict[str, Any]) -> list[tuple[str, str, str]]:
        engine = self.parts.runtime.engine()
        engine.recorder.flush(10.0)
        found = engine.run_records.reasons(whose["turn_id"])
        return [(each.measure, each.action, each.detail) for each in found]


def test_a_judge_writes_nothing_and_reads_everything(tmp_path: Path) -> None:
    host = Host(tmp_path)
    assert host.tool(host.main, "delegate_task", goal="judge: the draft") == ""
    judge = host.child(goal="judge: the draft")
    for tool in ("write_file", "terminal", "send_message", "delegate_task"):
        assert "judge only judges" in host.tool(judge, tool, goal="x")
    assert host.tool(judge, "read_file", path="a") == ""
    assert host.tool(host.main, "write_file", path="a") == ""
    assert {(measure, action) for measure, action, _ in host.decisions(judge)} == {
        ("role", "refused")
    }


@pytest.mark.parametrize(
    ("args", "refused"),
    [
        ({"goal": "dig"}, ""),
        ({"goal": "dig", "role": "leaf"}, ""),
        ({"goal": "judge: the draft"}, ""),
        ({"goal": "role: judge: the draft"}, ""),
        ({"goal": "the draft", "role": "judge"}, ""),
        ({"goal": "dig", "role": "orchestrator"}, "may not hand work to orchestrator"),
        ({"tasks": [{"goal": "a"}, {"goal": "b", "role": "orchestrator"}]}, "orchestrator"),
        ({"tasks": [{"goal": "a"}], "role": "orchestrator"}, "orchestrator"),
        ({"tasks": '[{"goal": "b", "role": "orchestrator"}]'}, "orchestrator"),
        ({"goal": "nobody: dig"}, ""),  # no declared role: a leaf with a colon in its goal
    ],
)
def test_who_may_be_dispatched(tmp_path: Path, args: dict[str, Any], refused: str) -> None:
    host = Host(tmp_path)
    text = host.tool(host.main, "delegate_task", **args)
    assert refused in text
    assert bool(refused) == bool(text)


def test_a_role_that_the_host_does_not_know_is_kept_from_the_dispatch(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.tool(host.main, "delegate_task", goal="the draft", role="judge")
    assert "only judges" in host.tool(host.child("leaf", "the draft"), "patch")


def test_nobody_hands_work_back_to_whom_they_work_for(tmp_path: Path) -> None:
    yaml = "roles: {scout: {}, smith: {}}"
    host = Host(tmp_path, yaml=yaml)
    host.tool(host.main, "delegate_task", goal="scout: look")
    scout = host.child(goal="scout: look")
    assert host.tool(scout, "delegate_task", goal="smith: forge") == ""
    smith = host.child(goal="smith: forge", **scout)
    assert "works under scout" in host.tool(smith, "delegate_task", goal="scout: look again")


def test_leaves_and_orchestrators_are_nobody_in_particular(tmp_path: Path) -> None:
    host = Host(tmp_path, yaml="roles: {orchestrator: {}}")
    above = host.child("orchestrator", "a")
    below = host.child("orchestrator", "b", **above)
    assert host.tool(below, "delegate_task", goal="c", role="orchestrator") == ""


# ------------------------------------------------------------------------------------- tiers


@pytest.mark.parametrize(
    ("on_breach", "answer", "action", "told"),
    [
        ("record", "hello", "found", False),
        ("warn", "hello", "found", True),
        ("refuse", "leaf may use models up to the tier cheap", "refused", False),
    ],
)
def test_a_dear_model_for_a_cheap_role(
    tmp_path: Path, on_breach: str, answer: str, action: str, told: bool
) -> None:
    host = Host(tmp_path, on_breach)
    leaf = host.child()
    for _ in range(2):
        assert answer in host.call(leaf, OPUS)
    (decision,) = host.decisions(leaf)
    assert decision[:2] == ("tier", action)
    shown = host.parts.hooks.transform_llm_output(**host.main, response_text="done") or ""
    assert ("Roles and tiers: leaf may use" in shown) is told
    assert not host.parts.hooks.transform_llm_output(**host.main, response_text="again")


def test_a_refused_role_has_not_answered(tmp_path: Path) -> None:
    host = Host(tmp_path, "refuse")
    leaf = host.child()
    host.call(leaf, OPUS)
    host.parts.hooks.on_session_end(**leaf, completed=True, interrupted=False)
    engine = host.parts.runtime.engine()
    engine.recorder.flush(10.0)
    ended = engine.run_records.named(leaf["turn_id"])
    assert ended is not None
    assert ended.receipt.is_partial


def test_it_is_refused_at_the_dispatch_where_the_model_is_known(tmp_path: Path) -> None:
    host = Host(tmp_path, "refuse")
    host.call(host.main, OPUS)
    assert "up to the tier cheap" in host.tool(host.main, "delegate_task", goal="dig")
    assert host.tool(host.main, "delegate_task", goal="judge: the draft") == ""


def test_a_cheap_model_for_a_role_that_needs_a_dear_one(tmp_path: Path) -> None:
    host = Host(tmp_path, "refuse")
    host.tool(host.main, "delegate_task", goal="judge: the draft")
    assert "needs a model of the tier dear" in host.call(host.child(goal="judge: the draft"), HAIKU)


def test_every_change_of_tier_stands_on_the_record(tmp_path: Path) -> None:
    host = Host(tmp_path)
    for model in (OPUS, OPUS, HAIKU, HAIKU):
        host.call(host.main, model)
    fallback = f"fallback: {OPUS} (dear) to {HAIKU} (cheap)"
    assert host.decisions(host.main) == [("tier", "changed", fallback)]
    # The next turn begins with the first model again: nobody has changed anything.
    second = host.turn(session_id=host.main["session_id"])
    host.call(second, OPUS)
    assert host.decisions(second) == []
    third = host.turn(session_id=host.main["session_id"])
    host.call(third, HAIKU)
    person = f"person: {OPUS} (dear) to {HAIKU} (cheap)"
    assert host.decisions(third) == [("tier", "changed", person)]


def test_a_downgrade_that_nobody_recorded_is_a_finding(tmp_path: Path) -> None:
    host = Host(tmp_path, "warn")
    for _ in range(2):
        host.call(host.main, OPUS, answered_by=HAIKU)
    host.call(host.main, OPUS, answered_by="anthropic/claude-opus-4.1")
    (found,) = host.decisions(host.main)
    assert found[:2] == ("tier", "found")
    assert "nobody recorded it" in found[2]
    shown = host.parts.hooks.transform_llm_output(**host.main, response_text="done") or ""
    assert "nobody recorded it" in shown


def test_without_tiers_and_roles_nothing_is_looked_at(tmp_path: Path) -> None:
    host = Host(tmp_path, yaml="timezone: UTC\n")
    host.call(host.main, OPUS, answered_by=HAIKU)
    host.call(host.main, HAIKU)
    assert host.tool(host.main, "delegate_task", goal="judge: a", role="orchestrator") == ""
    assert host.decisions(host.main) == []


# ------------------------------------------------------------------------------- past a soft mark


ON_SOFT = """\
budgets: {global: {daily_usd: 1.00}}
tiers:
  models: {cheap: "*haiku*", dear: "*opus*"}
  on_soft: {provider: anthropic, model: claude-opus-4-1, to: claude-haiku-4-5}
"""


def test_below_every_mark_the_model_stays(tmp_path: Path) -> None:
    host = Host(tmp_path, yaml=ON_SOFT.replace("1.00", "10.00"))
    for _ in range(3):  # $0.75 of $10.00
        host.call(host.main, OPUS)
    host.call(host.turn(), "unheard-of")
    assert host.sent == [OPUS, OPUS, OPUS, "unheard-of"]
    assert host.decisions(host.main) == []


def test_it_is_recorded_told_and_priced_as_what_it_is(tmp_path: Path) -> None:
    yaml = ON_SOFT.replace("1.00", "2.00") + "thresholds: {soft_pct: 0.20}\n"
    host = Host(tmp_path, yaml=yaml)
    host.call(host.main, OPUS)
    host.call(host.main, OPUS)
    assert host.sent == [OPUS, OPUS]
    host.call(host.main, OPUS)  # $0.50 of $2.00 are past 20 %
    host.call(host.main, OPUS)
    assert host.sent[2:] == [HAIKU, HAIKU]
    moved = f"ours: {OPUS} (dear) to {HAIKU} (cheap)"
    assert host.decisions(host.main) == [("tier", "changed", moved)]
    shown = host.parts.hooks.transform_llm_output(**host.main, response_text="done") or ""
    assert f"{HAIKU} took the place of {OPUS}: a limit is past its soft mark." in shown
    with host.engine.database.reading() as connection:
        models = connection.execute("SELECT model FROM calls ORDER BY id").fetchall()
    assert models == [(OPUS,), (OPUS,), (HAIKU,), (HAIKU,)]


def test_what_the_provider_refuses_is_not_tried_again(tmp_path: Path) -> None:
    yaml = ON_SOFT.replace("1.00", "2.00") + "thresholds: {soft_pct: 0.10}\n"
    host = Host(tmp_path, yaml=yaml)
    host.call(host.main, OPUS)
    with pytest.raises(Refused):
        host.call(host.main, OPUS, fails=400)
    host.call(host.main, OPUS)
    host.call(host.turn(), OPUS)
    assert host.sent == [OPUS, HAIKU, OPUS, OPUS]


def test_what_passes_by_itself_is_tried_again(tmp_path: Path) -> None:
    yaml = ON_SOFT.replace("1.00", "2.00") + "thresholds: {soft_pct: 0.10}\n"
    host = Host(tmp_path, yaml=yaml)
    host.call(host.main, OPUS)
    with pytest.raises(Refused):
        host.call(host.main, OPUS, fails=429)
    host.call(host.main, OPUS)
    assert host.sent == [OPUS, HAIKU, HAIKU]


# ------------------------------------------------------------------------------------- costs


def test_costs_per_resolved_run() -> None:
    policy = TierPolicy((Tier("cheap", ("*haiku*",)), Tier("dear", ("*opus*",))))
    spent = [
        ModelSpend("a", OPUS, "", 300, resolved=True),
        ModelSpend("a", HAIKU, "", 20, resolved=True),  # one dear run: 320
        ModelSpend("b", HAIKU, "", 40, resolved=False),
        ModelSpend("b", OPUS, "", 60, resolved=False),  # another of 100, in vain
        ModelSpend("c", HAIKU, "", 10, resolved=True),
        ModelSpend("d", OPUS, HAIKU, 12, resolved=True),  # cheap: that is who answered
        ModelSpend("e", "unheard-of", "", 9, resolved=True),
    ]
    cheap, dear = costs_by_tier(policy, spent)
    assert (cheap, cheap.per_resolved_nanos()) == (TierCost("cheap", 2, 2, 22), 11)
    assert (dear, dear.per_resolved_nanos()) == (TierCost("dear", 2, 1, 420), 420)
    assert TierCost("dear", 1, 0, 5).per_resolved_nanos() is None


def test_runs_and_status_show_them(tmp_path: Path) -> None:
    host = Host(tmp_path)
    for model, completed in ((OPUS, True), (OPUS, False), (HAIKU, True)):
        turn = host.turn()
        host.call(turn, model)
        host.parts.hooks.on_session_end(**turn, completed=completed, interrupted=False)
    engine = host.parts.runtime.engine()
    engine.recorder.flush(10.0)
    line = "Per resolved run: cheap $0.25 (1 of 1 resolved), dear $0.50 (1 of 2 resolved)."
    args = Args(caller=Caller("a person", "cli", may_change=True))
    assert line in runs(engine, args).text
    answer = status(engine, args)
    assert line in answer.text
    assert isinstance(answer.data, dict)
    assert answer.data["tiers"][1] == {
        "tier": "dear",
        "runs": 2,
        "resolved": 1,
        "usd": "0.5",
        "usd_per_resolved_run": "0.5",
    }

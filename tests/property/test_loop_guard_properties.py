"""Whatever a run does, the loop guard takes nothing away that was not switched on and told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budget_plugin.engine.engine import Engine
from budget_plugin.policy.digests import args_digest
from budget_plugin.policy.loops import DEFAULTS, LoopPolicy, Status, ToolEvent
from budget_plugin.policy.loops.responses import is_attended
from budget_plugin.testing import FakeClock, at, make_engine, make_run

OFF = LoopPolicy()
ON = LoopPolicy(settings={name: replace(each, on=True) for name, each in DEFAULTS.items()})


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    home: Path = tmp_path_factory.mktemp("home")
    engine = make_engine(home, "", FakeClock(at("2026-11-30 12:00")))
    yield engine
    engine.close()


STEP = st.tuples(
    st.sampled_from("ab"),  # the arguments
    st.sampled_from("xy"),  # the result, or the error
    st.sampled_from([Status.OK, Status.OK, Status.ERROR, Status.BLOCKED]),
    st.booleans(),  # the model is called, and reads what there is to tell
)


@settings(deadline=None)
@given(
    steps=st.lists(STEP, max_size=40),
    kind=st.sampled_from(["chat", "cron", "child", "review"]),
    policy=st.sampled_from([OFF, ON]),
)
def test_nothing_is_taken_away_without_a_word(
    engine: Engine, steps: list[tuple[str, str, Status, bool]], kind: str, policy: LoopPolicy
) -> None:
    live = engine.open_run(make_run(kind=kind))
    read = False
    for args, result, status, called in steps:
        refused = engine.loops.refuses(live, policy, "tool", {"at": args})
        error = result if status is Status.ERROR else ""
        number = engine.loops.next_number()
        event = ToolEvent(number, "tool", args_digest({"at": args}), "", result, status, error)
        engine.loops.tool_ended(live, policy, event)
        assert live.guarded is not None
        ended = live.guarded.budget.state.cause == "looped"
        assert refused is None or policy is ON
        assert not ended or (policy is ON and read and not is_attended(live.run.kind))
        if called:
            read |= any(finding.acts for finding in engine.loops.to_tell(live))
    seen = live.loops.seen.values() if live.loops is not None else ()
    assert policy is ON or all(each.action == "watched" for each in seen)

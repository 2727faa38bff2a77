"""The page on bounded runs: its example runs, and its tables are those of the code."""

import re
from pathlib import Path

import pytest

from budget_plugin.policy.runs.endings import TerminalState, consequences_table, endings_table
from budget_plugin.policy.runs.run_limits import RUN_LIMIT_KEYS, Meter

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "runs.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_example_prints_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(block("python"), "docs/runs.md", "exec"), {})
    assert capsys.readouterr().out == block("text")


@pytest.mark.parametrize("table", [endings_table, consequences_table], ids=lambda t: t.__name__)
def test_the_tables_are_those_of_the_code(table: object) -> None:
    assert callable(table)
    assert table() in PAGE


@pytest.mark.parametrize("word", [*RUN_LIMIT_KEYS, *Meter, *TerminalState])
def test_every_ceiling_and_state_is_explained(word: str) -> None:
    assert f"`{word}`" in PAGE

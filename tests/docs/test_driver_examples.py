"""The examples for drivers of agents print what their pages say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("page", ["continuation", "effects", "loops", "tiers"])
def test_the_example_prints_what_the_page_says(
    page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    code, said = (
        re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)[-1]
        for language in ("python", "text")
    )
    exec(compile(code, f"docs/{page}.md", "exec"), {})
    assert _stripped(capsys.readouterr().out) == _stripped(said)


def _stripped(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines()]

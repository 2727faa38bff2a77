"""No document makes the reader raise, and no limit that is written is ever silently absent.

The three properties together read 10,000 generated documents: structured ones whose meaning is
known beforehand, good ones with a mistake in them, and plain noise. A fourth edits good ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from budget_plugin.policy.limits import KEYS, SCOPES, Budget, Scope
from budget_plugin.store.files.config import parse_budget
from budget_plugin.store.files.watched_file import Parsed
from budget_plugin.store.files.yaml_splice import cut, plain, put, quoted

USD = 1_000_000_000
REFUSED = "refused"


def examples(number: int) -> settings:
    return settings(
        max_examples=number,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def read(text: str) -> Parsed[Budget]:
    return parse_budget(encoded(text), "budget.yaml")


# --- documents whose meaning is known -----------------------------------------------------------

DOLLARS: dict[str, object] = {
    "5": 5 * USD,
    '"5"': 5 * USD,
    "'7.50'": 7_500_000_000,
    "1_000": 1000 * USD,
    "0": 0,
    "0.0018": 1_800_000,
    "12e1": 120 * USD,
    "null": None,
    "~": None,
    "none": None,
    "Unlimited": None,
    '"none"': None,
    **dict.fromkeys(
        ['"$5"', "$5", "5 USD", "5€", '"5,00"', '"1,000"', "true", "No", "on"], REFUSED
    ),
    **dict.fromkeys([".nan", ".inf", "-.inf", "1e400", "1e-99", "-1", '"100%"', "012"], REFUSED),
    **dict.fromkeys(["[5]", "[]", "{}", "{a: 1}", '""', "five", "5.0.0", "2026-11-30"], REFUSED),
    **dict.fromkeys(["0x10", "1:30", "!!int 5", "5 5", "--5", "+-5"], REFUSED),
}
COUNTS: dict[str, object] = {
    "900": 900,
    '"900"': 900,
    "200_000": 200_000,
    "0": 0,
    "null": None,
    "none": None,
    **dict.fromkeys(["1.5", "900.0", "1e3", "2k", "-3", "true", "[9]", "9" * 40, "0o7"], REFUSED),
}
IDS = {
    **{text: text for text in ("012345670123", "20260907_210243_123456", "12306", "NO", "on")},
    **{text: text for text in ("null", "~", "2026-11-30", "1e3", "a.b.c", "telegram:1", "plain")},
    '"@alice"': "@alice",
    '"🚀 v1.2"': "🚀 v1.2",
    "'it''s'": "it's",
    '"a\\tb"': "a\tb",
}


@dataclass(frozen=True)
class Written:
    """One number as it is written, and what it means: an amount, `None`, or `REFUSED`."""

    scope: Scope
    id_written: str | None
    key: str
    value: str

    @property
    def place(self) -> tuple[str, ...]:
        section = SCOPES[self.scope].config_key
        if self.scope is Scope.GLOBAL:
            return (section,)
        if self.id_written is None:
            return (section, "default")
        return (section, "overrides", self.id_written)

    @property
    def meaning(self) -> Any:
        return (DOLLARS if self.key.endswith("usd") else COUNTS)[self.value]


@st.composite
def numbers(draw: st.DrawFn, *, good: bool = False) -> Written:
    scope = draw(st.sampled_from(list(Scope)))
    key = draw(st.sampled_from(list(KEYS)))
    table = DOLLARS if key.endswith("usd") else COUNTS
    values = [text for text, meaning in table.items() if not good or meaning != REFUSED]
    scope_id = draw(st.none() | st.sampled_from(list(IDS)))
    return Written(scope, scope_id, key, draw(st.sampled_from(values)))


def budgets(*, good: bool = False) -> st.SearchStrategy[list[Written]]:
    return st.lists(
        numbers(good=good), min_size=1, max_size=6, unique_by=lambda one: (one.place, one.key)
    )


def as_tree(written: list[Written]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for one in written:
        bucket = tree
        for step in one.place:
            bucket = bucket.setdefault(step, {})
        bucket[one.key] = one.value
    return {"budgets": tree}


def in_flow(tree: dict[str, Any] | str) -> str:
    if isinstance(tree, str):
        return tree
    return "{" + ", ".join(f"{key}: {in_flow(value)}" for key, value in tree.items()) + "}"


def in_block(tree: dict[str, Any], flow_below: int, indent: int, depth: int = 0) -> str:
    lines = []
    for key, value in tree.items():
        head = f"{' ' * (indent * depth)}{key}:"
        if isinstance(value, str) or depth >= flow_below:
            lines.append(f"{head} {in_flow(value)}  # {depth}\n")
        else:
            lines.append(f"{head}\n{in_block(value, flow_below, indent, depth + 1)}")
    return "".join(lines)


styles = st.tuples(st.integers(0, 5), st.integers(1, 8))


def numbers_in(budget: Budget) -> dict[tuple[Scope, str | None, str], int | None]:
    return {
        (scope, scope_id, str(key)): amount
        for scope, limits in budget.scopes.items()
        for scope_id, amounts in ((None, limits.default), *limits.overrides.items())
        for key, amount in amounts.items()
    }


def meant(written: list[Written]) -> dict[tuple[Scope, str | None, str], int | None]:
    return {(one.scope, scope_id_of(one), one.key): one.meaning for one in written}


def scope_id_of(one: Written) -> str | None:
    return None if one.scope is Scope.GLOBAL or one.id_written is None else IDS[one.id_written]


@pytest.mark.case("A27", "A28", "A29", "T22", "T28")
@examples(3_000)
@given(budgets(), styles)
def test_a_document_is_accepted_as_meant_or_a_problem_names_what_is_not(
    written: list[Written], style: tuple[int, int]
) -> None:
    text = in_block(as_tree(written), *style)
    parsed = read(text)
    wrong = [one for one in written if one.meaning == REFUSED]
    if not wrong:
        assert parsed.problems == ()
        assert parsed.value is not None
        assert numbers_in(parsed.value) == meant(written)
        return
    assert parsed.value is None
    named = {problem.key.rpartition(".")[2] for problem in parsed.problems}
    # A tag ends the reading at its place; whatever else is wrong is named all at once.
    assert named & {one.key for one in wrong}
    assert all(problem.line for problem in parsed.problems)
    if not any("!!" in one.value for one in wrong):
        assert {one.key for one in wrong} == named


# --- good documents with a mistake in them ------------------------------------------------------


@st.composite
def mistaken(draw: st.DrawFn) -> tuple[list[Written], str]:
    """A good document in which a few characters or lines were changed as a hand would."""
    written = draw(budgets(good=True))
    text = in_block(as_tree(written), *draw(styles))
    for _ in range(draw(st.integers(1, 3))):
        text = draw(st.sampled_from(MISTAKES))(draw, text)
    return written, text


def _drop(draw: st.DrawFn, text: str) -> str:
    at = draw(st.integers(0, max(0, len(text) - 1)))
    return text[:at] + text[at + 1 :]


def _double(draw: st.DrawFn, text: str) -> str:
    at = draw(st.integers(0, max(0, len(text) - 1)))
    return text[: at + 1] + text[at:]


def _insert(draw: st.DrawFn, text: str) -> str:
    at = draw(st.integers(0, len(text)))
    return text[:at] + draw(st.sampled_from(list("\t :,#-{}[]\"'*&!%@$\n\0é"))) + text[at:]


def _repeat_line(draw: st.DrawFn, text: str) -> str:
    lines = text.splitlines(keepends=True) or [""]
    at = draw(st.integers(0, len(lines) - 1))
    return "".join([*lines[: at + 1], *lines[at:]])


def _shift_line(draw: st.DrawFn, text: str) -> str:
    lines = text.splitlines(keepends=True) or [""]
    at = draw(st.integers(0, len(lines) - 1))
    lines[at] = draw(st.sampled_from([f" {lines[at]}", lines[at].lstrip(), f"\t{lines[at]}"]))
    return "".join(lines)


MISTAKES = (_drop, _double, _insert, _repeat_line, _shift_line)


@pytest.mark.case("A30", "A31", "T23")
@examples(3_000)
@given(mistaken())
def test_a_mistake_never_takes_a_limit_away_in_silence(
    document: tuple[list[Written], str],
) -> None:
    _, text = document
    parsed = read(text)
    if parsed.problems:
        assert all(str(problem) for problem in parsed.problems)
        assert (parsed.value is None) == any(problem.fatal for problem in parsed.problems)
        return
    # Nothing was said: then the text, as any YAML reader sees it, has no number that is missing.
    assert parsed.value is not None
    assert count_numbers(plain_tree(text)) == len(numbers_in(parsed.value))


def plain_tree(text: str | bytes) -> Any:
    """The document with every scalar as a text, by the same scanner that the reader uses."""
    return yaml.load(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))


def count_numbers(tree: Any) -> int:
    """How often a limit key has a value anywhere in a document that was read as plain texts."""
    if isinstance(tree, list):
        return sum(count_numbers(item) for item in tree)
    if not isinstance(tree, dict):
        return 0
    return sum((key in KEYS) + count_numbers(value) for key, value in tree.items())


# --- noise --------------------------------------------------------------------------------------

TOKENS = [
    *("budgets", "global", "per_sender", "default", "overrides", "daily_usd", "dayly_usd", "cron"),
    *("timezone", "thresholds", "soft_pct", "admins", "ledger", "url", "runs", "model_gate"),
    *(": ", ":", "\n", "\n  ", "\n    ", "\n      ", "- ", ", ", "{", "}", "[", "]", "? ", "# "),
    *("5", "0.8", "80", "null", "~", "true", "$", "&a ", "*a", "<<: *a", "!!str ", '"', "'", "|\n"),
    *("---\n", "...\n", "%YAML 1.1\n", "\t", "\r\n", "\u2028", "\x00", "🚀", "\ud800", "\ufeff"),
]
noise = st.one_of(
    st.lists(st.sampled_from(TOKENS), max_size=30).map("".join).map(encoded),
    st.binary(max_size=80),
    st.text(max_size=80).map(str.encode),
)


@examples(4_000)
@given(noise)
def test_noise_never_raises_and_never_hides_a_limit(data: bytes) -> None:
    parsed = parse_budget(data, "budget.yaml")
    if parsed.value is None:
        assert any(problem.fatal for problem in parsed.problems)
    elif not parsed.problems and b"<<" not in data:
        assert count_numbers(plain_tree(data)) == len(numbers_in(parsed.value))


# --- editing ------------------------------------------------------------------------------------


@pytest.mark.case("A33", "T25")
@examples(500)
@given(budgets(good=True), styles, numbers(good=True))
def test_an_edit_changes_one_number_and_no_other_character(
    written: list[Written], style: tuple[int, int], wanted: Written
) -> None:
    text = in_block(as_tree(written), *style)
    scope_id = scope_id_of(wanted)
    above = [plain("budgets"), *map(plain, wanted.place)]
    if scope_id is not None:
        above[-1] = quoted(scope_id)
    path = [*above, plain(wanted.key)]
    place = (wanted.scope, scope_id, wanted.key)

    after = put(text, path, "3")
    budget = read(after).value
    assert budget is not None
    assert numbers_in(budget) == {**meant(written), place: 3 * (USD if "usd" in wanted.key else 1)}
    for line in text.splitlines():
        assert line in after.splitlines() or line.split(":")[0] in after

    budget = read(cut(after, path)).value
    assert budget is not None
    assert numbers_in(budget) == {
        where: amount for where, amount in meant(written).items() if where != place
    }

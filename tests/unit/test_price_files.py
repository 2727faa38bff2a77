"""The files that prices come from: the user's own, and the bundled one."""

import json
import logging
import re
import subprocess
import sys
from collections import defaultdict
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from textwrap import dedent

import pytest
import yaml

from budget_plugin.policy.limits import Problem
from budget_plugin.policy.prices.model_names import fold, provider_id
from budget_plugin.policy.prices.price_rows import PriceRow
from budget_plugin.policy.prices.pricing import PriceTable
from budget_plugin.store.files.prices import PriceBook
from budget_plugin.store.resources import resource

NOW_MS = 1_796_000_000_000  # 2026-11-30
BUNDLE = """\
# a comment
unit: usd_per_million_tokens
source: a table 1.0
models:
  acme/large: {"input": 3, "output": 15, "aliases": ["large-latest"]}
  acme/small: [{"input": 0.3, "output": 1}, {"input": 0.2, "output": 1, "valid_from": "2026-06-01"}]
  other/model: {"input": 7, "output": 7, "source": "its own page"}
"""


@pytest.fixture
def user_file(tmp_path: Path) -> Path:
    return tmp_path / "pricing.yaml"


@pytest.fixture
def book(tmp_path: Path, user_file: Path) -> PriceBook:
    bundled = tmp_path / "bundled.yaml"
    bundled.write_text(BUNDLE)
    return PriceBook(user_file, bundled)


def found(book: PriceBook, provider: str, model: str) -> PriceRow | None:
    return book.table().find(provider, model, NOW_MS)


def input_usd(row: PriceRow | None) -> Decimal | None:
    return Decimal(row.standard.base.input) / 1_000_000 if row else None


def write(path: Path, text: str) -> None:
    path.write_text(dedent(text), encoding="utf-8")


# ---------------------------------------------------------------- the user's file


def test_without_a_file_the_bundled_rows_hold(book: PriceBook) -> None:
    row = found(book, "acme", "large")
    assert row is not None
    assert (row.key, row.source, input_usd(row)) == ("acme/large", "a table 1.0", 3)
    assert book.problems == ()


def test_every_field_of_a_row(book: PriceBook, user_file: Path) -> None:
    write(
        user_file,
        """
        unit: usd_per_million_tokens
        models:
          anthropic/claude-sonnet-4-5:
            input: 3.00
            output: 15.00
            cache_read: 0.30
            cache_write: 3.75
            cache_write_1h: 6.00
            tiers: [{above: 200_000, input: 6.00, output: 22.50, cache_read: 0.60}]
            flex: {input: 1.50}
            valid_from: 2026-01-01
            aliases: [claude-sonnet-4.5, the-good-one]
            source: the invoice
          fake-model: {input: 1.00, output: 2.00, _estimated_price: true}
          mine: {_subscription: true}
        """,
    )
    row = found(book, "anthropic", "the-good-one")
    assert row is not None
    base, (above, tier) = row.standard.base, row.standard.tiers[0]
    assert (base.input, base.cache_write_1h, above, tier.cache_read) == (
        3_000_000,
        6_000_000,
        200_000,
        600_000,
    )
    assert tier.cache_write == base.cache_write
    assert row.services["flex"].base.input == 1_500_000
    assert (row.valid_from, row.source) == ("2026-01-01", "the invoice")
    fake, mine = found(book, "custom", "fake-model"), found(book, "custom", "mine")
    assert fake is not None
    assert mine is not None
    assert (fake.estimated, fake.source, mine.subscription) == (True, "your pricing.yaml", True)
    assert book.problems == ()


@pytest.mark.case("A23")
def test_the_users_row_wins_and_the_others_stay(book: PriceBook, user_file: Path) -> None:
    write(user_file, "models: {acme/large: {input: 2, output: 10}}")
    assert input_usd(found(book, "acme", "large")) == 2
    assert input_usd(found(book, "acme", "small")) == Decimal("0.2")


def test_an_edit_acts_at_the_next_look_and_removal_brings_the_bundled_back(
    book: PriceBook, user_file: Path
) -> None:
    write(user_file, "models: {acme/large: {input: 2, output: 10}}")
    first = book.table()
    assert book.table() is first
    write(user_file, "models: {acme/large: {input: 2.5, output: 10}}")
    assert input_usd(found(book, "acme", "large")) == Decimal("2.5")
    user_file.unlink()
    assert input_usd(found(book, "acme", "large")) == 3


def test_rows_of_several_dates_are_a_list(book: PriceBook, user_file: Path) -> None:
    write(
        user_file,
        """
        models:
          acme/large:
          - {input: 1, output: 1}
          - {input: 2, output: 1, valid_from: 2026-11-01}
          - {input: 9, output: 1, valid_from: 2027-01-01}
        """,
    )
    assert input_usd(found(book, "acme", "large")) == 2


@pytest.mark.case("A21")
@pytest.mark.parametrize(
    ("written", "key", "line", "says"),
    [
        ("{input: -1000000, output: -1000000}", "input", 3, "negative"),
        ("{input: -1, output: 2}", "input", 3, "sentinel"),
        ("{input: .nan, output: 2}", "input", 3, "not a finite number"),
        ("{input: .inf, output: 2}", "input", 3, "not a finite number"),
        ("{input: 0.000003, output: 0.000015}", "input", 3, "per token"),
        ("{input: 3e-06, output: 1}", "input", 3, "per token"),
        ("{input: 1e400, output: 1}", "input", 3, "more than any model costs"),
        ('{input: "3.00", output: 1}', "input", 3, "not a number"),
        ("{input: $3, output: 1}", "input", 3, "not a number"),
        ("{input: free, output: 1}", "input", 3, "not a number"),
        ("{input: true, output: 1}", "input", 3, "not a number"),
        ("{input: , output: 1}", "input", 3, "not a number"),
        ("{input: [3], output: 1}", "input", 3, "not a number"),
        ("{output: 1}", "input", 3, "missing"),
        ("\n    input: 1\n    output: 2\n    cache_read: -1", "cache_read", 6, "negative"),
        (
            "\n    input: 1\n    output: 2\n    tiers:\n    - above: 5\n      input: -3",
            "tiers[0].input",
            8,
            "negative",
        ),
        ("{input: 1, output: 2, valid_from: tomorrow}", "valid_from", 3, "date"),
    ],
)
def test_a_row_that_is_refused_and_the_others_that_stay(
    book: PriceBook, user_file: Path, written: str, key: str, line: int, says: str
) -> None:
    user_file.write_text(f"models:\n  good: {{input: 1, output: 1}}\n  acme/large: {written}\n")
    assert input_usd(found(book, "custom", "good")) == 1
    assert input_usd(found(book, "acme", "large")) == 3  # the bundled row
    (problem,) = book.problems
    assert (problem.line, problem.key) == (line, f"models.acme/large.{key}")
    assert says in problem.message
    assert problem.message.endswith("this row is not used")
    assert not problem.fatal


@pytest.mark.parametrize(
    ("text", "line", "key", "says"),
    [
        ("unit: usd_per_token\nmodels: {}", 1, "unit", "usd_per_million_tokens"),
        ("- a list", 1, "", "mapping"),
        ("models: {a: {input: 1, output: 1}, a: {input: 5, output: 1}}", 1, "models.a", "twice"),
        ("models: {a: [", None, "", "YAML"),
    ],
)
def test_a_file_that_does_not_come_into_force(
    book: PriceBook, user_file: Path, text: str, line: int | None, key: str, says: str
) -> None:
    write(user_file, "models: {acme/large: {input: 2, output: 10}}")
    assert input_usd(found(book, "acme", "large")) == 2
    write(user_file, text)
    assert input_usd(found(book, "acme", "large")) == 2  # the last good rows
    (problem,) = book.problems
    assert (problem.key, problem.fatal) == (key, True)
    assert line is None or problem.line == line
    assert says in problem.message


@pytest.mark.parametrize(
    ("text", "key", "says"),
    [
        ("modles: {}", "modles", "did you mean models?"),
        ("models: [1]", "models", "mapping"),
        ("models:\n  a: 5", "models.a", "expected prices"),
        (
            "models: {a: {input: 1, output: 1, cache_raed: 1}}",
            "models.a.cache_raed",
            "did you mean cache_read?",
        ),
    ],
)
def test_what_is_not_understood_is_said(
    book: PriceBook, user_file: Path, text: str, key: str, says: str
) -> None:
    write(user_file, text)
    book.table()
    problem = next(problem for problem in book.problems if problem.key == key)
    assert says in problem.message
    assert not problem.fatal


def test_an_empty_file_is_no_rows(book: PriceBook, user_file: Path) -> None:
    write(user_file, "# nothing yet\n")
    assert book.table().user_rows == ()
    assert book.problems == ()


def test_a_file_that_is_not_text(book: PriceBook, user_file: Path) -> None:
    user_file.write_bytes(b"\xff\xfe\x00models")
    assert input_usd(found(book, "acme", "large")) == 3
    assert len(book.problems) == 1


PAGE = Path(__file__).parents[2] / "docs" / "prices.md"


def test_the_example_of_the_page_loads_without_a_word(book: PriceBook, user_file: Path) -> None:
    example = PAGE.read_text(encoding="utf-8").partition("```yaml\n")[2].partition("```")[0]
    write(user_file, example)
    assert len(book.table().user_rows) == 4
    assert book.problems == ()


# ---------------------------------------------------------------- the bundled file


def test_a_missing_bundle_is_a_problem_and_no_crash(
    tmp_path: Path, user_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(user_file, "models: {mine: {input: 1, output: 1}}")
    book = PriceBook(user_file, tmp_path / "absent.yaml")
    assert input_usd(found(book, "custom", "mine")) == 1
    assert found(book, "acme", "large") is None
    assert [problem.file for problem in book.problems] == ["pricing.yaml"]
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


@pytest.mark.parametrize("line", ['  acme/bad: {"input"', '  acme/bad: {"input": -1, "output": 1}'])
def test_a_damaged_bundle_unprices_that_seller_only(
    tmp_path: Path, user_file: Path, line: str
) -> None:
    bundled = tmp_path / "bundled.yaml"
    bundled.write_text(BUNDLE + line + "\n")
    book = PriceBook(user_file, bundled)
    assert found(book, "acme", "large") is None
    assert input_usd(found(book, "other", "model")) == 7
    assert [isinstance(problem, Problem) for problem in book.problems] == [True]


def test_a_row_of_the_bundle_may_name_its_own_source(book: PriceBook) -> None:
    row = found(book, "other", "model")
    assert row is not None
    assert row.source == "its own page"


def test_nothing_is_read_at_import() -> None:
    code = (
        "import sys, budget_plugin.store.files.prices as prices\n"
        "assert 'yaml' not in sys.modules and 'sqlalchemy' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


BUNDLED_FILE = resource("pricing.yaml")


@pytest.fixture(scope="module")
def shipped() -> PriceTable:
    book = PriceBook(Path("absent") / "pricing.yaml")
    table = book.table()
    assert table.bundled_rows
    assert book.problems == ()
    return table


def test_the_shipped_file_is_yaml_and_means_what_is_read(shipped: PriceTable) -> None:
    text = BUNDLED_FILE.read_text(encoding="utf-8")
    as_yaml = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    assert as_yaml["unit"] == "usd_per_million_tokens"
    lines = [line.strip().partition(": ") for line in text.splitlines() if line[:2] == "  "]
    assert as_yaml["models"] == {key: json.loads(value) for key, _, value in lines}
    rows = [row for value in as_yaml["models"].values() for row in aslist(value)]
    assert len(rows) == len(shipped.bundled_rows)
    assert "MIT License" in text
    assert "Copyright (c) Pydantic Services Inc." in text


def test_the_page_says_what_the_shipped_file_holds(shipped: PriceTable) -> None:
    rows = shipped.bundled_rows
    models = {row.key: row for row in rows}
    aliases = sum(len(row.aliases) for row in models.values())
    page = PAGE.read_text(encoding="utf-8")
    assert f"{len(models):,} models, {len(rows):,} dated rows, {aliases:,} aliases" in page
    openrouter = sum(row.provider == "openrouter" for row in models.values())
    assert f"OpenRouter ({openrouter:,} models)" in page


def aslist(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def test_a_price_of_the_shipped_file_never_has_more_than_six_decimals() -> None:
    for line in BUNDLED_FILE.read_text(encoding="utf-8").splitlines():
        if line.startswith("  "):
            for number in numbers(json.loads(line.partition(": ")[2], parse_float=Decimal)):
                assert number * 1_000_000 == int(number * 1_000_000), line


def numbers(value: object) -> list[Decimal]:
    if isinstance(value, dict):
        return [number for each in value.values() for number in numbers(each)]
    if isinstance(value, list):
        return [number for each in value for number in numbers(each)]
    return [value] if isinstance(value, Decimal) else []


def test_no_two_models_of_a_seller_share_a_name(shipped: PriceTable) -> None:
    owners: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in shipped.bundled_rows:
        for name in (row.model, *row.aliases):
            owners[row.provider, fold(name)].add(row.key)
    assert {name: keys for name, keys in owners.items() if len(keys) > 1} == {}


def test_rows_of_one_model_have_different_dates(shipped: PriceTable) -> None:
    dates = defaultdict(list)
    for row in shipped.bundled_rows:
        dates[row.key].append(row.valid_from)
    assert [key for key, days in dates.items() if len(days) != len(set(days))] == []


def test_prompt_tiers_never_get_cheaper(shipped: PriceTable) -> None:
    for row in shipped.bundled_rows:
        for card in (row.standard, *row.services.values()):
            steps = [card.base, *(tier for _, tier in card.tiers)]
            for lower, upper in pairwise(steps):
                for bucket in ("input", "output", "cache_read", "cache_write", "cache_write_1h"):
                    assert getattr(lower, bucket) <= getattr(upper, bucket), row.key


@pytest.mark.parametrize("today", [("anthropic", "claude-sonnet-4-5"), ("openai", "gpt-5")])
def test_a_price_that_everybody_knows(shipped: PriceTable, today: tuple[str, str]) -> None:
    row = shipped.find(*today, NOW_MS)
    assert row is not None
    base = row.standard.base
    expected = {"anthropic": ("3", "15", "0.3"), "openai": ("1.25", "10", "0.125")}[today[0]]
    listed = (base.input, base.output, base.cache_read)
    assert tuple(Decimal(picos) / 1_000_000 for picos in listed) == tuple(map(Decimal, expected))
    assert not row.estimated
    assert row.source.startswith("genai-prices ")


# ---------------------------------------------------------------- every shipped model is found


def spelled(row: PriceRow) -> list[tuple[str, str]]:
    """The ways in which this model's id reaches a ledger: as the seller lists it, in capitals, with
    the seller in front, with points or hyphens in its version, and dated."""
    plain = row.model
    ways = [plain, plain.upper(), f"{row.provider}/{plain}", plain.replace(".", "-")]
    if not plain[-8:].isdigit() and ":" not in plain and row.provider != "bedrock":
        ways += [f"{plain}-20260115", f"{plain}-2026-01-15"]
    if row.provider == "google":
        ways += [f"models/{plain}", f"publishers/google/models/{plain}"]
    if row.provider == "bedrock":
        ways = [plain, plain.upper(), f"bedrock/{plain}"]
        if not plain.startswith("global."):
            ways += [f"us.{plain}", f"eu.{plain}"]
    return [(row.provider, way) for way in ways]


@pytest.mark.case("A06", "A07", "T05")
def test_every_shipped_model_is_found_under_each_usual_spelling(shipped: PriceTable) -> None:
    """Which covers the most used OpenRouter models and the makers' chat models, whatever the list
    of the month is."""
    missed = []
    ids = {(row.provider, fold(row.model)): row.key for row in shipped.bundled_rows}
    for row in {row.key: row for row in shipped.bundled_rows}.values():
        for provider, model in spelled(row):
            if ids.get((provider, fold(model)), row.key) != row.key:
                continue  # another model's very id: Perplexity sells sonar and perplexity/sonar
            hit = shipped.find(provider, model, NOW_MS)
            if hit is None or hit.key != row.key:
                missed.append((provider, model, hit.key if hit else None))
    assert missed == []


@pytest.mark.case("A07")
def test_every_alias_leads_to_its_model(shipped: PriceTable) -> None:
    for row in shipped.bundled_rows:
        for alias in row.aliases:
            hit = shipped.find(row.provider, alias, NOW_MS)
            assert hit is not None
            assert hit.key == row.key


@pytest.mark.case("A06", "T05")
def test_a_longer_name_is_another_model(shipped: PriceTable) -> None:
    """No shipped model is found by an id that merely begins with its own."""
    for row in {row.key: row for row in shipped.bundled_rows}.values():
        for suffix in ("-nano", "-of-tomorrow", "x"):
            hit = shipped.find(row.provider, row.model + suffix, NOW_MS)
            assert hit is None or last(row.model + suffix) in map(last, (hit.model, *hit.aliases))


def last(model: str) -> str:
    """The id without its maker, written `maker/` or, on Bedrock, `maker.`."""
    return re.split(r"[/.]", fold(model))[-1]


@pytest.mark.parametrize(
    "seller",
    [
        "anthropic",
        "openai",
        "google",
        "xai",
        "deepseek",
        "mistral",
        "groq",
        "moonshot",
        "openrouter",
    ],
)
def test_the_sellers_of_note_are_there(shipped: PriceTable, seller: str) -> None:
    assert provider_id(seller) == seller
    assert any(row.provider == seller for row in shipped.bundled_rows)

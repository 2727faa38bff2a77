"""The schema: migrations build what the code declares, once, whoever opens the file first."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from budget_plugin.policy.windows import END_OF_TIME_MS, Window
from budget_plugin.store.resources import resource
from budget_plugin.store.sql import schema
from budget_plugin.store.sql.database import Database, LedgerTooNew
from tests.ledgers import CENT, NOON, Child, a_call, a_run, open_ledger, record, rows, spent

OPENER = """
import sys
import threading
from pathlib import Path
from tests.ledgers import Child, a_call, a_run, open_ledger, record
name, folder = sys.argv[1:]
ledger = open_ledger(Path(folder))
print("ready", flush=True)
sys.stdin.readline()
run = a_run(name)
record(ledger, a_call(name, run), run)
"""


def _scripts() -> Config:
    config = Config()
    config.set_main_option("script_location", str(resource("migrations")))
    config.set_main_option("path_separator", "os")
    return config


REVISIONS = [script.revision for script in ScriptDirectory.from_config(_scripts()).walk_revisions()]


def opened(path: Path) -> Database:
    database = Database(path)
    database.engine()
    return database


def test_migrations_build_what_the_metadata_declares(tmp_path: Path) -> None:
    database = opened(tmp_path / "ledger.db")
    with database.engine().connect() as connection:
        context = MigrationContext.configure(connection)
        assert compare_metadata(context, schema.metadata) == []
    database.close()


def test_every_index_and_table_option_is_the_same(tmp_path: Path) -> None:
    opened(tmp_path / "migrated.db").close()
    migrated = _statements(tmp_path / "migrated.db")
    del migrated["alembic_version"]
    engine = create_engine(f"sqlite:///{tmp_path / 'declared.db'}", poolclass=NullPool)
    schema.metadata.create_all(engine)
    assert migrated == _statements(tmp_path / "declared.db")


def _statements(path: Path) -> dict[str, str]:
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
        return {name: " ".join(sql.split()) for name, sql in found}


def test_the_revision_that_the_code_reads_is_the_newest_script() -> None:
    assert ScriptDirectory.from_config(_scripts()).get_current_head() == schema.REVISION


def test_a_newer_schema_is_refused_in_clear_words_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    opened(path).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    before = path.read_bytes()
    with pytest.raises(LedgerTooNew, match=r"schema 9999.*update hermes-budget"):
        opened(path)
    assert path.read_bytes() == before
    assert list(tmp_path.glob("ledger*")) == [path]


def test_a_file_that_has_been_begun_and_no_more_keeps_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "budget" / "ledger.db"
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE of_somebody (x)")
        connection.execute("INSERT INTO of_somebody VALUES (1)")
    ledger = open_ledger(tmp_path)
    assert rows(ledger, table="of_somebody") == [(1,)]
    assert rows(ledger) == [(0,)]
    ledger.database.close()


OLDER = [revision for revision in REVISIONS if revision != schema.REVISION]


@pytest.mark.parametrize("revision", OLDER)
def test_a_ledger_of_an_older_version_is_brought_up_to_date(tmp_path: Path, revision: str) -> None:
    path = tmp_path / "budget" / "ledger.db"
    path.parent.mkdir()
    _make(path, revision)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "INSERT INTO runs (run_id, session_id, root_run_id, kind, started_ms) "
            f"VALUES ('r', 's', 'r', 'chat', {NOON})"
        )
        connection.execute(
            "INSERT INTO calls (attempt_id, run_id, at_ms, input_tokens, cost_nanos, cost_source) "
            f"VALUES ('a', 'r', {NOON}, 100, {CENT}, 'pricing')"
        )
        connection.execute(
            "INSERT INTO spend_totals (scope, start_ms, end_ms, window, certain_nanos, tokens, "
            f"calls, scope_id) VALUES ('global', 0, {END_OF_TIME_MS}, 'total', {CENT}, 100, 1, '')"
        )
    ledger = open_ledger(tmp_path)
    run = a_run("new")
    record(ledger, a_call("b", run), run)
    assert rows(ledger, "attempt_id") == [("a",), ("b",)]
    assert spent(ledger, window=Window.TOTAL).certain_nanos == 2 * CENT
    assert ledger.verify() == (1, [])
    assert _statements(path).keys() == _statements_of_a_new_one(tmp_path).keys()
    ledger.database.close()


def _make(path: Path, revision: str) -> None:
    """A ledger as that version left it."""
    config = _scripts()
    engine = create_engine(f"sqlite:///{path}", poolclass=NullPool)
    with engine.begin() as connection:
        config.attributes.update(connection=connection, metadata=schema.metadata)
        command.upgrade(config, revision)


def _statements_of_a_new_one(tmp_path: Path) -> dict[str, str]:
    opened(tmp_path / "new.db").close()
    return _statements(tmp_path / "new.db")


def test_processes_that_open_first_all_at_once_all_record(tmp_path: Path) -> None:
    openers = [Child(OPENER, f"opener {number}", tmp_path) for number in range(4)]
    assert [opener.says() for opener in openers] == ["ready"] * 4
    for opener in openers:
        opener.tell()
    assert [opener.end() for opener in openers] == [0] * 4
    ledger = open_ledger(tmp_path)
    assert sorted(rows(ledger, "attempt_id")) == [(f"opener {number}",) for number in range(4)]
    ledger.database.close()


def test_threads_that_open_first_all_at_once_migrate_once(tmp_path: Path) -> None:
    """Two homes in one process: Alembic keeps its context in globals."""
    barrier = threading.Barrier(4)
    found: list[object] = []

    def begin(number: int) -> None:
        ledger = open_ledger(tmp_path / str(number % 2))
        barrier.wait()
        run = a_run(f"r{number}")
        record(ledger, a_call(f"a{number}", run), run)
        found.extend(rows(ledger, table="alembic_version"))
        ledger.database.close()

    threads = [threading.Thread(target=begin, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [(1,)] * 4

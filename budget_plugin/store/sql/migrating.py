"""Brings a ledger to the schema that this version reads and writes."""

import logging
import threading
from contextlib import closing
from typing import Final

from sqlalchemy import Connection, Engine, text

from ..resources import resource
from . import schema
from .errors import LedgerError, LedgerTooNew

_alone: Final = threading.Lock()
"""Alembic keeps its context in globals: one migration at a time in a process."""


def bring_up_to_date(engine: Engine) -> None:
    """Compare versions; where they differ, migrate in one transaction under the write lock.

    Raises:
        LedgerTooNew: the file has a schema that this version does not know; it stays as it is.
        LedgerError: the migration did not lead to the current schema.
    """
    with engine.connect() as connection:
        version = _version(connection)
    if version != schema.REVISION:
        with _alone:
            _migrate(engine)


def _version(connection: Connection) -> str | None:
    found = connection.execute(
        text("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'alembic_version'")
    ).first()
    if found is None:
        return None
    row = connection.execute(text("SELECT version_num FROM alembic_version")).first()
    return row[0] if row else None


def _migrate(engine: Engine) -> None:
    from alembic import command
    from alembic.config import Config

    logging.getLogger("alembic").setLevel(logging.WARNING)  # the host's log is not ours to fill
    config = Config()
    config.set_main_option("script_location", str(resource("migrations")).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    with (
        closing(engine.connect().execution_options(writes=True)) as connection,
        connection.begin(),
    ):
        version = _version(connection)
        if version == schema.REVISION:  # another process was first
            return
        if version is not None:
            _refuse_unknown(config, version)
        config.attributes.update(connection=connection, metadata=schema.metadata)
        command.upgrade(config, "head")
        if _version(connection) != schema.REVISION:
            raise LedgerError(f"the ledger could not be brought to schema {schema.REVISION}")


def _refuse_unknown(config: "object", version: str) -> None:
    from alembic.script import ScriptDirectory
    from alembic.util import CommandError

    try:
        ScriptDirectory.from_config(config).get_revision(version)  # type: ignore[arg-type]
    except CommandError:
        raise LedgerTooNew(
            f"the ledger has schema {version}, this version knows {schema.REVISION}: "
            "update hermes-budget"
        ) from None

"""`import`: what the host knows of the time before this plugin was there."""

from datetime import UTC, date, datetime, time
from typing import Final

from ..engine.engine import Engine
from ..engine.importing import Importing
from ..messages import imports
from ..store.host_state import HostStateError
from .asking import PROBLEM, Answer, Args, Usage

_ALL: Final = 0


def import_(engine: Engine, args: Args) -> Answer:
    """Take over older spend; `--remove` takes it out again, `--dry-run` only counts."""
    importing = Importing(engine)
    if "remove" in args.options:
        removed = importing.remove()
        return Answer(imports.removed(removed), {"removed": removed})
    dry = "dry-run" in args.options
    try:
        found = importing.run(_since_ms(engine, args), dry=dry)
    except HostStateError as error:
        return Answer(imports.not_readable(str(error)), None, PROBLEM)
    text = imports.imported(found, engine.rules().zone, dry=dry)
    return Answer(text, imports.imported_data(found, dry=dry))


def _since_ms(engine: Engine, args: Args) -> int:
    text = args.options.get("since")
    if text is None:
        return _ALL
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise Usage(imports.since_not_understood(text)) from None
    begins = datetime.combine(day, time(), engine.rules().zone).astimezone(UTC)
    return int(begins.timestamp() * 1000)

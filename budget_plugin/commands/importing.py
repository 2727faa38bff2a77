"""`import`: what the host knows of the time before this plugin was there."""

from ..engine.engine import Engine
from ..engine.importing import Importing
from ..messages import imports
from ..policy.windows import day_start_ms
from ..store.host_state import HostStateError
from .asking import PROBLEM, Answer, Args
from .days import day_option


def import_(engine: Engine, args: Args) -> Answer:
    """Take over older spend; `--remove` takes it out again, `--dry-run` only counts."""
    importing = Importing(engine)
    if "remove" in args.options:
        removed = importing.remove()
        return Answer(imports.removed(removed), {"removed": removed})
    dry = "dry-run" in args.options
    since, zone = day_option(args.options, "since"), engine.rules().zone
    since_ms = day_start_ms(since, zone) if since is not None else 0
    try:
        found = importing.run(since_ms, dry=dry)
    except HostStateError as error:
        return Answer(imports.not_readable(str(error)), None, PROBLEM)
    text = imports.imported(found, zone, args.caller.prefix, dry=dry)
    return Answer(text, imports.imported_data(found, dry=dry))

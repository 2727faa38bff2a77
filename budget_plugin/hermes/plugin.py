"""Registration with the host: what is missing is said, what can fail is done before the first hook.

Re-discovery by the host runs the root module again but keeps this one, so the doors are kept
here and registering twice doubles nothing.
"""

import importlib.util
import logging
import sys
import threading
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Final, cast

from .doors import MODEL_GATE, Doors
from .tool_schemas import SCHEMAS, TOOLSET

log = logging.getLogger(__name__)

REQUIREMENTS: Final = {
    "sqlalchemy": "sqlalchemy>=2.0.36,<2.2",
    "alembic": "alembic>=1.14,<2",
    "yaml": "pyyaml>=6.0.2,<7",
    "cachetools": "cachetools>=6.0,<9",
    "tzlocal": "tzlocal>=5.2,<6",
}
"""Import name → requirement, as in pyproject.toml (a test compares them).

A directory install never runs pip, so each may be missing.
"""

HOOKS: Final = {
    "on_session_start": "hooks",
    "pre_llm_call": "hooks",
    "pre_tool_call": "tools",
    "post_tool_call": "tools",
    "post_api_request": "hooks",
    "pre_verify": "hooks",
    "transform_llm_output": "hooks",
    "on_session_end": "hooks",
    "on_session_finalize": "hooks",
    "subagent_start": "hooks",
    "subagent_stop": "hooks",
    "pre_gateway_dispatch": "commands",
}
"""The host's hook → the part (`parts.Parts`) that answers it."""

AUXILIARY_HOOK: Final = "post_auxiliary_call"
"""A hook of hosts newer than 0.19.0, fired once for each auxiliary attempt."""

_lock = threading.Lock()
_live: dict[Path, Doors] = {}


def missing_packages() -> list[str]:
    """Import names of the packages that this Python lacks."""
    return [name for name in REQUIREMENTS if not _is_installed(name)]


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def register(ctx: Any) -> None:
    """Register everything with the host's plugin context; never raises, never twice."""
    missing = missing_packages()
    if missing:
        _register_explanation(ctx, missing)
        return
    doors = _doors(ctx)
    # First of all the gate that holds the money: what fails after it leaves it in place.
    gate = doors.door(MODEL_GATE)
    _add_once(ctx, "_middleware", "llm_execution", gate, ctx.register_middleware)
    for name, owner in HOOKS.items():
        _add_hook(ctx, doors, name, owner)
    if AUXILIARY_HOOK in _host_hooks():
        doors.host_reports_auxiliary = True
        _add_hook(ctx, doors, AUXILIARY_HOOK, "hooks")
    _register_commands(ctx, doors)
    if _speaks_of_runs(doors.home):
        _register_tools(ctx, doors)


def _add_hook(ctx: Any, doors: Doors, name: str, owner: str) -> None:
    _add_once(ctx, "_hooks", name, doors.door(f"{owner}.{name}"), ctx.register_hook)


def _host_hooks() -> Collection[str]:
    try:
        from hermes_cli.plugins import VALID_HOOKS
    except ImportError:
        return ()
    return cast("Collection[str]", VALID_HOOKS)


def _register_commands(ctx: Any, doors: Doors) -> None:
    """`/budget` and `hermes budget`; the host keeps both by name, so again replaces the same."""
    ctx.register_command(
        "budget",
        doors.door("commands.budget"),
        description="What is spent, and the limits",
        args_hint="[status|set|unset|forecast|help]",
    )
    ctx.register_cli_command(
        "budget",
        "What the agent spends, and its limits",
        doors.door("commands.setup_cli"),
        doors.door("commands.run_cli"),
        description="What the agent spends, and the limits that it is held to.",
    )


def _speaks_of_runs(home: Path) -> bool:
    """Whether budget.yaml may set ceilings of runs; whether it does, the tools themselves ask.

    Without them the host would complain of tools that are registered and never available.
    """
    try:
        return b"runs" in (home / "budget" / "budget.yaml").read_bytes()
    except OSError:
        return False


def _register_tools(ctx: Any, doors: Doors) -> None:
    """The tools by which a model reads its budget and reports to it."""
    for schema in SCHEMAS:
        ctx.register_tool(
            schema["name"],
            TOOLSET,
            schema,
            doors.door(f"model_tools.{schema['name']}"),
            check_fn=doors.door("model_tools.offered"),
        )


def _register_explanation(ctx: Any, missing: list[str]) -> None:
    from .. import messages

    text = messages.missing_packages(
        missing, [REQUIREMENTS[name] for name in missing], sys.executable
    )
    log.error("%s", text)
    ctx.register_command("budget", lambda _raw: text, description="Why the budget is not active")
    ctx.register_cli_command(
        "budget",
        "Why the budget is not active",
        lambda parser: parser.add_argument("anything", nargs="*"),
        lambda _args: _explain(text),
    )


def _explain(text: str) -> None:
    print(text)  # noqa: T201  (the answer of `hermes budget …`)
    sys.exit(1)


def _add_once(
    ctx: Any,
    registry: str,
    name: str,
    callback: Callable[..., Any],
    add: Callable[[str, Callable[..., Any]], None],
) -> None:
    present = getattr(getattr(ctx, "_manager", None), registry, {})
    if callback not in present.get(name, []):
        add(name, callback)


def _doors(ctx: Any) -> Doors:
    home = host_home()
    with _lock:
        doors = _live[home] if home in _live else _live.setdefault(home, Doors(home))
        doors.profile = lambda: str(ctx.profile_name or "")
        return doors


def host_home() -> Path:
    """The home of this process, whichever profile a gateway is serving at the moment."""
    from hermes_constants import get_process_hermes_home

    return Path(get_process_hermes_home())

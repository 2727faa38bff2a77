"""Registration with the host: what is missing is said, what can fail is done before the first hook.

Re-discovery by the host runs the root module again but keeps this one, so the runtime lives here
and registering twice doubles nothing.
"""

import importlib.util
import logging
import sys
import threading
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from .. import messages

if TYPE_CHECKING:
    from .parts import Parts

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

HOOKS: Final = (
    "on_session_start",
    "pre_llm_call",
    "pre_tool_call",
    "post_api_request",
    "transform_llm_output",
    "on_session_end",
    "on_session_finalize",
    "subagent_start",
    "subagent_stop",
)

_lock = threading.Lock()
_live: dict[Path, "Parts"] = {}


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
    parts = _parts(ctx)
    # First of all the gate that holds the money: what fails after it leaves it in place.
    _add_once(
        ctx, "_middleware", "llm_execution", parts.gate.llm_execution, ctx.register_middleware
    )
    for name in HOOKS:
        _add_once(ctx, "_hooks", name, getattr(parts.hooks, name), ctx.register_hook)
    _register_auxiliary(ctx, parts)
    _register_commands(ctx, parts)


def _register_auxiliary(ctx: Any, parts: "Parts") -> None:
    """Auxiliary calls come by a hook where the host has it, else from the host's database."""
    from .auxiliary import HOOK

    if HOOK in _host_hooks():
        parts.auxiliary.host_reports = True
        _add_once(ctx, "_hooks", HOOK, parts.hooks.post_auxiliary_call, ctx.register_hook)


def _host_hooks() -> Collection[str]:
    try:
        from hermes_cli.plugins import VALID_HOOKS
    except ImportError:
        return ()
    return cast("Collection[str]", VALID_HOOKS)


def _register_commands(ctx: Any, parts: "Parts") -> None:
    """`/budget` and `hermes budget`; the host keeps both by name, so again replaces the same."""
    commands = parts.commands
    name = "pre_gateway_dispatch"
    _add_once(ctx, "_hooks", name, commands.pre_gateway_dispatch, ctx.register_hook)
    ctx.register_command(
        "budget",
        commands.budget,
        description="What is spent, and the limits",
        args_hint="[status|set|unset|forecast|help]",
    )
    ctx.register_cli_command(
        "budget",
        "What the agent spends, and its limits",
        commands.setup_cli,
        commands.run_cli,
        description="What the agent spends, and the limits that it is held to.",
    )


def _register_explanation(ctx: Any, missing: list[str]) -> None:
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


def _parts(ctx: Any) -> "Parts":
    home = host_home()
    with _lock:
        parts = _live.get(home)
        if parts is None:
            from .parts import Parts

            parts = _live[home] = Parts(home)
        parts.runtime.profile = lambda: str(ctx.profile_name or "")
        return parts


def host_home() -> Path:
    """The home of this process, whichever profile a gateway is serving at the moment."""
    from hermes_constants import get_process_hermes_home

    return Path(get_process_hermes_home())

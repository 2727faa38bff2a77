"""What `doctor` looks at inside the host: versions, the plugin, its hooks, duplicates."""

import re
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from ..messages import diagnosis
from ..messages.diagnosis import Finding

TESTED_HOST: Final = "0.19.0"
_NAME: Final = re.compile(r"^name:\s*['\"]?budget['\"]?\s*$", re.MULTILINE)


def host_findings(home: Path, expected: Iterable[str]) -> Iterator[Finding]:
    """Findings about the host that this process is.

    Args:
        expected: the hooks and middleware that must be registered once each.
    """
    yield diagnosis.host_version(_version("hermes-agent"), TESTED_HOST)
    try:
        from hermes_cli.plugins import get_plugin_manager

        manager: Any = get_plugin_manager()
        yield from _plugin(manager)
        yield _hooks(manager, list(expected))
    except Exception as error:  # noqa: BLE001  (the host's insides may change with any version)
        yield diagnosis.load_error(str(error))
    yield from _installations(home)


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def _plugin(manager: Any) -> Iterator[Finding]:
    ours = [entry for entry in manager.list_plugins() if entry.get("name") == "budget"]
    enabled = [entry for entry in ours if entry.get("enabled")]
    for entry in ours:
        if entry.get("error"):
            yield diagnosis.load_error(str(entry["error"]))
    yield diagnosis.loaded(str(enabled[0].get("source")) if enabled else "", len(enabled))


def _hooks(manager: Any, expected: list[str]) -> Finding:
    counts = {**_ours(manager._hooks), **_ours(manager._middleware)}
    missing = [name for name in expected if not counts.get(name)]
    doubled = [name for name in expected if counts.get(name, 0) > 1]
    return diagnosis.hooks(len(expected), missing, doubled)


def _ours(registry: Mapping[str, Iterable[Any]]) -> dict[str, int]:
    package = __name__.rpartition(".hermes.")[0]
    return {
        name: sum(_module_of(callback).startswith(package) for callback in callbacks)
        for name, callbacks in registry.items()
    }


def _module_of(callback: Any) -> str:
    plain = getattr(callback, "func", callback)  # a functools.partial
    return str(getattr(plain, "__module__", None) or type(plain).__module__)


def _installations(home: Path) -> Iterator[Finding]:
    """Duplicates, and settings in a place where nobody reads them."""
    folders = [folder for folder in _plugin_folders(home) if _is_ours(folder)]
    packages = [
        point.value
        for point in metadata.entry_points(group="hermes_agent.plugins")
        if point.name == "budget"
    ]
    for folder in folders:
        if packages:
            yield diagnosis.installed_twice(packages[0], folder)
        stray = folder / "budget.yaml"
        if stray.is_file():
            right = home / "budget" / "budget.yaml"
            yield diagnosis.stray_settings(stray, right, has_limits=_has_limits(stray))


def _plugin_folders(home: Path) -> list[Path]:
    plugins = home / "plugins"
    return sorted(folder.parent for folder in plugins.glob("*/plugin.y*ml")) if plugins else []


def _is_ours(folder: Path) -> bool:
    try:
        texts = [path.read_text(encoding="utf-8") for path in folder.glob("plugin.y*ml")]
    except (OSError, UnicodeDecodeError):
        return False
    return any(_NAME.search(text) for text in texts)


def _has_limits(path: Path) -> bool:
    from ..store.files.config import parse_budget

    try:
        budget = parse_budget(path.read_bytes(), str(path)).value
    except OSError:
        return False
    return budget is None or budget.has_limits

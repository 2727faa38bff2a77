"""A budget that a model can write is not a budget: tool calls that would change it are refused.

Guarded are the budget folders of this home and of every profile, the ledger wherever it lies, the
plugin's own folder, and the host's configuration where it switches plugins on. Reading is free.
This keeps a model honest that tries the obvious; it does not jail one that hides what it does.
What gets through is caught a second time: see `engine.limit_guard`.
"""

import hashlib
import json
import logging
import os
import sys
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from ..policy import protection
from ..policy.protection import Act, Touch
from ..policy.shell_words import UNKNOWN, joined
from .realm import Realm, Whose

log = logging.getLogger(__name__)

_DEEPEST: Final = 4
_LONGEST_PATH: Final = 4_096

_HARMLESS: Final = frozenset(
    """
    read_file search_files read_terminal close_terminal web_search web_extract x_search todo memory
    clarify session_search skill_view skills_list vision_analyze video_analyze delegate_task
    send_message cronjob project_list project_create project_switch image_generate
    """.split()  # noqa: SIM905
)
_HARMLESS_PREFIXES: Final = ("browser_", "kanban_", "ha_", "feishu_", "yb_", "discord")
_PATH_KEYS: Final = frozenset(
    """
    path paths file files filename file_path filepath output output_path target destination dest
    source src uri dir directory folder
    """.split()  # noqa: SIM905
)
_PROGRAM_KEYS: Final = frozenset({"command", "cmd", "code", "script"})

Args = Mapping[str, Any]


def recorded_cwd(task_id: str) -> str:
    """The folder that the host's last command of a task ended in; empty if there was none."""
    terminal = sys.modules.get("tools.terminal_tool")
    try:
        return (terminal.get_session_cwd(task_id or None) or "") if terminal else ""
    except Exception:  # noqa: BLE001  (a helper of the host: any failure means "not known")
        return ""


def _first_cwd() -> str:
    """Where the first command of a task runs."""
    configured = os.environ.get("TERMINAL_CWD", "")
    return configured if os.path.isabs(configured) else os.getcwd()  # noqa: PTH109, PTH117


class SelfProtection:
    """Looks at each tool call; an ordinary one costs a few substring tests.

    Args:
        recorded: task id → the folder where its last command ended, empty if not known.
    """

    def __init__(self, realm: Realm, recorded: Callable[[str], str] = recorded_cwd) -> None:
        self._realm = realm
        self._recorded = recorded
        self._looks: dict[str, Callable[[Args, str], bool] | None] = {
            "terminal": self._terminal,
            "process": self._process,
            "execute_code": self._execute_code,
            "write_file": self._write_file,
            "patch": self._patch,
            **dict.fromkeys(_HARMLESS),
        }

    def refuses(self, tool: str, args: object, task_id: str) -> bool:
        """Whether a tool call would change the budget, or switch it off; logs it if so."""
        try:
            look = self._looks[tool]
        except KeyError:
            look = self._look_for(tool)
        if (
            look is None
            or not isinstance(args, dict)
            or not self._would_change(look, args, task_id)
        ):
            return False
        log.warning(
            "a call of %.60r was refused: it would change the budget (%s)", tool, _digest(args)
        )
        return True

    def _would_change(self, look: Callable[[Args, str], bool], args: Args, task_id: str) -> bool:
        try:
            return look(args, task_id)
        except Exception as error:  # noqa: BLE001  (a knot that cannot be read must not open the door)
            log.debug("a tool call could not be read: %s", type(error).__name__)
            return any(protection.names_us(text.lower()) for _, text in _strings(args))

    def _look_for(self, tool: str) -> Callable[[Args, str], bool] | None:
        if tool.startswith(_HARMLESS_PREFIXES) or protection.reads_by_name(tool):
            return None
        return self._unknown_tool

    # ------------------------------------------------------------------ tools

    def _terminal(self, args: Args, task_id: str) -> bool:
        command, workdir = args.get("command"), args.get("workdir") or ""
        if not isinstance(command, str):
            return False
        if not protection.may_matter(command) and not self._stands_in_ours(workdir, task_id):
            return False
        return self._shell(command, joined(self._cwd_of(task_id), _expanded(str(workdir))))

    def _stands_in_ours(self, workdir: object, task_id: str) -> bool:
        return "budget" in self._recorded(task_id) or "budget" in str(workdir)

    def _cwd_of(self, task_id: str) -> str:
        return self._recorded(task_id) or _first_cwd()

    def _process(self, args: Args, task_id: str) -> bool:
        data = args.get("data")
        if not isinstance(data, str) or not protection.may_matter(data):
            return False
        cwd = self._cwd_of(task_id)
        return self._shell(data, cwd) or self._code(data, cwd)

    def _execute_code(self, args: Args, task_id: str) -> bool:
        code = args.get("code")
        return isinstance(code, str) and self._code(code, self._cwd_of(task_id))

    def _write_file(self, args: Args, task_id: str) -> bool:
        path = self._path(args.get("path"), task_id)
        if not path:
            return False
        whose = self._realm.look(path)
        if whose is Whose.CONFIG:
            return not _keeps_plugin(args.get("content"))
        return whose is Whose.OURS

    def _patch(self, args: Args, task_id: str) -> bool:
        body = args.get("patch")
        named = protection.patched_paths(body) if isinstance(body, str) else []
        paths = [self._path(name, task_id) for name in (args.get("path"), *named)]
        whose = {self._realm.look(path) for path in paths if path}
        if Whose.OURS in whose or Whose.CONFIG not in whose:
            return Whose.OURS in whose
        return _speaks_of_plugins(*(args.get(k) for k in ("old_string", "new_string", "patch")))

    def _unknown_tool(self, args: Args, task_id: str) -> bool:
        for key, text in _strings(args):
            if len(text) > 64 * 1024 or not protection.names_us(text.lower()):
                continue
            cwd = self._cwd_of(task_id)
            if key in _PROGRAM_KEYS:
                if self._shell(text, cwd) or self._code(text, cwd):
                    return True
            elif key in _PATH_KEYS or "/" in text or "\\" in text:
                path = self._path(text.removeprefix("file://"), task_id)
                if path and self._realm.look(path) is Whose.OURS:
                    return True
        return False

    # ------------------------------------------------------------------ programs

    def _shell(self, command: str, cwd: str, depth: int = 0) -> bool:
        ours = {"HERMES_HOME": str(self._realm.home), "HOME": user_home()}
        variables = ChainMap(ours, os.environ)
        effects = protection.effects_of(command, cwd, variables)
        if effects.sets_limits:
            return True
        if any(self._touches(touch, command) for touch in effects.touches):
            return True
        if depth >= _DEEPEST:
            return False
        return any(
            self._shell(code.text, code.cwd, depth + 1)
            if code.is_shell
            else self._code(code.text, code.cwd, depth + 1)
            for code in effects.codes
        )

    def _code(self, text: str, cwd: str, depth: int = 0) -> bool:
        if not protection.names_us(text.lower()):
            return False
        if protection.setter_in_code(text):
            return True
        if not protection.changes_files(text, lambda path: self._names_ours(path, cwd, depth)):
            return False
        return protection.spells_our_folder(text) or any(
            self._names_ours(literal, cwd, depth) for literal in protection.literals(text)
        )

    def _names_ours(self, literal: str, cwd: str, depth: int) -> bool:
        if not protection.names_us(literal.lower()):
            return False
        if " " in literal and depth < _DEEPEST and self._shell(literal, cwd, depth + 1):
            return True
        return self._touches(Touch(_expanded(literal), cwd, Act.WRITE), "")

    def _touches(self, touch: Touch, command: str) -> bool:
        spelled = touch.path
        if not spelled or len(spelled) > _LONGEST_PATH or spelled.startswith("-"):
            return False
        path = joined(touch.cwd, spelled)
        if UNKNOWN in path:
            whole = spelled if UNKNOWN in spelled else path
            return protection.may_end_in_ours(whole, command)
        if self._realm.is_matched(path, touch.act):
            return True
        whose = self._realm.look(path, touch.act)
        if whose is Whose.CONFIG:
            return touch.act is not Act.WRITE or _speaks_of_plugins(command)
        return whose is Whose.OURS

    def _path(self, value: object, task_id: str) -> str:
        if not isinstance(value, str) or not value or len(value) > _LONGEST_PATH:
            return ""
        path = _expanded(value)
        return path if os.path.isabs(path) else joined(self._cwd_of(task_id), path)  # noqa: PTH117


def _expanded(path: str) -> str:
    if path == "~" or path.startswith("~/"):
        path = user_home() + path[1:]
    return os.path.expandvars(path) if "$" in path else path


def user_home() -> str:
    """What `~` is for the host's tools; a profile may have a home of its own."""
    constants = sys.modules.get("hermes_constants")
    try:
        found = constants.get_subprocess_home() if constants else None
    except Exception:  # noqa: BLE001  (a helper of the host: any failure means "not known")
        found = None
    return str(found) if found else os.path.expanduser("~")  # noqa: PTH111


def _strings(value: object, key: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Every text in a tool's arguments, with the key that it stands under."""
    if isinstance(value, str):
        yield key, value
    elif depth < _DEEPEST and isinstance(value, dict):
        for name, inner in value.items():
            yield from _strings(inner, str(name).lower(), depth + 1)
    elif depth < _DEEPEST and isinstance(value, list):
        for inner in value[:200]:
            yield from _strings(inner, key, depth + 1)


def _speaks_of_plugins(*texts: object) -> bool:
    return any(
        isinstance(text, str) and ("plugins" in text.lower() or "budget" in text.lower())
        for text in texts
    )


def _keeps_plugin(content: object) -> bool:
    """Whether a new configuration of the host leaves the plugin on."""
    import yaml

    try:
        plugins = yaml.safe_load(str(content))["plugins"]
        return "budget" in plugins["enabled"] and "budget" not in (plugins.get("disabled") or ())
    except (yaml.YAMLError, KeyError, TypeError, AttributeError):
        return False


def _digest(args: Args) -> str:
    """Says which call it was, and nothing of what was in it."""
    text = json.dumps(args, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]

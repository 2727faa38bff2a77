"""The argparse tree of `hermes budget …` and `hermes-budget …`, and how its answer is shown."""

import argparse
import difflib
import getpass
import json
import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from ..messages import reports
from ..messages.layout import Page
from ..messages.replays import ReplayReport
from ..messages.status import Status
from ..policy.replay.recorded import Event
from .asking import NO_HOST, USAGE, Answer, Args, Caller, Host, Usage
from .catalogue import COMMANDS, FIRST, Command
from .grammar import take_options

if TYPE_CHECKING:
    from ..engine.engine import Engine

_DEST = "budget_command"
PREFIX = "hermes budget"
_LONG = 20_000
"""Calls from which on a replay takes a second and more."""


def build_parser(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add the commands to a parser: the host's for `hermes budget`, or our own."""
    parser.description = parser.description or reports.tree_description()
    _suggest(parser)
    commands = parser.add_subparsers(dest=_DEST, metavar="command")
    for command in COMMANDS.values():
        _add(commands, command)
    return parser


def _add(commands: Any, command: Command) -> None:
    added = commands.add_parser(command.name, help=command.summary, description=command.summary)
    added.add_argument("words", nargs=argparse.REMAINDER, metavar="word", help=command.usage)
    added.add_argument("--id", metavar="ID", help=reports.option_help("id"))
    added.add_argument("--json", action="store_true", help=reports.option_help("json"))
    if command.name == "status":
        added.add_argument("--check", action="store_true", help=reports.option_help("check"))
    if command.name == "runs":
        added.add_argument("--partial", action="store_true", help=reports.option_help("partial"))
    for flag in command.flags:
        help_ = reports.option_help(flag)
        added.add_argument(f"--{flag}", action="store_const", const=flag, help=help_)
    for option in command.options:
        spellings = dict.fromkeys((f"--{option}", f"--{option.replace('-', '_')}"))
        added.add_argument(*spellings, help=reports.option_help(option))
    if command.name == "prices":
        added.add_argument("--provider", default="", help=reports.option_help("provider"))


def _suggest(parser: argparse.ArgumentParser) -> None:
    """Name the nearest command where argparse would only list all of them."""
    inherited = parser.error

    def error(message: str) -> NoReturn:
        if "invalid choice" in message:
            word = message.partition("'")[2].partition("'")[0]
            near = difflib.get_close_matches(word, COMMANDS, n=1)
            hint = near[0] if near else ""
            parser.exit(USAGE, f"{reports.unknown_command(word, hint, PREFIX)}\n")
        inherited(message)

    parser.error = error  # type: ignore[method-assign]


def run(
    parsed: argparse.Namespace,
    engine: "Callable[[], Engine]",
    host: Host = NO_HOST,
) -> int:
    """Carry out what was parsed and print the answer; returns the exit code."""
    from . import table

    try:
        name, args, as_json = _asked(parsed)
    except Usage as usage:
        answer, as_json = Answer(str(usage), None, USAGE), False
    else:
        answer = table.answer(engine, name, replace(args, host=host))
    show(answer, as_json=as_json)
    return answer.exit_code


def _asked(parsed: argparse.Namespace) -> tuple[str, Args, bool]:
    # argparse takes options only before the first word; behind it they are ours to find.
    words, options = take_options(getattr(parsed, "words", ()))
    scope_id = getattr(parsed, "id", None)
    args = Args(
        caller=Caller(local_user(), "command line", PREFIX),
        words=tuple(words),
        scope_id=options.get("id", scope_id),
        check=getattr(parsed, "check", False) or "check" in options,
        partial=getattr(parsed, "partial", False) or "partial" in options,
        provider=options.get("provider", getattr(parsed, "provider", "")),
        options={**_own_options(parsed), **options},
        progress=_progress,
    )
    as_json = getattr(parsed, "json", False) or "json" in options
    return getattr(parsed, _DEST, None) or FIRST, args, as_json


def _own_options(parsed: argparse.Namespace) -> dict[str, str]:
    command = COMMANDS.get(getattr(parsed, _DEST, None) or FIRST)
    given = {
        name: getattr(parsed, name.replace("-", "_"), None)
        for name in ((*command.options, *command.flags) if command else ())
    }
    return {name: value for name, value in given.items() if value is not None}


def _progress(events: Iterable[Event], calls: int) -> Iterable[Event]:
    """A bar where somebody watches and it takes long; never in a pipe."""
    if calls < _LONG or not sys.stderr.isatty():
        return events
    from ..messages.terminal import watched

    return watched(events, calls)


def show(answer: Answer, *, as_json: bool) -> None:
    """Print an answer: JSON where asked for, a table on a terminal, plain text elsewhere."""
    if answer.stream is not None:
        sys.stdout.writelines(answer.stream)
        return
    if as_json:
        data = answer.data if answer.data is not None else {"error": answer.text}
        sys.stdout.write(json.dumps(data, indent=2, ensure_ascii=False) + "\n")
        return
    on_terminal = sys.stdout.isatty()
    if answer.report is not None and on_terminal:
        _show_table(answer.report)
    elif isinstance(answer.text, Page) and on_terminal:
        sys.stdout.write(answer.text.within(shutil.get_terminal_size().columns) + "\n")
    else:
        sys.stdout.write(answer.text + "\n")


def _show_table(report: Status | ReplayReport) -> None:
    from rich.console import Console

    from ..messages.terminal import print_replay, print_status

    if isinstance(report, ReplayReport):
        print_replay(report, Console())
    else:
        print_status(report, PREFIX, Console())


def local_user() -> str:
    """The name of the person at this machine, for the record of changes."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return reports.unknown_user()

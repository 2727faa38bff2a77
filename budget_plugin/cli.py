"""`hermes-budget …` and `python -m budget_plugin …`: the same commands outside the host."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .commands import tree
from .messages import reports

if TYPE_CHECKING:
    from .engine.engine import Engine

build_parser = tree.build_parser


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command and exit with its code."""
    parser = build_parser(argparse.ArgumentParser(prog="hermes-budget"))
    parsed = parser.parse_args(argv)
    try:
        code = tree.run(parsed, _engine)
    except ModuleNotFoundError as error:
        code = 1
        print(reports.package_missing(error.name or str(error), sys.executable), file=sys.stderr)
    sys.exit(code)


def host_home() -> Path:
    """`HERMES_HOME`, or `~/.hermes`."""
    named = os.environ.get("HERMES_HOME", "").strip()
    return Path(named).expanduser() if named else Path.home() / ".hermes"


def _engine() -> "Engine":
    from .engine.engine import Engine

    return Engine(host_home())

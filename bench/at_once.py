"""Several processes that begin at the same moment and each tell one JSON object at the end."""

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any


def at_once(commands: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """Start them, let them go when all are ready, and return what each has told."""
    children = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for command in commands
    ]
    pipes = [(child.stdin, child.stdout) for child in children]
    for _, output in pipes:
        assert output is not None
        output.readline()
    for start, _ in pipes:
        assert start is not None
        start.close()
    told = [json.loads(output.read()) for _, output in pipes if output is not None]
    for child in children:
        child.wait()
    return told


def wait_for_start() -> None:
    """In the child: say that all is prepared, and wait until the others are."""
    print("ready", flush=True)
    sys.stdin.read()

"""File systems that are too small, or that nobody may write to: real ones where root may mount."""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def mounted(folder: Path, size: str) -> Iterator[Path]:
    """A file system of its own, in memory, of this size."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def _may_mount() -> bool:
    try:
        with tempfile.TemporaryDirectory() as folder, mounted(Path(folder) / "try", "64k"):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


MAY_MOUNT = os.geteuid() == 0 and _may_mount()


@contextmanager
def writable_files_end_at(size: int) -> Iterator[None]:
    """No file of this process may grow beyond `size` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Nobody may write into a mounted folder; one that is not mounted denies its owner."""
    if MAY_MOUNT:
        subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
        try:
            yield
        finally:
            subprocess.run(["mount", "-o", "remount,rw", folder], check=True)
        return
    me = os.geteuid()
    folder.chmod(0o500)
    if me == 0:  # root asks nobody
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(me)
        folder.chmod(0o700)

"""On what kind of file system a file lies: WAL needs memory that all its processes really share."""

import os
import re
from pathlib import Path
from typing import Final

_MOUNTS: Final = Path("/proc/self/mountinfo")

_REMOTE: Final = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "afs", "davfs"),
        *("ceph", "glusterfs", "lustre", "gpfs", "beegfs"),
        *("9p", "virtiofs", "vboxsf", "prl_fs", "fakeowner", "fuse.grpcfuse", "fuse.vmhgfs-fuse"),
        *("fuse.sshfs", "fuse.rclone", "fuse.s3fs", "fuse.gcsfuse", "fuse.glusterfs"),
    }
)
"""Several machines, or a machine and its guest, may see these; their mappings are not one."""


def is_remote(path: Path, mounts: Path = _MOUNTS) -> bool:
    """Whether a path lies on a network or bridge file system; `False` where nobody tells."""
    try:
        lines = mounts.read_text("utf-8", "replace").splitlines()
    except OSError:
        return False
    target = os.path.realpath(path)
    kinds = {point: kind for point, kind in map(_mount, lines) if _is_under(target, point)}
    return bool(kinds) and kinds[max(kinds, key=len)] in _REMOTE


def _mount(line: str) -> tuple[str, str]:
    """Mount point and type of a line of mountinfo: `36 35 98:0 /root /point opts - type src …`."""
    before, _, after = line.partition(" - ")
    point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), before.split()[4])
    return point, after.split()[0]


def _is_under(path: str, point: str) -> bool:
    return path == point or path.startswith(point.rstrip("/") + "/")

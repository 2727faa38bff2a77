"""Where the files that ship with the package lie, in a wheel and in a checkout alike."""

from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).resolve().parent.parent


def resource(name: str) -> Path:
    """Path of a shipped file or folder: `migrations`, `pricing.yaml`, `budget.yaml.example`, …

    A wheel carries them inside the package; in a checkout and in a directory install they lie
    beside it.

    Raises:
        FileNotFoundError: when neither place has it; the message names both.
    """
    for folder in (_PACKAGE, _PACKAGE.parent):
        if (path := folder / name).exists():
            return path
    raise FileNotFoundError(f"{name} is neither in {_PACKAGE} nor in {_PACKAGE.parent}")

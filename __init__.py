"""Root of a directory install (`hermes plugins install`): hands over to the package beside it.

The import is relative and inside `register`, because the host runs this file under a name of its
own (`hermes_plugins.budget`) without putting the folder on `sys.path`.
"""

from typing import Any


def register(ctx: Any) -> None:
    """Register the plugin with the Hermes plugin context `ctx`."""
    from .budget_plugin import register as register_package

    register_package(ctx)

"""Inside the host: load the plugins as Hermes does, then say what became of ours (JSON).

Arguments: `again` loads a second time.
"""

import functools
import json
import socket
import sys

import hermes_cli.plugins as host

order = []
connections = []


def watched(register):
    @functools.wraps(register)
    def wrapper(self, kind, callback, *args, **kwargs):
        if ours(callback):
            order.append(kind)
        return register(self, kind, callback, *args, **kwargs)

    return wrapper


def ours(callback):
    callback = getattr(callback, "func", callback)  # a functools.partial
    return "budget_plugin" in (getattr(callback, "__module__", None) or type(callback).__module__)


def count(table):
    return {name: n for name, them in table.items() if (n := sum(map(ours, them)))}


host.PluginContext.register_hook = watched(host.PluginContext.register_hook)
host.PluginContext.register_middleware = watched(host.PluginContext.register_middleware)
connect = socket.socket.connect
socket.socket.connect = lambda self, to: (connections.append(str(to)), connect(self, to))[1]

host.discover_plugins()
loaded_modules = set(sys.modules)
if "again" in sys.argv[1:]:
    host.discover_plugins(force=True)

manager = host.get_plugin_manager()
answer = None
if command := manager._plugin_commands.get("budget"):
    answer = command["handler"]("status")
    if hasattr(answer, "__await__"):
        import asyncio

        answer = asyncio.run(answer)
print(
    json.dumps(
        {
            "hooks": count(manager._hooks),
            "middleware": count(manager._middleware),
            "order": order,
            "modules": sorted(m for m in loaded_modules if m.endswith("budget_plugin")),
            "heavy": sorted({"sqlalchemy", "alembic"} & loaded_modules),
            "commands": [name for name in manager._plugin_commands if name == "budget"],
            "answer": answer,
            "connections": connections,
        }
    )
)

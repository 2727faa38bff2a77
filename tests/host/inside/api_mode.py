"""Inside the host: one turn of an agent in the api mode of the argument; its end as JSON."""

import json
import os
import sys

from hermes_cli.plugins import discover_plugins
from run_agent import AIAgent

discover_plugins()
agent = AIAgent(
    base_url=os.environ["PROVIDER"],
    api_key="sk-dummy-000000000000",
    model="fake-model",
    provider="custom",
    api_mode=sys.argv[1],
    quiet_mode=True,
    max_iterations=5,
    enabled_toolsets=["terminal"],
    skip_memory=True,
    skip_context_files=True,
)
end = agent.run_conversation(user_message="hello")
print("\n" + json.dumps({key: end.get(key) for key in ("final_response", "completed", "failed")}))

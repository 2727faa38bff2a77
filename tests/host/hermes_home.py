"""A home for the real Hermes: a fresh HERMES_HOME, the provider it talks to, and its ledger.

Nothing here imports the host or the plugin: Hermes runs as a process of its own, as it does for a
person, and the ledger is read with plain `sqlite3`, so that the plugin cannot vouch for itself.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.host.provider import AUXILIARY, Provider

REPO = Path(__file__).resolve().parents[2]
TIMEOUT_S = 150
KEPT_VARIABLES = {
    "PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "SYSTEMROOT",
}  # fmt: skip
# What git would clone from a release: no build, no caches, no history.
IN_A_CLONE = ("__init__.py", "plugin.yaml", "pricing.yaml", "budget.yaml.example", "budget_plugin",
              "migrations")  # fmt: skip

FAKE_PRICES = """\
unit: usd_per_million_tokens
models:
  fake-model: {input: 3.00, output: 15.00, cache_read: 0.30, cache_write: 3.75}
  fake-second: {input: 1.00, output: 5.00, cache_read: 0.10, cache_write: 1.25}
"""
NANOS_PER_TOKEN = {
    "fake-model": {"input": 3000, "output": 15000, "cache_read": 300},
    "fake-second": {"input": 1000, "output": 5000, "cache_read": 100},
}


def host_config(base_url: str, enabled: list[str]) -> dict[str, Any]:
    """The host's config.yaml: one model, and nothing that costs time or calls behind our back."""
    return {
        "_config_version": 33,
        "model": {
            "default": "fake-model",
            "provider": "custom",
            "base_url": base_url,
            "api_key": "sk-dummy",
            "context_length": 200_000,
        },
        "plugins": {"enabled": enabled},
        "agent": {"environment_probe": False},
        "memory": {"memory_enabled": False, "user_profile_enabled": False},
        "checkpoints": {"enabled": False},
        "skills": {"creation_nudge_interval": 0},  # a review behind an answer dies with its process
        "approvals": {"mode": "off"},
        "compression": {"enabled": False},
        "auxiliary": {"title_generation": {"enabled": False}},
        "security": {"tirith_enabled": False},
        "delegation": {"max_spawn_depth": 3},
    }


def fallback_to(provider: Provider) -> dict[str, Any]:
    """Configuration under which the host turns to a second model at once."""
    second = {"provider": "custom", "model": "fake-second", "api_key": "sk-dummy"}
    return {
        "fallback_providers": [{**second, "base_url": provider.base_url}],
        "agent": {"api_max_retries": 1},
    }


# Put first on PYTHONPATH, this makes an interpreter that lacks some packages: no second virtual
# environment with the host in it has to be built to see what a directory install meets.
SITECUSTOMIZE = """\
import importlib.abc, importlib.metadata, os, sys

HIDDEN = set(os.environ["HIDDEN_MODULES"].split(","))

class Hide(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hide())

def installed(dist):
    return "budget_plugin" not in HIDDEN or dist.metadata["Name"] != "hermes-budget"

discover = importlib.metadata.Distribution.discover.__func__
importlib.metadata.Distribution.discover = classmethod(
    lambda cls, **kw: filter(installed, discover(cls, **kw))
)
"""


def price_nanos(call: dict[str, Any]) -> int:
    """What one line of the provider's log costs, at its own cost field or at `FAKE_PRICES`."""
    usage = call["usage"]
    if usage is None:
        return 0
    if "cost" in usage:
        return int(Decimal(str(usage["cost"])) * 10**9)
    price = NANOS_PER_TOKEN[call["model"]]
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    return (
        (usage["prompt_tokens"] - cached) * price["input"]
        + cached * price["cache_read"]
        + usage["completion_tokens"] * price["output"]
    )


@dataclass
class HermesHome:
    """One HERMES_HOME with its provider.

    `plugin` says how Hermes finds us: `entry_point` (pip), `directory` (a copy in the home's
    plugins folder, nothing from pip), `both`, or `none`.
    """

    path: Path
    provider: Provider
    plugin: str = "entry_point"
    config: dict[str, Any] = field(default_factory=dict)  # over the host's configuration
    hide: tuple[str, ...] = ()  # top-level modules that this interpreter shall not have

    def __post_init__(self) -> None:
        self.home = self.path / "hermes"
        self.work = self.path / "work"
        for folder in (self.home, self.work, self.budget_dir):
            folder.mkdir(parents=True)
        self.write_config()
        self.write_pricing(FAKE_PRICES)
        if self.plugin in {"directory", "both"}:
            self.copy_plugin()
        if self.plugin == "directory":
            self.hide = (*self.hide, "budget_plugin")

    # ------------------------------------------------------------------------------- files

    @property
    def budget_dir(self) -> Path:
        return self.home / "budget"

    def write_config(self) -> None:
        config = host_config(self.provider.base_url, [] if self.plugin == "none" else ["budget"])
        for section, values in self.config.items():
            merged = {**config.get(section, {}), **values} if isinstance(values, dict) else values
            config[section] = merged
        # JSON is YAML, and needs no library.
        (self.home / "config.yaml").write_text(json.dumps(config, indent=2))

    def write_budget(self, yaml: str) -> None:
        (self.budget_dir / "budget.yaml").write_text(yaml)

    def write_pricing(self, yaml: str) -> None:
        (self.budget_dir / "pricing.yaml").write_text(yaml)

    def copy_plugin(self) -> None:
        copy_plugin(self.home / "plugins" / "budget")

    def agent_log(self) -> str:
        log = self.home / "logs" / "agent.log"
        return log.read_text() if log.exists() else ""

    # --------------------------------------------------------------------------- processes

    def env(self, **more: str) -> dict[str, str]:
        env = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
        env |= {
            "HERMES_HOME": str(self.home),
            "HOME": str(self.path),
            "OPENAI_API_KEY": "sk-dummy",
            "HERMES_YOLO_MODE": "1",
            "HERMES_DISABLE_UPDATE_CHECK": "1",
            "NO_COLOR": "1",
            "COLUMNS": "200",
        }
        if self.hide:
            env |= {"PYTHONPATH": str(self._hiding_folder()), "HIDDEN_MODULES": ",".join(self.hide)}
        return env | more

    def _hiding_folder(self) -> Path:
        folder = self.path / "hiding"
        folder.mkdir(exist_ok=True)
        (folder / "sitecustomize.py").write_text(SITECUSTOMIZE)
        return folder

    def run(self, *command: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(part) for part in command], cwd=self.work, env=self.env(**env),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip

    def start(self, *args: str) -> subprocess.Popen[str]:
        """A Hermes that goes on by itself; the caller ends it."""
        return subprocess.Popen(
            [Path(sys.executable).with_name("hermes"), *args], cwd=self.work, env=self.env(),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def hermes(self, *args: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
        return self.run(Path(sys.executable).with_name("hermes"), *args, **env)

    def chat(self, message: str, *args: str, **env: str) -> str:
        """One question, one answer: what the person reads."""
        return self._answer(self.hermes("chat", "-q", message, "-Q", *args, **env))

    def oneshot(self, message: str, **env: str) -> str:
        """`hermes -z`: delegation runs inside the turn, since nothing could come back later."""
        return self._answer(self.hermes("-z", message, **env))

    def python(self, code: str, *args: str, **env: str) -> str:
        """A snippet inside the host's interpreter; fails loudly."""
        return self._answer(self.run(sys.executable, "-c", code, *args, **env))

    def inside(self, script: str, *args: str, **env: str) -> Any:
        """Run a script of `inside/` in the host's interpreter; the JSON of its last line."""
        path = Path(__file__).with_name("inside") / f"{script}.py"
        out = self._answer(self.run(sys.executable, "-P", path, *args, **env))
        return json.loads(out.strip().splitlines()[-1])

    def turns(self, *said: str) -> list[str]:
        """Several turns of one conversation in one process; what the person reads after each."""
        return list(self.inside("turns", *said))

    @staticmethod
    def _answer(done: subprocess.CompletedProcess[str]) -> str:
        if done.returncode != 0:
            out = done.stdout[-4000:]
            raise AssertionError(f"exit code {done.returncode} from {done.args}:\n{out}")
        return done.stdout

    # ------------------------------------------------------------------------------- cron

    def cron_create(self, prompt: str, name: str) -> str:
        """A job every minute; its id."""
        done = self.hermes(
            "cron", "create", "every 1m", prompt, "--name", name, "--deliver", "local"
        )
        self._answer(done)
        return next(job["id"] for job in self.cron_jobs() if job["name"] == name)

    def cron_jobs(self) -> list[dict[str, Any]]:
        return list(json.loads(self._jobs_file.read_text())["jobs"])

    def cron_job(self, job_id: str) -> dict[str, Any]:
        return next(job for job in self.cron_jobs() if job["id"] == job_id)

    def cron_tick(self) -> str:
        """The scheduler's next round, with every job long due."""
        jobs = json.loads(self._jobs_file.read_text())
        for job in jobs["jobs"]:
            job["next_run_at"] = "2020-01-01T00:00:00+00:00"
        self._jobs_file.write_text(json.dumps(jobs))
        return self._answer(self.hermes("cron", "tick"))

    @property
    def _jobs_file(self) -> Path:
        return self.home / "cron" / "jobs.json"

    # ------------------------------------------------------------------- provider and ledger

    def provider_calls(self, *, auxiliary: bool = False) -> list[dict[str, Any]]:
        """The provider's log; without the calls that no hook of the host can see, unless asked."""
        calls = self.provider.calls()
        return [call for call in calls if auxiliary or call["scene"] != AUXILIARY]

    def billed_nanos(self, *, auxiliary: bool = False) -> int:
        return sum(price_nanos(call) for call in self.provider_calls(auxiliary=auxiliary))

    def ledger(self, sql: str, parameters: Iterable[Any] = ()) -> list[dict[str, Any]]:
        return self._read(self.budget_dir / "ledger.db", sql, parameters)

    def recorded_nanos(self) -> int:
        return int(
            self.ledger("SELECT COALESCE(SUM(cost_nanos), 0) AS nanos FROM calls")[0]["nanos"]
        )

    def host_state(self, sql: str) -> list[dict[str, Any]]:
        """The host's own database."""
        return self._read(self.home / "state.db", sql, ())

    @staticmethod
    def _read(database: Path, sql: str, parameters: Iterable[Any]) -> list[dict[str, Any]]:
        connection = sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)
        connection.row_factory = sqlite3.Row
        try:
            return [dict(row) for row in connection.execute(sql, tuple(parameters))]
        finally:
            connection.close()

    def verify(self) -> None:
        """Every total equals the sum of its rows, says the plugin's own audit."""
        if "budget_plugin" in self.hide:
            self._answer(self.hermes("budget", "verify"))
        else:  # the same command by its faster door
            self._answer(self.run(Path(sys.executable).with_name("hermes-budget"), "verify"))


def copy_plugin(target: Path) -> None:
    """What a directory install puts into a Hermes home, without git."""
    target.mkdir(parents=True)
    for name in IN_A_CLONE:
        source = REPO / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target / name)


def git_repository(target: Path) -> str:
    """A git repository that holds the plugin, as an address for `hermes plugins install`."""
    copy_plugin(target)
    who = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")
    env = {"PATH": os.environ["PATH"], "HOME": str(target.parent), **dict.fromkeys(who, "tester")}
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "a release"]):
        subprocess.run(["git", *command], cwd=target, env=env, check=True)
    return target.as_uri()

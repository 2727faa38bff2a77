"""A scriptable, OpenAI-compatible provider on loopback: what the real Hermes talks to in tests.

A request names its scene by a marker in a user message, `[[scene:three_tools]]`; which answer of
the scene is due follows from the number of assistant messages after it. So the provider keeps no
conversation, and parents and children may talk to it at the same time.

The log is the bill: one JSON line for every answered call, with what was charged for it, whether
or not the client was told (`report_usage=False`) or stayed to hear it (`ended: cut`).

Standard library only. By hand: `python -m tests.host.provider --port 8080 --log calls.jsonl`.
"""

from __future__ import annotations

import argparse
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

MARKER = re.compile(r"\[\[scene:([a-z0-9_]+)\]\]")
AUXILIARY = (
    "auxiliary"  # titles, compression: no tools are offered, and no hook of the host sees it
)
PATIENCE_S = 120.0


@dataclass(frozen=True)
class Reply:
    """One answer of a scene, and what it costs."""

    text: str = ""
    tools: tuple[tuple[str, dict[str, Any]], ...] = ()
    prompt: int = 1000  # with cached
    completion: int = 50  # with reasoning
    cached: int = 0
    reasoning: int = 0
    finish: str = ""  # default: by content
    held: bool = False  # comes when the test calls `release()`
    status: int = 200  # from 400 on: an error, not billed
    report_usage: bool = True  # False: billed, but the client is not told


@dataclass(frozen=True)
class Ask:
    """What a scene may look at to choose its answer."""

    body: dict[str, Any]
    step: int  # assistant messages so far
    attempt: int  # times that this scene was asked at this step before

    @property
    def model(self) -> str:
        return str(self.body.get("model") or "")


@dataclass(frozen=True)
class Options:
    """What holds for every scene of one provider."""

    sized: bool = False  # the bill follows the bytes of the request, about four to a token
    latency_s: float = 0.0
    cost_usd_per_mtok: str = ""  # set: the usage carries a `cost` field of its own, at this rate
    refuse_streams: bool = False  # the host then asks without streaming


# ------------------------------------------------------------------------------------- the scenes

Scene = Callable[[Ask], Reply]


def terminal(command: str) -> tuple[str, dict[str, Any]]:
    return "terminal", {"command": command}


def todo() -> tuple[str, dict[str, Any]]:
    return "todo", {"todos": [{"id": "1", "content": "count the money", "status": "pending"}]}


def delegate(*goals: str, role: str = "") -> tuple[str, dict[str, Any]]:
    extra = {"role": role} if role else {}
    if len(goals) == 1:
        return "delegate_task", {"goal": goals[0], **extra}
    return "delegate_task", {"tasks": [{"goal": goal} for goal in goals], **extra}


def schedule(prompt: str) -> tuple[str, dict[str, Any]]:
    return "cronjob", {"action": "create", "schedule": "every 1d", "prompt": prompt}


def in_turn(*replies: Reply) -> Scene:
    """The answers in order; the last one for ever."""
    return lambda ask: replies[min(ask.step, len(replies) - 1)]


def failing(status: int, times: int, then: Reply) -> Scene:
    return lambda ask: Reply(status=status) if ask.attempt < times else then


def runaway(ask: Ask) -> Reply:
    """Never stops: the arguments vary, so that no detector of repetition can end it either."""
    return Reply(tools=(terminal(f"echo round {ask.step}"),), prompt=2000, completion=120)


def obedient(ask: Ask) -> Reply:
    """Works on until a tool is refused, then sums up, as it is asked to."""
    last = ask.body["messages"][-1]
    if last.get("role") == "tool" and refusal_in(text_of(last.get("content"))):
        return Reply("My summary: the first half is done, the second is not.", completion=60)
    return Reply(tools=(terminal(f"echo part {ask.step}"),), prompt=2000, completion=120)


def refusal_in(tool_result: str) -> str:
    """The text by which a plugin refused a tool; empty if it ran.

    A refused tool has an error for its whole result; one that failed by itself says more. After
    the result there may stand a line of a plugin for the model.
    """
    try:
        result, _ = json.JSONDecoder().raw_decode(tool_result)
    except ValueError:
        return ""
    return str(result["error"]) if isinstance(result, dict) and set(result) == {"error"} else ""


def cut_tool_calls(ask: Ask) -> Reply:
    """Tool calls that ran into the output limit: the host asks again under the same request id."""
    if ask.attempt < 2:
        return Reply(tools=(terminal("echo half"),), finish="length", prompt=2000, completion=4000)
    return Reply("whole at last", prompt=2000, completion=30)


def second_model(ask: Ask) -> Reply:
    """The first model is down for good; the one that the host falls back to answers."""
    if ask.model == "fake-model":
        return Reply(status=500)
    return Reply("the second model speaks", prompt=1700, completion=70)


def echo_max_tokens(ask: Ask) -> Reply:
    seen = ask.body.get("max_tokens") or ask.body.get("max_completion_tokens")
    return Reply(f"max_tokens={seen}", prompt=1100, completion=20)


FROM_SANDBOX = """
from hermes_tools import terminal
print(terminal("echo first"))
print(terminal("echo second"))
"""

SCENES: dict[str, Scene] = {
    "text": in_turn(Reply("hello", prompt=1200, completion=30, cached=200, reasoning=5)),
    "three_tools": in_turn(
        Reply(tools=(todo(),), prompt=1000, completion=20),
        Reply(tools=(terminal("echo one"),), prompt=1100, completion=21, cached=900),
        Reply(tools=(("read_file", {"path": "/etc/hostname"}),), prompt=1200, completion=22),
        Reply("three things done", prompt=1500, completion=40),
    ),
    "parallel_tools": in_turn(
        Reply(
            tools=(
                ("read_file", {"path": "/etc/hostname"}),
                ("read_file", {"path": "/etc/os-release"}),
                ("read_file", {"path": "/etc/passwd"}),
                todo(),
            ),
            completion=80,
        ),
        Reply("all read", prompt=1400, completion=20),
    ),
    "execute_code": in_turn(
        Reply(tools=(("execute_code", {"code": FROM_SANDBOX}),), completion=60),
        Reply("the code ran", completion=20),
    ),
    "cut_text": in_turn(
        Reply("first part ", finish="length", prompt=3000, completion=4000),
        Reply("second part ", finish="length", prompt=3100, completion=4000),
        Reply("the end.", prompt=3200, completion=100),
    ),
    "cut_tool_calls": cut_tool_calls,
    "rate_limited": failing(429, 2, Reply("after the rate limit", prompt=1300, completion=31)),
    "server_error": failing(500, 1, Reply("after the error", prompt=1310, completion=32)),
    "refused": in_turn(Reply(status=400)),
    "second_model": second_model,
    "no_usage": in_turn(Reply("not a word about usage", prompt=900, report_usage=False)),
    "runaway": runaway,
    "accounts_for_itself": in_turn(
        Reply(tools=(terminal("echo one"),)),
        Reply(tools=(("budget_status", {}), ("budget_checkpoint", {"established": "one fact"}))),
        Reply(
            tools=(
                (
                    "budget_resolve",
                    {"state": "FOLLOW_UP_TICKET", "delivered": ["one"], "gaps": ["two"]},
                ),
            )
        ),
        Reply("that is all"),
    ),
    "slow_tool": in_turn(Reply(tools=(terminal("sleep 6"),)), Reply("it took its time")),
    "obedient": obedient,
    "letter": in_turn(Reply("a letter", prompt=20_000, completion=200)),
    "costly": in_turn(Reply("that was expensive", prompt=270_000, completion=100)),
    "costly_then_tools": in_turn(
        Reply(tools=(terminal("echo after the expense"),), prompt=270_000, completion=100),
        Reply("done after all", completion=20),
    ),
    "greps": lambda ask: (
        Reply(tools=(terminal("echo same"),)) if ask.step < 5 else Reply("nothing changes")
    ),
    "greps_for_ever": in_turn(Reply(tools=(terminal("echo same"),))),
    "errs": lambda ask: (
        Reply(tools=(("read_file", {"path": f"/nowhere/{ask.step}{ask.step}.txt"}),))
        if ask.step < 3
        else Reply("it is not there")
    ),
    "polls": lambda ask: (
        Reply(tools=(terminal("echo x >> progress; wc -l < progress"),))
        if ask.step < 6
        else Reply("done")
    ),
    "held": in_turn(Reply("at last", held=True)),
    "echo_max_tokens": echo_max_tokens,
    "delegate_one": in_turn(
        Reply(tools=(delegate("[[scene:child]] alone"),), prompt=2000, completion=60),
        Reply("one child has reported", prompt=2500, completion=40),
    ),
    "delegate_two": in_turn(
        Reply(
            tools=(delegate("[[scene:child]] left", "[[scene:child]] right"),),
            prompt=2000,
            completion=60,
        ),
        Reply("two children have reported", prompt=2500, completion=40),
    ),
    "delegate_deep": in_turn(
        Reply(
            tools=(delegate("[[scene:child_delegates]] go deeper", role="orchestrator"),),
            prompt=2000,
            completion=60,
        ),
        Reply("the tree has reported", prompt=2500, completion=40),
    ),
    "child": in_turn(
        Reply(tools=(terminal("echo child"),), prompt=700, completion=30),
        Reply("a child's summary", prompt=900, completion=25),
    ),
    "delegate_senders": in_turn(
        Reply(
            tools=(delegate("[[scene:sender]] left", "[[scene:sender]] right"),),
            prompt=2000,
            completion=60,
        ),
        Reply("two senders have reported", prompt=2500, completion=40),
    ),
    "sender": in_turn(
        Reply(tools=(terminal("echo sent >> sent.txt"),), prompt=700, completion=30),
        Reply("a sender's summary", prompt=900, completion=25),
    ),
    "delegate_judge": in_turn(
        Reply(
            tools=(delegate("judge: look at the draft [[scene:child]]"),),
            prompt=2000,
            completion=60,
        ),
        Reply("the judge has reported", prompt=2500, completion=40),
    ),
    "edits": in_turn(
        Reply(tools=(("write_file", {"path": "notes.txt", "content": "one"}),), completion=40),
        Reply("the first half is done", completion=20),
        Reply("and a little more", completion=20),
    ),
    "schedules_twice": in_turn(
        Reply(tools=(schedule("every day"),), completion=40),
        Reply(tools=(schedule("every  day"),), completion=40),
        Reply("scheduled", completion=20),
    ),
    "child_delegates": in_turn(
        Reply(tools=(delegate("[[scene:child]] grandchild"),), prompt=800, completion=35),
        Reply("a child's summary of its child", prompt=950, completion=26),
    ),
    "delegate_failing": in_turn(
        Reply(tools=(delegate("[[scene:child_fails]] in vain"),), prompt=2000, completion=60),
        Reply("the child has failed", prompt=2500, completion=40),
    ),
    "child_fails": in_turn(
        Reply(tools=(terminal("echo child"),), prompt=700, completion=30), Reply(status=400)
    ),
    "delegate_runaway": in_turn(
        Reply(tools=(delegate("[[scene:runaway]] no end"),), prompt=2000, completion=60),
        Reply("the runaway child has come back", prompt=2500, completion=40),
    ),
    "delegate_two_deep": in_turn(
        Reply(
            tools=(
                delegate(
                    "[[scene:child_delegates]] left",
                    "[[scene:child_delegates]] right",
                    role="orchestrator",
                ),
            ),
            prompt=2000,
            completion=70,
        ),
        Reply("both trees have reported", prompt=2500, completion=40),
    ),
    "delegate_deep_runaway": in_turn(
        Reply(
            tools=(delegate("[[scene:delegate_runaway]] go deeper", role="orchestrator"),),
            prompt=2000,
            completion=70,
        ),
        Reply("the tree has reported", prompt=2500, completion=40),
    ),
    "delegates_for_ever": lambda ask: Reply(
        tools=(delegate("[[scene:child]] one more"),), prompt=2000, completion=60
    ),
    "delegates_the_same": lambda ask: (
        Reply(tools=(delegate("[[scene:child]] find the invoice"),), prompt=2000, completion=60)
        if ask.step < 6
        else Reply("there is none", completion=40)
    ),
    "cron_report": in_turn(
        Reply(tools=(terminal("echo report"),), prompt=800, completion=30),
        Reply("the report", prompt=900, completion=30),
    ),
}


# ------------------------------------------------------------------------------------ the provider


def text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(p.get("text", "")) for p in parts if isinstance(p, dict))


def scene_of(messages: list[dict[str, Any]]) -> tuple[str, int]:
    """The scene that is played, and how many answers of it were given.

    A later message may open another scene, but only with the marker at its beginning: a child's
    report, which comes back as a message, quotes the child's.
    """
    marked = [
        (at, hit)
        for at, message in enumerate(messages)
        if message.get("role") == "user" and (hit := MARKER.search(text_of(message.get("content"))))
    ]
    if not marked:
        return "text", sum(message.get("role") == "assistant" for message in messages)
    at, hit = next((it for it in reversed(marked) if it[1].start() == 0), marked[0])
    if hit.group(1) not in SCENES:
        raise KeyError(f"no scene is called {hit.group(1)!r}")
    return hit.group(1), sum(message.get("role") == "assistant" for message in messages[at:])


def usage_of(reply: Reply, options: Options) -> dict[str, Any]:
    total = reply.prompt + reply.completion
    usage = {
        "prompt_tokens": reply.prompt,
        "completion_tokens": reply.completion,
        "total_tokens": total,
        "prompt_tokens_details": {"cached_tokens": reply.cached},
        "completion_tokens_details": {"reasoning_tokens": reply.reasoning},
    }
    if rate := options.cost_usd_per_mtok:
        usage["cost"] = float(Decimal(rate) * total / 1_000_000)
    return usage


@dataclass
class Provider:
    """The server. Use as a context manager; `calls()` is the bill so far."""

    log: Path
    options: Options = field(default_factory=Options)
    port: int = 0

    def __post_init__(self) -> None:
        self._settled = threading.Condition()
        self._released = threading.Event()
        self._open = 0
        self._seq = 0
        self._attempts: Counter[tuple[str, int, str]] = Counter()
        handler = type("BoundHandler", (Handler,), {"provider": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), daemon=True
        )

    def __enter__(self) -> Provider:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def calls(self) -> list[dict[str, Any]]:
        """Every answered call in order; waits for those that are being answered."""
        with self._settled:
            if not self._settled.wait_for(lambda: self._open == 0, PATIENCE_S):
                raise TimeoutError(f"{self._open} calls are still being answered")
            lines = self.log.read_text().splitlines() if self.log.exists() else []
        return sorted((json.loads(line) for line in lines), key=lambda call: call["seq"])

    def wait_until_asked(self, count: int) -> None:
        """Until `count` calls have come in, whether or not they are answered yet."""
        with self._settled:
            if not self._settled.wait_for(lambda: self._seq >= count, PATIENCE_S):
                raise TimeoutError(f"only {self._seq} calls came in")

    def release(self) -> None:
        """Let the answers go that are held back."""
        self._released.set()

    def pause(self, reply: Reply) -> None:
        """As long as the answer takes."""
        if reply.held:
            self._released.wait(PATIENCE_S)
        time.sleep(self.options.latency_s)

    def begin(self, name: str, step: int, model: str) -> tuple[int, int]:
        """The number of this call, and how often its question was asked before."""
        with self._settled:
            self._open += 1
            self._seq += 1
            attempt = self._attempts[name, step, model]
            self._attempts[name, step, model] += 1
            self._settled.notify_all()
            return self._seq, attempt

    def end(self, line: dict[str, Any]) -> None:
        with self._settled:
            with self.log.open("a") as out:
                out.write(json.dumps(line) + "\n")
            self._open -= 1
            self._settled.notify_all()


class Handler(BaseHTTPRequestHandler):
    """Speaks the wire format; knows nothing of scenes beyond `Reply`."""

    provider: Provider
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each answer waits for an acknowledgement

    def log_message(self, *_: object) -> None:
        """Not on stderr: the log is the JSON file."""

    def do_GET(self) -> None:
        # Only this path: an answer on /api/v1/models would make the host take us for LM Studio.
        # No prices in it: the plugin's own table has to price.
        if self.path.rstrip("/") != "/v1/models":
            return self._send(404, {"error": {"message": "no such page"}})
        names = ("fake-model", "fake-second")
        models = [{"id": n, "object": "model", "context_length": 200_000} for n in names]
        return self._send(200, {"object": "list", "data": models})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not self.path.endswith("/chat/completions"):
            return self._send(404, {"error": {"message": "no such page"}})
        return self._answer(json.loads(raw), len(raw))

    def _answer(self, body: dict[str, Any], size: int) -> None:
        messages = body.get("messages") or []
        name, step = scene_of(messages) if body.get("tools") else (AUXILIARY, 0)
        model = str(body.get("model") or "")
        seq, attempt = self.provider.begin(name, step, model)
        line = {
            "seq": seq,
            "at": time.time(),
            "scene": name,
            "step": step,
            "attempt": attempt,
            "model": model,
            "stream": bool(body.get("stream")),
            "max_tokens": body.get("max_tokens") or body.get("max_completion_tokens"),
            "last_role": messages[-1].get("role") if messages else None,
            "last_text": text_of(messages[-1].get("content"))[-2000:] if messages else "",
            "status": 500,
            "usage": None,
            "ended": "failed",
        }
        try:
            reply = self._choose(name, Ask(body, step, attempt), size)
            line["status"] = reply.status
            line["usage"] = usage_of(reply, self.provider.options) if reply.status < 400 else None
            self.provider.pause(reply)
            line["ended"] = "completed" if self._deliver(seq, body, reply) else "cut"
        finally:
            self.provider.end(line)

    def _choose(self, name: str, ask: Ask, size: int) -> Reply:
        if self.provider.options.refuse_streams and ask.body.get("stream"):
            return Reply("stream is not supported here", status=500)
        if name == AUXILIARY:
            reply = Reply("A Title", prompt=300, completion=6)
        else:
            reply = SCENES[name](ask)
        if self.provider.options.sized and reply.status < 400:
            reply = replace(reply, prompt=max(size // 4, 1), cached=0)
        return reply

    def _deliver(self, seq: int, body: dict[str, Any], reply: Reply) -> bool:
        """Send the answer; False when the client was gone before its end."""
        try:
            if reply.status >= 400:
                error = {"message": reply.text or "scripted", "code": reply.status}
                self._send(reply.status, {"error": error})
            elif body.get("stream"):
                self._stream(Wire(seq, body, reply, self.provider.options))
            else:
                self._send(200, Wire(seq, body, reply, self.provider.options).whole())
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    def _stream(self, wire: Wire) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for chunk in wire.chunks():
            self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
            self.wfile.flush()
        self.wfile.write(b"data: [DONE]\n\n")
        self.wfile.flush()

    def _send(self, status: int, payload: dict[str, Any]) -> None:
        raw = json.dumps(payload).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        if status == 429:
            self.send_header("Retry-After", "0.05")  # the host's own pause is several seconds
        self.end_headers()
        self.wfile.write(raw)


@dataclass(frozen=True)
class Wire:
    """A reply in the shapes of chat completions."""

    seq: int
    body: dict[str, Any]
    reply: Reply
    options: Options

    def whole(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": self.reply.text or None}
        if self.reply.tools:
            message["tool_calls"] = self._tool_calls()
        choice = {"index": 0, "message": message, "finish_reason": self._finish()}
        usage = {"usage": usage_of(self.reply, self.options)} if self.reply.report_usage else {}
        return {**self._head("chat.completion"), "choices": [choice], **usage}

    def chunks(self) -> list[dict[str, Any]]:
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": word} for word in re.findall(r"\S+\s*", self.reply.text)]
        deltas += [{"tool_calls": [{"index": i, **c}]} for i, c in enumerate(self._tool_calls())]
        head = self._head("chat.completion.chunk")
        chunks = [{**head, "choices": [self._choice(delta, None)]} for delta in deltas]
        chunks.append({**head, "choices": [self._choice({}, self._finish())]})
        wanted = (self.body.get("stream_options") or {}).get("include_usage")
        if wanted and self.reply.report_usage:
            usage = usage_of(self.reply, self.options)
            chunks.append({**head, "choices": [], "usage": usage})
        return chunks

    def _head(self, kind: str) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{self.seq}",
            "object": kind,
            "created": int(time.time()),
            "model": self.body.get("model"),
        }

    @staticmethod
    def _choice(delta: dict[str, Any], finish: str | None) -> dict[str, Any]:
        return {"index": 0, "delta": delta, "finish_reason": finish}

    def _finish(self) -> str:
        return self.reply.finish or ("tool_calls" if self.reply.tools else "stop")

    def _tool_calls(self) -> list[dict[str, Any]]:
        return [
            {
                "id": f"call_{self.seq}_{i}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for i, (name, arguments) in enumerate(self.reply.tools)
        ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description="A scriptable provider; scenes: " + ", ".join(SCENES)
    )
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--sized", action="store_true", help="the bill follows the request's size")
    parser.add_argument("--latency", type=float, default=0.0, metavar="SECONDS")
    args = parser.parse_args()
    with Provider(args.log, Options(sized=args.sized, latency_s=args.latency), args.port) as it:
        print(it.base_url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()

"""`make demo`: the real Hermes plays five scenes, and the provider's own log checks each of them.

Nothing is simulated but the model: Hermes, its cron scheduler and its delegation are the real ones,
the provider is a program on this machine that keeps a bill. A scene that cannot prove its line
fails the demo.
"""

from __future__ import annotations

import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path

from tests.host.hermes_home import HermesHome, price_nanos
from tests.host.provider import Options, Provider

Scene = Callable[[HermesHome], str]


def check(claim: bool, otherwise: str) -> None:
    if not claim:
        raise AssertionError(otherwise)


def usd(nanos: int) -> str:
    amount = Decimal(nanos) / 10**9
    return f"${amount:.2f}" if amount >= Decimal("0.10") else f"${amount:.4f}"


def check_books(home: HermesHome) -> None:
    """The ledger and the bill agree to the nano-dollar, and the totals with the rows."""
    bill, ledger = home.billed_nanos(), home.recorded_nanos()
    check(bill == ledger, f"the bill says {usd(bill)}, the ledger {usd(ledger)}")
    home.verify()


# ------------------------------------------------------------------------------------- the scenes


def three_tool_calls(home: HermesHome) -> str:
    """Recorded and priced"""
    answer = home.chat("[[scene:three_tools]] do three things")
    check("three things done" in answer, f"unexpected answer: {answer}")
    check_books(home)
    calls = len(home.provider_calls())
    return (
        f"Three tools, {calls} model calls: the provider bills {usd(home.billed_nanos())}, "
        "and the ledger has the same, to the last nano-dollar."
    )


def one_soft_alert(home: HermesHome) -> str:
    """A soft alert, once"""
    home.write_budget("budgets: {global: {daily_usd: 1.00}}\n")
    turns = home.turns("[[scene:costly]] be expensive", *["[[scene:text]] and then?"] * 3)
    told = [call for call in home.provider_calls() if "$1.00" in call["last_text"]]
    shown = [answer for answer in turns if "$1.00" in answer]
    check(len(told) == 1, f"the model was told {len(told)} times")
    check(len(shown) == 1, f"the person was told {len(shown)} times")
    check_books(home)
    spent = usd(home.billed_nanos())
    return f"{spent} of $1.00 spent: model and person hear of it once, and the chat goes on."


def hard_breach(home: HermesHome) -> str:
    """A hard breach"""
    home.write_budget("budgets: {global: {daily_usd: 0.20}}\n")
    answer = home.chat("[[scene:obedient]] take all the steps that there are")
    check("My summary" in answer, f"no summary: {answer}")
    calls = home.provider_calls()
    check('"error"' in calls[-1]["last_text"], "no tool was refused before the last call")
    check(home.billed_nanos() <= 200_000_000, f"billed {usd(home.billed_nanos())} of $0.20")

    before = len(calls)
    refusal = home.oneshot("[[scene:runaway]] go on")
    more = home.provider_calls()[before:]
    check(home.billed_nanos() <= 200_000_000, f"billed {usd(home.billed_nanos())} of $0.20")
    check("$0.20" in refusal, f"the refusal does not name the limit: {refusal}")
    check(not more, f"{len(more)} more calls left")
    check_books(home)
    return (
        f"A tool is refused at {usd(home.billed_nanos() - price_nanos(calls[-1]))} of $0.20, the "
        "model sums up in one last call, and the next one never leaves the house."
    )


def cron_job_paused(home: HermesHome) -> str:
    """A cron job that costs too much"""
    home.write_budget("budgets: {per_cron_job: {default: {daily_usd: 0.50}}}\n")
    job_id = home.cron_create("[[scene:costly]] write the report", "dear report")
    home.cron_tick()
    job = home.cron_job(job_id)
    check(job["state"] == "paused", f"the job is {job['state']}")
    check("$0.50" in (job["paused_reason"] or ""), f"the reason reads {job['paused_reason']!r}")
    fired = len(home.provider_calls())
    home.cron_tick()
    check(len(home.provider_calls()) == fired, "the next tick fired the job again")
    check_books(home)
    return (
        f"“dear report” spends {usd(home.billed_nanos())} of its $0.50 and is paused; a minute "
        "later the scheduler passes it by."
    )


def child_of_a_cron_job(home: HermesHome) -> str:
    """A delegated child, on its parent's account"""
    home.write_budget("budgets: {per_cron_job: {default: {daily_usd: 5.00}}}\n")
    job_id = home.cron_create("[[scene:delegate_one]] have it done", "delegating report")
    home.cron_tick()
    runs = home.ledger("SELECT * FROM runs")
    check(len(runs) == 2, f"{len(runs)} runs instead of two")
    check({run["cron_job_id"] for run in runs} == {job_id}, "a run is not the job's")
    (total,) = home.ledger("SELECT * FROM spend_totals WHERE scope = 'cron_job'")
    check(total["certain_nanos"] == home.billed_nanos(), "the job's total is not the bill")
    check_books(home)
    child = sum(price_nanos(c) for c in home.provider_calls() if c["scene"] == "child")
    return (
        f"The job hands its work to a child; the child's {usd(child)} stand on the job's account, "
        f"{usd(total['certain_nanos'])} in all."
    )


SCENES: list[tuple[Scene, Options]] = [
    (three_tool_calls, Options()),
    (one_soft_alert, Options()),
    (hard_breach, Options(sized=True)),
    (cron_job_paused, Options()),
    (child_of_a_cron_job, Options()),
]


# --------------------------------------------------------------------------------------- the play


def play(number: int, scene: Scene, home: HermesHome) -> bool:
    print(f"\n  {number}  {scene.__doc__}", flush=True)
    started = time.monotonic()
    try:
        line, passed = scene(home), True
    except AssertionError as failure:
        line, passed = f"{failure}{complaints(home)}", False
    except Exception:  # noqa: BLE001 - a scene that breaks is a scene that failed
        line, passed = f"{traceback.format_exc()}{complaints(home)}", False
    took = time.monotonic() - started
    print(f"     {'✓' if passed else '✗'} {line}  ({took:.0f} s)", flush=True)
    return passed


def complaints(home: HermesHome) -> str:
    """What the host logged about us at WARNING and above."""
    lines = home.agent_log().splitlines()
    bad = (" WARNING ", " ERROR ")
    told = [line for line in lines if "budget" in line and any(level in line for level in bad)]
    return "".join(f"\n       {line}" for line in told)


def indented(text: str) -> str:
    return "\n".join(f"     {line}".rstrip() for line in text.strip().splitlines())


def main() -> int:
    print("hermes-budget: the real Hermes, and a model that spends. Five scenes.")
    started = time.monotonic()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="budget-demo-")))
        results = []
        for number, (scene, options) in enumerate(SCENES, 1):
            place = folder / f"scene{number}"
            place.mkdir()
            provider = stack.enter_context(Provider(place / "calls.jsonl", options))
            home = HermesHome(place, provider)
            results.append(play(number, scene, home))
        print("\n  `hermes budget status` after the last scene:\n")
        status = home.hermes("budget", "status")
        print(indented(status.stdout))
    took = time.monotonic() - started
    print(f"\n  {sum(results)} of {len(results)} scenes held, in {took:.0f} s.")
    return 0 if all(results) and status.returncode == 0 else 1


if __name__ == "__main__":
    sys.exit(main())

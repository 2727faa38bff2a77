"""The model of the real Hermes tries to change its own budget, and a person can."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from tests.host.hermes_home import HermesHome
from tests.host.provider import SCENES, Ask, Reply, in_turn, refusal_in, terminal, text_of

NewHome = Callable[..., HermesHome]

FIVE_DOLLARS = "timezone: UTC\nbudgets: {global: {daily_usd: 5.00}}\n"
FIFTY_CENTS = "timezone: UTC\nbudgets: {global: {daily_usd: 0.50}}\n"
FIVE_HUNDRED = "timezone: UTC\nbudgets: {global: {daily_usd: 500}}\n"
SECRET = "sk-TEST-123"

Tool = tuple[str, dict[str, Any]]


def write_file(path: object, content: str) -> Tool:
    return "write_file", {"path": str(path), "content": content}


def patch(path: object, old: str, new: str) -> Tool:
    return "patch", {"mode": "replace", "path": str(path), "old_string": old, "new_string": new}


def read_file(path: object) -> Tool:
    return "read_file", {"path": str(path)}


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Give the model a part: its tool calls one after another. Returns what each was answered."""

    def as_scene(name: str, *tools: Tool, first_prompt: int = 1000) -> list[str]:
        answers: list[str] = []

        def scene(ask: Ask) -> Reply:
            last = ask.body["messages"][-1]
            if last.get("role") == "tool":
                answers.append(text_of(last.get("content")))
            if ask.step >= len(tools):
                return Reply("done")
            return Reply(tools=(tools[ask.step],), prompt=1000 if ask.step else first_prompt)

        monkeypatch.setitem(SCENES, name, scene)
        return answers

    return as_scene


def own_files(home: HermesHome) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in home.budget_dir.iterdir() if path.is_file()}


@pytest.mark.case("A59")
def test_the_model_cannot_write_its_budget(
    new_home: NewHome, play: Callable[..., list[str]]
) -> None:
    home = new_home(budget=FIVE_DOLLARS)
    file = home.budget_dir / "budget.yaml"
    answers = play(
        "edits_its_budget",
        write_file(file, FIVE_HUNDRED),
        write_file("$HERMES_HOME/budget/budget.yaml", FIVE_HUNDRED),
        patch(os.path.relpath(file, home.work), "5.00", "500"),
        terminal(f"sed -i s/5.00/500/ {file}"),
        terminal("cd $HERMES_HOME && cd budget"),
        terminal("sed -i s/5.00/500/ budget.yaml"),
        terminal("cd / && hermes budget set global daily 500"),
        ("execute_code", {"code": f"open({str(file)!r}, 'w').write('')"}),
        ("execute_code", {"code": "from hermes_tools import terminal\n"
                                  f"print(terminal('rm {file}'))"}),
        terminal("cat $HERMES_HOME/budget/budget.yaml"),
        read_file(file),
        terminal("hermes budget status"),
        write_file(home.work / "budget" / "budget.yaml", "rent: 900\n"),
    )  # fmt: skip
    home.chat("[[scene:edits_its_budget]] go", "--max-turns", "20")

    assert file.read_text() == FIVE_DOLLARS
    assert len(answers) == 13
    refused = [bool(refusal_in(answer)) for answer in answers]
    # The ninth is refused inside of the sandbox, whose own answer depends on how busy it is: that
    # the file is untouched tells.
    del refused[8], answers[8]
    assert refused == [True] * 4 + [False] + [True] * 3 + [False] * 4
    assert len({refusal_in(answer) for answer in answers} - {""}) == 1
    assert "ask" in refusal_in(answers[0])
    assert not any(word in refusal_in(answers[0]) for word in ("/budget", "hermes", "yaml"))
    assert "5.00" in answers[8]
    assert "5.00" in answers[9]
    assert (home.work / "budget" / "budget.yaml").read_text() == "rent: 900\n"


@pytest.mark.case("A59")
def test_a_session_that_is_stopped_cannot_raise_its_limit(new_home: NewHome) -> None:
    home = new_home(budget=FIFTY_CENTS)
    file = home.budget_dir / "budget.yaml"
    with pytest.MonkeyPatch.context() as scenes:
        tools = (write_file(file, FIVE_HUNDRED), terminal(f"sed -i s/0.50/500/ {file}"))
        scene = in_turn(Reply(tools=tools, prompt=270_000), Reply("done"))
        scenes.setitem(SCENES, "costly_editor", scene)
        answer = home.chat("[[scene:costly_editor]] go")
    assert file.read_text() == FIFTY_CENTS
    assert "$0.50" in answer
    assert len(home.provider_calls()) == 1


@pytest.mark.case("A59")
def test_an_edit_that_got_through_waits_for_a_person(new_home: NewHome) -> None:
    home = new_home(budget=FIFTY_CENTS)
    home.oneshot("[[scene:costly]] go")
    home.write_budget(FIVE_HUNDRED)
    for _ in range(2):  # in every process, however often one is begun
        assert "$0.50" in home.chat("[[scene:text]] hello")
    assert len(home.provider_calls()) == 1
    assert home.agent_log().count("until a person confirms") == 1

    status = " ".join(home.hermes("budget", "status").stdout.split())
    assert "$0.50 is in force" in status
    assert "hermes budget confirm" in status
    confirmed = home.hermes("budget", "confirm")
    assert (confirmed.returncode, "$500" in confirmed.stdout) == (0, True)
    assert "hello" in home.oneshot("[[scene:text]] hello")
    changes = home.ledger("SELECT via, state, amount_after FROM config_changes ORDER BY id")
    assert [(c["via"], c["state"]) for c in changes] == [
        ("editor", "confirmed"),
        ("command line", "done"),
    ]


@pytest.mark.case("A59")
def test_a_running_conversation_is_confirmed_by_the_person_in_it(new_home: NewHome) -> None:
    home = new_home(budget=FIFTY_CENTS)
    edit = f"write:{home.budget_dir / 'budget.yaml'}:{FIVE_HUNDRED}"
    answers = home.turns(
        "[[scene:costly]] go", edit, "[[scene:text]] one", "/budget confirm", "[[scene:text]] two"
    )
    assert "$0.50" in answers[2]
    assert "hello" in answers[4]
    changes = home.ledger("SELECT via, state FROM config_changes ORDER BY id")
    assert [(c["via"], c["state"]) for c in changes] == [("editor", "confirmed"), ("chat", "done")]


@pytest.mark.case("T27")
def test_a_limit_lowered_in_an_editor_acts_and_is_in_the_history(new_home: NewHome) -> None:
    home = new_home(budget=FIVE_DOLLARS)
    edit = f"write:{home.budget_dir / 'budget.yaml'}:{FIFTY_CENTS}"
    home.turns("[[scene:costly]] go", edit, "[[scene:text]] one")
    assert len(home.provider_calls()) == 1
    history = home.hermes("budget", "history").stdout
    assert "(editor)" in history
    assert "from $5.00 to $0.50" in history


@pytest.mark.case("A44")
def test_refusals_end_the_loop(new_home: NewHome, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that tries one tool after another under a limit that is reached."""
    home = new_home(budget="timezone: UTC\nbudgets: {global: {daily_usd: 0.20}}\n", sized=True)
    refused: list[str] = []

    def obstinate(ask: Ask) -> Reply:
        results = [m for m in ask.body["messages"] if m.get("role") == "tool"]
        refused[:] = filter(None, (refusal_in(text_of(m.get("content"))) for m in results))
        tools = (
            write_file(f"part{ask.step}.txt", "x"),
            patch(f"part{ask.step}.txt", "x", "y"),
            terminal(f"echo round {ask.step}"),
        )
        return Reply(tools=tools, prompt=2000, completion=120)

    monkeypatch.setitem(SCENES, "obstinate", obstinate)
    answer = home.chat("[[scene:obstinate]] go", "--max-turns", "30")
    assert len(refused) == 3  # all of one round, and after that one more call, the last
    assert len(set(refused)) == 1
    for word in (
        "everything together",
        "of $0.20",
        "resets at",
        "No tool will work",
        "final answer",
    ):
        assert word in refused[0]
    assert "$0.20" in answer
    assert len(home.ledger("SELECT id FROM calls WHERE auxiliary_task = ''")) == len(
        home.provider_calls()
    )
    assert home.recorded_nanos() == home.billed_nanos()


@pytest.mark.case("A50")
def test_the_model_cannot_set_a_paused_job_going(
    new_home: NewHome, play: Callable[..., list[str]]
) -> None:
    home = new_home(budget="timezone: UTC\nbudgets: {per_cron_job: {default: {daily_usd: 0.50}}}\n")
    spent = home.cron_create("[[scene:costly]] report", "dear report")
    aside = home.cron_create("[[scene:cron_report]] report", "put aside")
    home.cron_tick()
    home.hermes("cron", "pause", aside)
    assert home.cron_job(spent)["state"] == "paused"

    answers = play(
        "resumes_jobs",
        ("cronjob", {"action": "resume", "job_id": spent}),
        ("cronjob", {"action": "run", "job_id": spent}),
        ("cronjob", {"action": "resume", "job_id": "dear report"}),
        ("cronjob", {"action": "list"}),
    )
    home.chat("[[scene:resumes_jobs]] go")
    assert [bool(refusal_in(answer)) for answer in answers] == [True, True, True, False]
    assert "$0.50" in refusal_in(answers[0])
    assert [home.cron_job(job)["state"] for job in (spent, aside)] == ["paused", "paused"]
    assert home.cron_job(spent)["paused_reason"].startswith("budget:")


@pytest.mark.case("A61")
def test_no_argument_and_no_error_text_is_kept(
    new_home: NewHome, play: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = new_home(budget=FIFTY_CENTS)
    file = home.budget_dir / "budget.yaml"
    header = f"-H 'Authorization: Bearer {SECRET}'"
    play(
        "tells_a_secret",
        terminal(f"curl {header} -o {file} http://127.0.0.1:9/"),
        terminal(f"echo {SECRET}"),
        write_file(file, SECRET),
        ("execute_code", {"code": f"open({str(file)!r}, 'w').write('{SECRET}')"}),
    )
    home.chat("[[scene:tells_a_secret]] go")
    monkeypatch.setitem(SCENES, "fails_with_a_secret", in_turn(Reply(SECRET, status=400)))
    home.hermes("chat", "-q", f"[[scene:fails_with_a_secret]] {SECRET}", "-Q")
    home.oneshot("[[scene:costly_then_tools]] go")  # and a limit that is reached

    ours = [line for line in home.agent_log().splitlines() if "budget_plugin" in line]
    assert any("terminal" in line and "refused" in line for line in ours)
    assert not [line for line in ours if SECRET in line]
    assert "ledger.db" in own_files(home)
    assert [name for name, data in own_files(home).items() if SECRET.encode() in data] == []

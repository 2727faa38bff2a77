"""Answers to commands: changes of limits, history, checks, help, and what was not understood."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from ..policy.limit_changes import CeilingChange
from ..policy.limits import Measure, Problem, Scope
from ..policy.verdicts import Verdict
from ..policy.windows import Window
from .layout import USED_IN, limit_or_none, moment, plain, resets, short, upper_first, whose
from .parts import WINDOW_WORDS, amount, in_force, quoted

if TYPE_CHECKING:  # the store brings SQLAlchemy, and `--help` needs none
    from ..store.files.config_edit import Change
    from ..store.journal import LimitChange
    from ..store.ledger import Difference

# ---------------------------------------------------------------------- what was not understood


def unknown_word(kind: str, word: str, known: Iterable[str], near: str = "") -> str:
    """`"dayly" is no window. Did you mean daily?`, or the words that are known."""
    names = ", ".join(str(name) for name in known)
    if near:
        return f'"{short(word)}" is no {kind}. Did you mean {near}?'
    return f'"{short(word)}" is no {kind}. Known are: {names}.'


def quote_not_closed() -> str:
    """A quotation mark without its partner."""
    return "A quotation mark is not closed."


def id_needs_quotes(command: str, scope: Scope, scope_id: str, tail: str) -> str:
    """An id of several words; names the command as it should be."""
    return f"Put a name with spaces in quotes: {command} {scope} {quoted(scope_id)} {tail}"


def several_jobs(name: str, ids: Iterable[str]) -> str:
    """A name that does not say which job is meant."""
    return f'Several cron jobs are called "{short(name)}". Use the id: {", ".join(ids)}.'


def known_as(name: str, job_id: str) -> str:
    """Which job a name was taken for."""
    return f'("{short(name)}" is the job {short(job_id)}.)'


def name_instead_of_id(name: str, job_id: str) -> str:
    """A name of a job where budget.yaml goes by its id."""
    return f'no cron job has this id, so this limits nothing; the job of that name is "{job_id}"'


def id_given_twice(first: str, second: str) -> str:
    """An id in the middle and another behind `--id`."""
    return f'Two ids were given, "{short(first)}" and "{short(second)}". Leave one out.'


def takes_no_id(scope: Scope, scope_id: str) -> str:
    """`global` is about everything."""
    return f'{scope} is about everything together and takes no id; leave out "{short(scope_id)}".'


def empty_id() -> str:
    """An id that is given must name somebody."""
    return "An empty id matches nobody. Name one, or leave it out to set the limit of all."


def amount_not_understood(text: str, hint: str) -> str:
    """An amount with what would be right."""
    return f'"{short(text)}" is not an amount: {hint}.'


def set_usage(prefix: str) -> str:
    """How `set` is written."""
    return (
        f"Write: {prefix} set <scope> [<id>] <window> <amount>\n"
        f"For example: {prefix} set global daily 5.00\n"
        f"or: {prefix} set cron_job nightly daily 900 calls"
    )


def unset_usage(prefix: str) -> str:
    """How `unset` is written."""
    return (
        f"Write: {prefix} unset <scope> [<id>] <window> [usd|tokens|calls]\n"
        f"For example: {prefix} unset global daily"
    )


def unknown_command(word: str, near: str, prefix: str) -> str:
    """A command that does not exist."""
    hint = f"Did you mean {prefix} {near}?" if near else f"See {prefix} help."
    return f'There is no command "{short(word)}". {hint}'


def too_many_words(command: str, word: str) -> str:
    """A word that nothing can be made of."""
    return f'{command} does not know what to do with "{short(word)}".'


# ---------------------------------------------------------------------- authority


def may_not_change() -> str:
    """Why a person in a chat app may not set a limit."""
    return (
        "Only an admin may change limits here. You can ask for status and forecast; "
        "to have a limit changed, ask the owner of this agent."
    )


def for_admins_only() -> str:
    """Why a person in a chat app may not see this."""
    return "Only an admin may see this here. You can ask for status, forecast and help."


def only_your_own() -> str:
    """A forecast of somebody else's spending."""
    return "You can ask about your own spending and about everything together, not about others'."


def not_while_busy(command: str) -> str:
    """A change that came as text while the agent worked: its sender is not certain."""
    return (
        f'"{short(command, 80)}" came while the agent was busy and was not carried out. '
        "Send it again when the agent has finished."
    )


def command_failed() -> str:
    """A fault of our own; the log has it."""
    return "The budget command failed. The log has the details; nothing else was changed."


# ---------------------------------------------------------------------- changes of limits


def changed(
    change: "Change", verdict: Verdict | None, zone: ZoneInfo, *, unseen: bool, recorded: bool
) -> str:
    """What was, what is, and what that means now.

    Args:
        verdict: how the limit stands now; `None` for a default, or where there is no limit.
        unseen: nobody of that id was active in the last 30 days.
        recorded: whether the history has the change.
    """
    measure = change.key.measure
    name = f"{WINDOW_WORDS[change.key.window]} limit for {whose(change.scope, change.scope_id)}"
    was, now = (limit_or_none(value, measure) for value in (change.before, change.after))
    if change.before == change.after:
        parts = [f"{upper_first(name)}: {now}, as before."]
    else:
        parts = [f"{upper_first(name)}: was {was}, is {now}."]
    if verdict is not None:
        parts.append(_stands(verdict, zone))
    if unseen:
        parts.append(
            f"No activity of {whose(change.scope, change.scope_id)} in the last 30 days: "
            "check the spelling if that surprises you."
        )
    if not recorded:
        parts.append(
            "The limit holds, but the ledger did not answer: the change is not in the history."
        )
    return " ".join(parts)


def _stands(verdict: Verdict, zone: ZoneInfo) -> str:
    at_least = (
        "At least " if verdict.limit.measure is Measure.USD and verdict.spend.unpriced_calls else ""
    )
    used = f"{at_least}{amount(verdict.used, verdict.limit.measure)}"
    over = " The limit is reached." if verdict.blocks and verdict.limit.amount else ""
    return (
        f"{used} used {USED_IN[verdict.limit.window]}, {resets(verdict.period, zone)} "
        f"{zone.key}.{over}"
    )


def nothing_to_unset(change: "Change", others: Sequence[Measure], command: str) -> str:
    """There was no such limit; names the ones that are there in another measure."""
    key, whom = change.key, whose(change.scope, change.scope_id)
    unit = {"usd": "dollars"}.get(key.measure, str(key.measure))
    said = f"There was no {WINDOW_WORDS[key.window]} limit in {unit} for {whom}."
    hints = " ".join(f"There is one in {m}: {command} {m}" for m in others)
    return f"{said} {hints}".strip()


def still_inherited(change: "Change") -> str:
    """An override went away, and the shared limit holds again."""
    return f"The limit of {whose(change.scope, '')} holds again."


def not_changed(reason: str, problems: Sequence[Problem]) -> str:
    """The file was left as it is, and why."""
    return "\n".join([f"Nothing was changed: {reason}.", *(f"- {p}" for p in problems)])


def history(changes: Sequence["LimitChange | CeilingChange"], zone: ZoneInfo) -> str:
    """Who changed which limit, newest first."""
    if not changes:
        return "No limit has been changed yet."
    return "\n".join(_changed_then(change, zone) for change in changes)


def changed_data(change: "Change", verdict: Verdict | None, *, recorded: bool) -> dict[str, object]:
    """A change for programs."""
    return {
        "changed": change.before != change.after,
        "scope": str(change.scope),
        "id": change.scope_id,
        "window": str(change.key.window),
        "measure": str(change.key.measure),
        "before": _plain(change.before, change.key.measure),
        "after": _plain(change.after, change.key.measure),
        "used": None if verdict is None else _plain(verdict.used, change.key.measure),
        "resets_ms": None if verdict is None else verdict.period.end_ms,
        "recorded": recorded,
        "path": change.path_in_file,
    }


def change_data(change: "LimitChange | CeilingChange") -> dict[str, object]:
    """A row of the history for programs."""
    if isinstance(change, CeilingChange):
        return _ceiling_data(change)
    return {
        "at_ms": change.at_ms,
        "who": change.who,
        "via": change.via,
        "state": change.state,
        "scope": str(change.scope),
        "id": change.scope_id,
        "window": str(change.key.window),
        "measure": str(change.key.measure),
        "before": _plain(change.before, change.key.measure),
        "after": _plain(change.after, change.key.measure),
    }


def _ceiling_data(change: CeilingChange) -> dict[str, object]:
    return {
        "at_ms": change.at_ms,
        "who": change.who,
        "via": change.via,
        "state": change.state,
        "scope": "run",
        "id": change.layer,
        "window": "run",
        "measure": change.key,
        "before": _ceiling_plain(change, change.before),
        "after": _ceiling_plain(change, change.after),
    }


def _ceiling_plain(change: CeilingChange, number: int | None) -> str | int | None:
    measure = Measure.USD if change.key == "usd" else Measure.CALLS
    return _plain(number, measure)


def _plain(value: int | None, measure: Measure) -> str | int | None:
    return None if value is None else plain(value, measure)


_STATES = {
    "observed": " (observed)",
    "held": " (waits for a confirmation)",
    "confirmed": " (confirmed since)",
    "replaced": " (never in force)",
}


def _changed_then(change: "LimitChange | CeilingChange", zone: ZoneInfo) -> str:
    if isinstance(change, CeilingChange):
        was, now = (_ceiling(change.key, number) for number in (change.before, change.after))
        return (
            f"{moment(change.at_ms, zone)} {short(change.who)} ({change.via}): "
            f"runs.{short(change.layer)}.{change.key} from {was} to {now}"
            f"{_STATES.get(change.state, '')}"
        )
    measure = change.key.measure
    return (
        f"{moment(change.at_ms, zone)} {short(change.who)} ({change.via}): "
        f"{WINDOW_WORDS[change.key.window]} limit for {whose(change.scope, change.scope_id)} "
        f"from {limit_or_none(change.before, measure)} to {limit_or_none(change.after, measure)}"
        f"{_STATES.get(change.state, '')}"
    )


def _ceiling(key: str, number: int | None) -> str:
    if number is None:
        return "no limit"
    return amount(number, Measure.USD) if key == "usd" else f"{number:,}"


# ---------------------------------------------------------------------- checks


def checked(problems: Sequence[Problem], files: Mapping[str, bool], *, limited: bool) -> str:
    """Every problem of the two files, or that there is none.

    Args:
        files: each file that was looked at, and whether it is there.
        limited: limits are in force from before.
    """
    lines = [f"- {problem}" for problem in problems]
    if lines:
        count = "1 problem" if len(lines) == 1 else f"{len(lines)} problems"
        head = " ".join(filter(None, (f"{count} found.", in_force(problems, limited=limited))))
        return "\n".join([head, *lines])
    return "\n".join(
        f"{name}: {'no problem found' if there else 'not there, which is fine'}"
        for name, there in files.items()
    )


def verified(compared: int, differences: Sequence["Difference"], zone: ZoneInfo) -> str:
    """How many totals were compared with their rows, and which differ."""
    count = "1 total" if compared == 1 else f"{compared} totals"
    if not differences:
        return f"{count} compared with the recorded calls: no difference."
    lines = [f"{count} compared with the recorded calls: {len(differences)} differ."]
    for found in differences:
        scope, scope_id = found.scope
        window, start_ms, _ = found.window
        lines.append(
            f"- {whose(scope, scope_id)}, {WINDOW_WORDS[Window(window)]} from "
            f"{moment(start_ms, zone)}: stored {amount(found.stored.nanos, Measure.USD)}, "
            f"calls add up to {amount(found.rows.nanos, Measure.USD)}"
        )
    return "\n".join(lines)


def ledger_silent(error: str) -> str:
    """The ledger does not answer."""
    return f"The ledger does not answer: {error}."


# ---------------------------------------------------------------------- help


def help_text(prefix: str, commands: Sequence[tuple[str, str]], *, may_change: bool) -> str:
    """All commands with a line each, and how a limit is named."""
    lines = ["What you can ask:" if not may_change else "Commands:"]
    for usage, summary in commands:
        lines += [f"{prefix} {usage}".rstrip(), f"  {summary}"]
    if may_change:
        lines += [
            "",
            "Scopes: global, cron_job, sender, profile, platform, model",
            "Windows: hourly, daily, weekly, monthly, total",
            "Amounts: 7.50 (dollars), 900 calls, 200000 tokens; 0 allows nothing, none is no limit",
            "Without an id the limit holds for each of them. Put an id with spaces in quotes.",
        ]
    return "\n".join(lines)


def tree_description() -> str:
    """What the commands are about, for `--help`."""
    return "What the agent spends, and the limits that it is held to."


_OPTIONS = {
    "id": "whom the limit is for, such as a cron job or telegram:123456",
    "json": "answer in JSON",
    "check": "exit with code 3 when a limit is reached",
    "partial": "only the runs that left something undone",
    "provider": "who sells the model, such as openrouter",
    "dispatches": "children of one run, or a sweep such as 8,11,14,20",
    "tool-calls": "tool calls of one run, or a sweep",
    "tokens": "tokens of one run, or a sweep",
    "wall-clock-s": "seconds of one run, or a sweep",
    "usd": "dollars of one run, or a sweep",
    "kind": "only runs of this kind: chat, cron or child",
    "loops": "on, or one detector: what it would have ended had it acted",
    "days": "how many days back, 30 where it is left out",
    "from": "the first day, such as 2026-11-01",
    "to": "the last day",
    "cost-per-handoff": "dollars that a person's handling of one run costs",
    "apply": "write them into budget.yaml, as observed",
    "since": "only what was used since this day, such as 2026-11-01",
    "until": "up to and with this day",
    "format": "csv, which is meant where it is left out, or jsonl",
    "output": "write into this file",
    "dry-run": "only say what would be taken over",
    "remove": "take everything that was imported out again",
    "svg": "draw the sweep into this file",
}


def option_help(name: str) -> str:
    """What an option of the command line does."""
    return _OPTIONS[name]


def unknown_user() -> str:
    """For the history, where the system knows no name."""
    return "local user"


def package_missing(name: str, python: str) -> str:
    """A dependency that is not there."""
    return (
        f"The package {name} is not installed in this Python. "
        f"Install with: {quoted(python)} -m pip install hermes-budget"
    )


def option_without_value(option: str) -> str:
    """`--id` at the end."""
    return f"{option} needs a value behind it."

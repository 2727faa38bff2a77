"""The list of commands: name, how it is written, what it does, who may use it. Light to import."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Command:
    """One command.

    Attributes:
        place: module and function in this package.
        for_all: everybody in a chat app may use it; the others are for admins.
        changes: it changes something, and so is not done for a sender who is not certain.
        options: names of its own options that take a value.
        flags: names of its own options that take none.
    """

    name: str
    usage: str
    summary: str
    place: tuple[str, str]
    for_all: bool = False
    changes: bool = False
    options: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


COMMANDS: Final[Mapping[str, Command]] = MappingProxyType(
    {
        command.name: command
        for command in (
            Command(
                "status",
                "status",
                "what is spent, and how the limits stand",
                ("status", "status"),
                for_all=True,
            ),
            Command(
                "set",
                "set <scope> [<id>] <window> <amount>",
                "set a limit: set global daily 5.00",
                ("limits", "set_limit"),
                changes=True,
            ),
            Command(
                "unset",
                "unset <scope> [<id>] <window> [usd|tokens|calls]",
                "take a limit away",
                ("limits", "unset_limit"),
                changes=True,
            ),
            Command(
                "enforce",
                "enforce [<scope> [<id>]|runs [<kind>]]",
                "let observed limits block",
                ("modes", "enforce"),
                changes=True,
            ),
            Command(
                "observe",
                "observe <scope> [<id>]|runs [<kind>]",
                "let limits block nothing, and note what they would have",
                ("modes", "observe"),
                changes=True,
            ),
            Command(
                "confirm",
                "confirm",
                "let edits of the file through that wait",
                ("confirm", "confirm"),
                changes=True,
            ),
            Command(
                "forecast",
                "forecast [<scope>] [<id>] [<window>]",
                "when a limit is reached at this pace",
                ("forecast", "forecast_"),
                for_all=True,
            ),
            Command(
                "import",
                "import [--since DAY] [--dry-run|--remove]",
                "take over what Hermes noted before",
                ("importing", "import_"),
                changes=True,
                options=("since",),
                flags=("dry-run", "remove"),
            ),
            Command(
                "export",
                "export calls|days|runs|receipts [--format csv|jsonl]",
                "rows for other programs",
                ("export", "export"),
                changes=True,  # it writes files, and shows what everybody spent
                options=("format", "since", "until", "output"),
            ),
            Command("cron", "cron [<job>]", "what each cron job costs", ("cron", "cron")),
            Command(
                "pause",
                "pause <job>",
                "pause a cron job until it is resumed",
                ("job_pauses", "pause"),
                changes=True,
            ),
            Command(
                "resume",
                "resume <job>",
                "let a paused cron job go on",
                ("job_pauses", "resume"),
                changes=True,
            ),
            Command("runs", "runs [--partial]", "how runs ended", ("runs", "runs")),
            Command("receipt", "receipt [<run>]", "what a run used", ("runs", "receipt")),
            Command("why", "why [<run>]", "what was decided about a run", ("runs", "why")),
            Command(
                "suggest",
                "suggest [--days N] [--apply]",
                "limits from what runs that worked have used",
                ("suggest", "suggest"),
                changes=True,
                options=("days",),
                flags=("apply",),
            ),
            Command(
                "replay",
                "replay [<ceilings>] [<scope> … <amount>]",
                "what limits would have cut and saved",
                ("replay", "replay"),
                options=(
                    "dispatches",
                    "tool-calls",
                    "tokens",
                    "wall-clock-s",
                    "usd",
                    "kind",
                    "loops",
                    "days",
                    "from",
                    "to",
                    "cost-per-handoff",
                    "svg",
                ),
            ),
            Command(
                "extend",
                "extend [<number>|<run>] [<amount>]",
                "let a run go on that ran out",
                ("extensions", "extend"),
                changes=True,
            ),
            Command(
                "deny",
                "deny [<number>|<run>]",
                "do not let it go on",
                ("extensions", "deny"),
                changes=True,
            ),
            Command(
                "claims",
                "claims [<number> done|free]",
                "effects of which nobody knows whether they happened",
                ("claims", "claims"),
                changes=True,
            ),
            Command("history", "history", "who changed which limit", ("limits", "history")),
            Command("check", "check", "mistakes in the settings files", ("checks", "check")),
            Command("verify", "verify", "do all totals equal the calls", ("checks", "verify")),
            Command(
                "prices",
                "prices [<model>|check]",
                "what a model costs, which have no price",
                ("prices", "prices"),
            ),
            Command("doctor", "doctor", "is everything in order", ("doctor", "doctor")),
            Command("help", "help", "this list", ("help", "help_"), for_all=True),
        )
    }
)

FIRST: Final = "status"
"""What a bare `/budget` asks for."""

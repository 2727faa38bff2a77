"""`replay`: what other limits would have done to what is recorded."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from ..engine.engine import Engine
from ..messages import replays
from ..messages.replay_svg import replay_svg
from ..messages.replays import ReplayReport
from ..policy.money import AmountError, parse_usd
from ..policy.replay.outcome import Outcome, flat_region
from ..policy.replay.player import Candidate, Player
from ..policy.windows import day_start_ms
from ..store.history import Span, recorded_between, span_between
from .asking import OK, PROBLEM, Answer, Args, Usage
from .candidates import candidates
from .days import day_option
from .naming import scope_id

DAYS: Final = 30
MOST_DAYS: Final = 3_660

MOST_CALLS_IN_CHAT: Final = 100_000
"""More would hold up the gateway for seconds; the command line plays any number."""


@dataclass(frozen=True, slots=True)
class _Period:
    start_ms: int
    end_ms: int


def replay(engine: Engine, args: Args) -> Answer:
    """Play the recorded runs of a period under each candidate, in one pass."""
    rules = engine.rules()
    tried = candidates(args, rules.budget, partial(scope_id, engine))
    cost_nanos = _cost_of_handoff(args.options)
    svg = _svg_path(args)
    period = _period(args.options, engine.clock.now_ms(), rules.zone)
    tools = any(candidate.loops for candidate in tried)
    span = span_between(engine.database, period.start_ms, period.end_ms, tools=tools)
    if not span.calls:
        return Answer(replays.nothing_recorded(), {"candidates": []}, OK)
    number = span.calls + span.tools
    if args.caller.via == "chat" and number > MOST_CALLS_IN_CHAT:
        return Answer(replays.too_much_for_a_chat(number, MOST_CALLS_IN_CHAT), None, PROBLEM)
    outcomes = _played(engine, args, period, span, tried)
    report = _report(tried, outcomes, span, rules.zone, cost_nanos)
    if svg is not None:
        svg.write_text(replay_svg(report), encoding="utf-8")
    return Answer(replays.replay_text(report), replays.replay_data(report), OK, report=report)


def _played(
    engine: Engine, args: Args, period: _Period, span: Span, tried: list[Candidate]
) -> list[Outcome]:
    zone = engine.rules().zone
    players = [Player(candidate, zone) for candidate in tried]
    tools = span.tools > 0
    events = recorded_between(engine.database, period.start_ms, period.end_ms, tools=tools)
    for event in args.progress(events, span.calls + span.tools):
        for player in players:
            player.play(event)
    days = (_day(span.last_ms, zone) - _day(span.first_ms, zone)).days + 1
    return [player.outcome(days) for player in players]


def _report(
    tried: list[Candidate],
    outcomes: list[Outcome],
    span: Span,
    zone: ZoneInfo,
    cost_nanos: int | None,
) -> ReplayReport:
    is_sweep = len(tried) > 1
    nets = [outcome.net_per_day(cost_nanos) for outcome in outcomes]
    return ReplayReport(
        first_day=_day(span.first_ms, zone),
        last_day=_day(span.last_ms, zone),
        zone=zone,
        rows=tuple(zip(tried, outcomes, strict=True)),
        cost_per_handoff_nanos=cost_nanos,
        flat=flat_region(nets) if is_sweep else None,
    )


# ---------------------------------------------------------------------- what was asked


def _cost_of_handoff(options: Mapping[str, str]) -> int | None:
    text = options.get("cost-per-handoff")
    if text is None:
        return None
    try:
        return parse_usd(text)
    except AmountError as error:
        raise Usage(replays.option_not_understood("cost-per-handoff", text, str(error))) from None


def _svg_path(args: Args) -> Path | None:
    name = args.options.get("svg")
    if name is None:
        return None
    if args.caller.via == "chat":
        raise Usage(replays.no_files_from_a_chat())
    path = Path(name).expanduser()
    if path.suffix.lower() != ".svg":  # nothing else may be written over by a slip of the hand
        raise Usage(replays.option_not_understood("svg", name, "a file that ends in .svg"))
    if not path.parent.is_dir():
        raise Usage(replays.no_such_folder(str(path.parent)))
    return path


def _period(options: Mapping[str, str], now_ms: int, zone: ZoneInfo) -> _Period:
    today = _day(now_ms, zone)
    last = day_option(options, "to") or today
    first = day_option(options, "from") or last - timedelta(days=days_of(options) - 1)
    if first > last:
        raise Usage(replays.ends_before_it_begins(first, last))
    end_ms = day_start_ms(last + timedelta(days=1), zone)
    return _Period(day_start_ms(first, zone), end_ms)


def days_of(options: Mapping[str, str]) -> int:
    """How many days back, from `--days`."""
    text = options.get("days", str(DAYS))
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= MOST_DAYS):
        raise Usage(replays.option_not_understood("days", text, f"1 to {MOST_DAYS}"))
    return int(text)


def _day(at_ms: int, zone: ZoneInfo) -> date:
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone).date()

"""`doctor`: everything that can be wrong, looked at in one go."""

import platform
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

from ..engine.engine import Engine
from ..messages import diagnosis
from ..messages.diagnosis import Finding, Grade
from ..messages.layout import moment
from ..store.inventory import bundled_prices_day, ledger_state
from ..store.sql.database import LedgerError
from ..version import __version__
from .asking import OK, PROBLEM, Answer, Args
from .prices import unpriced_models


def doctor(engine: Engine, args: Args) -> Answer:
    """All findings; exit code 1 if one of them is a problem."""
    findings = [
        diagnosis.python(platform.python_version(), sys.executable, __version__),
        *(tuple(args.host.findings()) or (diagnosis.outside_host("hermes budget"),)),
        _settings(engine),
        _prices(engine),
        *_ledger(engine),
        *_not_enforced(engine),
    ]
    bad = any(found.grade is Grade.PROBLEM for found in findings)
    return Answer(
        diagnosis.diagnosis(findings), diagnosis.diagnosis_data(findings), PROBLEM if bad else OK
    )


def _settings(engine: Engine) -> Finding:
    budget = engine.reload_config().budget
    limits = sum(
        amount is not None
        for of_scope in budget.scopes.values()
        for bucket in (of_scope.default, *of_scope.overrides.values())
        for amount in bucket.values()
    )
    file = engine.budget_file
    return diagnosis.settings(file.path, file.problems, limits, missing=file.missing)


def _prices(engine: Engine) -> Finding:
    engine.prices.table()
    today = datetime.fromtimestamp(engine.clock.now_ms() / 1000, UTC).date()
    return diagnosis.prices(bundled_prices_day(), today, engine.prices.problems)


def _ledger(engine: Engine) -> Iterator[Finding]:
    try:
        state = ledger_state(engine.ledger)
        compared, differences = engine.ledger.verify()
        unpriced = unpriced_models(engine)
    except LedgerError as error:
        yield diagnosis.ledger_silent(engine.database.path, str(error))
        return
    yield diagnosis.ledger(state.path, state.size_bytes, state.journal, state.schema)
    if state.damaged:
        yield diagnosis.damaged_ledgers(state.damaged)
    yield diagnosis.totals(compared, len(differences))
    yield diagnosis.unpriced_models(unpriced, "hermes budget")
    now_ms, zone = engine.clock.now_ms(), engine.rules().zone
    ahead_s = max(0, (state.newest_ms or now_ms) - now_ms) // 1000
    yield diagnosis.clock(moment(now_ms, zone), zone.key, ahead_s)


def _not_enforced(engine: Engine) -> Iterator[Finding]:
    rules = engine.rules()
    if rules.has_limits:
        if not rules.budget.model_gate.enabled:
            yield diagnosis.gate_off()
        yield from diagnosis.not_enforced()

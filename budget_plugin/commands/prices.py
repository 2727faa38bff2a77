"""`prices`: which row prices a model, and which models in use have none."""

from ..engine.engine import Engine
from ..messages import reports
from ..messages.price_words import Priced, priced_data, priced_text, prices_summary, unpriced_text
from ..store.inventory import ModelUse, bundled_prices_day, models_used
from .asking import OK, PROBLEM, Answer, Args, Usage
from .spending import ACTIVE_DAYS, DAY_MS


def prices(engine: Engine, args: Args) -> Answer:
    """`prices` alone: where they come from; `prices <model>`; `prices check`."""
    if not args.words:
        return _summary(engine, args)
    model, *more = args.words
    if more:
        raise Usage(reports.too_many_words("prices", more[0]))
    if model == "check":
        return _check(engine, args)
    return _of_model(engine, model, args.provider)


def _summary(engine: Engine, args: Args) -> Answer:
    table = engine.prices.table()
    bundled, own, day = len(table.bundled_rows), len(table.user_rows), bundled_prices_day()
    problems = len(engine.prices.problems)
    file = engine.prices.user_file
    text = prices_summary(bundled, day, own, file, problems, args.caller.prefix)
    data = {
        "bundled": bundled,
        "as_of": day.isoformat() if day else None,
        "own": own,
        "problems": problems,
    }
    return Answer(text, data, PROBLEM if problems else OK)


def _of_model(engine: Engine, model: str, provider: str) -> Answer:
    """Once for each seller that the model was used with lately, or for the one that was named."""
    sellers = [use.provider for use in _used(engine) if use.model == model]
    asked = [provider] if provider else sellers or [""]
    found = [_priced(engine, ModelUse(seller, model, 0, 0)) for seller in asked]
    text = priced_text(found, engine.prices.user_file)
    known = all(priced.has_price for priced in found)
    return Answer(text, [priced_data(priced) for priced in found], OK if known else PROBLEM)


def _check(engine: Engine, args: Args) -> Answer:
    found = _without_price(engine)
    file = engine.prices.user_file
    text = unpriced_text(found, len(_used(engine)), ACTIVE_DAYS, file, args.caller.prefix)
    return Answer(text, [priced_data(priced) for priced in found], PROBLEM if found else OK)


def _without_price(engine: Engine) -> list[Priced]:
    """The models of the last 30 days whose next call will be unpriced."""
    return [priced for use in _used(engine) if not (priced := _priced(engine, use)).has_price]


def unpriced_models(engine: Engine) -> list[str]:
    """The names of those models, sorted."""
    return sorted({priced.model for priced in _without_price(engine)})


def _used(engine: Engine) -> list[ModelUse]:
    return models_used(engine.ledger, engine.clock.now_ms() - ACTIVE_DAYS * DAY_MS)


def _priced(engine: Engine, use: ModelUse) -> Priced:
    route = engine.prices.table().route(use.provider, use.model)
    hit = route.at(engine.clock.now_ms())
    row, guessed = (hit.row, hit.guessed) if hit else (None, False)
    return Priced(use.provider, use.model, route, row, guessed, use.unpriced_calls)

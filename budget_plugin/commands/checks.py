"""`check` and `verify`: are the files understood, and do the totals equal their rows."""

from ..engine.engine import Engine
from ..messages import reports
from ..messages.status_data import problem_data
from .asking import OK, PROBLEM, Answer, Args
from .naming import misnamed_jobs


def check(engine: Engine, args: Args) -> Answer:
    """Problems of budget.yaml and pricing.yaml; exit code 1 if there is any."""
    engine.reload_config()
    engine.prices.table()
    problems = (*engine.budget_file.problems, *misnamed_jobs(engine), *engine.prices.problems)
    paths = (engine.budget_file.path, engine.prices.user_file)
    files = {str(path): path.exists() for path in paths}
    data = {"problems": [problem_data(problem) for problem in problems]}
    limited = not engine.rules().limits_nothing
    text = reports.checked(problems, files, limited=limited)
    return Answer(text, data, PROBLEM if problems else OK)


def verify(engine: Engine, args: Args) -> Answer:
    """Recompute every total from its rows; exit code 1 at a difference."""
    compared, differences = engine.ledger.verify()
    text = reports.verified(compared, differences, engine.rules().zone)
    data = {"compared": compared, "different": len(differences)}
    return Answer(text, data, PROBLEM if differences else OK)

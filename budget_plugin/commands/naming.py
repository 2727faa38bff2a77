"""From what a person calls something to the id that limits go by."""

import difflib
from collections.abc import Iterator
from typing import Final

from ..engine.engine import Engine
from ..messages import reports
from ..policy.limits import Problem, Scope
from ..store.files.yaml_nodes import dotted
from .asking import Usage

_MOST_NEAR: Final = 3


def scope_id(engine: Engine, scope: Scope, called: str) -> str:
    """The id behind a name: of a cron job by the host's list, of anything else itself.

    Raises:
        Usage: several jobs have this name.
    """
    if scope is not Scope.CRON_JOB or not called:
        return called
    found = engine.jobs.ids_of(called)
    if len(found) > 1:
        raise Usage(reports.several_jobs(called, found))
    return found[0] if found else called


def near_jobs(engine: Engine, called: str) -> list[str]:
    """The cron jobs whose name or id is nearest to what was typed, as ids."""
    known: dict[str, str] = {}
    for job_id, name in engine.jobs.names().items():
        known |= {job_id.casefold(): job_id, name.casefold(): job_id}
    found = difflib.get_close_matches(called[:80].casefold(), known, n=_MOST_NEAR)
    return list(dict.fromkeys(known[word] for word in found))


def misnamed_jobs(engine: Engine) -> Iterator[Problem]:
    """Limits of cron jobs that budget.yaml names by the job's name; they limit nothing."""
    limits = engine.rules().budget.scopes.get(Scope.CRON_JOB)
    for called in limits.overrides if limits else ():
        for job_id in engine.jobs.ids_of(called):
            if job_id != called:
                path = dotted(("budgets", "per_cron_job", "overrides", called))
                message = reports.name_instead_of_id(called, job_id)
                yield Problem(str(engine.budget_file.path), None, path, message, fatal=False)

"""From what a person calls something to the id that limits go by."""

from collections.abc import Iterator

from ..engine.engine import Engine
from ..messages import reports
from ..policy.limits import Problem, Scope
from ..store.files.yaml_nodes import dotted
from .asking import Usage


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


def misnamed_jobs(engine: Engine) -> Iterator[Problem]:
    """Limits of cron jobs that budget.yaml names by the job's name; they limit nothing."""
    limits = engine.rules().budget.scopes.get(Scope.CRON_JOB)
    for called in limits.overrides if limits else ():
        for job_id in engine.jobs.ids_of(called):
            if job_id != called:
                path = dotted(("budgets", "per_cron_job", "overrides", called))
                message = reports.name_instead_of_id(called, job_id)
                yield Problem(str(engine.budget_file.path), None, path, message, fatal=False)

"""What is said of roles and tiers that are not kept."""

from collections.abc import Iterable

from ..policy.money import format_usd, usd_from_nanos
from ..policy.tier_costs import TierCost
from ..policy.tiers import Breach


def role_refused(breach: Breach) -> str:
    """The tool gate's answer; the same for the same breach."""
    return (
        f"Roles: this call was not carried out. {breach} Do not try it by another way: go on with "
        "what this role may do, or say in your answer what somebody else has to do."
    )


def model_refused(breach: Breach) -> str:
    """The answer of a run whose role may not use the model that it was given."""
    return (
        f"Stopped before the first word: {breach} The task was not worked on; the model of this "
        "role is a setting that a person changes."
    )


def role_remarks(remarks: Iterable[str]) -> str:
    """The lines for the person under an answer."""
    return "\n".join(f"Roles and tiers: {remark}" for remark in remarks)


def tier_costs(costs: Iterable[TierCost]) -> str:
    """`Per resolved run: cheap $0.02 (3 of 4 resolved).` over the last 30 days; "" without any."""
    said = ", ".join(_tier_cost(cost) for cost in costs)
    return f"Per resolved run: {said}." if said else ""


def _tier_cost(cost: TierCost) -> str:
    each = cost.per_resolved_nanos()
    amount = format_usd(cost.nanos) + " for none" if each is None else format_usd(each)
    return f"{cost.tier} {amount} ({cost.resolved} of {cost.runs} resolved)"


def tier_cost_data(cost: TierCost) -> dict[str, object]:
    """A tier for programs."""
    each = cost.per_resolved_nanos()
    return {
        "tier": cost.tier,
        "runs": cost.runs,
        "resolved": cost.resolved,
        "usd": f"{usd_from_nanos(cost.nanos):f}",
        "usd_per_resolved_run": None if each is None else f"{usd_from_nanos(each):f}",
    }

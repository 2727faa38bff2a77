"""What a resolved run costs by tier: whether the dear models earn their price."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from .tiers import Tier, TierPolicy, tier_of


@dataclass(frozen=True, slots=True)
class ModelSpend:
    """What one run spent on one model.

    Attributes:
        answered_by: the model that the provider named in its answers, or "".
        nanos: nano-dollars; calls without a price are left out.
        resolved: the run ended resolved.
    """

    run_id: str
    model: str
    answered_by: str
    nanos: int
    resolved: bool


@dataclass(frozen=True, slots=True)
class TierCost:
    """The runs whose dearest model is of this tier."""

    tier: str
    runs: int = 0
    resolved: int = 0
    nanos: int = 0

    def per_resolved_nanos(self) -> int | None:
        """All that these runs cost, the unresolved included, for each that resolved."""
        return self.nanos // self.resolved if self.resolved else None


def costs_by_tier(policy: TierPolicy, spent: Iterable[ModelSpend]) -> list[TierCost]:
    """Each tier in use, from the cheapest to the dearest.

    A run belongs to the dearest tier that it used, with all that it spent; one without a model of
    any tier to none.
    """
    tiers: dict[str, int | None] = {}
    nanos: dict[str, int] = {}
    resolved: dict[str, bool] = {}
    for each in spent:
        rank = _rank(policy, tier_of(policy, each.answered_by) or tier_of(policy, each.model))
        known = tiers.get(each.run_id)
        tiers[each.run_id] = rank if known is None else max(known, rank or 0)
        nanos[each.run_id] = nanos.get(each.run_id, 0) + each.nanos
        resolved[each.run_id] = each.resolved
    costs = [TierCost(tier.name) for tier in policy.tiers]
    for run_id, rank in tiers.items():
        if rank is not None:
            cost = costs[rank]
            costs[rank] = replace(
                cost,
                runs=cost.runs + 1,
                resolved=cost.resolved + resolved[run_id],
                nanos=cost.nanos + nanos[run_id],
            )
    return [cost for cost in costs if cost.runs]


def _rank(policy: TierPolicy, tier: Tier | None) -> int | None:
    return policy.rank(tier.name) if tier else None

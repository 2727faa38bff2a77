"""Files that a person writes: budget.yaml and pricing.yaml, read with places, edited in place."""

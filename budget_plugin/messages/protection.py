"""What a model reads when it was about to change its own budget."""


def change_refused() -> str:
    """The same for every tool and spelling, and without a way round: there is none."""
    return (
        "Budget: this call was not carried out. It would change the budget that this agent is "
        "held to, or switch it off, and that is a person's decision. No other tool, path or script "
        "will do it either, so do not try one. Reading the budget is fine. Go on with your task "
        "within it; if that is not possible, write your final answer now: what is done, what is "
        "missing, and that the person has to be asked for a larger budget."
    )

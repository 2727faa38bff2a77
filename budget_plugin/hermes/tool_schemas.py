"""The tools that a model is offered beside its budget, as the host registers them. Light to import.

Short on purpose: every word of these stands in every request. A model reads and reports with them;
none can raise, spend or reset anything.
"""

from typing import Any, Final

TOOLSET: Final = "budget"


def _text(about: str) -> dict[str, str]:
    return {"type": "string", "description": about}


def _count(about: str) -> dict[str, Any]:
    return {"type": "integer", "minimum": 0, "description": about}


def _texts(about: str) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string"}, "description": about}


def _schema(name: str, about: str, properties: dict[str, Any], *required: str) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    return {"name": name, "description": about, "parameters": parameters}


SCHEMAS: Final = (
    _schema("budget_status", "What is left of this run's budget, and when it stops.", {}),
    _schema(
        "budget_checkpoint",
        "Answer a budget checkpoint, or report a draft or how often something was done again.",
        {
            "established": _text('New facts since the last checkpoint, or "nothing"'),
            "enough": _text("Is what is left enough to finish?"),
            "smallest": _text("Smallest useful result with what is left"),
            "head": _text("Name of the reported draft's author"),
            "artifact": _text("The draft"),
            "score": {"type": "number", "description": "Its score"},
            "critiques": _count("Critique retries of this head so far"),
            "rejudges": _count("Re-judgements so far"),
            "retriages": _count("Re-triages so far"),
        },
    ),
    _schema(
        "budget_resolve",
        "Say how this run ends, before the final answer.",
        {
            "state": {
                "type": "string",
                "enum": [
                    "RESOLVED",
                    "ESCALATED_TO_HUMAN",
                    "FOLLOW_UP_TICKET",
                    "NO_ANSWER_SAFE_FALLBACK",
                ],
            },
            "delivered": _texts("What is done"),
            "gaps": _texts("What is missing"),
            "next_owner": _text("Who takes over what is missing"),
        },
        "state",
    ),
)

NAMES: Final = frozenset(str(schema["name"]) for schema in SCHEMAS)

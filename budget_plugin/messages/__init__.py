"""Every sentence that a model or a person reads: parts, verdicts, reports."""

from .roles import model_refused, role_refused, role_remarks
from .run_words import (
    run_budget_note,
    run_call_refused,
    run_call_refused_to_model,
    run_last_answer,
    run_tool_refused,
    run_undo,
)
from .verdicts import (
    call_refused,
    call_refused_to_model,
    job_refused,
    last_answer,
    missing_packages,
    pause_reason,
    person_line,
    settings_mistake,
    soft_alert_for_model,
    tool_refused,
)

__all__ = [
    "call_refused",
    "call_refused_to_model",
    "job_refused",
    "last_answer",
    "missing_packages",
    "model_refused",
    "pause_reason",
    "person_line",
    "role_refused",
    "role_remarks",
    "run_budget_note",
    "run_call_refused",
    "run_call_refused_to_model",
    "run_last_answer",
    "run_tool_refused",
    "run_undo",
    "settings_mistake",
    "soft_alert_for_model",
    "tool_refused",
]

"""What the host's ids say about whose money a session spends."""


def cron_job_of(session_id: str) -> str:
    """The job in a cron session's id `cron_<job>_<date>_<time>`; "" for every other session.

    The job's own id may contain underscores, so date and time are taken off the end.
    """
    if not session_id.startswith("cron_"):
        return ""
    job, *stamp = session_id[len("cron_") :].rsplit("_", 2)
    is_stamp = len(stamp) == 2 and all(part.isdigit() for part in stamp)
    return job if is_stamp else ""


def sender_of(platform: str, sender_id: str) -> str:
    """The sender's scope id, `telegram:123456`: the same number on another platform is another."""
    if not sender_id:
        return ""
    return f"{platform}:{sender_id}" if platform else sender_id

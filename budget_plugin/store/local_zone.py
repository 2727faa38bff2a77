"""The time zone in which days begin when budget.yaml names none."""

import os
from zoneinfo import ZoneInfo


def local_zone() -> ZoneInfo:
    """The zone that Hermes is configured for, where it is installed; else the machine's.

    Raises:
        ZoneInfoNotFoundError, OSError, ValueError: the machine's zone cannot be told.
    """
    return _host_zone() or _machine_zone()


def _host_zone() -> ZoneInfo | None:
    try:
        from hermes_time import get_timezone

        zone = get_timezone()
    except Exception:  # noqa: BLE001  (the host's private helper: any failure means "not there")
        return None
    return zone if isinstance(zone, ZoneInfo) else None


def _machine_zone() -> ZoneInfo:
    """The machine's IANA zone; a fixed offset would be wrong on the days of a clock change."""
    from tzlocal import get_localzone_name

    name = os.environ.get("TZ") or get_localzone_name()
    return ZoneInfo(name.removeprefix(":"))

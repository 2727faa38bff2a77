"""Old calls as sums of days: what is left of a call that is no longer kept by itself.

No total that a limit can still see changes. A window that began before the horizon is over, all but
`total`, which knows no days; so the running totals of those windows go with the calls.

Imported and auxiliary calls stay as they are: both are compared with the host's own counts, call by
call, for as long as the host keeps them.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final

from sqlalchemy import bindparam, func, select
from sqlalchemy.dialects.sqlite import insert

from ..policy.events import IMPORTED
from ..policy.windows import Window
from .sql.database import Database, Statement
from .sql.schema import calls, day_sums, runs, spend_totals
from .totals import OF_A_CALL

IN_ONE_STEP: Final = 200
"""Calls that are summed up in one transaction, some 9 ms: other writers wait for it."""

_SCOPES: Final = ("session_id", "cron_job_id", "sender_id", "profile", "platform")
_KEY: Final = ("day_ms", *_SCOPES, "model")
_AMOUNTS: Final = {
    **{name: part for name, part in OF_A_CALL.items() if name in day_sums.c},
    "input_tokens": calls.c.input_tokens,
    "output_tokens": calls.c.output_tokens,
    "cache_read_tokens": calls.c.cache_read_tokens,
    "cache_write_tokens": calls.c.cache_write_tokens + calls.c.cache_write_1h_tokens,
    "reasoning_tokens": calls.c.reasoning_tokens,
}

_OLDEST: Final = Statement(
    select(calls.c.id, calls.c.at_ms)
    .select_from(calls.outerjoin(runs, runs.c.run_id == calls.c.run_id))
    .where(
        calls.c.at_ms >= bindparam("since"),
        calls.c.at_ms < bindparam("before"),
        calls.c.auxiliary_task == "",
        func.coalesce(runs.c.kind, "") != IMPORTED,
    )
    .order_by(calls.c.at_ms)
    .limit(bindparam("most"))
)
_CALL: Final = Statement(
    select(
        calls.c.at_ms,
        *(func.coalesce(runs.c[name], "") for name in _SCOPES),
        calls.c.model,
        *_AMOUNTS.values(),
    )
    .select_from(calls.outerjoin(runs, runs.c.run_id == calls.c.run_id))
    .where(calls.c.id == bindparam("number"))
)
_new = insert(day_sums)
_ADD: Final = Statement(
    _new.on_conflict_do_update(
        index_elements=list(_KEY),
        set_={name: day_sums.c[name] + _new.excluded[name] for name in _AMOUNTS},
    ),
    [*_KEY, *_AMOUNTS],
)
_DROP: Final = Statement(calls.delete().where(calls.c.id == bindparam("number")))
_DROP_TOTALS: Final = Statement(
    spend_totals.delete().where(
        spend_totals.c.window != Window.TOTAL.value, spend_totals.c.start_ms < bindparam("before")
    )
)


class DaySums:
    """The sums of one ledger; raises `LedgerError` only."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def oldest(self, since_ms: int, before_ms: int) -> list[tuple[int, int]]:
        """Calls of `[since_ms, before_ms)` that may be summed up, oldest first: number and time.

        Fewer than `IN_ONE_STEP` when there are no more. Takes no lock: a ledger with many imported
        calls is read past them.
        """
        with self._database.reading() as connection:
            return _OLDEST.run(
                connection, since=since_ms, before=before_ms, most=IN_ONE_STEP
            ).fetchall()

    def sum_up(
        self,
        numbers: Iterable[int],
        before_ms: int,
        day_of: Callable[[int], int],
        patience_s: float,
    ) -> None:
        """Turn these calls into sums of days, in one transaction; those that are gone do nothing.

        Args:
            before_ms: a beginning of a day, before every window that is not over.
            day_of: the beginning of the local day of a time (UTC ms to UTC ms).
        """
        with self._database.writing(patience_s) as connection:
            rows = []
            for number in numbers:
                rows += _CALL.run(connection, number=number).fetchall()
                _DROP.run(connection, number=number)
            for key, amounts in _summed(rows, day_of).items():
                _ADD.run(connection, **dict(zip(_KEY, key, strict=True)), **amounts)
            if rows:
                _DROP_TOTALS.run(connection, before=before_ms)


def _summed(
    rows: list[tuple[Any, ...]], day_of: Callable[[int], int]
) -> dict[tuple[Any, ...], Counter[str]]:
    sums: dict[tuple[Any, ...], Counter[str]] = {}
    for at_ms, *rest in rows:
        *names, model = rest[: len(_SCOPES) + 1]
        key = (day_of(at_ms), *names, model)
        amounts = dict(zip(_AMOUNTS, rest[len(_SCOPES) + 1 :], strict=True))
        sums.setdefault(key, Counter()).update(amounts)
    return sums

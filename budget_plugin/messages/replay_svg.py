"""A sweep as plain SVG: what each value saves a day, what that leaves, and the flat region."""

from collections.abc import Iterator, Sequence
from typing import Final
from xml.sax.saxutils import escape

from .replays import ReplayReport, money

_WIDTH, _HEIGHT = 720, 320
_LEFT, _TOP, _RIGHT, _BOTTOM = 70, 56, 20, 60
_SAVED, _NET, _FLAT = "#9fd0b8", "#0a7d4f", "#f3efe0"
_LONGEST: Final = 60
"""Characters of a title's part."""


def replay_svg(report: ReplayReport) -> str:
    """The whole picture."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
            'font-family="sans-serif" font-size="12">',
            f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
            f'<text x="{_LEFT}" y="22" font-size="14">{_title(report)}</text>',
            *_Drawing(report).parts(),
            "</svg>\n",
        ]
    )


def _title(report: ReplayReport) -> str:
    days, names = report.rows[0][1].days, [candidate.name for candidate, _ in report.rows]
    what = escape(f"{names[0]} to {names[-1]}" if len(names) > 1 else names[0][:_LONGEST])
    return f"{what}: dollars a day, replayed over {days} days to {report.last_day}"


def labels(names: Sequence[str]) -> list[str]:
    """The names without the words that all of them begin or end with: `8`, `11`, `14`."""
    if len(names) < 2:
        return [name[:_LONGEST] for name in names]
    words = [name.split() for name in names]
    first, last = (_shared(rows) for rows in (words, [row[::-1] for row in words]))
    return [" ".join(row[first : len(row) - last]) or " ".join(row) for row in words]


def _shared(rows: Sequence[Sequence[str]]) -> int:
    """With how many words all of them begin, leaving each at least one of its own."""
    fewest = min(map(len, rows)) - 1
    return next((n for n in range(fewest) if len({row[n] for row in rows}) > 1), fewest)


class _Drawing:
    """The bars, one pair a candidate, on a scale that holds them all."""

    def __init__(self, report: ReplayReport) -> None:
        self._report = report
        saved = [outcome.saved_per_day for _, outcome in report.rows]
        self._labels = labels([candidate.name for candidate, _ in report.rows])
        self._high = max(1, *saved, *report.nets)
        self._low = min(0, *report.nets)
        self._step = (_WIDTH - _LEFT - _RIGHT) / len(report.rows)

    def _x(self, number: float) -> float:
        return _LEFT + number * self._step

    def _y(self, nanos: int) -> float:
        height = _HEIGHT - _TOP - _BOTTOM
        return _TOP + (self._high - nanos) / (self._high - self._low) * height

    def parts(self) -> Iterator[str]:
        """From back to front."""
        yield from self._flat()
        for number, (_, outcome) in enumerate(self._report.rows):
            middle = self._x(number + 0.5)
            yield self._bar(middle - 0.3 * self._step, outcome.saved_per_day, _SAVED)
            yield self._bar(middle, self._report.nets[number], _NET)
            yield _text(middle, _HEIGHT - _BOTTOM + 18, escape(self._labels[number]))
            yield _text(middle, _HEIGHT - _BOTTOM + 34, f"{outcome.cut:,} cut")
        yield f'<path d="M{_LEFT} {self._y(0):.1f}H{_WIDTH - _RIGHT}" stroke="#888"/>'
        for nanos in dict.fromkeys((self._low, 0, self._high)):
            yield _text(_LEFT - 8, self._y(nanos) + 4, money(nanos), "end")
        yield from self._legend()

    def _bar(self, left: float, nanos: int, colour: str) -> str:
        top, bottom = sorted((self._y(nanos), self._y(0)))
        return (
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{0.3 * self._step:.1f}" '
            f'height="{bottom - top:.1f}" fill="{colour}"/>'
        )

    def _flat(self) -> Iterator[str]:
        if self._report.flat is None:
            return
        first, last = self._report.flat
        width = self._x(last + 1) - self._x(first)
        yield (
            f'<rect x="{self._x(first):.1f}" y="{_TOP - 20}" width="{width:.1f}" '
            f'height="{_HEIGHT - _TOP - _BOTTOM + 20}" fill="{_FLAT}"/>'
        )
        yield _text(self._x(first) + width / 2, _TOP - 6, "flat")

    def _legend(self) -> Iterator[str]:
        names = [("saved", _SAVED)]
        if self._report.cost_per_handoff_nanos is None:
            names.append(("net: the same, no cost of handling was given", _NET))
        else:
            cost = money(self._report.cost_per_handoff_nanos)
            names.append((f"net of {cost} for each resolved run that is cut", _NET))
        left = float(_LEFT)
        for name, colour in names:
            yield f'<rect x="{left}" y="{_HEIGHT - 16}" width="12" height="10" fill="{colour}"/>'
            yield _text(left + 18, _HEIGHT - 7, name, "start")
            left += 120


def _text(x: float, y: float, words: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'

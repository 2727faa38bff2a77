"""A plot as plain SVG: spend over time against the limit, once whole and once near the limit."""

from collections.abc import Sequence
from typing import Final

from .overspend import ITERATIONS, LIMIT_USD, Cell

_WIDTH, _HEIGHT = 420, 300
_LEFT, _TOP, _RIGHT, _BOTTOM = 52, 40, 14, 44
_COLOURS: Final = {"plugin": "#0a7d4f", "tool gate": "#c0392b", "check-add": "#d98200"}
_NAMES: Final = {
    "plugin": "hermes-budget",
    "tool gate": "tool gate alone",
    "check-add": "look, call, add (plain sqlite3)",
}


def overspend_svg(cells: Sequence[Cell]) -> str:
    """The cells of one latency and number of processes, a line each."""
    longest = max(cell.bill[-1][0] for cell in cells)
    near = max(cell.bill[-1][0] for cell in cells if cell.guard != "tool gate") * 1.15
    most = max(cell.spent_usd for cell in cells) * 1.05
    first = cells[0]
    title = (
        f"{first.processes} processes, answers after {first.latency_s:g} s, "
        f"a model that never stops, {ITERATIONS} calls a turn at most"
    )
    total = 2 * _WIDTH
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {_HEIGHT + 60}" '
            'font-family="sans-serif" font-size="12">',
            f'<rect width="{total}" height="{_HEIGHT + 60}" fill="white"/>',
            f'<text x="{_LEFT}" y="20" font-size="14">{title}</text>',
            *_panel(cells, 0, longest, most, "all of it"),
            *_panel(cells, _WIDTH, near, LIMIT_USD * 1.4, "near the limit"),
            *_legend(),
            "</svg>\n",
        ]
    )


def _panel(
    cells: Sequence[Cell], offset: float, seconds: float, usd: float, name: str
) -> list[str]:
    def x(at_s: float) -> float:
        return offset + _LEFT + at_s / seconds * (_WIDTH - _LEFT - _RIGHT)

    def y(spent: float) -> float:
        return _HEIGHT - _BOTTOM - spent / usd * (_HEIGHT - _TOP - _BOTTOM)

    left, right, bottom = x(0), x(seconds), y(0)
    parts = [
        f'<path d="M{left:.1f} {y(usd):.1f}V{bottom:.1f}H{right:.1f}" fill="none" stroke="#888"/>',
        f'<text x="{right:.1f}" y="{bottom + 34:.1f}" text-anchor="end">seconds ({name})</text>',
    ]
    for step in _steps(seconds):
        parts.append(
            f'<text x="{x(step):.1f}" y="{bottom + 16:.1f}" text-anchor="middle">{step:g}</text>'
        )
    for step in _steps(usd):
        parts.append(
            f'<text x="{left - 6:.1f}" y="{y(step) + 4:.1f}" text-anchor="end">${step:g}</text>'
        )
    parts.append(
        f'<path d="M{left:.1f} {y(LIMIT_USD):.1f}H{right:.1f}" stroke="black" '
        'stroke-dasharray="5 4"/>'
    )
    for cell in cells:
        path, spent = f"M{x(0):.1f} {y(0):.1f}", 0.0
        for at_s, cost in cell.bill:
            if at_s > seconds or spent + cost > usd:
                break
            spent += cost
            path += f"H{x(at_s):.1f}V{y(spent):.1f}"
        colour = _COLOURS[cell.guard]
        parts.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
    return parts


def _steps(most: float) -> list[float]:
    """Round numbers along an axis, four to eight of them."""
    for step in (0.2, 0.5, 1, 2, 5, 10, 20, 50, 100):
        if most / step <= 8:
            return [round(step * n, 1) for n in range(int(most / step) + 1)]
    return [0, most]


def _legend() -> list[str]:
    parts = [
        f'<path d="M{_LEFT} {_HEIGHT + 24}h24" stroke="black" stroke-dasharray="5 4"/>'
        f'<text x="{_LEFT + 30}" y="{_HEIGHT + 28}">the limit, ${LIMIT_USD:.2f} a day</text>'
    ]
    for number, (guard, colour) in enumerate(_COLOURS.items()):
        left = _LEFT + 200 + number * 170
        parts.append(
            f'<path d="M{left} {_HEIGHT + 24}h24" stroke="{colour}" stroke-width="2"/>'
            f'<text x="{left + 30}" y="{_HEIGHT + 28}">{_NAMES[guard]}</text>'
        )
    return parts

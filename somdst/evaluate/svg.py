"""Small pictures as inline SVG: lines, bars, stacked bars, a heat map, a reliability diagram.

Colours are CSS variables of the page (`--ours`, `--paper`, `--good`, `--bad` ...), so that a dark page has dark
pictures. Everything a picture shows on hovering is in its `<title>`s. No axes beyond what these pictures need.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10


@dataclass(frozen=True, slots=True)
class Series:
    name: str
    colour: str
    """The name of a CSS variable, without its dashes."""
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    colour: str
    points: tuple[tuple[float, float], ...]
    right: bool = False
    """Has its scale on the right."""


@dataclass(frozen=True, slots=True)
class _Scale:
    """From values to a coordinate."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / ((self.high - self.low) or 1.0) * (self.end - self.start)


def ticks(low: float, high: float, *, count: int = 5) -> list[float]:
    """Round numbers that cover the range.

    >>> ticks(0, 47)
    [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]
    """
    span = (high - low) or 1.0
    step = 10.0 ** floor(log10(span / count))
    step *= next(m for m in (1, 2, 2.5, 5, 10) if span / (step * m) <= count)
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    return [round(i * step, 10) for i in range(first, max(last, first + 1) + 1)]


def line_chart(lines: Sequence[Line], *, x_name: str, left: str, right: str = "", width: int = 1000) -> str:
    height, top, bottom, side = 280, 34, 44, 58
    used = [line for line in lines if line.points]
    xs = [x for line in used for x, _ in line.points]
    x_ticks = ticks(min(xs), max(xs))
    x_scale = _Scale(x_ticks[0], x_ticks[-1], side, width - side)
    parts = [_text((width) / 2, height - 6, x_name, "middle")]
    parts += [_text(x_scale(tick), height - bottom + 16, _number(tick), "middle") for tick in x_ticks]
    for on_right, name in ((False, left), (True, right)):
        own = [line for line in used if line.right is on_right]
        if not own:
            continue
        ys = [y for line in own for _, y in line.points]
        y_ticks = ticks(min(0.0, *ys) if on_right else min(ys), max(ys))
        y_scale = _Scale(y_ticks[0], y_ticks[-1], height - bottom, top)
        edge = width - side if on_right else side
        for tick in y_ticks:
            if not on_right:
                parts.append(_grid(side, y_scale(tick), width - side))
            anchor = "start" if on_right else "end"
            parts.append(_text(edge + (6 if on_right else -6), y_scale(tick) + 4, _number(tick), anchor))
        parts.append(_text(edge, top - 18, name, "end" if on_right else "start", "name"))
        parts += [_polyline(line, x_scale, y_scale) for line in own]
    return _svg(width, height, parts, label=f"{left} and {right} by {x_name}" if right else f"{left} by {x_name}")


def bar_chart(labels: Sequence[str], series: Sequence[Series], *, name: str, width: int = 500, top: float = 100) -> str:
    """Bars beside each other, from 0 to `top`."""
    height, above, below, left = 260, 34, 40, 44
    scale = _Scale(0, top, height - below, above)
    step = (width - left) / len(labels)
    bar = min(34.0, step * 0.8 / len(series))
    parts = [_text(left, above - 18, name, "start", "name")]
    for tick in ticks(0, top):
        parts += [_grid(left, scale(tick), width), _text(left - 6, scale(tick) + 4, _number(tick), "end")]
    for i, label in enumerate(labels):
        middle = left + step * (i + 0.5)
        parts.append(_text(middle, height - below + 18, label, "middle"))
        for k, one in enumerate(series):
            value = one.values[i]
            if value is None:
                continue
            x, y = middle + bar * (k - len(series) / 2), scale(value)
            title = f"{label}, {one.name}: {value:.2f}"
            parts.append(_rect(x + 1, y, bar - 2, height - below - y, one.colour, title))
            if bar > 18:
                parts.append(_text(x + bar / 2, y - 5, f"{value:.0f}", "middle", "small"))
    return _svg(width, height, parts, label=name)


def stacked_bars(labels: Sequence[str], series: Sequence[Series], *, name: str, width: int = 500) -> str:
    """Horizontal bars, one per label, made of one part per series."""
    row, left, above = 24, 160, 6
    sums = [sum(one.values[i] or 0 for one in series) for i in range(len(labels))]
    scale = _Scale(0, max(sums, default=1) or 1, left, width - 52)
    parts = []
    for i, label in enumerate(labels):
        y, done = above + row * i, 0.0
        parts.append(_text(left - 8, y + 15, label, "end"))
        for one in series:
            value = one.values[i] or 0
            x = scale(done)
            if value:
                parts.append(_rect(x, y + 3, scale(done + value) - x, row - 7, one.colour, f"{one.name}: {value:,.0f}"))
            done += value
        parts.append(_text(scale(done) + 6, y + 15, f"{done:,.0f}", "start", "small"))
    return _svg(width, above + row * len(labels) + 8, parts, label=name)


def heat_map(
    names: Sequence[str], counts: Sequence[Sequence[int]], *, rows: str, columns: str, width: int = 500
) -> str:
    """Counts, coloured by their share of the row: green on the diagonal, red beside it."""
    left, above, cell = 84, 52, 52
    step = (width - left) / len(names)
    parts = [
        _text(left + (width - left) / 2, 16, columns, "middle", "name"),
        _text(4, above - 12, rows, "start", "name"),
    ]
    parts += [_text(left + step * (k + 0.5), above - 12, name, "middle") for k, name in enumerate(names)]
    for i, name in enumerate(names):
        total = sum(counts[i]) or 1
        parts.append(_text(left - 10, above + cell * i + 30, name, "end"))
        for k, count in enumerate(counts[i]):
            share, colour = count / total, "good" if i == k else "bad"
            x, y = left + step * k, above + cell * i
            title = f"{name} predicted as {names[k]}: {count:,} ({100 * share:.1f}%)"
            parts.append(_rect(x + 1, y + 1, step - 2, cell - 2, colour, title, opacity=0.06 + 0.74 * share))
            parts.append(_text(x + step / 2, y + 24, f"{count:,}", "middle", "strong"))
            parts.append(_text(x + step / 2, y + 40, f"{100 * share:.1f}%", "middle", "small strong"))
    return _svg(width, above + cell * len(names) + 6, parts, label=f"{rows} and {columns}")


def reliability_diagram(bins: Sequence[tuple[float, float, int]], *, width: int = 420) -> str:
    """Mean probability, accuracy and count of each bin of equal width, against the diagonal of a perfect one."""
    left, above, size = 52, 26, width - 72
    x_scale, y_scale = _Scale(0, 1, left, left + size), _Scale(0, 1, above + size, above)
    parts = [_text(left, above - 12, "share that was right", "start", "name")]
    for tick in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0):
        parts += [_grid(left, y_scale(tick), left + size), _text(left - 6, y_scale(tick) + 4, f"{tick:.1f}", "end")]
        parts.append(_text(x_scale(tick), above + size + 18, f"{tick:.1f}", "middle"))
    most = max((count for _, _, count in bins), default=1) or 1
    for i, (probability, accuracy, count) in enumerate(bins):
        if count:
            x, y = x_scale(i / len(bins)), y_scale(accuracy)
            title = f"said {probability:.2f}, right {accuracy:.2f}, {count:,} changes"
            opacity = 0.25 + 0.75 * (count / most) ** 0.5
            parts.append(_rect(x + 1, y, size / len(bins) - 2, above + size - y, "ours", title, opacity=opacity))
            parts.append(f'<circle cx="{x_scale(probability):.1f}" cy="{y:.1f}" r="3.5" fill="var(--ink)"/>')
    ends = f'x1="{left}" y1="{above + size}" x2="{left + size}" y2="{above}"'
    parts.append(f'<line {ends} stroke="var(--muted)" stroke-dasharray="5 4"/>')
    parts.append(_text(left + size / 2, above + size + 38, "probability that was said", "middle"))
    return _svg(width, above + size + 46, parts, label="reliability of the probabilities of changes")


def legend(series: Sequence[Series | Line]) -> str:
    items = "".join(f'<span><i style="background:var(--{one.colour})"></i>{escape(one.name)}</span>' for one in series)
    return f'<p class="legend">{items}</p>'


def _svg(width: float, height: float, parts: Sequence[str], *, label: str) -> str:
    size = f'viewBox="0 0 {width:g} {height:g}" style="max-width:{width:g}px"'
    return f'<svg {size} role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'


def _text(x: float, y: float, text: str, anchor: str, kind: str = "") -> str:
    chosen = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{chosen}>{escape(text)}</text>'


def _rect(x: float, y: float, width: float, height: float, colour: str, title: str, *, opacity: float = 1.0) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{max(height, 0):.1f}" rx="2"'
    faint = f' fill-opacity="{opacity:.2f}"' if opacity < 1 else ""
    return f'<rect {place} fill="var(--{colour})"{faint}><title>{escape(title)}</title></rect>'


def _grid(x1: float, y: float, x2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y:.1f}" x2="{x2:.1f}" y2="{y:.1f}" stroke="var(--grid)"/>'


def _polyline(line: Line, x_scale: _Scale, y_scale: _Scale) -> str:
    places = [(x_scale(x), y_scale(y)) for x, y in line.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    drawn = f'<polyline points="{path}" fill="none" stroke="var(--{line.colour})" stroke-width="2"/>'
    if len(places) > 60:
        return drawn
    dots = [
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="var(--{line.colour})"><title>{escape(line.name)}: '
        f"{value:.2f}</title></circle>"
        for (x, y), (_, value) in zip(places, line.points, strict=True)
    ]
    return drawn + "".join(dots)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"

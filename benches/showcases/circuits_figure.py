"""Draws the ratios of a page's table over the width of circuits, as SVG: `PAGE > FIGURE.svg`."""

import math
import re
import sys
from pathlib import Path

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 720, 400, 56, 34, 24, 48
ROW = re.compile(r"\| ([\w ,]+) \| ([\d,]+) \| ([\d,]+) \| [\d.,]+ \| [\d.,]+ \| ([\d.]+) \|")
#: Names that stand above or below their point, not right of it.
ABOVE = {"int2float", "router", "sqrt", "div", "log2", "mem_ctrl"}
BELOW = {"priority", "multiplier", "i2c", "hyp"}


def points(text):
    """Name, nodes a level, and ratio of each circuit."""
    for name, nodes, levels, ratio in ROW.findall(text):
        yield name, int(nodes.replace(",", "")) / int(levels.replace(",", "")), float(ratio)


def ticks(low, high):
    return [
        step * 10**power
        for power in range(-1, 5)
        for step in (1, 2, 5)
        if low <= step * 10**power <= high
    ]


def draw(rows):
    widths, ratios = [row[1] for row in rows], [row[2] for row in rows]
    low_x, high_x = min(widths) / 1.3, max(widths) * 1.5
    low_y, high_y = min(1, *ratios) / 1.15, max(ratios) * 1.2

    def x(width):
        share = math.log(width / low_x) / math.log(high_x / low_x)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(ratio):
        share = math.log(ratio / low_y) / math.log(high_y / low_y)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    def text(at, to, words, anchor="middle", more=""):
        return f'<text x="{at:.1f}" y="{to:.1f}" text-anchor="{anchor}"{more}>{words}</text>'

    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12" fill="#333">'
    )
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>'
    for ratio in ticks(low_y, high_y):
        line = "#999" if ratio == 1 else "#e4e4e4"
        yield f'<path d="M{LEFT} {y(ratio):.1f}H{WIDTH - RIGHT}" stroke="{line}"/>'
        yield text(LEFT - 8, y(ratio) + 4, f"{ratio:g}", "end")
    for width in ticks(low_x, high_x):
        yield f'<path d="M{x(width):.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#e4e4e4"/>'
        yield text(x(width), HEIGHT - BOTTOM + 18, f"{width:g}")
    for name, width, ratio in rows:
        yield f'<circle cx="{x(width):.1f}" cy="{y(ratio):.1f}" r="4" fill="#1f6fb4"/>'
        at, to, anchor = x(width) + 7, y(ratio) + 4, "start"
        if name in ABOVE | BELOW:
            at, to, anchor = x(width), y(ratio) + (-8 if name in ABOVE else 16), "middle"
        yield text(at, to, name, anchor, ' font-size="11"')
    yield text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, "nodes a level of the circuit")
    yield text(LEFT - 30, 18, "time of PyTorch / time of ours, a forward run", "start")
    yield "</svg>"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: circuits_figure.py PAGE.md > FIGURE.svg")
    rows = list(points(Path(sys.argv[1]).read_text(encoding="utf-8")))
    if not rows:
        sys.exit(f"{sys.argv[1]}: expected a table of circuits")
    print("\n".join(draw(rows)))

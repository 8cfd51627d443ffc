"""Draws bars from the table that a showcase prints, as an SVG with a group for each line.

    python derivations_in_torch.py | python bars.py "us a clause" 0,1 3 4 5 > prover.svg

The arguments are the unit, the columns that name a group, and the columns of the bars.
"""

import sys

COLOURS = ["#9aa5b1", "#5b7083", "#d9822b", "#2f855a"]
HEIGHT, BASE, LEFT, BAR = 276, 236, 12, 29


def text(x, y, value, more=""):
    return f'<text x="{x:g}" y="{y:g}" {more}>{value}</text>'


def main():
    unit, named, *columns = sys.argv[1:]
    rows = [line.strip().strip("|").split("|") for line in sys.stdin if line.startswith("|")]
    header, _, *rows = [[cell.strip() for cell in row] for row in rows]
    named, columns = [int(n) for n in named.split(",")], [int(n) for n in columns]
    most = max(float(row[column]) for row in rows for column in columns)
    longest = max(len(row[column]) for row in rows for column in named)
    gap = max(22, 6 * longest - BAR * len(columns))
    group = BAR * len(columns) + gap
    width = LEFT + group * len(rows) + 10
    size = f'width="{width}" height="{HEIGHT}"'
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" {size}>',
        '<g font-family="sans-serif" font-size="10">',
        f'<rect {size} fill="white"/>',
    ]
    x = LEFT
    for colour, column in zip(COLOURS, columns):
        out.append(f'<rect x="{x}" y="10" width="10" height="10" fill="{colour}"/>')
        out.append(text(x + 14, 19, header[column], 'font-size="12"'))
        x += 30 + 7 * len(header[column])
    out.append(text(x, 19, unit, 'font-size="12" fill="#555"'))
    for number, row in enumerate(rows):
        left = LEFT + gap / 2 + number * group
        for at, (colour, column) in enumerate(zip(COLOURS, columns)):
            value = float(row[column])
            high, x = 190 * value / most, left + BAR * at
            out.append(
                f'<rect x="{x:g}" y="{BASE - high:.1f}" width="{BAR - 2}" height="{high:.1f}" '
                f'fill="{colour}"/>'
            )
            middle = x + BAR / 2 - 1
            out.append(text(middle, BASE - high - 4, row[column], 'text-anchor="middle"'))
        for line, column in enumerate(named):
            label = row[column]
            if label.isdigit():
                label = f"{header[column]} {label}"
            middle = left + BAR * len(columns) / 2
            out.append(text(middle, BASE + 16 + 14 * line, label, 'text-anchor="middle"'))
    out.append(f'<path d="M{LEFT} {BASE}H{width - 10}" stroke="#333"/>')
    print("\n".join([*out, "</g>", "</svg>"]))


if __name__ == "__main__":
    main()

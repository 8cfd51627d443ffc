"""Draws bars from the table that a showcase prints, as an SVG with a group for each line.

    python derivations_in_torch.py | python bars.py "µs a clause" 0,1 3 4 5 > prover.svg

The arguments are the unit, the columns that name a group, and the columns of the bars.
"""

import sys

COLOURS = ["#9aa5b1", "#5b7083", "#d9822b", "#2f855a"]
# Narrow enough for a phone. `LONGEST` leaves room for the value after the longest bar.
WIDTH, LEFT, LONGEST, BAR = 440, 8, 370, 15


def text(x, y, value, more=""):
    return f'<text x="{x:g}" y="{y:g}"{more}>{value}</text>'


def main():
    unit, named, *columns = sys.argv[1:]
    rows = [line.strip().strip("|").split("|") for line in sys.stdin if line.startswith("|")]
    header, _, *rows = [[cell.strip() for cell in row] for row in rows]
    named, columns = [int(n) for n in named.split(",")], [int(n) for n in columns]
    most = max(float(row[column]) for row in rows for column in columns)
    group = 28 + (BAR + 1) * len(columns)
    height = 28 + group * len(rows)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{1.2 * WIDTH:g}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
    ]
    x = LEFT
    for colour, column in zip(COLOURS, columns):
        out.append(f'<rect x="{x}" y="10" width="10" height="10" fill="{colour}"/>')
        out.append(text(x + 14, 19, header[column]))
        x += 30 + 7 * len(header[column])
    out.append(text(x, 19, unit, ' fill="#555"'))
    for number, row in enumerate(rows):
        top = 28 + number * group
        labels = [(header[column], row[column]) for column in named]
        labels = [f"{name} {cell}" if cell.isdigit() else cell for name, cell in labels]
        out.append(text(LEFT, top + 19, ", ".join(labels)))
        for at, (colour, column) in enumerate(zip(COLOURS, columns)):
            y, long = top + 25 + (BAR + 1) * at, LONGEST * float(row[column]) / most
            size = f'width="{long:.1f}" height="{BAR}"'
            out.append(f'<rect x="{LEFT}" y="{y}" {size} fill="{colour}"/>')
            out.append(text(round(LEFT + long + 6, 1), y + 12, row[column]))
    print("\n".join([*out, "</svg>"]))


if __name__ == "__main__":
    main()

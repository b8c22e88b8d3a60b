"""Plots as SVG, written by hand: lines over a common axis, and bars in groups."""

from html import escape

COLOURS = ["#1b6ca8", "#c8553d", "#4f772d", "#8a5a99", "#b08900"]
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 300, 60, 10, 10, 40
PLOT_WIDTH, PLOT_HEIGHT = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
SHARES = (0, 0.25, 0.5, 0.75, 1)


def lines(series, x_name, y_name):
    """A line for each of `series`, a dictionary name -> [(x, y)]; both axes begin at zero."""
    points = [point for line in series.values() for point in line]
    right, top = max(x for x, _ in points), 1.2 * max(y for _, y in points)
    drawn = []
    for colour, line in zip(COLOURS, series.values()):
        places = " ".join(f"{LEFT + PLOT_WIDTH * x / right:.1f},{level(y / top):.1f}" for x, y in line)
        drawn.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{places}"/>')
    marks = [text(LEFT + PLOT_WIDTH * share, HEIGHT - BOTTOM + 16, number(right * share)) for share in SHARES]
    names = legend(list(series)) if len(series) > 1 else []
    return document([*scale(top), *marks, *drawn, *names, *axes(x_name, y_name)])


def bars(groups, names, y_name):
    """For each of `groups`, a dictionary name -> [value or None], bars of the same colours."""
    top = 1.2 * max(value for group in groups.values() for value in group if value is not None)
    wide = PLOT_WIDTH / len(groups)
    one = 0.8 * wide / len(names)
    drawn = []
    for number_of_group, (group, values) in enumerate(groups.items()):
        begin = LEFT + wide * number_of_group + 0.1 * wide
        drawn.append(text(begin + 0.4 * wide, HEIGHT - BOTTOM + 16, group))
        for i, value in enumerate(values):
            if value is None:
                continue
            y = level(value / top)
            drawn.append(f'<rect x="{begin + one * i:.1f}" y="{y:.1f}" width="{0.9 * one:.1f}" '
                         f'height="{HEIGHT - BOTTOM - y:.1f}" fill="{COLOURS[i % len(COLOURS)]}"/>')
            drawn.append(text(begin + one * (i + 0.45), y - 4, number(value)))
    return document([*scale(top), *drawn, *legend(names), *axes("", y_name)])


def level(share):
    return HEIGHT - BOTTOM - PLOT_HEIGHT * share


def number(value):
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}".removesuffix(".0")


def text(x, y, words, anchor="middle"):
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{escape(words)}</text>'


def scale(top):
    for share in SHARES:
        y = level(share)
        yield text(LEFT - 8, y + 4, number(top * share), "end")
        yield f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.0f}" y2="{y:.0f}" stroke="#ddd"/>'


def legend(names):
    x = LEFT + 10
    for name, colour in zip(names, COLOURS):
        yield f'<rect x="{x}" y="{TOP + 4}" width="10" height="10" fill="{colour}"/>'
        yield text(x + 14, TOP + 13, name, "start")
        x += 30 + 7 * len(name)


def axes(x_name, y_name):
    middle = (TOP + HEIGHT - BOTTOM) / 2
    yield text((WIDTH + LEFT) / 2, HEIGHT - 6, x_name)
    yield (f'<text x="14" y="{middle:.0f}" transform="rotate(-90 14 {middle:.0f})" '
           f'text-anchor="middle">{escape(y_name)}</text>')


def document(elements):
    begin = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11">'
    white = f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
    return "\n".join([begin, white, *elements, "</svg>"]) + "\n"

#!/usr/bin/env python3
"""Makes of what bench/archive.py printed a table for a page, and plots on logarithmic axes.

    bench/archive_plot.py RESULTS DIRECTORY [--page PAGE] [--other RESULTS…]

prints the table and writes archive-time.svg and archive-time-per-message.svg into DIRECTORY. What the other measurements printed follows in
tables of their own. In PAGE all of it takes the place of what is between the two comments that name this program.
"""

import argparse
import math
import pathlib
import statistics

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 460, 70, 210, 20, 50
COLORS = ["#1b6ca8", "#d1495b", "#2e933c", "#8d6a9f", "#e08e1d", "#555555", "#00a5a5"]


def read(path):
    """{program: {messages: [(seconds, peak RSS in KiB)]}}"""
    programs = {}
    for line in pathlib.Path(path).read_text().splitlines():
        words = line.split()
        if len(words) == 5 and words[1].isdigit():
            rss = int(words[4]) if words[4].isdigit() else 0
            programs.setdefault(words[0], {}).setdefault(int(words[1]), []).append((float(words[2]), rss))
    return programs


def table(programs):
    counts = sorted({count for runs in programs.values() for count in runs})
    lines = ["| messages | " + " | ".join(programs) + " |", "|---:|" + "---:|" * len(programs)]
    for count in counts:
        cells = []
        for runs in programs.values():
            if count not in runs:
                cells.append("")
                continue
            seconds = statistics.median(took for took, _ in runs[count])
            cells.append(f"{seconds:.2f} s, {count / seconds:,.0f}/s")
        lines.append(f"| {count:,} | " + " | ".join(cells) + " |")
    peaks = [max((rss for runs in of.values() for _, rss in runs), default=0) for of in programs.values()]
    lines.append("| peak memory | " + " | ".join(f"{peak / 1024:.0f} MiB" if peak else "" for peak in peaks) + " |")
    return "\n".join(lines)


def ticks(low, high):
    return [10.0 ** power for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]


def plot(programs, value, label):
    points = {name: sorted((count, statistics.median(value(count, took) for took, _ in runs)) for count, runs in of.items())
              for name, of in programs.items()}
    xs, ys = ([point[axis] for line in points.values() for point in line] for axis in (0, 1))
    x_ticks, y_ticks = ticks(min(xs), max(xs)), ticks(min(ys), max(ys))

    def place(number, marks, first, last):
        low, high = math.log10(marks[0]), math.log10(marks[-1])
        return first + (math.log10(number) - low) / ((high - low) or 1) * (last - first)

    def x(number):
        return place(number, x_ticks, LEFT, WIDTH - RIGHT)

    def y(number):
        return place(number, y_ticks, HEIGHT - BOTTOM, TOP)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    for tick in x_ticks:
        out.append(f'<line x1="{x(tick):.1f}" y1="{TOP}" x2="{x(tick):.1f}" y2="{HEIGHT - BOTTOM}" stroke="#ddd"/>'
                   f'<text x="{x(tick):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{tick:,.0f}</text>')
    for tick in y_ticks:
        out.append(f'<line x1="{LEFT}" y1="{y(tick):.1f}" x2="{WIDTH - RIGHT}" y2="{y(tick):.1f}" stroke="#ddd"/>'
                   f'<text x="{LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 10}" text-anchor="middle">messages</text>'
               f'<text transform="translate(14 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" text-anchor="middle">{label}</text>')
    for nth, (name, line) in enumerate(points.items()):
        color = COLORS[nth % len(COLORS)]
        path = " ".join(f"{x(count):.1f},{y(took):.1f}" for count, took in line)
        out.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        out += [f'<circle cx="{x(count):.1f}" cy="{y(took):.1f}" r="3" fill="{color}"/>' for count, took in line]
        out.append(f'<rect x="{WIDTH - RIGHT + 12}" y="{TOP + 20 * nth}" width="12" height="12" fill="{color}"/>'
                   f'<text x="{WIDTH - RIGHT + 30}" y="{TOP + 20 * nth + 11}">{name}</text>')
    return "\n".join([*out, "</svg>", ""])


def other(path):
    """A table of what else was measured: each program's median, and its runs."""
    lines = pathlib.Path(path).read_text().splitlines()
    head = next(line for line in lines if line.startswith("program ")).split()
    title = lines[0] if not lines[0].startswith("program ") else ""
    rows = {}
    for line in lines:
        words = line.split()
        if len(words) == len(head) and words[1].isdigit():
            rows.setdefault((words[0], words[1]), []).append(words[2:])
    out = ([f"{title}:", ""] if title else []) + [f"| program | {head[1]} | median | runs | {'peak memory' if head[-1].startswith('peak') else ''} | |",
                                              "|---|---:|---:|---|---:|---|"]
    for (program, count), runs in rows.items():
        seconds = sorted(float(run[0]) for run in runs)
        peak = max((int(run[-1]) for run in runs if run[-1].isdigit()), default=0)
        median = statistics.median(seconds)
        rate = f", {int(count) / median:,.0f}/s" if head[3] == "per_second" else ""
        turns = f"{max(int(run[1]) for run in runs)} round trips" if head[3] == "round_trips" else ""
        out.append(f"| {program} | {int(count):,} | {median:.2f} s{rate} | {', '.join(f'{took:.2f}' for took in seconds)} | "
                   f"{f'{peak / 1024:.0f} MiB' if peak else ''} | {turns} |")
    return "\n".join(out)


def into(page, text):
    path, begin, end = pathlib.Path(page), "<!-- made by bench/archive_plot.py -->", "<!-- end of what bench/archive_plot.py made -->"
    before, rest = path.read_text().split(begin, 1)
    path.write_text(f"{before}{begin}\n\n{text}\n\n{end}{rest.split(end, 1)[1]}")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("results")
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--page")
    parser.add_argument("--other", action="append", default=[])
    options = parser.parse_args()
    programs, to = read(options.results), options.directory
    to.mkdir(parents=True, exist_ok=True)
    text = "\n\n".join([table(programs), *map(other, options.other)])
    print(text)
    if options.page:
        into(options.page, text)
    (to / "archive-time.svg").write_text(plot(programs, lambda _, took: took, "seconds"))
    (to / "archive-time-per-message.svg").write_text(
        plot(programs, lambda count, took: took / count * 1e6, "microseconds a message"))


if __name__ == "__main__":
    main()

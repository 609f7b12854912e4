#!/usr/bin/env python3
"""Draws what timing_wheel_compare counted: report.py JSON PAGE.html

  report.py --check                      is the plotting tool there?
  report.py --picture NAME JSON OUT.svg  one of the pictures, on its own

The page holds all it needs; its pictures follow the reader's light or dark theme. Drawn by Matplotlib.
"""

import base64
import csv
import html
import io
import itertools
import json
import math
import os
import re
import sys

try:
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator
except ImportError as error:
    system = "/usr/bin/python3"  # its packages may be where those of the first Python are not
    if sys.executable != system and os.path.exists(system):
        os.execv(system, [system, *sys.orig_argv[1:]])
    sys.exit(f"report.py: {error}; install Matplotlib: apt-get install python3-matplotlib")

# Matplotlib draws in the colours on the left, which stand for nothing else; the page gives each its colour in either
# theme.
THEME = {
    "#010203": ("ink", "#1b1f24", "#e6e6e3"),
    "#010204": ("muted", "#59606a", "#a5abb3"),
    "#010205": ("grid", "#dcdfe3", "#3a3f46"),
    "#010206": ("paper", "#ffffff", "#16191d"),
    "#020301": ("c0", "#0072b2", "#56b4e9"),
    "#020302": ("c1", "#d55e00", "#ff8a47"),
    "#020303": ("c2", "#00865f", "#2fd3a0"),
    "#020304": ("c3", "#b8468a", "#ef9cc8"),
    "#020305": ("c4", "#b07a00", "#f0c04c"),
    "#020306": ("c5", "#6a4fc4", "#b3a2ff"),
    "#020307": ("c6", "#1b1f24", "#f2f2ef"),
    "#020308": ("c7", "#7a828c", "#9aa3ad"),
    "#030401": ("h0", "#35a3c8", "#2a87a8"),
    "#030402": ("h1", "#d9dde1", "#474d55"),
    "#030403": ("h2", "#f8dcb4", "#5a4424"),
    "#030404": ("h3", "#f1b566", "#8a5f20"),
    "#030405": ("h4", "#d97f1c", "#c27a1e"),
    "#030406": ("h5", "#9c4a00", "#f0a848"),
}
COLOUR = {name: placeholder for placeholder, (name, _, _) in THEME.items()}
INK, MUTED, GRID, PAPER = (COLOUR[name] for name in ("ink", "muted", "grid", "paper"))
FAMILY = {  # line style, marker, the dashes of the legend
    "hierarchical": ("-", "o", "none"),
    "hashed": ((0, (4, 2)), "s", "5 3"),
    "heap": ((0, (1, 1.5)), "^", "1.5 2"),
    "flat": ((0, (6, 2, 1, 2)), "D", "7 2 1.5 2"),
    "default": ("-", "P", "none"),
    "noncascading": ((0, (8, 2)), "v", "8 2"),
    "sorted": ((0, (3, 1)), "p", "3 1"),
    "threads": ((0, (2, 1, 1, 1)), "X", "2 1 1 1"),
    "session": ((0, (5, 1, 1, 1, 1, 1)), "<", "5 1 1 1 1 1"),
}
MARKERS = {  # of the legend
    "o": '<circle cx="15" cy="5" r="3.4" {}/>', "s": '<path d="M12 2h6v6h-6z" {}/>',
    "^": '<path d="M15 1l4 7h-8z" {}/>', "D": '<path d="M15 1l4 4-4 4-4-4z" {}/>',
    "P": '<path d="M13.5 1h3v2.5h2.5v3h-2.5v2.5h-3v-2.5h-2.5v-3h2.5z" {}/>',
    "v": '<path d="M15 9l4-7h-8z" {}/>', "p": '<path d="M15 1l4 3-1.5 5h-5l-1.5-5z" {}/>',
    "X": '<path d="M11 3l2-2 2 2 2-2 2 2-2 2 2 2-2 2-2-2-2 2-2-2 2-2z" {}/>', "<": '<path d="M11 5l7-4v8z" {}/>',
}
WORDS = {
    "tick": "the smallest step of an engine's clock; each deadline is rounded up to a tick",
    "slot": "the place for the timers of one interval of time on a wheel",
    "level": "a wheel of a hierarchy; a slot of a higher level is as long as a turn of the wheel below",
    "move": "an engine puts a timer from one level to a lower one; the moves of a slot together are a cascade",
    "look": "a tick examines a timer and leaves it where it is; of rounds, the last look counts too, "
            "with which the timer fires",
    "flush": "the work on one slot when its time has come: its timers fire, move or are looked at",
    "window": "how much later than its deadline a timer may fire; an engine that knows windows puts the timer off to "
              "the cheapest tick within it",
    "wake-up": "a thread of the engine wakes; it is empty if there was no timer to handle",
    "late": "how long after its deadline a timer fires in virtual time; a real thread adds the time that it needs to "
            "wake",
    "break-even": "the delay up to which rounds take less processor time than cascades",
    "revolution": "a wheel's slots times its tick: the time in which a wheel that counts rounds comes to each slot",
}
FAMILIES = {
    "hierarchical": "the library's wheel: far timers lie on higher levels and cascade down, as in Kafka",
    "hashed": "the library's wheel that counts rounds, as in Netty: it wakes at each tick, and looks at a timer once "
              "per revolution",
    "heap": "a heap by deadline; what it compares, about log2(pending) times for each operation, is in no count here",
    "flat": "one wheel with a slot for each tick of the longest delay",
    "default": "hierarchical with the tick and the sizes that the library ships",
    "noncascading": "Linux's wheel since 4.8: a timer fires from the level where it was put, late by up to "
                    "8 / (size − 1) of its delay. This error is the design",
    "sorted": "a wheel that counts rounds with a heap in each slot: a tick compares the earliest deadline of the slot, "
              "and looks at no timer in vain",
    "threads": "hierarchical with a thread for each level, which wakes at each tick of its level while anything is "
               "pending; the races of real threads are left out",
    "session": "a map from each tick to its timers, as ZooKeeper keeps sessions: deadlines are rounded up to the tick, "
               "so a timer is late by up to a tick. This error is the design",
}
WIDTH = 5.8  # inches of 72 units; a phone shows the letters at nearly their size
PARTS = 300  # of a run, in its picture

plt.rcParams.update(
    {"font.size": 9.5, "font.family": "sans-serif", "svg.fonttype": "none", "axes.edgecolor": MUTED,
     "axes.labelcolor": INK, "axes.titlesize": 10, "text.color": INK, "xtick.color": MUTED, "ytick.color": MUTED,
     "xtick.labelcolor": INK, "ytick.labelcolor": INK, "axes.grid": True, "grid.color": GRID, "grid.linewidth": 0.7,
     "axes.axisbelow": True, "axes.spines.top": False, "axes.spines.right": False, "figure.facecolor": "none",
     "axes.facecolor": "none", "lines.linewidth": 1.4, "lines.markersize": 4, "figure.constrained_layout.use": True}
)


def number(value, digits=3):
    """1234567 is 1 234 567, 0.123456 is 0.123: so many significant digits at least."""
    if value is None:
        return "–"
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}".replace(",", "\u202f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def duration(ms):
    for unit, length in (("d", 86400e3), ("h", 3600e3), ("min", 60e3), ("s", 1e3), ("ms", 1)):
        if ms >= length:
            return f"{number(ms / length)}\u00a0{unit}"
    return f"{number(ms * 1e3)}\u00a0µs"


def duration_axis(axis, low, high):
    """Ticks of a logarithmic axis in milliseconds, at times that people use."""
    nice = [1e-3, 1e-2, 0.1, 1, 10, 100, 1e3, 10e3, 60e3, 600e3, 3600e3, 6 * 3600e3, 86400e3, 7 * 86400e3,
            365 * 86400e3]
    ticks = [t for t in nice if low * 0.999 <= t <= high * 1.001]
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_major_formatter(FuncFormatter(lambda t, _: duration(t)))
    axis.set_minor_locator(NullLocator())


def count_label(value, _=None):
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g} {unit}"
    return f"{value:g}"


def count_axis(axis):
    axis.set_major_formatter(FuncFormatter(count_label))
    axis.set_minor_formatter(NullFormatter())
    axis.set_minor_locator(NullLocator())


def work_axis(ax, largest):
    """Linear up to 1, so that there is a place for 0, and then logarithmic."""
    ax.set_yscale("symlog", linthresh=1, linscale=0.7)
    top = decade_above(max(largest, 1) * 1.2)
    ax.set_ylim(-0.08, top)
    ax.yaxis.set_major_locator(FixedLocator([0] + [10**k for k in range(0, 12) if 10**k <= top]))
    count_axis(ax.yaxis)


def moves(ticks, *sizes):
    """Of a timer on average, in a hierarchy; the wheels above have the last size."""
    interval, sum_of_moves = sizes[0], 0
    while ticks >= interval:
        sum_of_moves += 1 - 1 / sizes[0]
        sizes = sizes[1:] or sizes
        interval *= sizes[0]
    return sum_of_moves


class Engine:
    def __init__(self, index, data):
        self.data = data
        self.kind = data["kind"]
        self.tick_ms = data["tick_ns"] / 1e6
        self.slots = data["slots"]
        self.colour = COLOUR[f"c{index % 8}"]
        self.css = f"var(--c{index % 8})"
        self.line, self.marker, self.dashes = FAMILY[self.kind]
        tick = duration(self.tick_ms)
        names = {"hierarchical": f"hierarchy {tick} × {self.slots}", "hashed": f"hashed {tick} × {self.slots}",
                 "heap": "heap" if self.tick_ms == 1 else f"heap {tick}", "flat": f"flat {tick}",
                 "default": "default", "noncascading": f"noncascading {tick} × {self.slots}",
                 "sorted": f"sorted {tick} × {self.slots}", "threads": f"threads {tick} × {self.slots}",
                 "session": f"session {tick}"}
        self.name = names[self.kind]

    @property
    def style(self):
        return {"color": self.colour, "linestyle": self.line, "marker": self.marker}

    def formula(self, delay_ms):
        """Moves or looks of a timer on average; None if its window decides."""
        if self.data["window_ms"]:
            return None
        ticks = max(1, delay_ms / self.tick_ms)
        if self.kind == "hashed":
            return (math.ceil(ticks) - 1) // self.slots + 1
        return moves(ticks, *self.data["wheel_sizes"]) if self.kind in ("hierarchical", "default", "threads") else 0

    @property
    def latest_ms(self):
        return (self.data["lateness_us"]["max"] or 0) / 1e3


class Picture:
    """`sentence` says what to see, `rows` is what was drawn, the head first, and `key` the engines that are in it.

    `legend` is HTML that stands in the place of the key.
    """

    def __init__(self, name, title, sentence, figure, rows=(), key=(), note="", legend=""):
        self.name, self.title, self.sentence, self.figure = name, title, sentence, figure
        self.rows, self.key, self.note, self.legend = rows, key, note, legend

    def svg(self):
        plt.rcParams["svg.hashsalt"] = self.name  # so that the pictures of a page do not share identifiers
        out = io.StringIO()
        self.figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None, "Type": None, "Format": None})
        plt.close(self.figure)
        text = out.getvalue()
        text = text[text.index("<svg"):]
        label = html.escape(f"{self.title}. {self.sentence}", quote=True)
        for pattern, shown in (
                (r"<metadata>.*?</metadata>", ""),
                (r'\sid="(figure|axes|patch|line2d|xtick|ytick|text|matplotlib\.\w+|PathCollection|QuadMesh|'
                 r'LineCollection|PolyCollection|FillBetween\w+|legend)_\d+"', ""),
                (r"font: ([^;\"]*?)'[^;\"]*(?=[;\"])", r"font: \1var(--font)"),
                (r"font: ([\d.]+px) [^;\"]*(?=[;\"])", r"font: \1 var(--font)"),
                ("|".join(THEME), lambda placeholder: f"var(--{THEME[placeholder[0]][0]})"),
                # A hundredth of a point is enough.
                (r'(?<= d=")[^"]*', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0])),
                # A file of one line is not read, and is not counted.
                (r">\s+<", "><"), (r"\s*\n\s*", " "),
                (r'<svg [^>]*?(viewBox="[^"]*")[^>]*>', lambda head: (
                    '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
                    f'{head[1]} role="img" aria-label="{label}">'))):
            text = re.sub(pattern, shown, text, flags=re.S)
        return text.strip() + "\n"

    def csv(self):
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows(
            [f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row] for row in self.rows)
        return out.getvalue()


def canvas(height, rows=1, **more):
    return plt.subplots(rows, 1, figsize=(WIDTH, height), **more)


def decade_above(value):
    return 10 ** math.ceil(math.log10(value))


def counted_work(xs, curve):
    """(x, moves or looks per timer), where the engine could be made."""
    return [(x, work) for x, work in zip(xs, curve["work_per_timer"]) if work is not None]


def rows_of_sweep(head, xs, engines, sweep):
    return [[head] + [e.data["engine"] for e in engines]] + [
        [x] + [curve["work_per_timer"][i] for curve in sweep["engines"]] for i, x in enumerate(xs)]


def by_delay(data, engines):
    sweep = data["by_delay"]
    delays = sweep["delay_ms"]
    fig, ax = canvas(4.2)
    fine = [delays[0] * (delays[-1] / delays[0]) ** (i / 400) for i in range(401)]
    curves = [counted_work(delays, curve) for curve in sweep["engines"]]
    for engine, points in zip(engines, curves):
        if engine.formula(fine[0]) is not None:
            ax.plot(fine, [engine.formula(d) for d in fine], color=engine.colour, linestyle=engine.line, linewidth=1)
        ax.plot(*zip(*points), color=engine.colour, linestyle="none", marker=engine.marker)
    ax.set_xscale("log")
    duration_axis(ax.xaxis, delays[0], delays[-1])
    work_axis(ax, max(work for points in curves for _, work in points))
    ax.set_xlabel("delay")
    ax.set_ylabel("moves or looks per timer")
    last = [(points[-1][1], e) for e, points in zip(engines, curves) if points and points[-1][0] == delays[-1]]
    most, least = (pick(last, key=lambda p: p[0]) for pick in (max, min))
    return Picture(
        "work_by_delay", "Work per timer against delay",
        "Rounds cost a look per revolution, so their work grows with the delay; a cascade moves a timer at most once "
        f"per level: at {duration(delays[-1])} it is {number(most[0])} for {most[1].name} and {number(least[0])} for "
        f"{least[1].name}.",
        fig, rows_of_sweep("delay_ms", delays, engines, sweep), engines,
        f"Points: counted, {number(sweep['timers'])} timers each. Lines: the rules, one look per revolution begun and "
        "(levels − 1) × (1 − 1/size) moves; an engine with a window has none.")


def stacked(engines):
    """A row for each engine, all with the same axes."""
    fig, axes = canvas(0.62 * len(engines) + 0.75, len(engines), sharex=True, sharey=True, squeeze=False)
    for ax, engine in zip(axes[:, 0], engines):
        ax.set_title(engine.name, loc="left", fontsize=9, pad=2, color=INK)
        ax.set_yscale("log")
        ax.grid(axis="x", visible=False)
    return fig, axes[:, 0]


def limit_stacked(ax, low, top):
    ax.set_ylim(low, top)
    ax.yaxis.set_major_locator(FixedLocator([10**k for k in range(0, 13, 3) if 10**k <= top]))
    count_axis(ax.yaxis)


def along_time(data, engines):
    fig, axes = stacked(engines)
    rows, tops, swings = [["second", "engine", "timers_handled_per_second", "wakeups_per_second"]], [], []
    end = data["workload"]["ends_at_ms"]
    unit, length = next(each for limit, *each in ((4 * 86400e3, "d", 86400e3), (180e3, "min", 60e3), (2e3, "s", 1e3),
                                                  (-1, "ms", 1)) if end > limit)
    for ax, engine in zip(axes, engines):
        line = engine.data["timeline"]
        seconds = line["width_ms"] / 1e3
        work = [handled / seconds for handled in line["handled"]]
        rows += [[i * seconds, engine.data["engine"], w, wakes / seconds]
                 for i, (w, wakes) in enumerate(zip(work, line["wakeups"]))]
        tops.append((max(work, default=0), engine))
        swings.append((tops[-1][0] / (sum(work) / max(len(work), 1) or 1), engine))
        group = max(1, len(work) // PARTS)  # the highest of some, so that no spike is lost
        highest = [max(0.3, *work[i:i + group]) for i in range(0, len(work), group)]
        ax.fill_between([i * group * line["width_ms"] / length for i in range(len(highest))], [0.3] * len(highest),
                        highest, step="post", color=engine.colour, linewidth=0.4)
    limit_stacked(axes[0], 0.3, decade_above(max(10, max(top for top, _ in tops)) * 1.01))
    axes[-1].set_xlabel(f"time since the first arrival ({unit})")
    fig.supylabel("timers handled per second", fontsize=9.5)
    (top, highest), (swing, spiky) = (max(each, key=lambda p: p[0]) for each in (tops, swings))
    return Picture(
        "work_along_time", "Work along the run",
        f"Cascades come as spikes, rounds as a steady load: the busiest part of all is {number(top)} timers per "
        f"second, of {highest.name}; {spiky.name} swings most, up to {number(swing, 2)} times its own mean.", fig, rows)


def flush_sizes(data, engines):
    fig, axes = stacked(engines)
    rows = [["engine", "timers_from", "timers_to", "wakeups"]]
    for ax, engine in zip(axes, engines):
        for each in engine.data["flush_histogram"]:
            rows.append([engine.data["engine"], each["from"], each["to"], each["wakeups"]])
            if each["from"] > 0:
                ax.fill_between([each["from"], (each["to"] + 1) * 0.9], 0.4, each["wakeups"], color=engine.colour,
                                linewidth=0)
    drawn = [row for row in rows[1:] if row[1] > 0]
    last = max([2] + [row[2] + 1 for row in drawn])
    ax = axes[0]
    limit_stacked(ax, 0.4, decade_above(max([10] + [row[3] for row in drawn]) * 1.01))
    ax.set_xscale("log")
    ax.set_xlim(0.9, last * 1.1)
    ax.xaxis.set_major_locator(FixedLocator([10**k for k in range(0, 13) if 10**k <= last]))
    count_axis(ax.xaxis)
    axes[-1].set_xlabel("timers handled in one wake-up, in classes that double")
    fig.supylabel("wake-ups", fontsize=9.5)
    flushing = [e for e in engines if e.kind != "heap"] or engines
    most, least = (pick(flushing, key=lambda e: e.data["flush_max"]) for pick in (max, min))
    return Picture(
        "flush_sizes", "Sizes of the flushes",
        f"The far right is the pause that one flush could cost: up to {number(most.data['flush_max'])} timers for "
        f"{most.name}, and {number(least.data['flush_max'])} for {least.name}.", fig, rows, (),
        "Not drawn: wake-ups that found nothing. The service never holds its lock for more than 256 timers of a flush.")


def lateness(data, engines):
    fig, ax = canvas(3.4)
    rows = [["engine", "at_most_ms", "share_of_timers"]]
    groups = {}  # of engines whose timers are as late as each other's
    for engine in engines:
        late = engine.data["lateness_us"]
        parts = late["by_twentieth_of_a_tick"]
        total = max(sum(parts), 1)
        points = [((i + 1) * late["twentieth"] / 1e3, seen / total)
                  for i, seen in enumerate(itertools.accumulate(parts))]
        rows += [[engine.data["engine"], *point] for point in points]
        if total == sum(parts):
            groups.setdefault(tuple(points), []).append(engine)
    for index, (points, alike) in enumerate(sorted(groups.items(), key=lambda group: group[0][0])):
        engine = alike[0]
        label = (f"tick {duration(engine.tick_ms)}" if engine.latest_ms <= engine.tick_ms else
                 engine.kind if len(alike) == 1 else f"{engine.kind} and {len(alike) - 1} more")
        ax.plot(*zip(*points), color=engine.colour, linestyle=engine.line, marker=engine.marker, markersize=3)
        ax.annotate(label, points[-1], xytext=(8, 4 + 11 * (index % 2)), textcoords="offset points", ha="right",
                    color=engine.colour)
    ax.set_xscale("log")
    ends = [x for points in groups for x, _ in (points[0], points[-1])] or [engines[0].tick_ms]
    low, high = min(ends) / 4, max(ends) * 1.5
    ax.set_xlim(low, high)
    duration_axis(ax.xaxis, low, high)
    ax.set_ylim(-0.03, 1.2)
    ax.yaxis.set_major_locator(FixedLocator([0, 0.25, 0.5, 0.75, 1]))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v * 100:.0f} %"))
    ax.set_xlabel("later than asked, at most")
    ax.set_ylabel("share of the timers that fired")
    most = max(engines, key=lambda e: e.data["lateness_us"]["max"] or 0)
    early = sum(e.data["early"] for e in engines)
    if most.data["lateness_us"]["max"] is None:
        return Picture("lateness", "Lateness", "Nothing fired, so nothing was late.", fig, rows)
    return Picture(
        "lateness", "Lateness",
        "Lateness is what an engine rounds and nothing else: to its tick, to a tick in the window, or without cascades "
        f"to the tick of the level; {duration(most.latest_ms)} at most with {most.name}; "
        f"{'none is early' if early == 0 else f'{early} were early'}.", fig, rows, (),
        "".join(f"One line: {', '.join(e.name for e in alike)}. " for alike in groups.values() if len(alike) > 1)
        + "Virtual time: what the machine needs to wake a thread comes on top.")


def bars(engines, values, label):
    """The picture, and the engines with the most and the least, each with its value."""
    fig, ax = canvas(0.36 * len(engines) + 0.9)
    positive = [value for value in values if value and value > 0] or [1]
    low, high = 10 ** math.floor(math.log10(min(positive) * 0.7)), max(positive)
    ax.barh(range(len(engines)), [max((value or 0) - low, 0) for value in values], left=low,
            color=[e.colour for e in engines], height=0.62)
    ax.set_yticks(range(len(engines)), [e.name for e in engines])
    ax.invert_yaxis()
    ax.set_xscale("log")
    count_axis(ax.xaxis)
    ax.set_xlim(low, high * (high / low) ** 0.22 * 1.2)
    for place, value in enumerate(values):
        ax.annotate(number(value), (max(value or low, low), place), xytext=(4, 0), textcoords="offset points",
                    va="center")
    ax.grid(axis="y", visible=False)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel(label)
    return fig, *(pick(zip(values, engines), key=lambda pair: pair[0]) for pick in (max, min))


def table_of(engines, columns):
    """Rows of what the engines counted, by the names of the head: those of the file, unless others are given."""
    return [["engine", *columns], *([e.data["engine"], *(e.data[key] for key in columns.values())] for e in engines)]


def wakeups(data, engines):
    per_second = all(e.data["wakeups_per_s"] for e in engines)
    what = "wake-ups per second" if per_second else "wake-ups"
    fig, most, least = bars(engines, [e.data["wakeups_per_s" if per_second else "wakeups"] for e in engines],
                            what + (" between the first and the last firing" if per_second else ""))
    empty = max(engines, key=lambda e: e.data["empty_wakeups"])
    return Picture(
        "wakeups", "Wake-ups",
        "A wheel that counts rounds wakes on every tick, threads that poll at each tick of each level, and a hierarchy "
        f"where a bucket expires: {number(most[0])} {what} "
        f"for {most[1].name}, {number(least[0])} for {least[1].name}; {number(empty.data['empty_wakeups'])} wake-ups "
        f"of {empty.name} found nothing to do.", fig,
        table_of(engines, {"wakeups_per_second": "wakeups_per_s", "wakeups": "wakeups",
                           "empty_wakeups": "empty_wakeups"}))


def memory(data, engines):
    fig, most, least = bars(engines, [e.data["bytes_per_timer"] for e in engines],
                            "bytes of the engine per timer, at most pending at once")
    return Picture(
        "memory", "Memory",
        "Buckets that are full cost little"
        f"{'; a wheel with more slots than timers costs a chunk for nearly each' if most[1].kind == 'flat' else ''}: "
        f"{number(least[0])} bytes per timer for {least[1].name}, {number(most[0])} for {most[1].name}.", fig,
        table_of(engines, {name: name for name in ("bytes_per_timer", "bytes", "peak_pending")}))


def time_ratio(even):
    """The processor time of rounds by that of cascades against the delay in ticks, at the highest rate that was
    measured: between the points by straight lines, and after the last from the costs of a look and a move."""
    size, delays, run = even["size"], even["delay_ticks"], even["runs"][-1]
    cascades, rounds = run["hierarchical_ns_per_timer"], run["hashed_ns_per_timer"]

    def looks(ticks):
        return math.ceil(ticks / size)

    def ratio(ticks):
        last = delays[-1]
        if ticks >= last:
            return ((rounds[-1] + (looks(ticks) - looks(last)) * max(even["ns_per_look"], 0)) /
                    (cascades[-1] + (moves(ticks, size) - moves(last, size)) * max(even["ns_per_move"], 0)))
        after = next((i for i, delay in enumerate(delays) if delay > ticks), 0)
        if after == 0:
            return rounds[0] / cascades[0]
        share = math.log(ticks / delays[after - 1]) / math.log(delays[after] / delays[after - 1])
        between = (each[after - 1] + share * (each[after] - each[after - 1]) for each in (rounds, cascades))
        return next(between) / next(between)

    return ratio


def break_even_sentence(even):
    """The one break-even of the page."""
    run, size = even["runs"][-1], even["size"]
    rate, crossing = number(run["timers_per_tick"]), run["crossing_ticks"]
    if crossing <= 0:
        return (f"with {rate} timers per tick and {size} slots, cascades take less processor time than rounds at each "
                "delay")
    return (f"with {rate} timers per tick and {size} slots, rounds take less processor time than cascades up to a "
            f"delay of {number(round(crossing))} ticks, {number(crossing / size, 2)} revolutions, and more beyond")


def break_even(data, engines):
    even = data["break_even"]
    run = even["runs"][-1]
    limits = [0.9, 1.1, 2, 10, 100]
    labels = ["rounds take less", "about the same", "up to 2 times", "2 to 10 times", "10 to 100 times",
              "more than 100 times"]
    delays = [10 ** (k / 12) for k in range(0, 96 + 1)]
    ticks = [10 ** (k / 12) for k in range(-12, 36 + 1)]
    of_ticks = time_ratio(even)

    def ratio(delay, tick):
        return of_ticks(max(1, delay / tick))

    fig, ax = canvas(4.1)
    # One shape per class and row: cells side by side would show hairlines.
    for low, high in zip(ticks, ticks[1:]):
        classes = [sum(ratio(math.sqrt(d * e), math.sqrt(low * high)) > limit for limit in limits)
                   for d, e in zip(delays, delays[1:])]
        begin = 0
        for shade, cells in itertools.groupby(classes):
            end = begin + len(list(cells))
            ax.fill_between([delays[begin], delays[end]], low, high, color=COLOUR[f"h{shade}"], linewidth=0.6)
            begin = end
    crossing = run["crossing_ticks"]
    if crossing > 0:
        line = [t for t in ticks if crossing * t <= delays[-1]]
        ax.plot([crossing * t for t in line], line, color=INK, linewidth=1.2)
        ax.annotate(f"{number(round(crossing))} ticks", (crossing, 1), xytext=(8, -12), textcoords="offset points")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(delays[0], delays[-1])
    ax.set_ylim(ticks[0], ticks[-1])
    duration_axis(ax.xaxis, delays[0], delays[-1])
    duration_axis(ax.yaxis, ticks[0], ticks[-1])
    ax.grid(False)
    ax.set_xlabel("delay")
    ax.set_ylabel("tick")
    rows = [["delay_ms", "tick_ms", "time_of_rounds_by_time_of_cascades"]]
    rows += [[d, t, ratio(d, t)] for t in (0.1, 1, 10, 100, 1000) for d in delays]
    sentence = break_even_sentence(even)
    return Picture(
        "break_even", "Break-even over delay and tick",
        f"{sentence[0].upper()}{sentence[1:]}; far to the right rounds take many times as long.", fig, rows, (),
        f"Processor time of rounds as a multiple of that of cascades, both with {even['size']} slots, as measured with "
        f"{number(run['timers_per_tick'])} timers per tick; beyond {number(even['delay_ticks'][-1])} ticks computed "
        f"from {number(even['ns_per_look'], 2)} ns for a look and {number(even['ns_per_move'], 2)} ns for a move."
        f"{' Line: the break-even.' if crossing > 0 else ''}",
        "".join(f'<span class="key"><i style="background:var(--h{i})"></i>{text}</span>'
                for i, text in enumerate(labels)))


def break_even_measured(data, engines):
    even = data["break_even"]
    fig, ax = canvas(3.9)
    delays = even["delay_ticks"]
    rows = [["delay_ticks", "timers_per_tick", "hierarchical_ns_per_timer", "hashed_ns_per_timer"]]
    heights = {}  # of the labels, so that none covers another
    for run in sorted(even["runs"], key=lambda run: run["hashed_ns_per_timer"][-1]):
        heights[run["timers_per_tick"]] = max(run["hashed_ns_per_timer"][-1], 1.2 * max(heights.values(), default=0))
    for index, run in enumerate(even["runs"]):
        colour = COLOUR[f"c{index % 3}"]
        columns = [run[f"{kind}_ns_per_timer"] for kind in ("hierarchical", "hashed")]
        for kind, column in zip(("hierarchical", "hashed"), columns):
            ax.plot(delays, column, color=colour, linestyle=FAMILY[kind][0], marker=FAMILY[kind][1])
        rate = run["timers_per_tick"]
        ax.annotate(f"{number(rate)} per tick", (delays[-1], heights[rate]), xytext=(5, 0),
                    textcoords="offset points", va="center", color=colour)
        rows += [[d, run["timers_per_tick"], *times] for d, *times in zip(delays, *columns)]
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(delays[0] * 0.85, delays[-1] * 5)
    ax.xaxis.set_major_locator(FixedLocator([2**k for k in range(6, 15)]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: number(v)))
    ax.xaxis.set_minor_locator(NullLocator())
    plt.setp(ax.get_xticklabels(), rotation=40, ha="right", rotation_mode="anchor")
    ax.yaxis.set_major_locator(FixedLocator([5, 10, 20, 50, 100, 200, 500, 1000]))
    count_axis(ax.yaxis)
    ax.set_xlabel("delay (ticks)")
    ax.set_ylabel("ns per timer, added and fired")
    sentence = break_even_sentence(even)
    sentence = f"Against the delay, for three rates: {sentence}."
    fewer = "; ".join(
        f"with {number(run['timers_per_tick'])} per tick " +
        (f"up to {number(round(run['crossing_ticks']))} ticks" if run["crossing_ticks"] > 0 else "at no delay")
        for run in even["runs"][:-1])
    return Picture(
        "break_even_measured", "Break-even, measured", sentence, fig, rows, (),
        f"{even['size']} slots; {number(even['timers'])} timers of one delay; processor time of this machine. Rounds "
        f"take less {fewer}.",
        "".join('<span class="key"><svg viewBox="0 0 30 10"><path d="M1 5H29" stroke="var(--ink)" '
                f'stroke-width="2"{dashes}/></svg>{name}</span>'
                for name, dashes in (("cascades", ""), ("rounds", ' stroke-dasharray="5 3"'))))


def by_share_cancelled(data, engines):
    sweep = data["by_share_cancelled"]
    shares = sweep["share"]
    fig, ax = canvas(3.9)
    curves = [counted_work([share * 100 for share in shares], curve) for curve in sweep["engines"]]
    for engine, points in zip(engines, curves):
        if points:
            ax.plot(*zip(*points), **engine.style)
    work_axis(ax, max((work for points in curves for _, work in points), default=1))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:.0f} %"))
    ax.set_xlabel("share cancelled")
    ax.set_ylabel("moves or looks per timer")
    last = shares.index(0.95) if 0.95 in shares else len(shares) - 1
    drops = [(c["work_per_timer"][0], c["work_per_timer"][last], e) for e, c in zip(engines, sweep["engines"])
             if c["work_per_timer"][0]]
    told = [next((drop for drop in drops if drop[2].kind == kind), None) for kind in ("hierarchical", "hashed")]
    sentence = "No engine moves or looks at a timer here."
    if drops:
        sentence = (
            "A timer that is cancelled before its first cascade costs no move, but each revolution it waited through "
            "costs a look: "
            + "; ".join(f"with {shares[last] * 100:.0f} % cancelled, {e.name} goes from {number(a)} to {number(b)}"
                        for a, b, e in filter(None, told)) + ".")
    return Picture(
        "by_share_cancelled", "The share cancelled", sentence, fig,
        rows_of_sweep("share_cancelled", shares, engines, sweep), engines,
        f"{number(sweep['timers'])} timers of {duration(sweep['delay_ms'])}, cancelled {html.escape(sweep['when'])}.")


PICTURES = {"work_by_delay": by_delay, "work_along_time": along_time, "flush_sizes": flush_sizes, "lateness": lateness,
            "wakeups": wakeups, "memory": memory, "break_even": break_even, "break_even_measured": break_even_measured,
            "by_share_cancelled": by_share_cancelled}

STYLE = """
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 var(--font)}
main{max-width:1240px;margin:0 auto;padding:24px 16px 48px}
h1{font-size:1.6rem;line-height:1.2;margin:0 0 .6rem}
h2{font-size:1.1rem;margin:0 0 .2rem}
p{margin:0 0 .6rem;max-width:75ch}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem;margin:0 0 1rem}
dt{color:var(--muted)} dd{margin:0;overflow-wrap:anywhere}
#verdict{font-size:1.05rem;border-left:4px solid var(--c0);padding-left:12px}
#words{font-size:.92rem}
@media(min-width:900px){#words{grid-template-columns:max-content 1fr max-content 1fr}}
.wrong{border-left:4px solid var(--c1);padding-left:12px}
/* A table that goes on has a shadow on that side, which what is at its end covers, and a bar that does not hide. */
.scroll{overflow-x:auto;margin:0 0 1.5rem;background:
linear-gradient(to right,var(--paper) 50%,transparent) 0 0/40px 100% no-repeat local,
linear-gradient(to left,var(--paper) 50%,transparent) 100% 0/40px 100% no-repeat local,
linear-gradient(to right,rgb(128 128 128/.6),transparent) 0 0/16px 100% no-repeat scroll,
linear-gradient(to left,rgb(128 128 128/.6),transparent) 100% 0/16px 100% no-repeat scroll}
.scroll::-webkit-scrollbar{height:10px}
.scroll::-webkit-scrollbar-track{background:var(--grid)}
.scroll::-webkit-scrollbar-thumb{background:var(--muted);border-radius:5px}
table{border-collapse:collapse;font-size:.8rem;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .5rem;text-align:right;border-bottom:1px solid var(--grid);white-space:nowrap}
th{color:var(--muted);font-weight:600} th:first-child,td:first-child{text-align:left;padding-left:0}
.pictures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,480px),1fr));gap:32px}
figure{margin:0;min-width:0} figure>svg{display:block;width:100%;height:auto;margin:.4rem 0}
figcaption p{font-size:.95rem} .note{color:var(--muted);font-size:.82rem}
.keys{display:flex;flex-wrap:wrap;gap:.1rem 1rem;font-size:.82rem;margin:0 0 .4rem}
.key{display:inline-flex;align-items:center;gap:.35rem;white-space:nowrap} .key svg{width:30px;height:10px}
.key i{width:14px;height:14px}
details{font-size:.85rem} summary{cursor:pointer;color:var(--muted)} a{color:var(--c0)}
@media print{main{max-width:none;padding:0}.scroll{overflow:visible;background:none}
.pictures{grid-template-columns:1fr 1fr;gap:18px}figure{break-inside:avoid}details{display:none}}
"""


def variables():
    def block(index):
        return "".join(f"--{entry[0]}:{entry[index]};" for entry in THEME.values())

    font = "--font:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;"
    return (f":root{{color-scheme:light dark;{font}{block(1)}}}"
            f"@media screen and (prefers-color-scheme:dark){{:root{{{block(2)}}}}}")


def table(rows, limit=200):
    head = "".join(f"<th>{html.escape(str(cell))}</th>" for cell in rows[0])
    cells = (["" if c is None else number(c) if isinstance(c, (int, float)) else str(c) for c in row]
             for row in rows[1 : limit + 1])
    body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in cells)
    return ('<div class="scroll" role="region" aria-label="table, scrolls sideways" tabindex="0">'
            f'<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>')


def download(name, kind, text, label):
    encoded = base64.b64encode(text.encode()).decode()
    return f'<a download="{name}" href="data:{kind};base64,{encoded}">{label}</a>'


def key_of(engine):
    marker = MARKERS[engine.marker]
    return (f'<span class="key"><svg viewBox="0 0 30 10" aria-hidden="true"><path d="M1 5H29" stroke="{engine.css}" '
            'stroke-width="2" '
            f'stroke-dasharray="{engine.dashes}"/>{marker.format(f"fill={chr(34)}{engine.css}{chr(34)}")}</svg>'
            f'{engine.name}</span>')


def figure_of(picture):
    keys = picture.legend or "".join(key_of(engine) for engine in picture.key)
    rows = len(picture.rows) - 1
    shown = table(picture.rows) if rows <= 200 else f"<p>{number(rows)} rows: see the file.</p>"
    note = f'<p class="note">{picture.note}</p>' if picture.note else ""
    return f"""<figure id="{picture.name}"><figcaption><h2>{picture.title}</h2>
<p>{html.escape(picture.sentence)}</p></figcaption>
{picture.svg()}
<div class="keys">{keys}</div>{note}
<details><summary>Data</summary>
<p>{download(picture.name + ".csv", "text/csv", picture.csv(), picture.name + ".csv")}</p>
{shown}</details></figure>"""


def summary_table(engines):
    timed = any("ns_per_operation" in e.data for e in engines)
    head = ["engine", "moves / timer", "looks / timer", "wake-ups", "largest flush", "latest, ms",
            "bytes / timer"]
    rows = [head + (["ns / operation", "longest step, µs"] if timed else [])]
    for e in engines:
        d, added = e.data, max(e.data["added"], 1)
        row = [d["engine"], d["moves"]["total"] / added, d["looks"] / added, d["wakeups"],
               d["flush_max"] if e.kind != "heap" else None, e.latest_ms if d["fired"] else None, d["bytes_per_timer"]]
        row += [d.get("ns_per_operation"), d.get("longest_step_us")] if timed else []
        rows.append(row)
    return table(rows)


def work_of(engine):
    """Moves, looks and wake-ups per timer."""
    d = engine.data
    return (d["moves"]["total"] + d["looks"] + d["wakeups"]) / max(d["added"], 1)


def work_text(engine):
    return (f"{number(work_of(engine))} moves, looks and wake-ups together, with "
            f"{number(engine.data['bytes_per_timer'])} bytes")


def verdict(data, engines):
    """A paragraph on the workload, from its counts."""
    if all(e.data["fired"] == 0 for e in engines):
        return "Nothing fired on this workload, so there is nothing to choose by."
    finest = min(e.tick_ms for e in engines)
    punctual = [e for e in engines if e.latest_ms <= finest]
    # The comparisons of a heap are in no count.
    counted = [e for e in punctual if e.kind not in ("heap", "sorted")] or punctual  # moves, looks and wake-ups are all
    least, most = (pick(counted, key=work_of) for pick in (min, max))
    told = [f"Of the engines {'' if counted is punctual else 'without a heap '}that are late by at most "
            f"{duration(finest)}, {least.name} has the least to do for a timer: {work_text(least)}"]
    told[0] += f"; {most.name} has the most: {work_text(most)}." if most is not least else "."
    told += [f"The library's default has {work_text(e)}." for e in engines if e.kind == "default" and
             e not in (least, most)]
    idlest = min(engines, key=work_of)
    if idlest not in punctual:
        told.append(f"If timers may be late, {idlest.name} has the least of all, {number(work_of(idlest))}, and is "
                    f"late by up to {duration(idlest.latest_ms)}.")
    flushing = [e for e in engines if e.kind != "heap"]
    if flushing:
        small, large = (pick(flushing, key=lambda e: e.data["flush_max"]) for pick in (min, max))
        told.append(f"The largest piece of work at once is {number(large.data['flush_max'])} timers, with {large.name}"
                    + (f"; with {small.name} it is {number(small.data['flush_max'])}." if small is not large else "."))
    if any(e.kind == "heap" for e in engines):
        pending = max(e.data["peak_pending"] for e in engines)
        told.append("The heap's work is its comparisons, which are not counted: about "
                    f"{math.log2(max(pending, 2)):.0f} each time that a timer comes or goes, with {number(pending)} "
                    "pending.")
    if all("ns_per_operation" in e.data for e in engines):
        fast, slow = (pick(engines, key=lambda e: e.data["ns_per_operation"]) for pick in (min, max))
        told.append(f"In time, an operation costs from {number(fast.data['ns_per_operation'])} ns ({fast.name}) to "
                    f"{number(slow.data['ns_per_operation'])} ns ({slow.name}).")
    told.append(f"The break-even of rounds and cascades: {break_even_sentence(data['break_even'])}.")
    return " ".join(told)


def late_by_design(engines):
    """What a reader of the table must know."""
    late = [f"{e.name} by up to {number(800 / (e.slots - 1))} % of the delay" if e.kind == "noncascading" else
            f"{e.name} by up to {duration(e.tick_ms)}" if e.kind == "session" else
            f"{e.name} by up to its window of {duration(e.data['window_ms'])}"
            for e in engines if e.kind in ("noncascading", "session") or e.data["window_ms"]]
    return f"<p>Late by design: {html.escape(', '.join(late))}.</p>\n" if late else ""


def glossary(engines):
    present = {kind: meaning for kind, meaning in FAMILIES.items() if any(e.kind == kind for e in engines)}
    return "".join(f"<dt>{html.escape(word)}</dt><dd>{html.escape(meaning)}.</dd>"
                   for word, meaning in {**WORDS, **present}.items())


def page(data, text, engines):
    load, machine = data["workload"], data["machine"]
    facts = [
        ("Timers", number(load["timers"])), ("Delays", load["delays"]), ("Arrivals", load["arrivals"]),
        ("Cancelled", load["cancel"]), ("Window", duration(load["window_ms"])), ("Seed", str(load["seed"])),
        ("Fired", f"{number(engines[0].data['fired'])}; {number(engines[0].data['cancelled'])} cancelled"),
        ("Machine", f"{machine['processor']}, {machine['cores']} cores, {machine['memory_bytes'] / 2**30:.0f} GiB; "
         f"{machine['system']}; " f"{machine['compiler']}{'' if machine['optimised'] else ', not optimised'}"),
    ]
    listed = "".join(f"<dt>{name}</dt><dd>{html.escape(value)}</dd>" for name, value in facts)
    if data["problems"]:
        checked = ('<div class="wrong"><p>Counts that are not what the rules say:</p><ul>'
                   + "".join(f"<li>{html.escape(p)}</li>" for p in data["problems"]) + "</ul></div>")
    else:
        checked = ("<p>Every engine fired the same timers, each in the tick that its rule says, none early; "
                   "moves, looks and wake-ups are what the rules say.</p>")
    pictures = "\n".join(figure_of(draw(data, engines)) for draw in PICTURES.values())
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>Cascades against rounds</title>
<link rel="icon" href="data:,">
<style>{variables()}{STYLE}</style></head>
<body><main>
<h1>Cascades against rounds</h1>
<dl>{listed}</dl>
<p id="verdict">{html.escape(verdict(data, engines))}</p>
{checked}
{summary_table(engines)}
{late_by_design(engines)}<p>Counts are taken in virtual time and are exact; times are processor time. All of it is
in this page:
{download("comparison.json", "application/json", text, "comparison.json")}.</p>
<h2>Words and engines</h2>
<dl id="words">{glossary(engines)}</dl>
<div class="pictures">
{pictures}
</div>
</main></body></html>
"""


def standalone(picture):
    """An SVG file of its own; an engine's key goes into the picture."""
    handles = [plt.Line2D([], [], label=e.name, **e.style) for e in picture.key]
    if handles:
        picture.figure.axes[-1].legend(
            handles=handles, loc="upper center", bbox_to_anchor=(0.45, -0.17), ncol=2, frameon=False
        )
    text = picture.svg()
    end = text.index(">", text.index("<svg")) + 1
    return text[:end] + f"<style>{variables()}text{{font-family:var(--font)}}</style>" + text[end:]


def main():
    global PARTS
    if sys.argv[1:] == ["--check"]:
        return
    if len(sys.argv) == 5 and sys.argv[1] == "--picture" and sys.argv[2] in PICTURES:
        source, target = sys.argv[3:]
    elif len(sys.argv) == 3:
        source, target = sys.argv[1:]
    else:
        sys.exit(__doc__ + "\nNames: " + ", ".join(PICTURES))
    try:
        with open(source, encoding="utf-8") as file:
            text = file.read()
        data = json.loads(text)
        engines = [Engine(i, one) for i, one in enumerate(data["engines"])]
        if sys.argv[1] == "--picture":
            PARTS = 120  # a smaller file
            result = standalone(PICTURES[sys.argv[2]](data, engines))
        else:
            result = page(data, text, engines)
        with open(target, "w", encoding="utf-8") as file:
            file.write(result)
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"report.py: {type(error).__name__}: {error}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)

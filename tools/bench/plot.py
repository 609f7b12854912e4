#!/usr/bin/env python3
"""Draws what the benchmarks measured: plot.py DIRECTORY FILE...

Each FILE was written by engine_bench or service_bench with --benchmark_out=FILE. What several files or repetitions say
of one benchmark is drawn as its median. A picture for which there is nothing is left out, and an older one of it stays.
Drawn by Matplotlib, with the look of compare/report.py.
"""

import json
import math
import re
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "compare"))

import report  # noqa: E402
from report import COLOUR, INK, MUTED, FixedLocator, FuncFormatter, NullLocator  # noqa: E402
from report import Picture, count_axis, number, plt  # noqa: E402

# What the benchmarks are called, as WORKLOAD/CONTENDER/N or WORKLOAD<CONTENDER>/N, and in the pictures.
WORKLOADS = {
    "arm": "A  arm", "churn": "B  churn", "fire": "C  fire", "hold": "D  hold", "compensation": "E  compensation"}
DASHED, DOTTED, MIXED = (0, (4, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2))
CONTENDERS = {  # name, colour, marker, dashes; those of the service without _wheel and _queue
    "hierarchical_wheel": ("hierarchical_wheel", "c0", "o", "-"),
    "hierarchical_wheel_in_steps": ("hierarchical_wheel, 256 a step", "c0", "o", DOTTED),
    "hashed_wheel": ("hashed_wheel", "c1", "s", "-"),
    "heap_queue": ("heap_queue", "c2", "^", "-"),
    "flat": ("flat wheel", "c5", "D", "-"),
    "std_multimap": ("std::multimap", "c7", "v", DASHED),
    "std_priority_queue": ("std::priority_queue", "h0", "P", DASHED),
    "asio": ("Boost.Asio", "c3", "X", DASHED),
    "libuv": ("libuv", "c4", "<", DASHED),
    "libevent": ("libevent", "c6", ">", DASHED),
}
ALIASES = {"hierarchical": "hierarchical_wheel", "hashed": "hashed_wheel", "heap": "heap_queue", "boost_asio": "asio"}
# For contenders not named above.
SPARE = [("c7", "*", DOTTED), ("h4", "h", DOTTED), ("c5", "p", DOTTED)]

MILLION = 1_000_000
HALF_HOUR = 1_800_000  # milliseconds
WIDTH = 7.6  # inches of 72 units: at 800 pixels the letters are 14 high
BESIDE = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5), "frameon": False, "handlelength": 2.8}
ABOVE = {"loc": "lower left", "bbox_to_anchor": (-0.03, 1.0), "frameon": False, "columnspacing": 1.2}


class Result:
    """One benchmark: its name taken apart, and the median of each of its numbers."""

    def __init__(self, name, runs):
        match = re.match(r"(\w+)(?:<\s*([^>]*?)\s*>)?((?:/[^/]+)*)$", name)
        if match is None:
            raise ValueError(f"what kind of name is {name}?")
        self.workload, contender, rest = match[1], match[2], match[3].split("/")[1:]
        is_named = contender is None and rest and not re.match(r"\d+$|\w+:\d", rest[0])
        if is_named or self.workload.endswith("_by_wheel_size"):
            contender = rest.pop(0)
        self.contender = ALIASES.get(contender or "", contender or "")
        named = dict(part.split(":", 1) for part in rest if ":" in part)
        self.parameters = {key: int(value) for key, value in named.items() if value.isdecimal()}
        numbers = [int(part) for part in rest if part.isdecimal()]
        self.timers = self.parameters.get("timers", numbers[0] if numbers else None)
        self.producers = self.parameters.get("producers", 1)
        self.runs = runs

    def value(self, counter):
        """The median of a counter; None without one."""
        found = [run[counter] for run in self.runs if isinstance(run.get(counter), (int, float))]
        return statistics.median(found) if found else None

    @property
    def nanoseconds(self):
        return (self.value("per_timer") or 0) * 1e9


def results_of(texts):
    runs = {}
    for text in texts:
        for run in json.loads(text)["benchmarks"]:
            if run.get("run_type", "iteration") == "iteration" and not run.get("error_occurred"):
                runs.setdefault(run.get("run_name", run["name"]), []).append(run)
    return [Result(name, each) for name, each in runs.items()]


class Contender:
    def __init__(self, name, spare):
        self.name, colour, self.marker, self.line = CONTENDERS.get(name, (name, *SPARE[spare % len(SPARE)]))
        self.colour = COLOUR[colour]

    @property
    def style(self):
        return {"color": self.colour, "linestyle": self.line, "marker": self.marker, "label": self.name}


def contenders_of(results):
    """By name, ours first."""
    there = {result.contender for result in results}
    known = [name for name in CONTENDERS if name in there]
    others = sorted(there - set(known))
    return {name: Contender(name, max(0, index - len(known))) for index, name in enumerate(known + others)}


def size_axis(axis, sizes):
    """Numbers of timers, on a logarithmic axis."""
    axis.set_major_locator(FixedLocator(sizes))
    count_axis(axis)


def value_axis(ax, values, below, above, limits=True):
    """1, 10, 100, ..., or with 2 and 5 between if that is all that fits."""
    low, high = min(values) * below, max(values) * above
    ax.set_yscale("log")
    if limits:
        ax.set_ylim(low, high)
    steps = (1,) if high / low > 200 else (1, 2, 5)
    ax.yaxis.set_major_locator(
        FixedLocator([step * 10.0**k for k in range(-4, 12) for step in steps if low <= step * 10.0**k <= high]))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))


def label(axis, text):
    axis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))


def plot(ax, series):
    """Draws lines: each is points (x, y), and a style. Returns every y."""
    lines = [(sorted((x, y) for x, y in points if x is not None and y), style) for points, style in series]
    for points, style in filter(lambda line: line[0], lines):
        ax.plot(*zip(*points), **style)
    return [y for points, _ in lines for _, y in points]


def panel(height, series, x_label, y_label):
    """A picture of one panel with its lines and a legend beside it."""
    figure, ax = plt.subplots(figsize=(WIDTH, height))
    values = plot(ax, series)
    ax.set_xlabel(x_label)
    ax.set_ylabel(y_label)
    ax.legend(**BESIDE)
    return figure, ax, values


def by_workload(results):
    """A column for each workload, and a bar for each contender."""
    chosen = [each for each in results if each.workload in WORKLOADS and each.timers == MILLION and each.nanoseconds]
    if not chosen:
        return None
    columns = [name for name in WORKLOADS if any(result.workload == name for result in chosen)]
    contenders = contenders_of(chosen)
    figure, axes = plt.subplots(1, len(columns), figsize=(WIDTH, 0.27 * len(contenders) + 0.9), sharey=True,
                                sharex=True, squeeze=False)
    values = {(result.workload, result.contender): result.nanoseconds for result in chosen}
    high = max(values.values())
    left = 10 ** math.floor(math.log10(min(values.values()) * 0.8))
    for ax, workload in zip(axes[0], columns):
        ax.set_xscale("log")
        for row, (name, contender) in enumerate(contenders.items()):
            value = values.get((workload, name))
            if value is not None:
                ax.barh(row, value - left, left=left, height=0.72, color=contender.colour)
            ax.annotate("–" if value is None else number(value, 2), (value or left, row), xytext=(3, 0),
                        textcoords="offset points", va="center", fontsize=8.5)
        ax.set_title(WORKLOADS[workload], loc="left", color=INK, fontsize=9)
        ax.set_xlim(left, high * 6)
        ax.grid(axis="y", visible=False)
        ax.tick_params(axis="y", length=0)
        size_axis(ax.xaxis, [10.0**k for k in range(-1, 9, 2) if left <= 10.0**k <= high])
    axes[0][0].set_yticks(range(len(contenders)), [contender.name for contender in contenders.values()])
    axes[0][0].invert_yaxis()
    figure.supxlabel("ns per timer, logarithmic", fontsize=9.5)
    return Picture("engines_by_workload", "A million timers: ns per timer in each workload", "Shorter is better.",
                   figure)


def by_size(results):
    """A panel for each workload, a line for each contender against N."""
    shown = [name for name in WORKLOADS if len({r.timers for r in results if r.workload == name}) > 1]
    chosen = [result for result in results if result.workload in shown and result.nanoseconds]
    if not chosen:
        return None
    sizes = sorted({result.timers for result in chosen})
    figure, axes = plt.subplots(2, 3, figsize=(WIDTH, 5.4), sharex=True, sharey=True)
    for ax, workload in zip(axes.flat, shown):
        plot(ax, [([(r.timers, r.nanoseconds) for r in chosen if (r.workload, r.contender) == (workload, name)],
                   contender.style) for name, contender in contenders_of(chosen).items()])
        ax.set_title(WORKLOADS[workload], loc="left", color=INK)
        ax.tick_params(labelbottom=True)
    first = axes.flat[0]
    for ax in list(axes.flat)[len(shown):]:
        ax.set_axis_off()
    axes.flat[-1].legend(handles=first.get_legend_handles_labels()[0], loc="center", frameon=False, handlelength=2.8)
    first.set_xscale("log")
    first.set_xlim(sizes[0] * 0.6, sizes[-1] * 1.7)
    size_axis(first.xaxis, sizes if len(sizes) < 4 else sizes[::2])
    value_axis(first, [result.nanoseconds for result in chosen], 0.5, 2, limits=False)
    figure.supxlabel("timers pending", fontsize=9.5)
    figure.supylabel("ns per timer", fontsize=9.5)
    return Picture("engines_by_size", "Cost against the number of timers", "Flat is better.", figure)


def longest_step(results):
    chosen = [result for result in results if result.workload == "step" and result.value("step_max_us")]
    if not chosen:
        return None
    sizes = sorted({result.timers for result in chosen})
    figure, ax, values = panel(
        3.9, [([(r.timers, r.value("step_max_us")) for r in chosen if r.contender == name], contender.style)
              for name, contender in contenders_of(chosen).items()],
        "timers pending at first", "longest advance by 1 ms, µs")
    ax.set_xscale("log")
    ax.set_xlim(sizes[0] * 0.7, sizes[-1] * 1.5)
    size_axis(ax.xaxis, sizes)
    value_axis(ax, values, 0.5, 2, limits=False)
    return Picture("longest_step", "The longest single step against the number of timers",
                   "What others have to wait for a flush.", figure)


def levels_for(slots):
    """How many wheels of so many slots of a millisecond it takes to hold half an hour."""
    levels = 1
    while slots**levels < HALF_HOUR:
        levels += 1
    return levels


def by_wheel_size(results):
    kinds = {"churn_by_wheel_size": ("churn", "c0"), "fire_by_wheel_size": ("fire, cascades included", "c1")}
    chosen = [each for each in results if each.workload in kinds and each.contender.isdecimal() and each.nanoseconds]
    if not chosen:
        return None
    sizes = sorted({result.timers for result in chosen})
    styles = [{"linestyle": line, "marker": marker} for line, marker in zip(("-", DASHED, DOTTED, MIXED), "os^D")]
    figure, ax, values = panel(
        3.6,
        [([(int(r.contender), r.nanoseconds) for r in chosen if (r.workload, r.timers) == (workload, size)],
          {"color": COLOUR[colour], "label": f"{name}, {report.count_label(size)} timers"} | styles[index % 4])
         for workload, (name, colour) in kinds.items() for index, size in enumerate(sizes)],
        "slots of each wheel, of 1 ms; below, the levels that half an hour takes", "ns per timer")
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_locator(FixedLocator(sorted({int(result.contender) for result in chosen})))
    label(ax.xaxis, lambda value: f"{number(value, 4)}\n{levels_for(round(value))}")
    value_axis(ax, values, 0.7, 1.4)
    return Picture("cost_by_wheel_size", "Cost against the wheel size", "Delays up to half an hour.", figure)


def by_share(results):
    """A line for each contender against the share cancelled."""
    chosen = [r for r in results
              if r.workload == "compensation_by_share" and "cancelled" in r.parameters and r.nanoseconds]
    if not chosen:
        return None
    timers = MILLION if any(r.timers == MILLION for r in chosen) else max(r.timers for r in chosen)
    figure, ax, values = panel(
        3.9, [([(r.parameters["cancelled"], r.nanoseconds) for r in chosen
                if (r.contender, r.timers) == (name, timers)], contender.style)
              for name, contender in contenders_of(chosen).items()],
        "checks cancelled within ten minutes; the rest fire after thirty", "ns per timer")
    ax.xaxis.set_major_locator(FixedLocator(sorted({r.parameters["cancelled"] for r in chosen})))
    label(ax.xaxis, lambda value: f"{number(value)} %")
    value_axis(ax, values, 0.7, 1.4)
    return Picture("cost_by_share", f"Cost against the share cancelled, {report.count_label(timers)} checks",
                   "Lower is better.", figure)


def largest(results, workload):
    """Those of a workload with the most timers, up to a million."""
    found = [r for r in results if r.workload == workload and r.timers and r.timers <= MILLION
             and r.value("schedules_per_s")]
    return [r for r in found if r.timers == max(each.timers for each in found)]


def service_throughput(results):
    """On the left each service with one producer and more, on the right ours against the number of shards."""
    services, shards = largest(results, "schedule_then_cancel"), largest(results, "shards")
    if not services or not shards:
        return None
    figure, axes = plt.subplots(2, 2, figsize=(WIDTH, 5.2), sharey="row", sharex="col")
    contenders = contenders_of(services)
    producers = sorted({result.producers for result in services})
    width = 0.8 / len(contenders)
    for (bars, lines), what in zip(axes, ("schedule", "cancel")):
        counter = f"{what}s_per_s"
        for index, (name, contender) in enumerate(contenders.items()):
            rates = {r.producers: r.value(counter) for r in services if r.contender == name}
            bars.bar([producers.index(count) - 0.4 + (index + 0.5) * width for count in rates], list(rates.values()),
                     width * 0.92, color=contender.colour, label=contender.name)
        bars.grid(axis="x", visible=False)
        plot(lines, [([(r.parameters["shards"], r.value(counter)) for r in shards if r.producers == count],
                      {"color": COLOUR["c0"], "linestyle": ("-", DASHED, DOTTED)[index % 3],
                       "marker": "os^"[index % 3], "label": f"{count} producer{'s' if count > 1 else ''}"})
                     for index, count in enumerate(sorted({r.producers for r in shards}))])
        bars.set_ylabel(f"{what}: millions per second")
        bars.set_ylim(0, max(r.value(counter) for r in services + shards) * 1.12)
        label(bars.yaxis, lambda value: number(value / 1e6))
    bars, lines = axes[1]
    bars.set_xticks(range(len(producers)), [number(count) for count in producers])
    bars.set_xlabel("threads that schedule and cancel")
    lines.set_xscale("log", base=2)
    lines.xaxis.set_major_locator(FixedLocator(sorted({r.parameters["shards"] for r in shards})))
    label(lines.xaxis, number)
    lines.set_xlabel("shards, on the hierarchical wheel")
    for ax in axes[0]:
        ax.legend(ncol=2, handlelength=2.2, **ABOVE)
    return Picture("service_throughput",
                   f"The service: {report.count_label(services[0].timers)} checks scheduled, then cancelled",
                   "Higher is better.", figure)


def service_by_tick(results):
    chosen = sorted((r for r in results if "tick_us" in r.parameters and r.value("p99_us")),
                    key=lambda r: r.parameters["tick_us"])
    loads = sorted({r.timers for r in chosen}, reverse=True)
    heavy = [r for r in chosen if r.timers == loads[0]] if loads else []
    if len(heavy) < 2:
        return None
    ticks = [r.parameters["tick_us"] / 1e3 for r in heavy]
    figure, (late, cpu) = plt.subplots(1, 2, figsize=(WIDTH, 3.4))
    every = [*ticks]
    for name, colour, marker in (("p50", "c0", "o"), ("p99", "c1", "s"), ("max", "c3", "^")):
        column = [r.value(f"{name}_us") / 1e3 for r in heavy]
        late.plot(ticks, column, color=COLOUR[colour], marker=marker, label=name)
        every += column
    late.plot(ticks, ticks, color=MUTED, linestyle=DOTTED, label="one tick")
    seconds = []
    for timers, linestyle in zip(loads, ("-", DASHED, DOTTED)):
        name = report.count_label(timers)
        column = [r.value("cpu_s") for r in chosen if r.timers == timers]
        cpu.plot(ticks, column, color=COLOUR["c0"], marker="o", linestyle=linestyle, label=f"{name} timers")
        peer = [r.value("cpu_s") for r in results if r.workload == "lateness_without_tick" and r.timers == timers]
        for value in peer:
            cpu.axhline(value, color=COLOUR["c4"], linestyle=linestyle, label=f"Asio, {name}")
        seconds += column + peer
    for ax in (late, cpu):
        ax.set_xscale("log")
        ax.set_yscale("log")
        report.duration_axis(ax.xaxis, ticks[0], ticks[-1])
        ax.set_xlabel("tick")
    late.set_ylim(min(every) * 0.6, max(every) * 1.6)
    report.duration_axis(late.yaxis, min(every) * 0.6, max(every) * 1.6)
    late.set_ylabel("later than asked")
    late.legend(ncol=2, handlelength=1.6, **ABOVE)
    cpu.set_ylim(min(seconds) * 0.6, max(seconds) * 1.6)
    label(cpu.yaxis, number)
    cpu.set_ylabel("processor time, seconds")
    cpu.legend(ncol=2, handlelength=1.8, **ABOVE)
    return Picture("service_by_tick", f"The service: {report.count_label(loads[0])} timers at times of two seconds",
                   "A longer tick costs lateness and saves wake-ups.", figure)


PICTURES = (by_workload, by_size, longest_step, by_wheel_size, by_share, service_throughput, service_by_tick)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    try:
        results = results_of(Path(path).read_text(encoding="utf-8") for path in sys.argv[2:])
        drawn = 0
        for draw in PICTURES:
            picture = draw(results)
            if picture is None:
                print(f"==> left out: {draw.__name__}, which these files say nothing of", file=sys.stderr)
                continue
            path = Path(sys.argv[1]) / f"{picture.name}.svg"
            path.write_text(report.standalone(picture), encoding="utf-8")
            print(path)
            drawn += 1
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"plot.py: {type(error).__name__}: {error}")
    if drawn == 0:
        sys.exit("plot.py: nothing to draw: are these files of engine_bench and service_bench, from --benchmark_out?")
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Draws what the benchmarks measured: plot.py DIRECTORY FILE...

  plot.py --check      is the plotting tool there?

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
CONTENDERS = {  # name, colour, marker, dashes; those of the service without _wheel and _queue
    "hierarchical_wheel": ("hierarchical_wheel", "c0", "o", "-"),
    "hierarchical_wheel_in_steps": ("hierarchical_wheel, 256 a step", "c0", "o", (0, (1, 1.5))),
    "hashed_wheel": ("hashed_wheel", "c1", "s", "-"),
    "heap_queue": ("heap_queue", "c2", "^", "-"),
    "flat": ("flat wheel", "c5", "D", "-"),
    "std_multimap": ("std::multimap", "c7", "v", (0, (4, 2))),
    "std_priority_queue": ("std::priority_queue", "h0", "P", (0, (4, 2))),
    "asio": ("Boost.Asio", "c3", "X", (0, (4, 2))),
    "libuv": ("libuv", "c4", "<", (0, (4, 2))),
    "libevent": ("libevent", "c6", ">", (0, (4, 2))),
}
ALIASES = {"hierarchical": "hierarchical_wheel", "hashed": "hashed_wheel", "heap": "heap_queue", "boost_asio": "asio"}
# For contenders not named above.
SPARE = [("c7", "*", (0, (1, 1.5))), ("h4", "h", (0, (1, 1.5))), ("c5", "p", (0, (1, 1.5)))]
PER_TIMER, STEP_MAX = ("per_timer",), ("step_max_us", "step_max")  # seconds, microseconds
SCHEDULES, CANCELS = ("schedules_per_s",), ("cancels_per_s",)

MILLION = 1_000_000
HALF_HOUR = 1_800_000  # milliseconds
WIDTH = 7.6  # inches of 72 units: at 800 pixels the letters are 14 high


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
        self.runs = runs

    def value(self, names):
        """The median of the first of the counters that is there; None without one."""
        for name in names:
            found = [run[name] for run in self.runs if isinstance(run.get(name), (int, float))]
            if found:
                return statistics.median(found)
        return None


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


def points(results, workload, contender, names, scale=1):
    """(N, value), by N."""
    found = ((result.timers, result.value(names)) for result in results
             if (result.workload, result.contender) == (workload, contender))
    return sorted((n, value * scale) for n, value in found if n is not None and value)


def size_axis(axis, sizes):
    """Numbers of timers, on a logarithmic axis."""
    axis.set_major_locator(FixedLocator(sizes))
    count_axis(axis)


def log_axis(axis, low, high):
    """1, 10, 100, ..., or with 2 and 5 between if that is all that fits."""
    steps = (1,) if high / low > 200 else (1, 2, 5)
    axis.set_major_locator(
        FixedLocator([step * 10.0**k for k in range(-4, 12) for step in steps if low <= step * 10.0**k <= high]))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))


def by_workload(results):
    """A column for each workload, and a bar for each contender."""
    columns = [
        name for name in WORKLOADS if any(result.workload == name and result.timers == MILLION for result in results)]
    chosen = [result for result in results
              if result.workload in columns and result.timers == MILLION and result.value(PER_TIMER)]
    if not chosen:
        return None
    contenders = contenders_of(chosen)
    figure, axes = plt.subplots(1, len(columns), figsize=(WIDTH, 0.27 * len(contenders) + 0.9), sharey=True,
                                sharex=True, squeeze=False)
    values = {(result.workload, result.contender): result.value(PER_TIMER) * 1e9 for result in chosen}
    low, high = min(values.values()), max(values.values())
    left = 10 ** math.floor(math.log10(low * 0.8))
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
        ax.xaxis.set_major_locator(FixedLocator([10.0**k for k in range(-1, 9, 2) if left <= 10.0**k <= high]))
        count_axis(ax.xaxis)
    axes[0][0].set_yticks(range(len(contenders)), [contender.name for contender in contenders.values()])
    axes[0][0].invert_yaxis()
    figure.supxlabel("ns per timer, logarithmic", fontsize=9.5)
    rows = [["contender", *columns]] + [[name, *(values.get((workload, name)) for workload in columns)]
                                        for name in contenders]
    return Picture("engines_by_workload", "A million timers: ns per timer in each workload", "Shorter is better.",
                   figure, rows)


def by_size(results):
    """A panel for each workload, a line for each contender against N."""
    shown = [name for name in WORKLOADS if len({r.timers for r in results if r.workload == name}) > 1]
    chosen = [result for result in results if result.workload in shown and result.value(PER_TIMER)]
    if not chosen:
        return None
    contenders = contenders_of(chosen)
    sizes = sorted({result.timers for result in chosen})
    figure, axes = plt.subplots(2, 3, figsize=(WIDTH, 5.4), sharex=True, sharey=True)
    rows = [["workload", "contender", "timers", "ns_per_timer"]]
    for ax, workload in zip(axes.flat, shown):
        for name, contender in contenders.items():
            line = points(results, workload, name, PER_TIMER, 1e9)
            if line:
                ax.plot(*zip(*line), **contender.style)
                rows += [[workload, name, n, value] for n, value in line]
        ax.set_title(WORKLOADS[workload], loc="left", color=INK)
        ax.tick_params(labelbottom=True)
    handles = axes.flat[0].get_legend_handles_labels()[0]
    for ax in list(axes.flat)[len(shown):]:
        ax.set_axis_off()
    axes.flat[-1].legend(handles=handles, loc="center", frameon=False, handlelength=2.8)
    ax = axes.flat[0]
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(sizes[0] * 0.6, sizes[-1] * 1.7)
    size_axis(ax.xaxis, sizes if len(sizes) < 4 else sizes[::2])
    every = [row[3] for row in rows[1:]]
    log_axis(ax.yaxis, min(every) * 0.5, max(every) * 2)
    figure.supxlabel("timers pending", fontsize=9.5)
    figure.supylabel("ns per timer", fontsize=9.5)
    return Picture("engines_by_size", "Cost against the number of timers", "Flat is better.", figure, rows)


def longest_step(results):
    chosen = [result for result in results if result.workload in ("step", "fire") and result.value(STEP_MAX)]
    if not chosen:
        return None
    contenders = contenders_of(chosen)
    sizes = sorted({result.timers for result in chosen})
    figure, ax = plt.subplots(figsize=(WIDTH, 3.9))
    rows = [["contender", "timers", "longest_step_us"]]
    for name, contender in contenders.items():
        line = points(chosen, "step", name, STEP_MAX) or points(chosen, "fire", name, STEP_MAX)
        ax.plot(*zip(*line), **contender.style)
        rows += [[name, n, value] for n, value in line]
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(sizes[0] * 0.7, sizes[-1] * 1.5)
    size_axis(ax.xaxis, sizes)
    every = [row[2] for row in rows[1:]]
    log_axis(ax.yaxis, min(every) * 0.5, max(every) * 2)
    ax.set_xlabel("timers pending at first")
    ax.set_ylabel("longest advance by 1 ms, µs")
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, handlelength=2.8)
    return Picture("longest_step", "The longest single step against the number of timers",
                   "What others have to wait for a flush.", figure, rows)


def levels_for(slots):
    """How many wheels of so many slots of a millisecond it takes to hold half an hour."""
    levels = 1
    while slots**levels < HALF_HOUR:
        levels += 1
    return levels


def by_wheel_size(results):
    kinds = {"churn_by_wheel_size": ("churn", "c0"), "fire_by_wheel_size": ("fire, cascades included", "c1")}
    chosen = [result for result in results
              if result.workload in kinds and result.contender.isdecimal() and result.value(PER_TIMER)]
    if not chosen:
        return None
    sizes = sorted({result.timers for result in chosen})
    slots = sorted({int(result.contender) for result in chosen})
    figure, ax = plt.subplots(figsize=(WIDTH, 3.6))
    rows = [["workload", "timers", "wheel_size", "ns_per_timer"]]
    for workload, (label, colour) in kinds.items():
        for index, size in enumerate(sizes):
            line = sorted((int(r.contender), r.value(PER_TIMER) * 1e9) for r in chosen
                          if (r.workload, r.timers) == (workload, size))
            if line:
                ax.plot(*zip(*line), color=COLOUR[colour],
                        linestyle=("-", (0, (4, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))[index % 4],
                        marker="os^D"[index % 4], label=f"{label}, {report.count_label(size)} timers")
                rows += [[workload, size, *point] for point in line]
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.xaxis.set_major_locator(FixedLocator(slots))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{number(value, 4)}\n{levels_for(round(value))}"))
    every = [row[3] for row in rows[1:]]
    low, high = min(every) * 0.7, max(every) * 1.4
    ax.set_ylim(low, high)
    log_axis(ax.yaxis, low, high)
    ax.set_xlabel("slots of each wheel, of 1 ms; below, the levels that half an hour takes")
    ax.set_ylabel("ns per timer")
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, handlelength=2.8)
    return Picture("cost_by_wheel_size", "Cost against the wheel size", "Delays up to half an hour.", figure, rows)


def by_share(results):
    """A line for each contender against the share cancelled."""
    chosen = [r for r in results
              if r.workload == "compensation_by_share" and "cancelled" in r.parameters and r.value(PER_TIMER)]
    if not chosen:
        return None
    timers = MILLION if any(r.timers == MILLION for r in chosen) else max(r.timers for r in chosen)
    figure, ax = plt.subplots(figsize=(WIDTH, 3.9))
    rows = [["contender", "timers", "cancelled_percent", "ns_per_timer"]]
    for name, contender in contenders_of(chosen).items():
        line = sorted((r.parameters["cancelled"], r.value(PER_TIMER) * 1e9) for r in chosen
                      if (r.contender, r.timers) == (name, timers))
        if line:
            ax.plot(*zip(*line), **contender.style)
            rows += [[name, timers, *point] for point in line]
    ax.set_yscale("log")
    ax.xaxis.set_major_locator(FixedLocator(sorted({row[2] for row in rows[1:]})))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{number(value)} %"))
    every = [row[3] for row in rows[1:]]
    low, high = min(every) * 0.7, max(every) * 1.4
    ax.set_ylim(low, high)
    log_axis(ax.yaxis, low, high)
    ax.set_xlabel("checks cancelled within ten minutes; the rest fire after thirty")
    ax.set_ylabel("ns per timer")
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, handlelength=2.8)
    return Picture("cost_by_share", f"Cost against the share cancelled, {report.count_label(timers)} checks",
                   "Lower is better.", figure, rows)


def million_axis(ax, top):
    ax.set_ylim(0, top * 1.12)
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value / 1e6)))


def service_throughput(results):
    """On the left each service with one producer and more, on the right ours against the number of shards."""
    most = {workload: max((r.timers for r in results if r.workload == workload and r.timers and r.timers <= MILLION),
                          default=0)
            for workload in ("schedule_then_cancel", "shards")}
    services = [r for r in results
                if r.workload == "schedule_then_cancel" and r.timers == most[r.workload] and r.value(SCHEDULES)]
    shards = [r for r in results if r.workload == "shards" and r.timers == most[r.workload] and r.value(SCHEDULES)]
    if not services or not shards:
        return None
    figure, axes = plt.subplots(2, 2, figsize=(WIDTH, 5.2), sharey="row", sharex="col")
    contenders = contenders_of(services)
    rows = [["what", "contender", "producers", "shards", "per_second"]]
    for row, (label, names) in enumerate((("schedule", SCHEDULES), ("cancel", CANCELS))):
        producers = sorted({r.parameters.get("producers", 1) for r in services})
        width = 0.8 / len(contenders)
        for index, (name, contender) in enumerate(contenders.items()):
            for place, count in enumerate(producers):
                for result in services:
                    if (result.contender, result.parameters.get("producers", 1)) == (name, count):
                        axes[row][0].bar(place - 0.4 + (index + 0.5) * width, result.value(names), width * 0.92,
                                         color=contender.colour, label=contender.name if place == 0 else None)
                        rows.append([label, name, count, None, result.value(names)])
        axes[row][0].grid(axis="x", visible=False)
        for index, count in enumerate(sorted({r.parameters.get("producers", 1) for r in shards})):
            line = sorted(
                (r.parameters["shards"], r.value(names)) for r in shards if r.parameters.get("producers", 1) == count)
            axes[row][1].plot(*zip(*line), color=COLOUR["c0"], linestyle=("-", (0, (4, 2)), (0, (1, 1.5)))[index % 3],
                              marker="os^"[index % 3], label=f"{count} producer{'s' if count > 1 else ''}")
            rows += [[label, "hierarchical_wheel", count, *point] for point in line]
        axes[row][0].set_ylabel(f"{label}: millions per second")
        million_axis(axes[row][0], max(each[4] for each in rows[1:] if each[0] == label))
    axes[1][0].set_xticks(range(len(producers)), [number(count) for count in producers])
    axes[1][0].set_xlabel("threads that schedule and cancel")
    axes[1][1].set_xscale("log", base=2)
    axes[1][1].xaxis.set_major_locator(FixedLocator(sorted({r.parameters["shards"] for r in shards})))
    axes[1][1].xaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    axes[1][1].set_xlabel("shards, on the hierarchical wheel")
    for ax in axes[0]:
        ax.legend(loc="lower left", bbox_to_anchor=(-0.03, 1.0), ncol=2, frameon=False, columnspacing=1.2,
                  handlelength=2.2)
    timers = report.count_label(most["schedule_then_cancel"])
    return Picture("service_throughput", f"The service: {timers} checks scheduled, then cancelled", "Higher is better.",
                   figure, rows)


def service_by_tick(results):
    chosen = [r for r in results
              if r.workload == "lateness_by_tick" and "tick_us" in r.parameters and r.value(("p99_us",))]
    chosen.sort(key=lambda r: r.parameters["tick_us"])
    if len(chosen) < 2:
        return None
    ticks = [r.parameters["tick_us"] / 1e3 for r in chosen]
    figure, (late, cpu) = plt.subplots(1, 2, figsize=(WIDTH, 3.4))
    rows = [["tick_ms", "p50_ms", "p99_ms", "max_ms", "cpu_s_per_million"]]
    columns = []
    for name, label, colour, marker in (("p50_us", "p50", "c0", "o"), ("p99_us", "p99", "c1", "s"),
                                        ("max_us", "max", "c3", "^")):
        columns.append([r.value((name,)) / 1e3 for r in chosen])
        late.plot(ticks, columns[-1], color=COLOUR[colour], marker=marker, label=label)
    late.plot(ticks, ticks, color=MUTED, linestyle=(0, (1, 1.5)), label="one tick")
    columns.append([r.value(("cpu_s",)) / r.timers * MILLION for r in chosen])
    cpu.plot(ticks, columns[-1], color=COLOUR["c0"], marker="o")
    cpu.set_ylim(0, max(columns[-1]) * 1.15)
    rows += [list(row) for row in zip(ticks, *columns)]
    for ax in (late, cpu):
        ax.set_xscale("log")
        report.duration_axis(ax.xaxis, ticks[0], ticks[-1])
        ax.set_xlabel("tick")
    late.set_yscale("log")
    every = [value for column in columns[:3] for value in column] + ticks
    late.set_ylim(min(every) * 0.6, max(every) * 1.6)
    report.duration_axis(late.yaxis, min(every) * 0.6, max(every) * 1.6)
    late.set_ylabel("later than asked")
    late.legend(loc="lower left", bbox_to_anchor=(-0.03, 1.0), ncol=4, frameon=False, columnspacing=1.2, handlelength=2)
    cpu.set_ylabel("processor seconds per million timers")
    return Picture("service_by_tick", "The service: lateness and processor time against the tick",
                   "A longer tick costs lateness and saves wake-ups.", figure, rows)


PICTURES = (by_workload, by_size, longest_step, by_wheel_size, by_share, service_throughput, service_by_tick)


def main():
    if sys.argv[1:] == ["--check"]:
        return 0
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

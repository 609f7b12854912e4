#!/usr/bin/env python3
"""Counts the cells of the tables in docs/tuning.md again: table.py TIMING_WHEEL_COMPARE docs/tuning.md

Prints each beside the figure of the page, which must be the same, and some beside the figure that was computed for it
beforehand, from which arrivals at random may be 3 % off. Fails if one is wrong.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HIERARCHICAL = ("hierarchical:tick=1ms,size=20", "hierarchical:tick=1ms,size=512", "hierarchical:tick=10ms,size=64")
HASHED = ("hashed:tick=1ms,slots=512", "hashed:tick=10ms,slots=512", "hashed:tick=100ms,slots=512")
TOLERANCE = 0.03
AT_RANDOM = "poisson:555.5556"
MILLION = ("--timers", "1000000", "--delays", "constant:30min", "--arrivals")
# Of the worked example.
WORKED = {"500/s": ("--timers", "1800000", "--delays", "constant:30min", "--arrivals", "poisson:500",
                    "--cancel", "0.95,uniform:0s,10min")}


def per_timer(engine):
    return (engine["moves"]["total"] + engine["looks"]) / engine["added"]


def per_second(engine):
    return engine["wakeups_per_s"]


def flush_of(level):
    return lambda engine: engine["levels"][level]["largest_flush"]


def looks_per_tick(engine):
    """While all are pending: in the part of the run in which most are looked at."""
    line = engine["timeline"]
    ticks = line["width_ms"] * 1e6 / engine["tick_ns"]
    return max(line["handled"]) / ticks


# engine, what, the figure computed, how to count it
EVEN = ((HIERARCHICAL[0], "moves per timer", 3.8, per_timer), (HIERARCHICAL[0], "wake-ups per second", 455, per_second),
        (HIERARCHICAL[0], "largest flush", 88889, flush_of(4)), (HIERARCHICAL[1], "moves per timer", 2.0, per_timer),
        (HIERARCHICAL[1], "wake-ups per second", 427, per_second),
        (HIERARCHICAL[1], "largest flush", 145636, flush_of(2)), (HIERARCHICAL[2], "moves per timer", 2.0, per_timer),
        (HIERARCHICAL[2], "largest flush", 22756, flush_of(2)), (HASHED[0], "looks per timer", 3516, per_timer),
        (HASHED[0], "wake-ups per second", 1000, per_second), (HASHED[0], "looks per tick", 1953, looks_per_tick),
        (HASHED[1], "looks per timer", 352, per_timer), (HASHED[1], "wake-ups per second", 100, per_second),
        (HASHED[1], "looks per tick", 1953, looks_per_tick), (HASHED[2], "looks per timer", 35, per_timer),
        (HASHED[2], "wake-ups per second", 10, per_second), (HASHED[2], "looks per tick", 1953, looks_per_tick),
        ("heap", "moves per timer", 0, per_timer), ("heap", "wake-ups per second", 427, per_second))
BURST = ((HIERARCHICAL[0], "largest flush, top level", 1000000, flush_of(4)),
         (HIERARCHICAL[0], "largest flush, level below", 800000, flush_of(3)),
         (HIERARCHICAL[1], "largest flush, top level", 1000000, flush_of(2)),
         (HIERARCHICAL[1], "largest flush, level below", 51200, flush_of(1)),
         (HASHED[2], "timers in a slot", 10000, lambda engine: engine["flush_max"]))

COLUMNS = {
    "moves per timer": lambda engine: engine["moves"]["total"] / engine["added"],
    "looks per timer": lambda engine: engine["looks"] / engine["added"],
    "wake-ups": lambda engine: engine["wakeups"],
    "wake-ups per s": per_second,
    "largest flush": lambda engine: engine["flush_max"],
    "latest, ms": lambda engine: engine["lateness_us"]["max"] / 1000,
    "bytes per timer": lambda engine: engine["bytes_per_timer"],
}

# Of one machine: not counted.
TIMES = {"ns per operation", "longest step, µs"}
# The columns of the tables, without the window.
TABLES = {frozenset(COLUMNS) - {"wake-ups"}, frozenset(COLUMNS) - {"looks per timer", "bytes per timer"},
          frozenset(COLUMNS) - {"wake-ups", "latest, ms"}}


def counted(tool, engines, *workload):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "counts.json"
        command = [tool, *workload, "--json", str(path)]
        for engine in engines:
            command += ["--engine", engine]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return {engine["engine"]: engine for engine in json.loads(path.read_text())["engines"]}


def rows_of(page):
    """(window or rate, engine, {column: cell}) of each row of the tables that have counts of engines, without times."""
    worked = iter(WORKED)
    for head, body in re.findall(r"^\| engine (\|.*\|)\n\|[-| ]*\|\n((?:\|.*\|\n)+)", page, flags=re.MULTILINE):
        names = [name.strip() for name in head.strip("|").split("|")]
        if not {"window", *COLUMNS, *TIMES}.issuperset(names):
            continue
        otherwise = next(worked) if TIMES.issubset(names) else "none"
        for line in body.splitlines():
            engine, *cells = (cell.strip() for cell in line.strip("|").split("|"))
            cells = {name: cell for name, cell in zip(names, cells) if name not in TIMES}
            run = cells.pop("window", otherwise).replace(" ", "")
            yield "0s" if run == "none" else run, engine.strip("`"), cells


def is_shown_as(value, cell):
    """Whether the page shows the value so, rounded at its last digit."""
    text = cell.replace(" ", "")
    return abs(value - float(text)) <= 0.5001 * 10 ** -len(text.partition(".")[2])


def wrong_on_page(page, runs):
    wrong = total = 0
    print(f"\n{'engine':44}{'':10}{'':18}{'on the page':>12}{'counted':>15}")
    for window, name, cells in rows_of(page):
        for column, cell in cells.items():
            if cell == "–":
                continue
            value = COLUMNS[column](runs[window][name])
            good = is_shown_as(value, cell)
            wrong += not good
            total += 1
            print(f"{name:44}{window:10}{column:18}{cell:>12}{value:>15,.3f}{'' if good else '  WRONG'}")
    print(f"{total} cells, {wrong} wrong")
    return wrong


def show(title, cells, engines):
    print(f"\n{title}\n\n{'engine':32}{'':28}{'computed':>10}{'counted':>13}{'off':>8}")
    wrong = 0
    for engine, what, expected, count in cells:
        value = count(engines[engine])
        off = value / expected - 1 if expected else value
        wrong += abs(off) > TOLERANCE
        print(
            f"{engine:32}{what:28}{expected:>10,}{value:>13,.2f}{off:>8.1%}{'  WRONG' if abs(off) > TOLERANCE else ''}")
    print(f"{wrong} cells are off by more than {TOLERANCE:.0%}")
    return wrong


def main():
    tool, page = sys.argv[1], Path(sys.argv[2]).read_text(encoding="utf-8")
    engines = {"0s": dict.fromkeys(HIERARCHICAL + HASHED + ("heap",))}
    rows = list(rows_of(page))
    if not {frozenset(cells) for *_, cells in rows} >= TABLES:
        sys.exit("table.py: a table of the page is not there any more, or has other columns")
    for window, engine, _ in rows:
        engines.setdefault(window, {})[engine] = None
    runs = {run: counted(tool, names, *WORKED.get(run, (*MILLION, AT_RANDOM, "--window", run)))
            for run, names in engines.items()}
    wrong = show(f"arriving at random over half an hour ({AT_RANDOM})", EVEN, runs["0s"])
    wrong += show("arriving within 10 s (even:10s)", BURST,
                  counted(tool, HIERARCHICAL[:2] + HASHED[2:], *MILLION, "even:10s"))
    return 1 if wrong + wrong_on_page(page, runs) else 0


if __name__ == "__main__":
    sys.exit(main())

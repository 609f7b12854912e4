#!/usr/bin/env python3
"""Makes the table of the break-even in docs/tuning.md: break_even.py SOURCE_DIRECTORY [TIMING_WHEEL_COMPARE RUNS].

With a program it measures the break-even RUNS times, one after the other, and keeps what the program says in
benchmarks/results/break_even.jsonl. The table has medians of the runs there.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

PAGE = "docs/tuning.md"
RESULTS = "benchmarks/results/break_even.jsonl"
SHOWN = (256, 1024, 16384)
HEAD = ("| timers per tick | rounds are faster up to this delay, in ticks, run by run | cascades: ns at 256 / 1 024 / "
        "16 384 ticks | rounds: ns at the same delays | ns per move | ns per look |\n|---|---|---|---|---|---|\n")


def number(value):
    return f"{value:,.0f}".replace(",", " ") if value >= 100 else f"{value:.3g}"


def row(runs, at):
    """Of one rate of timers. A move is what cascades take more beyond two revolutions than below one; a look is by how
    much the time of rounds rises from 1 024 to 16 384 ticks, by the looks in between."""
    delays = runs[0]["delay_ticks"]
    one = [each["runs"][at] for each in runs]

    def median(engine, delay):
        return statistics.median(run[engine][delays.index(delay)] for run in one)

    def move(run):
        cascades = run["hierarchical_ns_per_timer"]
        return (statistics.mean(cascades[delays.index(1024):delays.index(16384)]) -
                statistics.mean(cascades[:delays.index(384)]))

    def times(engine):
        return " / ".join(number(median(engine, delay)) for delay in SHOWN)

    looks = (16384 - 1024) / runs[0]["size"]
    rounds = "hashed_ns_per_timer"
    crossings = ", ".join(number(run["crossing_ticks"]) if run["crossing_ticks"] else "–" for run in one)
    look = (median(rounds, 16384) - median(rounds, 1024)) / looks
    return (f"| {one[0]['timers_per_tick']:.0f} | {crossings} | {times('hierarchical_ns_per_timer')} | {times(rounds)} | "
            f"{number(statistics.median(map(move, one)))} | {number(look)} |\n")


def table(root):
    runs = [json.loads(line) for line in (root / RESULTS).read_text(encoding="utf-8").splitlines()]
    return HEAD + "".join(row(runs, at) for at in range(len(runs[0]["runs"])))


def measured(tool):
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder, "counts.json")
        subprocess.run([tool, "--timers", "262144", "--delays", "constant:1s", "--arrivals", "even:1s", "--engine", "heap",
                        "--json", told, "--report", Path(folder, "report.html")], check=True, stdout=subprocess.DEVNULL)
        all_of_it = json.loads(told.read_text(encoding="utf-8"))
    return all_of_it["break_even"] | {"machine": all_of_it["machine"]}


def main():
    root = Path(sys.argv[1])
    page = root / PAGE
    old = table(root) if (root / RESULTS).exists() else None
    if len(sys.argv) > 2:
        runs = [measured(sys.argv[2]) for _ in range(int(sys.argv[3]))]
        (root / RESULTS).write_text("".join(json.dumps(run) + "\n" for run in runs), encoding="utf-8")
        text = page.read_text(encoding="utf-8")
        if old and old in text:
            page.write_text(text.replace(old, table(root)), encoding="utf-8")
    print(table(root))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Runs the harness of README.md at several rates, and prints one line of JSON for each system and rate:

    sweep.py [--systems timing_wheel,pgboss,river] [--rates 200,800,2000] [--seconds 60] >>FILE
    sweep.py --table FILE              the table of docs/benchmarks.md

All systems take turns at each rate, each with a server made anew, 32 workers, and ten seconds before those that count.
HARNESS_SRC and the rest are those of run.py.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

RUN = Path(__file__).resolve().parent / "run.py"
LATENCIES = ("claim_p50_ms", "claim_p95_ms", "claim_p99_ms")


def cells(systems, rate, seconds):
    """Runs the systems at a rate, and yields a record of each, made from the summary of the harness."""
    results = Path(os.environ["HARNESS_SRC"]) / "results"
    before = set(results.glob("*/summary.json"))
    load = os.getloadavg()[0]
    subprocess.run([sys.executable, RUN, "run", "--skip-build", "--systems", systems, "--producer-rate", str(rate),
                    "--phase", "warmup=warmup:10s", "--phase", f"clean=clean:{seconds}s"],
                   stdout=sys.stderr, check=True)
    [summary] = set(results.glob("*/summary.json")) - before
    manifest = json.loads((summary.parent / "manifest.json").read_text(encoding="utf-8"))
    for system, block in json.loads(summary.read_text(encoding="utf-8"))["systems"].items():
        adapter = manifest["adapters"][system]  # some say a version that is not theirs; that of their lock file is
        metrics = block["phases"]["clean"]["metrics"]
        median = {name: values["median"] for name, values in metrics.items()}
        peaks = {name: values["peak"] for name, values in metrics.items()}
        yield {"when": time.strftime("%Y-%m-%d"), "load": round(load, 2), "system": system, "rate": rate,
               "seconds": seconds, "workers": 32,
               "version": adapter["revision"].get("pinned_version", adapter.get("version")),
               "enqueued_per_s": round(median["enqueue_rate"], 1), "done_per_s": round(median["completion_rate"], 1),
               **{name: round(median[name], 2) for name in LATENCIES}, "depth": median["queue_depth"],
               "dead_rows": sum(peak for name, peak in peaks.items() if name.startswith("n_dead_tup@"))}


def table(lines):
    head = ["asked for, jobs per s", "system", "written per s", "done per s", "p50, p95, p99 from write to begin, ms",
            "depth", "dead rows"]
    yield f"| {' | '.join(head)} |"
    yield "|---" * len(head) + "|"
    for line in lines:
        shown = [f"{line[name]:.0f}" if line[name] >= 20 else f"{line[name]:.1f}" for name in LATENCIES]
        rates = f"{line['enqueued_per_s']:.0f} | {line['done_per_s']:.0f}"
        yield (f"| {line['rate']} | {line['system']} {line['version'].removeprefix('v')} | {rates} | "
               f"{', '.join(shown)} | {line['depth']:.0f} | {line['dead_rows']:.0f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", default="timing_wheel,pgboss,river")
    parser.add_argument("--rates", default="200,800,2000")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--table", type=Path)
    arguments = parser.parse_args()
    if arguments.table:
        print(*table(map(json.loads, arguments.table.read_text(encoding="utf-8").splitlines())), sep="\n")
        return
    for rate in map(int, arguments.rates.split(",")):
        for cell in cells(arguments.systems, rate, arguments.seconds):
            print(json.dumps(cell), flush=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Prints the table of nodes in docs/scale.md: durable_nodes.py [PROGRAM], by default what ./dev bench builds.

It takes four minutes.

A run of nodes on one server, and on two with half of the checks each; one line for each, leased / transactional.
"""

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[2] / "build/bench/benchmarks/durable_nodes_bench"
HEAD = """| nodes | servers | checks per second | late p50 | p99 | server's processor time | \
statements | rows read | WAL |
|---|---|---|---|---|---|---|---|---|"""


def spelled(runs):
    """One line: what both kinds of handlers did with as many nodes and servers."""
    nodes, servers, both = runs

    def pair(figure, unit="", digits=0):
        return " / ".join(f"{each[figure]:,.{digits}f}".replace(",", " ") for each in both) + unit

    rate = " / ".join(f"{round(each['per_s'], -2):,.0f}".replace(",", " ") for each in both)
    return (f"| {nodes} | {servers} | {rate} | {pair('p50_ms', ' ms', 1)} | {pair('p99_ms', ' ms', 1)} | "
            f"{pair('cpu_us', ' µs', 1)} | {pair('statements', '', 3)} | {pair('rows_read', '', 1)} | "
            f"{pair('wal', ' B')} |")


def table(measured):
    by_size = {}
    for run in measured["benchmarks"]:
        if run.get("error_occurred"):
            sys.exit(f"{run['name']}: {run['error_message']}")
        size = tuple(int(part.split(":")[1]) for part in run["name"].split("/")[2:4])
        by_size.setdefault(size, []).append(run)
        if run["early"]:
            sys.exit(f"{run['name']}: {run['early']:.0f} checks were early")
    return "\n".join([HEAD, *(spelled((*size, both)) for size, both in by_size.items())])


def main():
    if len(sys.argv) > 2 or "--help" in sys.argv:
        sys.exit(__doc__)
    program = sys.argv[1] if len(sys.argv) == 2 else str(PROGRAM)
    done = subprocess.run([program, "--benchmark_format=json"], stdout=subprocess.PIPE, text=True, check=True)
    print(table(json.loads(done.stdout)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

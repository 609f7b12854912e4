#!/usr/bin/env python3
"""Keeps what benchmarks measured, a line of JSON for each: record.py FILE... >>benchmarks/results/core.jsonl

  record.py --table RESULTS PATTERN COUNTER...    prints them as a table: medians, and the lowest and the highest round
  record.py --context                             prints what a result should tell of its run, for --benchmark_context

Each FILE is a round, which a benchmark wrote with --benchmark_out=FILE. PATTERN is a regular expression for names.
"""

import json
import re
import statistics
import subprocess
import sys
from pathlib import Path

NOT_MEASURED = {"family_index", "per_family_instance_index", "repetitions", "repetition_index", "threads", "iterations"}


def context_of_run():
    """The processor, and the commit, or what there is of both."""
    found = {}
    try:
        names = re.findall(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
        found["processor"] = names[0].replace(",", "").replace("=", "")
    except (OSError, IndexError):
        pass
    try:
        said = subprocess.run(["git", "describe", "--always", "--dirty", "--exclude=*"], capture_output=True, text=True,
                              cwd=Path(__file__).parent, check=True)
        found["commit"] = said.stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        pass
    return found


def machine(context):
    """The processor, if its run wrote it, and its larger caches; a virtual machine may tell those of its host."""
    sizes = [(f"L{cache['level']}", cache["size"]) for cache in context.get("caches", []) if cache["level"] > 1]
    return ", ".join([context.get("processor", f"{context['num_cpus']} processors")] +
                     [f"{level} {size / 2**20:.3g} MiB" for level, size in sizes])


def kept(paths):
    lines = {}
    for path in paths:
        written = json.loads(Path(path).read_text(encoding="utf-8"))
        context = written["context"]
        ran = {"when": context["date"][:10], "machine": machine(context)} | {
            name: context[name] for name in ("commit",) if name in context}
        for run in written["benchmarks"]:
            if run.get("run_type") == "aggregate" or run.get("error_occurred"):
                continue
            line = lines.setdefault((run["name"], *ran.values()), ran | {"name": run["name"]})
            for counter, value in run.items():
                if isinstance(value, (int, float)) and counter not in NOT_MEASURED:
                    line.setdefault(counter, []).append(float(f"{value:.4g}"))
    return lines.values()


def cell(rounds):
    if not rounds:
        return "–"
    low, middle, high = (f"{value:.3g}" for value in (min(rounds), statistics.median(rounds), max(rounds)))
    return middle if low == high else f"{middle} [{low}–{high}]"


def table(path, pattern, counters):
    lines = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
    chosen = [line for line in lines if re.search(pattern, line["name"])]
    if not chosen:
        sys.exit(f"record.py: no result in {path} has a name like {pattern}")
    yield "| | " + " | ".join(counters) + " |"
    yield "|---" * (len(counters) + 1) + "|"
    ran = None
    for line in chosen:
        if ran != (ran := f"{line['when']}, {line.get('machine', 'a machine that is not recorded')}"):
            yield f"| *{ran}* |" + " |" * len(counters)
        yield f"| {line['name']} | " + " | ".join(cell(line.get(counter)) for counter in counters) + " |"


def main():
    arguments = sys.argv[1:]
    try:
        if arguments == ["--context"]:
            print(",".join(f"{name}={value}" for name, value in context_of_run().items()))
        elif arguments[:1] == ["--table"] and len(arguments) > 3:
            print("\n".join(table(arguments[1], arguments[2], arguments[3:])))
        elif arguments and not arguments[0].startswith("-"):
            for line in kept(arguments):
                print(json.dumps(line))
        else:
            sys.exit(__doc__)
    except (OSError, ValueError, KeyError, re.error) as error:
        sys.exit(f"record.py: {type(error).__name__}: {error}")


if __name__ == "__main__":
    main()

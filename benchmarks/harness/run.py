#!/usr/bin/env python3
"""Runs the harness with one more system, timing_wheel; README.md has the commands. The arguments are the harness's.

HARNESS_SRC is a clone of the harness. TIMING_WHEEL_ADAPTER is the program, by default the one of the preset `bench`.
"""

import importlib
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILT = HERE.parents[1] / "build/bench/benchmarks/harness/harness_adapter"


def main():
    harness = Path(os.environ.get("HARNESS_SRC", ""))
    if not (harness / "bench_harness").is_dir():
        sys.exit("run.py: HARNESS_SRC names no clone of postgresql-job-queue-benchmarking")
    program = Path(os.environ.get("TIMING_WHEEL_ADAPTER", BUILT))
    if not os.access(program, os.X_OK):
        sys.exit(f"run.py: {program} is no program; README.md says how to build it")

    sys.path.insert(0, str(harness.resolve()))
    registry = importlib.import_module("bench_harness.adapters")

    def launch(manifest, overrides):
        # The harness has no other function for that.
        environment = registry._base_env(manifest, overrides)  # pylint: disable=protected-access
        return registry.LaunchSpec(argv=[str(program.resolve())], env=environment)

    registry.ADAPTERS["timing_wheel"] = registry.AdapterEntry(
        bench_dir=HERE, builder=lambda skip: None, launcher=launch)
    return importlib.import_module("bench_harness.orchestrator").main()


if __name__ == "__main__":
    sys.exit(main())

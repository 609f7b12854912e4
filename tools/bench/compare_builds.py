#!/usr/bin/env python3
"""Runs the benchmarks of two builds in turn.

compare_builds.py [OPTION...] DIRECTORY_A DIRECTORY_B [BENCHMARK_ARGUMENT...]

Takes every *_bench that both directories have, and each benchmark that both know, by itself: A B, B A, and so on, so
that what the machine does besides falls upon both. Prints the median of each, and B's time divided by A's, round by
round. A benchmark with a counter "per_timer" or "per_access", which are seconds, is compared by that, the others by
their real time; with
--counter, those that have it by that one, whatever it means.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

COUNTERS = ("per_timer", "per_access")  # in seconds
NANOSECONDS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}
LIMIT = 3600  # seconds for one benchmark once
ENOUGH_ROUNDS, ENOUGH_CHANGE = 5, 0.02
LEGEND = (f"faster, slower, less, more: in each of at least {ENOUGH_ROUNDS} rounds, and by {ENOUGH_CHANGE:.0%} or "
          "more; builds that are equal\n"
          "look so by chance for 1 benchmark in 16 with 5 rounds, and 1 in 512 with 10.")


class Failure(Exception):
    """A sentence for the user."""


def say(text):
    print(f"==> {text}", file=sys.stderr, flush=True)


def run(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        raise Failure(f"{' '.join(command)}: still running after {LIMIT} s") from None
    if done.returncode != 0:
        raise Failure(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr.strip()}")
    return done.stdout


def names_of(program, arguments):
    listed = run(str(program), *arguments, "--benchmark_list_tests=true").splitlines()
    return [] if any("Failed to match" in line for line in listed) else listed


def only(name):
    """A filter for one benchmark. Not re.escape: what that does to '<' and '-' other libraries read in another way."""
    return "--benchmark_filter=^" + re.sub(r"([][(){}.*+?|^$\\])", r"\\\1", name) + "$"


def nanoseconds(one):
    for name in COUNTERS:
        if name in one:
            return one[name] * 1e9
    return one["real_time"] * NANOSECONDS[one["time_unit"]]


def value_of(result, counter=None):
    """The median of a benchmark's repetitions, of what Google Benchmark wrote. None if it has no such counter."""
    runs = [each for each in result["benchmarks"] if each.get("run_type", "iteration") == "iteration"]
    if not runs:
        raise Failure("no result")
    broken = [each.get("error_message", "error") for each in runs if each.get("error_occurred")]
    if broken:
        raise Failure(broken[0])
    if counter is None:
        return statistics.median(nanoseconds(each) for each in runs)
    return statistics.median(each[counter] for each in runs) if all(counter in each for each in runs) else None


def measure(program, name, arguments, counter):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result.json"
        run(str(program), *arguments, only(name), f"--benchmark_out={path}", "--benchmark_out_format=json")
        try:
            return value_of(json.loads(path.read_text(encoding="utf-8")), counter)
        except (Failure, ValueError, KeyError) as error:
            raise Failure(f"{program}: {name}: {error}") from error


def order_of(number):
    """Which build goes first, and which second, in a round: A B, B A, A B, ..."""
    return (0, 1) if number % 2 == 0 else (1, 0)


class Comparison:
    """The times of one benchmark, in nanoseconds, a pair for each round; or what a counter says, which has no unit."""

    def __init__(self, name, pairs, counter=None):
        self.name = name
        self.short = short if counter is None else "{:.4g}".format
        self.times = list(zip(*pairs))
        self.medians = [statistics.median(times) for times in self.times]
        self.ratio = ratio(*self.medians)
        self.ratios = [ratio(a, b) for a, b in pairs]

    @property
    def verdict(self):
        """Only if all rounds agree, and there are enough of them for that to mean something."""
        agree = max(self.ratios) < 1 or min(self.ratios) > 1
        if not agree or len(self.ratios) < ENOUGH_ROUNDS or abs(self.ratio - 1) < ENOUGH_CHANGE:
            return ""
        less, more = ("faster", "slower") if self.short is short else ("less", "more")
        return less if self.ratio < 1 else more

    def cells(self):
        times = (f"{self.short(median)} ({self.short(min(each))}–{self.short(max(each))})"
                 for median, each in zip(self.medians, self.times))
        return [self.name, *times, f"{self.ratio:.3f}", f"{min(self.ratios):.3f}–{max(self.ratios):.3f}", self.verdict]


def ratio(before, after):
    return after / before if before != 0 else 1.0 if after == 0 else float("inf")


def short(time):
    """Three significant digits and a unit, of nanoseconds."""
    for unit, length in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if time >= length * 0.9995:
            break
    else:
        unit, length = "ns", 1
    value = time / length
    return f"{value:.{0 if value >= 99.95 else 1 if value >= 9.995 else 2}f} {unit}"


def table(comparisons, names):
    head = ["median (min–max)", *names, f"{names[1]} / {names[0]}", "in each round", ""]
    rows = [head] + [each.cells() for each in comparisons]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    return [
        f"{row[0]:{widths[0]}}  {'  '.join(f'{cell:>{width}}' for cell, width in zip(row[1:], widths[1:]))}".rstrip()
        for row in rows]


def common(folders, names, arguments):
    """Pairs of a program's name and a benchmark's that both builds have; says what only one has."""
    programs = [{path.name for path in folder.glob("*_bench")} for folder in folders]
    for this, other, name in ((0, 1, names[0]), (1, 0, names[1])):
        for lost in sorted(programs[this] - programs[other]):
            say(f"only {name} has {lost}")
    found = []
    for program in sorted(programs[0] & programs[1]):
        listed = [names_of(folder / program, arguments) for folder in folders]
        for this, other, name in ((0, 1, names[0]), (1, 0, names[1])):
            lost = [each for each in listed[this] if each not in listed[other]]
            if lost:
                say(f"only {name} has, in {program}: {', '.join(lost)}")
        found += [(program, each) for each in listed[1] if each in listed[0]]
    if not found:
        raise Failure("nothing to compare: the two builds have no benchmark in common that the arguments choose")
    return found


def compare(options):
    folders = [Path(options.a).resolve(), Path(options.b).resolve()]
    chosen = common(folders, options.names, options.arguments)
    pairs = {each: [] for each in chosen}
    show = short if options.counter is None else "{:.4g}".format
    for number in range(options.rounds):
        for done, (program, name) in enumerate(chosen, 1):
            where = f"round {number + 1} of {options.rounds}, {done} of {len(chosen)}: {name}"
            values = [None, None]
            for build in order_of(number):
                values[build] = measure(folders[build] / program, name, options.arguments, options.counter)
            if None in values:
                say(f"{where}: has no {options.counter}")
                continue
            pairs[program, name].append(values)
            say(f"{where}: {show(values[0])}, {show(values[1])}")
        chosen = [each for each in chosen if pairs[each]]
        if not chosen:
            raise Failure(f"nothing to compare: no benchmark has the counter {options.counter}")
    return [Comparison(name, pairs[program, name], options.counter) for program, name in chosen]


def positive(text):
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return int(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     allow_abbrev=False)
    parser.add_argument("--rounds", type=positive, default=5)
    parser.add_argument("--names", nargs=2, default=["A", "B"], metavar=("A", "B"))
    parser.add_argument("--counter", metavar="NAME")
    parser.add_argument("a", metavar="DIRECTORY_A")
    parser.add_argument("b", metavar="DIRECTORY_B")
    options, options.arguments = parser.parse_known_args()
    try:
        print("\n".join(table(compare(options), options.names)) + f"\n\n{LEGEND}")
    except (Failure, OSError, UnicodeError) as error:
        sys.exit(f"compare_builds.py: {error}")
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

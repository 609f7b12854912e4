#!/usr/bin/env python3
"""What compare_builds.py and record.py of tools/bench make of times: compare_builds_test.py SOURCE_DIRECTORY."""

import json
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
sys.path.insert(0, str(SOURCE / "tools" / "bench"))
sys.dont_write_bytecode = True

import compare_builds as script  # noqa: E402
import record  # noqa: E402

# A benchmark program that knows NAMES, takes TIME ns for each, and writes down that it was run.
PROGRAM = """#!{python}
import json, re, sys
names, time, log = {names!r}, {time!r}, {log!r}
flags = dict(argument.split("=", 1) for argument in sys.argv[1:])
chosen = [name for name in names if re.search(flags.get("--benchmark_filter", "."), name)]
if "--benchmark_list_tests" in flags:
    print("\\n".join(chosen))
    sys.exit(0)
with open(log, "a") as file:
    file.write(f"{{time}} {{' '.join(chosen)}}\\n")
runs = [{{"name": name, "run_type": "iteration", "real_time": time, "time_unit": "ns"}} for name in chosen]
with open(flags["--benchmark_out"], "w") as file:
    json.dump({{"benchmarks": runs}}, file)
"""


def result(*runs):
    return {"benchmarks": [{"run_type": "iteration", "time_unit": "us", **run} for run in runs]}


class Record(unittest.TestCase):
    def test_keeps_each_round_and_shows_medians_and_extremes(self):
        with tempfile.TemporaryDirectory() as folder:
            rounds = [Path(folder, str(number)) for number in range(3)]
            for path, nanoseconds in zip(rounds, (53.21111, 50.9, 54.2)):
                runs = result({"name": "a<b>/10", "cancel_ns": nanoseconds, "iterations": 7, "threads": 1},
                              {"name": "a<b>/10", "run_type": "aggregate", "cancel_ns": 1},
                              {"name": "failed", "error_occurred": True, "cancel_ns": 2})
                context = {"date": "2026-01-02T03:04:05", "num_cpus": 2, "processor": "a Z80",
                           "caches": [{"level": 1, "size": 32768}, {"level": 3, "size": 33554432}]}
                path.write_text(json.dumps({"context": context} | runs), encoding="utf-8")
            lines = list(record.kept(rounds))
            self.assertEqual(lines, [{"when": "2026-01-02", "machine": "a Z80, L3 32 MiB", "name": "a<b>/10",
                                      "cancel_ns": [53.21, 50.9, 54.2]}])
            kept = Path(folder, "kept")
            kept.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
            self.assertEqual(list(record.table(kept, "^a<", ["cancel_ns", "other"])),
                             ["| | cancel_ns | other |", "|---|---|---|", "| *2026-01-02, a Z80, L3 32 MiB* | | |",
                              "| a<b>/10 | 53.2 [50.9–54.2] | – |"])
            with self.assertRaises(SystemExit):
                list(record.table(kept, "nothing", ["cancel_ns"]))


class Figures(unittest.TestCase):
    def test_a_row_has_medians_extremes_and_the_ratios_of_rounds(self):
        # Rounds of (base, here); the median of the ratios would be 0.95.
        churn = script.Comparison("churn<wheel>/10000", [(100, 95), (80, 90), (120, 60), (90, 90.9), (200, 190)])
        self.assertEqual(
            re.split("  +", script.table([churn], ["main", "here"])[1]),
            ["churn<wheel>/10000", "100 ns (80.0 ns–200 ns)", "90.9 ns (60.0 ns–190 ns)", "0.909", "0.500–1.125"])
        self.assertEqual([script.short(time) for time in (0.5, 9.99, 99.9, 999, 999.9, 12_340, 1.5e9)],
                         ["0.50 ns", "9.99 ns", "99.9 ns", "999 ns", "1.00 µs", "12.3 µs", "1.50 s"])

    def test_only_enough_rounds_that_agree_have_a_verdict(self):
        for pairs, counter, verdict in (
                ([(10, 9), (10, 8), (10, 7), (10, 6), (10, 9)], None, "faster"),
                ([(9, 10), (8, 10), (7, 10), (6, 10), (9, 10)], None, "slower"),
                ([(10, 9), (10, 8), (10, 7), (10, 6), (10, 11)], None, ""),
                ([(9, 10)] * 4, None, ""), ([(1000, 1019)] * 5, None, ""), ([(200, 100)] * 5, "wakes", "less")):
            self.assertEqual(script.Comparison("x", pairs, counter).verdict, verdict)
        self.assertEqual(script.Comparison("x", [(0, 0)], "early").ratio, 1)
        self.assertEqual(script.Comparison("x", [(0, 1)], "early").ratio, float("inf"))

    def test_a_timer_counts_more_than_an_iteration_and_of_repetitions_the_median(self):
        self.assertEqual(script.value_of(result({"real_time": 2.5})), 2500)
        self.assertAlmostEqual(script.value_of(result({"real_time": 2.5, "per_timer": 3e-8})), 30)
        runs = [{"real_time": time} for time in (1, 9, 2)] + [{"real_time": 77, "run_type": "aggregate"}]
        self.assertEqual(script.value_of(result(*runs)), 2000)
        self.assertEqual(script.value_of(result({"real_time": 2.5, "per_timer": 3e-8, "wakes": 7}), "wakes"), 7)
        self.assertIsNone(script.value_of(result({"real_time": 2.5}), "wakes"))
        for broken in (result(), result({"error_occurred": True, "error_message": "no memory"})):
            with self.assertRaises(script.Failure):
                script.value_of(broken)
        self.assertEqual(script.only("churn<a, 2>/10.5/threads:2"), r"--benchmark_filter=^churn<a, 2>/10\.5/threads:2$")


class Programs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = Path(self.folder.name)
        self.log = self.root / "log"

    def build(self, name, time, **programs):
        folder = self.root / name
        folder.mkdir()
        for program, names in programs.items():
            path = folder / program
            path.write_text(PROGRAM.format(python=sys.executable, names=names, time=time, log=str(self.log)),
                            encoding="utf-8")
            path.chmod(0o755)
        return str(folder)

    def compared(self, *arguments):
        return subprocess.run([sys.executable, script.__file__, *arguments], capture_output=True, text=True, timeout=60,
                              check=False)

    def test_builds_run_in_turn_each_benchmark_by_itself(self):
        a, b = self.build("a", 200, x_bench=["one", "two"]), self.build("b", 100, x_bench=["one", "two"])
        done = self.compared("--rounds", "3", a, b)
        self.assertEqual(self.log.read_text().splitlines(), ["200 one", "100 one", "200 two", "100 two",
                                                             "100 one", "200 one", "100 two", "200 two",
                                                             "200 one", "100 one", "200 two", "100 two"])
        rows = [line.split() for line in done.stdout.splitlines()]
        self.assertEqual([(row[0], row[-2:]) for row in rows[1:3]],
                         [(name, ["0.500", "0.500–0.500"]) for name in ("one", "two")])

    def test_what_only_one_has_or_a_filter_leaves_out_is_not_compared(self):
        a = self.build("a", 200, x_bench=["one", "two", "old"], y_bench=["three"])
        b = self.build("b", 100, x_bench=["one", "two", "new"], z_bench=["four"])
        for arguments, left in (((), ["one", "two"]), (("--benchmark_filter=tw",), ["two"])):
            done = self.compared("--rounds", "1", "--names", "main", "here", a, b, *arguments)
            self.assertEqual([line.split()[0] for line in done.stdout.split("\n\n")[0].splitlines()[1:]], left)
            for sentence in ("only main has y_bench", "only here has z_bench"):
                self.assertIn(sentence, done.stderr)
            self.assertEqual("only main has, in x_bench: old" in done.stderr, not arguments)

    def test_what_cannot_be_compared_is_an_error(self):
        a, b = self.build("a", 1, x_bench=["one"]), self.build("b", 1, x_bench=["one"])
        c, d = self.build("c", 1, x_bench=["two"]), self.build("d", 1, x_bench=["one"])
        Path(d, "x_bench").write_text("#!/bin/sh\necho broken >&2\nexit 3\n", encoding="utf-8")
        for arguments, status, words in (
                (("--counter", "wakes", a, b), 1, "no benchmark has the counter wakes"),
                ((a, c), 1, "no benchmark in common"), ((a, d), 1, "exit code 3\nbroken"),
                (("--rounds", "0", a, b), 2, "positive"), (("--rounds", "two", a, b), 2, "positive")):
            done = self.compared(*arguments)
            self.assertEqual(done.returncode, status)
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])

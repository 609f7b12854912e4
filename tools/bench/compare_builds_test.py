#!/usr/bin/env python3
"""What tools/bench/compare_builds.py makes of times: compare_builds_test.py SOURCE_DIRECTORY."""

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


class Arithmetic(unittest.TestCase):
    # Rounds of (base, here); the median of the ratios would be 0.95.
    PAIRS = [(100, 95), (80, 90), (120, 60), (90, 90.9), (200, 190)]

    def test_the_ratio_is_that_of_the_medians(self):
        comparison = script.Comparison("churn", self.PAIRS)
        self.assertEqual(comparison.medians, [100, 90.9])
        self.assertAlmostEqual(comparison.ratio, 0.909)

    def test_the_range_is_that_of_the_rounds(self):
        comparison = script.Comparison("churn", self.PAIRS)
        self.assertAlmostEqual(min(comparison.ratios), 0.5)
        self.assertAlmostEqual(max(comparison.ratios), 1.125)

    def test_a_row_has_medians_extremes_and_ratios(self):
        row = script.table([script.Comparison("churn<wheel>/10000", self.PAIRS)], ["main", "here"])[1]
        self.assertEqual(
            re.split("  +", row),
            ["churn<wheel>/10000", "100 ns (80.0 ns–200 ns)", "90.9 ns (60.0 ns–190 ns)", "0.909", "0.500–1.125"])

    def test_only_rounds_that_agree_have_a_verdict(self):
        self.assertEqual(script.Comparison("x", self.PAIRS).verdict, "")
        self.assertEqual(script.Comparison("x", [(10, 9), (10, 8), (10, 7), (10, 6), (10, 9)]).verdict, "faster")
        self.assertEqual(script.Comparison("x", [(9, 10), (8, 10), (7, 10), (6, 10), (9, 10)]).verdict, "slower")

    def test_few_rounds_and_small_changes_have_no_verdict(self):
        self.assertEqual(script.Comparison("x", [(9, 10)] * 4).verdict, "")
        self.assertEqual(script.Comparison("x", [(1000, 1019)] * 5).verdict, "")

    def test_times_have_three_digits(self):
        self.assertEqual([script.short(time) for time in (0.5, 9.99, 99.9, 999, 999.9, 12_340, 1.5e9)],
                         ["0.50 ns", "9.99 ns", "99.9 ns", "999 ns", "1.00 µs", "12.3 µs", "1.50 s"])


class Results(unittest.TestCase):
    def test_times_are_in_nanoseconds(self):
        self.assertEqual(script.value_of(result({"real_time": 2.5})), 2500)

    def test_a_timer_counts_more_than_an_iteration(self):
        self.assertAlmostEqual(script.value_of(result({"real_time": 2.5, "per_timer": 3e-8})), 30)

    def test_of_repetitions_the_median_counts_and_aggregates_do_not(self):
        runs = [{"real_time": time} for time in (1, 9, 2)] + [{"real_time": 77, "run_type": "aggregate"}]
        self.assertEqual(script.value_of(result(*runs)), 2000)

    def test_another_counter_is_taken_as_it_is(self):
        self.assertEqual(script.value_of(result({"real_time": 2.5, "per_timer": 3e-8, "wakes": 7}), "wakes"), 7)
        self.assertIsNone(script.value_of(result({"real_time": 2.5}), "wakes"))
        self.assertEqual(
            script.Comparison("x", [(200, 100)] * 5, "wakes").cells()[1:3], ["200 (200–200)", "100 (100–100)"])
        self.assertEqual(script.Comparison("x", [(200, 100)] * 5, "wakes").verdict, "less")

    def test_a_counter_may_be_0(self):
        self.assertEqual(script.Comparison("x", [(0, 0)], "early").ratio, 1)
        self.assertEqual(script.Comparison("x", [(0, 1)], "early").ratio, float("inf"))

    def test_an_error_and_nothing_are_failures(self):
        for broken in (result(), result({"error_occurred": True, "error_message": "no memory"})):
            with self.assertRaises(script.Failure):
                script.value_of(broken)

    def test_a_filter_means_one_name(self):
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

    def test_what_only_one_has_is_said_and_left_out(self):
        a = self.build("a", 200, x_bench=["one", "old"], y_bench=["three"])
        b = self.build("b", 100, x_bench=["one", "new"], z_bench=["four"])
        done = self.compared("--rounds", "1", "--names", "main", "here", a, b)
        self.assertEqual([line.split()[0] for line in done.stdout.split("\n\n")[0].splitlines()[1:]], ["one"])
        for sentence in ("only main has y_bench", "only here has z_bench", "only main has, in x_bench: old",
                         "only here has, in x_bench: new"):
            self.assertIn(sentence, done.stderr)

    def test_a_filter_is_passed_on(self):
        a, b = self.build("a", 200, x_bench=["one", "two"]), self.build("b", 100, x_bench=["one", "two"])
        done = self.compared("--rounds", "1", a, b, "--benchmark_filter=tw")
        self.assertEqual([line.split()[0] for line in done.stdout.split("\n\n")[0].splitlines()[1:]], ["two"])

    def test_a_counter_that_no_benchmark_has_is_an_error(self):
        done = self.compared("--counter", "wakes", self.build("a", 1, x_bench=["one"]),
                             self.build("b", 1, x_bench=["one"]))
        self.assertEqual(done.returncode, 1)
        self.assertIn("no benchmark has the counter wakes", done.stderr)

    def test_nothing_in_common_is_an_error(self):
        done = self.compared(self.build("a", 1, x_bench=["one"]), self.build("b", 1, x_bench=["two"]))
        self.assertEqual(done.returncode, 1)
        self.assertIn("no benchmark in common", done.stderr)

    def test_a_program_that_fails_is_an_error(self):
        a, b = self.build("a", 1, x_bench=["one"]), self.build("b", 1, x_bench=["one"])
        Path(b, "x_bench").write_text("#!/bin/sh\necho broken >&2\nexit 3\n", encoding="utf-8")
        done = self.compared(a, b)
        self.assertEqual(done.returncode, 1)
        self.assertIn("exit code 3\nbroken", done.stderr)

    def test_rounds_are_positive(self):
        for rounds in ("0", "-1", "two"):
            self.assertEqual(self.compared("--rounds", rounds, "a", "b").returncode, 2)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])

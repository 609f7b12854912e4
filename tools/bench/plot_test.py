#!/usr/bin/env python3
"""What tools/bench/plot.py reads and draws: plot_test.py SOURCE_DIRECTORY.

Exits with 77, which skips the test, without Matplotlib.
"""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
SCRIPT = SOURCE / "tools" / "bench" / "plot.py"
SKIP = 77
sys.dont_write_bytecode = True


def written(*runs):
    return json.dumps({"benchmarks": [{"run_type": "iteration", **run} for run in runs]})


class Plot(unittest.TestCase):
    def drawn(self, *runs):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "result.json")
            file.write_text(written(*runs), encoding="utf-8")
            done = subprocess.run([sys.executable, "-B", SCRIPT, folder, file], capture_output=True, text=True,
                                  timeout=120, check=False)
            return done, {path.stem: path.read_text(encoding="utf-8") for path in Path(folder).glob("*.svg")}

    def test_takes_names_apart_and_the_median_of_what_several_files_say(self):
        for name, parts in (
                ("churn/hierarchical_wheel/1000000", ("churn", "hierarchical_wheel", 1_000_000, {})),
                ("churn<hierarchical_wheel>/1000000", ("churn", "hierarchical_wheel", 1_000_000, {})),
                ("fire_by_wheel_size/512/10000", ("fire_by_wheel_size", "512", 10_000, {})),
                ("schedule_then_cancel<boost_asio>/timers:1000000/producers:2/manual_time",
                 ("schedule_then_cancel", "asio", 1_000_000, {"timers": 1_000_000, "producers": 2})),
                ("start_and_stop/10000/threads:1", ("start_and_stop", "", 10_000, {"threads": 1}))):
            result = plot.Result(name, [])
            self.assertEqual((result.workload, result.contender, result.timers, result.parameters), parts)
        texts = [written({"name": "arm/flat/10", "per_timer": value}) for value in (1, 9, 2)]
        self.assertEqual([result.value("per_timer") for result in plot.results_of(texts)], [2])
        self.assertIsNone(plot.results_of([written({"name": "arm/flat/10"})])[0].value("per_timer"))
        self.assertEqual(plot.results_of([written({"name": "arm/flat/10", "run_type": "aggregate"},
                                                  {"name": "arm/flat/10", "error_occurred": True})]), [])
        self.assertEqual([plot.levels_for(slots) for slots in (16, 512, 1341, 1342, 4096)], [6, 3, 3, 2, 2])

    def test_draws_each_picture_that_there_is_something_for_on_one_line(self):
        engines = [{"name": f"{workload}/{name}/{n}", "per_timer": 1e-8 * n**0.1, "step_max_us": 50.0}
                   for workload in ("arm", "churn", "step") for name in ("hierarchical_wheel", "asio", "unheard_of")
                   for n in (10_000, 1_000_000)]
        sizes = [{"name": f"churn_by_wheel_size/{size}/10000", "per_timer": 3e-8} for size in (16, 64)]
        rates = {"schedules_per_s": 2e7, "cancels_per_s": 5e7}
        service = [{"name": f"{workload}:1000000/producers:{count}/shards:{count}"} | rates
                   for workload in ("shards/timers", "schedule_then_cancel<hierarchical>/timers") for count in (1, 2)]
        late = {"p50_us": 9, "p99_us": 99.0, "max_us": 999.0, "cpu_s": 1.0}
        ticks = [{"name": f"lateness_by_tick/timers:1000/tick_us:{tick}"} | late for tick in (100, 1000)]
        shares = [{"name": f"compensation_by_share/{name}/timers:1000000/cancelled:{share}", "per_timer": 3e-8}
                  for name in ("hierarchical_wheel", "libuv") for share in (0, 90)]
        done, pictures = self.drawn(*engines, *sizes, *shares, *service, *ticks)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(pictures), [
            "cost_by_share", "cost_by_wheel_size", "engines_by_size", "engines_by_workload", "longest_step",
            "service_by_tick", "service_throughput"])
        self.assertEqual({text.count("\n") for text in pictures.values()}, {1})
        self.assertIn("unheard_of", pictures["engines_by_workload"])
        self.assertIn("prefers-color-scheme:dark", pictures["engines_by_workload"])
        done, pictures = self.drawn({"name": "arm/flat/1000000", "per_timer": 1e-8})
        self.assertEqual(list(pictures), ["engines_by_workload"])
        self.assertIn("left out: longest_step", done.stderr)
        done, pictures = self.drawn({"name": "something/else"})
        self.assertEqual((done.returncode, pictures), (1, {}))
        self.assertIn("nothing to draw", done.stderr)


if __name__ == "__main__":
    sys.path.insert(0, str(SOURCE / "tools" / "bench"))
    try:
        import plot  # by the system's Python, which runs all of this then, if only that has Matplotlib
    except SystemExit:
        print("skipped: it needs python3-matplotlib", file=sys.stderr)
        sys.exit(SKIP)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])

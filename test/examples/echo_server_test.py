#!/usr/bin/env python3
"""The echo server on each of its timers: echo_server_test.py PROGRAM."""

import json
import subprocess
import sys
import unittest

PROGRAM = sys.argv[1]


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=120, check=False)


class EchoServer(unittest.TestCase):
    def test_closes_each_idle_connection_and_none_early(self):
        for timer in ("steady", "wheel", "loop"):
            with self.subTest(timer):
                for time in ("300ms", "3s"):  # on a busy machine the first may be over before the second round
                    ended = run("--timer", timer, "--connections", "300", "--time", time, "--idle", "3s", "--json")
                    self.assertEqual(ended.returncode, 0, ended.stderr)
                    seen = json.loads(ended.stdout)
                    if seen["messages"] > 300:
                        break
                self.assertEqual(seen["connections"], 300)
                self.assertEqual(seen["timed_out"], 300)
                self.assertEqual(seen["early"], 0)
                self.assertGreater(seen["messages"], 300)
                self.assertGreater(seen["memory_mib"], seen["memory_own_mib"])
                self.assertGreater(seen["memory_own_mib"], 0)
                self.assertGreaterEqual(seen["lateness_ms"]["max"], seen["lateness_ms"]["p50"])

    def test_prints_for_people(self):
        ended = run("--connections", "1", "--time", "50ms", "--idle", "500ms")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn("timer:        wheel_timer, loop_driver", ended.stdout)
        self.assertIn("timed out:    1, 0 early", ended.stdout)

    def test_refuses_what_it_cannot_do(self):
        for arguments in (["--timer", "cron"], ["--connections", "0"], ["--time", "5"], ["--idle", "soon"], ["more"],
                          ["--time", "nans"], ["--idle", "nan"], ["--connections", "nan"], ["--at-once", "-1"]):
            with self.subTest(arguments):
                ended = run(*arguments)
                self.assertEqual(ended.returncode, 2, ended.stdout)
                self.assertNotEqual(ended.stderr, "")
        self.assertEqual(run("--help").returncode, 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

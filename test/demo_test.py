#!/usr/bin/env python3
"""Runs the order compensation example as a user does: demo_test.py BINARY.

With TIMING_WHEEL_ORDERS=FILE.csv in the environment it also replays that file and compares the known counts.
"""

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BINARY = ""
HEADER = "order_id,order_status,order_purchase_timestamp,order_approved_at\n"
GOOD = HEADER + (
    "in-time,delivered,2018-01-01 00:00:00,2018-01-01 00:30:00\n"
    "too-late,delivered,2018-01-01 00:00:00,2018-01-01 00:30:01\n"
    "never,canceled,2017-12-31 23:00:00,\n"
)
KEYS = {
    "orders", "cancelled", "fired", "malformed", "early", "lateness_us", "pending", "stock", "wakeups",
    "bytes_per_check", "elapsed_s",
}


class DemoTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def file(self, text, name="orders.csv"):
        path = self.folder / name
        path.write_bytes(text.encode())
        return str(path)

    def demo(self, *arguments, status):
        command = [BINARY, *map(str, arguments)]
        print("$", shlex.join(command), flush=True)
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def figures(self, *arguments, status=0):
        path = self.folder / "figures.json"
        done = self.demo(*arguments, "--json", path, status=status)
        return json.loads(path.read_text()), done

    def assert_ledger_balances(self, figures):
        stock = figures["stock"]
        self.assertEqual(stock["reserved"], stock["confirmed"] + stock["given_back"] + stock["still_reserved"])

    def assert_refused(self, *arguments):
        done = self.demo(*arguments, status=2)
        self.assertEqual(done.stdout, "")
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        return done.stderr


class Replay(DemoTest):
    def test_decides_by_the_time_of_approval(self):
        figures, done = self.figures("--orders", self.file(GOOD))
        self.assertLessEqual(KEYS, figures.keys())
        self.assertEqual([figures[k] for k in ("orders", "cancelled", "fired", "malformed", "early", "pending")],
                         [3, 1, 2, 0, 0, 0])
        self.assertEqual(figures["lateness_us"], {"p50": 0, "p99": 0, "max": 0})
        self.assert_ledger_balances(figures)
        self.assertEqual(done.stderr, "")
        self.assertIn("✓", done.stdout)
        self.assertNotIn("✗", done.stdout)

    def test_repeats_the_file(self):
        once, _ = self.figures("--orders", self.file(GOOD))
        often, _ = self.figures("--orders", self.file(GOOD), "--repeat", 1000)
        for key in ("orders", "cancelled", "fired"):
            self.assertEqual(often[key], 1000 * once[key])
        self.assertEqual(often["stock"], {key: 1000 * units for key, units in once["stock"].items()})

    def test_takes_another_delay(self):
        figures, _ = self.figures("--orders", self.file(GOOD), "--delay", "1801s")
        self.assertEqual((figures["cancelled"], figures["fired"]), (2, 1))

    def test_reports_malformed_rows_and_goes_on(self):
        path = self.file(GOOD + "never,canceled,2018-01-01 00:00:00,\n" + "x,created,2018-02-30 00:00:00,\n" +
                         "y,created\n" + "z,created,2018-01-01 00:00:00,2017-12-31 00:00:00\n" +
                         "last,created,2018-01-01 00:00:00,")
        figures, done = self.figures("--orders", path, status=1)
        self.assertEqual((figures["orders"], figures["malformed"]), (4, 4))
        lines = done.stderr.splitlines()
        self.assertEqual([line.split(": ")[0] for line in lines], [f"{path}:{n}" for n in (5, 6, 7, 8)])
        self.assertIn("was on line 4 already", lines[0])

    def test_says_how_many_more_rows_are_malformed(self):
        path = self.file(HEADER + "x\n" * 30)
        done = self.demo("--orders", path, status=1)
        self.assertEqual(len(done.stderr.splitlines()), 21)
        self.assertIn("10 more", done.stderr)

    def test_reports_a_missing_column_and_an_empty_file(self):
        path = self.file("order_id,order_status,order_purchase_timestamp\na,b,2018-01-01 00:00:00\n")
        self.assertIn(f"{path}:1: ", self.demo("--orders", path, status=1).stderr)
        path = self.file("")
        self.assertIn(f"{path}:1: ", self.demo("--orders", path, status=1).stderr)

    def test_gives_the_known_counts_for_the_real_orders(self):
        orders = os.environ.get("TIMING_WHEEL_ORDERS", "")
        if not Path(orders).is_file():
            self.skipTest("TIMING_WHEEL_ORDERS names no file")
        for repeat in (1, 3):
            figures, _ = self.figures("--orders", orders, "--delay", "30min", "--repeat", repeat)
            self.assertEqual([figures[k] for k in ("orders", "cancelled", "fired", "malformed", "early", "pending")],
                             [5424 * repeat, 3038 * repeat, 2386 * repeat, 0, 0, 0])
            self.assertEqual(figures["lateness_us"]["max"], 0)
            self.assert_ledger_balances(figures)


class Refusals(DemoTest):
    def test_of_files(self):
        good = self.file(GOOD)
        self.assertIn("nosuch.csv", self.assert_refused("--orders", self.folder / "nosuch.csv"))
        self.assertIn("directory", self.assert_refused("--orders", self.folder))
        self.assert_refused("--orders", good, "--json", self.folder / "nosuch" / "figures.json")
        self.assert_refused("--orders", good, "--json", good)
        self.assertEqual(Path(good).read_text(), GOOD)

    @unittest.skipIf(os.geteuid() == 0, "root may read everything")
    def test_of_an_unreadable_file(self):
        good = self.file(GOOD)
        Path(good).chmod(0)
        self.assert_refused("--orders", good)

    def test_of_options(self):
        good = self.file(GOOD)
        for arguments in (("--delay", "-5s"), ("--delay", "5"), ("--delay", "5parsecs"), ("--repeat", "0"),
                          ("--repeat", "x"), ("--tick", "0s"), ("--wheel-size", "1"), ("--live",), ("--bogus",)):
            with self.subTest(arguments=arguments):
                self.assert_refused("--orders", good, *arguments)

    def test_is_not_help(self):
        self.assertIn("--orders", self.demo("--help", status=0).stdout)


class Live(DemoTest):
    def test_cancels_most_checks_and_fires_the_others(self):
        figures, done = self.figures("--live", "--checks", 2000, "--delay", "300ms", "--seed", 7, "--quiet")
        self.assertLessEqual(KEYS, figures.keys())
        self.assertEqual((figures["orders"], figures["early"], figures["pending"]), (2000, 0, 0))
        self.assertEqual(figures["cancelled"] + figures["late_approvals"], 1900)
        self.assertEqual(figures["fired"], 100 + figures["late_approvals"])
        self.assertEqual(figures["problems"], [])
        self.assertGreater(figures["wakeups"], 0)
        self.assertGreater(figures["bytes_per_check"], 0)
        self.assert_ledger_balances(figures)
        self.assertEqual(done.stderr, "")

    def test_creates_no_checks(self):
        figures, _ = self.figures("--checks", 0)
        self.assertEqual((figures["orders"], figures["stock"]["reserved"]), (0, 0))

    def test_shows_what_is_still_reserved_when_interrupted(self):
        path = self.folder / "figures.json"
        command = [BINARY, "--checks", "1000", "--delay", "1h", "--json", str(path)]
        print("$", shlex.join(command), "# and Ctrl-C", flush=True)
        # A line of progress comes after 2 s, when the checks are waiting for their time.
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
            running.stderr.readline()
            running.send_signal(signal.SIGINT)
            out, _ = running.communicate(timeout=60)
        figures = json.loads(path.read_text())
        self.assertEqual(running.returncode, 130)
        self.assertIn("interrupted", out)
        self.assertGreater(figures["pending"], 0)
        self.assertEqual(figures["orders"], figures["pending"] + figures["cancelled"])
        self.assertGreater(figures["stock"]["still_reserved"], 0)
        self.assert_ledger_balances(figures)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: demo_test.py BINARY [UNITTEST_ARGUMENT...]")
    BINARY = os.path.abspath(sys.argv.pop(1))
    unittest.main()

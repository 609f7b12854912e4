#!/usr/bin/env python3
"""Runs the order compensation example as a user does: demo_test.py BINARY.

With TIMING_WHEEL_ORDERS=FILE.csv in the environment it also replays that file and compares the known counts.
"""

import json
import os
import signal
import sys
import unittest
from pathlib import Path

from program_case import COMMAND, ProgramTest

HEADER = "order_id,order_status,order_purchase_timestamp,order_approved_at\n"
GOOD = HEADER + (
    "in-time,delivered,2018-01-01 00:00:00,2018-01-01 00:30:00\n"
    "too-late,delivered,2018-01-01 00:00:00,2018-01-01 00:30:01\n"
    "never,canceled,2017-12-31 23:00:00,\n"
)
COUNTS = ("orders", "cancelled", "fired", "malformed", "early", "pending")
KEYS = {*COUNTS, "lateness_us", "stock", "bytes_per_check", "elapsed_s"}


class OrderTest(ProgramTest):
    """For the demo with durable checks, too."""

    def setUp(self):
        super().setUp()
        self.json = self.folder / "figures.json"

    def arguments(self, *more):
        return [*more, "--json", self.json, "--quiet"]

    def figures(self, *arguments, status=0):
        done = self.run_program(*self.arguments(*arguments), status=status)
        return json.loads(self.json.read_text()), done

    def interrupted(self, number, *arguments, settle=0.2):
        status, out, _ = self.stop(self.arguments(*arguments), number, settle)
        self.assertEqual(status, 128 + number)
        self.assertIn(f"interrupted by {number.name}: a part of the run\n", out)
        figures = json.loads(self.json.read_text())
        self.assertEqual((figures["interrupted"], figures["interrupted_by"]), (True, number.name))
        self.assert_good(figures)
        return figures

    def interrupted_with_orders(self, number, *arguments, settle=0.2):
        """The same; on a busy machine the signal may come before the first order, and later the next time."""
        for times in (1, 10, 100):
            figures = self.interrupted(number, *arguments, settle=times * settle)
            if figures["orders"] > 0:
                break
        return figures

    def assert_good(self, figures):
        stock = figures["stock"]
        self.assertEqual(stock["reserved"], stock["confirmed"] + stock["given_back"] + stock["still_reserved"])
        self.assertEqual(figures["orders"], figures["pending"] + figures["cancelled"] + figures["fired"])
        self.assertEqual((figures["early"], figures["problems"]), (0, []))

    def assert_refused(self, *arguments):
        done = self.run_program(*arguments, status=2)
        self.assertEqual((done.stdout, len(done.stderr.splitlines())), ("", 1), done.stderr)
        return done.stderr


class Replay(OrderTest):
    def test_decides_by_the_time_of_approval_and_repeats_the_file(self):
        for repeat in (1, 1000):
            figures, done = self.figures("--orders", self.file(GOOD), "--repeat", repeat)
            self.assertLessEqual(KEYS, figures.keys())
            self.assertNotIn("wakeups", figures)  # no thread sleeps
            self.assertEqual([figures[k] for k in COUNTS], [3 * repeat, 1 * repeat, 2 * repeat, 0, 0, 0])
            self.assertEqual(figures["lateness_us"], {"p50": 0, "p99": 0, "max": 0})
            self.assert_good(figures)
            self.assertEqual(done.stderr, "")
            self.assertIn("✓", done.stdout)
            self.assertNotIn("✗", done.stdout)

    def test_reports_malformed_rows_and_goes_on(self):
        path = self.file(GOOD + "never,canceled,2018-01-01 00:00:00,\n" + "x,created\n" * 30 +
                         "last,created,2018-01-01 00:00:00,")
        figures, done = self.figures("--orders", path, status=1)
        self.assertEqual((figures["orders"], figures["malformed"]), (4, 31))
        lines = done.stderr.splitlines()
        self.assertEqual([line.split(": ")[0] for line in lines[:-1]], [f"{path}:{n}" for n in range(5, 25)])
        self.assertIn("was on line 4 already", lines[0])
        self.assertIn("11 more", lines[-1])

    def test_of_no_order_is_an_error_without_a_report(self):
        for text, line, reason in (
                ("", 1, "empty"),
                (HEADER, None, "no order"),
                (HEADER + "x\n", 2, "too few columns"),
                ("order_id,order_status,order_purchase_timestamp\na,b,2018-01-01 00:00:00\n", 1, "order_approved_at"),
                ("\n", 1, "empty"),
        ):
            with self.subTest(text=text[:40]):
                path = self.file(text)
                done = self.run_program(*self.arguments("--orders", path), status=1)
                told = done.stderr.splitlines()
                self.assertEqual(told[-1], f"order_compensation: {path}: there is no order to replay")
                self.assertIn(reason, done.stderr)
                self.assertTrue(line is None or told[0].startswith(f"{path}:{line}: "), told)
                self.assertEqual((done.stdout, self.json.exists()), ("", False))

    def test_interrupted_reports_its_part(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            figures = self.interrupted(number, "--orders", self.file(GOOD), "--repeat", 1_000_000)
            self.assertLess(figures["orders"], 3_000_000)

    def test_gives_the_known_counts_for_the_real_orders(self):
        orders = os.environ.get("TIMING_WHEEL_ORDERS", "")
        if not Path(orders).is_file():
            self.skipTest("TIMING_WHEEL_ORDERS names no file")
        for repeat in (1, 3):
            figures, _ = self.figures("--orders", orders, "--delay", "30min", "--repeat", repeat)
            self.assertEqual([figures[k] for k in COUNTS], [5424 * repeat, 3038 * repeat, 2386 * repeat, 0, 0, 0])
            self.assertEqual(figures["lateness_us"]["max"], 0)
            self.assert_good(figures)


class Refusals(OrderTest):
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
        for arguments in (("--delay", "-5s"), ("--delay", "5"), ("--delay", "107000d"), ("--repeat", "0"),
                          ("--repeat", "x"), ("--tick", "0s"), ("--wheel-size", "1"), ("--live",), ("--bogus",)):
            with self.subTest(arguments=arguments):
                self.assert_refused("--orders", good, *arguments)
        for number in ("-1", "nan", "18446744073709551616", "1.5", "", "one", "0x10", "1e6"):
            for option in ("--seed", "--checks", "--wheel-size"):
                with self.subTest(option=option, number=number):
                    told = self.assert_refused(option, number)
                    self.assertIn(f"{option}: '{number}' is not a whole number in [", told)
        told = self.assert_refused("--delay", "5parsecs")
        self.assertIn("--delay: '5parsecs' is not a duration: 'parsecs' is no unit", told)

    def test_and_the_help_name_what_the_user_typed(self):
        typed = {COMMAND: "./dev demo"}
        text = self.run_program("--help", status=0, **typed).stdout
        for words in ("Usage: ./dev demo [OPTIONS]", "Exit status: 0; 1 if", *HEADER.strip().split(",")):
            self.assertIn(words, text)
        told = self.run_program("--bogus", status=2, **typed).stderr
        self.assertTrue(told.startswith("./dev demo: "), told)
        self.assertIn("see ./dev demo --help", told)


class Outputs(OrderTest):
    def test_that_are_full_are_an_error(self):
        orders = ("--orders", self.file(GOOD))
        with open("/dev/full", "w", encoding="ascii") as full:
            for arguments in (("--help",), ("--checks", 0), (*orders, "--json", self.json)):
                done = self.run_program(*arguments, status=1, stdout=full)
                self.assertIn("order_compensation: cannot write to standard output: No space left", done.stderr)
        self.assertEqual(json.loads(self.json.read_text())["orders"], 3)
        done = self.run_program(*orders, "--json", "/dev/full", status=1)
        self.assertIn("✓", done.stdout)
        self.assertIn("order_compensation: cannot write /dev/full: No space left", done.stderr)


class Live(OrderTest):
    def test_cancels_most_checks_and_fires_the_others(self):
        figures, done = self.figures("--live", "--checks", "02000", "--delay", "300ms", "--seed", 7)
        self.assertLessEqual(KEYS, figures.keys())
        self.assertEqual((figures["orders"], figures["pending"]), (2000, 0))
        self.assertEqual(figures["cancelled"] + figures["late_approvals"], 1900)
        self.assertEqual(figures["fired"], 100 + figures["late_approvals"])
        self.assertGreater(figures["wakeups"], 0)
        self.assertGreater(figures["bytes_per_check"], 0)
        self.assert_good(figures)
        self.assertEqual(done.stderr, "")

    def test_shows_what_is_still_reserved_when_interrupted(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            figures = self.interrupted_with_orders(number, "--checks", 1000, "--delay", "1h")
            self.assertGreater(figures["pending"], 0)
            self.assertEqual(figures["fired"], 0)
            self.assertGreater(figures["stock"]["still_reserved"], 0)

    def test_ends_while_it_still_creates_checks(self):
        for _ in range(5):  # on a busy machine the signal may come when all are there
            figures = self.interrupted(signal.SIGTERM, "--checks", 3_000_000, "--delay", "1h", settle=0)
            if figures["orders"] < 3_000_000:
                break
        self.assertLess(figures["orders"], 3_000_000)

    def test_ends_at_once_at_the_second_signal(self):
        for second in (signal.SIGINT, signal.SIGTERM):
            self.assertEqual(self.stop_twice(["--checks", 1000, "--delay", "1h"], signal.SIGINT, second), -second)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: demo_test.py BINARY [UNITTEST_ARGUMENT...]")
    ProgramTest.program = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)

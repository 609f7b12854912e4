#!/usr/bin/env python3
"""Runs the order compensation example with durable checks, as a user does: durable_demo_test.py BINARY [--postgres]."""

import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
import unittest
from pathlib import Path

from program_case import ProgramTest

HEADER = "order_id,order_status,order_purchase_timestamp,order_approved_at\n"
ORDERS = HEADER + (
    "in-time,delivered,2018-01-01 00:00:00,2018-01-01 00:10:00\n"
    "too-late,delivered,2018-03-01 00:00:00,2018-03-01 00:30:01\n"
    "never,canceled,2017-12-31 23:00:00,\n"
)
KEYS = {
    "orders", "kills", "lost", "doubled", "early", "recovery_s", "lateness_us", "stock", "exact", "cancelled", "fired",
    "pending", "elapsed_s", "placed_per_s", "late_approvals", "earlier", "nodes", "server_kills", "takeovers",
    "recovered",
}


def children(pid):
    with contextlib.suppress(FileNotFoundError):
        return [int(child) for task in Path(f"/proc/{pid}/task").iterdir()
                for child in (task / "children").read_text(encoding="ascii").split()]
    return []


def lives(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


class DurableTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.database = self.folder / "shop.db"
        self.json = self.folder / "figures.json"

    def arguments(self, *more):
        return ["--durable", "--store", f"sqlite:{self.database}", "--json", self.json, "--quiet", *more]

    def figures(self, *more, status=0):
        done = self.run_program(*self.arguments(*more), status=status)
        return json.loads(self.json.read_text()), done

    def change(self, statement):
        with contextlib.closing(sqlite3.connect(self.database)) as database, database:
            database.execute(statement)

    def assert_exact(self, figures):
        self.assertEqual([figures[k] for k in ("exact", "lost", "doubled", "early", "problems")], [True, 0, 0, 0, []])
        stock = figures["stock"]
        self.assertEqual(stock["reserved"], stock["confirmed"] + stock["given_back"] + stock["still_reserved"])
        self.assertEqual(figures["orders"], figures["cancelled"] + figures["fired"] + figures["pending"])

    def interrupted(self, number):
        status, out, _ = self.stop(self.arguments("--delay", "1s", "--seconds", 60), number, settle=0.5)
        self.assertEqual(status, 128 + number)
        self.assertIn(f"interrupted by {number.name}: a part of the run\n", out)
        return json.loads(self.json.read_text())


class Kills(DurableTest):
    def test_lose_nothing_and_do_nothing_twice(self):
        figures, done = self.figures("--seconds", 3, "--kill", 0.3, "--delay", "500ms")
        self.assertLessEqual(KEYS, figures.keys())
        self.assert_exact(figures)
        self.assertGreaterEqual(figures["kills"], 3)
        self.assertEqual(figures["pending"], 0)
        self.assertGreater(figures["orders"], 0)
        self.assertGreater(figures["fired"], 0)
        self.assertGreater(figures["cancelled"], 0)
        self.assertLessEqual(figures["recovery_s"]["p50"], figures["recovery_s"]["max"])
        self.assertLessEqual(figures["lateness_us"]["p50"], figures["lateness_us"]["max"])
        self.assertNotIn("✗", done.stdout)
        self.assertEqual(done.stderr, "")

    def test_of_several_nodes_are_taken_over(self):
        figures, _ = self.figures("--seconds", 4, "--kill", 0.3, "--delay", "500ms", "--nodes", 3)
        self.assert_exact(figures)
        self.assertGreaterEqual(figures["kills"], 2)
        self.assertEqual((figures["recovered"], figures["takeovers"]), (figures["kills"], 0))  # a file has no shares
        self.assertEqual([node["node"] for node in figures["nodes"]], [1, 2, 3])
        self.assertEqual(sum(node["fired"] for node in figures["nodes"]), figures["fired"])


@unittest.skipUnless("--postgres" in sys.argv, "the program was built without PostgreSQL")
class Servers(DurableTest):
    def arguments(self, *more):
        return ["--durable", "--store", "postgres", "--json", self.json, "--quiet", *more]

    def test_that_are_killed_with_their_nodes_lose_nothing(self):
        figures, done = self.figures("--seconds", 10, "--kill", 0.3, "--kill-server", "--nodes", 3, "--delay", "500ms")
        self.assertLessEqual(KEYS, figures.keys())
        self.assert_exact(figures)
        self.assertGreaterEqual(figures["kills"], 3)
        self.assertGreaterEqual(figures["server_kills"], 1)
        self.assertEqual(figures["recovered"], figures["kills"])
        self.assertGreater(figures["takeovers"], 0)
        self.assertEqual(figures["pending"], 0)
        self.assertIn("durable, in a server of its own\n", done.stdout)
        self.assertNotIn("✗", done.stdout)
        self.assertEqual(done.stderr, "")

    def assert_hidden(self, password, store):
        """A worker uses the store, but anybody may read its arguments."""
        def arguments_of_worker():
            words = [Path(f"/proc/{child}/cmdline").read_bytes() for child in children(parent.pid)]
            return next((each for each in words if b"--worker" in each), None)
        arguments = ["--durable", "--store", store, "--quiet", "--seconds", 60]
        with self.running(arguments, stdout=subprocess.DEVNULL) as parent:
            self.wait_until(arguments_of_worker)
            self.assertNotIn(password, arguments_of_worker())
            self.assertIn(password, Path(f"/proc/{parent.pid}/cmdline").read_bytes())  # it was there to be seen

    @contextlib.contextmanager
    def server(self):
        """A run on a server of its own, whose address it tells while it runs. Yields it, and the folder."""
        arguments = ["--durable", "--store", "postgres", "--seconds", 60]
        with self.running(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as parent:
            told = re.search(r"psql 'host=(\S+)", parent.stderr.readline())
            self.assertIsNotNone(told)
            yield parent, Path(told.group(1))

    def test_go_with_a_program_that_is_killed(self):
        with self.server() as (parent, folder):
            self.assertTrue(folder.exists())
            parent.kill()
            parent.wait(timeout=60)
            self.wait_until(lambda: not folder.exists())

    def test_of_the_user_are_continued(self):
        with self.server() as (_, folder):
            store = f"postgres:host={folder} user=postgres dbname=template1 password=secret"
            for orders in (0, 1):
                json_file = self.folder / "own.json"
                done = self.run_program("--durable", "--store", store, "--json", json_file, "--quiet", "--seconds", 0.3,
                                        "--delay", "100ms", status=0)
                figures = json.loads(json_file.read_text())
                self.assert_exact(figures)
                self.assertEqual(figures["earlier"]["orders"] > 0, orders > 0)
                self.assertNotIn("secret", done.stdout + json_file.read_text())
            self.assert_hidden(b"secret", store)
            told = self.run_program("--durable", "--store", f"postgres:host={folder}/no", "--quiet", status=2).stderr
            self.assertIn("cannot use", told)


class Signals(DurableTest):
    def test_end_it_with_a_report_and_the_next_run_goes_on(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            self.assert_exact(self.interrupted(number))
        before = json.loads(self.json.read_text())
        figures, done = self.figures("--seconds", 0.1, "--delay", "100ms")
        self.assert_exact(figures)
        self.assertEqual(figures["earlier"], {"orders": before["orders"], "pending": before["pending"]})
        self.assertEqual(figures["pending"], 0)
        self.assertIn("of earlier runs", done.stdout)

    def test_that_kill_it_end_the_worker_too(self):
        with self.running(self.arguments("--seconds", 60), stdout=subprocess.DEVNULL) as parent:
            self.wait_until(lambda: children(parent.pid))
            time.sleep(0.2)
            worker = children(parent.pid)[0]
            parent.kill()
            parent.wait(timeout=60)
            self.wait_until(lambda: not lives(worker))
        self.assertEqual(self.figures("--seconds", 0.1, "--delay", "100ms")[0]["exact"], True)


class Ledger(DurableTest):
    def test_that_is_wrong_is_a_failure(self):
        self.figures("--seconds", 0.3, "--delay", "100ms")
        self.change("UPDATE stock SET on_hand=on_hand+1 WHERE product=(SELECT min(product) FROM orders)")
        figures, done = self.figures("--seconds", 0.1, "--delay", "100ms", status=1)
        self.assertFalse(figures["exact"])
        self.assertIn("wrong products 1", figures["problems"][0])
        self.assertIn("✗", done.stdout)

    def test_of_a_run_in_a_file_of_its_own_leaves_nothing_behind(self):
        before = set(Path(self.program).parent.iterdir())
        done = self.run_program("--durable", "--seconds", 0.2, "--delay", "100ms", "--quiet", status=0)
        self.assertIn("durable, in a file of its own\n", done.stdout)
        self.assertEqual({path.name for path in set(Path(self.program).parent.iterdir()) - before}, set())


class Orders(DurableTest):
    def test_of_a_file_are_spread_over_the_run(self):
        figures, _ = self.figures("--orders", self.file(ORDERS), "--repeat", 10, "--seconds", 1, "--delay", "300ms")
        self.assert_exact(figures)
        self.assertEqual((figures["orders"], figures["late_approvals"] + figures["cancelled"]), (30, 20))
        self.assertGreaterEqual(figures["fired"], 20)
        self.assertAlmostEqual(figures["speed"]["lives"], 6000)

    def test_that_are_malformed_are_told(self):
        orders = self.file(ORDERS + "x\n")
        figures, done = self.figures("--orders", orders, "--seconds", 0.1, "--delay", "100ms", status=1)
        self.assertEqual((figures["orders"], figures["malformed"]), (3, 1))
        self.assertIn("too few columns", done.stderr)


class Refusals(DurableTest):
    def assert_refused(self, *arguments):
        done = self.run_program(*arguments, status=2)
        self.assertEqual((done.stdout, len(done.stderr.splitlines())), ("", 1), done.stderr)
        return done.stderr

    def test_of_options(self):
        for arguments in (("--kill", "1"), ("--store", "sqlite:x"), ("--seconds", "1"), ("--orders-per-second", "1"),
                          ("--durable", "--nodes", "0"), ("--durable", "--kill-server", "--kill", "1"),
                          ("--durable", "--store", "postgres:host=x", "--kill-server", "--kill", "1"),
                          ("--durable", "--kill", "often"), ("--durable", "--live"), ("--durable", "--tick", "1ms"),
                          ("--durable", "--seconds", "-1"), ("--durable", "--seconds", "nan"),
                          ("--durable", "--orders-per-second", "nan(1)"), ("--durable", "--worker", "x")):
            with self.subTest(arguments=arguments):
                self.assertIn(arguments[-2] if len(arguments) > 2 else "--", self.assert_refused(*arguments))

    def test_of_stores(self):
        for store, reason in (("mysql:x", "is not sqlite:FILE"), ("sqlite:", "is not sqlite:FILE"),
                              (f"sqlite:{self.folder}", "directory"), (f"sqlite:{self.folder}/no/x.db", "cannot write"),
                              ("postgres:", "is not sqlite:FILE"), (f"sqlite:{self.file(ORDERS)}", "not a database")):
            with self.subTest(store=store):
                self.assertIn(reason, self.assert_refused("--durable", "--store", store))

    def test_of_orders_that_would_not_live(self):
        told = self.assert_refused(*self.arguments("--orders", self.file(ORDERS), "--delay", "0s"))
        self.assertIn("--delay", told)

    def test_of_a_database_of_something_else(self):
        self.change("CREATE TABLE songs(title)")
        self.assertIn("the tables of something else", self.assert_refused(*self.arguments()))
        self.assertFalse(self.json.exists())


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: durable_demo_test.py BINARY [--postgres] [UNITTEST_ARGUMENT...]")
    ProgramTest.program = os.path.abspath(sys.argv.pop(1))
    if "--postgres" in sys.argv:
        sys.argv.remove("--postgres")
    unittest.main(verbosity=2)

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
import unittest
from pathlib import Path

from demo_test import HEADER, OrderTest
from program_case import ProgramTest

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
SHORT = ("--seconds", 0.1, "--delay", "100ms")


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


class DurableTest(OrderTest):
    def setUp(self):
        super().setUp()
        self.use("shop.db")

    def use(self, database):
        self.database = self.folder / database
        self.store = f"sqlite:{self.database}"

    def arguments(self, *more):
        return super().arguments("--durable", "--store", self.store, *more)

    def change(self, statement):
        with contextlib.closing(sqlite3.connect(self.database)) as database, database:
            database.execute(statement)

    def assert_exact(self, figures):
        self.assert_good(figures)
        self.assertEqual([figures[k] for k in ("exact", "lost", "doubled")], [True, 0, 0])

    def with_kills(self, *arguments, kills, seconds=10):
        """A machine that does other work, too, takes longer between two kills: then it runs for twice as long."""
        figures, done = self.figures("--kill", 0.3, "--delay", "500ms", "--seconds", seconds, *arguments)
        self.assertLessEqual(KEYS, figures.keys())
        self.assert_exact(figures)
        if figures["kills"] < kills and seconds < 80:
            if self.store.startswith("sqlite:"):
                self.use(f"shop-{2 * seconds}.db")  # the figures of nodes are those of one run
            return self.with_kills(*arguments, kills=kills, seconds=2 * seconds)
        self.assertGreaterEqual(figures["kills"], kills)
        self.assertEqual((figures["recovered"], figures["pending"]), (figures["kills"], 0))
        self.assertGreater(figures["fired"], 0)
        self.assertGreater(figures["cancelled"], 0)
        self.assertEqual(sum(node["fired"] for node in figures["nodes"]), figures["fired"])
        for key in ("recovery_s", "lateness_us"):
            self.assertLessEqual(figures[key]["p50"], figures[key]["max"])
        self.assertNotIn("✗", done.stdout)
        self.assertEqual(done.stderr, "")
        return figures, done


class Kills(DurableTest):
    def test_lose_nothing_and_do_nothing_twice(self):
        self.with_kills(kills=3)

    def test_of_several_nodes_are_taken_over(self):
        figures, _ = self.with_kills("--nodes", 3, kills=2)
        self.assertEqual(figures["takeovers"], 0)  # a file has no shares
        self.assertEqual([node["node"] for node in figures["nodes"]], [1, 2, 3])


@unittest.skipUnless("--postgres" in sys.argv, "the program was built without PostgreSQL")
class Servers(DurableTest):
    def setUp(self):
        super().setUp()
        self.store = "postgres"

    def test_that_are_killed_with_their_nodes_lose_nothing(self):
        figures, done = self.with_kills("--kill-server", "--nodes", 3, kills=3)
        self.assertGreaterEqual(figures["server_kills"], 1)
        self.assertGreater(figures["takeovers"], 0)
        self.assertIn("durable, in a server of its own\n", done.stdout)

    def assert_hidden(self, password):
        """A worker uses the store, but anybody may read its arguments."""
        def arguments_of_worker():
            words = [Path(f"/proc/{child}/cmdline").read_bytes() for child in children(parent.pid)]
            return next((each for each in words if b"--worker" in each), None)
        with self.running(self.arguments("--seconds", 60), stdout=subprocess.DEVNULL) as parent:
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
            self.store = f"postgres:host={folder} user=postgres dbname=template1 password=secret"
            for has_orders in (False, True):
                figures, done = self.figures(*SHORT)
                self.assert_exact(figures)
                self.assertEqual(figures["earlier"]["orders"] > 0, has_orders)
                self.assertNotIn("secret", done.stdout + self.json.read_text())
            self.assert_hidden(b"secret")
            self.store = f"postgres:host={folder}/no"
            self.assertIn("cannot use", self.run_program(*self.arguments(), status=2).stderr)


class Signals(DurableTest):
    def test_end_it_with_a_report_and_the_next_run_goes_on(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            before = self.interrupted_with_orders(number, "--delay", "1s", "--seconds", 60, settle=0.5)
            self.assert_exact(before)
        figures, done = self.figures(*SHORT)
        self.assert_exact(figures)
        self.assertEqual(figures["earlier"], {"orders": before["orders"], "pending": before["pending"]})
        self.assertEqual(figures["pending"], 0)
        self.assertIn("of earlier runs", done.stdout)

    def test_that_kill_it_end_the_worker_too(self):
        with self.running(self.arguments("--seconds", 60), stdout=subprocess.DEVNULL) as parent:
            self.wait_until(lambda: children(parent.pid) and self.database.stat().st_size > 0)
            worker = children(parent.pid)[0]
            parent.kill()
            parent.wait(timeout=60)
            self.wait_until(lambda: not lives(worker))
        self.assert_exact(self.figures(*SHORT)[0])


class Ledger(DurableTest):
    def test_that_is_wrong_is_a_failure(self):
        self.figures(*SHORT)
        self.change("UPDATE stock SET on_hand=on_hand+1 WHERE product=(SELECT min(product) FROM orders)")
        figures, done = self.figures(*SHORT, status=1)
        self.assertFalse(figures["exact"])
        self.assertIn("wrong products 1", figures["problems"][0])
        self.assertIn("✗", done.stdout)

    def test_of_a_run_in_a_file_of_its_own_leaves_nothing_behind(self):
        before = set(Path(self.program).parent.iterdir())
        done = self.run_program("--durable", *SHORT, "--quiet", status=0)
        self.assertIn("durable, in a file of its own\n", done.stdout)
        self.assertEqual({path.name for path in set(Path(self.program).parent.iterdir()) - before}, set())


class Orders(DurableTest):
    def test_of_a_file_are_spread_over_the_run_and_the_malformed_told(self):
        orders = self.file(ORDERS + "x\n")
        arguments = ("--orders", orders, "--repeat", 10, "--seconds", 1, "--delay", "300ms")
        figures, done = self.figures(*arguments, status=1)
        self.assert_exact(figures)
        self.assertEqual((figures["orders"], figures["late_approvals"] + figures["cancelled"]), (30, 20))
        self.assertGreaterEqual(figures["fired"], 20)
        self.assertAlmostEqual(figures["speed"]["lives"], 6000)
        self.assertEqual(figures["malformed"], 1)
        self.assertIn("too few columns", done.stderr)


class Refusals(DurableTest):
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

    def test_of_orders_that_would_not_live_and_of_a_database_of_something_else(self):
        told = self.assert_refused(*self.arguments("--orders", self.file(ORDERS), "--delay", "0s"))
        self.assertIn("--delay", told)
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

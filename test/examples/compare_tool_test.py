#!/usr/bin/env python3
"""Runs the comparison tool as a user does: compare_tool_test.py BINARY."""

import json
import os
import signal
import sys
import threading
import unittest

from program_case import COMMAND, ProgramTest

HEADER = "order_id,order_status,order_purchase_timestamp,order_approved_at\n"
SMALL = ("--timers", 10, "--engine", "heap")
LONG = ("--timers", 200_000, "--delays", "uniform:1ms,30min", "--engine", "heap",
        *(("--engine", "hashed:slots=64") * 30))


class Outputs(ProgramTest):
    def test_that_are_full_are_an_error(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            for arguments in (["--help"], SMALL):
                told = self.run_program(*arguments, status=1, stdout=full).stderr
                self.assertEqual(told.splitlines(),
                                 ["timing_wheel_compare: cannot write to standard output: No space left on device"])
            path = self.folder / "counts.json"
            self.run_program(*SMALL, "--json", path, status=1, stdout=full)
            self.assertEqual(json.loads(path.read_text())["engines"][0]["fired"], 10)
        done = self.run_program(*SMALL, "--json", "/dev/full", status=1)
        self.assertIn("cannot write /dev/full: No space left", done.stderr)
        self.assertIn("every count is what the rules say", done.stdout)

    def test_that_are_too_large_are_an_error(self):
        path = self.folder / "counts.json"
        done = self.run_program(*SMALL, "--json", path, status=1, largest_file=100)
        self.assertIn(f"cannot write {path}: File too large", done.stderr)

    def test_to_files_do_not_need_a_reader_of_the_table(self):
        path = self.folder / "counts.json"
        reader, writer = os.pipe()
        os.close(reader)
        with open(writer, "w", encoding="ascii") as gone:
            self.run_program(*SMALL, "--json", path, status=-signal.SIGPIPE, stdout=gone)
        self.assertEqual(json.loads(path.read_text())["engines"][0]["fired"], 10)

    def test_say_that_nothing_fired(self):
        path = self.folder / "counts.json"
        done = self.run_program(*SMALL, "--cancel", 1, "--json", path, status=0)
        self.assertRegex(done.stdout, r"heap +0 .*nothing fired")
        engine = json.loads(path.read_text())["engines"][0]
        self.assertEqual([engine["lateness_ticks"][key] for key in ("max", "p50", "p99")], [None] * 3)
        self.assertEqual([engine["lateness_us"][key] for key in ("max", "p50", "p99")], [None] * 3)
        done = self.run_program(*SMALL, "--json", path, status=0)
        self.assertNotIn("nothing fired", done.stdout)
        self.assertEqual(json.loads(path.read_text())["engines"][0]["lateness_us"]["max"], 0)


class Files(ProgramTest):
    def test_without_a_timer_are_refused(self):
        capitals = HEADER.upper().encode() + b"a,b,2018-01-01 00:00:00,\n"
        for text, reason in ((b"", "the file is empty"), (b"\n", "the file is empty"), (b"delay_ms\n", "no row"),
                             (HEADER.encode(), "no row"),
                             (capitals, "line 1: the header has no column order_id"),
                             (b"1\n1,2\n", "line 2: too many columns"),
                             (b'1\n"2\n', "line 2: a quote is not closed"),
                             (b"abc\n5\n", "line 1: 'abc' is not a delay in milliseconds and not the header delay_ms"),
                             (b"1e400\n5\n", "line 1: '1e400' is not a delay in milliseconds"),
                             (b"\x7fELF" + bytes(20), "line 1: there is a NUL byte, so the line is not text"),
                             (HEADER.encode() + b"a,b,\x1b[31m,\n", "line 2: order_purchase_timestamp '?[31m'"),
                             (HEADER.encode() + b"a,b,1800-01-01 00:00:00,\n", "line 2: a time is not within 100"),
                             (b"1\nx\n", "line 2: 'x' is not a delay")):
            with self.subTest(text=text[:20]):
                done = self.run_program("--delays", "csv:" + self.file(text), "--engine", "heap", status=2)
                self.assertEqual((done.stdout, len(done.stderr.splitlines())), ("", 1))
                self.assertIn(reason, done.stderr)
                self.assertIn("accepted: one delay in milliseconds per row", done.stderr)

    def test_may_be_pipes(self):
        for text, fired in (("1\n2\n", 2), (HEADER + "a,b,2018-01-01 00:00:00,\n", 1), ("", None)):
            path = self.folder / "pipe.csv"
            os.mkfifo(path)
            writer = threading.Thread(target=path.write_text, args=(text,))
            writer.start()
            done = self.run_program("--delays", f"csv:{path}", "--engine", "heap", status=2 if fired is None else 0)
            writer.join()
            path.unlink()
            self.assertRegex(done.stdout + done.stderr, "is empty" if fired is None else rf"heap +{fired} ")


class Options(ProgramTest):
    def test_and_errors_name_what_the_user_typed(self):
        typed = {COMMAND: "./dev compare"}
        text = self.run_program("--help", status=0, **typed).stdout
        self.assertIn("Usage: ./dev compare [OPTIONS]", text)
        self.assertRegex(text, r"Exit status: 0; 1 if [^;]*; 2 if [^;]*; 130 after Ctrl-C, 143 after SIGTERM")
        told = self.run_program("--bogus", status=2, **typed).stderr
        self.assertTrue(told.startswith("./dev compare: "), told)
        self.assertIn("see ./dev compare --help", told)
        self.assertIn("Usage: timing_wheel_compare [OPTIONS]", self.run_program("--help", status=0).stdout)


class Interrupted(ProgramTest):
    def test_it_reports_the_engines_that_were_counted(self):
        path = self.folder / "counts.json"
        for number in (signal.SIGINT, signal.SIGTERM):
            status, out, err = self.stop([*LONG, "--json", path, "--quiet"], number, settle=3)
            self.assertEqual(status, 128 + number, out + err)
            counts = json.loads(path.read_text())
            self.assertEqual((counts["interrupted_by"], counts["problems"]), (number.name, []))
            self.assertLess(len(counts["engines"]), 30)
            self.assertIn(f"interrupted by {number.name}: engines counted until then: {len(counts['engines'])}\n", out)

    def test_it_ends_at_once_at_the_second_signal(self):
        self.assertEqual(self.stop_twice([*LONG, "--quiet"], signal.SIGTERM, signal.SIGINT), -signal.SIGINT)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: compare_tool_test.py BINARY [UNITTEST_ARGUMENT...]")
    ProgramTest.program = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)

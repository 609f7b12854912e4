#!/usr/bin/env python3
"""The trace points of a library that has them: trace_points_test.py SOURCE_DIRECTORY COMPILER LIBRARY [FLAG...].

The sources that include them are built once more, with TIMING_WHEEL_TRACE_POINTS; it changes no other source, so the
rest is taken from LIBRARY, which has no trace points, and was built with the flags. The notes in them are compared with
those that docs/tracing.md lists; gdb stops at each point of a small program, traced.cpp, and must have seen what that
has done; and bpftrace attaches the example.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(sys.argv[1]).resolve()
COMPILER, PLAIN_LIBRARY, FLAGS = sys.argv[2], Path(sys.argv[3]).resolve(), sys.argv[4:]
HEADER = SOURCE / "src" / "system" / "trace_point.hpp"
# The sizes of the arguments in bytes; below 0 if they have a sign. An address has 8.
POINTS = {"schedule": (8, 4, 4, 8, -8), "cancel": (8, 4, 4, -4), "cascade": (8, 4, 8, 8),
          "fire_begin": (8, 4, 4, 8, -8), "fire_end": (8, 4, 4, 8)}
NOTE = re.compile(r"^    Provider: (\S+)\n    Name: (\S+)\n.*\n    Arguments: (.*)$", re.MULTILINE)
EXAMPLE = SOURCE / "tools" / "trace" / "timers.bt"


def run(*command, **options):
    return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          stdin=subprocess.DEVNULL, timeout=1000, check=False, **options)


def done(*command, **options):
    ended = run(*command, **options)
    if ended.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}:\n{ended.stdout}")
    return ended.stdout


def included(file, seen=None):
    """The files of ours that a file includes, and those that they do."""
    seen = set() if seen is None else seen
    for name in re.findall(r'^#include "(.+)"', file.read_text(encoding="utf-8"), re.MULTILINE):
        found = next(path for path in (SOURCE / "src" / name, SOURCE / "include" / name, file.parent / name)
                     if path.is_file())
        if found not in seen:
            seen.add(found)
            included(found, seen)
    return seen


def notes_in(file):
    return NOTE.findall(done("readelf", "--notes", file))


def configured(build, flags=""):
    return run("cmake", "-S", SOURCE, "-B", build, "-G", "Ninja", f"-DCMAKE_CXX_COMPILER={COMPILER}",
               f"-DCMAKE_CXX_FLAGS={' '.join([*FLAGS, flags])}", "-DCMAKE_BUILD_TYPE=Debug",
               "-DCMAKE_CXX_FLAGS_DEBUG=-O1", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
               "-DCMAKE_COMPILE_WARNING_AS_ERROR=ON", "-DTIMING_WHEEL_TRACE_POINTS=ON",
               "-DTIMING_WHEEL_BUILD_TESTS=OFF", "-DTIMING_WHEEL_BUILD_BENCHMARKS=OFF",
               "-DTIMING_WHEEL_BUILD_EXAMPLES=OFF")


class WithoutTheHeader(unittest.TestCase):
    def test_the_configuration_says_what_it_needs(self):
        with tempfile.TemporaryDirectory() as folder:
            header = Path(folder, "sys", "sdt.h")
            header.parent.mkdir()
            header.write_text("#error not there\n")
            refused = configured(Path(folder, "build"), f"-isystem {folder}")
        self.assertNotEqual(refused.returncode, 0)
        said = " ".join(refused.stdout.split())
        self.assertIn("TIMING_WHEEL_TRACE_POINTS needs <sys/sdt.h>, which Debian and Ubuntu have in systemtap-sdt-dev.",
                      said)


class WithoutTheOption(unittest.TestCase):
    def test_there_is_nothing(self):
        self.assertEqual(notes_in(PLAIN_LIBRARY), [])


class TracePoints(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if run(COMPILER, "-x", "c++", "-fsyntax-only", "-include", "sys/sdt.h", "/dev/null").returncode != 0:
            raise unittest.SkipTest("it needs <sys/sdt.h>, of systemtap-sdt-dev")
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        build = cls.folder / "build"
        ended = configured(build)
        if ended.returncode != 0:
            raise AssertionError(ended.stdout)
        commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
        traced = [re.search(r" -o (\S+) ", one["command"])[1] for one in commands
                  if HEADER in included(Path(one["file"]))]
        done("cmake", "--build", build, "--target", *traced)
        cls.program = cls.folder / "traced"
        done(COMPILER, *FLAGS, "-std=c++20", f"-I{SOURCE / 'include'}", SOURCE / "test" / "system" / "traced.cpp",
             *(build / one for one in traced), PLAIN_LIBRARY, f"-Wl,-rpath,{PLAIN_LIBRARY.parent}", "-pthread",
             "-o", cls.program)

    def test_change_no_source_without_the_header(self):
        asking = [path for folder in ("src", "include") for path in (SOURCE / folder).rglob("*.[ch]pp")
                  if "TIMING_WHEEL_TRACE_POINTS" in path.read_text(encoding="utf-8")]
        self.assertEqual(asking, [HEADER])

    def test_are_those_of_the_page_with_their_arguments(self):
        found = {(provider, name, tuple(int(one.split("@")[0]) for one in arguments.split()))
                 for provider, name, arguments in notes_in(self.program)}
        self.assertEqual(found, {("timing_wheel", name, sizes) for name, sizes in POINTS.items()})
        page = (SOURCE / "docs" / "tracing.md").read_text(encoding="utf-8")
        listed = re.findall(r"^\| `(\w+)` \| (.*?) \|", page, re.MULTILINE)
        self.assertEqual({name: len(arguments.split(", ")) for name, arguments in listed},
                         {name: len(sizes) for name, sizes in POINTS.items()})

    def test_show_what_a_program_does(self):
        seen, expected = self.with_gdb()
        kinds = {kind for kind, _ in seen}
        self.assertEqual(kinds, set(POINTS))
        ids, moved = {}, {}
        told = iter(expected)
        for kind, values in seen:
            if kind == "cascade":
                wheel, level, now, timers = values
                self.assertIn(level, (1, 2))
                self.assertGreaterEqual(now, moved.get("now", 0))
                moved = {
                    "now": now, "timers": moved.get("timers", 0) + timers,
                    "wheels": moved.get("wheels", set()) | {wheel}}
                continue
            what, tag, more = next(told)
            while what == "moved":  # of one service; the next begins
                ids = {}
                what, tag, more = next(told)
            if what == "schedule":
                self.assertNotIn(values[:3], ids.values())
                ids[tag] = values[:3]
            rest = {"schedule": (tag, more), "fire_begin": (tag, more), "cancel": (more,), "fire_end": (tag,)}[what]
            self.assertEqual((kind, values), (what, (*ids[tag], *rest)))
            self.assertEqual({shard for shard, _, _ in ids.values()}, {values[0]})
        left = list(told)
        self.assertEqual([what for what, _, _ in left], ["moved"])
        moves = [more for what, _, more in expected if what == "moved"]
        self.assertEqual(moves[1:], [0, 0])
        self.assertGreater(moves[0], 0)
        self.assertEqual(len(moved["wheels"]), 1)
        # A timer whose tick has come with that of its bucket is due at once, and counts as no move.
        fired = sum(what == "fire_begin" for what, _, _ in expected) // 3
        self.assertTrue(moves[0] <= moved["timers"] <= moves[0] + fired, moved)

    def with_gdb(self):
        """What gdb has seen, and what the program says: lists of (point, arguments), and of (point, tag, more)."""
        if shutil.which("gdb") is None:
            self.skipTest("it needs gdb")
        commands, output = self.folder / "commands", self.folder / "output"
        lines = ["set pagination off", "set confirm off", "set debuginfod enabled off", "set breakpoint pending off"]
        for name, sizes in POINTS.items():
            shown = ", ".join(f"(long) $_probe_arg{i}" for i in range(len(sizes)))
            lines += [f"break -probe-stap timing_wheel:{name}", "commands", "silent",
                      f'printf "SEEN {name}{" %ld" * len(sizes)}\\n", {shown}', "continue", "end"]
        commands.write_text("\n".join([*lines, f"run >{output}", 'printf "ENDED %d\\n", $_exitcode']) + "\n")
        said = run("gdb", "-q", "-batch", "-nx", "-x", commands, self.program).stdout
        if re.search("ptrace|Operation not permitted", said):
            self.skipTest("gdb may not trace here: " + said.splitlines()[-1])
        self.assertIn("ENDED 0\n", said)
        seen = [(words[1], tuple(map(int, words[2:])))
                for words in map(str.split, re.findall("^SEEN .*$", said, re.MULTILINE))]
        told = [(what, int(tag), int(more)) for what, tag, more in map(str.split, output.read_text().splitlines())]
        return seen, told

    def test_can_be_read_by_the_example(self):
        if shutil.which("bpftrace") is None:
            self.skipTest("it needs bpftrace")
        may = run("bpftrace", "-e", "BEGIN { exit(); }")
        if may.returncode != 0:
            self.skipTest("bpftrace may not run here: " + " ".join(may.stdout.split()))
        said = done("bpftrace", "-c", self.program, EXAMPLE, self.program)
        told = done(self.program).splitlines()
        for kind, name in (("schedule", "scheduled"), ("fire_begin", "fired")):
            self.assertRegex(said, rf"{name} +{sum(line.startswith(kind) for line in told)}\b")
        results = [line.split()[2] for line in told if line.startswith("cancel ")]
        self.assertRegex(said, rf"cancelled +{results.count('0')}\b")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)

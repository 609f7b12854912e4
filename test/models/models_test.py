#!/usr/bin/env python3
"""Searches all histories of a model, by Spin: models_test.py [--large] FOLDER_TO_BUILD_IN MODEL...

The head of a model says how it is to be searched, a line for each way:

    right: THREADS=2 ROUNDS=3      with these macros Spin must find no error, and must have seen every state
    wrong: NO_LOOK: what is wrong  with this macro, which puts a mistake back, Spin must find an error

A line that begins with `large` takes long, or much memory: it is searched with --large before FOLDER_TO_BUILD_IN, and
only such lines are then.

A wrong way may have more macros before the colon. Whatever is reached there is counted: a mistake that nobody finds
says that the model is too small, or that it proves nothing.
"""

import re
import shutil
import subprocess
import sys
import time
import unittest
from pathlib import Path

SKIP = 77
WAY = re.compile(r"^ \* (large )?(right|wrong):(?: ([A-Z0-9_= ]+?))?(?:: (.+))?$", re.MULTILINE)
# Logarithm of the slots in Spin's table of states. Its own, 24, are memory that has to be cleared; with 16, those wrong
# ways that take a million states to find search long chains, for twice the time.
SLOTS = {"right": 22, "wrong": 20}


class Small:
    """To compile such a search takes longer than most of them run: not optimized, by clang, in half of the time."""

    depth, megabytes, seconds = 100_000, 1500, 120
    flags = ["-O0", "-DNOCOMP"]


class Large:
    depth, megabytes, seconds = 2_000_000, 3900, 1800
    flags = ["-O2", "-DCOLLAPSE"]


COMPILER = next((name for name in ("clang", "cc", "gcc") if shutil.which(name)), "cc")
FLAGS = ["-w", "-DSAFETY", "-DNOFAIR"]


class Search:
    """One run of Spin's, and what it says."""

    def __init__(self, folder, model, macros, slots, size):
        self.size = size
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.iterdir():
            left.unlink()
        macros = [f"-D{macro}" for macro in macros]
        self.call(folder, ["spin", f"-P{COMPILER} -E -x c", *macros, "-a", str(model)])
        self.call(folder, [COMPILER, *FLAGS, *size.flags, f"-DMEMLIM={size.megabytes}", "-o", "pan", "pan.c"])
        begin = time.monotonic()
        self.said = self.call(folder, ["./pan", f"-m{size.depth}", f"-w{slots}"])
        self.seconds = time.monotonic() - begin

    def call(self, folder, command):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=self.size.seconds,
                              check=False)
        if done.returncode != 0:
            raise AssertionError(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def number(self, pattern):
        found = re.search(pattern, self.said)
        if not found:
            raise AssertionError(f"no {pattern} in:\n{self.said}")
        return int(found.group(1))

    @property
    def errors(self):
        return self.number(r"errors: (\d+)")

    @property
    def states(self):
        return self.number(r"(\d+) states, stored")

    @property
    def error(self):
        found = re.search(r"pan:\d+: (.+?) \(at depth", self.said)
        return found.group(1) if found else ""

    @property
    def is_complete(self):
        """Whether nothing was left out: Spin says so, in words of its own, where it had to leave something."""
        cut = ("max search depth too small", "Search not completed", "out of memory", "reached -DMEMLIM", "truncated",
               "hash factor", "interrupted")
        return "State-vector" in self.said and not any(words in self.said for words in cut)


def ways_of(model):
    return [(large != "", kind, (macros or "").split(), wrong)
            for large, kind, macros, wrong in WAY.findall(model.read_text())]


def test_of(folder, model, kind, macros, wrong, size):
    def test(self):
        name = "_".join([model.stem, *macros]).replace("=", "_")
        search = Search(folder / name, model, macros, SLOTS[kind], size)
        what = wrong or " ".join(macros) or "as it is"
        found = search.error or "no error"
        print(f"{model.stem}, {kind}: {what}: {found}, {search.states} states, {search.seconds:.1f} s", flush=True)
        if kind == "right":
            self.assertEqual(search.errors, 0, search.said)
            self.assertTrue(search.is_complete, search.said)
        else:
            self.assertGreater(search.errors, 0, f"nobody finds: {wrong}\n{search.said}")
            self.assertRegex(search.error, "^(invalid end state|assertion violated)")
    return test


class Models(unittest.TestCase):
    pass


def add_tests(folder, model, large):
    ways = ways_of(model)
    if {kind for _, kind, _, _ in ways} != {"right", "wrong"}:
        raise SystemExit(f"{model} says no right, or no wrong way to search it")
    for number, (is_large, kind, macros, wrong) in enumerate(ways):
        if is_large == large:
            test = test_of(folder, model, kind, macros, wrong, Large if large else Small)
            setattr(Models, f"test_{model.stem}_{number:02}_{'_'.join(macros) or 'as_it_is'}", test)


def main():
    needed = [tool for tool in ("spin", COMPILER) if not shutil.which(tool)]
    if needed:
        print(f"skipped: it needs {' and '.join(needed)}")
        return SKIP
    large = sys.argv[1] == "--large"
    folder, *models = (Path(name).resolve() for name in sys.argv[1 + large:])
    for model in models:
        add_tests(folder, model, large)
    return 0 if unittest.main(argv=sys.argv[:1], exit=False, verbosity=1).result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())

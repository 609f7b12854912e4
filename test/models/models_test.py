#!/usr/bin/env python3
"""Searches all histories of a model, by Spin: models_test.py FOLDER_TO_BUILD_IN MODEL...

The head of a model says how it is to be searched, a line for each way:

    right: THREADS=2 ROUNDS=3      with these macros Spin must find no error, and must have seen every state
    wrong: NO_LOOK: what is wrong  with this macro, which puts a mistake back, Spin must find an error

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
WAY = re.compile(r"^ \* (right|wrong):(?: ([A-Z0-9_= ]+?))?(?:: (.+))?$", re.MULTILINE)
DEPTH = 100_000
MEGABYTES = 1500
SECONDS = 120
# Logarithm of the slots in Spin's table of states. Its own, 24, are memory that has to be cleared.
SLOTS = {"right": 22, "wrong": 16}

# To compile a search takes longer than most searches: so it is not optimized, which clang does in half of the time.
COMPILER = next((name for name in ("clang", "cc", "gcc") if shutil.which(name)), "cc")
FLAGS = ["-O0", "-w", "-DSAFETY", "-DNOFAIR", "-DNOCOMP", f"-DMEMLIM={MEGABYTES}"]


class Search:
    """One run of Spin's, and what it says."""

    def __init__(self, folder, model, macros, slots):
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.iterdir():
            left.unlink()
        macros = [f"-D{macro}" for macro in macros]
        self.call(folder, ["spin", f"-P{COMPILER} -E -x c", *macros, "-a", str(model)])
        self.call(folder, [COMPILER, *FLAGS, "-o", "pan", "pan.c"])
        begin = time.monotonic()
        self.said = self.call(folder, ["./pan", f"-m{DEPTH}", f"-w{slots}"])
        self.seconds = time.monotonic() - begin

    @staticmethod
    def call(folder, command):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False)
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
    return [(kind, (macros or "").split(), wrong) for kind, macros, wrong in WAY.findall(model.read_text())]


def test_of(folder, model, kind, macros, wrong):
    def test(self):
        name = "_".join([model.stem, *macros]).replace("=", "_")
        search = Search(folder / name, model, macros, SLOTS[kind])
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


def main():
    needed = [tool for tool in ("spin", COMPILER) if not shutil.which(tool)]
    if needed:
        print(f"skipped: it needs {' and '.join(needed)}")
        return SKIP
    folder = Path(sys.argv[1]).resolve()
    for model in (Path(name).resolve() for name in sys.argv[2:]):
        ways = ways_of(model)
        kinds = {kind for kind, _, _ in ways}
        if kinds != {"right", "wrong"}:
            raise SystemExit(f"{model} says no right, or no wrong way to search it")
        for number, (kind, macros, wrong) in enumerate(ways):
            test = test_of(folder, model, kind, macros, wrong)
            setattr(Models, f"test_{model.stem}_{number:02}_{'_'.join(macros) or 'as_it_is'}", test)
    return 0 if unittest.main(argv=sys.argv[:1], exit=False, verbosity=1).result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())

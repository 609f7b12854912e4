#!/usr/bin/env python3
"""Holds the counts of docs/how_it_is_tested.md against the sources: counts_test.py SOURCE_DIRECTORY [--print].

A row of its table begins with the name of a count, and has the count in its second cell, rounded down, so that
a new test does not change the page. --print prints what the cells should be.
"""

import re
import sys
import unittest
from pathlib import Path

ROOT = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
PAGE = "docs/how_it_is_tested.md"
RECORDING = "docs/pictures/kill_demo.svg"


def matches(pattern, folder, *names):
    """How often the pattern occurs in the files of a folder."""
    texts = (path.read_text(encoding="utf-8") for name in names for path in sorted((ROOT / folder).rglob(name)))
    return sum(len(re.findall(pattern, text, re.MULTILINE)) for text in texts)


def counts():
    sources = ("*.hpp", "*.cpp")
    return {
        "tests in C++": matches(r"^\s*(?:TYPED_)?TEST(?:_F|_P)?\(", "test", *sources),
        "promises": matches(r"^\| [^|]*\| [^|]*\| [^|]*`[^|]*\|$", "docs", "guarantees.md"),
        "mutants": matches(r"^wrong = ", "test/mutants", "*.toml"),
        "models": len(list((ROOT / "test/models").glob("*.pml"))),
        "blocks of C++ in pages": matches(r"^```cpp$", "docs", "*.md"),
        "lines of the library": matches(r"^.*\S.*$", "include", *sources) + matches(r"^.*\S.*$", "src", *sources),
        "lines of tests": matches(r"^.*\S.*$", "test", *sources),
    }


def rounded(count):
    """12 345 as 12 000, 123 as 120, 47 as 40."""
    step = 10 ** max(1, len(str(count)) - 2)
    return f"{count - count % step:,}".replace(",", " ")


class CountsTest(unittest.TestCase):
    def test_each_count_of_the_page_is_that_of_the_sources(self):
        rows = dict(re.findall(r"^\| ([^|]+) \| ([\d ]+) \|", (ROOT / PAGE).read_text(encoding="utf-8"), re.MULTILINE))
        self.assertEqual(rows, {name: rounded(count) for name, count in counts().items()})

    def test_the_front_page_tells_of_as_many_kills_as_the_recording(self):
        said = re.search(r"\b(\d+) kills", (ROOT / "README.md").read_text(encoding="utf-8"))
        self.assertIn(f"exact: nothing lost, nothing twice, nothing early, through {said[1]} kills",
                      (ROOT / RECORDING).read_text(encoding="utf-8"))

    def test_the_families_have_the_figures_that_the_tool_has_counted_for_tuning(self):
        page, tuning = ((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("which_wheel.md", "tuning.md"))
        cells = r" ([^|]+) \| ([^|]+) \|"
        row = r"^\| [^|]*`([^`|]+)` \|" + 2 * r"[^|]+\|" + r" ([^|]+), ([^|]+) \|" + cells
        counted = dict(re.findall(r"^\| `([^`]+)` \|(.*\|)$", tuning[: tuning.index("## What a window")], re.MULTILINE))
        rows = [found for found in re.findall(row, page, re.MULTILINE) if found[0] in counted]
        self.assertEqual(len(rows), 8)
        for engine, work, wakeups, late, memory in rows:
            moves, looks, *others = (cell.strip() for cell in counted[engine].strip("|").split("|"))
            self.assertEqual(work, f"{moves} moves" if looks == "0" else f"{looks} looks", engine)
            self.assertEqual([wakeups, late, memory], [others[0], *others[2:]], engine)
        seconds, moves, wakeups, late = re.search(
            r"`default`, `--window (\d+)s` \|[^|]+\|[^|]+\| (\S+) moves, (\S+) \| ([^|]+) \|", page).groups()
        counted = re.search(rf"^\| `default` \| {seconds} s \|(.*)\|$", tuning, re.MULTILINE)[1].split("|")
        self.assertEqual([moves, wakeups, late], [counted[at].strip() for at in (0, 2, 4)])


if __name__ == "__main__":
    if "--print" in sys.argv:
        print("\n".join(f"| {name} | {rounded(count)} |" for name, count in counts().items()))
        sys.exit()
    unittest.main(argv=[sys.argv[0], "-v"])

#!/usr/bin/env python3
"""Holds docs/guarantees.md against the tests: guarantees_test.py SOURCE_DIRECTORY.

Every test that it names must exist, every test must belong to a row, every id must have a row, and no row may be
without a test. `Suite.Prefix*` names all tests that begin so. What is still TODO comes last.
"""

import fnmatch
import re
import sys
from pathlib import Path

WANTED = (
    [f"C{n}" for n in range(1, 15)]
    + [f"D{n}" for n in range(1, 11)]
    + ["N1", "G1", "G2", "P1", "H1", "V1"]
    + [f"U{n}" for n in range(1, 10)]
    + [f"§2.{n}" for n in range(1, 11)]
    + [f"§3.{n}" for n in range(1, 19)]
    + [f"S{n}" for n in range(1, 29)]
)


def text_of(path):
    """The text of a source without comments on lines of their own, which are no tests."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith(("//", "#")))


def tests_of(source):
    found = set()
    for path in sorted((source / "test").rglob("*_test.cpp")):
        for suite, name in re.findall(r"\b(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+)\s*,\s*(\w+)\s*\)", text_of(path)):
            found.add(f"{suite}.{name}")
    for folder in ("test", "examples", "benchmarks", "tools"):
        for path in sorted([*(source / folder).rglob("CMakeLists.txt"), *(source / folder).rglob("*.cmake")]):
            text = text_of(path)
            found.update(re.findall(r"\badd_test\(\s*NAME\s+([\w.-]+)\s", text))
            found.update(f"{name}_bench_smoke" for name in re.findall(r"\badd_bench\((\w+)\s", text))
            found.update(re.findall(r"^\s*timing_wheel_(?:script_test|story)\((\w+)\s", text, re.MULTILINE))
            for kind, name in re.findall(r"\btiming_wheel_(recipe|loop)(?:_of)?\((\w+)", text):
                found.add(f"{kind}_{name}")
            found.update(f"on_boost_{name}" for name in re.findall(r"\btiming_wheel_boost_program\((\w+)\s", text))
    return found


def rows_of(document):
    """The line number and the cells of each row of each table, but the heads and the lines below them."""
    for number, line in enumerate(document.read_text(encoding="utf-8").splitlines(), 1):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and not set(line) <= set("|-: ") and cells[-1] != "tests":
            yield number, cells


def main():
    source = Path(sys.argv[1])
    document = source / "docs" / "guarantees.md"
    existing = tests_of(source)
    rows = list(rows_of(document))
    faults, unfinished, mentioned, claimed = [], [], set(), set()
    for number, cells in rows:
        ids, tests = re.findall(r"§?[\w.]+(?: \d+)?", cells[0]), cells[-1]
        mentioned.update(ids)
        where = f"docs/guarantees.md:{number} ({', '.join(ids) or cells[1]})"
        names = re.findall(r"`([^`]+)`", tests)
        if len(cells) != 3:
            faults.append(f"{where}: {len(cells)} cells instead of 3")
        elif any("TODO" in cell for cell in cells):
            unfinished.append(f"{where}: {tests}")
        elif not names:
            faults.append(f"{where}: names no test")
        for name in names:
            matches = fnmatch.filter(existing, name)
            claimed.update(matches)
            if not matches:
                faults.append(f"{where}: there is no test {name}")
    faults += [f"no row for {wanted}" for wanted in WANTED if wanted not in mentioned]
    faults += [f"no row has the test {test}" for test in sorted(existing - claimed)]

    print(f"{len(rows)} rows, {len(existing)} tests in the sources")
    for fault in faults:
        print("WRONG", fault)
    for row in unfinished:
        print("TODO ", row)
    print(f"{len(faults)} wrong, {len(unfinished)} to do")
    return 1 if faults or unfinished or not rows else 0


if __name__ == "__main__":
    sys.exit(main())

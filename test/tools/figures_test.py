#!/usr/bin/env python3
"""Holds the measured figures of the pages against their records: figures_test.py SOURCE_DIRECTORY.

A measured figure is a number with a unit of time below a second, of rate or of memory, or a ratio such as "3.7 times",
outside code. In README.md and the pages of docs/ each of them is one of these:

- a number of a table of results in its own section. Such a section names the command that has made its tables, or links
  to one that does, `[to repeat it](#to-repeat-it)`, or says that its program is not kept, or that it was computed;
- named, by a comment right behind it that readers do not see: `578 µs<!-- fig: peers.late -->`. The name is that of
  a row of benchmarks/results/*.csv with this number. If the row says where it is `recorded`, the number is in that
  section, too;
- what two numbers of its section's tables give: `1.95 times<!-- fig: 31.9 / 16.4 -->`, or with a minus;
- one of CONSTANTS, which are options, limits and sizes, or examples.

A number fits if the record, rounded to as many digits, is the same. The pages in RECORDS are records themselves, and
are not read. But each table of figures in docs/benchmarks.md has its command between it and the table before it, or it
is said there that the project has none. A paragraph or row that says "tested on" or "tests were run on" something names
the command.
"""

import csv
import functools
import re
import sys
import unittest
from pathlib import Path

from pages import HEADING, lines_of, pages, slug

ROOT = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
sys.path.append(str(ROOT / "tools/compare"))
import break_even  # noqa: E402, it is a script of another folder

# A row of guarantees.md names the test of its figures.
RECORDS = ("docs/benchmarks.md", "docs/beside_other_timers.md", "docs/decisions/", "docs/guarantees.md", "CHANGELOG.md", "docs/CONTRIBUTING.md")
CONSTANTS = """1 ns, 1 µs, 50 µs, 100 µs, 1 ms, 3 ms, 5 ms, 10 ms, 20 ms, 25 ms, 100 ms, 250 ms, 512 ms, 1500 ms,
4 bytes, 5 bytes, 6.3 bytes, 8 bytes, 10 bytes, 12 bytes, 16 bytes, 20 bytes, 24 bytes, 32 bytes, 40 bytes, 63 bytes,
64 bytes, 500 bytes, 2 600 bytes, 8 KiB, 16 KiB, 34 KiB, 64 KB, 64 KiB, 120 KiB, 1 MiB, 2 MiB, 4 MiB, 16 MiB, 5 times,
500 per second, 1 000 checks per second, 20 000 checks per second, 50 000 per second,
100 000 requests per second""".replace("\n", " ").split(", ")
NUMBER = r"\d+(?: \d{3})*(?:\.\d+)?"
UNIT = r"(?:ns|µs|us|ms|bytes|B|KB|kB|KiB|MB|MiB|GB|GiB|TB|(?:[a-z]+ ){0,4}per second|[a-z]+/s|times|×)"
FIGURE = re.compile(rf"(?<![\w.,^/–-])(?:({NUMBER})(?: to |–| or ))?({NUMBER})(?: (?:million|M|k))? ({UNIT})(?![\w/])"
                    r"(?: *<!-- fig: (.*?) -->)?")
COMMAND = re.compile(r"\./dev [a-z]|(?:benchmarks|tools/bench)/\w|\bctest |`[^`]*(?:strace|pg_stat_statements|echo_server )|"
                     r"\bcmake --build |\]\(#to-repeat-it\)|\bnot kept\b|\bcomputed\b")
NO_COMMAND = re.compile(r"\bhas no\s+command\b")
TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
TESTED = re.compile(r"\btested(?: \w+)? (?:on|with) [A-Z]|\b[Tt]ests(?: were)? (?:run|ran)(?: once)? (?:on|with) [A-Z]"
                    r"|\btested on\b")
HEAD = re.compile(r"(?:^|\W)(?:ns|µs|ms|MiB|MB|M/s|per s)(?:\W|$)")


def numbers_of(text):
    return {float(each.replace(" ", "")) for each in re.findall(NUMBER, text)}


def fits(shown, recorded):
    """Whether `recorded`, rounded as `shown` is, is `shown`."""
    digits = shown.replace(" ", "")
    decimals = len(digits.partition(".")[2])
    return abs(float(digits) - recorded) <= 0.5000001 * 10**-decimals


class Section:
    """From a heading to the next one: its paragraphs and rows, each as one line, with the number of the first."""

    def __init__(self, heading):
        self.name, self.text, self.pieces, self.rows = slug(heading), heading, [], []

    def add(self, number, line, prose):
        self.text += "\n" + line
        if prose and line.startswith("|"):
            self.rows.append((number, line))
        elif prose and line.strip() and not line.startswith("<img"):
            if self.pieces and self.ended == number - 1 and not re.match(r"\s*(?:[-*]|\d+\.) ", line):
                self.pieces[-1] = (self.pieces[-1][0], f"{self.pieces[-1][1]} {line.strip()}")
            else:
                self.pieces.append((number, line.strip()))
            self.ended = number

    @property
    def numbers(self):
        return numbers_of("\n".join(row for _, row in self.rows))

    def faults(self, records):
        named = COMMAND.search(self.text)
        for (number, row), (_, below) in zip(self.rows, self.rows[1:]):
            if not named and set(below) <= set("|-: ") and HEAD.search(row):
                yield number, "no command is named that has made this table"
        for number, piece in self.pieces + ([] if named else self.rows):
            for figure in FIGURE.finditer(re.sub(r"`[^`]*`", "``", piece)):
                for shown in filter(None, figure.groups()[:2]):
                    if not self.holds(shown, figure, bool(named), records):
                        yield number, f"{figure[0]}: no record has this number, or it has no name"
        for number, piece in self.pieces + self.rows:
            if TESTED.search(piece) and not COMMAND.search(piece):
                yield number, "tested, but by which command?"

    def holds(self, shown, figure, named, records):
        name = figure[4]
        if not name:
            return f"{shown} {figure[3]}" in CONSTANTS or named and any(fits(shown, each) for each in self.numbers)
        if formula := re.fullmatch(rf"({NUMBER}) ([/-]) ({NUMBER})", name):
            left, right = (float(formula[each].replace(" ", "")) for each in (1, 3))
            known = {left, right} <= self.numbers
            return known and fits(shown, left / right if formula[2] == "/" else left - right)
        return any(fits(shown, each) for each in records.get(name, ()))


def sections_of(text):
    found = [Section("")]
    for number, (line, prose) in enumerate(lines_of(text), 1):
        if heading := HEADING.match(line) if prose else None:
            found.append(Section(heading[2]))
        else:
            found[-1].add(number, line, prose)
    return found


def faults_of(page, text, records):
    return [f"{page}:{number}: {what}" for section in sections_of(text) for number, what in section.faults(records)]


def tables_without_command(text):
    """The heads of the tables of figures that name no command, nor say that there is none."""
    faults = []
    for section in sections_of(text):
        parts = list(TABLE.finditer(section.text + "\n"))
        for before, part in zip([None, *parts], parts):
            told = section.text[before.end() if before else 0:part.start()] + part[0].splitlines()[0]
            has_figures = re.search(r"\| [*\[]*\d", part[0])
            if has_figures and not COMMAND.search(told) and not NO_COMMAND.search(told):
                faults.append(part[0].splitlines()[0])
    return faults


@functools.cache
def rows():
    found = []
    for path in sorted((ROOT / "benchmarks/results").glob("*.csv")):
        with open(path, encoding="utf-8") as file:
            found += csv.DictReader(file)
    return found


def read_records():
    return {row["name"]: numbers_of(row["value"]) for row in rows()}


class FiguresTest(unittest.TestCase):
    def test_each_figure_has_a_record(self):
        faults = []
        for page in pages():
            if not page.startswith(RECORDS):
                faults += faults_of(page, (ROOT / page).read_text(encoding="utf-8"), read_records())
        self.assertEqual("\n".join(faults), "")

    def test_each_table_of_the_benchmarks_has_its_command(self):
        text = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")
        self.assertGreater(len(TABLE.findall(text)), 9)
        self.assertEqual(tables_without_command(text), [])
        table = "| | ns |\n|---|---|\n| a | 84.2 |\n"
        self.assertEqual(tables_without_command(f"## A\n`./dev bench` made it.\n\n{table}\nAnd:\n\n{table}"), ["| | ns |"])
        self.assertEqual(tables_without_command(f"## A\nThe tree has no\ncommand for it:\n\n{table}"), [])

    def test_the_table_of_the_break_even_is_made_from_its_runs(self):
        self.assertIn(break_even.table(ROOT), (ROOT / break_even.PAGE).read_text(encoding="utf-8"))

    def test_a_row_that_says_where_it_is_recorded_is_there(self):
        for row in rows():
            self.assertTrue(row["value"] and row["unit"] and row["command"], row)
            page, _, name = row["recorded"].partition("#")
            if page:
                text = (ROOT / page).read_text(encoding="utf-8")
                there = {each for section in sections_of(text) if section.name == name
                         for each in numbers_of(section.text)}
                self.assertLessEqual(numbers_of(row["value"]), there, row)

    def test_each_row_has_a_name_of_its_own_that_a_page_uses(self):
        names = [row["name"] for row in rows()]
        self.assertEqual(len(set(names)), len(names))
        text = "".join((ROOT / page).read_text(encoding="utf-8") for page in pages())
        self.assertEqual([name for name in names if f"<!-- fig: {name} -->" not in text], [])

    def test_a_wrong_figure_would_be_seen(self):
        records = {"x.schedule": {84.2}}
        table = "## A\n`./dev bench` made it.\n\n| | ns |\n|---|---|\n| a | 84.2 |\n| b | 42.1 |\n\n"
        good = ("84 ns<!-- fig: x.schedule --> each", table + "It takes 84 ns, or 42 to 84 ns.", "a tick of 10 ms",
                table + "It is 2.0 times<!-- fig: 84.2 / 42.1 --> as much.", "```sh\nsleep 17 ms\n```",
                "`./dev test` was tested on Debian 12.", "| what | a command |\n|---|---|\n| 3 | 4 |")
        bad = ("85 ns<!-- fig: x.schedule --> each", "84 ns each", "84 ns<!-- fig: x.none -->", "| a | 84 ns |",
               table + "It takes 85 ns.", table + "It is 1.9 times<!-- fig: 84.2 / 42.1 --> as much.",
               table + "It is 3 times<!-- fig: 126.3 / 42.1 -->.", "3.7 times as long", "9 000 checks per second",
               "it takes 12\nMiB", table.replace("./dev bench", "it"), "It was tested on Debian 12.",
               "| | tested on |\n|---|---|")
        for text in good:
            self.assertEqual(faults_of("page.md", text, records), [], text)
        for text in bad:
            self.assertNotEqual(faults_of("page.md", text, records), [], text)


if __name__ == "__main__":
    unittest.TestCase.maxDiff = None
    unittest.main(argv=[sys.argv[0], "-v"])

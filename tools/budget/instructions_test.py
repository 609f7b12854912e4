#!/usr/bin/env python3
"""What tools/budget/instructions.py says of counts: instructions_test.py SOURCE_DIRECTORY."""

import copy
import json
import sys
import unittest
from pathlib import Path

SOURCE = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
sys.path.insert(0, str(SOURCE / "tools" / "budget"))
sys.dont_write_bytecode = True

import instructions  # noqa: E402

TABLE = {"compiler": "GCC 12", "processor": "x86_64", "instructions": {"wheel.insert": 200.0, "timer.cancel": 1000.0}}


def after(**changes):
    """The table, with an operation's count changed."""
    measured = copy.deepcopy(TABLE)
    measured["instructions"].update({name.replace("__", "."): value for name, value in changes.items()})
    return measured


class Comparison(unittest.TestCase):
    def test_the_same_counts_pass(self):
        self.assertEqual(instructions.compare(TABLE, TABLE)[1], [])

    def test_a_growth_of_9_percent_passes(self):
        self.assertEqual(instructions.compare(TABLE, after(wheel__insert=218.0))[1], [])

    def test_a_growth_of_11_percent_fails_and_is_named(self):
        faults = instructions.compare(TABLE, after(wheel__insert=222.0))[1]
        self.assertEqual(faults, ["wheel.insert takes 11.0% more instructions: 222.0 instead of 200.0"])

    def test_a_saving_of_11_percent_passes_and_says_how_to_renew(self):
        lines, faults = instructions.compare(TABLE, after(timer__cancel=890.0))
        self.assertEqual(faults, [])
        self.assertTrue(any("timer.cancel" in line and "-11.0%" in line and "fewer" in line for line in lines))
        self.assertIn("./dev instructions --update", lines[-1])

    def test_a_saving_does_not_make_up_for_a_growth(self):
        self.assertEqual(len(instructions.compare(TABLE, after(timer__cancel=500.0, wheel__insert=300.0))[1]), 1)

    def test_an_operation_that_was_not_counted_fails(self):
        measured = after()
        del measured["instructions"]["timer.cancel"]
        self.assertEqual(instructions.compare(TABLE, measured)[1], ["timer.cancel is in the table and was not counted"])

    def test_an_operation_that_is_not_in_the_table_fails(self):
        self.assertEqual(instructions.compare(TABLE, after(timer__fire=1.0))[1], ["timer.fire is not in the table"])

    def test_another_compiler_or_processor_compares_nothing_and_says_so(self):
        for other in ({"compiler": "GCC 14"}, {"processor": "aarch64"}):
            lines, faults = instructions.compare(TABLE, after(wheel__insert=900.0) | other)
            self.assertEqual(faults, [])
            self.assertIn("NOTHING WAS COMPARED", lines[-1])
            self.assertTrue(any("wheel.insert" in line and "900.0" in line for line in lines))


class Counting(unittest.TestCase):
    def test_the_sum_is_read(self):
        self.assertEqual(instructions.instructions_of("events: Ir\nsummary: 123\n\ntotals: 123\n"), 123)

    def test_a_sum_of_nothing_is_an_error(self):
        for output in ("totals: 0\n", "events: Ir\n"):
            with self.assertRaises(ValueError):
                instructions.instructions_of(output)


class Table(unittest.TestCase):
    def test_it_has_the_operations_of_the_program_and_no_others(self):
        table = json.loads((SOURCE / "tools" / "budget" / "instructions.json").read_text(encoding="utf-8"))
        program = (SOURCE / "benchmarks" / "instructions.cpp").read_text(encoding="utf-8")
        for name in table["instructions"]:
            self.assertIn(f'{{"{name}", ', program)
        self.assertEqual(len(table["instructions"]), program.count('    {"'))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])

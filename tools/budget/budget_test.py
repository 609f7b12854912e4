#!/usr/bin/env python3
"""What budget.py makes of figures: budget_test.py SOURCE_DIRECTORY"""

import json
import sys
import unittest
from pathlib import Path

SOURCE = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
sys.path.insert(0, str(SOURCE / "tools" / "budget"))
sys.dont_write_bytecode = True

import budget  # noqa: E402

ROW = {"statements": 3, "rows_read": 5, "commits": 1, "bytes_written": 1000, "steps": 90, "round_trips": 2}
TABLE = {"compiler": "GCC 12", "processor": "x86_64", "instructions": {"insert": 200.0, "cancel": 1000.0}}


def counted(version="1", name="schedule", **changes):
    return {"sqlite": {"version": version, "costs": {name: ROW | changes}}}


class Costs(unittest.TestCase):
    def faults(self, **changes):
        return budget.compare_costs(counted(), counted(**changes))[1]

    def test_one_statement_or_commit_more_is_a_fault_and_others_may_grow_by_ten_percent(self):
        self.assertEqual(self.faults(), [])
        self.assertEqual(self.faults(statements=3.01), ["sqlite: schedule: statements 3.01 instead of 3"])
        self.assertEqual(self.faults(commits=2), ["sqlite: schedule: commits 2 instead of 1"])
        self.assertEqual(self.faults(rows_read=5.5, bytes_written=1100, steps=99), [])
        self.assertEqual(len(self.faults(rows_read=5.6, bytes_written=1101, steps=100)), 3)

    def test_steps_are_those_of_one_version_and_bytes_those_of_no_older_one(self):
        for before, now, changes, faults in (("1", "2", {"steps": 900}, 0), ("1", "2", {"bytes_written": 9000}, 1),
                                             ("15.2", "13.16", {"bytes_written": 9000}, 0),
                                             ("15.2", "15.1", {"bytes_written": 9000}, 1),
                                             ("15.2", "13.16", {"commits": 2}, 1)):
            found = budget.compare_costs(counted(before), counted(now, **changes))[1]
            self.assertEqual(len(found), faults, (before, now, changes))

    def test_what_is_in_one_of_them_only_is_a_fault_but_a_store_that_was_not_counted_is_left_alone(self):
        more = counted()
        more["sqlite"]["costs"]["cancel"] = ROW
        self.assertEqual(budget.compare_costs(counted(), more)[1], ["sqlite: cancel is not in the table"])
        self.assertEqual(budget.compare_costs(more, counted())[1],
                         ["sqlite: cancel is in the table and was not counted"])
        self.assertEqual(budget.compare_costs(counted() | {"other": {}}, counted())[1], [])

    def test_several_nodes_need_no_more_than_one_does(self):
        for version, changes, faults in (("1", {"steps": 900, "bytes_written": 1100, "statements": 3.002}, 0),
                                         ("1", {"round_trips": 2.01}, 1), ("13.16", {"bytes_written": 9000}, 0),
                                         ("1", {"commits": 2, "rows_read": 5.6, "bytes_written": 1101}, 3)):
            costs = {"idle, 1 node": ROW, "idle, 3 nodes": ROW | changes}
            found = budget.compare_costs({"sqlite": {"version": "15.2" if version != "1" else "1", "costs": costs}},
                                         {"sqlite": {"version": version, "costs": costs}})[1]
            self.assertEqual(len(found), faults, changes)
        alone = counted(name="idle, 3 nodes")
        self.assertEqual(budget.compare_costs(alone, alone)[1], ["sqlite: idle, 3 nodes has no figure for 1 node"])

    def test_fewer_are_told(self):
        lines, faults = budget.compare_costs(counted(), counted(bytes_written=500))
        self.assertEqual((faults, lines[-1].rpartition("  ")[2]), ([], "fewer bytes_written than in the table"))


class Instructions(unittest.TestCase):
    def after(self, **conditions_and_counts):
        counts = {key: value for key, value in conditions_and_counts.items() if key in TABLE["instructions"]}
        others = {key: value for key, value in conditions_and_counts.items() if key in budget.CONDITIONS}
        return budget.compare_instructions(TABLE, TABLE | others | {"instructions": TABLE["instructions"] | counts})

    def test_a_growth_of_11_percent_fails_whatever_else_is_saved(self):
        self.assertEqual(self.after(insert=218.0)[1], [])
        self.assertEqual(self.after(insert=222.0, cancel=500.0)[1], ["insert: instructions 222 instead of 200"])

    def test_another_compiler_or_processor_compares_nothing_and_says_so(self):
        for other in ({"compiler": "GCC 14"}, {"processor": "aarch64"}):
            lines, faults = self.after(insert=900.0, **other)
            self.assertEqual(faults, [])
            self.assertIn("NOTHING WAS COMPARED", lines[-1])
            self.assertTrue(any("insert" in line and "900" in line for line in lines))

    def test_the_sum_of_callgrind_is_read_and_one_of_nothing_is_an_error(self):
        self.assertEqual(budget.instructions_of("events: Ir\nsummary: 123\n\ntotals: 123\n"), 123)
        for output in ("totals: 0\n", "events: Ir\n"):
            with self.assertRaises(ValueError):
                budget.instructions_of(output)


class Tables(unittest.TestCase):
    def test_of_instructions_has_the_operations_of_the_program_and_no_others(self):
        table = json.loads((SOURCE / "tools/budget/instructions.json").read_text(encoding="utf-8"))
        program = (SOURCE / "benchmarks/instructions.cpp").read_text(encoding="utf-8")
        self.assertEqual([name for name in table["instructions"] if f'{{"{name}", ' not in program], [])
        self.assertEqual(len(table["instructions"]), program.count('    {"'))

    def test_are_written_as_they_are_kept(self):
        for kind in ("instructions", "costs"):
            text = (SOURCE / f"tools/budget/{kind}.json").read_text(encoding="utf-8")
            self.assertEqual(budget.one_line_each(json.loads(text)), text)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])

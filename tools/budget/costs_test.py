#!/usr/bin/env python3
"""What costs.py makes of figures: costs_test.py"""

import json
import sys
import unittest

sys.dont_write_bytecode = True

import costs  # noqa: E402

ROW = {"statements": 3, "rows_read": 5, "commits": 1, "bytes_written": 1000, "steps": 90}


def counted(version="1", **changes):
    return {"sqlite": {"version": version, "costs": {"schedule": ROW | changes}}}


class Compare(unittest.TestCase):
    def faults(self, **changes):
        return costs.compare(counted(), counted(**changes))[1]

    def test_the_same_is_well(self):
        self.assertEqual(self.faults(), [])

    def test_one_statement_or_commit_more_is_a_fault(self):
        self.assertEqual(self.faults(statements=3.01), ["sqlite: schedule: statements 3.01 instead of 3"])
        self.assertEqual(self.faults(commits=2), ["sqlite: schedule: commits 2 instead of 1"])

    def test_others_may_grow_by_ten_percent(self):
        self.assertEqual(self.faults(rows_read=5.5, bytes_written=1100, steps=99), [])
        self.assertEqual(len(self.faults(rows_read=5.6, bytes_written=1101, steps=100)), 3)

    def test_steps_are_those_of_one_version(self):
        self.assertEqual(costs.compare(counted(), counted("2", steps=900))[1], [])
        self.assertEqual(len(costs.compare(counted(), counted("2", bytes_written=9000))[1]), 1)

    def test_bytes_of_an_older_version_are_not_compared(self):
        self.assertEqual(costs.compare(counted("15.2"), counted("13.16", bytes_written=9000))[1], [])
        self.assertEqual(len(costs.compare(counted("15.2"), counted("15.1", bytes_written=9000))[1]), 1)
        self.assertEqual(len(costs.compare(counted("15.2"), counted("13.16", commits=2))[1]), 1)

    def test_what_is_in_one_of_them_only_is_a_fault(self):
        more = counted()
        more["sqlite"]["costs"]["cancel"] = ROW
        self.assertEqual(costs.compare(counted(), more)[1], ['sqlite: "cancel" is not in the table'])
        self.assertEqual(costs.compare(more, counted())[1], ['sqlite: "cancel" was not counted'])

    def test_a_store_that_was_not_counted_is_left_alone(self):
        self.assertEqual(costs.compare(counted() | {"other": {}}, counted())[1], [])

    def with_nodes(self, **changes):
        nodes = {"sqlite": {"version": "1", "costs": {"idle, 1 node": ROW, "idle, 3 nodes": ROW | changes}}}
        return costs.compare(nodes, nodes)[1]

    def test_several_nodes_need_no_more_than_one_does(self):
        self.assertEqual(self.with_nodes(steps=900, bytes_written=1100, statements=3.002, commits=1.002), [])
        self.assertEqual(self.with_nodes(statements=3.01),
                         ["sqlite: idle, 3 nodes: statements 3.01 instead of 3 with 1 node"])
        self.assertEqual(len(self.with_nodes(commits=2, rows_read=5.6, bytes_written=1101)), 3)

    def test_bytes_of_several_nodes_are_not_compared_on_an_older_version(self):
        rows = {"idle, 1 node": ROW, "idle, 3 nodes": ROW | {"bytes_written": 9000}}
        nodes = {"sqlite": {"version": "13.16", "costs": rows}}
        self.assertEqual(
            costs.compare({"sqlite": {"version": "15.2", "costs": nodes["sqlite"]["costs"]}}, nodes)[1], [])

    def test_several_nodes_are_held_against_one(self):
        alone = {"sqlite": {"version": "1", "costs": {"idle, 3 nodes": ROW}}}
        self.assertEqual(costs.compare(alone, alone)[1], ['sqlite: "idle, 3 nodes" has no figure for 1 node'])

    def test_fewer_are_told(self):
        lines, faults = costs.compare(counted(), counted(bytes_written=500))
        self.assertEqual(faults, [])
        self.assertIn("--update", lines[-1])

    def test_a_table_has_a_line_for_each_operation(self):
        text = costs.one_line_each(json.dumps(counted(), indent=2))
        self.assertEqual(json.loads(text), counted())
        self.assertEqual(sum("statements" in line and "steps" in line for line in text.splitlines()), 1)


if __name__ == "__main__":
    unittest.main()

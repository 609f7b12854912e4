#!/usr/bin/env python3
"""Tests guarantees_test.py on trees of its own."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import guarantees_test as script  # noqa: E402

HEAD = "| id | promise | tests |\n|---|---|---|\n"
ALL_IDS = f"| {', '.join(script.WANTED)} | all of them | `Wheel.*` |\n"


class Check(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = Path(folder.name)
        self.put("test/CMakeLists.txt", "")
        self.put("test/engine/wheel_test.cpp", "TEST(Wheel, Turns) {\n}\n\nTYPED_TEST(Wheel, Stops) {\n}\n")

    def put(self, name, text):
        path = self.tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def expect(self, rows, *faults):
        self.put("docs/guarantees.md", HEAD + rows)
        done = subprocess.run([sys.executable, script.__file__, self.tree], capture_output=True, text=True, check=False)
        told = [line.split(None, 1)[1] for line in done.stdout.splitlines() if line.startswith(("WRONG", "TODO"))]
        self.assertEqual((told, done.returncode), (list(faults), 1 if faults else 0), done.stdout + done.stderr)

    def test_passes_when_each_stands_with_the_other(self):
        self.expect(ALL_IDS)
        self.expect(ALL_IDS.replace("`Wheel.*`", "`Wheel.Turns`, `Wheel.Sto*`"))

    def test_finds_a_test_that_no_row_has(self):
        self.expect(ALL_IDS.replace("*`", "Turns`"), "no row has the test Wheel.Stops")

    def test_finds_a_parameterized_test_that_no_row_has(self):
        self.put("test/service/queue_test.cpp", "TEST_P(Queue, IsEmpty) {\n}\nTEST_F(Other, IsFull) { }\n")
        self.expect(ALL_IDS, "no row has the test Other.IsFull", "no row has the test Queue.IsEmpty")

    def test_finds_a_test_of_ctest_that_no_row_has(self):
        self.put("test/tools/CMakeLists.txt",
                 "add_test(NAME links COMMAND x)\ntiming_wheel_script_test(site docs site.py)\n")
        self.put("test/asio/CMakeLists.txt", "  timing_wheel_boost_program(beast beast.hpp)\n")
        self.put("examples/CMakeLists.txt", "timing_wheel_recipe(retry)\n")
        self.expect(ALL_IDS, "no row has the test links", "no row has the test on_boost_beast",
                    "no row has the test recipe_retry", "no row has the test site")

    def test_leaves_out_what_is_commented_out(self):
        self.put("test/engine/heap_test.cpp", "// TEST(Heap, Grows) {\n")
        self.expect(ALL_IDS)

    def test_finds_a_row_of_no_test(self):
        self.expect(ALL_IDS + "| | lost | |\n", "docs/guarantees.md:4 (lost): names no test")

    def test_finds_the_name_of_a_test_that_is_gone(self):
        self.expect(ALL_IDS + "| X1 | gone | `Wheel.Flies` |\n",
                    "docs/guarantees.md:4 (X1): there is no test Wheel.Flies")

    def test_finds_an_id_without_a_row(self):
        self.expect(ALL_IDS.replace("scenario 7, ", ""), "no row for scenario 7")

    def test_finds_what_is_to_be_done(self):
        self.expect(ALL_IDS + "| X1 | later | TODO |\n", "docs/guarantees.md:4 (X1): TODO")


if __name__ == "__main__":
    unittest.main()

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
FILES = {"test/engine/wheel_test.cpp": "TEST(Wheel, Turns) {\n}\n\nTYPED_TEST(Wheel, Stops) {\n}\n"}
# The rows of a page, what is told of them, and more files.
RULES = (
    (ALL_IDS, []),
    (ALL_IDS.replace("`Wheel.*`", "`Wheel.Turns`, `Wheel.Sto*`"), []),
    (ALL_IDS.replace("*`", "Turns`"), ["no row has the test Wheel.Stops"]),
    (ALL_IDS, ["no row has the test Other.IsFull", "no row has the test Queue.IsEmpty"],
     {"test/service/queue_test.cpp": "TEST_P(Queue, IsEmpty) {\n}\nTEST_F(Other, IsFull) { }\n"}),
    (ALL_IDS, [f"no row has the test {name}" for name in ("links", "on_boost_beast", "recipe_retry", "site")],
     {"test/tools/CMakeLists.txt": "add_test(NAME links COMMAND x)\ntiming_wheel_script_test(site docs site.py)\n",
      "test/asio/CMakeLists.txt": "  timing_wheel_boost_program(beast beast.hpp)\n",
      "examples/CMakeLists.txt": "timing_wheel_recipe(retry)\n"}),
    (ALL_IDS, [], {"test/engine/heap_test.cpp": "// TEST(Heap, Grows) {\n"}),
    (ALL_IDS + "| | lost | |\n", ["docs/guarantees.md:4 (lost): names no test"]),
    (ALL_IDS + "| X1 | gone | `Wheel.Flies` |\n", ["docs/guarantees.md:4 (X1): there is no test Wheel.Flies"]),
    (ALL_IDS.replace("S7, ", ""), ["no row for S7"]),
    (ALL_IDS + "| X1 | later | TODO |\n", ["docs/guarantees.md:4 (X1): TODO"]),
)


class Check(unittest.TestCase):
    def test_tells_what_is_wrong_and_nothing_else(self):
        for rows, faults, *files in RULES:
            with tempfile.TemporaryDirectory() as tree:
                for name, text in {"docs/guarantees.md": HEAD + rows, **FILES, **dict(*files)}.items():
                    Path(tree, name).parent.mkdir(parents=True, exist_ok=True)
                    Path(tree, name).write_text(text, encoding="utf-8")
                done = subprocess.run([sys.executable, script.__file__, tree], capture_output=True, text=True,
                                      check=False)
            told = [line.split(None, 1)[1] for line in done.stdout.splitlines() if line.startswith(("WRONG", "TODO"))]
            self.assertEqual((told, done.returncode), (faults, 1 if faults else 0), done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()

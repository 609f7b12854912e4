#!/usr/bin/env python3
"""Whether each layer includes only what docs/design.md lets it know, and whether docs/concurrency.md has a row for each
atomic: layers_test.py SOURCE_DIRECTORY.
"""

import re
import sys
import unittest
from pathlib import Path

ROOT = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
# The folders of `src` in the order that a timer travels, then the ground; each may include what stands below it, and
# what else is named here. Of the public headers, engine and core have those of their data.
WAY = ["front", "drive", "shard", "core", "engine"]
GROUND = ["report", "shared", "system"]
ENGINE = ["timing_wheel/engine/", "timing_wheel/detail/"]
CORE = [*ENGINE, "timing_wheel/pending.hpp", "timing_wheel/task.hpp", "timing_wheel/time.hpp",
        "timing_wheel/timer_handle.hpp", "timing_wheel/timer_stats.hpp"]


def below(folders, name):
    return [f"{folder}/" for folder in folders[folders.index(name):]]


# What the folders of `src` may include: the beginnings of names.
KNOWS = {
    **{name: [*below(WAY, name), *(f"{ground}/" for ground in GROUND), "timing_wheel/"] for name in WAY[:3]},
    "core": [*below(WAY, "core"), *CORE],
    "engine": [*below(WAY, "engine"), *ENGINE, "system/on_linux.hpp", "system/trace_point.hpp",
               "system/windows.hpp"],
    "report": [*below(GROUND, "report"), "timing_wheel/"],
    "shared": [*below(GROUND, "shared"), "timing_wheel/"],
    "system": ["system/", "timing_wheel/detail/", "timing_wheel/time.hpp"],
    "durable": ["shared/", "timing_wheel/"],
}
# The folders within `durable`; its front has none of its own. The front and the node know no store, since a user hands
# one over, and the stores do not know each other.
DURABLE = {
    "": ["", "node", "store"],
    "node": ["node", "store"],
    "sqlite": ["sqlite", "store"],
    "postgres": ["postgres", "store"],
    "store": ["store"],
}
OF_DURABLE = re.compile(r"durable/(?:([^/]+)/)?[^/]+")
INCLUDE = re.compile(r'^\s*#\s*include "([^"]+)"', re.MULTILINE)
ATOMIC = re.compile(r"std::atomic<(?:[^<>]|<[^<>]*>)*>\s+(\w+)\s*[={;]")


def knows(layer, folder, name):
    inside = OF_DURABLE.fullmatch(name)
    if layer == "durable" and inside:
        return (inside[1] or "") in DURABLE[folder]
    return name.startswith(tuple(KNOWS[layer]))


def faults_of(layer, text, folder=""):
    """What a file of a layer, in that folder of it, may not include."""
    return [name for name in INCLUDE.findall(text) if not knows(layer, folder, name)]


def unlisted(page, path, text):
    """The atomics of a file that no row of the page names beside this file; `there` is the file of the row before."""
    named, where = "", ""
    for cells in (line.split("|") for line in page.splitlines() if line.startswith("|")):
        where = where if cells[2].strip() == "there" else cells[2]
        named += cells[1] if f"`{path}`" in where else ""
    return [name for name in ATOMIC.findall(text) if not re.search(rf"\b{name}`", named)]


class Layers(unittest.TestCase):
    def test_are_the_folders_of_the_sources(self):
        self.assertEqual({path.name for path in (ROOT / "src").iterdir()}, set(KNOWS))
        self.assertEqual({path.name for path in (ROOT / "src/durable").iterdir() if path.is_dir()}, set(DURABLE) - {""})

    def test_include_only_what_they_know(self):
        found = {}
        for layer in KNOWS:
            sources = sorted((ROOT / "src" / layer).rglob("*.[ch]pp"))
            self.assertTrue(sources, layer)
            for path in sources:
                folder = "/".join(path.relative_to(ROOT / "src" / layer).parts[:-1])
                if faults := faults_of(layer, path.read_text(encoding="utf-8"), folder):
                    found[str(path.relative_to(ROOT))] = faults
        self.assertEqual(found, {})

    def test_have_a_row_for_each_atomic(self):
        page = (ROOT / "docs/concurrency.md").read_text(encoding="utf-8")
        paths = [path for folder in ("include", "src") for path in sorted((ROOT / folder).rglob("*.[ch]pp"))]
        found = {(str(path.relative_to(ROOT)), name) for path in paths
                 for name in unlisted(page, path.relative_to(ROOT), path.read_text(encoding="utf-8"))}
        self.assertEqual(found, set())
        rows = "| `a::b_` | `src/a.hpp` | relaxed |\n| `c_` | there | relaxed |"
        text = "std::atomic<bool> b_{false};\nstd::atomic<std::pair<int, int>> c_;\nstd::atomic<int> d = 0;"
        self.assertEqual(unlisted(rows, "src/a.hpp", text), ["d"])
        self.assertEqual(unlisted(rows, "src/b.hpp", text), ["b_", "c_", "d"])

    def test_that_look_elsewhere_are_found(self):
        self.assertEqual(faults_of("durable", '#include "durable/node/node.hpp"\n#include "system/fork_watch.hpp"\n'),
                         ["system/fork_watch.hpp"])
        self.assertEqual(faults_of("durable", '#include "durable/run_gate.hpp"\n', "node"), ["durable/run_gate.hpp"])
        self.assertEqual(faults_of("durable", '#include "durable/sqlite/clock.hpp"\n'), ["durable/sqlite/clock.hpp"])
        self.assertEqual(faults_of("core", '#include "timing_wheel/timer.hpp"\n#include <mutex>\n'),
                         ["timing_wheel/timer.hpp"])
        self.assertEqual(faults_of("engine", '  # include "core/slab.hpp"\n'), ["core/slab.hpp"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)

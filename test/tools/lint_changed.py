#!/usr/bin/env python3
"""The objects in whose making clang-tidy reads what differs from a commit: lint_changed.py SOURCE BUILD BASE.

BUILD is configured with the preset `tidy`. A source is read in each object that has it; a header in that object most of
whose sources include it, as clang-tidy says there what is wrong in the header. Prints `all` after a change of the rules.
"""

import re
import sys
from pathlib import Path

from stand_alone import Sources, git, objects_of

INCLUDED_SOURCE = re.compile(r'^#include "(/[^"]+[.]cpp)"', re.MULTILINE)
IN_GROUP = re.compile(r"(^|/)lint_\w+[.]dir/")
RULES = re.compile(r"(^|/)[.]clang-tidy$|^cmake/(lint|warnings)[.]cmake$|^CMakePresets[.]json$")


def sources_of_objects(source, build):
    """The project's sources of each object that is read. A source of a group (`lint_...`) is read there, alone not."""
    found = {}
    for path, outputs in objects_of(build, build).items():
        files = {Path(name).resolve() for name in INCLUDED_SOURCE.findall(path.read_text(encoding="utf-8"))}
        found.update({output: files for output in outputs})
    for path, outputs in objects_of(source, build).items():
        found.update({output: {path} for output in outputs})
    grouped = set().union(*(files for output, files in found.items() if IN_GROUP.search(output)))
    return {output: files for output, files in found.items() if IN_GROUP.search(output) or files - grouped}


def to_read(sources, objects, changed):
    chosen = {output for output, files in objects.items() if changed & files}
    for header in sorted(path for path in changed if path.suffix == ".hpp" and path.exists()):
        for included in (sources.included_by, sources.all_included_by):
            counts = {output: sum(header in included(path) for path in files) for output, files in objects.items()}
            most = max(counts, key=counts.get)
            if counts[most] > 0:
                if not any(counts[output] for output in chosen):
                    chosen.add(most)
                break
    return chosen


def main():
    source, build = (Path(argument).resolve() for argument in sys.argv[1:3])
    names = git(source, "diff", "--name-only", "--no-renames", sys.argv[3], "--").splitlines()
    if any(RULES.search(name) for name in names):
        print("all")
        return
    folders = [source / name for name in ("include", "src", "test", "examples", "benchmarks", "tools")]
    changed = {source / name for name in names}
    print(*sorted(to_read(Sources(source, folders), sources_of_objects(source, build), changed)))


if __name__ == "__main__":
    main()

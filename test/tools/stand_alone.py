#!/usr/bin/env python3
"""Compiles sources by themselves that CI otherwise compiles together with others.

stand_alone.py SOURCE BUILD BASE SECONDS

BUILD is configured with an object for each source. First come the sources that differ from the commit BASE, all of
them. Then come those that include a header that differs, as many as SECONDS are enough for; it says how many were left
out.
"""

import functools
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
LAST_STEP = re.compile(r"\[(\d+)/\d+\]")


class Sources:
    def __init__(self, source, folders):
        self.source, self.folders = source, folders

    def resolve(self, name, beside):
        """The file of the project that `name` is in a source in the folder `beside`; None if it is another's."""
        for folder in [beside, *self.folders]:
            if (folder / name).is_file():
                return (folder / name).resolve()
        return None

    @functools.cache
    def included_by(self, path):
        found = [self.resolve(name, path.parent) for name in INCLUDE.findall(path.read_text())]
        return [header for header in found if header]

    def all_included_by(self, path):
        seen, left = set(), [path]
        while left:
            for header in self.included_by(left.pop()):
                if header not in seen:
                    seen.add(header)
                    left.append(header)
        return seen


def git(source, *arguments):
    return subprocess.run(["git", "-C", source, *arguments], capture_output=True, text=True, check=True).stdout


def objects_of(source, build):
    """The objects of each source of the project, without what is generated."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = Path(entry["directory"], entry["file"]).resolve()
        output = entry.get("output") or re.search(r" -o (\S+)", entry["command"]).group(1)
        if path.is_relative_to(source) and not path.is_relative_to(source / "build"):
            found.setdefault(path, []).append(output)
    return found


def to_compile(sources, known, changed):
    """Those that are to be compiled in any case, and those for which there may be time."""
    first = [path for path in known if path in changed]
    others = [path for path in known if path not in changed and changed & sources.all_included_by(path)]
    return first, others


def compile_all(build, objects, seconds=None):
    """Returns whether nothing failed, and how many were compiled."""
    if not objects:
        return True, 0
    with subprocess.Popen(["ninja", "-C", build, "-k", "0", *objects], stdout=subprocess.PIPE, text=True,
                          start_new_session=True, env={**os.environ, "NINJA_STATUS": "[%f/%t] "}) as ninja:
        cut_off = False
        try:
            output, _ = ninja.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            cut_off = True
            os.killpg(ninja.pid, signal.SIGKILL)
            output, _ = ninja.communicate()
    failed = "FAILED:" in output
    if failed:
        print(output)
    done = max((int(step) for step in LAST_STEP.findall(output)), default=0)
    return not failed and (cut_off or ninja.returncode == 0), done


def main():
    source, build = (Path(argument).resolve() for argument in sys.argv[1:3])
    base, seconds = sys.argv[3], float(sys.argv[4])
    begin = time.monotonic()
    changed = {source / name for name in git(source, "diff", "--name-only", "--no-renames", base, "--").splitlines()}
    known = objects_of(source, build)
    folders = [source / name for name in ("include", "src", "test", "examples", "benchmarks", "tools")]
    first, others = to_compile(Sources(source, folders), known, changed)
    commit = git(source, "rev-parse", "HEAD").strip()
    others = random.Random(commit).sample(sorted(others), len(others))
    first, others = [[output for path in paths for output in known[path]] for paths in (first, others)]

    passed, done = compile_all(build, first)
    print(f"{done} of {len(first)} objects of changed sources compiled by themselves", flush=True)
    left = max(seconds - (time.monotonic() - begin), 0.1)
    others_pass, done = compile_all(build, others, left)
    print(f"{done} of {len(others)} objects that include changed headers" +
          (f"; {len(others) - done} left out, for which there was no time" if done < len(others) else ""))
    return 0 if passed and others_pass else 1


if __name__ == "__main__":
    sys.exit(main())

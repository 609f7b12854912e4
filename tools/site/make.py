#!/usr/bin/env python3
"""Makes the site: make.py [DIRECTORY], build/docs unless told otherwise. Fails if Doxygen has anything to complain of.

Doxygen runs twice. First over the headers alone, for the names that they have, so that code in the guide can link to
them.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def doxygen(settings, **environment):
    configuration = (ROOT / "tools" / "site" / "Doxyfile").read_text(encoding="utf-8")
    configuration += "".join(f"{name} = {value}\n" for name, value in settings.items())
    return subprocess.run(["doxygen", "-"], input=configuration, text=True, cwd=ROOT, env=os.environ | environment,
                          stderr=subprocess.PIPE, check=False)


def complaints(done):
    return done.stderr.replace(f"{ROOT}/", "")


def main():
    site = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "docs").resolve()
    names = site.with_name(site.name + ".names.xml")
    shutil.rmtree(site, ignore_errors=True)
    site.parent.mkdir(parents=True, exist_ok=True)
    settings = {"OUTPUT_DIRECTORY": site.parent, "HTML_OUTPUT": site.name}
    version = re.search(r"^\s*VERSION (\S+)$", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"), re.MULTILINE)
    settings["PROJECT_NUMBER"] = version[1] if version else ""
    told = subprocess.run(["doxygen", "--version"], capture_output=True, text=True, check=True).stdout
    if tuple(map(int, re.findall(r"\d+", told)[:3])) >= (1, 9, 5):
        settings["HTML_COLORSTYLE"] = "LIGHT"  # those before know no other; the dark is our own

    only_names = {"INPUT": "include tools/site/reference.dox", "FILTER_PATTERNS": "", "GENERATE_HTML": "NO",
                  "GENERATE_TAGFILE": names, "WARN_IF_UNDOCUMENTED": "NO", "WARN_AS_ERROR": "NO"}
    doxygen(settings | only_names)
    done = doxygen(settings, TIMING_WHEEL_NAMES=str(names))
    print(complaints(done), end="", file=sys.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())

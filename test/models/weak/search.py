#!/usr/bin/env python3
"""Searches all executions of real headers under the memory models RC11 and IMM: search.py GENMC FOLDER HARNESS...

GENMC is the program of that name, version 0.10, built with the LLVM of the `clang++` here. With `--check` in its place
nothing is searched: the head of each harness still fits the files of which it speaks. It says:

    right: PLACE=1                       with this macro GenMC must find no error
    wrong: PLACE=1: `OLD` -> `NEW`: what with this macro, and OLD in the file changed into NEW, it must find one
    file: PATH                           of what comes next
    with: `OLD` -> `NEW`                 is changed always: what GenMC cannot do, or what only makes the search longer
    same: `TEXT`                         the file has that: what the harness does in the same way
    cut: `FIRST` to `LAST`               cut_1.hpp and so on are lines of the file: the one that contains FIRST, and if
                                         that does not end with LAST, all up to the line LAST
"""

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
FLAGS = ["-std=c++20", "-O1", "-fno-vectorize", "-fno-slp-vectorize", "-fno-threadsafe-statics",
         "-fno-c++-static-destructors", "-fno-discard-value-names", "-gline-tables-only", "-S", "-emit-llvm"]
# Without what takes a warning for an error, or fails at what the compiler makes of the headers.
OPTIONS = ["--disable-estimation", "--disable-mm-detector", "--disable-ipr", "--disable-loop-jump-threading",
           "--input-from-bitcode-file"]
SHADOWS = ["condition_variable", "system/process_barrier.hpp", "timing_wheel/detail/waiting.hpp"]
FOUND = re.compile(r"^Error: (Safety violation|Non-atomic race)!", re.MULTILINE)


def entries(harness):
    file = None
    for name, text in re.findall(r"^// (right|wrong|file|with|same|cut): ?(.*)$", harness.read_text(), re.MULTILINE):
        if name == "file":
            file = text
        else:
            yield name, file, text, [quoted.replace("\\n", "\n") for quoted in re.findall("`(.+?)`", text)]


def prepare(harness, folder, way):
    """Writes the changed files of one way to search."""
    changed = {f"src/{shadow}": '#include "checker.hpp"\n' for shadow in SHADOWS}
    cuts = []
    for entry in entries(harness):
        name, file, text, quoted = entry
        content = changed.get(file) or (file and (ROOT / file).read_text())
        if (name == "with" or entry == way) and len(quoted) == 2:
            if content.count(quoted[0]) != 1:
                sys.exit(f"{harness.name}: not once in {file}: {text}")
            changed[file] = content.replace(*quoted)
        elif name == "same" and quoted[0] not in content:
            sys.exit(f"{harness.name}: not in {file}: {text}")
        elif name == "cut":
            cuts.append((file, *quoted))
    for number, (file, first, last) in enumerate(cuts, 1):
        lines = (changed.get(file) or (ROOT / file).read_text()).splitlines()
        begin = next(i for i, line in enumerate(lines) if first in line)
        end = begin if lines[begin].endswith(last) else lines.index(last, begin)
        changed[f"src/cut_{number}.hpp"] = "\n".join(lines[begin:end + 1]) + "\n"
    for file, content in changed.items():
        path = folder / file.split("/", 1)[1]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def search(genmc, harness, folder, way):
    """Whether GenMC finds what it must in both models."""
    kind, _, text, _ = way
    macros = re.match(r"(?:[A-Z_]+(?:=\d)?(?= |:|$) ?)*", text).group().split()
    paths = [f"-I{path}" for path in (folder, HERE, ROOT / "include", ROOT / "src")]
    code = folder / "harness.ll"
    subprocess.run(["clang++", *FLAGS, *paths, *[f"-D{macro}" for macro in macros], "-o", code, harness], check=True)
    is_right = True
    for model in ("rc11", "imm"):
        done = subprocess.run([genmc, f"--{model}", *OPTIONS, code], capture_output=True, text=True, check=False)
        said = done.stdout + done.stderr
        found = FOUND.search(said)
        if not found and "No errors were detected" not in said:
            sys.exit(f"{harness.stem}: GenMC failed:\n{said}")
        ok = (found is None) == (kind == "right")
        executions = re.search(r"executions explored: (\d+)", said).group(1)
        print(f"{'ok' if ok else 'FAILED'}: {harness.stem}, {model}, {kind}: {text}: "
              f"{found.group(1) if found else 'no error'}, {executions} executions", flush=True)
        is_right = is_right and ok
    return is_right


def main():
    genmc, folder, *harnesses = sys.argv[1:]
    failed = 0
    for harness in map(Path, harnesses):
        for number, way in enumerate(entry for entry in entries(harness) if entry[0] in ("right", "wrong")):
            place = Path(folder).resolve() / f"{harness.stem}_{number}"
            prepare(harness, place, way)
            failed += genmc != "--check" and not search(genmc, harness, place, way)
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())

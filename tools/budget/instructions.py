#!/usr/bin/env python3
"""Counts the instructions of each operation under Valgrind: instructions.py PROGRAM TABLE.json [--update]

Compares them with the table: fails if one has grown by more than 10 %, or is in one of the two only. With another
compiler or processor than the table's nothing is compared. --update writes the table anew.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TOLERANCE = 0.10
COUNTED = "*counted(*"  # the function of instructions.cpp around what is counted
RENEW = "to renew the table: ./dev instructions --update"
CONDITIONS = ("compiler", "processor")


def instructions_of(output):
    """The sum in what callgrind has written."""
    match = re.search(r"^totals: (\d+)$", output, flags=re.M)
    if match is None or int(match[1]) == 0:
        raise ValueError("nothing was counted: does the program still call counted()?")
    return int(match[1])


def count(program, name, timers):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "callgrind.out"
        command = ["valgrind", "-q", "--tool=callgrind", "--collect-atstart=no", f"--toggle-collect={COUNTED}",
                   f"--callgrind-out-file={path}", program, name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ValueError(f"{name}: {done.stderr.strip() or done.returncode}")
        return round(instructions_of(path.read_text(encoding="utf-8")) / timers, 1)


def measure(program):
    listing = json.loads(subprocess.run([program], stdout=subprocess.PIPE, text=True, check=True).stdout)
    if not listing["release"]:
        raise ValueError("this is not an optimised build without assertions, whose instructions mean something")
    counts = {}
    for number, (name, timers) in enumerate(listing["operations"].items(), 1):
        print(f"==> {number} of {len(listing['operations'])}: {name}", file=sys.stderr)
        counts[name] = count(program, name, timers)
    return {key: listing[key] for key in CONDITIONS} | {"instructions": counts}


def compare(table, measured):
    """The lines to print, and what is wrong: empty if all is well."""
    if any(table[key] != measured[key] for key in CONDITIONS):
        lines = [f"{name:42}{now:>10,.1f}" for name, now in measured["instructions"].items()]
        built, wanted = (", ".join(each[key] for key in CONDITIONS) for each in (measured, table))
        return [f"{'instructions':42}{'now':>10}"] + lines + [
            "", f"NOTHING WAS COMPARED: this is {built}; the table is of {wanted}."], []

    lines, faults, renew = [f"{'instructions':42}{'table':>10}{'now':>10}{'change':>10}"], [], False
    before_all, now_all = table["instructions"], measured["instructions"]
    for name in list(now_all) + [name for name in before_all if name not in now_all]:
        before, now = before_all.get(name), now_all.get(name)
        cells = "".join(f"{'–' if value is None else f'{value:,.1f}':>10}" for value in (before, now))
        if now is None:
            faults.append(f"{name} is in the table and was not counted")
        elif before is None:
            faults.append(f"{name} is not in the table")
        else:
            change = now / before - 1
            cells += f"{change:>+10.1%}"
            if change > TOLERANCE:
                faults.append(f"{name} takes {change:.1%} more instructions: {now:,.1f} instead of {before:,.1f}")
            if change < -TOLERANCE:
                cells += "  fewer"
                renew = True
        lines.append(f"{name:42}{cells}")
    if renew:
        lines += ["", f"Fewer than in the table by more than {TOLERANCE:.0%}, which is good; {RENEW}"]
    return lines, faults


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--update"]
    if len(arguments) != 2 or len(sys.argv) - 1 - len(arguments) > 1:
        sys.exit(__doc__)
    program, path = str(Path(arguments[0]).resolve()), Path(arguments[1])
    try:
        measured = measure(program)
        if "--update" in sys.argv:
            path.write_text(json.dumps(measured, indent=2) + "\n", encoding="utf-8")
            print(path.read_text(encoding="utf-8"), end="")
            return 0
        lines, faults = compare(json.loads(path.read_text(encoding="utf-8")), measured)
    except (OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
        sys.exit(f"instructions.py: {type(error).__name__}: {error}")
    print("\n".join(lines))
    if faults:
        sys.exit("\n".join(["", *(f"WRONG {fault}" for fault in faults), f"If it has to be so, {RENEW}"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())

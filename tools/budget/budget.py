#!/usr/bin/env python3
"""Holds what is counted against a table beside this file: budget.py instructions|costs PROGRAM [--update]

`instructions` are those of each operation of the library, under Valgrind; with another compiler or processor than the
table's nothing is compared. `costs` are those of a durable check on each store; steps of the database's machine are
compared where its version is the table's, and bytes unless its version is older; and what several nodes do for a check,
or for none, must not be more than what one does, whatever the table says.

Fails if a figure has grown by more than 10 %, a number of statements, commits or round trips at all, or if an operation
is in one of the two only. --update writes the table anew, and keeps the stores that were not counted.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TOLERANCE = 0.10
EXACT = ("statements", "commits", "round_trips")
# Statements or commits, for a check, with each node more: in a burst of 8 000 each node has a last transaction, of up
# to 8 statements.
NODE_MORE = 0.001
COSTS = ("statements", "rows_read", "commits", "bytes_written", "steps", "round_trips")
CONDITIONS = ("compiler", "processor")
COUNTED = "*counted(*"  # the function of benchmarks/instructions.cpp around what is counted


def allowed(figure, before):
    return before + 0.0005 if figure in EXACT else before * (1 + TOLERANCE)


def held(before_of, now_of, figures):
    """The lines to print, and what is wrong, of operations with their figures."""
    lines, faults = [], []
    for name in list(now_of) + [name for name in before_of if name not in now_of]:
        before, now = before_of.get(name), now_of.get(name)
        if now is None or before is None:
            faults.append(f"{name} is " + ("in the table and was not counted" if now is None else "not in the table"))
            continue
        less = [f for f in figures if now.get(f, 0) < before.get(f, 0) * (1 - TOLERANCE)]
        lines.append(f"  {name:48}" + "".join(f"{value:>16,.10g}" for value in now.values()) +
                     (f"  fewer {', '.join(less)} than in the table" if less else ""))
        faults += [f"{name}: {figure} {now.get(figure, 0):,.10g} instead of {before.get(figure, 0):,.10g}"
                   for figure in figures if now.get(figure, 0) > allowed(figure, before.get(figure, 0))]
    return lines, faults


def growth(costs, left_out):
    """What "…, N nodes" costs more than "…, 1 node" does.

    Rows that a scan steps over are more, since each node steps over those of all; the table has how many.
    """
    for name, of_nodes in costs.items():
        found = re.fullmatch(r"(.*), (\d+) nodes", name)
        if not found:
            continue
        of_one = costs.get(f"{found[1]}, 1 node")
        if of_one is None:
            yield f"{name} has no figure for 1 node"
            continue
        for figure in (figure for figure in COSTS if figure not in ("steps", *left_out)):
            more = NODE_MORE * (int(found[2]) - 1) if figure in EXACT else 0
            if of_nodes[figure] > allowed(figure, of_one[figure]) + more:
                yield f"{name}: {figure} {of_nodes[figure]:,.10g} instead of {of_one[figure]:,.10g} with 1 node"


def major(version):
    return int(version.split(".")[0])


def compare_costs(table, measured):
    lines, faults = [], []
    for store, now in measured.items():
        before = table.get(store, {"version": None, "costs": {}})
        left_out = [] if before["version"] == now["version"] else ["steps"]
        if before["version"] is not None and major(now["version"]) < major(before["version"]):
            left_out.append("bytes_written")
        lines.append(f"{store + ' ' + now['version']:50}" + "".join(f"{figure:>16}" for figure in COSTS))
        if left_out:
            lines.append(f"  {' and '.join(left_out)} are not compared: the table is of {before['version']}")
        shown, wrong = held(before["costs"], now["costs"], [figure for figure in COSTS if figure not in left_out])
        lines += shown
        faults += [f"{store}: {fault}" for fault in [*growth(now["costs"], left_out), *wrong]]
    return lines, faults


def compare_instructions(table, measured):
    before, now = ({name: {"instructions": value} for name, value in each["instructions"].items()}
                   for each in (table, measured))
    if all(table[key] == measured[key] for key in CONDITIONS):
        return held(before, now, ["instructions"])
    built, wanted = (", ".join(each[key] for key in CONDITIONS) for each in (measured, table))
    return [*held(now, now, [])[0], "", f"NOTHING WAS COMPARED: this is {built}; the table is of {wanted}."], []


def instructions_of(output):
    """The sum in what callgrind has written."""
    match = re.search(r"^totals: (\d+)$", output, flags=re.M)
    if match is None or int(match[1]) == 0:
        raise ValueError("nothing was counted: does the program still call counted()?")
    return int(match[1])


def count_instructions(program, listing):
    if not listing["release"]:
        raise ValueError("this is not an optimised build without assertions, whose instructions mean something")
    counts = {}
    for number, (name, timers) in enumerate(listing["operations"].items(), 1):
        print(f"==> {number} of {len(listing['operations'])}: {name}", file=sys.stderr)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "callgrind.out")
            subprocess.run(["valgrind", "-q", "--tool=callgrind", "--collect-atstart=no", f"--toggle-collect={COUNTED}",
                            f"--callgrind-out-file={path}", program, name], stdout=subprocess.PIPE, check=True)
            counts[name] = round(instructions_of(path.read_text(encoding="utf-8")) / timers, 1)
    return {key: listing[key] for key in CONDITIONS} | {"instructions": counts}


def one_line_each(table):
    """The table as text: the figures of an operation are on a line of their own."""
    return re.sub(r"\{[^{}]*\}", lambda found: re.sub(r"\s*\n\s*", " ", found[0]).replace("{ ", "{").replace(" }", "}")
                  if "statements" in found[0] else found[0], json.dumps(table, indent=2)) + "\n"


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--update"]
    if len(arguments) != 2 or arguments[0] not in ("instructions", "costs"):
        sys.exit(__doc__)
    kind, program = arguments[0], str(Path(arguments[1]).resolve())
    path = Path(__file__).resolve().with_name(f"{kind}.json")
    renew = f"to renew the table: ./dev {'durable-costs' if kind == 'costs' else kind} --update"
    try:
        measured = json.loads(subprocess.run([program], stdout=subprocess.PIPE, text=True, check=True).stdout)
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kind == "instructions":
            measured = count_instructions(program, measured)
        if "--update" in sys.argv:
            kept = measured if kind == "instructions" else measured | {
                store: costs for store, costs in kept.items() if store not in measured}
            path.write_text(one_line_each(kept), encoding="utf-8")
        lines, faults = (compare_costs if kind == "costs" else compare_instructions)(kept, measured)
    except (OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
        sys.exit(f"budget.py: {type(error).__name__}: {error}")
    print("\n".join(lines))
    if any("  fewer " in line for line in lines):
        print(f"\nFewer than in the table by more than {TOLERANCE:.0%} is good; {renew}")
    if faults:
        sys.exit("\n".join(["", *(f"WRONG {fault}" for fault in faults), f"If it has to be so, {renew}"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Holds what a durable check costs against a table: costs.py PROGRAM TABLE.json [--update]

Fails if a figure has grown by more than 10 %, a number of statements or of commits at all, or if an operation is in one
of the two only; and if what several nodes do for a check, or for none, is more than what one does, whatever the table
says. Steps of the database's machine are compared where its version is the table's, and bytes unless its version is
older. --update writes the table anew, and keeps the stores that were not counted.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

TOLERANCE = 0.10
EXACT = ("statements", "commits")
# Statements or commits, for a check, with each node more: in a burst of 8 000 each node has a last transaction, of up
# to 8 statements.
NODE_MORE = 0.001
FIGURES = ("statements", "rows_read", "commits", "bytes_written", "steps")
RENEW = "to renew the table: ./dev durable-costs --update"


def allowed(figure, before):
    return before + 0.0005 if figure in EXACT else before * (1 + TOLERANCE)


def major(version):
    return int(version.split(".")[0])


def growth(costs, left_out):
    """What "…, N nodes" costs more than "…, 1 node" does.

    Rows that a scan steps over are more, since each node steps over those of all; the table has how many.
    """
    faults = []
    for name, of_nodes in costs.items():
        found = re.fullmatch(r"(.*), (\d+) nodes", name)
        if not found:
            continue
        of_one = costs.get(f"{found[1]}, 1 node")
        if of_one is None:
            faults.append(f'"{name}" has no figure for 1 node')
            continue
        for figure in (figure for figure in FIGURES if figure not in ("steps", *left_out)):
            more = NODE_MORE * (int(found[2]) - 1) if figure in EXACT else 0
            if of_nodes[figure] > allowed(figure, of_one[figure]) + more:
                faults.append(
                    f"{name}: {figure} {of_nodes[figure]:,.10g} instead of {of_one[figure]:,.10g} with 1 node")
    return faults


def compare(table, measured):
    """The lines to print, and what is wrong: empty if all is well."""
    lines, faults, renew = [], [], False
    for store, now_of in measured.items():
        before_of = table.get(store, {"version": None, "costs": {}})
        same = before_of["version"] == now_of["version"]
        older = before_of["version"] is not None and major(now_of["version"]) < major(before_of["version"])
        left_out = (() if same else ("steps",)) + (("bytes_written",) if older else ())
        figures = [figure for figure in FIGURES if figure not in left_out]
        lines += [f"{store + ' ' + now_of['version']:50}" + "".join(f"{figure:>16}" for figure in FIGURES)]
        if not same:
            lines += [f"  {' and '.join(left_out)} are not compared: the table is of {before_of['version']}"]
        befores, nows = before_of["costs"], now_of["costs"]
        faults += [f"{store}: {fault}" for fault in growth(nows, left_out)]
        for name in list(nows) + [name for name in befores if name not in nows]:
            before, now = befores.get(name), nows.get(name)
            if now is None or before is None:
                faults.append(f"{store}: \"{name}\" " + ("was not counted" if now is None else "is not in the table"))
                continue
            lines.append(f"  {name:48}" + "".join(f"{now.get(figure, 0):>16,.10g}" for figure in FIGURES))
            for figure in figures:
                was, value = before.get(figure, 0), now.get(figure, 0)
                if value > allowed(figure, was):
                    faults.append(f"{store}: {name}: {figure} {value:,.10g} instead of {was:,.10g}")
                renew = renew or value < was * (1 - TOLERANCE)
    if renew:
        lines += ["", f"Some are lower than in the table by more than {TOLERANCE:.0%}, which is good; {RENEW}"]
    return lines, faults


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--update"]
    if len(arguments) != 2 or len(sys.argv) - 1 - len(arguments) > 1:
        sys.exit(__doc__)
    path = Path(arguments[1])
    try:
        written = subprocess.run([str(Path(arguments[0]).resolve())], stdout=subprocess.PIPE, text=True,
                                 check=True).stdout
        measured = json.loads(written)
        if "--update" in sys.argv:
            kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
            others = {store: costs for store, costs in kept.items() if store not in measured}
            text = json.dumps(measured | others, indent=2)
            path.write_text(one_line_each(text) + "\n", encoding="utf-8")
        lines, faults = compare(json.loads(path.read_text(encoding="utf-8")), measured)
    except (OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
        sys.exit(f"costs.py: {type(error).__name__}: {error}")
    print("\n".join(lines))
    if faults:
        sys.exit("\n".join(["", *(f"WRONG {fault}" for fault in faults), f"If it has to be so, {RENEW}"]))
    return 0


def one_line_each(text):
    """The figures of an operation on a line of their own."""
    lines = []
    for line in text.splitlines():
        deep = len(line) - len(line.lstrip())
        if deep > 6 or (deep == 6 and line.strip() in ("}", "},")):
            ends = line.strip() in ("}", "},")
            lines[-1] += (" " if not ends and lines[-1].endswith(",") else "") + line.strip()
        else:
            lines.append(line)
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())

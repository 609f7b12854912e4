#!/usr/bin/env python3
"""Draws which folder of the sources includes which, as an SVG on one line: draw_folders.py SOURCE_DIRECTORY [--check]

The picture is docs/pictures/folders.svg. An arrow goes from a folder to one that its files include; the number beside it
says how often. The engine has its public headers with it, and the last row lies in src/durable. With --check nothing is
written: it fails if the picture is not that of the sources.
"""

import re
import sys
from collections import Counter
from pathlib import Path

WAY = {"front": "a call becomes an arming", "drive": "sleeps, drives, stops", "shard": "lock, wake-up, run",
       "core": "add-or-run, told the time", "engine": "buckets and delay queue"}
GROUND = {"report": "errors, figures", "shared": "for core and durable", "system": "lock, sleeper, barrier"}
DURABLE = {"durable": "handlers, calls", "durable/node": "decides, told the time", "durable/store": "what stores share",
           "durable/sqlite": "one file", "durable/postgres": "one server"}
INCLUDE = re.compile(r'^#include "([a-z_/]+)/[a-z_]+\.hpp"', re.MULTILINE)
WIDTH, HEIGHT, GAP = 168, 58, 40
STYLE = ("text{font:13px sans-serif;fill:#1b1f24}.s{font-size:11px;fill:#57606a}.n{font-size:10px;fill:#57606a}"
         "rect{fill:#eef4fb;stroke:#4878a8}path{fill:none;stroke:#8a97a5}marker path{fill:#8a97a5;stroke:none}"
         "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.s,.n{fill:#9aa4ae}rect{fill:#16202b;stroke:#6c9cd0}}")


def folders_of(root):
    """The places of the folders, and how often each includes another."""
    places = {}
    for row, names in enumerate((WAY, GROUND, DURABLE)):
        for column, name in enumerate(names):
            left = 10 + column * (WIDTH + GAP) + (0 if row != 1 else WIDTH + GAP)
            places[name] = (left, 60 + row * (HEIGHT + 92))
    arrows = Counter()
    for path in sorted((root / "src").rglob("*.[ch]pp")):
        folder = path.relative_to(root / "src").parent.as_posix()
        for other in INCLUDE.findall(path.read_text(encoding="utf-8")):
            other = "engine" if other.endswith("/engine") else other  # its public headers
            if other in places and other != folder:
                arrows[folder, other] += 1
    return places, arrows


def curve(begin, end):
    """The path from one box to another, and where its number stands: along a row in an arch, else straight."""
    (x, y), (to_x, to_y) = begin, end
    half = WIDTH / 2
    if y != to_y:
        down = to_y > y
        x, to_x = x + half + (to_x - x) / 12, to_x + half - (to_x - x) / 12
        y, to_y = y + (HEIGHT if down else 0), to_y + (0 if down else HEIGHT)
        return f"M{x:.0f} {y}L{to_x:.0f} {to_y}", (x + 2 * to_x) / 3, (y + 2 * to_y) / 3
    if abs(to_x - x) == WIDTH + GAP:
        right = to_x > x
        x, to_x, y = x + (WIDTH if right else 0), to_x + (0 if right else WIDTH), y + HEIGHT / 2
        return f"M{x} {y}L{to_x} {y}", (x + to_x) / 2, y - 5
    lift = 8 + abs(to_x - x) / 18
    return (f"M{x + half} {y}C{x + half} {y - lift} {to_x + half} {y - lift} {to_x + half} {y}", (x + to_x) / 2 + half,
            y - 0.75 * lift - 3)


def picture_of(root):
    places, arrows = folders_of(root)
    about = WAY | GROUND | DURABLE
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {5 * (WIDTH + GAP) - 20} 430" role="img" '
             f'aria-label="Which folder of the sources includes which"><style>{STYLE}</style><defs><marker id="a" '
             'viewBox="0 0 6 6" refX="6" refY="3" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L6 3L0 6"/>'
             '</marker></defs>']
    for (folder, other), count in sorted(arrows.items()):
        path, x, y = curve(places[folder], places[other])
        parts.append(f'<path d="{path}" marker-end="url(#a)"/><text class="n" x="{x:.0f}" y="{y:.0f}" '
                     f'text-anchor="middle">{count}</text>')
    for name, (x, y) in places.items():
        files = len(list((root / "src" / name).glob("*.[ch]pp")))
        parts.append(f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6"/><text x="{x + 12}" y="{y + 24}">'
                     f'<tspan font-weight="bold">{name.removeprefix("durable/")}</tspan> · {files} files</text>'
                     f'<text class="s" x="{x + 12}" y="{y + 44}">{about[name]}</text>')
    return "".join(parts) + "</svg>\n"


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    picture = root / "docs/pictures/folders.svg"
    drawn = picture_of(root)
    if "--check" not in sys.argv:
        picture.write_text(drawn, encoding="utf-8")
    elif not picture.exists() or picture.read_text(encoding="utf-8") != drawn:
        sys.exit("docs/pictures/folders.svg is not that of the sources: tools/site/draw_folders.py .")


if __name__ == "__main__":
    main()

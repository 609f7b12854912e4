#!/usr/bin/env python3
"""Records what a command prints as a picture that moves: record.py PICTURE COMMAND [ARGUMENT...].

    tools/trace/record.py docs/pictures/kill_demo.svg ./dev demo --durable --kill 1

Runs the command, notes when each line comes, and writes an SVG that shows the lines in this order, again and again. A
pause of more than 0.5 s is shown as 0.5 s. Readers who want less motion see the end of the output. Names of files below
this folder lose the part before it. If the command fails, there is no picture.
"""

import os
import select
import subprocess
import sys
import time
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = str(Path(__file__).resolve().parents[2]) + "/"
ROWS, COLUMNS = 15, 84  # of the terminal
PAUSE, TYPING, READING = 0.5, 1.0, 6.0  # seconds: the longest pause, before the first line, after the last
LEFT, TOP, LINE, LETTER = 14, 40, 19, 8.0


def record(command):
    """The lines that the command prints, and the seconds between one and the next."""
    lines, pauses, before = [], [], time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as program:
        descriptor, rest = program.stdout.fileno(), b""
        while select.select([descriptor], [], []) and (read := os.read(descriptor, 1 << 16)):
            *whole, rest = (rest + read).split(b"\n")
            for line in whole:
                now = time.monotonic()
                lines.append(line.decode().replace(ROOT, ""))
                pauses.append(now - before)
                before = now
    if program.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {program.returncode}")
    return lines, pauses


def draw(command, lines, pauses):
    lines = ["$ " + command, *(each if len(each) <= COLUMNS else each[:COLUMNS - 1] + "…" for each in lines)]
    times, now = [0.0], TYPING
    for pause in pauses:
        now += min(max(pause, 0.04), PAUSE)
        times.append(now)
    whole = now + READING
    width, height, text = round(LEFT * 2 + COLUMNS * LETTER), TOP + ROWS * LINE, TOP - 9
    css, body, turn = [], [], []
    for number, (line, at) in enumerate(zip(lines, times)):
        share = 100 * at / whole
        hidden = max(0, number + 1 - ROWS) * LINE
        turn.append(f"{share:.2f}%{{transform:translateY({-hidden}px)}}")
        if number:
            css.append(f"@keyframes l{number}{{0%{{opacity:0}}{share:.2f}%,100%{{opacity:1}}}}"
                       f"#l{number}{{animation-name:l{number}}}")
        kind = ' class="good"' if "✓" in line else ' class="typed"' if number == 0 else ""
        body.append(f'<text id="l{number}" y="{TOP + LINE * number + 5}"{kind}>{escape(line)}</text>')
    last = max(0, len(lines) - ROWS) * LINE
    return "".join(f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" \
aria-label="A recording of a terminal: {escape(command)}. The last line: {escape(lines[-1].strip())}">
<style>
svg{{background:#0d1117;font:13.3px ui-monospace,monospace}}
text{{fill:#e6edf3;white-space:pre}}.good{{fill:#56d364}}.typed{{fill:#79c0ff}}
svg text,#all{{animation-duration:{whole:.1f}s;animation-iteration-count:infinite;animation-timing-function:step-end}}
#all{{transform:translateY({-last}px);animation-name:all}}
@keyframes all{{{"".join(turn)}}}{"".join(css)}
@media (prefers-reduced-motion:reduce){{svg text,#all{{animation:none}}}}
</style>
<svg x="{LEFT}" y="{text}" width="{width - LEFT}" height="{ROWS * LINE}" \
viewBox="0 {text} {width - LEFT} {ROWS * LINE}"><g id="all">{"".join(body)}</g></svg>
<circle cx="18" cy="13" r="5" fill="#f85149"/><circle cx="36" cy="13" r="5" fill="#d29922"/>
<circle cx="54" cy="13" r="5" fill="#3fb950"/>
</svg>""".splitlines()) + "\n"  # one line: nobody reads it


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    command = sys.argv[2:]
    Path(sys.argv[1]).write_text(draw(" ".join(command), *record(command)), encoding="utf-8")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Draws a trace of a wheel as a picture that moves: draw.py PROGRAM PICTURE.

PROGRAM prints the trace. With --check before PICTURE, it fails if that is another picture, and draws none.

The picture always moves. For readers who want less motion it stands still, and shows the first tick.
"""

import math
import re
import subprocess
import sys
from pathlib import Path

SLOTS = 8
SECONDS_PER_TICK = 0.9
WIDTH, HEIGHT = 720, 430
CENTRES = ((190, 195), (530, 195))
TITLES = ("first wheel: 1 tick a slot", "second wheel: 8 ticks a slot")
INNER, OUTER = 46, 130
DUE = (360, 385)


def read(program):
    """For each tick, where each timer is: {deadline: (wheel, slot)} or {deadline: None} when it is due."""
    ticks = []
    for line in subprocess.run([program], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines():
        if line.startswith("tick "):
            ticks.append({})
        elif found := re.fullmatch(r"  (\d+) on wheel (\d+) in slot (\d+)", line):
            deadline, wheel, slot = map(int, found.groups())
            ticks[-1][deadline] = (wheel, slot)
        elif found := re.fullmatch(r"  (\d+) is due", line):
            ticks[-1][int(found.group(1))] = None
        else:
            sys.exit(f"{program}: not a line of a trace: {line}")
    return ticks


def on_circle(centre, radius, turns):
    """A point of a circle; turns go clockwise from the top."""
    angle = (turns - 0.25) * 2 * math.pi
    return centre[0] + radius * math.cos(angle), centre[1] + radius * math.sin(angle)


def place(ticks, now, deadline):
    """The point of a timer at a tick; timers of one slot lie one after the other, from the rim inwards."""
    where = ticks[now].get(deadline)
    if where is None:
        return DUE
    wheel, slot = where
    neighbours = sorted(d for d, w in ticks[now].items() if w == where)
    radius = OUTER - 20 - 27 * neighbours.index(deadline)
    return on_circle(CENTRES[wheel], radius, (slot + 0.5) / SLOTS)


def keyframes(name, states, count):
    """CSS for one element. states: (declarations) for each tick; it changes in the first third of a tick."""
    lines = []
    for now, state in enumerate(states):
        if now > 0 and state != states[now - 1]:
            lines.append(f"{100 * now / count:.3f}%{{{states[now - 1]}}}")
            lines.append(f"{100 * (now + 0.35) / count:.3f}%{{{state}}}")
        elif now == 0:
            lines.append(f"0%{{{state}}}")
    lines.append(f"100%{{{states[-1]}}}")
    return f"@keyframes {name}{{{''.join(lines)}}}"


def timer_states(ticks, deadline):
    """Where the dot of a timer is, and whether it is seen, at each tick."""
    known = [now for now, each in enumerate(ticks) if deadline in each]
    first, last = known[0], known[-1]
    states = []
    for now in range(len(ticks)):
        x, y = place(ticks, min(max(now, first), last), deadline)
        seen = 1 if first <= now <= last else 0
        states.append(f"transform:translate({x:.1f}px,{y:.1f}px);opacity:{seen}")
    return states


def caption(ticks, now):
    """What happens at a tick, in words."""
    before = ticks[now - 1] if now else {}
    new = [d for d in sorted(ticks[now]) if d not in before]
    moved = [d for d in sorted(ticks[now]) if d in before and ticks[now][d] is not None and before[d] != ticks[now][d]]
    due = [d for d in sorted(ticks[now]) if ticks[now][d] is None]
    said = []
    for verb, which in (("come", new), ("cascade to the first wheel", moved), ("are due", due)):
        if which:
            if len(which) == 1:
                verb = verb.replace("come", "comes").replace("cascade ", "cascades ").replace("are", "is")
            said.append(
                f"{' and '.join([', '.join(map(str, which[:-1]))] * (len(which) > 1) + [str(which[-1])])} {verb}")
    said[:1] = [f"{each}, to be due at these ticks" for each in said[:1] if now == 0] or said[:1]
    return f"tick {now}" + (": " + "; ".join(said) if said else "")


def first_cascade(ticks):
    """An arrow for the reader of the still picture: the first timer that moves from wheel to wheel, and when."""
    for now in range(1, len(ticks)):
        for deadline, where in ticks[now].items():
            before = ticks[now - 1].get(deadline)
            if where is not None and before is not None and where[0] < before[0]:
                (x1, y1), (x2, y2) = place(ticks, now - 1, deadline), place(ticks, now, deadline)
                middle = (x1 + x2) / 2, max(y1, y2) + 190
                yield (f'<path class="cascade" d="M{x1:.1f} {y1 + 12:.1f}Q{middle[0]:.1f} {middle[1]:.1f} '
                       f'{x2 + 10:.1f} {y2 + 14:.1f}"/>')
                yield f'<path class="tip" d="M{x2 + 10:.1f} {y2 + 14:.1f}l3 11l7 -7z"/>'
                yield (f'<text class="slot" x="{middle[0]:.1f}" y="{middle[1] - 65:.1f}">'
                       f'{deadline} comes down at tick {now}</text>')
                return


def wheel(centre, title):
    """The slots of a wheel, with their numbers inside."""
    yield f'<text class="title" x="{centre[0]}" y="{centre[1] - OUTER - 16}">{title}</text>'
    for radius in (INNER, OUTER):
        yield f'<circle class="line" cx="{centre[0]}" cy="{centre[1]}" r="{radius}"/>'
    for slot in range(SLOTS):
        (x1, y1), (x2, y2) = (on_circle(centre, r, slot / SLOTS) for r in (INNER, OUTER))
        yield f'<path class="line" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"/>'
        x, y = on_circle(centre, INNER + 13, (slot + 0.5) / SLOTS)
        yield f'<text class="slot" x="{x:.1f}" y="{y + 4:.1f}">{slot}</text>'


def draw(ticks):
    """The picture."""
    count = len(ticks)
    deadlines = sorted({d for each in ticks for d in each})
    css, body = [], []
    for number, (centre, title) in enumerate(zip(CENTRES, TITLES)):
        body += wheel(centre, title)
        turn = [f"transform:rotate({(now // SLOTS**number + 0.5) * 360 / SLOTS:.1f}deg)" for now in range(count)]
        css.append(keyframes(f"hand{number}", turn, count))
        css.append(
            f".hand{number}{{{turn[0]};transform-origin:{centre[0]}px {centre[1]}px;animation-name:hand{number}}}")
        body.append(f'<path class="hand moves hand{number}" d="M{centre[0]} {centre[1]}V{centre[1] - INNER + 4}"/>')
    states = [f"opacity:{1 if now == 0 else 0}" for now in range(count)]
    css.append(keyframes("arrow", states, count))
    css.append(".arrow{animation-name:arrow}")
    body += ['<g class="arrow moves">', *first_cascade(ticks), "</g>"]
    for deadline in deadlines:
        states = timer_states(ticks, deadline)
        css.append(keyframes(f"t{deadline}", states, count))
        css.append(f".t{deadline}{{{states[0]};animation-name:t{deadline}}}")
        body.append(f'<g class="moves t{deadline}"><circle class="timer" r="12"/>'
                    f'<text class="number" y="4.5">{deadline}</text></g>')
    body.append(f'<circle class="due" cx="{DUE[0]}" cy="{DUE[1]}" r="19"/>')
    body.append(f'<text class="slot" x="{DUE[0] + 58}" y="{DUE[1] + 4}">due</text>')
    for now in range(count):
        states = [f"opacity:{1 if each == now else 0}" for each in range(count)]
        css.append(keyframes(f"c{now}", states, count))
        css.append(f".c{now}{{{states[0]};animation-name:c{now}}}")
        body.append(f'<text class="caption moves c{now}" x="20" y="{HEIGHT - 12}">{caption(ticks, now)}</text>')
    picture = f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" \
aria-label="Two wheels of eight slots. Timers due within eight ticks lie on the first wheel, each in the slot of its \
tick. Later ones lie on the second, and move to the first when the clock reaches their slot.">
<style>
svg{{--ink:#1f2328;--muted:#59636e;--grid:#c3cad1;--page:#fff;--dot:#0969da}}
@media (prefers-color-scheme:dark){{svg{{--ink:#e6edf3;--muted:#9198a1;--grid:#4b535d;--page:#0d1117;--dot:#1f6feb}}}}
svg{{background:var(--page);font:13px sans-serif}}
.line,.due{{fill:none;stroke:var(--grid)}}.due{{stroke-dasharray:3 3}}
.cascade{{fill:none;stroke:var(--dot);stroke-width:1.5;stroke-dasharray:5 4}}.tip{{fill:var(--dot)}}
.hand{{stroke:var(--ink);stroke-width:3;stroke-linecap:round}}
.timer{{fill:var(--dot)}}.number{{fill:#fff;text-anchor:middle;font-weight:bold}}
.slot,.title{{fill:var(--muted);text-anchor:middle}}.title{{fill:var(--ink)}}.caption{{fill:var(--ink);font-size:15px}}
.moves{{animation-duration:{count * SECONDS_PER_TICK:.1f}s;animation-iteration-count:infinite;\
animation-timing-function:ease-in-out}}
{"".join(css)}
@media (prefers-reduced-motion:reduce){{.moves{{animation:none!important}}}}
</style>
{"".join(body)}
</svg>"""
    return "".join(picture.splitlines()) + "\n"  # one line: nobody reads it


def main():
    arguments = [each for each in sys.argv[1:] if each != "--check"]
    if len(arguments) != 2:
        sys.exit(__doc__)
    picture = draw(read(arguments[0]))
    if "--check" not in sys.argv:
        Path(arguments[1]).write_text(picture, encoding="utf-8")
    elif picture != Path(arguments[1]).read_text(encoding="utf-8"):
        sys.exit(f"{arguments[1]} is not what {arguments[0]} shows: draw it anew")


if __name__ == "__main__":
    main()

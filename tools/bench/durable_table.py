#!/usr/bin/env python3
"""Measures durable checks, and prints the tables of docs/benchmarks.md:

    durable_table.py --goals                         every figure with a goal, on both stores, and whether it is met;
                                                     ten minutes alone on two cores
    durable_table.py [--store postgres] [--rows N]   all figures of a store

Everything runs twice: on the disk as it is, and on one whose every sync takes 3.3 ms longer, which stands for a disk
that waits until the bytes are really there. With ten million rows (--rows 1e7, the default) all figures take about 20
minutes and 3 GB. TIMING_WHEEL_BENCH_FOLDER says on which disk. What was measured is kept in FOLDER, which --build says,
in durable_STORE_fast.json and …_slow.json, or goals_STORE_…; --print only prints these.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

SLOWER_US = 3300


def rate(value):
    return f"{value / 1000:.0f} k" if value >= 10_000 else f"{value / 1000:.1f} k" if value >= 1000 else f"{value:.0f}"


def shown_by(show):
    """Makes readers of a run that show figures of some benchmarks, side by side."""
    return lambda *names: lambda run: " / ".join(show(run[name]) if name in run else "–" for name in names)


def early(entry):
    return f", {entry['early']:.0f} EARLY" if entry["early"] else ""


per_second = shown_by(lambda entry: rate(entry["items_per_second"]))
processor_microseconds = shown_by(lambda entry: f"{entry['cpu_time'] / 1000:.1f} µs")
milliseconds = shown_by(lambda entry: f"{entry['real_time']:.1f} ms")
lateness = shown_by(lambda entry: f"{entry['p99_us'] / 1000:.1f} ms, max {entry['max_us'] / 1000:.0f}{early(entry)}")
# On PostgreSQL.
with_cpu = shown_by(
    lambda entry: f"{rate(entry['items_per_second'])}, {entry['cpu_us']:.1f} µs, {entry['wal']:.0f} B")
of_the_server = shown_by(lambda entry: f"{entry['real_time'] / 1000:.0f} ({entry['cpu_us']:.0f})")
late_on_postgres = shown_by(
    lambda entry: f"{entry['p50_ms']:.1f}, {entry['p99_ms']:.1f}, {entry['max_ms']:.0f} ms{early(entry)}")


def against_bare(*counters):
    def read(run):
        entry = next((value for name, value in run.items() if name.startswith("users_transactions_in_turns")), None)
        return " / ".join("–" if entry is None else f"{entry[counter]:.0%}" for counter in counters)

    return read


def size(run):
    entry = next((value for name, value in run.items() if name.startswith("churn/")), None)
    if entry is None:
        return "–"
    return (f"{entry['MB_after_a_tenth']:.0f}, {entry['MB_after_all']:.0f}, log {entry['MB_of_log']:.0f}; "
            f"{entry['MB_after_a_peak']:.0f} → {entry['MB_vacuumed']:.0f} in {entry['vacuum_s']:.1f} s")


def late(how, rows, due):
    return f"lateness/{how}/rows:{rows}/due_per_s:{due}/iterations:1/real_time"


def schedule(rows, random):
    return f"schedule/rows:{rows}/random:{random}/iterations:100/real_time"


def user(whom, orders):
    return f"users_transaction/{whom}/orders:{orders}/real_time"


MILLION, TEN = 1_000_000, 10_000_000

# What; the spike's figures, fast and slow; the goal; and how a run shows it. Goals are those of the slow disk.
ROWS = (
    [
        ("schedule × 500 at 100 k rows, keys in order / at random, rows per s", "381 k / 91 k", "94 k / 50 k",
         "≥ 60 k / 35 k", per_second(schedule(100000, 0), schedule(100000, 1))),
        ("the same at 1 M rows", "– / 41 k", "", "", per_second(schedule(MILLION, 0), schedule(MILLION, 1))),
        ("claim / complete, per s", "142 k / 238 k", "64 k / 78 k", "",
         per_second("claim/real_time", "complete/real_time")),
        ("claim and complete, lives per s", "", "", "≥ 30 k", per_second("claim_and_complete/real_time")),
        ("transactional, with the user's update, per s", "135 k", "59 k", "≥ 40 k",
         per_second("take_with_users_update/real_time")),
        ("schedule alone, one thread, per s", "10 k", "277", "≥ 80 % of the spike",
         per_second("schedule_alone/threads:1/manual_time")),
        ("schedule alone, 8 / 64 / 256 threads, per s", "33 / 55 / 76 k", "1.2 / 7.1 / 20.7 k", "≥ 80 % of the spike",
         per_second(*(f"schedule_alone/threads:{threads}/manual_time" for threads in (8, 64, 256)))),
        ("a transaction of one order with its check against a bare one: with a session / without", "", "", "≥ 97 %",
         against_bare("session_to_bare", "function_to_bare")),
        ("500 orders in a transaction: bare / with checks, per s", "", "", "",
         per_second(user("bare", 500), user("session", 500))),
        ("an empty look with 0 / 1 M / 10 M future rows, of processor time", "1.6 µs", "", "no growth",
         processor_microseconds("empty_poll/rows:0", f"empty_poll/rows:{MILLION}", f"empty_poll/rows:{TEN}")),
        ("start with 0 / 1 M / 10 M rows, nothing cached", "12–14 ms at 10 M", "", "≤ 50 ms",
         milliseconds("start/rows:0/real_time", f"start/rows:{MILLION}/real_time", f"start/rows:{TEN}/real_time")),
    ]
    + [
        (f"lateness p99, {shown} pending, {due} due per s: leased / transactional", "", "", goal,
         lateness(late("leased", rows, due), late("transactional", rows, due)))
        for rows, shown in ((MILLION, "1 M"), (TEN, "10 M"))
        for due, goal in ((6000, "≤ 12 / 10 ms (4)" if rows == TEN else ""), (10, ""))
    ]
    + [
        ("the file in MB after a tenth of 4.3 M lives and after all, beside 100 k pending; a peak of 500 k more, "
         "vacuumed", "", "", "flat", size),
    ]
)


def beside_bare(counter):
    def read(run):
        entries = [run.get(f"users_transaction/clients:{clients}/iterations:1/real_time") for clients in (1, 8, 32)]
        return " / ".join("–" if entry is None else f"{entry[counter]:.0%}" for entry in entries)

    return read


def worked_off(how):
    def read(run):
        entry = run.get(f"backlog/{how}/iterations:1/real_time")
        return "–" if entry is None else f"{rate(entry['jobs_per_s'])}, {entry['cpu_us']:.1f} µs"

    return read


# Rows per second, processor time of the server and bytes of its log for each.
POSTGRES_ROWS = [
    ("schedule × 500, 1 / 2 connections", "163 k / 228 k, 5.6 µs, 361 B", "71 k / 125 k", "≥ 60 k (120 k)",
     with_cpu("schedule_500/connections:1/real_time", "schedule_500/connections:2/real_time")),
    ("look and claim / complete", "210 k, 344 B / 300 k, 62 B", "80 k / 94 k", "",
     with_cpu("lives/claim/real_time", "lives/complete/real_time")),
    ("leased, whole life", "", "", "≥ 35 k, ≤ 16 µs, 0.8 kB", with_cpu("lives/all/real_time")),
    ("transactional, with the user's update, from the deadline on", "131–135 k, 6.8 µs, 487 B", "85 k", "",
     with_cpu("take_with_users_update/from_the_deadline/real_time")),
    ("the same, whole life", "", "", "≥ 50 k, ≤ 11 µs, 0.6 kB",
     with_cpu("take_with_users_update/whole_life/real_time")),
    ("scheduled and cancelled", "10 µs", "", "≤ 11 µs, 0.6 kB", with_cpu("cancelled/real_time")),
    ("in the caller's transaction, against a bare one, 1 / 8 / 32 clients: a session", "97 / 96 / 94 %", "99–101 %",
     "≥ 97 % (90 %)", beside_bare("session_to_bare")),
    ("the functions", "", "", "", beside_bare("function_to_bare")),
    ("SQL in a pipeline", "139 / 119 / 137 %", "", "≥ 100 %", beside_bare("pipeline_to_bare")),
    ("a backlog, trivial handlers: leased / transactional", "121 k", "", "",
     lambda run: f"{worked_off('leased')(run)} / {worked_off('transactional')(run)}"),
    (
        "an empty look with 0 / 1 M / 10 M future rows, µs (of them the server's processor)",
        "22",
        "",
        "≤ 200",
        of_the_server(
            "empty_poll/rows:0/real_time", f"empty_poll/rows:{MILLION}/real_time", f"empty_poll/rows:{TEN}/real_time"
        ),
    ),
] + [
    (f"lateness p50, p99, max with {shown} pending, {due} due per s: leased / transactional",
     "p99 2.4 / 2.2 ms" if rows == TEN and due == 6000 else "", "15 / 6.1 ms" if rows == TEN and due == 6000 else "",
     "p99 ≤ 12 / 10 ms (4)" if rows == TEN and due == 6000 else "",
     late_on_postgres(late("leased", rows, due), late("transactional", rows, due)))
    for rows, shown in ((0, "none"), (MILLION, "1 M"), (TEN, "10 M"))
    for due in (6000, 10)
]
TABLES = {"sqlite": ROWS, "postgres": POSTGRES_ROWS}


# ---- what has a goal

# What depends on the disk is run slowly, too.
GOAL_FILTERS = {
    ("sqlite", "fast"): "^(schedule/rows:1|schedule_alone|claim|take_with|empty_poll|start)",
    ("sqlite", "slow"): "^(schedule/rows:100000/|schedule_alone|claim_and|take_with)",
    ("postgres",
     "fast"): "^(schedule_500|lives|take|cancelled|users|backlog|beside|growth|empty_poll|lateness/.*rows:10000000)",
    ("postgres", "slow"): "^(schedule_500|lives/all|take|cancelled|users|lateness/.*rows:10000000/due_per_s:6000)",
}


class Goal:
    """A row: what was measured, and its bounds.

    `bounds` are for the slow disk; `fast` are for the other one, where it has its own.
    """

    def __init__(self, store, what, goal, values, shown, bounds=(), fast=(), least=False):
        self.store, self.what, self.goal, self.values, self.shown = store, what, goal, values, shown
        self.bounds, self.fast, self.least = bounds, fast, least

    def figures(self, run):
        found = self.values(run)
        return ("–" if not any(value is not None for value in found)
                else " / ".join("–" if value is None else self.shown(value) for value in found))

    def misses(self, run, bounds):
        found = self.values(run)
        return [f"{self.shown(value)} against {self.shown(bound)}" for value, bound in zip(found, bounds)
                if (value < bound if self.least else value > bound)]

    def judged(self, fast, slow):
        if not self.bounds and not self.fast:
            return "no goal"
        if any(None in self.values(run) for run, bounds in ((slow, self.bounds), (fast, self.fast)) if bounds):
            return "not measured"
        misses = [f"{each}, slow" for each in self.misses(slow, self.bounds)] + [
            f"{each}, fast" for each in self.misses(fast, self.fast)
        ]
        return "missed: " + "; ".join(misses) if misses else "met"


def counters(*wanted):
    """Reads (name of a benchmark, counter) pairs."""
    return lambda run: [run[name].get(counter) if name in run else None for name, counter in wanted]


def ratios(name, *pairs):
    return lambda run: [run[name][a] / run[name][b] if name in run else None for a, b in pairs]


def items(*names):
    return counters(*((name, "items_per_second") for name in names))


def clients(counter):
    return counters(*((f"users_transaction/clients:{count}/iterations:1/real_time", counter) for count in (1, 8, 32)))


def empty_looks(ending, figure):
    """Of a look with 1 M and with 10 M future rows: `figure(run, name of the benchmark)`."""
    names = [f"empty_poll/rows:{rows}{ending}" for rows in (MILLION, TEN)]
    return lambda run: [figure(run, name) if name in run else None for name in names]


def unit(text, digits=1):
    return lambda value: f"{value:.{digits}f} {text}".rstrip()


def percent(value):
    return f"{value:.1%}"


DEAD = "beside_the_dead/rows:250000/iterations:1/real_time"
GROWTH = "growth/lives:2000000/iterations:1/real_time"
LATE = [late(how, TEN, 6000) for how in ("leased", "transactional")]
ALONE = [f"schedule_alone/threads:{threads}/manual_time" for threads in (1, 8, 64, 256)]
GOALS = [
    Goal("sqlite", "schedule × 500 at 100 k rows, keys in order / at random, rows per s", "≥ 60 k / 35 k",
         items(schedule(100000, 0), schedule(100000, 1)), rate, (60e3, 35e3), least=True),
    Goal("sqlite", "the same at 1 M rows", "", items(schedule(MILLION, 0), schedule(MILLION, 1)), rate),
    Goal("sqlite", "claim and complete, lives per s", "≥ 30 k", items("claim_and_complete/real_time"), rate, (30e3,),
         least=True),
    Goal("sqlite", "transactional, with the user's update, per s", "≥ 40 k", items("take_with_users_update/real_time"),
         rate, (40e3,), least=True),
    Goal("sqlite", "schedule alone; 8, 64, 256 threads, per s",
         "≥ 80 % of 277; 1.2, 7.1, 20.7 k (of 10 k; 33, 55, 76 k)", items(*ALONE), rate,
         [0.8 * each for each in (277, 1.2e3, 7.1e3, 20.7e3)], [0.8 * each for each in (10e3, 33e3, 55e3, 76e3)],
         least=True),
    Goal("sqlite", "an empty look with 1 M / 10 M future rows, against none, processor time", "no growth: ≤ 1.5 ×",
         empty_looks("", lambda run, name: run[name]["cpu_time"] / run["empty_poll/rows:0"]["cpu_time"]), unit("×", 2),
         fast=(1.5, 1.5)),
    Goal("sqlite", "start with 10 M rows, nothing cached", "≤ 50 ms",
         counters((f"start/rows:{TEN}/real_time", "real_time")), unit("ms"), fast=(50,)),
    Goal("postgres", "schedule × 500, 1 / 2 connections, rows per s", "≥ 60 k (120 k)",
         items(*(f"schedule_500/connections:{count}/real_time" for count in (1, 2))), rate, (60e3, 60e3),
         (120e3, 120e3), least=True),
    Goal("postgres", "leased, whole lives per s", "≥ 35 k", items("lives/all/real_time"), rate, (35e3,), least=True),
    Goal("postgres", "the same, processor time of the server for each", "≤ 16 µs",
         counters(("lives/all/real_time", "cpu_us")), unit("µs"), (16,), (16,)),
    Goal("postgres", "the same, log for each", "≤ 800 B", counters(("lives/all/real_time", "wal")), unit("B", 0),
         (800,), (800,)),
    Goal("postgres", "transactional with the user's update, whole lives per s", "≥ 50 k",
         items("take_with_users_update/whole_life/real_time"), rate, (50e3,), least=True),
    Goal("postgres", "the same, processor time of the server for each", "≤ 11 µs",
         counters(("take_with_users_update/whole_life/real_time", "cpu_us")), unit("µs"), (11,), (11,)),
    Goal("postgres", "the same, log for each", "≤ 600 B",
         counters(("take_with_users_update/whole_life/real_time", "wal")), unit("B", 0), (600,), (600,)),
    Goal("postgres", "scheduled and cancelled, processor time of the server", "≤ 11 µs",
         counters(("cancelled/real_time", "cpu_us")), unit("µs"), (11,), (11,)),
    Goal(
        "postgres", "the same, log", "≤ 600 B", counters(("cancelled/real_time", "wal")), unit("B", 0), (600,), (600,)
    ),
    Goal("postgres", "in the caller's transaction by a session, against a bare one, 1 / 8 / 32 clients",
         "≥ 97 % (90 %)", clients("session_to_bare"), percent, (0.97,) * 3, (0.9,) * 3, least=True),
    Goal("postgres", "SQL in a pipeline, against a bare one without", "≥ 100 %", clients("pipeline_to_bare"), percent,
         (1,) * 3, (1,) * 3, least=True),
    Goal("postgres", "lateness p99, 10 M pending, 6 000 due per s: leased / transactional", "≤ 12 / 10 ms (≤ 4 ms)",
         counters(*((name, "p99_ms") for name in LATE)), unit("ms"), (12, 10), (4, 4)),
    Goal("postgres", "runs before their time, of these", "0", counters(*((name, "early") for name in LATE)),
         unit("", 0), (0, 0), (0, 0)),
    Goal("postgres", "10 due per s, 10 M pending: statements per check, leased / transactional", "",
         counters(*((late(how, TEN, 10), "statements") for how in ("leased", "transactional"))), unit("")),
    Goal("postgres", "the same, lateness p99", "",
         counters(*((late(how, TEN, 10), "p99_ms") for how in ("leased", "transactional"))), unit("ms")),
    Goal("postgres",
         "250 k dead rows under a snapshot, against none: a look / processor time of the server per check, 1 000 due "
         "per s", "≤ 1.1 ×", ratios(DEAD, ("look_us", "look_clean_us"), ("cpu_us", "cpu_clean_us")), unit("×", 2),
         fast=(1.1, 1.1)),
    Goal("postgres", "a look from the low-water mark / from the beginning there", "",
         counters((DEAD, "look_us"), (DEAD, "look_from_the_start_us")), unit("µs", 0)),
    Goal("postgres", "an empty look with 1 M / 10 M future rows", "≤ 200 µs",
         empty_looks("/real_time", lambda run, name: run[name]["real_time"] / 1000), unit("µs", 0), fast=(200, 200)),
    Goal("postgres", "table and indexes after a million lives / two, beside 100 k pending", "",
         counters(*((GROWTH, f"MB_after_{part}") for part in ("half", "all"))), unit("MB", 0)),
    Goal("postgres", "the second against the first", "flat: ≤ 1.1 ×", ratios(GROWTH, ("MB_after_all", "MB_after_half")),
         unit("×", 2), fast=(1.1,)),
]


def goals_table(build):
    runs = {(store, name): read(build, f"goals_{store}_{name}") for store, name in GOAL_FILTERS}
    lines = ["| | goal: slow (fast) | fast | slow | |", "|---|---|---|---|---|"]
    for each in GOALS:
        fast, slow = runs[each.store, "fast"], runs[each.store, "slow"]
        name = "SQLite" if each.store == "sqlite" else "PostgreSQL"
        lines.append(f"| {name}: {each.what} | {each.goal} | {each.figures(fast)} | {each.figures(slow)} | "
                     f"{each.judged(fast, slow)} |")
    return "\n".join(lines)


def measure(build, store, name, slow, rows, benchmark_filter=None, kept=None):
    environment = os.environ | {"TIMING_WHEEL_BENCH_LARGEST": rows}
    if slow:
        environment |= {"LD_PRELOAD": str(build / "slow_sync.so"), "TIMING_WHEEL_SYNC_DELAY_US": str(SLOWER_US)}
    print(f"==> {store}, {name}", file=sys.stderr)
    out = build / f"{kept or f'durable_{store}_{name}'}.json"
    chosen = [] if benchmark_filter is None else [f"--benchmark_filter={benchmark_filter}"]
    subprocess.run([str(build / f"durable_{store}_bench"), f"--benchmark_out={out}", *chosen], env=environment,
                   check=True, stdout=sys.stderr)


def read(build, kept):
    path = build / f"{kept}.json"
    if not path.exists():
        return {}
    return {entry["name"]: entry for entry in json.loads(path.read_text(encoding="utf-8"))["benchmarks"]}


class Asked(dict):
    """Remembers which benchmarks a row asks for."""

    def __contains__(self, name):
        self[name] = None
        return False


def names_that_are_wrong(build):
    """Those that a table asks for, and the programs do not have."""
    wrong = []
    for store, rows in TABLES.items():
        asked = Asked()
        for *_, shown in rows:
            shown(asked)
        for goal in (goal for goal in GOALS if goal.store == store):
            goal.figures(asked)
        listed = subprocess.run([str(build / f"durable_{store}_bench"), "--benchmark_list_tests"],
                                stdout=subprocess.PIPE, text=True, check=True,
                                env=os.environ | {"TIMING_WHEEL_BENCH_LARGEST": "1e7"}).stdout.splitlines()
        wrong += [f"durable_{store}_bench has no {name}" for name in sorted(set(asked) - set(listed))]
        wrong += [f"{chosen} finds nothing in durable_{store}_bench" for (of, _), chosen in GOAL_FILTERS.items()
                  if of == store and not any(re.search(chosen, name) for name in listed)]
        wrong += [f"{name} is not measured for its goal"
                  for name in sorted({name for goal in GOALS if goal.store == store for name in names_of(goal)})
                  if not re.search(GOAL_FILTERS[store, "fast"], name)]
        wrong += [f"{name} is not measured slowly for its goal" for goal in GOALS if goal.store == store and goal.bounds
                  for name in names_of(goal) if not re.search(GOAL_FILTERS[store, "slow"], name)]
    return wrong


def names_of(goal):
    asked = Asked()
    goal.figures(asked)
    return list(asked)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=sorted(TABLES), default="sqlite")
    parser.add_argument("--build", type=Path, default=Path("build/bench/benchmarks"))
    parser.add_argument("--rows", default="1e7")
    parser.add_argument("--goals", action="store_true")
    parser.add_argument("--print", action="store_true")
    parser.add_argument(
        "--check", action="store_true", help="only see that each benchmark that a table asks for is there"
    )
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    if arguments.check:
        sys.exit("\n".join(names_that_are_wrong(build)) or 0)
    if arguments.goals:
        begin = time.monotonic()
        for (store, name), chosen in ({} if arguments.print else GOAL_FILTERS).items():
            measure(build, store, name, name == "slow", "1e7", chosen, f"goals_{store}_{name}")
            print(f"==> {time.monotonic() - begin:.0f} s so far", file=sys.stderr)
        print(goals_table(build))
        return 0
    if not arguments.print:
        for name in ("fast", "slow"):
            measure(build, arguments.store, name, name == "slow", arguments.rows)
    fast, slow = (read(build, f"durable_{arguments.store}_{name}") for name in ("fast", "slow"))
    print("| | spike: fast | spike: slow | goal: slow (fast) | fast | slow |\n|---|---|---|---|---|---|")
    for what, spike_fast, spike_slow, goal, shown in TABLES[arguments.store]:
        print(f"| {what} | {spike_fast} | {spike_slow} | {goal} | {shown(fast)} | {shown(slow)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())

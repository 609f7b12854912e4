#!/usr/bin/env python3
"""Measures durable checks, and prints tables such as those of docs/benchmarks.md and docs/decisions/measured.md:

    durable_table.py --goals                         what has a goal, on both stores, and whether it is met; ten minutes
                                                     alone on two cores
    durable_table.py [--store postgres] [--rows N]   all figures of a store
    durable_table.py --nodes                         nodes on one server, and on two with half of the checks each, as in
                                                     docs/scale.md; five minutes
    durable_table.py --outside FILE                  only prints what a program outside this repository measured

All but the nodes runs twice: on the disk as it is, and on one whose every sync takes 3.3 ms longer, which stands for a disk
that waits until the bytes are really there. With ten million rows (--rows 1e7, the default) all figures take about 20
minutes and 3 GB. TIMING_WHEEL_BENCH_FOLDER says on which disk. What was measured is kept in FOLDER, which --build says,
in durable_STORE_fast.json and …_slow.json, or goals_STORE_…; --print only prints these. --keep FOLDER writes the latter
there with less in them; --print --goals --build FOLDER prints the table from that.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import record

SLOWER_US = 3300
MILLION, TEN = 1_000_000, 10_000_000


def rate(value):
    return f"{value / 1000:.0f} k" if value >= 10_000 else f"{value / 1000:.1f} k" if value >= 1000 else f"{value:.0f}"


def unit(text, digits=1, scale=1):
    return lambda value: f"{value / scale:.{digits}f} {text}".rstrip()


def percent(value):
    return f"{value:.1%}"


MILLISECONDS, MICROSECONDS, TIMES = unit("ms"), unit("µs"), unit("×", 2)
BYTES, MEGABYTES = unit("B", 0), unit("MB", 0)


class Row:
    """What was measured. `slow` and `fast` are its bounds on each disk: upper ones, unless it is a `least`."""

    def __init__(self, what, shown, values, slow=(), fast=(), least=False):
        self.what, self.shown, self.values, self.bounds, self.least = what, shown, values, (slow, fast), least

    def listed(self, values):
        return " / ".join("–" if value is None else self.shown(value) for value in values)

    @property
    def goal(self):
        slow, fast = (self.listed(bounds) for bounds in self.bounds)
        text = f"{slow} ({fast})" if fast and fast != slow else slow
        return f"{'≥' if self.least else '≤'} {text.strip()}" if text else ""

    def figures(self, run):
        values = self.values(run)
        return self.listed(values) if any(value is not None for value in values) else "–"

    def judged(self, *runs):
        misses = []
        for name, run, bounds in zip(("slow", "fast"), runs, self.bounds):
            for value, bound in zip(self.values(run), bounds):
                if value is None:
                    return "not measured"
                if (value < bound) if self.least else (value > bound):
                    misses.append(f"{self.shown(value)} against {self.shown(bound)}, {name}")
        return "missed: " + "; ".join(misses) if misses else "met" if self.goal else ""

    @property
    def names(self):
        """The benchmarks that it asks for."""
        asked = Asked()
        self.values(asked)
        return list(asked)


class Asked(dict):
    """A run that remembers what it is asked for, and has nothing."""

    def __contains__(self, name):
        self[name] = None
        return False


def each(counter, *names):
    return lambda run: [run[name].get(counter) if name in run else None for name in names]


def ratios(name, *pairs):
    return lambda run: [run[name][a] / run[name][b] if name in run else None for a, b in pairs]


def both(benchmark, ending=""):
    return [f"{benchmark}/{how}{ending}" for how in ("leased", "transactional")]


def with_rows(benchmark, *rows):
    return [f"{benchmark}/rows:{number}/real_time" for number in rows]


def schedule(rows, random, connections=1):
    return f"schedule/rows:{rows}/random:{random}/connections:{connections}/iterations:10/real_time"


def users(clients, orders=1):
    return f"users_transaction/clients:{clients}/orders:{orders}/iterations:1/real_time"


def lateness(rows, due, slow=(12, 10), fast=(4, 4)):
    names = both("lateness", f"/rows:{rows}/due_per_s:{due}/iterations:1/real_time")
    goal = rows == TEN and due == 6000
    pending = {0: "none", MILLION: "1 M", TEN: "10 M"}[rows]
    yield Row(f"lateness p99, {pending} pending, {due} due per s: leased / transactional", MILLISECONDS,
              each("p99_ms", *names), *(slow, fast) if goal else ())
    yield Row("the same, p50", MILLISECONDS, each("p50_ms", *names))
    yield Row("the same, max", MILLISECONDS, each("max_ms", *names))
    yield Row("statements per check, of these", unit(""), each("statements", *names))
    yield Row("runs before their time, of these", unit("", 0), each("early", *names), *((0, 0), (0, 0)) if goal else ())


def of_server(what, names, rates=(), processor=(), log=(), fast=(), counter="items_per_second"):
    """With the server's processor time and bytes of its log for each, the same on both disks."""
    yield Row(f"{what}, per s", rate, each(counter, *names), rates, fast, least=True)
    yield Row("the same, processor time of the server for each", MICROSECONDS, each("cpu_us", *names), processor,
              processor)
    yield Row("the same, log for each", BYTES, each("wal", *names), log, log)


def growth(lives, of_what, most=()):
    name = f"growth/lives:{lives}/iterations:1/real_time"
    sizes = [f"MB_after_{when}" for when in ("half", "all", "a_peak")] + ["MB_vacuumed"]
    yield Row(f"{of_what} after half of {lives / MILLION:.1f} M lives, all, a peak of 500 k more, a vacuum, beside 100 "
              "k pending", MEGABYTES, lambda run: [value for size in sizes for value in each(size, name)(run)])
    yield Row("after all, against after half", TIMES, ratios(name, ("MB_after_all", "MB_after_half")), (), most)


def looks(run):
    none, *others = each("cpu_time", *with_rows("empty_poll", 0, MILLION, TEN))(run)
    return [None if None in (none, other) else other / none for other in others]


def alone(*threads):
    return each("items_per_second", *(f"schedule_alone/threads:{count}/real_time" for count in threads))


def one_per_call(statement):
    return each("jobs_per_s", *(f"one_job_per_call/statement:{statement}/nodes:{nodes}/iterations:1/real_time"
                                for nodes in (1, 2, 4)))


CLIENTS = [users(clients) for clients in (1, 8, 32)]
TAKE = [f"take_with_users_update/{which}/real_time" for which in ("from_the_deadline", "whole_life")]
DEAD = "beside_the_dead/rows:250000/iterations:1/real_time"
SQLITE = [
    Row("schedule × 500 at 100 k rows, keys in order / at random, rows per s", rate,
        each("items_per_second", schedule(100000, 0), schedule(100000, 1)), (60e3, 35e3), least=True),
    Row("the same at 1 M rows", rate, each("items_per_second", schedule(MILLION, 0), schedule(MILLION, 1))),
    Row("claim / complete, per s", rate, each("items_per_second", "lives/claim/real_time", "lives/complete/real_time")),
    Row("claim and complete, lives per s", rate, each("items_per_second", "claim_and_complete/real_time"), (30e3,),
        least=True),
    Row("transactional, with the user's update, per s", rate, each("items_per_second", TAKE[0]), (40e3,), least=True),
    # 80 % of what a throw-away program could do.
    Row("schedule alone; 1, 8, 64, 256 threads, per s", rate, alone(1, 8, 64, 256),
        [0.8 * spike for spike in (277, 1.2e3, 7.1e3, 20.7e3)], [0.8 * spike for spike in (10e3, 33e3, 55e3, 76e3)],
        least=True),
    Row("a transaction of one order with its check against a bare one: with a session / without", percent,
        ratios(users(1), ("session_per_s", "bare_per_s"), ("function_per_s", "bare_per_s")), (0.97, 0.97), least=True),
    Row("500 orders in a transaction: bare / with checks, per s", rate,
        lambda run: each("bare_per_s", users(1, 500))(run) + each("session_per_s", users(1, 500))(run)),
    Row("an empty look with 0 / 1 M / 10 M future rows, processor time", unit("µs", 1, 1000),
        each("cpu_time", *with_rows("empty_poll", 0, MILLION, TEN))),
    Row("the same with 1 M / 10 M, against none", TIMES, looks, (), (1.5, 1.5)),
    Row("start with 0 / 1 M / 10 M rows, nothing cached", MILLISECONDS,
        each("real_time", *with_rows("start", 0, MILLION, TEN)), (), (50, 50, 50)),
    *(row for rows in (MILLION, TEN) for due in (6000, 10) for row in lateness(rows, due)),
    *growth(4_320_000, "the file"),
    Row("the longest log", MEGABYTES, each("MB_of_log", "growth/lives:4320000/iterations:1/real_time")),
]
POSTGRES = [
    *of_server("schedule × 500, 1 / 2 connections", [schedule(20000, 1, count) for count in (1, 2)], (60e3, 60e3),
               fast=(120e3, 120e3)),
    *of_server("look and claim / complete", ["lives/claim/real_time", "lives/complete/real_time"]),
    # By `transact` and the calls of a store: a scheduler's ends, claims and inserts take fewer statements.
    *of_server("leased, whole lives, by calls of the store", ["lives/all/real_time"], (40e3,), (16,), (800,),
               fast=(55e3,)),
    *of_server("transactional, with the user's update, from the deadline on, by calls of the store", TAKE[:1]),
    *of_server("the same, whole lives", TAKE[1:], (40e3,), (13,), (550,), fast=(65e3,)),
    *of_server("scheduled and cancelled", ["cancelled/real_time"], (), (11,), (600,)),
    Row("in the caller's transaction by a session, against a bare one, 1 / 8 / 32 clients", percent,
        each("session_to_bare", *CLIENTS), (0.97,) * 3, (0.9,) * 3, least=True),
    Row("by the functions", percent, each("function_to_bare", *CLIENTS)),
    Row("SQL in a pipeline, against a bare one without", percent, each("pipeline_to_bare", *CLIENTS), (1,) * 3,
        (1,) * 3, least=True),
    *of_server("a backlog, trivial handlers: leased / transactional", both("backlog", "/iterations:1/real_time"),
               counter="jobs_per_s"),
    *of_server("schedule and run at once, whole lives: leased / transactional",
               both("schedule_and_run", "/iterations:1/real_time"), (70e3, 80e3), fast=(85e3, 110e3),
               counter="lives_per_s"),
    Row("schedule alone; 1, 8 threads, per s", rate, alone(1, 8), (4.5e3, 18e3), (4.5e3, 18e3), least=True),
    Row("one transactional job per call, without SQL; 1, 2, 4 nodes in a process, jobs per s", rate, one_per_call(0),
        (60e3,), (60e3,), least=True),
    Row("the same with an `UPDATE` by `PQexecParams`", rate, one_per_call(1), (12e3,), (12e3,), least=True),
    Row("the same by `postgres_prepare`", rate, one_per_call(2), (12e3,), (12e3,), least=True),
    Row("one `UPDATE` for a batch of jobs, as a node makes them", rate, one_per_call(3)),
    Row("an empty look with 0 / 1 M / 10 M future rows", unit("µs", 0, 1000),
        each("real_time", *with_rows("empty_poll", 0, MILLION, TEN)), (), (200e3,) * 3),
    *(row for rows in (0, MILLION, TEN) for due in (6000, 500, 10) for row in lateness(rows, due, (4, 8), (3, 3))),
    *(Row(f"processor time of the server per check, 10 M pending, {due} due per s: leased / transactional",
          MICROSECONDS, each("cpu_us", *both("lateness", f"/rows:{TEN}/due_per_s:{due}/iterations:1/real_time")),
          (most, most), (most, most)) for due, most in ((6000, 60), (500, 250))),
    Row("250 k dead rows under a snapshot, against none: a look / processor time of the server per check, 1 000 due "
        "per s", TIMES, ratios(DEAD, ("look_us", "look_clean_us"), ("cpu_us", "clean_cpu_us")), (), (1.1, 1.1)),
    Row("a look from the low-water mark / from the beginning there", unit("µs", 0),
        lambda run: each("look_us", DEAD)(run) + each("look_from_the_start_us", DEAD)(run)),
    *growth(2_000_000, "table and indexes", (1.1,)),
]
TABLES = {"sqlite": SQLITE, "postgres": POSTGRES}


def goal_names(store, disk):
    """What is measured for goals on the slow disk (0) or the fast one (1). On that are all that have one. A backlog has
    one beside other job queues only."""
    return sorted({name for row in TABLES[store] if row.what.startswith("a backlog") or
                   row.goal and (row.bounds[disk] or disk == 1) for name in row.names})


def table(build, kept, stores, goals):
    lines = ["| | goal: slow (fast) | fast | slow | |", "|---|---|---|---|---|"]
    for store in stores:
        fast, slow = (read(build, f"{kept}_{store}_{name}") for name in ("fast", "slow"))
        measured = goal_names(store, 1)
        lines += [f"| {store}: {row.what} | {row.goal} | {row.figures(fast)} | {row.figures(slow)} | "
                  f"{row.judged(slow, fast)} |" for row in TABLES[store] if not goals or {*row.names} <= {*measured}]
    return "\n".join(lines)


def measure(build, kept, store, disk, rows, names):
    name = ("slow", "fast")[disk]
    environment = os.environ | {"TIMING_WHEEL_BENCH_LARGEST": rows}
    if name == "slow":
        environment |= {"LD_PRELOAD": str(build / "slow_sync.so"), "TIMING_WHEEL_SYNC_DELAY_US": str(SLOWER_US)}
    print(f"==> {store}, {name}", file=sys.stderr)
    chosen = [] if names is None else [f"--benchmark_filter=^({'|'.join(names)})$"]
    context = ",".join(f"{key}={value}" for key, value in record.context_of_run().items())
    subprocess.run([str(build / f"durable_{store}_bench"), f"--benchmark_out={build / kept}_{store}_{name}.json",
                    f"--benchmark_context={context}", *chosen], env=environment, check=True, stdout=sys.stderr)


def read(build, kept):
    path = build / f"{kept}.json"
    if path.exists():
        entries = json.loads(path.read_text(encoding="utf-8"))["benchmarks"]
    else:
        path = path.with_suffix(".jsonl")
        entries = map(json.loads, path.read_text(encoding="utf-8").splitlines()) if path.exists() else []
    return {entry["name"]: entry for entry in entries}


def keep_short(build, folder):
    """What `--goals` measured, without what the tables do not ask for, one line for each benchmark."""
    left_out = {"family_index", "per_family_instance_index", "run_name", "run_type", "repetitions", "repetition_index",
                "threads", "time_unit", "iterations"}
    for path in build.glob("goals_*.json"):
        run = json.loads(path.read_text(encoding="utf-8"))
        about = {"when": run["context"]["date"][:10], "load": run["context"]["load_avg"][0],
                 "machine": record.machine(run["context"]), "commit": run["context"].get("commit")}
        lines = [about | {key: round(value, 3) if isinstance(value, float) else value for key, value in entry.items()
                          if key not in left_out} for entry in run["benchmarks"]]
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        (folder / path.with_suffix(".jsonl").name).write_text(text, encoding="utf-8")


def nodes(build):
    """A line for each number of nodes and of servers: leased / transactional."""
    done = subprocess.run([str(build / "durable_nodes_bench"), "--benchmark_format=json"], stdout=subprocess.PIPE,
                          text=True, check=True)
    by_size = {}
    for run in json.loads(done.stdout)["benchmarks"]:
        if run.get("error_occurred") or run["early"]:
            sys.exit(f"{run['name']}: {run.get('error_message') or 'checks were early'}")
        by_size.setdefault(tuple(part.split(":")[1] for part in run["name"].split("/")[2:4]), []).append(run)
    columns = (("checks per second", "per_s", -2, ""), ("late p50", "p50_ms", 1, " ms"), ("p99", "p99_ms", 1, " ms"),
               ("server's processor time", "cpu_us", 1, " µs"), ("statements", "statements", 3, ""),
               ("rows read", "rows_read", 1, ""), ("WAL", "wal", 0, " B"))
    rows = [f"| nodes | servers | {' | '.join(column[0] for column in columns)} |", "|---" * (len(columns) + 2) + "|"]
    for size, both_kinds in by_size.items():
        cells = (" / ".join(f"{round(run[figure], digits):,.{max(digits, 0)}f}".replace(",", " ") for run in both_kinds) +
                 sign for _, figure, digits, sign in columns)
        rows.append(f"| {' | '.join((*size, *cells))} |")
    return "\n".join(rows)


def outside(path):
    """A table of lines that have a `disk`, a `row` and figures, each of one run: all runs of a row in one cell."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    shown = {"per_s": rate, "server_us": MICROSECONDS, "wal": BYTES, "p50_ms": unit("ms p50"), "p99_ms": unit("ms p99")}
    rows = ["| | fast | slow |", "|---|---|---|"]
    for row in dict.fromkeys(line["row"] for line in lines):
        cells = [[line for line in lines if (line["row"], line["disk"]) == (row, disk)] for disk in ("fast", "slow")]
        figures = [[", ".join(show(run[name]) for run in runs if name in run) for name, show in shown.items()
                    if any(name in run for run in runs)] for runs in cells]
        rows.append(f"| {row} | {' | '.join('; '.join(each) or '–' for each in figures)} |")
    return "\n".join(rows)


def names_that_are_wrong(build):
    """Those that a table asks for, and the programs do not have."""
    for store, rows in TABLES.items():
        listed = subprocess.run([str(build / f"durable_{store}_bench"), "--benchmark_list_tests"],
                                stdout=subprocess.PIPE, text=True, check=True,
                                env=os.environ | {"TIMING_WHEEL_BENCH_LARGEST": "1e7"}).stdout.splitlines()
        for name in sorted({name for row in rows for name in row.names} - set(listed)):
            yield f"durable_{store}_bench has no {name}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=sorted(TABLES), default="sqlite")
    parser.add_argument("--build", type=Path, default=Path("build/bench/benchmarks"))
    parser.add_argument("--rows", default="1e7")
    parser.add_argument("--goals", action="store_true")
    parser.add_argument("--print", action="store_true")
    parser.add_argument("--check", action="store_true", help="only see that each benchmark of the tables is there")
    parser.add_argument("--nodes", action="store_true")
    parser.add_argument("--outside", type=Path)
    parser.add_argument("--keep", type=Path)
    arguments = parser.parse_args()
    if arguments.outside:
        print(outside(arguments.outside))
        return
    build = arguments.build.resolve()
    if arguments.nodes:
        print(nodes(build))
        return
    if arguments.keep:
        keep_short(build, arguments.keep)
        return
    if arguments.check:
        sys.exit("\n".join(names_that_are_wrong(build)) or 0)
    kept, stores = ("goals", list(TABLES)) if arguments.goals else ("durable", [arguments.store])
    for store in [] if arguments.print else stores:
        for disk in (1, 0):
            measure(build, kept, store, disk, "1e7" if arguments.goals else arguments.rows,
                    goal_names(store, disk) if arguments.goals else None)
    print(table(build, kept, stores, arguments.goals))
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Holds benchmarks/harness to the contract of its harness: harness_adapter_test.py ADAPTER POSTGRES_SERVER.

The harness is not here. The tests write what it writes, and read what it reads; a private server stands for its own.
"""

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import time
import unittest
from datetime import datetime
from pathlib import Path

from program_case import ProgramTest, clean_environment

HARNESS = Path(__file__).resolve().parents[2] / "benchmarks/harness"
MANIFEST = json.loads((HARNESS / "adapter.json").read_text(encoding="utf-8"))
CLAIMS = ("claim_p50_ms", "claim_p95_ms", "claim_p99_ms")
METRICS = {**dict.fromkeys(CLAIMS, 30), "enqueue_rate": 1, "completion_rate": 1, "queue_depth": 0}
SETTINGS = {"SCENARIO": "long_horizon", "PRODUCER_MODE": "fixed", "PRODUCER_RATE": 100, "TARGET_DEPTH": 1000,
            "PRODUCER_PACING": "harness", "WORKER_COUNT": 4, "JOB_PAYLOAD_BYTES": 256, "JOB_WORK_MS": 1,
            "SAMPLE_EVERY_S": 1, "BENCH_INSTANCE_ID": 0}
LONG = {"JOB_WORK_MS": 60000}  # longer than a test waits
DATABASES = itertools.count()


def when(record, key="t"):
    return datetime.fromisoformat(record[key].replace("Z", "+00:00")).timestamp()


class Replica:
    """A replica that runs, and what it has told."""

    def __init__(self, process):
        self.process = process
        self.descriptor = self.read()
        self.samples = []
        self.jobs = {"enqueue_rate": 0, "completion_rate": 0}

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"it has ended: {self.process.wait(timeout=60)}")
        return json.loads(line)

    def enqueue(self, *counts):
        self.write("".join(f"ENQUEUE {count}\n" for count in counts))

    def write(self, text):
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def sample(self):
        """The values of the next sample by their metrics, without `queue_depth` if there is none."""
        records = [self.read() for _ in range(len(METRICS) - (self.descriptor["instance_id"] != 0))]
        self.samples += records
        for record in records:
            if record["metric"] in self.jobs:
                self.jobs[record["metric"]] += record["value"] * record["window_s"]  # as the harness sums them up
        return {record["metric"]: record["value"] for record in records}

    def counts(self):
        """Jobs written, and jobs over, in all samples so far."""
        return tuple(round(jobs, 6) for jobs in self.jobs.values())


def too_long(*_):
    raise AssertionError("it reads or tells nothing")


class AdapterTest(ProgramTest):
    def setUp(self):
        super().setUp()
        signal.signal(signal.SIGALRM, too_long)
        signal.alarm(100)
        self.addCleanup(signal.alarm, 0)
        SERVER.stdin.write(f"test{next(DATABASES)}\n")
        SERVER.stdin.flush()
        self.url = SERVER.stdout.readline().strip()
        self.assertTrue(self.url, "no server")

    @contextlib.contextmanager
    def replica(self, **settings):
        variables = {name: str(value) for name, value in {**SETTINGS, "DATABASE_URL": self.url, **settings}.items()}
        with subprocess.Popen(self.command(), text=True, env=clean_environment(**variables), stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as process:
            try:
                yield Replica(process)
            finally:
                process.kill()

    def wait_for(self, replica, condition):
        end = time.monotonic() + 20  # less than the lease of a node that has given nothing back
        while not condition(replica.sample()):
            self.assertLess(time.monotonic(), end, (replica.counts(), replica.samples[-len(METRICS):]))

    def wait_for_counts(self, replica, *counts):
        self.wait_for(replica, lambda _: replica.counts() >= counts)
        replica.sample()
        self.assertEqual(replica.counts(), counts)


class Descriptor(AdapterTest):
    def test_has_what_the_manifest_has(self):
        with self.replica() as replica:
            told = replica.descriptor
        self.assertEqual((told["kind"], told["system"]), ("descriptor", MANIFEST["system"]))
        for key in ("event_tables", "event_indexes", "extensions"):
            self.assertLessEqual(set(MANIFEST[key]), set(told[key]))
        self.assertEqual(told["db_name"], self.url.rpartition("/")[2])
        self.assertRegex(told["started_at"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        self.assertRegex(told["version"] + " " + told["schema_version"], r"^\d+\.\d+\.\d+ \d+\.\d+$")


class Tokens(AdapterTest):
    def test_are_jobs_that_run_once(self):
        with self.replica() as replica:
            replica.enqueue(20, 1, 130)
            replica.write("no token\nENQ")
            replica.sample()
            replica.write("UEUE 4\n")
            self.wait_for_counts(replica, 155, 155)

    def test_are_more_in_a_phase_with_a_higher_rate(self):
        control = self.file("100", "rate")
        with self.replica(PRODUCER_RATE_CONTROL_FILE=control, SAMPLE_EVERY_S=2) as replica:
            replica.enqueue(10)
            self.wait_for_counts(replica, 10, 10)
            self.file("150.0", "rate")
            replica.enqueue(3, 3)
            self.wait_for_counts(replica, 19, 19)

    def test_are_read_while_all_workers_hang_so_the_harness_does_not(self):
        with self.replica(WORKER_COUNT=1, **LONG) as replica:
            replica.enqueue(5, *[0] * 20000)  # three times what a pipe holds
            replica.process.stdin.close()
            replica.sample()
            self.assertIsNone(replica.process.poll())  # the end of the tokens is not the end


class Samples(AdapterTest):
    def test_are_complete_on_the_clocks_boundaries_and_in_the_units_of_the_harness(self):
        on_time = []
        def samples_are_on_time(sample):
            self.assertLessEqual(set(METRICS), sample.keys())
            on_time.append(int(when(replica.samples[-1])) % 2 == 0)  # but for those of a busy machine
            return sum(on_time) == 2
        with self.replica(SAMPLE_EVERY_S=2) as replica:
            self.wait_for(replica, samples_are_on_time)
        for record in replica.samples:
            self.assertEqual({key: record[key] for key in ("kind", "system", "subject_kind", "subject", "instance_id")},
                             {"kind": "adapter", "system": MANIFEST["system"], "subject_kind": "adapter", "subject": "",
                              "instance_id": 0})
            self.assertEqual(record["window_s"], METRICS[record["metric"]] * (2 if "rate" in record["metric"] else 1))

    def test_have_the_time_from_insert_to_begin(self):
        with self.replica(WORKER_COUNT=1, JOB_WORK_MS=300) as replica:
            replica.enqueue(4)
            self.wait_for(replica, lambda _: replica.counts() == (4, 4))
            values = replica.sample()
        self.assertGreaterEqual(values["claim_p50_ms"], 300)
        self.assertGreaterEqual(values["claim_p99_ms"], 900)
        self.assertEqual(values["claim_p95_ms"], values["claim_p99_ms"])
        for claim in CLAIMS:
            self.assertEqual(values[claim], float(f"{values[claim]:.3g}"))

    def test_of_the_first_replica_have_the_depth_of_the_queue(self):
        with self.replica(**LONG) as first, self.replica(BENCH_INSTANCE_ID=1, **LONG) as second:
            second.enqueue(50)
            self.wait_for(first, lambda values: 40 <= values["queue_depth"] <= 50)
            for _ in range(2):
                second.sample()
            self.assertEqual({record["instance_id"] for record in second.samples}, {1})
            self.assertEqual({record["metric"] for record in second.samples}, METRICS.keys() - {"queue_depth"})


class Pacing(AdapterTest):
    def test_of_its_own_heeds_the_time_that_has_passed(self):
        with self.replica(PRODUCER_PACING="adapter", PRODUCER_RATE=300) as replica:
            replica.enqueue(1000)
            def expected():
                return 300 * (when(replica.samples[-1]) - when(replica.descriptor, "started_at"))
            for _ in range(3):
                replica.sample()
                self.assertLessEqual(replica.counts()[0], expected() * 1.2)
            self.wait_for(replica, lambda _: replica.counts()[0] > expected() / 2)

    def test_to_a_depth_stops_there(self):
        with self.replica(PRODUCER_MODE="depth-target", TARGET_DEPTH=30, **LONG) as replica:
            self.wait_for(replica, lambda values: values["queue_depth"] == 30)
            replica.sample()
            self.assertLess(replica.counts()[0], 60)


class Signals(AdapterTest):
    def end(self, number, **settings):
        """Ends a replica whose workers hang by a signal, and lets another one run what it has left."""
        with self.replica(**LONG, **settings) as replica:
            replica.enqueue(20)
            self.wait_for(replica, lambda values: replica.counts() == (20, 0) and values["queue_depth"] <= 16)
            begin = time.monotonic()
            replica.process.send_signal(number)
            status = replica.process.wait(timeout=60)
            took = time.monotonic() - begin
        with self.replica() as replica:
            replica.enqueue(20)
            self.wait_for_counts(replica, 20, 40)
        return status, took

    def test_to_terminate_end_it_within_five_seconds_and_free_its_jobs(self):
        status, took = self.end(signal.SIGTERM)
        self.assertEqual(status, 0)
        self.assertLess(took, 5)

    def test_that_kill_it_lose_no_job(self):
        self.assertEqual(self.end(signal.SIGKILL, LEASE_DEADLINE_MS=1000)[0], -signal.SIGKILL)


class Refusals(AdapterTest):
    def test_name_what_is_wrong(self):
        for wrong in ({"DATABASE_URL": ""}, {"SCENARIO": "chaos"}, {"PRODUCER_MODE": "slow"}, {"WORKER_COUNT": "0"},
                      {"PRODUCER_RATE": "8x"}, {"JOB_PRIORITY_PATTERN": "1"}, {"BENCH_QUEUE_COUNT": "8"}):
            with self.subTest(wrong=wrong):
                told = self.run_program(status=1, **{"DATABASE_URL": self.url, **wrong}).stderr
                self.assertIn(*wrong, told)


class Wrapper(ProgramTest):
    """run.py, in a harness of which only the names are there."""

    def run_wrapper(self, status, **variables):
        done = subprocess.run([sys.executable, "-B", HARNESS / "run.py", "run", "x"], text=True, capture_output=True,
                              env=clean_environment(**variables), timeout=60, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout + done.stderr

    def test_adds_the_adapter_to_the_systems(self):
        package = self.folder / "bench_harness"
        package.mkdir()
        (package / "__init__.py").touch()
        (package / "adapters.py").write_text(
            "from types import SimpleNamespace as AdapterEntry, SimpleNamespace as LaunchSpec\n"
            "ADAPTERS = {}\n"
            "def _base_env(manifest, overrides):\n    return {**manifest, **overrides}\n", encoding="utf-8")
        (package / "orchestrator.py").write_text(
            "import sys\nfrom .adapters import ADAPTERS\n"
            "def main():\n"
            "    entry = ADAPTERS['timing_wheel']\n"
            "    entry.builder(True)\n"
            "    print(sys.argv[1:], entry.bench_dir, entry.launcher({'a': '1'}, {'b': '2'}))\n", encoding="utf-8")
        told = self.run_wrapper(0, HARNESS_SRC=str(self.folder), TIMING_WHEEL_ADAPTER=self.program)
        for part in ("['run', 'x']", str(HARNESS), f"argv=['{self.program}']", "{'a': '1', 'b': '2'}"):
            self.assertIn(part, told)

    def test_says_what_is_missing(self):
        self.assertIn("HARNESS_SRC", self.run_wrapper(1, HARNESS_SRC=str(self.folder)))
        (self.folder / "bench_harness").mkdir()
        told = self.run_wrapper(1, HARNESS_SRC=str(self.folder), TIMING_WHEEL_ADAPTER="no/adapter")
        self.assertIn("no/adapter", told)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: harness_adapter_test.py ADAPTER POSTGRES_SERVER [UNITTEST_ARGUMENT...]")
    ProgramTest.program = os.path.abspath(sys.argv.pop(1))
    with subprocess.Popen([sys.argv.pop(1)], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as SERVER:
        unittest.main(verbosity=2)

#!/usr/bin/env python3
"""Schedules checks over HTTP, and cancels half of them, while the server is killed each second.

desk_torture.py DESK CHECKS [POSTGRES_SERVER]

DESK is the program timing-wheel; the checks are on a file, or in a database of the program POSTGRES_SERVER. Three
clients of Python and one of curl repeat each request whose answer is lost. At the end, by the store and by its audit,
each check has been scheduled once, and each other one cancelled once. With fewer than 20 000 checks the server is
killed more often, and Python takes the place of curl, which would rest for a second after each kill.
"""

import collections
import contextlib
import http.client
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

TOKEN = "0123456789abcdef"
CURL = """request = {method}
url = http://{address}{path}
header = "Authorization: Bearer {token}"
data = "{body}"
output = /dev/null
write-out = "%{{http_code}}\\n"
max-time = 20
retry = 1000
retry-delay = 1
retry-max-time = 600
retry-all-errors
"""


class Process:
    """A program that prints its port, and is started again with the same one."""

    running = []  # to be killed if a test fails
    may_start = threading.Lock()

    def __init__(self, command, at_port=lambda port: ["--listen", f"127.0.0.1:{port}"], environment=None):
        self.command, self.at_port, self.port, self.environment = command, at_port, 0, environment
        self.start()

    def start(self):
        with Process.may_start:
            self.process = subprocess.Popen([*self.command, *self.at_port(self.port)], stdout=subprocess.PIPE,
                                            text=True, env=self.environment)
            Process.running.append(self.process)
        self.port = int(self.process.stdout.readline().rstrip("/\n").split(":")[-1])

    @classmethod
    def end_all(cls):
        """And none is started any more."""
        cls.may_start.acquire()
        for process in cls.running:
            process.kill()
            process.wait()

    def kill(self):
        self.process.kill()
        self.process.communicate()

    def end(self):
        self.process.terminate()
        self.process.communicate()
        return self.process.returncode


class Server(Process):
    """timing-wheel serve, which is killed again and again."""

    kills = 0

    def kill_each(self, seconds, clients, over):
        """But not before it has answered 40 requests: a slow server would be killed too often to end in time."""
        before = clients.answers
        while not over.wait(seconds):
            last_try = time.monotonic() + 10
            while clients.answers < before + 40 and time.monotonic() < last_try and not over.wait(0.005):
                pass
            self.kill()
            self.kills += 1
            before = clients.answers
            self.start()


class Clients:
    def __init__(self, port, checks):
        self.address, self.checks = f"127.0.0.1:{port}", checks
        self.blocks = collections.deque(range(0, checks, 100))
        self.answers = self.lost = 0
        self.failures = []

    @staticmethod
    def requests(first, end):
        """What is asked of a block: of four checks in a row, two are cancelled."""
        for number in range(first, end):
            path = f"/v1/kinds/close/checks/order-{number}"
            yield "PUT", path, '{"delay":"1h"}'
            if number % 4 < 2:
                yield "DELETE", path, ""

    def in_python(self, requests):
        connection = http.client.HTTPConnection(self.address, timeout=20)
        for method, path, body in requests:
            last_try = time.monotonic() + 120
            while True:
                try:
                    connection.request(method, path, body, {"Authorization": f"Bearer {TOKEN}"})
                    answer = connection.getresponse()
                    answer.read()
                    if answer.status != 503:
                        self.answers += 1
                        break
                except (OSError, http.client.HTTPException):
                    connection.close()
                if time.monotonic() > last_try:
                    self.failures.append(f"{method} {path}: no answer for two minutes")
                    return
                self.lost += 1
                time.sleep(0.02)  # a server that starts needs the processor
            if answer.status not in (200, 201):
                self.failures.append(f"{method} {path}: {answer.status}")
        connection.close()

    def in_curl(self, requests):
        config = "next\n".join(CURL.format(method=method, address=self.address, path=path, token=TOKEN,
                                           body=body.replace('"', '\\"')) for method, path, body in requests)
        done = subprocess.run(["curl", "--silent", "--config", "-"], input=config, capture_output=True, text=True)
        answers = collections.Counter(done.stdout.split())
        if done.returncode != 0 or answers.keys() - {"000", "200", "201", "503"}:  # 000 and 503 were asked again
            self.failures.append(f"curl ended with {done.returncode}: {answers}, {done.stderr}")

    def work(self, ask):
        while self.blocks and not self.failures:
            try:
                first = self.blocks.popleft()
            except IndexError:
                return
            ask(self.requests(first, min(first + 100, self.checks)))
            if 10 * first // self.checks < 10 * (first + 100) // self.checks:
                print(f"    about {first + 100} of {self.checks} checks", file=sys.stderr)


def torture(desk, checks, store, folder):
    def told(*command):
        return subprocess.run([desk, *command], check=True, capture_output=True, text=True).stdout

    told("migrate", store, "--create")
    tokens = Path(folder, "tokens")
    tokens.write_text(f"torture {TOKEN}\n")
    server = Server([desk, "serve", store, "--token-file", tokens])
    clients = Clients(server.port, checks)
    over = threading.Event()
    killer = threading.Thread(target=server.kill_each, args=(min(1, checks / 20_000), clients, over))
    last = clients.in_curl if checks >= 20_000 else clients.in_python
    threads = [threading.Thread(target=clients.work, args=(ask,)) for ask in (*[clients.in_python] * 3, last)]
    begin = time.monotonic()
    for thread in (killer, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    over.set()
    killer.join()
    server.kill()
    print(f"{store.partition(':')[0]}: {checks} checks in {time.monotonic() - begin:.0f} s, {server.kills} kills, "
          f"{clients.lost} answers lost to Python")

    written = collections.Counter()
    for line in told("audit", store, "--json", "--limit", "1000000").splitlines():
        entry = json.loads(line)
        written[entry["action"]] += entry["count"]
    cancelled = sum(number % 4 < 2 for number in range(checks))
    pending = json.loads(told("status", store, "--json"))["kinds"][0]["pending"]
    if clients.failures or +written != {"schedule": checks, "cancel": cancelled} or pending != checks - cancelled:
        sys.exit(f"not exact: audit {dict(written)}, {pending} pending, {clients.failures}")
    if server.kills == 0:
        sys.exit("too few checks: no kill")


@contextlib.contextmanager
def databases(postgres_server=None):
    """Yields a function of a name: it makes a database of POSTGRES_SERVER, and returns its address; None without one."""
    if postgres_server is None:
        yield lambda name: None
        return
    with subprocess.Popen([postgres_server], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        def database_of(name):
            server.stdin.write(name + "\n")
            server.stdin.flush()
            return server.stdout.readline().strip()
        yield database_of


def main():
    desk, checks = sys.argv[1], int(sys.argv[2])
    if checks > 600_000:
        sys.exit("at most 600000 checks: the audit is read whole, up to a million lines")
    with tempfile.TemporaryDirectory() as folder, databases(*sys.argv[3:]) as database_of:
        torture(desk, checks, database_of("torture") or f"sqlite:{folder}/checks.db", folder)


if __name__ == "__main__":
    main()

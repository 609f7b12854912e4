#!/usr/bin/env python3
"""Delivers checks by webhooks to the receiver of examples/webhooks, made to fail in each way.

desk_webhooks_test.py DESK CHECKS [POSTGRES_SERVER]

DESK is the program timing-wheel; the checks are in files, or in databases of the program POSTGRES_SERVER. Each way to
answer has one check. CHECKS checks are delivered, while the receiver fails, hangs and dies, and the server is killed.
At the end each check has had its effect once. Most of the time is waiting, so the cases run beside each other, each
list of them with a store and a receiver of its own.
"""

import base64
import calendar
import collections
import concurrent.futures
import contextlib
import http.client
import json
import os
import random
import shutil
import signal
import socket
import sqlite3
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from pathlib import Path

from desk_torture import TOKEN, Process, databases

sys.path.insert(0, str(Path(__file__).parents[3] / "examples" / "webhooks"))
import receiver  # noqa: E402

KEYS = ["whsec_" + base64.b64encode(bytes([number] * 32)).decode() for number in range(2)]
LEASE = 3

# How each run of a check is answered, by the first word of its key; the last way again and again. A number is a status.
PLANS = {
    "done": [200], "created": [201], "broken": [500, 200], "missing": [404, 200], "moved": [302, 200],
    "busy": [503, 200], "limited": [429, 200], "conflict": [409], "gone": [410], "hangs": ["hang", 200],
    "closes": ["close", 200], "rubbish": ["rubbish", 200], "slow": ["slow"], "endless": ["endless"],
    "cut": ["cut", 200], "torn": ["torn", 200],
    "forgets": ["effect", 200], "hasty": [503, 429, 503, 200], "odd/.%\x01\N{SNOWMAN}": [200],
}
# What is no answer, though the last two have a status.
NO_ANSWERS = {"rubbish": b"\0\xff no HTTP\r\n\r\n", "cut": b"HTTP/1.1 200 OK\r\ncontent-le",
              "torn": b"HTTP/1.1 410 Gone\r\n"}
# The receiver has its effect, and answers so many seconds later: before the next run begins, and after that.
LATE = {"late": 1.5, "later": 4}
FAILURES = 16  # their back-offs are more than an hour together, though each may be a fifth shorter
# The plans of the two cases that have a store of their own.
LONG_PLANS = {**{way: [way, 200] for way in LATE}, "hour": [500] * FAILURES + [200]}


class Faulty(receiver.Receiver):
    """It notes each request, and then does what the plan of the check says."""

    def do_POST(self):
        begin = time.time()
        body = self.rfile.read(int(self.headers["content-length"]))
        check = json.loads(body)
        key = urllib.parse.unquote(self.headers["timing-wheel-key"])
        with sqlite3.connect(self.server.database, timeout=20) as shop:
            shop.execute("INSERT INTO seen VALUES (?, ?, ?, ?, ?)",
                         (key, self.path, json.dumps(dict(self.headers)), body.decode(), begin))
        word = key.split("-")[0]
        if word == "any":
            ways = random.choices([200, 500, 503, "hang", "effect", "die", "close"], [55, 10, 10, 7, 10, 1, 7])
            way = ways[0] if check["attempt"] < 4 else 200  # so that no wait is long
        else:
            plan = PLANS.get(word) or LONG_PLANS[word]
            way = plan[min(check["attempt"], len(plan)) - 1]
        self.act(way, body)

    def act(self, way, body):
        if way in ("effect", "die"):
            self.status_of(body)  # and the answer is lost
            if way == "die":
                os._exit(1)
        if way in ("effect", "close"):
            self.close_connection = True
        elif way == "hang":
            time.sleep(60 if self.headers["timing-wheel-kind"] == "stuck" else 6)
            self.close_connection = True
        elif way in NO_ANSWERS:
            self.wfile.write(NO_ANSWERS[way])
            self.close_connection = True
        elif way == "endless":
            self.status_of(body)
            self.send_response(200)
            self.end_headers()
            with contextlib.suppress(OSError):
                while True:
                    self.wfile.write(bytes(10_000))
        elif way == "slow":
            time.sleep(0.3)
            self.answer(self.status_of(body))
        elif way in LATE:
            status = self.status_of(body)
            time.sleep(LATE[way])
            with contextlib.suppress(OSError):  # the client has gone
                self.answer(status)
            with sqlite3.connect(self.server.database, timeout=20) as shop:
                shop.execute("INSERT INTO late VALUES (?, ?)", (way, status))
        elif way // 100 == 2:
            status = self.status_of(body)
            self.answer(way if status == 200 else status)
        else:
            rest = 1 if self.headers["timing-wheel-key"] == "hasty" else 4
            then = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + rest))
            fields = {302: [("location", "/elsewhere")], 429: [("retry-after", str(rest))],
                      503: [("retry-after", then)]}
            self.answer(way, fields.get(way, ()), b"order 17 <script>\x01 is no order")


def receive(key_file, database, port, certificate=""):
    """The receiver's process."""
    server = receiver.open_server(key_file, database, int(port), Faulty)
    server.handle_error = lambda *_: None  # a client that has gone
    with sqlite3.connect(database) as shop:
        shop.execute("CREATE TABLE IF NOT EXISTS seen(key, path, head, body, begin)")
        shop.execute("CREATE TABLE IF NOT EXISTS late(key, status)")
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    print(server.server_port, flush=True)
    server.serve_forever()


def must(is_true, *words):
    if not is_true:
        caller = sys._getframe(1)
        sys.exit(f"not so in {caller.f_code.co_name}, line {caller.f_lineno}: {words}")


def wait_until(is_true, what, seconds=60):
    """Waits, longer than any good run, on a machine that has much else to do."""
    last = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > last:
            sys.exit(f"not within {seconds} s: {what}")
        time.sleep(0.2)  # each look is a process


class Shop:
    """A store, the files of the webhooks, and a receiver that is started again when it has died."""

    def __init__(self, desk, store, folder):
        self.desk, self.store, self.folder = desk, store, Path(folder)
        self.database = str(self.folder / "shop.db")
        self.told("migrate", "--create")
        self.write("tokens", f"test {TOKEN}\n")
        self.write("one.key", KEYS[0] + "\n")
        self.write("both.key", f"{KEYS[1]}\n{KEYS[0]}\n")
        me = [sys.executable, __file__, "receive", str(self.folder / "one.key"), self.database]
        self.receiver = Process(me, lambda port: [str(port)])
        self.over = threading.Event()
        self.watcher = threading.Thread(target=self.watch)
        self.watcher.start()

    def watch(self):
        while not self.over.wait(0.05):
            if self.receiver.process.poll() is not None:
                self.receiver.start()

    def close(self):
        self.over.set()
        self.watcher.join()

    def write(self, name, text):
        (self.folder / name).write_text(text)
        return str(self.folder / name)

    def told(self, command, *words):
        return subprocess.run([self.desk, command, self.store, *words], check=True, capture_output=True, text=True).stdout

    def ends(self, command, *words):
        """The status of a command that may be refused."""
        done = subprocess.run([self.desk, command, self.store, *words], capture_output=True, text=True)
        must(done.returncode in (0, 1, 4), done.stderr)
        return done.returncode

    def lines(self, *words):
        done = subprocess.run([self.desk, "list", self.store, "--json", *words], capture_output=True, text=True)
        must(done.returncode in (0, 1), done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def server(self, kinds, *options, limits="true", environment=None):
        file = self.write("kinds.json", json.dumps(kinds))
        return Process(["bash", "-c", limits + ' && exec "$@"', "-", self.desk, "serve", self.store, "--token-file",
                        self.folder / "tokens", "--deliver", file, *options], environment=environment)

    def kind(self, **members):
        return {"url": f"http://127.0.0.1:{self.receiver.port}/hook?shop=1", "key_file": "both.key", "time_limit": "4s",
                **members}

    def rows(self, statement, *values):
        with sqlite3.connect(self.database, timeout=20) as shop:
            return shop.execute(statement, values).fetchall()


def put(port, kind, keys, body='{"payload": "17"}'):
    connection = http.client.HTTPConnection(f"127.0.0.1:{port}", timeout=20)
    for key in keys:
        path = f"/v1/kinds/{kind}/checks/" + "".join(f"%{byte:02x}" for byte in key.encode())
        connection.request("PUT", path, body, {"Authorization": f"Bearer {TOKEN}"})
        answer = connection.getresponse()
        must(answer.status in (200, 201), answer.read())
        answer.read()
    connection.close()


def answers_in_each_way(shop):
    server = shop.server({"verify": shop.kind(max_running=32)})
    put(server.port, "verify", PLANS)
    dead = {"conflict", "gone"}
    wait_until(lambda: not shop.lines() and len(shop.lines("--state", "dead")) == len(dead), "all are over")
    must(server.end() == 0)

    runs = collections.defaultdict(list)
    for key, path, head, body in shop.rows("SELECT key, path, head, body FROM seen ORDER BY rowid"):
        must(path == "/hook?shop=1", path)
        runs[key].append(({name.lower(): value for name, value in json.loads(head).items()}, json.loads(body)))
    must(runs.keys() == PLANS.keys(), runs.keys())
    for key, plan in PLANS.items():
        must([body["attempt"] for _, body in runs[key]] == list(range(1, len(plan) + 1)), key, runs[key])
        must(len({head["webhook-id"] for head, _ in runs[key]}) == 1, key)
        must(sorted({body["fence"] for _, body in runs[key]}) == [body["fence"] for _, body in runs[key]], key)
    sent = {key: [int(head["webhook-timestamp"]) for head, _ in runs[key]] for key in ("busy", "limited", "hasty")}
    must(all(sent[key][1] - sent[key][0] >= 3 for key in ("busy", "limited")), "after Retry-After", sent)
    must(sent["hasty"][3] - sent["hasty"][2] >= 4, "not before the back-off", sent)
    effects = collections.Counter(base64.b64decode(key).decode() if key.endswith("=") else key
                                  for key, in shop.rows("SELECT key FROM done"))
    must(effects == collections.Counter(PLANS.keys() - dead), effects)
    for line in shop.lines("--state", "dead"):
        status = PLANS[line["key"]][0]
        must(line["error"] == rf"the receiver has answered {status}: order 17 <script>\x01 is no order", line)

    odd = "odd/.%\x01\N{SNOWMAN}"
    head, body = runs[odd][0]
    due = time.mktime(time.strptime(body.pop("due").split(".")[0].rstrip("Z"), "%Y-%m-%dT%H:%M:%S")) - time.timezone
    must(abs(time.time() - due) < 60, due)
    # Bytes that are no text come as the API has them.
    must(base64.b64decode(body.pop("key_base64", base64.b64encode(odd.encode()))) == odd.encode(), body)
    body.pop("key", None)
    must(body == {"kind": "verify", "id": body["id"], "attempt": 1, "fence": body["fence"], "payload": "17"}, body)
    encoded = "odd%2F.%25%01%E2%98%83"
    must(head["webhook-id"] == f"verify/{encoded.replace('.', '%2E')}/{body['id']}", head)
    must(head["content-type"] == "application/json" and head["timing-wheel-kind"] == "verify", head)
    must(head["timing-wheel-key"] == encoded and head["timing-wheel-attempt"] == "1", head)
    must(head["timing-wheel-fence"] == str(body["fence"]) and len(head["webhook-signature"].split()) == 2, head)
    print(f"{len(PLANS)} ways to answer", flush=True)


def a_foreign_key_is_refused(shop):
    key = shop.write("foreign.key", KEYS[1])
    server = shop.server({"verify": shop.kind(key_file=key, max_attempts=1)})
    put(server.port, "verify", ["done-foreign"])
    wait_until(lambda: "401" in str(shop.lines("--state", "dead", "--key", "done-foreign")), "the receiver refuses it")
    must(server.end() == 0)
    must(not shop.rows("SELECT * FROM done WHERE key='done-foreign'"))


def a_receiver_with_two_keys_takes_either(shop):
    changing = receiver.open_server(shop.folder / "both.key", shop.database, 0)
    threading.Thread(target=changing.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{changing.server_port}/"
    server = shop.server({"new": shop.kind(url=url, key_file="foreign.key"),
                          "old": shop.kind(url=url, key_file="one.key")})
    for kind in ("new", "old"):
        put(server.port, kind, ["done-change"])
    wait_until(lambda: len(shop.rows("SELECT * FROM done WHERE key='done-change'")) == 2, "both are taken")
    must(server.end() == 0)
    changing.shutdown()


def requests(shop, key):
    """The requests of a check: when the receiver has got each, and its body."""
    rows = shop.rows("SELECT begin, body FROM seen WHERE key=? ORDER BY rowid", key)
    return [(begin, json.loads(body)) for begin, body in rows]


def a_late_answer_brings_no_second_effect(shop):
    """The receiver has had its effect in time, and answers 200 when nobody waits for it any more."""
    server = shop.server({"verify": shop.kind(time_limit="1s")})
    put(server.port, "verify", LATE)
    wait_until(lambda: len(shop.rows("SELECT * FROM late")) == len(LATE) and not shop.lines(), "all are over")
    must(server.end() == 0)
    must(not shop.lines("--state", "dead"))
    must(sorted(shop.rows("SELECT * FROM late")) == [(key, 200) for key in LATE], shop.rows("SELECT * FROM late"))
    for key in LATE:
        bodies = [body for _, body in requests(shop, key)]
        must([body["attempt"] for body in bodies][:2] == [1, 2], "it runs again", bodies)
        done = shop.rows("SELECT kind, id, fence FROM done WHERE key=?", key)
        must(done == [("verify", bodies[0]["id"], bodies[0]["fence"])], "the effect of the first run", done, bodies)
    must(shop.rows("SELECT free FROM stock") == [(len(LATE),)])


def unix_time(text):
    """The seconds since 1970 of a time in JSON."""
    whole, _, fraction = text.removesuffix("Z").partition(".")
    return calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) + float(f"0.{fraction or 0}")


def an_hour_of_failures_leads_to_one_effect(shop):
    """The first four back-offs pass, since they are too short to be looked at for certain; `run-now` ends the others."""
    server = shop.server({"verify": shop.kind(time_limit="20s")})
    put(server.port, "verify", ["hour"])
    hour = 0
    for attempt in range(1, FAILURES + 1):
        wait_until(lambda: len(requests(shop, "hour")) >= attempt, f"run {attempt} begins")
        begin = requests(shop, "hour")[attempt - 1][0]
        if attempt <= 4:
            wait_until(lambda: len(requests(shop, "hour")) > attempt, "it runs again by itself")
            known, body = requests(shop, "hour")[attempt]
            due = unix_time(body["due"])
            must(due <= known + 0.1, "not before the back-off", attempt, due, known)
        else:
            wait_until(lambda: shop.lines("--state", "retrying"), f"run {attempt} has failed")
            known, line = time.time(), json.loads(shop.told("show", "verify", "hour", "--json"))[0]
            due = unix_time(line["due"])
            if line["state"] != "retrying" or line["attempt"] != attempt:  # on a slow machine it runs by itself before
                must(line["attempt"] >= attempt and attempt < 9, attempt, line)
                continue
            # Refused if it runs by now, or if a busy server keeps its row for three seconds.
            wait_until(lambda: shop.ends("run-now", "verify", "hour") == 0 or len(requests(shop, "hour")) > attempt,
                       f"run {attempt + 1} is due")
        # The run has failed between `begin` and `known`. A fifth of the back-off may be left out; 0.1 s is for clocks.
        longest = min(2 ** (attempt - 1), 600)
        must(begin + 0.8 * longest - 0.1 <= due <= known + longest + 0.1, "the back-off", attempt, begin, due, known)
        hour += due - begin
    must(hour > 3600, hour)
    wait_until(lambda: not shop.lines(), "it is done")
    must(server.end() == 0)
    must(not shop.lines("--state", "dead"))
    bodies = [body for _, body in requests(shop, "hour")]
    must([body["attempt"] for body in bodies] == list(range(1, FAILURES + 2)), bodies)
    done = shop.rows("SELECT kind, key, id, fence FROM done")
    must(done == [("verify", "hour", bodies[0]["id"], bodies[-1]["fence"])], done, bodies)
    must(shop.rows("SELECT free FROM stock") == [(1,)])


def a_length_below_zero_holds_no_thread(shop):
    example = receiver.open_server(shop.folder / "one.key", shop.database, 0)
    threading.Thread(target=example.serve_forever, daemon=True).start()
    with socket.create_connection(("127.0.0.1", example.server_port), timeout=20) as client:
        client.sendall(b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n")
        must(client.recv(100).startswith(b"HTTP/1.0 400 "))
    example.shutdown()


def refuses_clients(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) != 0


def a_kind_that_hangs_holds_up_no_other(shop):
    """And what is under way when the server ends is given back within its patience."""
    server = shop.server({"stuck": shop.kind(max_running=8, time_limit="1h"), "free": shop.kind(max_running=1)})
    put(server.port, "stuck", ["hangs-large"], json.dumps({"payload": "x" * 2**20}))
    put(server.port, "stuck", [f"hangs-{number}" for number in range(15)])
    wait_until(lambda: len(shop.lines("--kind", "stuck", "--state", "running")) == 8, "as many run as may")
    put(server.port, "free", ["done-1", "done-2"])
    wait_until(lambda: len(shop.rows("SELECT * FROM done WHERE kind='free'")) == 2, "the other kind is delivered", 30)
    must(len(shop.lines("--kind", "stuck")) == 16)
    begin = time.monotonic()
    server.process.terminate()
    wait_until(lambda: refuses_clients(server.port), "it takes no client while it waits for webhooks", 4)
    must(server.process.wait() == 0)
    must(time.monotonic() - begin < 20)
    states = {line["state"] for line in shop.lines("--kind", "stuck")}
    must(states <= {"waiting", "pending", "retrying"}, states)
    shop.told("cancel", "--kind", "stuck", "--yes")


class Silent(receiver.Receiver):
    """It reads the request, and does not answer."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        time.sleep(120)
        self.close_connection = True


def has_files_for_all_requests(shop):
    silent = receiver.open_server(shop.folder / "one.key", shop.database, 0, Silent)
    threading.Thread(target=silent.serve_forever, daemon=True).start()
    stuck = shop.kind(url=f"http://127.0.0.1:{silent.server_port}/", max_running=100, time_limit="1h")
    server = shop.server({"stuck": stuck}, limits="ulimit -Sn 200")
    put(server.port, "stuck", [f"file-{number}" for number in range(100)])
    wait_until(lambda: len(shop.lines("--kind", "stuck", "--state", "running", "--limit", "200")) == 100, "all run")
    put(server.port, "stuck", ["file-more"])
    must(server.end() == 0)
    must(not shop.lines("--kind", "stuck", "--state", "retrying"))
    silent.shutdown()
    shop.told("cancel", "--kind", "stuck", "--yes")
    done = subprocess.run(["bash", "-c", 'ulimit -n 200 && exec "$@"', "-", shop.desk, "serve", shop.store, "--listen",
                           "127.0.0.1:0", "--deliver", shop.folder / "kinds.json"], capture_output=True, text=True)
    must(done.returncode == 2 and "856 open files" in done.stderr, done)


def speaks_tls(shop):
    certificate = str(shop.folder / "certificate")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", certificate + ".key", "-out",
                    certificate + ".pem"], check=True, capture_output=True)
    both = shop.write("tls", Path(certificate + ".key").read_text() + Path(certificate + ".pem").read_text())
    me = [sys.executable, __file__, "receive", str(shop.folder / "one.key"), shop.database]
    secure = Process(me, lambda port: [str(port), both])
    url = f"https://127.0.0.1:{secure.port}/hook"
    server = shop.server({"known": shop.kind(url=url, ca_file="certificate.pem", time_limit="10s"),
                          "unknown": shop.kind(url=url, max_attempts=1, time_limit="10s")})
    put(server.port, "known", ["done-tls"])
    put(server.port, "unknown", ["done-nobody"])
    wait_until(lambda: "certificate" in str(shop.lines("--state", "dead", "--key", "done-nobody")), "it is refused")
    wait_until(lambda: shop.rows("SELECT * FROM done WHERE key='done-tls'"), "it is delivered")
    must(server.end() == 0)
    must(not shop.rows("SELECT * FROM seen WHERE key='done-nobody'"))
    secure.kill()


def keeps_its_name_and_its_drain(shop):
    """Through a restart."""
    options = {"kept": shop.kind()}, "--node", "shop-1"
    server = shop.server(*options)
    put(server.port, "kept", ["done-before"])
    wait_until(lambda: shop.rows("SELECT * FROM done WHERE key='done-before'"), "it is delivered")
    shop.told("drain", "shop-1", "--wait", "20")
    must(server.end() == 0)
    server = shop.server(*options)
    put(server.port, "kept", ["done-drained"])
    time.sleep(2)  # without the drain it is delivered within a poll
    must([line["state"] for line in shop.lines("--kind", "kept")] == ["waiting"])
    must([each["node"] for each in json.loads(shop.told("status", "--json"))["drained"]] == ["shop-1"])
    shop.told("drain", "shop-1", "--end")
    wait_until(lambda: shop.rows("SELECT * FROM done WHERE key='done-drained'"), "it is delivered after the drain")
    must(server.end() == 0)


def a_name_that_nobody_knows_is_given_up_in_time(shop):
    """The look-up hangs, and neither the request nor the end of the server waits for it."""
    library = os.environ.get("TIMING_WHEEL_SLOW_NAMES")
    if library is None:
        print("skipped: without TIMING_WHEEL_SLOW_NAMES no look-up of a name hangs", flush=True)
        return
    asked = shop.folder / "asked"
    kinds = {"lost": shop.kind(url="http://slow.test/", time_limit="500ms", max_attempts=1),
             "under_way": shop.kind(url="http://slow.test/", time_limit="1h")}
    sanitizer = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
    server = shop.server(kinds, environment={**os.environ, "LD_PRELOAD": library, "SLOW_NAMES_ASKED": str(asked),
                                             "ASAN_OPTIONS": sanitizer})
    put(server.port, "lost", ["done-lost"])
    wait_until(lambda: shop.lines("--state", "dead"), "the request is given up")
    must("timed out" in shop.lines("--state", "dead")[0]["error"], shop.lines("--state", "dead"))
    must(asked.exists())
    put(server.port, "under_way", ["done-lost"])
    wait_until(lambda: shop.lines("--state", "running"), "it runs")
    begin = time.monotonic()
    must(server.end() == 0)
    must(time.monotonic() - begin < 20, "a look-up takes two minutes")


class Network:
    """A way to a server, which may be cut, so that nobody answers."""

    def __init__(self, server):
        self.server, self.is_cut, self.ends = server, threading.Event(), []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):  # closed
            while True:
                client = self.listener.accept()[0]
                server = socket.create_connection(("127.0.0.1", self.server))
                self.ends += [client, server]
                for ways in ((client, server), (server, client)):
                    threading.Thread(target=self.pass_on, args=ways, daemon=True).start()

    def pass_on(self, source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if not self.is_cut.is_set():
                    target.sendall(data)

    def close(self):
        for end in [self.listener, *self.ends]:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@contextlib.contextmanager
def store_that_goes_away(shop):
    """Yields its name, and a function that takes it away."""
    if shop.store.startswith("sqlite:"):
        with contextlib.closing(sqlite3.connect(shop.store.removeprefix("sqlite:"), isolation_level=None)) as other:
            yield shop.store, lambda: other.execute("BEGIN IMMEDIATE")
    else:
        server = urllib.parse.urlsplit(shop.store)
        network = Network(server.port)
        with contextlib.closing(network):
            yield server._replace(netloc=f"postgres@127.0.0.1:{network.port}").geturl(), network.is_cut.set


def ends_though_the_store_is_away(shop):
    """What is under way then runs again when its lease has ended."""
    options = {"away": shop.kind()}, "--lease", "3"
    usual = shop.store
    with store_that_goes_away(shop) as (shop.store, take_away):
        server = shop.server(*options)
        put(server.port, "away", ["hangs-away"])
        wait_until(lambda: shop.rows("SELECT * FROM seen WHERE key='hangs-away'"), "it runs")
        take_away()
        begin = time.monotonic()
        must(server.end() == 0)
        took = time.monotonic() - begin
        print(f"ended after {took:.1f} s", file=sys.stderr)
        must(took < 9, "some 7 s, and time for a slow machine", took)
    shop.store = usual
    must(not shop.rows("SELECT * FROM done WHERE key='hangs-away'"))
    server = shop.server(*options)
    wait_until(lambda: shop.rows("SELECT * FROM done WHERE key='hangs-away'"), "it runs again")
    must(server.end() == 0)


def refuses_files(shop):
    shop.write("short.key", "whsec_" + base64.b64encode(bytes(23)).decode())
    shop.write("plain.key", "secret" * 10)
    shop.write("empty.key", "\n")
    for kinds, words in [
            ("", "is no JSON"), ("{", "is no JSON"), ("[]", "no object"), ("{}", "no object"), ('{"a": 1}', "no object"),
            ('{"a": {"url": "http://x"}, "a": {}}', "names the kind a twice"),
            ('{"a": 1e999}', "too large"), ("[" * 2**20 + "[", "longer than 1 MiB"),
            ({"a": {}}, "needs url and key_file"), ({"a": {"url": "http://x"}}, "needs url and key_file"),
            ({"a": shop.kind(key_file="none")}, "cannot be read"), ({"a": shop.kind(key_file=".")}, "cannot be read"),
            ({"a": shop.kind(key_file="/dev/zero")}, "longer than 1 MiB"),
            ('{"a": {"url": "http://shop:sesame@x", key_file}}', "is no JSON at byte 39"),
            ({"a": shop.kind(key_file="")}, "is no text"),
            ({"a": shop.kind(key_file="short.key")}, "24 bytes"), ({"a": shop.kind(key_file="plain.key")}, "24 bytes"),
            ({"a": shop.kind(key_file="empty.key")}, "there is no key"), ({"a": shop.kind(ca_file="none")}, "cannot be read"),
            ({"a": shop.kind(url="ftp://x")}, "no address"), ({"a": shop.kind(url="file:///etc/passwd")}, "no address"),
            ({"a": shop.kind(url="shop:80/x")}, "no address"), ({"a": shop.kind(url="http://")}, "no address"),
            ({"a": shop.kind(url="http://x\r\na: b")}, "no address"), ({"a": shop.kind(url=7)}, "is no text"),
            ({"a": shop.kind(time_limit="0s")}, "not from 1ms to 1h"), ({"a": shop.kind(time_limit="2h")}, "not from"),
            ({"a": shop.kind(time_limit="30")}, "unit"), ({"a": shop.kind(max_running=0)}, "no number from 1 to 1024"),
            ({"a": shop.kind(max_running=1.5)}, "no number"), ({"a": shop.kind(max_attempts=2**64 - 1)}, "no number"),
            ({"a": shop.kind(max_running=1024), "b": shop.kind()}, "more than 1024"),
            ({"a": shop.kind(retries=3)}, "a: retries is not known"), ({"": shop.kind()}, "kind"),
            ({"k" * 300: shop.kind()}, "kind")]:
        file = shop.write("kinds.json", kinds if isinstance(kinds, str) else json.dumps(kinds))
        done = subprocess.run([shop.desk, "serve", shop.store, "--listen", "127.0.0.1:0", "--deliver", file],
                              capture_output=True, text=True, timeout=20)
        must("sesame" not in done.stderr, done)
        must(done.returncode == 2 and done.stdout == "" and words in done.stderr and done.stderr.count("\n") == 1, kinds,
             done)
    for words, says in [(["--deliver", file + ".none"], "cannot be read"),
                        (["--deliver", ""], "needs the name of a file"), (["--node", "shop-1"], "--deliver"),
                        (["--lease", "5"], "--deliver"),
                        (["--deliver", file, "--node", ""], "needs a name"),
                        (["--deliver", file, "--node", b"\xff"], "needs a name"),
                        (["--deliver", file, "--lease", "0.5"], "not in range")]:
        done = subprocess.run([shop.desk, "serve", shop.store, "--listen", "127.0.0.1:0", *words], capture_output=True,
                              text=True, timeout=20)
        must(done.returncode == 2 and says in done.stderr, done)


def works_as_the_example_of_its_page(shop):
    """In an empty folder, with other ports."""
    project = Path(__file__).parents[3]
    page = (project / "docs" / "desk.md").read_text()
    lines = page.partition("\n## Webhooks\n")[2].partition("```sh\n")[2].partition("```")[0]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for what, instead in [("9000", str(port)), ("examples/", f"{project}/examples/"), ("timing-wheel ", f"{shop.desk} "),
                          ("serve sqlite:orders.db", "serve sqlite:orders.db --listen 127.0.0.1:0")]:
        must(what in lines, what, lines)
        lines = lines.replace(what, instead)
    folder = shop.folder / "example"
    folder.mkdir()
    (folder / "tokens").write_text(f"test {TOKEN}\n")
    with subprocess.Popen(["bash", "-ec", lines], cwd=folder, stdout=subprocess.PIPE, text=True,
                          start_new_session=True) as all_of_it:
        try:
            address = next(line for line in all_of_it.stdout if line.startswith("http"))
            put(int(address.rstrip("/\n").split(":")[-1]), "verify", ["order-17"])
            pending = [shop.desk, "list", f"sqlite:{folder}/orders.db"]
            wait_until(lambda: subprocess.run(pending, capture_output=True).returncode == 1, "it delivers")
        finally:
            os.killpg(all_of_it.pid, signal.SIGKILL)
    with sqlite3.connect(folder / "shop.db") as other:
        must(other.execute("SELECT key FROM done").fetchall() == [("order-17",)])


def torture(shop, checks):
    """The receiver fails, hangs and dies, and the server is killed; each effect comes once."""
    begin = time.monotonic()
    kind = shop.kind(max_running=32, max_attempts=1000, time_limit="1s")
    server = shop.server({"verify": kind}, "--lease", str(LEASE))
    kills = max(1, checks // 2000)
    before = len(shop.rows("SELECT * FROM done"))
    for kill in range(kills):
        put(server.port, "verify", [f"any-{number}" for number in range(checks * kill // kills, checks * (kill + 1) // kills)])
        wait_until(lambda: shop.lines("--state", "running"), "a check runs")
        server.kill()
        server.start()
        print(f"    {checks * (kill + 1) // kills} of {checks} checks", file=sys.stderr)
    wait_until(lambda: not shop.lines(), "all are delivered", 150 + checks / 20)
    must(server.end() == 0)
    twice = shop.rows("SELECT key FROM done GROUP BY kind, key HAVING count(*) > 1")
    done = len(shop.rows("SELECT * FROM done")) - before
    free = shop.rows("SELECT free FROM stock")[0][0]
    must(done == checks and not twice and free == done + before, done, twice, free)
    seen = shop.rows("SELECT count(*) FROM seen WHERE key LIKE 'any-%'")[0][0]
    must(seen > checks, seen)
    print(f"{checks} checks in {time.monotonic() - begin:.0f} s: {seen} requests, {kills} kills of the server", flush=True)


# Beside each other; the cases of a list one after another.
CASES = [
    [answers_in_each_way, a_foreign_key_is_refused, a_receiver_with_two_keys_takes_either],
    [a_length_below_zero_holds_no_thread, refuses_files, speaks_tls, works_as_the_example_of_its_page,
     keeps_its_name_and_its_drain],
    [a_kind_that_hangs_holds_up_no_other],
    [has_files_for_all_requests],
    [ends_though_the_store_is_away],
    [a_late_answer_brings_no_second_effect],
    [an_hour_of_failures_leads_to_one_effect],
    [a_name_that_nobody_knows_is_given_up_in_time],
]


def run_beside(desk, cases, store, folder):
    shop = Shop(desk, store, folder)
    try:
        for each in cases:
            begin = time.monotonic()
            each(shop)
            print(f"    {each.__name__}: {time.monotonic() - begin:.1f} s", file=sys.stderr)
    finally:
        shop.close()


def test(desk, checks, database_of):
    help_text = subprocess.run([desk, "serve", "--help"], check=True, capture_output=True, text=True).stdout
    if "--deliver" not in help_text:
        sys.exit(77)  # built without libcurl and OpenSSL
    all_of_them = [[lambda shop: torture(shop, checks)], *CASES]
    all_of_them[0][0].__name__ = "torture"
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(len(all_of_them)) as threads:
        running = []
        for number, cases in enumerate(all_of_them):
            folder = Path(scratch) / str(number)
            folder.mkdir()
            store = database_of(f"webhooks_{number}") or f"sqlite:{folder}/checks.db"
            running.append(threads.submit(run_beside, desk, cases, store, folder))
        try:
            for each in concurrent.futures.as_completed(running):
                each.result()
        except BaseException as error:  # the other cases would go on, and start processes
            print(error, file=sys.stderr, flush=True)
            Process.end_all()
            shutil.rmtree(scratch, ignore_errors=True)
            os._exit(1)
        Process.end_all()


def main():
    if sys.argv[1] == "receive":
        receive(*sys.argv[2:])
    else:
        with databases(*sys.argv[3:]) as database_of:
            test(sys.argv[1], int(sys.argv[2]), database_of)


if __name__ == "__main__":
    main()

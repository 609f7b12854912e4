#!/usr/bin/env python3
"""A shop that gets its checks by webhooks: it gives the stock of an order back, once for each check.

receiver.py KEY_FILE DATABASE [PORT]

docs/desk.md says how timing-wheel calls it. The signature is that of Standard Webhooks 1.0, for which there are
libraries in most languages: https://www.standardwebhooks.com
"""

import base64
import hashlib
import hmac
import http.server
import json
import sqlite3
import sys
import time
from pathlib import Path


def is_signed(keys, headers, body):
    """Whether the sender has one of the keys, and has sent this within the last five minutes."""
    sent = headers.get("webhook-timestamp", "0")
    content = f"{headers.get('webhook-id')}.{sent}.".encode() + body
    ours = [b"v1," + base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()) for key in keys]
    theirs = headers.get("webhook-signature", "").encode().split()
    return (any(hmac.compare_digest(each, own) for each in theirs for own in ours)
            and abs(time.time() - int(sent)) < 300)


def give_back(shop, check):
    """Writes the effect and what it knows of the check in one transaction. Returns the status to answer with."""
    key = check.get("key") or check["key_base64"]  # bytes that are no text
    with shop:
        shop.execute("BEGIN IMMEDIATE")
        fence, done = shop.execute("SELECT max(fence), max(id = ?) FROM done WHERE kind = ? AND key = ?",
                                   (check["id"], check["kind"], key)).fetchone()
        if done:  # an answer was lost: the work is done
            return 200
        if fence is not None and check["fence"] < fence:  # a run that a later one has overtaken
            return 409
        shop.execute("INSERT INTO done(kind, key, id, fence) VALUES (?, ?, ?, ?)",
                     (check["kind"], key, check["id"], check["fence"]))
        shop.execute("UPDATE stock SET free = free + 1")
    return 200


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        size = int(self.headers.get("content-length", 0))
        self.answer(400 if size < 0 else self.status_of(self.rfile.read(size)))  # below 0 it would read without end

    def status_of(self, body):
        if not is_signed(self.server.keys, self.headers, body):
            return 401
        with sqlite3.connect(self.server.database, timeout=20, isolation_level=None) as shop:
            return give_back(shop, json.loads(body))

    def answer(self, status, fields=(), text=b""):
        self.send_response(status)
        for name, value in fields:
            self.send_header(name, value)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128  # for all that come at once
    daemon_threads = True


def open_server(key_file, database, port, receiver=Receiver):
    server = Server(("127.0.0.1", port), receiver)
    server.keys = [base64.b64decode(word.removeprefix("whsec_")) for word in Path(key_file).read_text().split()]
    server.database = database
    with sqlite3.connect(database) as shop:
        shop.execute("PRAGMA journal_mode = wal")
        shop.execute("CREATE TABLE IF NOT EXISTS done(kind, key, id, fence)")
        shop.execute("CREATE INDEX IF NOT EXISTS done_key ON done(kind, key)")
        shop.execute("CREATE TABLE IF NOT EXISTS stock(free)")
        shop.execute("INSERT INTO stock SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM stock)")
    return server


if __name__ == "__main__":
    open_server(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 9000).serve_forever()

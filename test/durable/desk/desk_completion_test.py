#!/usr/bin/env python3
"""Completes command lines of timing-wheel in bash, in zsh and in fish, as somebody does who presses the Tab key.

desk_completion_test.py DESK
"""

import fcntl
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest
from pathlib import Path

DESK = Path(sys.argv[1]).resolve()
SOURCES = Path(__file__).resolve().parents[3] / "tools" / "desk"
LINES = {"canc": "cancel", "list --state ret": "list --state retrying", "list --due-b": "list --due-before",
         "list sqlite:che": "list sqlite:checks.db"}


def commands():
    """Those of --help."""
    told = subprocess.run([DESK, "--help"], check=True, capture_output=True, text=True).stdout
    return set(re.findall(r"^  ([a-z][a-z-]+) ", told.partition("Subcommands:")[2], re.MULTILINE))


class Terminal:
    def __init__(self, command, folder, environment):
        process, self.hand = pty.fork()
        if process == 0:
            os.chdir(folder)
            os.execvpe(command[0], command, environment)
        fcntl.ioctl(self.hand, termios.TIOCSWINSZ, struct.pack("HHHH", 200, 200, 0, 0))
        self.process = process

    def type(self, text):
        os.write(self.hand, text.encode())

    def read_until(self, is_there):
        shown, last = "", time.monotonic() + 30
        while not is_there(shown):
            if not select.select([self.hand], [], [], max(0, last - time.monotonic()))[0]:
                raise AssertionError(shown)
            shown += os.read(self.hand, 4096).decode(errors="replace")
        return shown

    def close(self):
        os.close(self.hand)  # which ends it
        os.waitpid(self.process, 0)


class Completion(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        (self.folder / "checks.db").touch()
        self.environment = {"PATH": f"{DESK.parent}:{os.environ['PATH']}", "HOME": str(self.folder), "TERM": "vt100",
                            "LANG": "C.UTF-8"}

    def test_bash(self):
        script = (f'. {SOURCES}/timing-wheel.bash; COMP_WORDS=(timing-wheel ""); COMP_CWORD=1; _timing_wheel; '
                  'printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "-c", script], check=True, capture_output=True, text=True)
        self.assertEqual(sorted(done.stdout.split()), sorted({*commands(), "--help"}))

    @unittest.skipUnless(shutil.which("zsh"), "it needs zsh")
    def test_zsh(self):
        shutil.copy(SOURCES / "timing-wheel.zsh", self.folder / "_timing-wheel")
        shell = Terminal(["zsh", "-f", "-i"], self.folder, self.environment)
        self.addCleanup(shell.close)
        shell.type("PS1= fpath=($PWD $fpath); autoload -Uz compinit; compinit -u -D; bindkey -e; print rea\\dy\n")
        shell.read_until(lambda shown: "ready" in shown)
        for begin, whole in LINES.items():
            shell.type(f"timing-wheel {begin}\t\x01print -r -- now: \x05\n")  # the beginning and the end of the line
            shell.read_until(lambda shown: re.search(f"[\r\n]now: timing-wheel {re.escape(whole)}\r", shown))
        shell.type("timing-wheel \t\t")
        shell.read_until(lambda shown: commands() <= set(re.findall(r"([a-z-]+) +-- [A-Z]", shown)))

    @unittest.skipUnless(shutil.which("fish"), "it needs fish")
    def test_fish(self):
        def offered(begin):
            script = f"source {SOURCES}/timing-wheel.fish; complete -C 'timing-wheel {begin}'"
            done = subprocess.run(["fish", "--no-config", "--private", "-c", script], cwd=self.folder, check=True,
                                  env=self.environment, capture_output=True, text=True, timeout=30)
            return [line.split("\t")[0] for line in done.stdout.splitlines()]
        for begin, whole in LINES.items():
            self.assertEqual(offered(begin), [whole.split()[-1]])
        self.assertEqual(set(offered("")), commands())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)

"""What the tests of the two programs have in common: how a program is run, and how a signal reaches it."""

import contextlib
import os
import resource
import shlex
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

COMMAND = "TIMING_WHEEL_COMMAND"


def clean_environment(**more):
    return {**{name: value for name, value in os.environ.items() if name != COMMAND}, **more}


def catches(process, number):
    """Whether a process has a handler for a signal; none if it has ended."""
    try:
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    except FileNotFoundError:
        return None
    caught = int(next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")), 16)
    return bool(caught >> (number - 1) & 1)


def full_pipe():
    """Both ends of a pipe that takes nothing more."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, b"x" * 4096)
    except BlockingIOError:
        pass
    os.set_blocking(writer, True)
    return reader, writer


class ProgramTest(unittest.TestCase):
    program = ""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def file(self, text, name="orders.csv"):
        path = self.folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    def command(self, *arguments):
        command = [self.program, *map(str, arguments)]
        print("$", shlex.join(command), flush=True)
        return command

    def run_program(self, *arguments, status, stdout=subprocess.PIPE, largest_file=None, **environment):
        """No file may become larger than `largest_file`, in bytes."""
        limit = largest_file and (lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file)))
        done = subprocess.run(self.command(*arguments), stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=120,
                              check=False, env=clean_environment(**environment), preexec_fn=limit)
        self.assertEqual(done.returncode, status, (done.stdout or "") + done.stderr)
        return done

    @contextlib.contextmanager
    def running(self, arguments, **outputs):
        """A program that does not outlive a test that fails."""
        with subprocess.Popen(self.command(*arguments), text=True, env=clean_environment(), **outputs) as process:
            try:
                yield process
            finally:
                process.kill()

    def wait_until(self, condition):
        end = time.monotonic() + 20
        while not condition():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.005)

    def stop(self, arguments, number, settle=0.2):
        """Sends a signal some time after the program has begun to catch it. Returns the status and both outputs."""
        with self.running(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
            self.wait_until(lambda: catches(running, number) is not False)
            time.sleep(settle)
            running.send_signal(number)
            out, err = running.communicate(timeout=120)
        return running.returncode, out, err

    def stop_twice(self, arguments, first, second):
        """Sends a second signal while the report of the first cannot be written. Returns the status."""
        reader, writer = full_pipe()
        self.addCleanup(os.close, reader)
        with self.running(arguments, stdout=writer, stderr=subprocess.DEVNULL) as running:
            os.close(writer)
            self.wait_until(lambda: catches(running, first) is not False)
            running.send_signal(first)
            self.wait_until(lambda: not catches(running, second))
            self.assertIsNone(running.poll())
            running.send_signal(second)
            return running.wait(timeout=60)

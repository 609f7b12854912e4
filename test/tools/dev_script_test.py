#!/usr/bin/env python3
"""What ./dev does before and after the programs that it runs: dev_script_test.py SOURCE_DIRECTORY.

A copy of the script runs with stand-ins for everything that installs, builds or tests. Nothing else is on its path but
the tools of a shell. A stand-in notes how it was called, and then does what the test says.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
SHELL_TOOLS = ("awk", "bash", "cat", "dirname", "env", "fold", "grep", "head", "mkdir", "paste", "python3", "rm", "sed",
               "sort")
STAND_INS = ("apt-get", "dpkg-query", "c++", "cmake", "ctest", "ninja", "setarch", "sleep", "find", "xargs")
COMMANDS = (
    "bare", "test", "sanitize", "stress", "fuzz", "models", "mutants", "coverage", "bench", "bench-pictures",
    "instructions", "compare-table", "browser", "docs", "durable-torture", "durable-random", "durable-costs", "faults",
    "lint", "format", "format-check", "consumer", "packages", "setup",
)
LOCKED = "E: Could not get lock /var/lib/{}. It is held by process 4711 (unattended-upgr)"
LOG_OF_TESTS = """1/4 Testing: report
1/4 Test: report
Output:
----------------------------------------------------------
skipped: it needs chromium
<end of output>
2/4 Testing: demo
2/4 Test: demo
Output:
----------------------------------------------------------
test_a (__main__.A.test_a) ... ok
test_b (__main__.A.test_b) ... skipped 'no file is named'
<end of output>
3/4 Testing: Timer.Sleeps
3/4 Test: Timer.Sleeps
Output:
----------------------------------------------------------
timer_test.cpp:12: Skipped
this kernel has no such clock
<end of output>
4/4 Testing: Timer.Runs
4/4 Test: Timer.Runs
Output:
----------------------------------------------------------
<end of output>
"""


class DevTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = Path(folder.name, "tree")
        self.bin = Path(folder.name, "bin")
        self.calls_file = Path(folder.name, "calls")
        for path in (self.tree, self.bin):
            path.mkdir()
        shutil.copy(SOURCE / "dev", self.tree)
        (self.tree / "CMakePresets.json").touch()
        for tool in SHELL_TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))
        for tool in STAND_INS:
            self.stand_in(tool)
        self.stand_in("cmake", "case $* in --version) echo 'cmake version 3.31.0' ;; *' -n') echo 'no work to do' ;;"
                      " esac")
        self.stand_in("dpkg-query", "echo 'ii '")
        self.stand_in("sudo", 'while [[ $1 == -* ]]; do shift; done; exec "$@"')

    def stand_in(self, tool, script=""):
        path = self.bin / tool
        path.unlink(missing_ok=True)
        path.write_text(f'#!{shutil.which("bash")}\nprintf "%s\\n" "{tool} $*" >>"{self.calls_file}"\n{script}\n')
        path.chmod(0o755)

    def dev(self, *arguments, status=0, **environment):
        self.calls_file.write_text("")
        done = subprocess.run([self.tree / "dev", *arguments], capture_output=True, text=True, timeout=60, check=False,
                              stdin=subprocess.DEVNULL, env={"PATH": str(self.bin), **environment})
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    @property
    def calls(self):
        return self.calls_file.read_text().splitlines()

    def file(self, name, text="", mode=0o644):
        path = self.tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return path

    def built(self, preset):
        self.file(f"build/{preset}/CTestTestfile.cmake")
        self.file(f"build/{preset}/build.ninja")
        self.file(f"build/{preset}/test/tick_test", mode=0o755)


class Help(DevTest):
    def test_of_each_command_calls_nothing(self):
        for command in COMMANDS:
            for arguments in ((command, "--help"), (command, "-h"), (command, "x", "--help"), ("help", command)):
                with self.subTest(arguments=arguments):
                    done = self.dev(*arguments)
                    self.assertTrue(done.stdout.startswith(f"usage: ./dev {command}"), done.stdout)
                    self.assertGreater(len(done.stdout.splitlines()), 1)
                    self.assertEqual((done.stderr, self.calls), ("", []))

    def test_knows_every_command_of_the_usage(self):
        usage = self.dev("help").stdout
        listed = [line.split()[0] for line in usage.splitlines() if line[:2] == "  " and line[2:3].isalpha()]
        self.assertEqual(set(listed) - {"demo", "compare", "help"}, set(COMMANDS))
        self.assertEqual(self.calls, [])

    def test_of_tests_says_what_a_list_needs(self):
        self.assertIn("-N, --show-only or --print-labels it lists from what", self.dev("test", "--help").stdout)

    def test_of_a_command_that_is_not_there_is_an_error(self):
        for arguments in (("nosuch", "--help"), ("help", "nosuch"), ("nosuch",)):
            self.assertIn("no such command: nosuch", self.dev(*arguments, status=1).stderr)
        self.assertEqual(self.calls, [])


class Lists(DevTest):
    def test_of_tests_come_from_what_is_built(self):
        self.built("dev")
        for flag in ("-N", "--show-only", "--show-only=json-v1", "--print-labels"):
            done = self.dev("test", flag, "-R", "Tick")
            self.assertEqual(self.calls, [f"ctest --preset dev {flag} -R Tick"])
            self.assertIn("from what is built in build/dev", done.stderr)
        self.dev("browser", "-N")
        self.assertEqual(self.calls, ["ctest --preset dev -L browser -N"])

    def test_of_nothing_say_so(self):
        for command in (("test",), ("sanitize", "asan"), ("coverage",), ("browser",)):
            self.assertIn("nothing is built", self.dev(*command, "-N", status=1).stderr)
            self.assertEqual(self.calls, [])
        self.file("build/check/CTestTestfile.cmake")
        self.assertIn("nothing is built in build/check yet", self.dev("test", "-N", status=1).stderr)


class Preset(DevTest):
    def used(self, *arguments):
        self.dev(*arguments)
        return [call for call in self.calls if call.startswith("ctest")]

    def test_of_tests_is_that_of_larger_sources(self):
        self.assertEqual(self.used("test", "-R", "Tick"), ["ctest --preset check -R Tick"])
        self.assertEqual(self.used("browser"), ["ctest --preset check -L browser --verbose"])

    def test_of_tests_is_that_of_an_editor_where_one_has_configured_it(self):
        self.built("check")
        self.built("dev")
        self.assertEqual(self.used("test", "-R", "Tick"), ["ctest --preset dev -R Tick"])
        self.assertEqual(self.used("browser"), ["ctest --preset dev -L browser --verbose"])


class Skips(DevTest):
    def test_are_told_with_their_reasons(self):
        self.built("dev")
        log = "build/dev/Testing/Temporary/LastTest.log"
        self.file("log", LOG_OF_TESTS)
        self.stand_in("ctest", f'mkdir -p {os.path.dirname(log)}; cat log >{log}; exit "${{CTEST_STATUS:-0}}"')
        told = ["report: it needs chromium", "demo: test_b: no file is named",
                "Timer.Sleeps: this kernel has no such clock"]
        for status in (0, 8):
            lines = self.dev("test", status=status, CTEST_STATUS=str(status)).stderr.splitlines()
            self.assertEqual([line.removeprefix("==> skipped: ") for line in lines if "skipped" in line], told)

    def test_of_an_earlier_run_are_not(self):
        self.built("dev")
        self.file("build/dev/Testing/Temporary/LastTest.log", LOG_OF_TESTS)
        self.assertNotIn("skipped", self.dev("test").stderr)


class Bare(DevTest):
    RESULTS = "build/bare/12/root/timing_wheel/build/check/Testing/Temporary/"
    PAGE = "| skipped on a bare Debian | why |\n|---|---|\n| `report` | x |\n{}\nOther:\n| `Timer.Sleeps` | x |\n"

    def last(self, status=0):
        return self.dev("bare", "--last", "12", status=status).stderr.replace("==> ", "").splitlines()

    def test_says_how_many_tests_ran_and_which_were_skipped(self):
        self.file("docs/CONTRIBUTING.md", self.PAGE.format("| `demo: test_b` | x |\n| `Timer.Sleeps` | x |\n"))
        self.file(self.RESULTS + "LastTest.log", LOG_OF_TESTS)
        told = ["Debian 12: 4 tests; skipped, or a part of them: 3", "    report: it needs chromium",
                "    demo: test_b: no file is named", "    Timer.Sleeps: this kernel has no such clock"]
        self.assertEqual(self.last(), told)
        self.file(self.RESULTS + "LastTestsFailed.log", "7:Tick.Ends\n12:demo\n")
        self.assertEqual(self.last(status=1), [*told, "    failed: Tick.Ends demo"])

    def test_fails_at_one_that_was_skipped_and_that_the_page_does_not_name(self):
        self.file("docs/CONTRIBUTING.md", self.PAGE.format("| `demo: test_b` | x |\n"))
        self.file(self.RESULTS + "LastTest.log", LOG_OF_TESTS)
        self.assertEqual(self.last(status=1)[-1], "    docs/CONTRIBUTING.md does not name that one")

    def test_of_a_run_that_did_not_come_to_its_tests_fails(self):
        self.assertEqual(self.last(status=1), ["Debian 12: no test has run to its end"])

    def test_of_another_release_is_an_error(self):
        for arguments in (("11",), ("12 13",), ("--last", "12", "x")):
            self.assertIn("./dev bare 12, or ./dev bare 13", self.dev("bare", *arguments, status=1).stderr)


class Installing(DevTest):
    def setUp(self):
        super().setUp()
        self.stand_in("dpkg-query")
        for name in ("include", "src", "test", "benchmarks", "examples", "tools"):
            (self.tree / name).mkdir()

    def apt(self, script):
        """The script sees in $n how often apt-get was called before, and in $1 what for."""
        self.stand_in("apt-get", f'n=$(grep -c "^apt-get" "{self.calls_file}"); n=$((n - 1)); {script}')

    def test_shows_nothing_of_the_package_manager_but_keeps_it(self):
        self.apt('echo "unpacking $1"; echo "a warning" >&2')
        done = self.dev("format")
        self.assertEqual((done.stdout, done.stderr), ("", "==> installing: clang-format\n"))
        self.assertEqual((self.tree / "build/install.log").read_text().count("unpacking"), 2)

    def test_that_fails_shows_all_and_names_the_log(self):
        self.apt('echo "reading $1"; [[ $1 == update ]] || { echo "E: Unable to locate package" >&2; exit 100; }')
        done = self.dev("format", status=1)
        log = str(self.tree / "build/install.log")
        for text in ("reading update", "reading install", "E: Unable to locate package", log, "by hand"):
            self.assertIn(text, done.stderr)
        self.assertEqual(sum(call.startswith("apt-get") for call in self.calls), 2)
        self.assertFalse(any(call.startswith("sleep") for call in self.calls))

    def test_waits_for_the_lock_of_the_lists_and_for_that_of_packages(self):
        self.apt(f'case $n in 0) echo "{LOCKED.format("apt/lists/lock")}" >&2; exit 100 ;;'
                 f' 2) echo "{LOCKED.format("dpkg/lock-frontend")}" >&2; exit 100 ;;'
                 ' 4) echo "E: Unable to acquire the lock, is another process using it?" >&2; exit 100 ;; esac')
        done = self.dev("format")
        waits = [line for line in done.stderr.splitlines() if "waiting for another package manager" in line]
        self.assertEqual(len(waits), 3, done.stderr)
        self.assertIn("(process 4711, unattended-upgr), ", waits[0])
        self.assertNotIn("E: ", done.stderr)
        self.assertEqual([call.split()[1] for call in self.calls if call.startswith("apt-get")],
                         ["update", "update", "install", "update", "install", "update", "install"])
        for call in self.calls:
            self.assertTrue("apt-get" not in call or " -o DPkg::Lock::Timeout=" in call, call)

    def test_does_not_wait_for_ever(self):
        self.apt(f'echo "{LOCKED.format("apt/lists/lock")}" >&2; exit 100')
        done = self.dev("format", status=1, TIMING_WHEEL_LOCK_WAIT="0")
        self.assertIn("still holds its lock after 0 s", done.stderr)

    def test_does_not_wait_for_a_lock_that_may_not_be_opened(self):
        self.apt('echo "E: Could not open lock file /var/lib/dpkg/lock - open (13: Permission denied)" >&2; exit 100')
        self.assertIn("Permission denied", self.dev("format", status=1).stderr)
        self.assertFalse(any(call.startswith("sleep") for call in self.calls))


class Refused(DevTest):
    """Before anything is installed or built."""

    def refused(self, words, *arguments):
        with self.subTest(arguments=arguments):
            done = self.dev(*arguments, status=1)
            self.assertIn(words, done.stderr)
            self.assertEqual((done.stdout, len(done.stderr.splitlines()), self.calls), ("", 1, []), done.stderr)

    def test_are_parts_of_packages_that_are_not_there(self):
        (self.tree / "test/install/packages").mkdir(parents=True)
        shutil.copy(SOURCE / "test/install/packages/run", self.tree / "test/install/packages")
        for arguments in (("true",), ("nosuch",), ("--quick", "nosuch"), ("texts", "nosuch"), ("--nosuch",), ("",),
                          ("build deb",)):
            self.refused("there are texts build", "packages", *arguments)
        self.assertFalse((self.tree / "build").exists())

    def test_are_arguments_of_commands_that_take_none(self):
        for command in ("lint", "format", "format-check", "consumer", "compare-table", "setup"):
            self.refused(f"./dev {command} takes no argument", command, "extra")

    def test_are_arguments_that_are_none(self):
        torture = "./dev durable-torture [--store postgres] [ROUNDS], or ./dev durable-torture --snapshot [SECONDS]"
        for arguments in (("abc",), ("0",), ("-1",), ("",), ("10", "extra"), ("--bogus",), ("--store",),
                          ("--store", "mysql"), ("--store", "postgres", "x"), ("--store", "postgres", "10", "extra"),
                          ("--snapshot", "abc"), ("--snapshot", "10", "extra")):
            self.refused(torture, "durable-torture", *arguments)
        for arguments in (("mysql",), ("",), ("--stride",), ("--stride", "0"), ("--stride", "5", "mysql"), ("--bogus",)):
            self.refused("./dev faults [--stride N] [node] [memory] [sqlite] [postgres]", "faults", *arguments)
        for arguments in (("abc",), ("0",), ("10", "extra"), ("--store",), ("--store", "memory"),
                          ("--store", "postgres", "x")):
            self.refused("./dev durable-random [--store sqlite|postgres] [SEEDS]", "durable-random", *arguments)
        for command in ("durable-costs", "instructions"):
            for arguments in (("--bogus",), ("",), ("--update", "extra")):
                self.refused(f"./dev {command}, or ./dev {command} --update", command, *arguments)
        for arguments in (("extra",), ("--check", "extra"), ("",)):
            self.refused("./dev docs, or ./dev docs --check", "docs", *arguments)
        for arguments in (("10", "extra"), ("x",), ("0",)):
            self.refused("./dev stress 10", "stress", *arguments)
        self.refused("no such fuzz target: nosuch", "fuzz", "60", "nosuch")
        self.refused("no such model: nosuch", "models", "nosuch")
        for rounds in (("--rounds", "x"), ("--rounds=x",), ("--rounds", "0"), ("--rounds",)):
            self.refused("--rounds 5", "bench", "--compare", "HEAD", *rounds)
        self.refused("which counter?", "bench", "--compare", "HEAD", "--counter")
        self.refused("which commit?", "bench", "--compare")

    def test_are_not_those_that_are_known(self):
        self.built("dev")
        self.file("build/dev/test/durable/durable_torture", f'#!{shutil.which("bash")}\necho "$*"\n', 0o755)
        for arguments, called in (((), "build/dev/durable_torture.db 10000"),
                                  (("20",), "build/dev/durable_torture.db 20"),
                                  (("--store", "postgres"), "--store postgres 10000"),
                                  (("--store", "postgres", "20"), "--store postgres 20")):
            self.assertEqual(self.dev("durable-torture", *arguments).stdout, called + "\n")
        self.file("build/dev/test/durable/durable_faults", f'#!{shutil.which("bash")}\necho "$*"\n', 0o755)
        for arguments in ((), ("--stride", "5"), ("--stride", "5", "node", "sqlite"), ("memory", "postgres")):
            self.assertEqual(self.dev("faults", *arguments).stdout, " ".join(arguments) + "\n")
        self.file("build/dev/test/durable/durable_random", f'#!{shutil.which("bash")}\necho "$*"\n', 0o755)
        for arguments, called in (((), "--store sqlite 1000000"), (("--store", "postgres", "20"), "--store postgres 20")):
            self.assertEqual(self.dev("durable-random", *arguments).stdout, called + "\n")
        self.file("build/dev/test/postgres_faults_test",
                  f'#!{shutil.which("bash")}\necho "$TIMING_WHEEL_SNAPSHOT_SECONDS"\n', 0o755)
        self.assertEqual(self.dev("durable-torture", "--snapshot").stdout, "600\n")
        self.assertEqual(self.dev("durable-torture", "--snapshot", "7").stdout, "7\n")


class Programs(DevTest):
    def test_are_told_their_command_and_take_the_place_of_the_script(self):
        program = f'#!{shutil.which("bash")}\necho "$TIMING_WHEEL_COMMAND|$*|$$"\n'
        self.built("release")
        self.built("bench")
        self.file("build/bench/build.ninja", "timing_wheel_compare")
        self.file("build/release/examples/order_compensation/order_compensation", program, 0o755)
        self.file("build/bench/tools/compare/timing_wheel_compare", program, 0o755)
        for command in ("demo", "compare"):
            running = subprocess.Popen([self.tree / "dev", command, "--help"], stdout=subprocess.PIPE, text=True,
                                       env={"PATH": str(self.bin)})
            out, _ = running.communicate(timeout=60)
            self.assertEqual(out, f"./dev {command}|--help|{running.pid}\n")
            self.assertFalse(any(call.startswith("apt-get") for call in self.calls))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])

#!/usr/bin/env python3
"""What ./dev does before and after the programs that it runs: dev_script_test.py SOURCE_DIRECTORY.

A copy of the script runs with stand-ins for everything that installs, builds or tests. Nothing else is on its path but
the tools of a shell. A stand-in notes how it was called, and then does what the test says.
"""

import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
SHELL_TOOLS = ("awk", "bash", "cat", "dirname", "env", "fold", "grep", "head", "mkdir", "paste", "rm", "sed", "sort")
STAND_INS = ("apt-get", "dpkg-query", "c++", "cmake", "ctest", "find", "ninja", "python3", "setarch", "sleep", "xargs")
LOCKED = "E: Could not get lock /var/lib/{}. It is held by process 4711 (unattended-upgr)"
LOG_OF_TESTS = """1/4 Test: report
skipped: it needs chromium
2/4 Test: demo
test_a (__main__.A.test_a) ... ok
test_b (__main__.A.test_b) ... skipped 'no file is named'
3/4 Test: Timer.Sleeps
timer_test.cpp:12: Skipped
this kernel has no such clock
4/4 Test: Timer.Runs
"""
SKIPPED = ["report: it needs chromium", "demo: test_b: no file is named", "Timer.Sleeps: this kernel has no such clock"]


class DevTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree, self.bin, self.calls_file = (Path(folder.name, name) for name in ("tree", "bin", "calls"))
        self.bin.mkdir()
        for name in ("dev", "tools/install", "tools/bare", "tools/skipped.awk", "test/install/run"):
            self.file(name, (SOURCE / name).read_text(encoding="utf-8"), (SOURCE / name).stat().st_mode)
        self.file("CMakePresets.json")
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

    def program(self, name, script='echo "$TIMING_WHEEL_COMMAND|$*|$$"'):
        self.file(name, f'#!{shutil.which("bash")}\n{script}\n', 0o755)

    def built(self, preset):
        for name in ("CTestTestfile.cmake", "build.ninja", "test/tick_test"):
            self.file(f"build/{preset}/{name}", "timing_wheel_compare")

    def test_help_of_each_command_calls_nothing(self):
        usage = self.dev("help").stdout
        commands = {line.split()[0] for line in usage.splitlines() if line[:2] == "  " and line[2].isalpha()}
        self.assertEqual(len(commands), 36)
        for number, command in enumerate(sorted(commands - {"help"})):
            arguments = ((command, "--help"), (command, "x", "-h"), ("help", command))[number % 3]
            done = self.dev(*arguments)
            self.assertTrue(done.stdout.startswith(f"usage: ./dev {command}"), done.stdout)
            self.assertEqual((done.stderr, self.calls), ("", []))
        for arguments in (("nosuch", "--help"), ("help", "nosuch"), ("nosuch",)):
            self.assertIn("no such command: nosuch", self.dev(*arguments, status=1).stderr)

    def test_lists_of_tests_come_from_what_is_built(self):
        for command in (("test",), ("sanitize", "asan"), ("coverage",), ("browser",)):
            self.assertIn("nothing is built", self.dev(*command, "-N", status=1).stderr)
            self.assertEqual(self.calls, [])
        self.built("dev")
        for flag in ("-N", "--show-only", "--show-only=json-v1", "--print-labels"):
            done = self.dev("test", flag, "-R", "Tick")
            self.assertEqual(self.calls, [f"ctest --preset dev {flag} -R Tick"])
            self.assertIn("from what is built in build/dev", done.stderr)

    def test_tests_are_of_larger_sources_unless_an_editor_has_configured_others(self):
        for preset in ("check", "dev"):
            for command, arguments in (("test", "-R Tick"), ("browser", "-L browser -R Tick --verbose")):
                self.dev(command, "-R", "Tick")
                self.assertIn(f"ctest --preset {preset} {arguments}", self.calls)
            self.built("dev")

    def test_skipped_tests_are_told_with_their_reasons(self):
        self.built("dev")
        log = "build/dev/Testing/Temporary/LastTest.log"
        self.file(log, LOG_OF_TESTS)
        self.assertNotIn("skipped", self.dev("test").stderr)  # of an earlier run
        self.file("log", LOG_OF_TESTS)
        self.stand_in("ctest", f'mkdir -p {Path(log).parent}; cat log >{log}; exit "${{CTEST_STATUS:-0}}"')
        for status in (0, 8):
            lines = self.dev("test", status=status, CTEST_STATUS=str(status)).stderr.splitlines()
            self.assertEqual([line.removeprefix("==> skipped: ") for line in lines if "skipped" in line], SKIPPED)

    def test_bare_fails_at_what_was_skipped_unless_the_page_names_it(self):
        results = "build/bare/12/root/timing_wheel/build/check/Testing/Temporary/"
        page = "| skipped on a bare Debian | why |\n|---|---|\n| `report` | x |\n| `demo: test_b` | x |\n"

        def last(status):
            done = self.dev("bare", "--last", "12", status=status)
            return done.stderr.replace("==> ", "").splitlines()

        self.assertEqual(last(1), ["Debian 12: no test has run to its end"])
        self.file(results + "LastTest.log", LOG_OF_TESTS)
        self.file("docs/CONTRIBUTING.md", page + "\nOther:\n| `Timer.Sleeps` | x |\n")
        self.assertEqual(last(1)[-1], "    docs/CONTRIBUTING.md does not name that one")
        self.file("docs/CONTRIBUTING.md", page + "| `Timer.Sleeps` | x |\n")
        told = ["Debian 12: 4 tests; skipped, or a part of them: 3", *("    " + skipped for skipped in SKIPPED)]
        self.assertEqual(last(0), told)
        self.file(results + "LastTestsFailed.log", "7:Tick.Ends\n12:demo\n")
        self.assertEqual(last(1), [*told, "    failed: Tick.Ends demo"])

    def test_what_is_missing_is_installed_after_others_have_let_go_of_their_locks(self):
        self.stand_in("dpkg-query")
        installing = 'n=$(grep -c "^apt-get" "{0}"); n=$((n - 1)); echo "unpacking $1"; {1}'
        for script, status, told, calls in (
                ("", 0, "==> installing: clang-format\n", 2),
                ("[[ $1 == update ]] || { echo 'E: no such package' >&2; exit 100; }", 1, "E: no such package", 2),
                (f'case $n in 0) echo "{LOCKED.format("apt/lists/lock")}"; exit 100 ;; 2 | 4)'
                 f' echo "{LOCKED.format("dpkg/lock-frontend")}"; exit 100 ;; esac', 0,
                 "waiting for another package manager (process 4711, unattended-upgr), ", 7),
                ('echo "E: Could not open lock file - open (13: Permission denied)"; exit 100', 1, "by hand", 1)):
            self.stand_in("apt-get", installing.format(self.calls_file, script))
            done = self.dev("format", status=status)
            self.assertIn(told, done.stderr)
            self.assertEqual("unpacking" in done.stderr, status == 1)
            self.assertEqual(sum(call.startswith("apt-get") for call in self.calls), calls)
            self.assertEqual(sum(call.startswith("sleep") for call in self.calls), 3 if calls == 7 else 0)
        self.stand_in("apt-get", f'echo "{LOCKED.format("apt/lists/lock")}" >&2; exit 100')
        done = self.dev("format", status=1, TIMING_WHEEL_LOCK_WAIT="0")
        self.assertIn("still holds its lock after 0 s", done.stderr)

    def test_wrong_arguments_are_refused_before_anything_is_installed(self):
        for command, given, words in (
                *((command, "x", f"./dev {command}")
                  for command in ("lint", "format", "format-check", "consumer", "setup")),
                ("compare-table", "x|--break-even|--break-even 0|--break-even 5 x", "[--break-even RUNS]"),
                ("durable-torture", "abc|0|-1||10 x|--store|--store mysql|--store postgres x|--store postgres 1 x|"
                 "--snapshot abc|--snapshot 1 x", "[ROUNDS], or ./dev durable-torture --snapshot [SECONDS]"),
                ("faults", "mysql||--stride|--stride 0|--stride 5 mysql|--bogus", "[--stride N] [node] [memory]"),
                ("durable-random", "abc|0|10 x|--store|--store memory|--store postgres x", "[SEEDS]"),
                ("durable-costs", "--bogus||--update x", "[--update]"), ("instructions", "--bogus||x", "[--update]"),
                ("site", "x|--check x|--serve --check|", "[--check | --serve]"), ("stress", "10 x|x|0", "[FACTOR]"),
                ("wheel", "x|--check x|", "[--check|--serve]"), ("sanitize", "x|", "tsan"),
                ("bare", "11|12.13|--last 12 x", "[12] [13]"), ("fuzz", "60 nosuch", "no such fuzz target: nosuch"),
                ("models", "nosuch", "no such model: nosuch"),
                ("bench", "x|--compare|--compare --rounds 5|--compare A --rounds x|--compare A --rounds=0|"
                 "--compare A --rounds|--compare A --counter", "--compare COMMIT [--rounds N] [--counter NAME]"),
                ("packages", "true|nosuch|--quick nosuch|--nosuch||build.deb", "there are texts build")):
            for arguments in given.split("|"):
                done = self.dev(command, *(each.replace(".", " ") for each in arguments.split(" ")), status=1)
                self.assertIn(words, done.stderr)
                self.assertEqual((len(done.stderr.splitlines()), self.calls), (1, []), done.stderr)

    def test_programs_of_tests_get_their_arguments_or_what_is_meant_without(self):
        self.built("dev")
        for program in ("durable/durable_torture", "durable/durable_faults", "durable/durable_random"):
            self.program(f"build/dev/test/{program}", 'echo "$*"')
        self.program("build/dev/test/postgres_faults_test", 'echo "$TIMING_WHEEL_SNAPSHOT_SECONDS"')
        for line, called in (
                ("durable-torture", "build/dev/durable_torture.db 10000"),
                ("durable-torture 20", "build/dev/durable_torture.db 20"),
                ("durable-torture --store postgres", "--store postgres 10000"),
                ("durable-torture --store postgres 20", "--store postgres 20"),
                ("durable-torture --snapshot", "600"), ("durable-torture --snapshot 7", "7"),
                ("durable-random", "--store sqlite 1000000"), ("durable-random 5", "--store sqlite 5"),
                ("durable-random --store postgres 20", "--store postgres 20"),
                ("faults", ""), ("faults --stride 5 node sqlite", "--stride 5 node sqlite")):
            self.assertEqual(self.dev(*line.split()).stdout, called + "\n")

    def test_bench_runs_the_programs_that_have_such_a_benchmark(self):
        self.built("bench")
        for name, listed in (("durable", ""), ("engine", "arm/10000"), ("service", "peak/timers:10000")):
            self.program(f"build/bench/benchmarks/{name}_bench", f'case $* in *_out=*list_tests*) exit 1 ;;'
                         f' *list_tests*) echo "{listed}" | grep "${{1#*=}}" || true ;; *) echo "{name} $*" ;; esac')
        filtered = "--benchmark_filter=peak --benchmark_out=x"
        self.assertEqual(self.dev("bench", *filtered.split()).stdout, f"service {filtered}\n")
        self.assertIn("no benchmark has such a name", self.dev("bench", "--benchmark_filter=z", status=1).stderr)
        self.program("build/bench/benchmarks/engine_bench", "echo wrong flag; exit 1")
        self.assertEqual(self.dev("bench", "--benchmark_filter=peak", status=1).stdout, "wrong flag\n")

    def test_programs_are_told_their_command_and_take_the_place_of_the_script(self):
        self.built("bench")
        self.program("build/release/examples/order_compensation/order_compensation")
        self.program("build/release/tools/desk/timing-wheel")
        self.program("build/bench/tools/compare/timing_wheel_compare")
        for command in ("demo", "desk", "compare"):
            with subprocess.Popen([self.tree / "dev", command, "--help"], stdout=subprocess.PIPE, text=True,
                                  env={"PATH": str(self.bin)}) as running:
                self.assertEqual(running.communicate(timeout=60)[0], f"./dev {command}|--help|{running.pid}\n")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])

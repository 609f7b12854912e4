#!/usr/bin/env python3
"""Opens a report of the comparison in headless Chromium: browser_test.py TIMING_WHEEL_COMPARE DIRECTORY.

Pictures of the page, light, dark and as wide as a phone, stay in DIRECTORY. Exits with 77, which skips the test, if Chromium or
Matplotlib is missing.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from html.parser import HTMLParser
from pathlib import Path

TOOL, FOLDER = "", Path()
SKIP = 77
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = [
    "--timers", "5000", "--delays", "uniform:1ms,30min", "--arrivals", "poisson:20", "--cancel", "0.3,uniform:0s,1min", "--timed",
    "--engine", "hierarchical:tick=1ms,size=20", "--engine", "hierarchical:tick=10ms,size=64",
    "--engine", "hashed:tick=10ms,slots=512", "--engine", "hashed:tick=100ms,slots=512", "--engine", "heap",
    "--engine", "flat:tick=10ms", "--quiet",
]
# The pictures that the page must have; with how many marks, `expected_marks` tells.
PICTURES = ["work_by_delay", "work_along_time", "flush_sizes", "lateness", "wakeups", "memory", "break_even",
            "break_even_measured", "by_share_cancelled"]


def browser():
    return next((path for path in map(shutil.which, BROWSERS) if path), None)


def requests_of_pages(log):
    """The addresses that a page asked for; what the browser itself wants to know of its makers has no origin."""
    asked = (re.search(r'"initiator":"([^"]*)".*"url":"(https?://[^"]*)"', line) for line in log.splitlines())
    return {match[2] for match in asked if match and match[1] != "not an origin"}


class Visit:
    """What Chromium made of a page, with every name but this machine's unknown to it."""

    def __init__(self, page, *flags):
        with tempfile.TemporaryDirectory() as profile:
            log = Path(profile) / "net.json"
            command = [
                browser(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-default-apps",
                "--disable-features=OptimizationHints,MediaRouter,Translate", "--hide-scrollbars", "--force-device-scale-factor=1",
                "--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr", "--log-level=0",
                f"--user-data-dir={profile}", f"--log-net-log={log}", *flags, Path(page).resolve().as_uri(),
            ]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
            self.dom = done.stdout
            self.console = re.findall(r"CONSOLE[:(].*", done.stderr)
            self.requests = requests_of_pages(log.read_text(encoding="utf-8", errors="replace"))


class Figures(HTMLParser):
    """The marks, texts and links in each figure of a page."""

    def __init__(self, text):
        super().__init__()
        self.found, self.current, self.depth = {}, None, 0
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "figure":
            self.current = self.found.setdefault(attributes["id"], {"path": 0, "use": 0, "text": 0, "data": 0, "words": ""})
        elif self.current is not None:
            if tag in ("path", "use", "text"):
                self.current[tag] += 1
            self.current["data"] += tag == "a" and attributes.get("href", "").startswith("data:text/csv;base64,")

    def handle_endtag(self, tag):
        self.current = None if tag == "figure" else self.current

    def handle_data(self, data):
        if self.current is not None:
            self.current["words"] += data


def expected_marks(data):
    """The least number of marks of each picture, from what it shows."""
    engines = data["engines"]
    points = {name: sum(work is not None for curve in data[name]["engines"] for work in curve["work_per_timer"])
              for name in ("by_delay", "by_share_cancelled")}
    even = data["break_even"]
    return {
        "work_by_delay": ("use", points["by_delay"]),
        "work_along_time": ("path", len(engines)),
        "flush_sizes": ("path", sum(c["from"] > 0 for e in engines for c in e["flush_histogram"])),
        "lateness": ("use", 20 * len({e["tick_ns"] for e in engines})),
        "wakeups": ("path", len(engines)),
        "memory": ("path", len(engines)),
        "break_even": ("path", 48),
        "break_even_measured": ("use", 2 * len(even["runs"]) * len(even["delay_ticks"])),
        "by_share_cancelled": ("use", points["by_share_cancelled"]),
    }


class ReportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        FOLDER.mkdir(parents=True, exist_ok=True)
        cls.page, cls.json = FOLDER / "report.html", FOLDER / "report.json"
        command = [TOOL, *ARGUMENTS, "--report", str(cls.page), "--json", str(cls.json)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
        if done.returncode != 0:
            raise AssertionError(f"exit status {done.returncode}: {done.stderr}")
        cls.data = json.loads(cls.json.read_text(encoding="utf-8"))
        cls.visit = Visit(cls.page, "--dump-dom")
        cls.figures = Figures(cls.visit.dom).found

    def test_it_says_nothing_on_the_console(self):
        self.assertEqual(self.visit.console, [])

    def test_it_asks_for_nothing_on_the_network(self):
        self.assertEqual(self.visit.requests, set())

    def test_errors_and_requests_would_be_seen(self):
        spoiled = FOLDER / "spoiled.html"
        spoiled.write_text("<script>console.error('canary')</script><img src='http://canary.invalid/x.png'>", encoding="utf-8")
        seen = Visit(spoiled, "--dump-dom")
        self.assertTrue(any("canary" in line for line in seen.console), seen.console)
        self.assertTrue(any("canary.invalid" in url for url in seen.requests), seen.requests)

    def test_every_picture_has_its_marks(self):
        self.assertEqual(list(self.figures), PICTURES)
        for name, (kind, least) in expected_marks(self.data).items():
            self.assertGreaterEqual(self.figures[name][kind], least, name)
            self.assertGreater(least, 0, name)

    def test_every_picture_has_a_sentence_its_labels_and_its_data(self):
        for name, figure in self.figures.items():
            self.assertRegex(figure["words"], r"\w+ \w+ .*\.", name)
            self.assertGreater(figure["text"], 5, name)
            self.assertEqual(figure["data"], 1, name)

    def test_it_tells_the_workload_the_engines_and_the_machine(self):
        text = self.visit.dom
        for word in ("uniform:1ms,30min", "poisson:20", "hashed:tick=100ms,slots=512", self.data["machine"]["compiler"]):
            self.assertIn(word, text)

    def test_no_placeholder_of_a_colour_is_left(self):
        self.assertEqual(re.findall(r"#0[123]0[0-9]0[0-9]\b", self.visit.dom), [])

    def test_pictures_of_it_are_kept(self):
        dark = "--blink-settings=preferredColorScheme=0"
        kept = {}
        for name, size, flags in (("light", "1280,3300", []), ("dark", "1280,3300", [dark]), ("phone", "500,6200", [])):
            path = FOLDER / f"{name}.png"
            path.unlink(missing_ok=True)
            Visit(self.page, f"--window-size={size}", f"--screenshot={path}", *flags)
            kept[name] = path.read_bytes()
            self.assertGreater(len(kept[name]), 100_000, name)
        self.assertNotEqual(kept["light"], kept["dark"])

    def test_a_missing_plotting_tool_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            tool = Path(shutil.copy(TOOL, folder))
            Path(folder, "report.py").write_text("raise SystemExit(1)\n", encoding="utf-8")
            done = subprocess.run([tool, *ARGUMENTS, "--report", str(Path(folder, "x.html"))], capture_output=True, text=True, timeout=60,
                                  check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("apt-get install python3-matplotlib", done.stderr)


def main():
    global TOOL, FOLDER
    TOOL, FOLDER = sys.argv[1], Path(sys.argv[2])
    script = Path(TOOL).with_name("report.py")
    drawn = any(subprocess.run([python, script, "--check"], stderr=subprocess.DEVNULL, check=False).returncode == 0
                for python in ("python3", "/usr/bin/python3") if shutil.which(python))
    if browser() is None or not drawn:
        print("skipped: it needs chromium and python3-matplotlib", file=sys.stderr)
        return SKIP
    os.environ["LC_ALL"] = "C.UTF-8"
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[3:]])
    return 0


if __name__ == "__main__":
    sys.exit(main())

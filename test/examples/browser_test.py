#!/usr/bin/env python3
"""Opens a report of the comparison in headless Chromium: browser_test.py TIMING_WHEEL_COMPARE DIRECTORY.

Pictures of the page, light, dark and as wide as a phone, stay in DIRECTORY. Exits with 77, which skips the test, if
Chromium or Matplotlib is missing.
"""

import base64
import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from html.parser import HTMLParser
from pathlib import Path

TOOL, FOLDER = "", Path()
SKIP = 77
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = [
    "--timers", "5000", "--delays", "uniform:1ms,30min", "--arrivals", "poisson:20", "--cancel", "0.3,uniform:0s,1min",
    "--timed", "--engine", "hierarchical:tick=1ms,size=20", "--engine", "hierarchical:tick=10ms,size=64",
    "--engine", "hashed:tick=10ms,slots=512", "--engine", "hashed:tick=100ms,slots=512", "--engine", "heap",
    "--engine", "flat:tick=10ms", "--engine", "default", "--engine", "noncascading:tick=1ms,size=64,levels=8",
    "--engine", "sorted:tick=10ms,slots=512", "--engine", "threads:tick=1ms,size=512", "--engine", "session:tick=1s",
    "--quiet",
]
# Of which nothing fires.
FEW = ["--timers", "100", "--cancel", "1,0s", "--window", "2s", "--engine", "heap", "--engine", "hierarchical:size=20",
       "--engine", "hashed", "--quiet"]
# The pictures that the page must have; with how many marks, `expected_marks` tells.
PICTURES = ["work_by_delay", "work_along_time", "flush_sizes", "lateness", "wakeups", "memory", "break_even",
            "break_even_measured", "by_share_cancelled"]


def browser():
    return next((path for path in map(shutil.which, BROWSERS) if path), None)


FLAGS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-default-apps",
    "--disable-features=OptimizationHints,MediaRouter,Translate", "--force-device-scale-factor=1",
    "--host-resolver-rules=MAP * ~NOTFOUND",
]


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
                browser(), *FLAGS, "--hide-scrollbars", "--enable-logging=stderr", "--log-level=0",
                f"--user-data-dir={profile}", f"--log-net-log={log}", *flags, Path(page).resolve().as_uri(),
            ]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
            self.dom = done.stdout
            self.console = re.findall(r"CONSOLE[:(].*", done.stderr)
            self.requests = requests_of_pages(log.read_text(encoding="utf-8", errors="replace"))


class Session:
    """A browser that stays open, and does what a reader does, with one page after the other, at any width. Speaks the
    DevTools protocol over a pipe."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.downloads = Path(self.folder.name, "downloads")
        to_browser, self.out = os.pipe()
        self.back, from_browser = os.pipe()
        shell = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        command = ["bash", "-c", shell, "bash", browser(), *FLAGS, "--remote-debugging-pipe",
                   f"--user-data-dir={self.folder.name}/profile", "about:blank"]
        self.process = subprocess.Popen(command, pass_fds=(to_browser, from_browser), stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.answers, self.calls, self.target = b"", 0, {}
        self.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(self.downloads))
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.target = {"sessionId": self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]}

    def open(self, page, width, height=900, theme="light"):
        """Opens a page anew, also one that is open."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Page.navigate", url="about:blank")
        self.wait_for(lambda: self.value("document.readyState + location.protocol") == "completeabout:")
        self.call("Page.navigate", url=Path(page).resolve().as_uri())
        self.wait_for(lambda: self.value("document.readyState + location.protocol") == "completefile:")

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.out)
        os.close(self.back)
        self.folder.cleanup()

    def call(self, method, **parameters):
        self.calls += 1
        request = {"id": self.calls, "method": method, "params": parameters, **self.target}
        os.write(self.out, json.dumps(request).encode() + b"\0")
        while True:
            while b"\0" not in self.answers:
                read = os.read(self.back, 1 << 20)
                if not read:
                    raise AssertionError("the browser has ended")
                self.answers += read
            one, self.answers = self.answers.split(b"\0", 1)
            answer = json.loads(one)
            if answer.get("id") == self.calls:
                return answer["result"]

    def value(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, userGesture=True)
        return answer["result"].get("value")

    def picture(self, x, y, width, height):
        clip = {"x": x, "y": y, "width": width, "height": height, "scale": 1}
        return base64.b64decode(self.call("Page.captureScreenshot", format="png", clip=clip)["data"])

    @staticmethod
    def wait_for(condition):
        end = time.monotonic() + 30
        while not condition():
            if time.monotonic() > end:
                raise AssertionError("nothing happened for 30 s")
            time.sleep(0.05)


class Figures(HTMLParser):
    """The marks, texts and links in each figure of a page."""

    def __init__(self, text):
        super().__init__()
        self.found, self.current, self.depth = {}, None, 0
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "figure":
            nothing = {"path": 0, "use": 0, "text": 0, "data": 0, "words": ""}
            self.current = self.found.setdefault(attributes["id"], nothing)
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
        "lateness": ("use", 20 * len({(e["tick_ns"], e["kind"] == "noncascading") for e in engines})),
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
        cls.session = Session()
        cls.addClassCleanup(cls.session.close)

    def test_it_says_nothing_on_the_console(self):
        self.assertEqual(self.visit.console, [])

    def test_it_asks_for_nothing_on_the_network(self):
        self.assertEqual(self.visit.requests, set())

    def test_errors_and_requests_would_be_seen(self):
        spoiled = FOLDER / "spoiled.html"
        spoiled.write_text("<script>console.error('canary')</script><img src='http://canary.invalid/x.png'>",
                           encoding="utf-8")
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
        compiler = self.data["machine"]["compiler"]
        for word in ("uniform:1ms,30min", "poisson:20", "hashed:tick=100ms,slots=512", compiler):
            self.assertIn(word, text)

    def test_it_judges_by_the_counts_and_explains_each_engine(self):
        text = html.unescape(re.sub(r"<[^>]*>", "", self.visit.dom))
        self.assertRegex(text, r"Of the engines without a heap that are late by at most 1\sms, \w+.* has the least to do")
        for kind in {engine["kind"] for engine in self.data["engines"]} | {"tick", "look", "break-even"}:
            self.assertIn(f"<dt>{kind}</dt>", self.visit.dom)

    def test_it_has_one_break_even(self):
        run = self.data["break_even"]["runs"][-1]
        self.assertEqual(run["timers_per_tick"], 64)
        told = re.findall(r"with 64 timers per tick and 512 slots, .*?(?:at each delay|and more beyond)",
                          self.visit.dom.replace("With 64", "with 64"))
        self.assertGreaterEqual(len(told), 3)
        self.assertEqual(len(set(told)), 1)

    def test_no_placeholder_of_a_colour_is_left(self):
        self.assertEqual(re.findall(r"#0[123]0[0-9]0[0-9]\b", self.visit.dom), [])

    def test_pictures_of_it_are_kept(self):
        kept = {}
        for name, width, theme in (("light", 1280, "light"), ("dark", 1280, "dark"), ("phone", 390, "light"),
                                   ("phone_dark", 390, "dark")):
            self.session.open(self.page, width, theme=theme)
            self.assertLessEqual(self.session.value("document.documentElement.scrollWidth"), width, name)
            height = self.session.value("document.documentElement.scrollHeight")
            self.session.open(self.page, width, height, theme)
            kept[name] = self.session.picture(0, 0, width, height)
            (FOLDER / f"{name}.png").write_bytes(kept[name])
            self.assertGreater(len(kept[name]), 100_000, name)
        self.assertNotEqual(kept["light"], kept["dark"])

    def sides_with_a_shadow(self):
        """The sides of the first table whose last pixels change when its background goes."""
        session = self.session
        left, top, right, bottom = session.value(
            "(() => { const r = document.querySelector('.scroll').getBoundingClientRect();"
            " return [r.left, r.top, r.right, r.bottom] })()")
        sides = {"left": (left, top, 12, bottom - top - 12), "right": (right - 12, top, 12, bottom - top - 12)}
        with_it = {side: session.picture(*clip) for side, clip in sides.items()}
        session.value("document.querySelector('.scroll').style.background = 'none'")
        without = {side: session.picture(*clip) for side, clip in sides.items()}
        session.value("document.querySelector('.scroll').style.background = ''")
        return [side for side in sides if with_it[side] != without[side]]

    def test_a_table_that_is_cut_off_shows_where_it_goes_on(self):
        session = self.session
        session.open(self.page, 400, 2000)
        box = "document.querySelector('.scroll')"
        self.assertGreater(session.value(f"{box}.scrollWidth"), 2 * session.value(f"{box}.clientWidth"))
        self.assertGreater(session.value(f"{box}.offsetHeight"), session.value(f"{box}.clientHeight"), "no bar")
        self.assertEqual(self.sides_with_a_shadow(), ["right"])
        (FOLDER / "narrow.png").write_bytes(session.picture(0, 0, 400, 900))
        session.value(f"{box}.scrollLeft = 200")
        self.assertEqual(self.sides_with_a_shadow(), ["left", "right"])
        session.value(f"{box}.scrollLeft = 10000")
        self.assertEqual(self.sides_with_a_shadow(), ["left"])
        self.assertLessEqual(session.value("document.documentElement.scrollWidth"), 400, "the page itself scrolls")
        session.open(self.page, 1280)
        self.assertEqual(self.sides_with_a_shadow(), [])

    def test_a_page_that_is_moved_alone_still_holds_its_files(self):
        alone = self.session
        with tempfile.TemporaryDirectory() as folder:
            alone.open(shutil.copy(self.page, folder), 1280)
            for name, count in (("comparison.json", 1), ("lateness.csv", 1)):
                link = f"document.querySelectorAll('a[download=\"{name}\"]')"
                self.assertEqual(alone.value(f"{link}.length"), count)
                alone.value(f"{link}[0].click()")
                alone.wait_for((alone.downloads / name).is_file)
            self.assertEqual((alone.downloads / "comparison.json").read_bytes(), self.json.read_bytes())
            outside = "[...document.querySelectorAll('[href],[src]')].map(e => e.getAttribute('href') || e.src)" \
                ".filter(a => !a.startsWith('data:') && !a.startsWith('#')).length"
            self.assertEqual(alone.value(outside), 0)

    def test_a_missing_plotting_tool_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            tool = Path(shutil.copy(TOOL, folder))
            Path(folder, "report.py").write_text("raise SystemExit(1)\n", encoding="utf-8")
            done = subprocess.run([tool, *ARGUMENTS, "--report", str(Path(folder, "x.html"))],
                                  capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("apt-get install python3-matplotlib", done.stderr)


# In place of report.py: draws the page beside itself, and then what the tool has asked for.
DRAWS_TWICE = """
import subprocess, sys
from pathlib import Path
command = [sys.executable, {script!r}, sys.argv[1]]
if len(sys.argv) == 3:
    subprocess.run([*command, Path(__file__).with_name("page.html")], check=True)
sys.exit(subprocess.run(command + sys.argv[2:]).returncode)
"""


class NothingFired(unittest.TestCase):
    """One comparison, since it takes most of the time, and two reports: the second cannot be written."""

    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            tool = shutil.copy(TOOL, folder)
            script = DRAWS_TWICE.format(script=str(Path(TOOL).with_name("report.py")))
            Path(folder, "report.py").write_text(script, encoding="utf-8")
            cls.done = subprocess.run([tool, *FEW, "--report", "/dev/full"], capture_output=True, text=True,
                                      timeout=300, check=False)
            cls.text = Path(folder, "page.html").read_text(encoding="utf-8")

    def test_is_drawn(self):
        self.assertIn("Nothing fired, so nothing was late.", self.text)
        late = "by up to its window of 2\u00a0s"
        self.assertIn(f"heap {late}, hierarchy 1\u00a0ms × 20 {late}.</p>", self.text)  # hashed knows no windows
        self.assertIn("<dt>window</dt>", self.text)

    def test_if_the_report_cannot_be_written_that_is_told(self):
        self.assertEqual(self.done.returncode, 1)
        self.assertIn("the report /dev/full was not written", self.done.stderr)
        self.assertIn("No space left on device", self.done.stderr)

def main():
    global TOOL, FOLDER
    TOOL, FOLDER = sys.argv[1], Path(sys.argv[2])
    script = Path(TOOL).with_name("report.py")
    drawn = subprocess.run([sys.executable, script, "--check"], stderr=subprocess.DEVNULL, check=False)
    if browser() is None or drawn.returncode != 0:
        print("skipped: it needs chromium and python3-matplotlib", file=sys.stderr)
        return SKIP
    os.environ["LC_ALL"] = "C.UTF-8"
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[3:]])
    return 0


if __name__ == "__main__":
    sys.exit(main())

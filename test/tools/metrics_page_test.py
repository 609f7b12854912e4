#!/usr/bin/env python3
"""Holds docs/metrics.md and the dashboard against the sources: metrics_page_test.py SOURCE_DIRECTORY."""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
TABLE_ROW = re.compile(r"^\| `(timing_wheel_\w+)`( \*)? \| (counter|gauge|histogram) \|", re.MULTILINE)


def written():
    """Names and types, as the library and the desk write them."""
    files = ("src/report/metrics.cpp", "src/durable/metrics.cpp", "tools/desk/status.cpp")
    text = "".join((ROOT / file).read_text() for file in files)
    return dict(re.findall(r'"(timing_wheel_\w+)",\s*"?(counter|gauge|histogram)"?', text))


def listed():
    return {name: kind for name, _, kind in TABLE_ROW.findall((ROOT / "docs/metrics.md").read_text())}


def dashboard():
    return json.loads((ROOT / "packaging/grafana/timing_wheel.json").read_text())


def panels():
    return dashboard()["panels"]


def expressions():
    return [target["expr"] for panel in panels() for target in panel.get("targets", [])]


class MetricsPage(unittest.TestCase):
    def test_lists_what_is_written(self):
        self.assertGreater(len(written()), 40)
        self.assertEqual(listed(), written())

    def test_names_nothing_else(self):
        text = (ROOT / "docs/metrics.md").read_text()
        for name in re.findall(r"\btiming_wheel_[a-z_]+(?:_total|_seconds|_bytes)\b", text):
            self.assertIn(name, written())


class Alerts(unittest.TestCase):
    rules = ROOT / "packaging/prometheus/timing_wheel.yml"

    def test_look_at_what_is_written(self):
        names = set(re.findall(r"\btiming_wheel_durable_[a-z_]+[a-z]\b(?!_\*)", self.rules.read_text()))
        self.assertGreater(len(names), 8)
        for name in names:
            self.assertIn(name, written())

    @unittest.skipUnless(shutil.which("promtool"), "there is no promtool: install Debian's package prometheus")
    def test_sound_when_they_are_to(self):
        with tempfile.TemporaryDirectory() as folder:
            cases = Path(folder) / "cases.yml"
            cases.write_text((ROOT / "test/tools/alerts_test.yml").read_text().replace("RULES", str(self.rules)))
            done = subprocess.run(["promtool", "test", "rules", cases], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Dashboard(unittest.TestCase):
    def test_shows_what_is_written(self):
        names = set()
        for expression in expressions():
            names.update(re.findall(r"\btiming_wheel_\w+", expression))
        self.assertGreater(len(names), 20)
        for name in names:
            self.assertIn(name.removesuffix("_bucket"), written())

    def test_lists_instances_that_have_no_service(self):
        listing = dashboard()["templating"]["list"][1]["query"]["query"]
        names = set(re.findall(r"timing_wheel_\w+", listing))
        self.assertLessEqual(names, set(written()))
        self.assertLess({"timing_wheel_durable_serving", "timing_wheel_durable_store_pending"}, names)

    def test_has_a_panel_for_each_gauge_of_a_store(self):
        shown = set(re.findall(r"timing_wheel_durable_store_\w+", " ".join(expressions())))
        gauges = {name for name, kind in written().items() if kind == "gauge" and "_durable_store_" in name}
        self.assertGreater(len(gauges), 9)
        self.assertLessEqual(gauges, shown)

    @unittest.skipUnless(shutil.which("promtool"), "there is no promtool: install Debian's package prometheus")
    def test_asks_what_prometheus_can_read(self):
        rules = [{"record": "r", "expr": each.replace("$__rate_interval", "5m")} for each in expressions()]
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "rules.yml"
            file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
            done = subprocess.run(["promtool", "check", "rules", "--lint=none", file], capture_output=True, text=True,
                                  check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_takes_rates_of_counters_only(self):
        for expression in expressions():
            rated = set(re.findall(r"rate\((timing_wheel_\w+)", expression))
            for name in re.findall(r"\btiming_wheel_\w+", expression):
                self.assertEqual(name in rated, name.endswith(("_total", "_bucket")), expression)

    def test_has_no_two_panels_in_one_place(self):
        taken = set()
        for panel in panels():
            at = panel["gridPos"]
            for x in range(at["x"], at["x"] + at["w"]):
                for y in range(at["y"], at["y"] + at["h"]):
                    self.assertNotIn((x, y), taken, panel["title"])
                    self.assertLess(x, 24)
                    taken.add((x, y))
        self.assertEqual(len({panel["id"] for panel in panels()}), len(panels()))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

#!/usr/bin/env python3
"""Follows every link of the site that ./dev docs made: site_test.py SOURCE_DIRECTORY.

Each page is opened in headless Chromium, from its file, and what Chromium made of it is looked at. Each link inside the
site, each anchor and each picture must be there, and nothing may ask the network. A link to elsewhere is not followed.
No page may be wider than a telephone, and every page of the guide must be in the side tree.

Exits with 77, which skips the test, if Chromium or Doxygen is missing, or if the site is missing or older than its
sources.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

SOURCE = SITE = Path()
SKIP = 77
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
INSIDE = ("data", "javascript")
# Loaded by Chromium in the place of a page: it opens them all, some at a time, and writes down what became of each.
VISITOR = """<!DOCTYPE html><meta charset="utf-8"><body><script>
const pages = PAGES, found = {};
window.addEventListener('error', e => console.error(e.message));
const shown = source => new Promise(done => {
  const image = new Image();
  image.onload = () => done(true);
  image.onerror = () => done(false);
  image.src = source;
});
function visit(name) {
  return new Promise(done => {
    const frame = document.createElement('iframe');
    frame.style.cssText = 'width:1200px;height:800px';
    frame.onload = () => setTimeout(async () => {
      const page = frame.contentDocument, seen = {links: [], ids: [], resources: [], broken: [], text: 0, wide: 0};
      for (const a of page.querySelectorAll('a[href], area[href]')) seen.links.push(a.getAttribute('href'));
      for (const e of page.querySelectorAll('[id], a[name]')) seen.ids.push(e.id || e.name);
      for (const e of page.querySelectorAll('[src], object[data], link[href]'))
        seen.resources.push(e.getAttribute('src') || e.getAttribute('data') || e.getAttribute('href'));
      await Promise.all([...page.images].map(async image => {
        if (!await shown(image.src)) seen.broken.push(image.getAttribute('src'));
      }));
      seen.text = page.body.innerText.length;
      frame.style.width = '400px';
      await new Promise(go => setTimeout(go, 30));
      seen.wide = Math.max(page.documentElement.scrollWidth, page.body.scrollWidth);
      found[name] = seen;
      frame.remove();
      done();
    }, 50);
    frame.src = name;
    document.body.append(frame);
  });
}
async function work(queue) { while (queue.length) await visit(queue.shift()); }
(async () => {
  const queue = [...pages];
  await Promise.all([1, 2, 3, 4].map(() => work(queue)));
  document.body.innerHTML = '';
  const result = document.createElement('pre');
  result.id = 'result';
  result.textContent = JSON.stringify(found);
  document.body.append(result);
  document.title = 'done';
})();
</script></body>"""


def browser():
    return next((path for path in map(shutil.which, BROWSERS) if path), None)


class Text(HTMLParser):
    """What stands in the element with the id `result`."""

    def __init__(self, text):
        super().__init__()
        self.inside, self.text = False, ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.inside = dict(attributes).get("id") == "result"

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        self.text += data if self.inside else ""


class Visit:
    """What Chromium made of some pages of a folder, with every name but this machine's unknown to it."""

    def __init__(self, folder, pages):
        with tempfile.TemporaryDirectory() as profile, tempfile.NamedTemporaryFile(
                "w", dir=folder, prefix="visitor-", suffix=".html", encoding="utf-8") as visitor:
            visitor.write(VISITOR.replace("PAGES", json.dumps(pages)))
            visitor.flush()
            log = Path(profile) / "net.json"
            command = [
                browser(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic",
                "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
                "--disable-component-update", "--disable-sync", "--disable-default-apps",
                "--disable-features=OptimizationHints,MediaRouter,Translate",
                "--allow-file-access-from-files", "--host-resolver-rules=MAP * ~NOTFOUND",
                "--enable-logging=stderr", "--log-level=0",
                f"--user-data-dir={profile}", f"--log-net-log={log}", "--virtual-time-budget=600000", "--dump-dom",
                Path(visitor.name).resolve().as_uri(),
            ]
            done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
            self.console = re.findall(r"CONSOLE[:(].*", done.stderr)
            self.pages = json.loads(Text(done.stdout).text or "{}")
            asked = (re.search(r'"initiator":"([^"]*)".*"url":"((?:https?|wss?)://[^"]*)"', line)
                     for line in log.read_text(encoding="utf-8", errors="replace").splitlines())
            self.requests = sorted({match[2] for match in asked if match and match[1] != "not an origin"})

    def faults(self, folder):
        """Each link, anchor and picture that leads nowhere, and each resource that is not beside the pages."""
        found = []
        ids = {page: set(seen["ids"]) for page, seen in self.pages.items()}
        for page, seen in self.pages.items():
            for link in seen["links"]:
                found += [f"{page}: {link}" for _ in [0] if not leads_somewhere(folder, ids, page, link)]
            for name in seen["resources"]:
                outside = urlsplit(name).scheme not in ("", *INSIDE) or name.startswith("//")
                missing = urlsplit(name).scheme not in INSIDE and not (folder / unquote(urlsplit(name).path)).is_file()
                found += [f"{page}: {name} is not in the site" for _ in [0] if outside or missing]
            found += [f"{page}: the picture {name} cannot be shown" for name in seen["broken"]]
        return sorted(set(found))


def leads_somewhere(folder, ids, page, link):
    parts = urlsplit(link)
    if parts.scheme in ("http", "https", "mailto", "javascript"):
        return True
    if parts.scheme or parts.netloc:
        return False
    target, anchor = unquote(parts.path) or page, unquote(parts.fragment)
    if target not in ids:
        return (folder / target).is_file() and not anchor
    return not anchor or anchor in ids[target]


def pages_of(folder):
    return sorted(path.name for path in folder.glob("*.html"))


class SiteTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.names = pages_of(SITE)
        cls.visit = Visit(SITE, cls.names)

    def test_every_page_opens(self):
        self.assertGreater(len(self.names), 30)
        self.assertEqual(sorted(self.visit.pages), self.names)
        self.assertEqual([name for name, seen in self.visit.pages.items() if seen["text"] < 20], [])

    def test_every_link_anchor_and_picture_leads_somewhere(self):
        self.assertEqual(self.visit.faults(SITE), [])
        self.assertGreater(sum(len(seen["links"]) for seen in self.visit.pages.values()), 1000)

    def test_no_page_says_anything_on_the_console_or_asks_the_network(self):
        self.assertEqual((self.visit.console, self.visit.requests), ([], []))

    def test_no_page_is_wider_than_a_telephone(self):
        self.assertEqual({name: seen["wide"] for name, seen in self.visit.pages.items() if seen["wide"] > 400}, {})

    def test_every_guide_page_is_in_the_side_tree(self):
        sys.path.insert(0, str(SOURCE / "tools" / "site"))
        from page_filter import page_id, pages  # pylint: disable=import-outside-toplevel,import-error
        in_tree = {name for script in SITE.glob("*.js")
                   for name in re.findall(r'"(\w+)\.html", (?:null|"|\[)', script.read_text(encoding="utf-8"))}
        self.assertEqual([page for page in pages() if page_id(page) not in in_tree], [])

    def test_a_broken_link_would_be_seen(self):
        spoiled = {
            "a.html": "<a href='b.html#there'></a><a href='https://example.invalid/'></a><p>Twenty letters, or more.",
            "b.html": "<p id=there>",
        }
        faults = {
            "<a href='c.html'></a>": "a.html: c.html",
            "<a href='b.html#here'></a>": "a.html: b.html#here",
            "<a href='#here'></a>": "a.html: #here",
            "<a href='docs/design.md'></a>": "a.html: docs/design.md",
            "<a href='file:///etc/hosts'></a>": "a.html: file:///etc/hosts",
            "<img src='c.svg'>": "a.html: c.svg is not in the site",
            "<img src='text.svg'>": "a.html: the picture text.svg cannot be shown",
            "<img src='http://canary.invalid/c.png'>": "a.html: http://canary.invalid/c.png is not in the site",
        }
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "text.svg").write_text("no picture", encoding="utf-8")
            for page, text in spoiled.items():
                (folder / page).write_text(text, encoding="utf-8")
            self.assertEqual(Visit(folder, pages_of(folder)).faults(folder), [])
            (folder / "a.html").write_text(spoiled["a.html"] + "".join(faults), encoding="utf-8")
            visit = Visit(folder, pages_of(folder))
        self.assertTrue(set(faults.values()) <= set(visit.faults(folder)), visit.faults(folder))
        self.assertTrue(any("canary.invalid" in url for url in visit.requests), visit.requests)


def newer_than(page):
    """Something that the site is made of, and that has changed since."""
    sources = [SOURCE / "README.md", SOURCE / "CHANGELOG.md",
               *(SOURCE / "docs").rglob("*"), *(SOURCE / "include").rglob("*.hpp")]
    return next((path for path in sources if path.is_file() and "__pycache__" not in path.parts
                 and path.stat().st_mtime > page.stat().st_mtime), None)


def reason_to_skip():
    for what, there in (("chromium", browser()), ("doxygen", shutil.which("doxygen"))):
        if not there:
            return f"there is no {what}"
    index = SITE / "index.html"
    if not index.is_file():
        return "./dev docs has not made the site yet"
    changed = newer_than(index)
    return f"{changed.relative_to(SOURCE)} is newer than the site: ./dev docs" if changed else None


def main():
    global SOURCE, SITE
    SOURCE = Path(sys.argv[1]).resolve()
    SITE = SOURCE / "build" / "docs"
    reason = reason_to_skip()
    if reason:
        print(f"skipped: {reason}", file=sys.stderr)
        return SKIP
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[2:]])
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Follows the links between the pages, and to pictures, as a code host does: markdown_links_test.py SOURCE_DIRECTORY.

A link must name a file or a folder of the project, and its anchor a heading of that page. Links to elsewhere are not
followed.
"""

import re
import sys
import unittest
from pathlib import Path

from pages import HEADING, MARKDOWN_PICTURE, TOKEN, lines_of, links_of, pages, pictures_of, slug

ROOT = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()


def anchors_of(text):
    seen, found = {}, set()
    for line, prose in lines_of(text):
        match = HEADING.match(line) if prose else None
        if match:
            name = slug(match[2])
            found.add(f"{name}-{seen[name]}" if name in seen else name)
            seen[name] = seen.get(name, 0) + 1
    return found


def faults_of(path, text):
    for line, prose in lines_of(text):
        if not prose:
            continue
        if re.match(r"[^\[]*\]\(", MARKDOWN_PICTURE.sub("", TOKEN.sub("", line))):
            yield f"{path.relative_to(ROOT)}: {line}: the link does not stand on one line"
        for link in links_of(line) + pictures_of(line):
            name, _, anchor = link.partition("#")
            target = path.parent / name if name else path
            if re.match(r"[a-z]+:", link):
                continue
            if not target.exists() or not target.resolve().is_relative_to(ROOT):
                yield f"{path.relative_to(ROOT)}: {link}: there is no such file"
            elif anchor and anchor not in anchors_of(target.read_text(encoding="utf-8")):
                yield f"{path.relative_to(ROOT)}: {link}: there is no such heading"


class MarkdownLinksTest(unittest.TestCase):
    def test_every_link_and_picture_leads_somewhere(self):
        faults = [fault for page in pages()
                  for fault in faults_of(ROOT / page, (ROOT / page).read_text(encoding="utf-8"))]
        self.assertEqual(faults, [])

    def test_a_broken_link_would_be_seen(self):
        for broken in ("[x](none.md)", "[x](design.md#none)", "[`x`](../src/none.hpp)", '<img src="pictures/none.svg">',
                       "![x](pictures/none.svg)", "[x](../../none)", "[two\nlines](design.md)"):
            self.assertEqual(len(list(faults_of(ROOT / "docs" / "page.md", broken))), 1, broken)
        self.assertEqual(len(list(faults_of(ROOT / "README.md", "[x](#none)"))), 1)

    def test_what_is_no_link_is_left_alone(self):
        text = ("```\n[x](none.md)\n```\n[x](https://example.invalid/none) [](int x) { } `[x](none)`\n"
                "[x](tuning.md#in-short)\n")
        self.assertEqual(list(faults_of(ROOT / "docs" / "page.md", text)), [])

    def test_anchors_are_those_of_a_code_host(self):
        text = "# A page\n## 1. From `a.hpp`: 95 % of it\n## Twice\n## Twice\n```\n# no heading\n```\n"
        self.assertEqual(anchors_of(text), {"a-page", "1-from-ahpp-95--of-it", "twice", "twice-1"})

    def test_what_a_program_draws_or_prints_is_short(self):
        """A picture is one line, as tools/ writes it; what nobody reads is made anew, and not kept."""
        long = []
        # packaging/ has lists of symbols, which are read: each line is a promise.
        for folder in ("benchmarks", "docs", "examples", "test", "tools"):
            for path in sorted([*(ROOT / folder).rglob("*.svg"), *(ROOT / folder).rglob("*.txt")]):
                lines = path.read_text(encoding="utf-8").splitlines()
                if path.name != "CMakeLists.txt" and len(lines) > 100:
                    long.append(str(path.relative_to(ROOT)))
        self.assertEqual(long, [])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])

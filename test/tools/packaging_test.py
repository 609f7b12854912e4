#!/usr/bin/env python3
"""Holds the recipes in packaging/ against the project of CMake: packaging_test.py SOURCE_DIRECTORY.

They repeat what CMakeLists.txt and cmake/ say (versions, sources, options, what is needed), and nobody builds all of
them.
"""

import json
import re
import sys
import unittest
from pathlib import Path

SOURCE = Path(sys.argv.pop(1) if len(sys.argv) > 1 else ".").resolve()


def text_of(name):
    return (SOURCE / name).read_text(encoding="utf-8")


CMAKE = text_of("CMakeLists.txt")
DURABLE = text_of("cmake/durable.cmake")
MESON = text_of("packaging/meson/packagefiles/timing_wheel/meson.build")
VCPKG = json.loads(text_of("packaging/vcpkg/vcpkg.json"))
PORT = text_of("packaging/vcpkg/portfile.cmake")
CONAN = text_of("packaging/conan/conanfile.py")
VERSION = re.search(r"^  VERSION (\d+\.\d+\.\d+)$", CMAKE, re.MULTILINE).group(1)


def sources_of(text, begin):
    """The sources in the call that begins so."""
    start = text.index(begin)
    return re.findall(r"src/[\w/]+\.cpp", text[start:text.index(")", start)])


def least(pattern, text):
    return re.search(pattern, text).group(1)


class Versions(unittest.TestCase):
    def test_of_the_recipes_are_that_of_cmake(self):
        self.assertEqual(least(r"version: '([\d.]+)'", MESON), VERSION)
        self.assertEqual(VCPKG["version"], VERSION)
        self.assertIn(f"\nrevision = v{VERSION}\n", text_of("packaging/meson/timing_wheel.wrap"))

    def test_conan_reads_that_of_cmake(self):
        pattern = least(r're\.search\(r"([^"]+)", text\)', CONAN)
        self.assertEqual(re.search(pattern, CMAKE).group(1), VERSION)

    def test_the_changelog_begins_with_it(self):
        self.assertEqual(least(r"\n## ([\d.]+)", text_of("CHANGELOG.md")), VERSION)

    def test_of_what_is_needed_are_everywhere_those_of_cmake(self):
        boost = least(r"find_package\(Boost ([\d.]+) REQUIRED\)", CMAKE)
        sqlite = least(r"find_package\(SQLite3 ([\d.]+) REQUIRED\)", DURABLE)
        postgres = least(r"find_package\(PostgreSQL ([\d.]+) REQUIRED\)", DURABLE)
        pkg_config, config = text_of("cmake/pkg_config.cmake"), text_of("cmake/timing_wheelConfig.cmake.in")
        self.assertEqual(boost, least(r"dependency\('boost', version: '>=([\d.]+)'", MESON))
        self.assertEqual(boost, least(r'"boost/\[>=([\d.]+) ', CONAN))
        self.assertEqual(boost, least(r"libboost-dev \(>= ([\d.]+)\)", text_of("cmake/packages.cmake")))
        self.assertEqual(boost, least(r"find_dependency\(Boost ([\d.]+)\)", config))
        self.assertEqual(sqlite, least(r"dependency\('sqlite3', version: '>=([\d.]+)'", MESON))
        self.assertEqual(sqlite, least(r'"sqlite3/\[>=([\d.]+) ', CONAN))
        self.assertEqual(sqlite, least(r"sqlite3 >= ([\d.]+)", pkg_config))
        self.assertEqual(sqlite, least(r"find_dependency\(SQLite3 ([\d.]+)\)", config))
        self.assertEqual(postgres, least(r"dependency\('libpq', version: '>=([\d.]+)'", MESON))
        self.assertEqual(postgres, least(r'"libpq/\[>=([\d.]+)\]', CONAN))
        self.assertEqual(postgres, least(r"libpq >= ([\d.]+)", pkg_config))
        self.assertEqual(postgres, least(r"find_dependency\(PostgreSQL ([\d.]+)\)", config))
        for feature, needed in (("sqlite", sqlite), ("postgres", postgres)):
            said = VCPKG["features"][feature]["dependencies"][0]["version>="]
            self.assertEqual(said.split(".")[:len(needed.split("."))], needed.split("."))


class Meson(unittest.TestCase):
    def test_builds_the_sources_of_cmake(self):
        self.assertEqual(sources_of(MESON, "core_sources = files("), sources_of(CMAKE, "add_library(timing_wheel\n"))
        self.assertEqual(sources_of(MESON, "durable_sources = files("),
                         sources_of(DURABLE, "add_library(timing_wheel_durable\n"))
        for database in ("sqlite", "postgres"):
            self.assertEqual(sources_of(MESON, f"{database}_sources = files("),
                             re.findall(rf"src/durable/{database}/\w+\.cpp", DURABLE))

    def test_gives_a_shared_durable_library_what_cmake_gives_it(self):
        begin = DURABLE.index("if(BUILD_SHARED_LIBS)")
        self.assertEqual(sources_of(MESON, "durable_sources += files("), sources_of(DURABLE[begin:], "target_sources("))

    def test_defines_what_cmake_defines(self):
        for name in ("TIMING_WHEEL_SHARED", "BOOST_ASIO_DISABLE_FENCED_BLOCK"):
            self.assertIn(f"'-D{name}'", MESON)
            self.assertIn(name, DURABLE + text_of("cmake/shared.cmake"))


class Options(unittest.TestCase):
    def test_that_recipes_set_are_those_of_cmake(self):
        known = set(re.findall(r"option\((TIMING_WHEEL_\w+)", CMAKE))
        for text in (PORT, CONAN):
            used = set(re.findall(r"TIMING_WHEEL_(?:DURABLE|SQLITE|POSTGRES)|(?<=-D)TIMING_WHEEL_\w+", text))
            self.assertTrue({"TIMING_WHEEL_DURABLE", "TIMING_WHEEL_SQLITE", "TIMING_WHEEL_POSTGRES"} <= used)
            self.assertEqual(used - known, set())
        built = re.findall(r'"(BUILD_\w+)"', CONAN)
        self.assertEqual({f"TIMING_WHEEL_{name}" for name in built} - known, set())
        self.assertEqual(len(built), 3)

    def test_every_feature_of_the_port_is_an_option_there(self):
        mapped = dict(re.findall(r"^    (\w+) (TIMING_WHEEL_\w+)\)?$", PORT, re.MULTILINE))
        self.assertEqual(set(mapped), set(VCPKG["features"]))

    def test_what_conan_exports_is_there(self):
        for pattern in re.findall(r'"([\w./]+?)(?:/\*)?"', least(r"for pattern in \(([^)]*)\):", CONAN)):
            self.assertTrue((SOURCE / pattern).exists(), pattern)


class PkgConfig(unittest.TestCase):
    def test_every_target_has_a_file(self):
        exported = set(re.findall(r"add_library\(timing_wheel::(\w+) ALIAS", CMAKE + DURABLE))
        files = {path.name.removesuffix(".pc.in") for path in (SOURCE / "cmake").glob("*.pc.in")}
        self.assertEqual(files, {f"timing_wheel_{name}".replace("timing_wheel_timing_wheel", "timing_wheel")
                                 for name in exported})


if __name__ == "__main__":
    unittest.main(verbosity=2)

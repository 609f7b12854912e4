#!/usr/bin/env python3
"""Holds the recipes in packaging/ against the project of CMake: packaging_test.py SOURCE_DIRECTORY.

They repeat what CMakeLists.txt and cmake/ say (versions, options, what is needed), and nobody builds all of them.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

SOURCE = Path(sys.argv.pop(1) if len(sys.argv) > 1 else ".").resolve()


def text_of(name):
    return (SOURCE / name).read_text(encoding="utf-8")


CMAKE = text_of("CMakeLists.txt")
DURABLE = text_of("cmake/durable.cmake")
MESON = text_of("packaging/meson/packagefiles/timing_wheel/meson.build")
VCPKG = json.loads(text_of("packaging/vcpkg/vcpkg.json"))
PORT = text_of("packaging/vcpkg/portfile.cmake")
CONAN = text_of("packaging/conan/conanfile.py")
REGISTRIES = json.loads(text_of("test/install/packages/registries.json"))
VERSION = re.search(r"^  VERSION (\d+\.\d+\.\d+)$", CMAKE, re.MULTILINE).group(1)


def sources_of(text, begin):
    """The sources in the call that begins so."""
    start = text.index(begin)
    return re.findall(r"src/[\w/]+\.cpp", text[start:text.index(")", start)])


def least(pattern, text):
    return re.search(pattern, text).group(1)


def numbers(version):
    return [int(part) for part in version.split(".")]


def conan_recipe(copy):
    """The recipe's class, with `copy` in place of Conan's; it needs no Conan."""
    names = ("conan", "conan.errors", "conan.tools", "conan.tools.build", "conan.tools.cmake", "conan.tools.files")
    modules = {name: mock.MagicMock() for name in names}
    modules["conan"].ConanFile = object
    modules["conan.tools.files"].copy = copy
    module = types.ModuleType("conanfile")
    module.__file__ = str(SOURCE / "packaging/conan/conanfile.py")
    with mock.patch.dict(sys.modules, modules):
        exec(compile(CONAN, module.__file__, "exec"), module.__dict__)  # pylint: disable=exec-used
    return module.TimingWheel()


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
        # Where a registry's history does not have the bound itself, vcpkg ends with an error.
        for feature, needed in (("sqlite", sqlite), ("postgres", postgres)):
            dependency = VCPKG["features"][feature]["dependencies"][0]
            enough = [version for version in REGISTRIES["vcpkg"]["versions"][dependency["name"]]
                      if numbers(version) >= numbers(needed)]
            self.assertEqual(dependency["version>="], min(enough, key=numbers))

    def test_are_in_the_registries_that_the_page_says_were_compared(self):
        page = text_of("docs/packages.md")
        for registry in REGISTRIES.values():
            self.assertTrue(f"`{registry['commit'][:10]}`" in page, registry["commit"])
        for name, bounds in re.findall(r'self\.requires\("(\w+)/\[([^]]+)\]"', CONAN):
            bound = {operator: numbers(number) for operator, number in re.findall(r"(>=|<)([\d.]+)", bounds)}
            self.assertTrue(any(bound[">="] <= numbers(version) < bound.get("<", [1000])
                                for version in REGISTRIES["conan"]["versions"][name]), name)


class Meson(unittest.TestCase):
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

    def test_the_page_has_commands_that_the_recipes_take(self):
        page = text_of("docs/packages.md")
        self.assertTrue((SOURCE / least(r"--overlay-ports=([\w/]+)", page) / "vcpkg.json").exists())
        self.assertEqual(least(r"conan create packaging/conan -s compiler\.cppstd=(\d+)", page),
                         least(r"check_min_cppstd\(self, (\d+)\)", CONAN))
        self.assertIn(f"cxx_std_{least(r'check_min_cppstd.self, ([0-9]+)', CONAN)}", CMAKE)

    def test_the_port_lists_the_parts_of_boost_whose_headers_are_included(self):
        included = {part for folder in ("include", "src") for path in (SOURCE / folder).rglob("*pp")
                    for part in re.findall(r"#include <boost/(\w+)", path.read_text(encoding="utf-8"))}
        listed = {name.removeprefix("boost-") for name in VCPKG["dependencies"] if str(name).startswith("boost-")}
        self.assertEqual(listed, included)


class Export(unittest.TestCase):
    def test_of_conan_has_the_project_and_looks_through_no_build(self):
        with tempfile.TemporaryDirectory() as folder:
            searched = []

            def copy(_recipe, pattern, source, destination):
                self.assertEqual(pattern, "*")
                searched.append(Path(source))
                shutil.copytree(source, destination)

            recipe = conan_recipe(copy)
            recipe.export_sources_folder = folder
            recipe.export_sources()
            self.assertNotIn(SOURCE, searched)
            for name in ("CMakeLists.txt", "LICENSE", "CHANGELOG.md", "cmake/packages.cmake", "packaging/deb/copyright",
                         *sources_of(CMAKE, "add_library(timing_wheel\n")):
                self.assertTrue(Path(folder, name).is_file(), name)


class Deb(unittest.TestCase):
    PROGRAMS = {"cmake": "cmake", "cpack": "cmake", "ninja": "ninja-build", "c++": "g++", "dpkg": "dpkg",
                "dpkg-buildflags": "dpkg-dev", "dpkg-shlibdeps": "dpkg-dev", "file": "file", "gzip": "gzip",
                "readelf": "binutils", "strip": "binutils"}

    def build(self, *missing):
        """Its output with stand-ins for all programs but those missing; the stand-in of CMake ends with 3."""
        with tempfile.TemporaryDirectory() as folder:
            for name in ("bash", "dirname", "mkdir", "sed"):
                Path(folder, name).symlink_to(shutil.which(name))
            for name in set(self.PROGRAMS) - set(missing):
                Path(folder, name).write_text(f"#!/bin/sh\nexit {3 if name == 'cmake' else 0}\n")
                Path(folder, name).chmod(0o755)
            tree = Path(folder, "tree")
            done = subprocess.run([SOURCE / "packaging/deb/build", tree], env={"PATH": folder}, capture_output=True,
                                  text=True, timeout=60, check=False)
            self.assertEqual(tree.exists(), not missing)
            self.assertEqual(done.returncode, 1 if missing else 3, done.stderr)
            return done.stderr

    def test_names_each_program_that_is_missing_and_its_package(self):
        for program, package in self.PROGRAMS.items():
            self.assertEqual(self.build(program),
                             f"packaging/deb/build: not found: {program} (of Debian's package {package})\n")
        self.assertEqual(len(self.build(*self.PROGRAMS).splitlines()), len(self.PROGRAMS))

    def test_goes_on_with_all_of_them(self):
        self.assertEqual(self.build(), "")


class PkgConfig(unittest.TestCase):
    def test_every_target_has_a_file(self):
        exported = set(re.findall(r"add_library\(timing_wheel::(\w+) ALIAS", CMAKE + DURABLE))
        files = {path.name.removesuffix(".pc.in") for path in (SOURCE / "cmake").glob("*.pc.in")}
        self.assertEqual(files, {f"timing_wheel_{name}".replace("timing_wheel_timing_wheel", "timing_wheel")
                                 for name in exported})


if __name__ == "__main__":
    unittest.main(verbosity=2)

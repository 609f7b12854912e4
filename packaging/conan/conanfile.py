"""A recipe for Conan 2. In a clone: conan create packaging/conan -s compiler.cppstd=20 --build=missing"""

import re
import shutil
from pathlib import Path

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rm, rmdir

ROOT = Path(__file__).resolve().parents[2]


class TimingWheel(ConanFile):
    name = "timing_wheel"
    description = "Hierarchical timing wheels: schedule and cancel millions of timers in O(1)"
    license = "MIT"
    topics = ("timer", "timeout", "scheduler")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {
        "shared": [True, False],
        "fPIC": [True, False],
        "durable": [True, False],
        "sqlite": [True, False],
        "postgres": [True, False],
    }
    default_options = {"shared": False, "fPIC": True, "durable": False, "sqlite": True, "postgres": False,
                       "boost/*:header_only": True}
    implements = ["auto_shared_fpic"]

    def set_version(self):
        text = load(self, ROOT / "CMakeLists.txt")
        self.version = re.search(r"VERSION (\d+\.\d+\.\d+)", text).group(1)

    def export_sources(self):
        # Conan's copy() looks through all of a folder, so it is not given the clone, which has builds in it.
        for name in ("CMakeLists.txt", "CHANGELOG.md", "LICENSE"):
            shutil.copy(ROOT / name, self.export_sources_folder)
        for folder in ("cmake", "include", "src", "packaging/deb"):
            copy(self, "*", ROOT / folder, Path(self.export_sources_folder, folder))

    def layout(self):
        cmake_layout(self)

    def requirements(self):
        self.requires("boost/[>=1.74 <2]", transitive_headers=True)
        if self.options.durable and self.options.sqlite:
            self.requires("sqlite3/[>=3.35 <4]")
        if self.options.durable and self.options.postgres:
            self.requires("libpq/[>=13]")

    def validate(self):
        check_min_cppstd(self, 20)
        if self.settings.os == "Windows":
            raise ConanInvalidConfiguration("timing_wheel needs GCC or Clang, and no Windows was tried")

    def generate(self):
        toolchain = CMakeToolchain(self)
        for name in ("BUILD_TESTS", "BUILD_BENCHMARKS", "BUILD_EXAMPLES"):
            toolchain.cache_variables[f"TIMING_WHEEL_{name}"] = False
        toolchain.cache_variables["TIMING_WHEEL_DURABLE"] = bool(self.options.durable)
        toolchain.cache_variables["TIMING_WHEEL_SQLITE"] = bool(self.options.sqlite)
        toolchain.cache_variables["TIMING_WHEEL_POSTGRES"] = bool(self.options.postgres)
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, Path(self.package_folder, "licenses"))
        # Conan writes its own, from package_info.
        rmdir(self, Path(self.package_folder, "lib", "cmake"))
        rmdir(self, Path(self.package_folder, "lib", "pkgconfig"))
        rm(self, "LICENSE", Path(self.package_folder, "share"), recursive=True)

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "timing_wheel")
        core = self.cpp_info.components["core"]
        core.libs = ["timing_wheel"]
        core.requires = ["boost::headers"]
        core.system_libs = ["pthread"] if self.settings.os in ("Linux", "FreeBSD") else []
        core.defines = ["TIMING_WHEEL_SHARED"] if self.options.shared else []
        core.set_property("cmake_target_name", "timing_wheel::timing_wheel")
        core.set_property("pkg_config_name", "timing_wheel")
        asio = self.cpp_info.components["asio"]
        asio.requires = ["core"]
        asio.set_property("cmake_target_name", "timing_wheel::asio")
        standalone = self.cpp_info.components["standalone_asio"]
        standalone.requires = ["core"]
        standalone.defines = ["TIMING_WHEEL_STANDALONE_ASIO", "ASIO_STANDALONE"]
        standalone.set_property("cmake_target_name", "timing_wheel::standalone_asio")
        execution = self.cpp_info.components["execution"]
        execution.requires = ["core"]
        execution.set_property("cmake_target_name", "timing_wheel::execution")
        if self.options.durable:
            durable = self.cpp_info.components["durable"]
            durable.libs = ["timing_wheel_durable"]
            durable.requires = ["core"]
            if self.options.sqlite:
                durable.requires.append("sqlite3::sqlite3")
            if self.options.postgres:
                durable.requires.append("libpq::libpq")
            durable.set_property("cmake_target_name", "timing_wheel::durable")
            durable.set_property("pkg_config_name", "timing_wheel_durable")

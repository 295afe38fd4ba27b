"""Puts libramcloud.so and what it needs into the package; everything else is in pyproject.toml.

The library is taken from RAMCLOUD_LIBRARY, or from where `make build` of the checkout leaves it.
"""

import os
import pathlib
import shutil
import subprocess

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py
from wheel.bdist_wheel import bdist_wheel

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent
# Every system has these libraries, so the package must not include them.
SYSTEM = ("linux-vdso", "libc.so", "libm.so", "libstdc++", "libgcc_s", "ld-linux", "libpthread", "libdl", "librt")


def library() -> pathlib.Path:
    path = pathlib.Path(os.environ.get("RAMCLOUD_LIBRARY", TOP / "build/lib/libramcloud.so.2"))
    if not path.exists():
        raise SystemExit(f"there is no {path}; run `make build` in the checkout, or set RAMCLOUD_LIBRARY")
    return path


def needed_by(path: pathlib.Path) -> list[pathlib.Path]:
    lines = subprocess.run(["ldd", path], check=True, capture_output=True, text=True).stdout.splitlines()
    found = [line.split("=>")[1].split()[0] for line in lines if "=> /" in line]
    return [pathlib.Path(p) for p in found if not pathlib.Path(p).name.startswith(SYSTEM)]


class BuildWithLibrary(build_py):
    def run(self) -> None:
        super().run()
        target = pathlib.Path(self.build_lib) / "ramcloud" / "_lib"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        shutil.copy(library(), target / "libramcloud.so.2")
        for path in needed_by(library()):
            shutil.copy(path, target / path.name)


class PlatformWheel(bdist_wheel):
    """The Python part runs with every version; the library only on this system."""

    def get_tag(self) -> tuple[str, str, str]:
        return ("py3", "none", super().get_tag()[2])


class BinaryDistribution(Distribution):
    def has_ext_modules(self) -> bool:
        return True


setup(
    version=(TOP / "VERSION").read_text().strip(),
    cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": PlatformWheel},
    distclass=BinaryDistribution,
)

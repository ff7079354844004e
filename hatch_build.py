"""The shared object of kernels goes into wheels; an editable installation has it built by `make`."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

OLDEST_GLIBC = 17  # of manylinux2014, the oldest system that pip is still kept working on


class KernelsHook(BuildHookInterface[Any]):
    """Build the kernels before a wheel is put together, and tag it with what they need."""

    def dependencies(self) -> list[str]:
        """What the build needs besides: without a C compiler the one of a package."""
        has_compiler = "CC" in os.environ or any(map(shutil.which, ("cc", "gcc", "clang")))
        return [] if has_compiler else ["ziglang>=0.13,<0.16"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the object to the wheel."""
        if version == "editable":
            return
        sys.path.insert(0, str(Path(self.root, "src")))
        from tidelog.compiled import build, objects

        build.renew()
        path = objects.HERE / objects.NAME
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{platform_of(path)}"
        build_data["force_include"][str(path)] = f"tidelog/compiled/{objects.NAME}"


def platform_of(path: Path) -> str:
    """The tag of the systems that an object runs on: on Linux, by the newest symbols of glibc it uses."""
    if not sys.platform.startswith("linux"):
        return re.sub(r"\W", "_", f"{sys.platform}_{platform.machine()}")
    versions = re.findall(rb"GLIBC_2\.(\d+)", path.read_bytes())
    return f"manylinux_2_{max([OLDEST_GLIBC, *map(int, versions)])}_{platform.machine()}"

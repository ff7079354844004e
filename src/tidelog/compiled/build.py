"""Building the shared object of kernels: Numba to LLVM bitcode, to machine code, linked with the caller in C.

`python -m tidelog.compiled.build` builds it for this source tree unless it is there and up to date. Its parts
are compiled side by side, each in a process of its own (`compiled.lowering`). The same sources give the same
file, byte by byte.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from tidelog.compiled import DEBUG
from tidelog.compiled.objects import (
    HERE,
    NAME,
    Sources,
    description,
    fault_of,
    find_sources,
    private,
    tell,
    with_foot,
)

# These take half the time and share most of their subroutines, so they are one part, and the others another.
INTERPRETERS = ("interpreter", "round_kernels", "rank_loop")
CPUS = {"x86_64": "x86-64-v2"}  # Intel since 2008, AMD since 2011; v3 was not faster
ARGUMENT = "{ i8, i8, i8, i8 }"
KERNEL = "{ ptr, ptr, ptr, ptr, ptr, i32, i32 }"


def build(path: Path, *, is_debug: bool = False) -> None:
    """Build the object at a path; progress is shown on standard error."""
    started = time.monotonic()
    sources = find_sources()
    with tempfile.TemporaryDirectory(prefix="tidelog-kernels-") as folder:
        parts = _lower(sources, Path(folder), is_debug)
        machine_code = Path(folder) / "kernels.o"
        machine_code.write_bytes(_emit(parts))
        linked = Path(folder) / NAME
        _link(machine_code, linked)
        about = {"digest": sources.digest, "files": sources.files, "debug": is_debug}
        content = with_foot(linked.read_bytes(), about)
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    scratch.write_bytes(content)
    scratch.chmod(0o755)
    scratch.replace(path)
    tell(f"built the kernels in {time.monotonic() - started:.0f} s: {path}")


# ---- kernels to bitcode, in several processes


def _parts(sources: Sources) -> list[list[str]]:
    first = [name for name in sources.modules if name.rpartition(".")[2] in INTERPRETERS]
    return [first, [name for name in sources.modules if name not in first]]


def _lower(sources: Sources, folder: Path, is_debug: bool) -> list[Path]:
    """Compile all parts side by side; give their files of bitcode."""
    settings = {
        "TIDELOG_BUILD": "1",
        "TIDELOG_DEBUG": "1" if is_debug else "",
        "NUMBA_CPU_NAME": CPUS.get(platform.machine(), "generic"),
        "NUMBA_CPU_FEATURES": "",
        "PYTHONHASHSEED": "0",  # the same object each time
        "PYTHONPATH": os.pathsep.join([str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")]),
    }
    files, running = [], []
    for place, modules in enumerate(_parts(sources)):
        files.append(folder / f"part{place}.bc")
        command = [sys.executable, "-m", "tidelog.compiled.lowering", str(files[-1]), *modules]
        with files[-1].with_suffix(".log").open("wb") as log:
            running.append(subprocess.Popen(command, stdout=log, env={**os.environ, **settings}))
    try:
        _wait(running, [file.with_suffix(".log") for file in files], _count_kernels(sources))
    finally:
        for process in running:
            process.kill()
            process.wait()
    if any(process.returncode for process in running):
        raise RuntimeError("the kernels could not be compiled")
    return files


def _wait(running: list[subprocess.Popen[bytes]], logs: list[Path], total: int) -> None:
    """Wait until all processes end well or one fails; a terminal is shown how many kernels are compiled."""
    if not sys.stderr.isatty():
        tell(f"compiling {total} kernels, this once …")
    while any(one.poll() is None for one in running) and not any(one.returncode for one in running):
        if sys.stderr.isatty():
            done = sum(log.read_bytes().count(b"\n") for log in logs)
            print(f"\rcompiling kernels, this once: {done} of {total} ", end="", file=sys.stderr, flush=True)
        time.sleep(0.1)
    if sys.stderr.isatty():
        print(file=sys.stderr)


def _count_kernels(sources: Sources) -> int:
    texts = ((HERE.parent / name).read_text(encoding="utf-8") for name in sources.files)
    return sum(text.count("\n@kernel(") for text in texts)


# ---- bitcode to machine code


def _emit(parts: list[Path]) -> bytes:
    """Make one object file of all parts, with the table of their kernels."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    tables = [json.loads(part.with_suffix(".json").read_text(encoding="utf-8")) for part in parts]
    whole = llvm.parse_assembly(_table([entry for table in tables for entry in table]))
    for part in parts:
        whole.link_in(llvm.parse_bitcode(part.read_bytes()))
    for function in whole.functions:
        if not function.is_declaration:
            function.linkage = "internal"
    for variable in whole.global_variables:
        if not variable.is_declaration and not variable.name.startswith(("llvm.", "tidelog_")):
            variable.linkage = "internal"
    cpu = CPUS.get(platform.machine(), "generic")
    target = llvm.Target.from_default_triple()
    machine = target.create_target_machine(cpu=cpu, features="", opt=3, reloc="pic", codemodel="default")
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=0))
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(whole, builder)
    whole.verify()
    code: bytes = machine.emit_object(whole)
    return code


def _table(entries: list[dict[str, Any]]) -> str:
    """The table that the caller in C reads, as text of LLVM."""
    lines, rows = [], []
    for place, entry in enumerate(sorted(entries, key=lambda entry: str(entry["name"]))):
        for name in ("name", "signature", "results"):
            text = entry[name]
            lines.append(f'@{name}{place} = internal constant [{len(text) + 1} x i8] c"{text}\\00"')
        arguments = ", ".join(
            f"{ARGUMENT} {{ i8 {ord(one['type'])}, i8 {one['dimensions']}, "
            f"i8 {int(one['is_strided'])}, i8 {int(one['is_const'])} }}"
            for one in entry["arguments"]
        )
        count = len(entry["arguments"])
        lines.append(f"@arguments{place} = internal constant [{count} x {ARGUMENT}] [{arguments}]")
        lines.append(f"declare i32 @{entry['symbol']}(ptr)")
        rows.append(
            f"{KERNEL} {{ ptr @name{place}, ptr @signature{place}, ptr @{entry['symbol']}, "
            f"ptr @arguments{place}, ptr @results{place}, i32 {count}, i32 {len(entry['results'])} }}"
        )
    lines.append(f"@tidelog_kernels = hidden constant [{len(rows)} x {KERNEL}] [{', '.join(rows)}]")
    lines.append(f"@tidelog_kernel_count = hidden constant i64 {len(rows)}")
    return "\n".join(lines)


# ---- machine code to a shared object


def compiler() -> list[str]:
    """The command of a C compiler: $CC, the system's, or the one in the package `ziglang`."""
    chosen = os.environ.get("CC", "")
    if chosen:
        return shlex.split(chosen)
    found = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if found is not None:
        return [found]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    raise RuntimeError("no C compiler was found to link the kernels: install one, or `pip install ziglang`")


def _link(machine_code: Path, output: Path) -> None:
    flags = ["-O2", "-shared", "-fPIC", "-fvisibility=hidden"]
    if sys.platform == "darwin":
        flags.append("-Wl,-undefined,dynamic_lookup")
    else:
        flags += ["-Wl,-s", "-Wl,-z,relro", "-Wl,-z,now", "-Wl,--build-id=none"]
    command = [*compiler(), *flags, "-o", str(output), str(HERE / "caller.c"), str(machine_code), "-lm"]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise RuntimeError(f"the kernels could not be linked:\n{shlex.join(command)}\n{result.stderr}")


def renew() -> None:
    """Build the object of this source tree, or that of debug mode, unless it is there and up to date."""
    path = HERE / NAME
    if DEBUG:
        private(is_debug=True)
    elif not path.exists() or fault_of(path) or description(path)["digest"] != find_sources().digest:
        build(path)


if __name__ == "__main__":
    try:
        renew()
    except RuntimeError as error:
        sys.exit(f"tidelog: error: {error}")

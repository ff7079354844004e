"""One part of the build, in a process of its own: Numba compiles the kernels of some modules to LLVM bitcode.

`python -m tidelog.compiled.lowering FILE MODULE…` writes the bitcode and, beside it, a table of the kernels.
A line on standard output tells of each kernel that is done.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.core import cgutils, cpu
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.np.arrayobj import populate_array

from tidelog.compiled.jit import KERNELS
from tidelog.records import dataclass

SCALARS = {"i64": types.int64, "u64": types.uint64, "bool": types.boolean}
ITEMS = {"i64": types.int64, "i32": types.int32, "u8": types.uint8, "bool": types.boolean}  # of arrays
LETTERS = {types.int64: "q", types.int32: "i", types.uint8: "B", types.uint64: "Q", types.boolean: "?"}
ARGUMENT = re.compile(r"(?P<const>const )?(?P<strided>strided )?(?P<number>\w+)(?P<shape>\[[:,]*])?")

WORD = ir.IntType(64)
STATUS = ir.IntType(32)


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument as the caller in C wants it described."""

    type: str
    dimensions: int
    is_strided: bool
    is_const: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """A kernel as the table in the shared object describes it."""

    name: str
    signature: str
    symbol: str
    arguments: tuple[Argument, ...]
    results: str


def lower(modules: list[str]) -> tuple[llvm.ModuleRef, list[Entry]]:
    """Compile the kernels of some modules; give them as one module of LLVM, and as a table."""
    for module in modules:
        importlib.import_module(module)
    # Machine code is made once, of everything. Numba tells functions apart by what this returns.
    cpu.CPUContext.get_executable = lambda *_: [].append
    context = cpu_target.target_context
    whole = llvm.parse_assembly(str(context.codegen()._create_empty_module("kernels")))
    libraries: dict[Any, None] = {}
    table = []
    for name, (function, signature) in sorted(KERNELS.items()):
        if name.rpartition(".")[0] not in modules:
            continue  # imported by one of them, and compiled with another part
        arguments, results = _parse(name, signature)
        function.compile(arguments)
        compiled = function.overloads[arguments]
        found = _results(compiled.signature.return_type)
        if found != results:
            raise SystemExit(
                f"{name} returns {_written(found)}, and {_written(results)} is declared: {signature}"
            )
        symbol = "kernel_" + name.replace(".", "_")
        wrapper = cgutils.normalize_ir_text(str(_wrapper(context, compiled.fndesc, symbol)))
        whole.link_in(llvm.parse_assembly(wrapper))  # before what it calls: else that is dropped as unused
        libraries[compiled.library] = None
        described = tuple(map(_described, arguments))
        table.append(Entry(name, signature, symbol, described, "".join(LETTERS[one] for one in results)))
        print(name, flush=True)
    for library in libraries:
        with global_compiler_lock:
            whole.link_in(library._get_module_for_linking(), preserve=True)
    return whole, table


def _parse(name: str, signature: str) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Read a signature: the types of arguments and results."""
    before, _, behind = signature.partition(" -> ")
    return (
        tuple(_type(name, text) for text in re.split(r", (?![^\[]*])", before) if text),
        tuple(_type(name, text) for text in behind.split(", ") if text),
    )


def _type(name: str, text: str) -> Any:
    found = ARGUMENT.fullmatch(text)
    known = SCALARS if found is None or found["shape"] is None else ITEMS
    if found is None or found["number"] not in known:
        raise SystemExit(f"the signature of {name} has the type {text!r}: there are {', '.join(known)}")
    number = known[found["number"]]
    if found["shape"] is None:
        return number
    layout = "A" if found["strided"] else "C"
    return types.Array(number, found["shape"].count(":"), layout, readonly=found["const"] is not None)


def _results(result: Any) -> tuple[Any, ...]:
    if isinstance(result, types.NoneType):
        return ()
    return tuple(result) if isinstance(result, types.BaseTuple) else (result,)


def _written(results: tuple[Any, ...]) -> str:
    names = {number: name for name, number in SCALARS.items()}
    return ", ".join(names.get(one, str(one)) for one in results) or "nothing"


def _described(argument: Any) -> Argument:
    if isinstance(argument, types.Array):
        is_strided, is_const = argument.layout != "C", not argument.mutable
        return Argument(LETTERS[argument.dtype], argument.ndim, is_strided, is_const)
    return Argument(LETTERS[argument], 0, False, False)


def _wrapper(context: Any, compiled: Any, symbol: str) -> ir.Module:
    """Write `status symbol(words)`, which reads arguments, calls the kernel, and writes results over them."""
    module = context.create_module(symbol)
    convention = context.call_conv
    callee_type = convention.get_function_type(compiled.restype, compiled.argtypes)
    callee = ir.Function(module, callee_type, compiled.llvm_func_name)
    wrapper = ir.Function(module, ir.FunctionType(STATUS, [WORD.as_pointer()]), symbol)
    builder = ir.IRBuilder(wrapper.append_basic_block())
    frame = _Frame(context, builder, wrapper.args[0])
    arguments = [frame.read(argument) for argument in compiled.argtypes]
    status, result = convention.call_function(builder, callee, compiled.restype, compiled.argtypes, arguments)
    with builder.if_then(status.is_error, likely=False):
        builder.ret(STATUS(1))
    frame.place = 0
    results = _results(compiled.restype)
    for place, one in enumerate(results):
        is_tuple = isinstance(compiled.restype, types.BaseTuple)
        frame.write(one, builder.extract_value(result, place) if is_tuple else result)
    builder.ret(STATUS(0))
    return module


class _Frame:
    """The words of a call, one after another."""

    def __init__(self, context: Any, builder: ir.IRBuilder, words: Any) -> None:
        self._context, self._builder, self._words = context, builder, words
        self.place = 0

    def _next(self) -> Any:
        self.place += 1
        return self._builder.gep(self._words, [WORD(self.place - 1)])

    def read(self, argument: Any) -> Any:
        """The value of an argument."""
        if isinstance(argument, types.Array):
            return self._read_array(argument)
        word = self._builder.load(self._next())
        return self._builder.icmp_unsigned("!=", word, WORD(0)) if argument == types.boolean else word

    def _read_array(self, argument: Any) -> Any:
        context, builder = self._context, self._builder
        item = context.get_data_type(argument.dtype)
        size = WORD(context.get_abi_sizeof(item))
        data = builder.inttoptr(builder.load(self._next()), item.as_pointer())
        shape = [builder.load(self._next()) for _ in range(argument.ndim)]
        if argument.layout == "C":
            strides = [size]
            for length in reversed(shape[1:]):
                strides.insert(0, builder.mul(strides[0], length))
        else:
            strides = [builder.load(self._next()) for _ in range(argument.ndim)]
        array = context.make_array(argument)(context, builder)
        populate_array(array, data=data, shape=shape, strides=strides, itemsize=size, meminfo=None)
        return array._getvalue()

    def write(self, result: Any, value: Any) -> None:
        """Write a result into the next word."""
        if result == types.boolean:
            value = self._builder.zext(self._context.get_value_as_data(self._builder, result, value), WORD)
        self._builder.store(value, self._next())


if __name__ == "__main__":
    output = Path(sys.argv[1])
    bitcode, entries = lower(sys.argv[2:])
    output.write_bytes(bitcode.as_bitcode())
    output.with_suffix(".json").write_text(json.dumps([asdict(entry) for entry in entries]), encoding="utf-8")

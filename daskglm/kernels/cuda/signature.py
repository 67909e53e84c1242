"""What a kernel's C signature says of its arguments, and the comparison with those of a launch.

CuPy passes on whatever it is given: float64 targets where the kernel reads `float*` would be read
as other numbers, and nothing would say so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

# A null pointer as an argument.
NULL = np.uint64(0)
TYPES: dict[str, type[Any]] = {
    "int": np.int32,
    "long long": np.int64,
    "float": np.float32,
    "double": np.float64,
    "unsigned": np.uint32,
    "signed char": np.int8,
    "unsigned char": np.uint8,
    "unsigned short": np.uint16,
}
KERNEL = r'extern "C" __global__ void (?:__launch_bounds__\([^)]*\)\s*)?%s\(([^)]*)\)'
# The default of a type that no option defines.
DEFAULT = re.compile(r"#ifndef (\w+)\n#define \1 (.+)\n")
QUALIFIERS = re.compile(r"\b(const|volatile|__restrict__)\b")


class Parameter(NamedTuple):
    """One parameter of a kernel: its name, whether it is a pointer, and its NumPy type.

    The type of a pointer is that of its target.
    """

    name: str
    pointer: bool
    kind: type[Any]


def parameters(source: str, name: str, options: Sequence[str]) -> tuple[Parameter, ...]:
    """Read the parameters of the kernel `name` from a CUDA source; -D options resolve types.

    Raises
    ------
    ValueError
        If the source has no such kernel, or for a type that has no NumPy type.
    """
    found = re.search(KERNEL % re.escape(name), source)
    if found is None:
        raise ValueError(f'no `extern "C" __global__ void {name}(...)` in the source')
    types = dict(DEFAULT.findall(source))
    for option in options:
        if option.startswith("-D") and "=" in option:
            name_of_type, _, chosen = option[2:].partition("=")
            types[name_of_type] = chosen
    return tuple(_parameter(name, text, types) for text in found[1].split(","))


def _parameter(kernel: str, text: str, types: dict[str, str]) -> Parameter:
    *words, name = QUALIFIERS.sub(" ", text).replace("*", " * ").split()
    pointer = words[-1] == "*"
    written = " ".join(words[:-1] if pointer else words)
    resolved = written
    while resolved in types:
        resolved = types[resolved]
    if resolved not in TYPES:
        raise ValueError(
            f"{kernel}: parameter {name} is of the type {written}, which is none of {sorted(TYPES)}"
        )
    return Parameter(name, pointer, TYPES[resolved])


def check(kernel: str, wanted: Sequence[Parameter], args: Sequence[Any], array: Any) -> None:
    """Raise TypeError unless the arguments of a launch are what the kernel's parameters say.

    Parameters
    ----------
    kernel : str
        For the message.
    wanted : sequence of Parameter
    args : sequence
        For a pointer a C-contiguous array of its dtype, or NULL; for a number a NumPy scalar of its
        type.
    array : type
        The class of device arrays.
    """
    if len(args) != len(wanted):
        raise TypeError(f"{kernel} takes {len(wanted)} arguments, was given {len(args)}")
    for place, (given, (_, pointer, kind)) in enumerate(zip(args, wanted, strict=True)):
        if pointer:
            if given is NULL or (
                type(given) is array and given.dtype == kind and given.flags.c_contiguous
            ):
                continue
        elif type(given) is kind:
            continue
        raise TypeError(
            f"{kernel}: argument {place + 1}, {_difference(wanted[place], given, array)}"
        )


def _difference(wanted: Parameter, given: Any, array: Any) -> str:
    kind = wanted.kind.__name__
    if not wanted.pointer:
        return f"{wanted.name}, must be a NumPy scalar of {kind}, was given {type(given).__name__}"
    if type(given) is not array:
        what = type(given).__name__
    elif given.dtype != wanted.kind:
        what = f"one of {given.dtype}"
    else:
        what = f"one of shape {given.shape} that is not contiguous"
    return f"{wanted.name}, must be a device array of {kind}, was given {what}"

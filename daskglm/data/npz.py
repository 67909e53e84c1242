"""Arrays in .npz files that anybody may have made: every header is checked before the numbers
behind it are read.

Arrays are stored, not compressed. So reading takes about as much memory as the file has bytes,
whatever it declares.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

# Most arrays of a file; ours have up to ten.
MOST_ARRAYS = 64
# Kinds of dtypes that are numbers.
NUMBERS = "biuf"


class Header(NamedTuple):
    """What a file says of an array before its numbers."""

    shape: tuple[int, ...]
    dtype: np.dtype
    fortran: bool


def write(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Content of an .npz file that `read` takes."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def read(
    source: Path | bytes, check: Callable[[Mapping[str, Header]], None] = lambda headers: None
) -> dict[str, np.ndarray]:
    """Read all arrays of a file.

    Parameters
    ----------
    source : path or bytes
        A file, or its content.
    check : callable
        Gets what the file says of its arrays before their numbers are read; raises ValueError for
        what is not wanted.

    Raises
    ------
    ValueError
        Where it is no such file, holds other than numbers, is compressed or cut short, or `check`
        says so.
    """
    whole = len(source) if isinstance(source, bytes) else source.stat().st_size
    try:
        with zipfile.ZipFile(io.BytesIO(source) if isinstance(source, bytes) else source) as held:
            members = _members(held, whole)
            headers = {name: _header(held, info) for name, info in members.items()}
            check(headers)
            return {name: _view(held.read(info), headers[name]) for name, info in members.items()}
    except (
        zipfile.BadZipFile,
        EOFError,
        OSError,
        NotImplementedError,
        RuntimeError,
        SyntaxError,
    ) as error:
        raise ValueError(f"it is no whole .npz file ({error})") from error


def array(content: bytes) -> np.ndarray:
    """Read the array in the content of an .npy file.

    Raises ValueError if it is not one of numbers, or not complete.
    """
    held = io.BytesIO(content)
    header = _parse(held, len(content), "it")
    return _view(content, header)


def _members(held: zipfile.ZipFile, whole: int) -> dict[str, zipfile.ZipInfo]:
    found = held.infolist()
    if len(found) > MOST_ARRAYS:
        raise ValueError(f"it has {len(found)} arrays, more than {MOST_ARRAYS}")
    members = {info.filename.removesuffix(".npy"): info for info in found}
    if len(members) != len(found) or not all(info.filename.endswith(".npy") for info in found):
        raise ValueError("it has files that are no arrays, or several of one name")
    for name, info in members.items():
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
            raise ValueError(
                f"array {name!r} is compressed or encrypted, which those of daskglm are not"
            )
    if sum(info.file_size for info in found) > whole:
        raise ValueError("its arrays have more bytes than the file")
    return members


def _header(held: zipfile.ZipFile, info: zipfile.ZipInfo) -> Header:
    with held.open(info) as member:
        return _parse(member, info.file_size, info.filename)


def _parse(member: IO[bytes], size: int, name: str) -> Header:
    """Read the header of an array of so many bytes."""
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    version = np.lib.format.read_magic(member)
    if version not in readers:
        raise ValueError(f"{name} has version {version} of the .npy format")
    shape, fortran, dtype = readers[version](member)
    left = size - member.tell()
    if dtype.kind not in NUMBERS:
        raise ValueError(f"{name} has dtype {dtype}, which is none of numbers")
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != left:
        raise ValueError(
            f"{name} declares {dtype} numbers of shape {shape}, but has {left} bytes of them"
        )
    return Header(shape, dtype, fortran)


def _view(content: bytes, header: Header) -> np.ndarray:
    size = math.prod(header.shape) * header.dtype.itemsize
    values = np.frombuffer(memoryview(content)[len(content) - size :], header.dtype)
    values = values.reshape(header.shape, order="F" if header.fortran else "C")
    return values.astype(header.dtype.newbyteorder("="))

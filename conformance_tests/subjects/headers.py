"""Headers of safetensors files: names, types and shapes of arrays, none of which is read.

A file begins with the length of its header (8 bytes, little-endian). The header is JSON: for each array its type, its
shape and the place of its numbers behind the header. See https://huggingface.co/docs/safetensors.
"""

import json
from collections.abc import Iterable, Mapping
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from conformance_tests.errors import SubjectError, one_line

LENGTH = 8
"""The bytes before a header, which tell its length."""

MOST_BYTES = 100_000_000
"""The longest header that the format allows."""

FLOATS = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16} | {
    f"F8_{name[7:].upper()}": getattr(torch, name) for name in dir(torch) if name.startswith("float8_")
}
"""The types of real numbers, as headers name them; arrays of whole numbers do not count as weights."""


def shapes_of_files(files: Iterable[Path]) -> dict[str, Tensor]:
    """Return the weights in some files, by name, on the device meta.

    Raises:
        SubjectError: if a file is not what it should be, or two files hold one name.
    """
    found: dict[str, Tensor] = {}
    where: dict[str, Path] = {}
    for file in files:
        for name, entry in header_of(file).items():
            if name in where:
                raise SubjectError(f"both {where[name]} and {file} hold {name}: a name stands in one file")
            where[name] = file
            if entry["dtype"] in FLOATS:
                found[name] = torch.empty(entry["shape"], dtype=FLOATS[entry["dtype"]], device="meta")
    return found


def header_of(file: Path) -> dict[str, dict[str, Any]]:
    """Return the arrays that a file describes, by name.

    Raises:
        SubjectError: if it has no such header, or ends before its arrays do.
    """
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(LENGTH), "little")
            if not 0 < length <= min(MOST_BYTES, size - LENGTH):
                raise SubjectError(
                    f"{file} is not a safetensors file: it has {size} bytes, and its header takes {length}"
                )
            header = json.loads(stream.read(length))
        arrays = {name: entry for name, entry in header.items() if name != "__metadata__"}
        ends = [end_of(entry) for entry in arrays.values()]
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as fault:
        raise SubjectError(f"{file} is not a safetensors file: its header cannot be read: {one_line(fault)}") from None
    held, described = size - LENGTH - length, max(ends, default=0)
    if held != described:
        kind = "is cut off" if held < described else "holds more than it describes"
        raise SubjectError(f"{file} {kind}: its arrays take {described:,} bytes, and {held:,} stand behind its header")
    return arrays


def end_of(entry: Mapping[str, Any]) -> int:
    """Return where the numbers of an array end, counted from the end of the header.

    Raises:
        ValueError: if they do not take as many bytes as its shape needs.
    """
    begin, end = map(int, entry["data_offsets"])
    numbers = prod(int(size) for size in entry["shape"])
    known = FLOATS.get(entry["dtype"])
    taken = numbers * known.itemsize if known is not None else end - begin
    if begin < 0 or end - begin != taken or any(size < 0 for size in entry["shape"]):
        raise ValueError(f"{entry['dtype']} of shape {entry['shape']} does not take the bytes {begin} to {end}")
    return end


def files_of_index(index: Path, weight_map: Mapping[str, str]) -> list[Path]:
    """Return the files that an index names, once each array is where it says.

    Args:
        index: the file of the index, for messages.
        weight_map: the name of the file of each array.

    Raises:
        SubjectError: if a file or an array is not there.
    """
    files = {name: index.parent / name for name in dict.fromkeys(weight_map.values())}
    absent = [name for name, file in files.items() if not file.is_file()]
    if absent:
        raise SubjectError(f"{index} names {absent[0]}, which is not there: {len(absent)} of {len(files)} are missing")
    held = {name: header_of(file).keys() for name, file in files.items()}
    for array, name in weight_map.items():
        if array not in held[name]:
            raise SubjectError(f"{index} says that {array} is in {name}, which does not hold it")
    for name, arrays in held.items():
        if unlisted := [array for array in arrays if weight_map.get(array) != name]:
            raise SubjectError(f"{files[name]} holds {unlisted[0]}, which {index} does not say")
    return list(files.values())

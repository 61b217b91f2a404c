"""Safetensors are read by their headers: names and shapes of any size, and what is wrong with a file in one line."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import pytest
import torch

from conformance_tests import check
from conformance_tests.errors import SubjectError
from conformance_tests.reports.report import TargetReport
from conformance_tests.subjects.headers import files_of_index, header_of, shapes_of_files

BYTES = {"F64": 8, "F32": 4, "BF16": 2, "I64": 8, "F8_E4M3": 1}

Shapes = Mapping[str, Sequence[int]]


def header(shapes: Shapes, dtype: str) -> dict[str, Any]:
    """The entries of arrays that stand one behind the other."""
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, shape in shapes.items():
        kind = "I64" if name.endswith("position_ids") else dtype
        end = at + BYTES[kind] * prod(shape)
        entries[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [at, end]}
        at = end
    return entries


def stored(file: Path, shapes: Shapes, dtype: str = "BF16") -> Path:
    """A file of arrays of which no number is written: what was never written takes no room."""
    entries = header(shapes, dtype)
    text = json.dumps(entries).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text)
    os.truncate(file, 8 + len(text) + max(e["data_offsets"][1] for e in entries.values() if "shape" in e))
    return file


def bert_layer(d: int, f: int, number: int) -> dict[str, Sequence[int]]:
    maps = {f"attention.self.{part}": (d, d) for part in ("query", "key", "value")}
    maps |= {"attention.output.dense": (d, d), "intermediate.dense": (f, d), "output.dense": (d, f)}
    shapes: dict[str, Sequence[int]] = {}
    for name, shape in maps.items():
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    for norm in ("attention.output.LayerNorm", "output.LayerNorm"):
        shapes |= {f"{norm}.weight": (d,), f"{norm}.bias": (d,)}
    return {f"bert.encoder.layer.{number}.{name}": shape for name, shape in shapes.items()}


def bert_entrance(d: int) -> dict[str, Sequence[int]]:
    tables = {"word_embeddings": (31, d), "position_embeddings": (29, d), "token_type_embeddings": (2, d)}
    shapes: dict[str, Sequence[int]] = {f"bert.embeddings.{name}.weight": shape for name, shape in tables.items()}
    shapes |= {"bert.embeddings.LayerNorm.weight": (d,), "bert.embeddings.LayerNorm.bias": (d,)}
    return shapes | {"bert.embeddings.position_ids": (1, 29), "cls.predictions.bias": (31,)}


def in_shards(folder: Path, shards: Sequence[Shapes]) -> Path:
    """A folder with a file for each part, and the index of them all."""
    folder.mkdir(exist_ok=True)
    names = [f"model-{n + 1:05d}-of-{len(shards):05d}.safetensors" for n in range(len(shards))]
    for name, shapes in zip(names, shards, strict=True):
        stored(folder / name, shapes)
    listed = {array: name for name, shapes in zip(names, shards, strict=True) for array in shapes}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": listed}))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small BERT in three files."""
    return in_shards(tmp_path / "model", [bert_entrance(20), bert_layer(20, 28, 0), bert_layer(20, 28, 1)])


def judged(place: Path, profile: str = "auto") -> TargetReport:
    return check(str(place), profile, level="static").targets[0]


# What is read --------------------------------------------------------------------------


def test_shapes_are_those_that_other_code_has_written(tmp_path: Path) -> None:
    """The package safetensors writes the file; arrays of whole numbers do not count."""
    safetensors = pytest.importorskip("safetensors.torch", reason="needs the extra `transformers`")
    arrays = {
        "a": torch.ones(3, 5),
        "b": torch.ones(7, dtype=torch.bfloat16),
        "c": torch.ones(2, 3, 1, dtype=torch.float64),
        "ids": torch.arange(5),
        "none": torch.ones(0, 3),
        "number": torch.ones(()),
    }
    safetensors.save_file(arrays, tmp_path / "file.safetensors", {"format": "pt"})
    found = shapes_of_files([tmp_path / "file.safetensors"])
    assert {name: (w.shape, w.dtype, w.device.type) for name, w in found.items()} == {
        name: (w.shape, w.dtype, "meta") for name, w in arrays.items() if name != "ids"
    }


def test_a_trillion_parameters_are_judged_by_headers_that_describe_them(tmp_path: Path) -> None:
    """In 129 files that take a few hundred kilobytes on the disk, and two terabytes of addresses."""
    d, N = 25_600, 128
    place = in_shards(tmp_path / "large", [bert_entrance(d), *(bert_layer(d, 4 * d, number) for number in range(N))])
    (place / "config.json").write_text(json.dumps({"num_attention_heads": 160, "hidden_act": "gelu"}))
    report = judged(place, "bert")
    assert report.verdict == "conformant", report.notes
    number = N * (12 * d**2 + 13 * d) + (31 + 29 + 2 + 2) * d + 31
    assert number > 10**12
    assert report.notes[0].startswith(f"{number:,} parameters")
    assert judged(place).profile["choices"].items() >= {"num_layers": N, "num_heads": 160, "activation": "gelu"}.items()


def test_weights_alone_tell_what_has_parameters(folder: Path) -> None:
    """As a folder, or each file by itself if it holds a whole encoder; a configuration states the rest."""
    report = judged(folder)
    assert report.verdict == "conformant", report.notes
    assert report.profile["choices"].items() >= {"input": "embedded", "num_layers": 2, "d_model": 20}.items()
    assert {"num_heads", "eps", "activation"} <= report.profile["open"].keys()
    whole = {n: s for part in (bert_entrance(20), bert_layer(20, 28, 0)) for n, s in part.items()}
    file = stored(folder.parent / "whole.safetensors", whole, "F32")
    assert judged(file).profile["choices"].items() >= {"d_ff": 28, "embedding_norm": "norm"}.items()
    (folder / "config.json").write_text(json.dumps({"num_attention_heads": 4, "layer_norm_eps": 1e-12}))
    assert judged(folder).profile["choices"].items() >= {"num_heads": 4, "eps": 1e-12}.items()


def test_a_file_does_not_show_whether_its_table_of_positions_is_learned(tmp_path: Path) -> None:
    """Buffers are stored like parameters: sinusoids that are kept as one do not refute a profile without parameters."""
    shapes = {n.replace("bert.", ""): s for n, s in bert_layer(20, 28, 0).items()}
    file = stored(tmp_path / "file.safetensors", shapes | {"embed.weight": (31, 20), "pe.pe": (1, 29, 20)})
    profile = tmp_path / "profile.toml"
    profile.write_text('projections = "affine"\noutput = "affine"\n')
    assert judged(file, str(profile)).verdict == "conformant"
    report = judged(file)
    assert {"sinusoidal", "learned"} <= set(report.profile["open"]["position"])
    profile.write_text('projections = "affine"\noutput = "affine"\nposition = "learned"\n')
    assert judged(file, str(profile)).verdict == "conformant"
    absent = stored(tmp_path / "absent.safetensors", shapes | {"embed.weight": (31, 20)})
    assert "P is missing" in {r.id: r.message for r in judged(absent, str(profile)).of("fail")}["ENC-17"]


def test_one_file_of_several_is_chosen_as_transformers_does(folder: Path) -> None:
    """``model.safetensors`` comes before an index; without either, nothing tells which one is meant."""
    stored(folder / "model.safetensors", bert_entrance(20) | bert_layer(20, 28, 0))
    assert judged(folder).profile["choices"]["d_ff"] == 28
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").unlink()
    report = judged(folder)
    assert report.verdict == "error"
    assert "has 3 files of weights and 0 that say which: name one file" in report.notes[0]


# What is wrong with a file -------------------------------------------------------------


def refused(file: Path) -> str:
    """The one line with which a file is refused."""
    with pytest.raises(SubjectError) as refusal:
        header_of(file)
    said = str(refusal.value)
    assert "\n" not in said
    assert said.startswith(str(file))
    return said.removeprefix(f"{file} ")


def test_a_file_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    """In its arrays, in its header or before; nor may it be longer than it says."""
    file = stored(tmp_path / "file.safetensors", {"a": (3, 5)}, "F32")
    size = file.stat().st_size
    os.truncate(file, size - 1)
    assert refused(file) == "is cut off: its arrays take 60 bytes, and 59 stand behind its header"
    os.truncate(file, size + 4)
    assert refused(file) == "holds more than it describes: its arrays take 60 bytes, and 64 stand behind its header"
    os.truncate(file, 30)
    assert refused(file) == f"is not a safetensors file: it has 30 bytes, and its header takes {size - 8 - 60}"
    os.truncate(file, 0)
    assert refused(file) == "is not a safetensors file: it has 0 bytes, and its header takes 0"
    file.unlink()
    assert refused(file).startswith("is not a safetensors file: its header cannot be read: FileNotFoundError")


WRONG = {
    "no JSON": b"{",
    "no text": b"\xff\xfe",
    "a list": b"[]",
    "no entry": b'{"a": 3}',
    "no shape": b'{"a": {"dtype": "F32", "data_offsets": [0, 4]}}',
    "no offsets": b'{"a": {"dtype": "F32", "shape": [1]}}',
    "other bytes": b'{"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}',
    "negative": b'{"a": {"dtype": "F32", "shape": [-1, -1], "data_offsets": [0, 4]}}',
    "words": b'{"a": {"dtype": "F32", "shape": ["x"], "data_offsets": [0, 4]}}',
}


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_a_header_that_cannot_be_read_is_refused(text: bytes, tmp_path: Path) -> None:
    file = tmp_path / "file.safetensors"
    file.write_bytes(len(text).to_bytes(8, "little") + text + bytes(8))
    assert refused(file).startswith("is not a safetensors file: its header cannot be read: ")


def test_a_pickle_under_the_name_of_safetensors_is_refused(tmp_path: Path) -> None:
    """Its first bytes are no length of a header."""
    torch.save({"a": torch.ones(3)}, tmp_path / "file.safetensors")
    assert refused(tmp_path / "file.safetensors").startswith("is not a safetensors file: it has ")


def test_a_name_stands_in_one_file(tmp_path: Path) -> None:
    one, other = (stored(tmp_path / name, {"a": (3,)}) for name in ("one.safetensors", "other.safetensors"))
    with pytest.raises(SubjectError, match=f"^both {re.escape(str(one))} and {re.escape(str(other))} hold a: "):
        shapes_of_files([one, other])


def test_an_index_is_held_against_the_files_that_it_names(folder: Path) -> None:
    """Each array is where it says, and nothing else is there."""
    index = folder / "model.safetensors.index.json"
    listed = json.loads(index.read_text())["weight_map"]
    assert len(files_of_index(index, listed)) == 3
    name, first, last = "bert.embeddings.LayerNorm.bias", *(f"model-0000{n}-of-00003.safetensors" for n in (1, 3))
    moved = listed | {name: last}
    lost = {array: file for array, file in listed.items() if array != name}
    for wrong, said in {
        f"{index} says that {name} is in {last}, which does not hold it": moved,
        f"{folder / first} holds {name}, which {index} does not say": lost,
    }.items():
        with pytest.raises(SubjectError, match=f"^{re.escape(wrong)}$"):
            files_of_index(index, said)
    (folder / last).unlink()
    report = judged(folder)
    assert (report.verdict, len(report.notes)) == ("error", 1)
    assert report.notes[0] == f"{index} names {last}, which is not there: 1 of 3 are missing"


def test_a_folder_without_weights_and_configuration_is_named(tmp_path: Path) -> None:
    said = judged(tmp_path).notes[0]
    assert said == f"{tmp_path} has neither *.safetensors with weights nor a config.json that describes some"
    (tmp_path / "pytorch_model.bin").write_bytes(b"not opened")
    assert "is a pickle" in judged(tmp_path).notes[0]


@pytest.mark.parametrize("text", ["{", "[]", "3"])
def test_a_configuration_that_cannot_be_read_is_refused(text: str, folder: Path) -> None:
    (folder / "config.json").write_text(text)
    report = judged(folder)
    assert report.verdict == "error"
    assert report.notes[0].startswith(f"{folder / 'config.json'} does not hold a configuration: ")

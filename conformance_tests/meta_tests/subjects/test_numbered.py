"""Numbers in the names of parts: which are layers, and which are parts of layers."""

from typing import Any

import pytest

from conformance_tests.subjects.numbered import (
    beside_each_other,
    kernel,
    layers_of,
    made_name,
    parts_of_layers,
    telling_names,
)


@pytest.mark.parametrize(
    ("paths", "layers"),
    [
        ([("block1", "norm", "scale"), ("block2", "norm", "scale")], {("block1",), ("block2",)}),
        ([("block_0", "norm", "scale"), ("block_1", "norm", "scale")], {("block_0",), ("block_1",)}),
        ([("norm1", "scale"), ("norm2", "scale")], set()),
        ([("block1", "norm", "scale")], set()),
        ([("block1", "attention", "query", "kernel")], {("block1",)}),
        ([("layers", 0, "norm", "scale"), ("layers", 1, "norm", "scale")], set()),
        (
            [("block1", "heads1", "q", "kernel"), ("block2", "heads1", "q", "kernel")],
            {("block1",), ("block2",)},
        ),
        ([("a", "block1", "norm", "scale"), ("a", "block2", "norm", "scale")], {("a", "block1"), ("a", "block2")}),
        ([("block1", "norm", "scale"), ("block2", "scale")], {("block1",)}),
    ],
)
def test_layers_are_the_outermost_numbered_parts_that_have_parts(paths: Any, layers: set[Any]) -> None:
    """With parts of their own; an only one needs parts of parts, since one number may be anything."""
    assert layers_of(paths) == layers


def numbered(*names: str, numbers: range = range(2), parent: tuple[str, ...] = ()) -> set[Any]:
    return {(*parent, f"{name}_{number}") for name in names for number in numbers}


FOUR = ("attention", "fc1", "fc2", "norm")


@pytest.mark.parametrize(
    ("prefixes", "parts"),
    [
        (numbered(*FOUR), numbered(*FOUR)),
        (numbered(*FOUR[:3]), set()),
        (numbered(*FOUR, numbers=range(1)), set()),
        (numbered(*FOUR[:3]) | numbered("norm", numbers=range(3)), set()),
        (numbered(*FOUR, "out") | numbered("head", numbers=range(3)), numbered(*FOUR, "out")),
        (numbered(*FOUR, parent=("encoder",)), numbered(*FOUR, parent=("encoder",))),
        (numbered(*FOUR[:2], parent=("a",)) | numbered(*FOUR[2:], parent=("b",)), set()),
        (numbered("Dense", "Norm", "Attention", "Embed"), set()),
    ],
)
def test_four_parts_with_the_same_numbers_side_by_side_are_parts_of_layers(prefixes: set[Any], parts: set[Any]) -> None:
    """Of one owner, and of two layers at least; what linen has counted is counted by class and not by layer."""
    assert parts_of_layers(prefixes) == parts


def test_numbers_are_compared_as_sets() -> None:
    """Four names with 3 and 5, one with 3 alone."""
    numbers = {((), name): {3, 5} for name in "abcd"} | {((), "e"): {3}}
    expected = {(f"{name}_{n}",) for name in "abcd" for n in (3, 5)}
    assert set(beside_each_other(numbers)) == expected


SHAPES: dict[Any, tuple[int, ...]] = {
    ("L", "Dense_0", "kernel"): (5, 3),
    ("L", "Dense_1", "kernel"): (3, 5),
    ("L", "LayerNorm_0", "scale"): (3,),
    ("L", "LayerNorm_1", "scale"): (3,),
    ("L", "Attention_0", "query", "kernel"): (3, 3),
    ("L", "Square_0", "kernel"): (3, 3),
    ("L", "Square_1", "kernel"): (3, 3),
    ("L", "Other_0", "kernel"): (5, 7),
    ("L", "Other_1", "kernel"): (5, 7),
    ("L", "named", "kernel"): (3, 3),
}
PREFIXES = {path[:end] for path in SHAPES for end in range(1, 5)}


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("Dense_0", "linear_2"),
        ("Dense_1", "linear_1"),
        ("LayerNorm_0", "LayerNorm_1"),
        ("LayerNorm_1", "LayerNorm_2"),
        ("Attention_0", "Attention"),
        ("Square_0", "Square_made0"),
        ("Square_1", "Square_made1"),
        ("Other_1", "Other_made1"),
        ("named", ""),
    ],
)
def test_of_two_maps_the_one_that_reads_the_width_of_the_norms_is_the_first(name: str, made: str) -> None:
    """Norms have 3: Dense_1 reads 3; square maps, and others, keep the number in which they were made."""
    assert made_name(("L", name), PREFIXES, SHAPES) == made


def test_norms_of_several_widths_tell_nothing() -> None:
    shapes = SHAPES | {("L", "LayerNorm_2", "scale"): (5,)}
    assert made_name(("L", "Dense_0"), PREFIXES, shapes) == "Dense_made0"


def test_maps_without_any_norm_tell_nothing() -> None:
    shapes = {path: shape for path, shape in SHAPES.items() if path[-1] != "scale"}
    assert made_name(("L", "Dense_0"), PREFIXES, shapes) == "Dense_made0"


def test_maps_of_scanned_layers_have_one_axis_more() -> None:
    """All arrays have 7 layers first, the scale of a norm (7, 3) as well: the map (7, 3, 5) reads 3."""
    shapes: dict[Any, tuple[int, ...]] = {path: (7, *shape) for path, shape in SHAPES.items()}
    assert made_name(("L", "Dense_0"), PREFIXES, shapes) == "linear_2"
    assert kernel(("L", "Dense_0"), shapes, axes=3) == (5, 3)
    assert kernel(("L", "Dense_0"), shapes, axes=2) == (0, 0)
    assert kernel(("L", "absent"), shapes, axes=2) == (0, 0)


def test_a_name_has_the_number_of_its_layer_as_a_part_of_its_own() -> None:
    """What is neither layer nor counted stays as it is, numbers in lists too."""
    paths: dict[Any, tuple[int, ...]] = {
        ("encoder", "block_0", "norm", "scale"): (3,),
        ("encoder", "block_1", "norm", "scale"): (3,),
        ("blocks", 1, "norm1", "scale"): (3,),
    }
    assert telling_names(paths) == ["encoder.block.0.norm.scale", "encoder.block.1.norm.scale", "blocks.1.norm1.scale"]
    split: dict[Any, tuple[int, ...]] = {("stack", f"{name}_{n}", "kernel"): (3, 3) for n in (3, 5) for name in FOUR}
    assert telling_names(split) == [f"stack.layers.{n}.{name}.kernel" for n in (3, 5) for name in FOUR]


def test_names_that_several_paths_would_have_are_given_to_none() -> None:
    """Linen counts the maps of two layers on: Dense_0 and Dense_2 read the width of the norms."""
    paths: dict[Any, tuple[int, ...]] = {("LayerNorm_0", "scale"): (3,)}
    paths |= {(f"Dense_{n}", "kernel"): (3, 5) if n % 2 == 0 else (5, 3) for n in range(4)}
    assert telling_names(paths)[1:] == [f"Dense_{n}.kernel" for n in range(4)]

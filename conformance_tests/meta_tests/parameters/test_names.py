"""Names are split into words, and the numbers in all of them tell the layers."""

import pytest

from conformance_tests.parameters.evidence import Words
from conformance_tests.parameters.names import common_owner, is_beside, layers_of, words


@pytest.mark.parametrize(
    ("name", "spoken"),
    [
        ("layers.0.self_attn.q_proj.weight", "layer 0 self attention q project weight"),
        ("layers/0/selfAttn/QProj/kernel", "layer 0 self attention q project weight"),
        ("encoder.layer.3.attention.output.LayerNorm.beta", "encoder layer 3 attention o layer norm bias"),
        ("Wq", "weight q"),
        ("WO", "weight o"),
        ("bk", "b k"),
        ("f1w", "final 1 weight"),
        ("qkv", "q k v"),
        ("query_key_value", "q k v"),
        ("lnf_g", "norm final gate"),
        ("unifyheads", "o heads"),
        ("feedforward", "feed forward"),
        ("wpe", "position"),
        ("alibi_slopes", "alibi slopes"),
        ("", ""),
    ],
)
def test_a_name_is_split_into_known_words(name: str, spoken: str) -> None:
    """However it is spelled; a word that nobody knows remains what it is."""
    assert " ".join(words(name)) == spoken


@pytest.mark.parametrize(
    "name", ["pooler.dense.weight", "lm_head.bias", "cls.predictions.bias", "crossattention.q", "w2e_query"]
)
def test_parts_on_top_are_beside_the_encoder(name: str) -> None:
    assert is_beside(name)


@pytest.mark.parametrize("name", ["layers.0.multi_head_attention.q", "attn.heads.0.key", "norm.weight", "embed_tokens"])
def test_parts_of_an_encoder_are_not_beside_it(name: str) -> None:
    """Several heads are no head."""
    assert not is_beside(name)


def test_common_owner_has_every_array() -> None:
    assert common_owner(["bert.encoder.a.w", "bert.encoder.b.w", "bert.encoder.n"]) == ["bert", "encoder"]
    assert common_owner(["bert.a", "norm"]) == []


PARTS = ("attn.q", "attn.o", "ff.1", "ff.2", "norm.1", "norm.2")


def layers(*names: str) -> dict[str, int]:
    """Return the layer by name; arrays of norms are vectors."""
    spoken: dict[str, Words] = {name: words(name) for name in names}
    found = layers_of(spoken, [name for name in names if "norm" not in name])
    return {name: layer for name, (layer, _) in found.items()}


@pytest.mark.parametrize(
    "spelled",
    [
        "layers.{l}.{part}",
        "0.model.encoder.layer_{l}.{part}",
        "l{l}_{part}",
        "{owner}s.{l}.{rest}",
        "{owner}_{l}.{rest}",
    ],
)
@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("depth", [2, 3])
def test_number_of_the_layer_is_found_wherever_it_stands(spelled: str, start: int, depth: int) -> None:
    """Beside numbers of maps and norms, and with an embedding outside."""
    names: dict[str, int] = {}
    for l in range(depth):
        for part in PARTS:
            owner, _, rest = part.partition(".")
            names[spelled.format(l=l + start, part=part, owner=owner, rest=rest)] = l
    assert layers("embed.weight", "final_norm", *names) == names


def test_heads_are_no_layers() -> None:
    """They have three maps each, and a layer has four."""
    names = [f"heads.{h}.{letter}" for h in range(4) for letter in "qkv"]
    assert layers(*names, "out", "ff.1", "ff.2") == {}


def test_list_of_twice_as_many_norms_holds_two_of_each_layer() -> None:
    names = [f"{part}s.{l}" for l in range(2) for part in ("qkv", "out", "up", "down")]
    assert {
        name: layer for name, layer in layers(*names, *(f"norms.{i}" for i in range(4))).items() if "norm" in name
    } == {
        "norms.0": 0,
        "norms.1": 0,
        "norms.2": 1,
        "norms.3": 1,
    }

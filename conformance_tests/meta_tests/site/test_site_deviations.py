"""The gallery of what goes wrong: every deviation has its address, its card and its picture."""

from math import inf, nan, sqrt

import pytest
import torch

from conformance_tests.deviations import deviations
from conformance_tests.meta_tests.site.site import Site, need_site
from encoder_spec.equation import equations

need_site()

pytestmark = pytest.mark.usefixtures("generators_on_path")


def test_every_deviation_keeps_its_address_on_the_list_and_has_a_card_on_the_page_of_its_topic(site: Site) -> None:
    for id, deviation in deviations().items():
        page = f"wrong-{equations()[deviation.of[0]].topic}.html"
        assert site.pages["what-goes-wrong.html"].anchors.count(id) == 1, id
        assert f"{page}#{id}" in site.pages["what-goes-wrong.html"].links
        card = site.pages[page].html.partition(f'<h3><a class="anchor" id="{id}"')[2].partition("<h3>")[0]
        assert "The lines that cause it, beside the right ones" in card, id
        assert 'class="highlight"' in card, f"{id} shows no code"


def test_scores_without_their_scale_are_larger_by_the_root_of_the_width() -> None:
    """The small encoder has d_model = 24 and 4 heads, so d_k = 6: what is not divided by √6 is √6 times as large."""
    from generators.effects import effect_of

    found = effect_of(deviations()["scores-not-scaled"], "vaswani-2017")
    assert found is not None
    torch.testing.assert_close(found.wrong, sqrt(6) * found.right)
    assert found.right.shape[0] == found.right.shape[1]


def test_an_inverted_mask_leaves_what_the_mask_should_hide() -> None:
    """Where one has −∞ the other has a score, and the other way round."""
    from generators.effects import effect_of

    found = effect_of(deviations()["mask-inverted"], "vaswani-2017")
    assert found is not None
    assert torch.equal(found.right.isinf(), found.wrong.isfinite())
    assert 0 < int(found.right.isinf().sum()) < found.right.numel()


@pytest.mark.parametrize(
    ("id", "within", "words", "shows"),
    [
        ("class-token-added", "vaswani-2017", "The output has another shape.", False),
        ("segments-missing", "bert", "The output moves at every position", True),
        ("mask-poisons-with-nan", "bert", "One sequence is nothing but padding. The output moves", True),
        ("padded-columns-dropped", "bert", "Every sequence ends in padding. The output has another shape.", False),
        ("activation-capped-at-6", "vaswani-2017", "The inner features are 30 times larger. The output moves", True),
        ("softmax-without-shift", "bert", "Queries and keys are 30 times larger. The output moves", True),
        ("norm-variance-in-one-pass", "bert", "The biases of the sublayers are larger by 10⁶. The output", True),
        ("memory-order-ignored", "torch-post-ln", "The input lies in memory in another order. The output", True),
        ("input-changed-in-place", "bert", "stays the same. What the caller handed in is changed.", False),
        ("weights-detached", "bert", "that by <code>layers.0.W_Q</code> changes by 100 %.", True),
    ],
)
def test_a_deviation_is_shown_where_it_changes_something(id: str, within: str, words: str, shows: bool) -> None:
    """With weights and inputs in which it shows; what no output shows, a gradient may, or the caller's data."""
    from generators.effects import effect_of

    found = effect_of(deviations()[id], within)
    assert found is not None
    assert words in found.says
    assert found.shows == shows


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ([[0.25, nan], [0.0, 0.5]], "The output moves at 2 of 3 positions, by up to 50 % of its size."),
        ([[0.002, 0.001]], "The output moves at every position, by up to 0.2 % of its size."),
        ([[0.0, 1e-15]], "Here the output stays the same."),
        ([[inf, 0.1]], "The output moves at every position; some of it is not a number."),
        ([], "The output has another shape."),
    ],
)
def test_the_change_of_the_output_is_told_in_words(change: list[list[float]], words: str) -> None:
    """What is padded (NaN) does not count."""
    from generators.effects import told

    assert told(torch.tensor(change)) == words


def test_maps_share_one_scale_and_leave_infinities_empty() -> None:
    """Opaque is 255 = the largest magnitude of both; half of it is 128, and −∞ is transparent."""
    import base64
    import io
    import re

    from generators.heatmaps import side_by_side
    from PIL import Image

    html = side_by_side(torch.tensor([[1.0, -inf]]), torch.tensor([[-2.0, 0.5]]), "scores")
    images = [
        Image.open(io.BytesIO(base64.b64decode(data))).convert("RGBA")
        for data in re.findall(r"base64,([^\"]+)\"", html)
    ]
    pixels = [[image.getpixel((i, 0)) for i in (0, 1)] for image in images]
    assert [[p[3] for p in row] for row in pixels] == [[128, 0], [255, 64]]
    (blue, _), (red, _) = pixels
    assert blue[2] > blue[0]
    assert red[0] > red[2]
    assert 'alt="scores, right: 1 × 2 numbers from 1 to 1"' in html

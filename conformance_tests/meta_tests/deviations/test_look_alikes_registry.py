"""How another computation of an equation comes among the look-alikes."""

import pytest
from torch import Tensor

from conformance_tests.deviations import Deviation, deviations, look_alikes
from conformance_tests.deviations.look_alikes import look_alike
from encoder_spec.equation import Equation


def halved_twice(Q: Tensor, K: Tensor) -> Tensor:
    """Half of the double.

    More is not said.
    """
    return 2 * Q @ K.mT / 2


@pytest.fixture
def entered(monkeypatch: pytest.MonkeyPatch) -> dict[str, Deviation]:
    """No look-alikes in the place of the real ones."""
    empty: dict[str, Deviation] = {}
    monkeypatch.setattr(look_alikes, "LOOK_ALIKES", empty)
    return empty


def test_a_look_alike_is_written_like_a_deviation_that_nothing_notices(entered: dict[str, Deviation]) -> None:
    """In the slot of the first equation, by the first line of its docstring, and not in the catalogue."""
    assert look_alike("halved", ("attention.scores", "attention.scores_unscaled"))(halved_twice) is halved_twice
    found = entered["halved"]
    assert (found.id, found.definition, found.noticed_by) == ("halved", "Half of the double.", ())
    assert found.of == ("attention.scores", "attention.scores_unscaled")
    equation = found.replaces["scores"]
    assert isinstance(equation, Equation)
    assert (list(found.replaces), equation.slot, equation.variant) == (["scores"], "scores", "halved")
    assert (equation.id, equation.function) == ("look_alike.halved", halved_twice)
    assert "halved" not in deviations()


def test_a_look_alike_is_entered_once_and_with_a_docstring(entered: dict[str, Deviation]) -> None:
    def silent(Q: Tensor, K: Tensor) -> Tensor:
        return Q @ K.mT

    look_alike("one", "attention.scores")(halved_twice)
    first = entered["one"]
    for id, function in (("one", halved_twice), ("other", silent)):
        with pytest.raises(ValueError, match=f"^look-alike {id} is defined twice, or not described$"):
            look_alike(id, "attention.scores")(function)
    assert entered == {"one": first}


def test_all_look_alikes_are_found_under_their_ids() -> None:
    """Several topics, each time the same; none has the id of a deviation."""
    found = look_alikes.look_alikes()
    assert found is look_alikes.look_alikes()
    assert all(id == one.id for id, one in found.items())
    assert {"scores", "norm", "ffn", "layer", "multihead"} <= {one.slot for one in found.values()}
    assert set(found) & set(deviations()) == set()

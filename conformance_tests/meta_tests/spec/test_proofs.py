"""Every algebraic requirement is proved, and nothing else claims to be."""

import pytest
from sympy import Integer, symbols

from encoder_spec.equation import requirements
from encoder_spec.proof import proofs
from encoder_spec.proof.moments import mean, variance

ALGEBRAIC = {requirement.id for requirement in requirements().values() if requirement.algebraic}


def test_every_algebraic_requirement_has_a_proof() -> None:
    """A statement that follows from the formula alone is derived from it."""
    assert ALGEBRAIC - set(proofs()) == set()


def test_every_proof_belongs_to_an_algebraic_requirement() -> None:
    """A proof of an unknown requirement, or of one that only a run can decide, is a slip."""
    assert set(proofs()) - ALGEBRAIC == set()


def test_every_proof_stands_in_the_module_of_its_topic() -> None:
    """One topic, one name, everywhere."""
    for id, proof in proofs().items():
        topic = requirements()[id].equation.split(".")[0]
        assert proof.__module__ == f"encoder_spec.proof.{topic}", id


@pytest.mark.parametrize("id", sorted(proofs()))
def test_proof_goes_through(id: str) -> None:
    """Its assertions hold."""
    proofs()[id]()


def test_moments_are_those_of_a_die_and_a_coin() -> None:
    """The tool of the proofs against two distributions counted out.

    A die has E = 21/6 = 7/2 and E² = 91/6, a coin of faces 0 and 1 has 1/2 and 1/2. Their
    product is 0 or the die with even odds: mean 7/4, mean square 91/12, variance
    91/12 − 49/16 = (364 − 147)/48 = 217/48.
    """
    die, coin = symbols("die coin")
    moments = {die: (Integer(7) / 2, Integer(91) / 6), coin: (Integer(1) / 2, Integer(1) / 2)}
    assert mean(die * coin, moments) == Integer(7) / 4
    assert variance(die * coin, moments) == Integer(217) / 48

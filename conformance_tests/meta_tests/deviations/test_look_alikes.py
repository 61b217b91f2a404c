"""Other computations of the same equations are not taken for deviations."""

import pytest

from conformance_tests.deviations import Deviation
from conformance_tests.deviations.look_alikes import look_alikes
from conformance_tests.quality.kill_matrix import AUTO, SMALL, Row, computed
from encoder_spec.assembly import Encoder
from encoder_spec.profiles import PROFILES, Profile


def test_there_are_look_alikes_of_many_kinds() -> None:
    """At least 25, over several slots."""
    assert len(look_alikes()) >= 25
    assert len({look_alike.slot for look_alike in look_alikes().values()}) >= 8


def fitting(look_alike: Deviation) -> str:
    """The first profile whose equation it computes, with the same parameters."""

    def parameters(profile: Profile) -> set[str]:
        return set(Encoder(profile, SMALL).parameter_shapes())

    return next(
        p.name
        for p in PROFILES.values()
        if p[look_alike.slot].id in look_alike.of and parameters(p) == parameters(look_alike.within(p))
    )


@pytest.fixture(scope="module")
def judged() -> dict[str, list[Row]]:
    """Each against the profile whose equation it computes, and judged freely."""
    cases = [
        (id, within, judged_as)
        for id, look_alike in look_alikes().items()
        for within in [fitting(look_alike)]
        for judged_as in (within, AUTO)
    ]
    rows = computed(cases)
    return {id: [r for r in rows if r.deviation == id] for id in look_alikes()}


@pytest.mark.parametrize("id", look_alikes())
def test_look_alike_is_conformant(id: str, judged: dict[str, list[Row]]) -> None:
    """No requirement fails, whether a profile is declared or not."""
    assert [(r.judged_as, r.verdict, r.killed_by) for r in judged[id] if r.verdict != "conformant"] == []

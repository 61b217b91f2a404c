"""Measurement of the deviations that a precision can tell from rounding: ``make resolution``.

The effect of a wrong equation on the outputs follows from the mathematics, the budget from the precision. An effect
below the budget of bfloat16 cannot be seen in bfloat16, and a pass at that precision does not rule the deviation out.
``resolution.json`` keeps the effects in units of the budgets.
"""

import json
from dataclasses import asdict
from functools import cache

import torch

from conformance_tests.deviations import deviations
from conformance_tests.deviations.resolution import FILE, Resolved
from conformance_tests.errors import Blocked, Disagreement, Undetermined, Unsupported
from conformance_tests.harness.computed import FAST, LARGE, PADDED, UNPADDED, Case
from conformance_tests.harness.question import Question
from conformance_tests.harness.run import Run
from conformance_tests.identification.opening import opened
from conformance_tests.numerics.compare import BUDGET, difference_at
from conformance_tests.numerics.rounding import budget
from conformance_tests.quality.kill_matrix import cases, deviating, measured, settings, sizes_of
from conformance_tests.subjects.subject import DTYPES, name_of
from encoder_spec.assembly import Encoder
from encoder_spec.module import EncoderModule

PART = 16
"""Number of measurements that a process makes in one go."""


def resolved_together(places: list[tuple[str, str]]) -> list[Resolved]:
    """Measure several deviations, each in its profile."""
    return list(map(resolved, places))


def resolved(place: tuple[str, str]) -> Resolved:
    """Measure one deviation in one profile."""
    deviation, within = place
    effect: dict[str, float] = {}
    try:
        with opened(deviating(deviations()[deviation], within), Question(settings()[within])) as run:
            for case in run.cases(*UNPADDED, *PADDED, *FAST, *LARGE):
                for dtype, times in effects(run, within, case).items():
                    effect[dtype] = max(effect.get(dtype, 0.0), times)
    except Undetermined:
        pass
    return Resolved(deviation, within, effect)


def effects(run: Run, within: str, case: Case) -> dict[str, float]:
    """Return the change of one output in units of each precision's budget; nothing if it cannot be compared."""
    try:
        got, want, valid = run.output(case), run.expected(case), run.valid(case)
    except (Blocked, Disagreement, Unsupported):
        return {}
    if got.shape != want.shape:
        return {}
    change = float(difference_at(got.double(), want, valid).max())
    return {name: change / allowed for name, allowed in budgets(within, case).items()}


@cache
def budgets(within: str, case: Case) -> dict[str, float]:
    """Return the budgets of a case by precision: those of the profile, whatever is wrong with a subject."""
    profile = settings()[within]
    with opened(EncoderModule(Encoder(profile, sizes_of(profile))), Question(profile)) as run:
        probe, parameters, want = run.probes[case.probe], run.parameters(case.weights), run.expected(case)
        found = {name_of(torch.float64): BUDGET * max(1.0, float(want.nan_to_num().abs().max()))}
        for dtype in DTYPES[1:]:
            lower = getattr(torch, dtype)
            held = {path: w.to(lower).double() for path, w in parameters.items()}
            inputs = tuple(x.to(lower).double() if x.is_floating_point() else x for x in probe.inputs)
            found[dtype] = budget(run.encoder, held, inputs, probe.keep, lower)
    return found


def main() -> None:
    """Compute every effect and put it on file."""
    places = sorted({(deviation, within) for deviation, within, _ in cases()}, key=lambda place: place[1])
    # Those of one part mostly share a profile, whose budgets are then known.
    parts = [places[begin : begin + PART] for begin in range(0, len(places), PART)]
    found = [one for part in measured("resolution", resolved_together, parts) for one in part]
    in_order = {deviation: place for place, (deviation, _, _) in enumerate(cases())}
    found.sort(key=lambda one: (in_order[one.deviation], one.within))
    lines = ",\n ".join(json.dumps(asdict(one), ensure_ascii=False) for one in found)
    FILE.write_text(f"[{lines}]\n", encoding="utf-8")


if __name__ == "__main__":
    main()

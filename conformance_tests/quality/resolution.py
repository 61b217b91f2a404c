"""Which deviations a precision can tell from rounding: ``make resolution``.

The effect of a wrong equation on the outputs is a number of the mathematics; the budget is one of the
precision. What stays below the budget of bfloat16 cannot be decided there, by anybody, and passing there
acquits nobody of it. ``resolution.json`` keeps the effects in units of the budgets.
"""

import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import torch

from conformance_tests.deviations import deviations
from conformance_tests.harness.computed import FAST, PADDED, UNPADDED, Case
from conformance_tests.harness.run import Run
from conformance_tests.identification.opening import opened
from conformance_tests.numerics.compare import BUDGET, Blocked, Disagreement, Unsupported, difference_at
from conformance_tests.numerics.rounding import budget
from conformance_tests.quality.kill_matrix import SMALL, cases, deviating, settings
from conformance_tests.subjects.subject import DTYPES, Undetermined, name_of
from encoder_spec.assembly import Encoder
from encoder_spec.module import EncoderModule

FILE = Path(__file__).with_name("resolution.json")


@dataclass(frozen=True)
class Resolved:
    """How far a deviation, put into a profile, moves the outputs.

    Attributes:
        deviation: its id.
        within: the profile.
        effect: by precision, the largest change of an output over all probes, in units of its budget;
            infinite where the outputs are no numbers, empty where they cannot be compared at all.
    """

    deviation: str
    within: str
    effect: Mapping[str, float]


def resolved(place: tuple[str, str]) -> Resolved:
    """One deviation in one profile."""
    deviation, within = place
    effect: dict[str, float] = {}
    try:
        with opened(deviating(deviations()[deviation], within), 0, settings()[within]) as run:
            for case in run.cases(*UNPADDED, *PADDED, *FAST):
                for dtype, times in effects(run, within, case).items():
                    effect[dtype] = max(effect.get(dtype, 0.0), times)
    except Undetermined:
        pass
    return Resolved(deviation, within, effect)


def effects(run: Run, within: str, case: Case) -> dict[str, float]:
    """The change of one output in units of the budget of each precision; nothing if it cannot be compared."""
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
    """The budgets of a case by precision: those of the profile, whatever is wrong with a subject."""
    with opened(EncoderModule(Encoder(settings()[within], SMALL)), 0, settings()[within]) as run:
        probe, parameters, want = run.probes[case.probe], run.parameters(case.weights), run.expected(case)
        found = {name_of(torch.float64): BUDGET * max(1.0, float(want.nan_to_num().abs().max()))}
        for dtype in DTYPES[1:]:
            lower = getattr(torch, dtype)
            held = {path: w.to(lower).double() for path, w in parameters.items()}
            inputs = tuple(x.to(lower).double() if x.is_floating_point() else x for x in probe.inputs)
            found[dtype] = budget(run.encoder, held, inputs, probe.keep, lower)
    return found


def on_file() -> list[Resolved]:
    """What was computed last."""
    return [Resolved(**entry) for entry in json.loads(FILE.read_text(encoding="utf-8"))]


def unresolved(found: Sequence[Resolved], dtype: str) -> list[str]:
    """The deviations that change outputs, and in this precision no more than rounding may, in any profile."""
    reached = {one.deviation: False for one in found if one.effect.get("float64", 0.0) >= 1}
    for one in found:
        if one.deviation in reached and one.effect.get(dtype, 0.0) >= 1:
            reached[one.deviation] = True
    return [deviation for deviation, is_told in reached.items() if not is_told]


def main() -> None:
    """Compute every effect and put it on file."""
    places = sorted({(deviation, within) for deviation, within, _ in cases()}, key=lambda place: place[1])
    found = []
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for one in pool.map(resolved, places, chunksize=16):  # of one profile mostly, whose budgets are then known
            found.append(one)
            print(f"{len(found)} of {len(places)}", end="\r", flush=True)
    in_order = {deviation: place for place, (deviation, _, _) in enumerate(cases())}
    found.sort(key=lambda one: (in_order[one.deviation], one.within))
    lines = ",\n ".join(json.dumps(asdict(one), ensure_ascii=False) for one in found)
    FILE.write_text(f"[{lines}]\n", encoding="utf-8")


if __name__ == "__main__":
    main()

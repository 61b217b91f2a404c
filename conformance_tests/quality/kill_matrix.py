"""The kill matrix: every deviation run as a subject, and the requirements that notice it.

A suite that finds no fault proves nothing until it has shown that it can find one. Each deviation is judged against a
profile for every equation that it is mistaken for. It is judged with ``auto`` too, which must identify a deviation that
is legitimate elsewhere as that variant. ``kill_matrix.json`` keeps the outcome, and the build computes a sample of it
anew. ``kills`` covers the other published profiles to which a deviation applies.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

from conformance_tests.deviations import Deviation, deviations
from conformance_tests.deviations.look_alikes import look_alikes
from conformance_tests.isolation.calls import in_workers
from conformance_tests.quality.fingerprint import fingerprint
from conformance_tests.quality.nothing_to_see import NOTHING_TO_SEE
from encoder_spec.assembly import Encoder
from encoder_spec.dimensions import Dimensions
from encoder_spec.equation import Equation, equations, requirements
from encoder_spec.module import EncoderModule
from encoder_spec.profiles import PROFILES, VASWANI_2017, Profile

FILE = Path(__file__).with_name("kill_matrix.json")

SMALL = Dimensions(
    d_model=24,
    h=4,
    g=2,
    d_ff=40,
    N=2,
    V=31,
    buckets=8,
    kernel=4,
    d_group=8,
    convolutions=2,
    widths=(5, 3),
    strides=(2, 2),
    max_len=29,
    patch=2,
    classes=5,
)

PLACES_APART = 1100
"""So many rows are enough for 16 × 17 patches: the longest probe has 257 positions."""

SMALL_WINDOW = 4
"""Of so many keys a window hides some from each query of a short input."""

AUTO = "auto"


@dataclass(frozen=True)
class Row:
    """One deviation in one profile, and the suite's judgement of it.

    Attributes:
        deviation: its id.
        within: the profile into which it is put.
        judged_as: the profile that it is judged against, or ``auto``.
        verdict: of the report.
        killed_by: the requirements that fail.
        departs_at: the first equation that is wrong.
        diagnosis: the ids of the deviations that reproduce it, the likeliest first.
    """

    deviation: str
    within: str
    judged_as: str
    verdict: str
    killed_by: tuple[str, ...]
    departs_at: str | None
    diagnosis: tuple[str, ...]


Case = tuple[str, str, str]

T = TypeVar("T")
R = TypeVar("R")


@cache
def settings() -> dict[str, Profile]:
    """Return the profiles for deviations: the published ones, then one for each equation that none of them uses.

    Such a profile is the first one that uses an equation in that slot which reads the same, but for this slot. It reads
    images if the equation tells their rows.
    """
    found = dict(PROFILES)
    for e in equations().values():
        if all(p[e.slot].id != e.id for p in PROFILES.values()):
            reads = e.flowing.keys()
            reading = (p for p in found.values() if p[e.slot].flowing.keys() == reads and p[e.slot] in used(p))
            reading = (p for p in reading if "rows" not in e.constants or "patch" in p["embedding"].constants)
            base = next(reading, VASWANI_2017)
            name = f"{base.name} with {e.slot} = {e.variant}"
            found[name] = base.replace(name=name, window=SMALL_WINDOW, **{e.slot: e.variant})
    return found


def used(profile: Profile) -> list[Equation]:
    """Return the equations that a profile uses: one with given embeddings adds no positions."""
    return Encoder(profile, SMALL).equations()


def gets_wrong(deviation: Deviation, profile: Profile) -> bool:
    """Return whether a profile makes the choice that a deviation gets wrong, and a small encoder of it uses that.

    What stands in other slots than the deviation's reads all parameters that the profile has there.
    """
    if not deviation.applies(profile):
        return False
    beside = {e.slot: e for e in deviation.replaces.values() if isinstance(e, Equation) and e.slot != deviation.slot}
    uses = used(profile)
    is_used = any(e.id in deviation.of for e in uses if e.slot == deviation.slot)
    return is_used and all(e.parameters.keys() <= beside[e.slot].parameters.keys() for e in uses if e.slot in beside)


def cases() -> list[Case]:
    """Return each deviation in a profile for each equation that it is mistaken for, and without a declared profile."""
    found = []
    for d in deviations().values():
        hidden, _ = NOTHING_TO_SEE.get(d.id, ("", ""))
        applying = [p for p in settings().values() if gets_wrong(d, p) and p.name not in hidden.split()]
        first = {p[d.slot].id: p.name for p in reversed(applying)}
        within = [p.name for p in applying if first[p[d.slot].id] == p.name]
        found += [(d.id, name, name) for name in within] + [(d.id, name, AUTO) for name in within[:1]]
    return found


def sizes_of(profile: Profile) -> Dimensions:
    """Return small sizes in which everything that a profile tells apart can be.

    In a grid two pairs of features tell rows, and two columns, and a table tells the places of all patches of the
    largest image in the probes. The last id is that of masked tokens, where there are such.
    """
    if Encoder(profile, SMALL).reads_grid:
        return SMALL.replace(d_k=8, d_v=8, buckets=PLACES_APART)
    masks = "mask_id" in profile["embedding_scale"].constants
    return SMALL.replace(V=int(profile.constants["mask_id"]) + 1) if masks else SMALL


def deviating(deviation: Deviation, within: str) -> EncoderModule:
    """Return a profile with a deviation in it, as a module with small sizes and random weights."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        profile = settings()[within]
        return EncoderModule(Encoder(deviation.within(profile), sizes_of(profile)))


def row(case: Case) -> Row:
    """Judge one case."""
    from conformance_tests.engine.judging import check
    from conformance_tests.targets.adapting import adapt

    id, within, judged_as = case
    wrong = (deviations() | look_alikes())[id]
    subject = adapt(deviating(wrong, within))
    subject.processes = wrong.ranks or 1
    target = check(subject, profile=settings().get(judged_as, AUTO)).targets[0]
    diagnosis = tuple(dict.fromkeys(d["deviation"] for d in target.diagnosis))
    return Row(*case, target.verdict, tuple(r.id for r in target.of("fail")), target.departs_at, diagnosis)


def computed(wanted: Iterable[Case]) -> list[Row]:
    """Judge these cases, of deviations or look-alikes, in worker processes."""
    return measured("kill matrix", row, list(wanted))


def measured(what: str, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Apply a function to each item in worker processes, and show how many are done."""
    from conformance_tests.reports.terminal import Screen, console

    found = []
    with Screen(console()) as screen, screen.row() as show:
        for one in in_workers(function, items):
            found.append(one)
            show(what, len(found), len(items))
    return found


def write(rows: Iterable[Row]) -> None:
    """Put the matrix on file with what it was computed from, one line for each row, so that a change can be read."""
    lines = ",\n ".join(json.dumps(asdict(r), ensure_ascii=False) for r in rows)
    FILE.write_text(f'{{"sources": "{fingerprint()}", "rows": [\n {lines}\n]}}\n', encoding="utf-8")


def on_file() -> list[Row]:
    """Read the matrix that was computed last."""
    entries = json.loads(FILE.read_text(encoding="utf-8"))["rows"]
    return [Row(**e | {"killed_by": tuple(e["killed_by"]), "diagnosis": tuple(e["diagnosis"])}) for e in entries]


def names_its_equation(row: Row) -> bool:
    """Return whether the report names the slot or the equation that is wrong.

    Where two deviations compute the same numbers, no report can distinguish them.
    """
    d = deviations()[row.deviation]
    return row.departs_at in d.of or d.slot in map(slot_named_by, row.diagnosis)


def slot_named_by(id: str) -> str:
    """Return the slot of the deviation, or of the legitimate choice (``segment=none``), that a diagnosis names."""
    known = deviations()
    return known[id].slot if id in known else id.partition("=")[0]


def faults(rows: Iterable[Row]) -> Iterator[str]:
    """Yield what the matrix shows to be wrong with the suite or the catalogue."""
    killing: set[str] = set()
    for r in rows:
        d = deviations()[r.deviation]
        killing |= set(r.killed_by) & set(d.noticed_by)
        if r.judged_as == AUTO:
            if r.verdict == "conformant" and d.is_seen_undeclared:
                yield f"{r.deviation} survives without a declared profile, but is not a variant of any encoder"
        elif r.verdict != "nonconformant":
            yield f"{r.deviation} in {r.within} is {r.verdict}: no requirement fails"
        elif not set(d.noticed_by) & set(r.killed_by):
            yield f"{r.deviation} in {r.within} is noticed by {', '.join(r.killed_by)} alone, not by {d.noticed_by}"
        elif not names_its_equation(r):
            yield f"{r.deviation} in {r.within} is taken for {r.departs_at} {r.diagnosis}"
    yield from (f"{id} kills nothing: its check is too weak, or it is not needed" for id in idle(killing))


def idle(killing: set[str]) -> list[str]:
    """Return the requirements that a check decides and that none of the deviations meant for them fails."""
    from conformance_tests.harness.checks import registry

    decided = {id for check in registry().checks.values() for id in check.requirements}
    return [id for id in requirements() if id in decided - killing]


def main() -> None:
    """Compute the whole matrix and put it on file; exit with 1 if it shows a fault."""
    rows = computed(cases())
    write(rows)
    found = list(faults(rows))
    print("\n".join([*found, f"{len(deviations())} deviations, {len(rows)} rows, {len(found)} faults"]))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()

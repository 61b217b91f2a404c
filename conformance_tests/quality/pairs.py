"""Pairs of wrong equations: the number of random pairs of which the report names both.

``pairs.json`` keeps a sample, and the same sample is drawn each time.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

from conformance_tests.deviations import Deviation, deviations
from conformance_tests.quality.kill_matrix import gets_wrong, measured, sizes_of, slot_named_by
from conformance_tests.quality.kills import can_be_called
from conformance_tests.quality.nothing_to_see import NOTHING_TO_SEE
from encoder_spec.assembly import Encoder
from encoder_spec.module import EncoderModule
from encoder_spec.profiles import PROFILES

FILE = Path(__file__).with_name("pairs.json")

Pair = tuple[str, str, str]
"""Two deviations, and the profile into which both are put."""


@dataclass(frozen=True)
class Row:
    """Two deviations in one profile, and the suite's judgement of them.

    Attributes:
        deviations: their ids.
        within: the profile.
        verdict: of the report.
        departs_at: the first equation that is wrong.
        diagnosis: the ids of the deviations that reproduce the subject together, in the likeliest explanation.
    """

    deviations: tuple[str, str]
    within: str
    verdict: str
    departs_at: str | None
    diagnosis: tuple[str, ...]

    @property
    def names_both(self) -> bool:
        """True if the explanation names the slots of both."""
        return set(map(slot_named_by, self.diagnosis)) == set(map(slot_named_by, self.deviations))

    @property
    def names_first(self) -> bool:
        """True if the place of departure is one of the equations that are wrong."""
        return self.departs_at in {of for id in self.deviations for of in deviations()[id].of}


def drawn(number: int = 100, seed: int = 0) -> Iterator[Pair]:
    """Draw random pairs of deviations in two slots, each with a profile that both get wrong.

    Those of encoders that are spread over processes are left out: they replace several slots at once.
    """
    random, known = Random(seed), [d for d in deviations().values() if not d.ranks]
    while number:
        a, b = random.sample(known, 2)
        fitting = [name for name in PROFILES if together(a, b, name)]
        if fitting:
            number -= 1
            yield a.id, b.id, random.choice(fitting)


def together(a: Deviation, b: Deviation, within: str) -> bool:
    """Return whether a profile gets both wrong, in different slots, and neither takes the place of the other.

    One that cannot be called by itself cannot be called with another one either, and two that show nothing there show
    nothing together.
    """
    fit = all(gets_wrong(d, PROFILES[within]) and can_be_called(d.id, within) for d in (a, b))
    shows = any(within not in NOTHING_TO_SEE.get(d.id, ("", ""))[0].split() for d in (a, b))
    return fit and shows and a.slot != b.slot and not a.replaces.keys() & b.replaces.keys()


def judged(pair: Pair) -> Row:
    """Judge one pair."""
    import torch

    from conformance_tests.engine.judging import check

    a, b, within = pair
    profile = deviations()[b].within(deviations()[a].within(PROFILES[within]))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = EncoderModule(Encoder(profile, sizes_of(PROFILES[within])))
    target = check(module, profile=within).targets[0]
    first = next(((d["deviation"], *d["together_with"]) for d in target.diagnosis), ())
    return Row((a, b), within, target.verdict, target.departs_at, tuple(first))


def write(rows: Iterable[Row]) -> None:
    """Put the sample on file, a line for each pair."""
    lines = ",\n ".join(json.dumps(asdict(r), ensure_ascii=False) for r in rows)
    FILE.write_text(f"[{lines}]\n", encoding="utf-8")


def on_file() -> list[Row]:
    """Read the sample that was judged last."""
    entries = json.loads(FILE.read_text(encoding="utf-8"))
    return [Row(**e | {"deviations": tuple(e["deviations"]), "diagnosis": tuple(e["diagnosis"])}) for e in entries]


def main() -> None:
    """Judge the sample and put it on file; the number of pairs may be given."""
    rows = measured("pairs", judged, list(drawn(*map(int, sys.argv[1:2]))))
    write(rows)
    noticed = sum(r.verdict == "nonconformant" for r in rows)
    both, first = sum(r.names_both for r in rows), sum(r.names_first for r in rows)
    print(f"{len(rows)} pairs: {noticed} noticed; both equations named for {both}, the first one for {first}")


if __name__ == "__main__":
    main()

"""Kills of every deviation in every published profile that makes the choice which it gets wrong.

The kill matrix runs all checks on a deviation, and explains it, in one profile for every equation that it is mistaken
for. This module puts each deviation into all published profiles to which it applies and decides the requirements that
must notice it. It decides the others only if none of these fails. ``kills.json`` keeps the requirements that fail.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import groupby
from pathlib import Path

from conformance_tests.deviations import deviations
from conformance_tests.errors import Refused, SubjectError, one_line
from conformance_tests.harness.question import Question
from conformance_tests.quality.fingerprint import fingerprint
from conformance_tests.quality.kill_matrix import deviating, gets_wrong, measured
from conformance_tests.quality.nothing_to_see import NOTHING_TO_SEE
from conformance_tests.reports.report import Level
from encoder_spec.notation import SpecificationError
from encoder_spec.profiles import PROFILES

FILE = Path(__file__).with_name("kills.json")

RAISES = "raises"
"""Entry in place of requirements where a deviation does not fit, so that it cannot be built or called."""

Case = tuple[str, str]

Kills = Mapping[str, Mapping[str, tuple[str, ...]]]
"""The requirements that fail, by deviation and profile."""


def cases() -> list[Case]:
    """Return every deviation in every published profile to which it applies."""
    return [(d.id, name) for d in deviations().values() for name, p in PROFILES.items() if gets_wrong(d, p)]


def killed_by(case: Case) -> tuple[str, ...]:
    """Return the requirements meant for a deviation that fail in a profile; all that fail, if none of those does.

    An exception takes their place, so that one case does not cost the results of the others.
    """
    from conformance_tests.diagnosis.explanations import failing
    from conformance_tests.engine.judging import seeded
    from conformance_tests.harness.deciding import decide, planned
    from conformance_tests.identification.opening import opened

    id, within = case
    wrong = deviations()[id]
    try:
        with seeded(0), opened(deviating(wrong, within), Question(PROFILES[within])) as run:
            own = [(check, id) for check, id in planned(run, Level.GRADIENT) if id in wrong.noticed_by]
            failed = {id for check, id in own if decide(run, check, id).outcome == "fail"}
            return tuple(sorted(failed or failing(run)))
    except (SubjectError, SpecificationError, Refused):
        return (RAISES,)
    except Exception as fault:
        return (one_line(fault),)


def computed() -> Kills:
    """Run every case, in worker processes."""
    found = zip(cases(), measured("every profile", killed_by, cases()), strict=True)
    by_deviation = groupby(found, key=lambda item: item[0][0])
    return {id: {within: failed for (_, within), failed in group} for id, group in by_deviation}


def write(kills: Kills) -> None:
    """Put it on file with what it was computed from, one line for each deviation."""
    lines = ",\n ".join(f"{json.dumps(id)}: {json.dumps(of)}" for id, of in kills.items())
    FILE.write_text(f'{{"sources": "{fingerprint()}", "kills": {{\n {lines}\n}}}}\n', encoding="utf-8")


@cache
def on_file() -> Kills:
    """Read the kills that were computed last."""
    kept = json.loads(FILE.read_text(encoding="utf-8"))["kills"]
    return {id: {within: tuple(failed) for within, failed in of.items()} for id, of in kept.items()}


def can_be_called(id: str, within: str) -> bool:
    """Return whether a deviation can be called in a profile."""
    return on_file().get(id, {}).get(within) != (RAISES,)


def verdict(failed: tuple[str, ...]) -> str:
    """Return the verdict on a deviation that fails these requirements."""
    return "error" if failed == (RAISES,) else "nonconformant" if failed else "conformant"


def faults(kills: Kills) -> Iterator[str]:
    """Yield the deviations that no requirement meant for them notices, where no reason is known."""
    for id, of in kills.items():
        own = deviations()[id].noticed_by
        yield from (
            f"{id} in {within} is noticed by {', '.join(failed) or 'nothing'}, and not by {', '.join(own)}"
            for within, failed in of.items()
            if failed != (RAISES,) and not set(own) & set(failed) and (failed or not nothing_to_see(id, within))
        )


def nothing_to_see(id: str, within: str) -> bool:
    """Return whether a deviation computes in a profile what the specification computes."""
    profiles, _ = NOTHING_TO_SEE.get(id, ("", ""))
    return within in profiles.split()


def main() -> None:
    """Run every case and put what fails on file; exit with 1 if a deviation survives somewhere."""
    kills = computed()
    write(kills)
    found = list(faults(kills))
    print("\n".join([*found, f"{sum(map(len, kills.values()))} deviations in profiles, {len(found)} faults"]))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()

"""Expected failures: requirements that an encoder is known not to meet, each with its reason.

A file lists them. An unknown or missing key in it is refused, and a listed requirement that is
met counts against the encoder until you remove its entry. ::

    [[expected]]
    requirement = "ENC-4"
    reason = "the fast path computes the exact GELU"
    link = "https://…"                # optional
    target = "path/to/file.py:make"   # optional: this target only
"""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from conformance_tests.reports.report import Result
from encoder_spec.notation import SpecificationError


@dataclass(frozen=True)
class ExpectedFailure:
    """One requirement that is known to fail, and why."""

    requirement: str
    reason: str
    link: str = ""
    target: str = ""


Expected = str | Path | Mapping[str, str] | Iterable[ExpectedFailure]
"""A file, reasons by requirement, or the entries themselves."""


def expected_failures(given: Expected | None) -> tuple[ExpectedFailure, ...]:
    """Return the entries of a file, of a mapping from requirements to reasons, or of a list.

    Raises:
        SpecificationError: if the file or an entry cannot be used.
    """
    if given is None:
        return ()
    if isinstance(given, str | Path):
        return read(Path(given))
    place = "expected"
    if isinstance(given, Mapping):
        entries = [entry({"requirement": id, "reason": reason}, place) for id, reason in given.items()]
    else:
        entries = [entry(vars(e) if isinstance(e, ExpectedFailure) else e, place) for e in given]
    return each_once(entries, place)


def read(path: Path) -> tuple[ExpectedFailure, ...]:
    """Read the entries of a file.

    Raises:
        SpecificationError: in one line, if the file cannot be read or holds anything but entries.
    """
    place = f"expected failures {path}"
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as fault:
        raise SpecificationError(f"{place}: {fault.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as fault:
        raise SpecificationError(f"{place}: {' '.join(str(fault).split())}") from None
    unknown = set(content) - {"expected"}
    entries = content.get("expected", [])
    if unknown or not isinstance(entries, list):
        named = ", ".join(sorted(unknown)) or "expected"
        raise SpecificationError(f"{place}: every entry stands under [[expected]], but there is {named}")
    return each_once([entry(e, f"{place}, entry {n}") for n, e in enumerate(entries, 1)], place)


def entry(given: Any, place: str) -> ExpectedFailure:
    """Make one entry.

    Raises:
        SpecificationError: if a key is unknown or missing, a value is not a text, or there is no such requirement.
    """
    keys = [f.name for f in fields(ExpectedFailure)]
    if not isinstance(given, dict):
        raise SpecificationError(f"{place}: an entry is a table with the keys {', '.join(keys)}, but is {given!r}")
    for key, value in given.items():
        if key not in keys:
            raise SpecificationError(f"{place}: there is no key {key!r}; an entry has {', '.join(keys)}")
        if not isinstance(value, str):
            raise SpecificationError(f"{place}: {key} must be a text, but is {value!r}")
    for key in ("requirement", "reason"):
        if not given.get(key, "").strip():
            raise SpecificationError(f"{place}: {key} is missing")
    from encoder_spec.equation import requirements

    if given["requirement"] not in requirements():
        raise SpecificationError(
            f"{place}: there is no requirement {given['requirement']!r}; `encoder-spec requirements` lists them"
        )
    return ExpectedFailure(**given)


def each_once(entries: Iterable[ExpectedFailure], place: str) -> tuple[ExpectedFailure, ...]:
    """Return the entries; two for the same requirement and target contradict each other.

    Raises:
        SpecificationError: if there are such two.
    """
    found: dict[tuple[str, str], ExpectedFailure] = {}
    for e in entries:
        if (e.requirement, e.target) in found:
            where = f" for {e.target}" if e.target else ""
            raise SpecificationError(f"{place}: {e.requirement} is listed twice{where}")
        found[e.requirement, e.target] = e
    return tuple(found.values())


def apply_expected(
    results: Iterable[Result], entries: Iterable[ExpectedFailure], target: str, repro: str = ""
) -> tuple[list[Result], list[str]]:
    """Compare results with the failures that were expected.

    A listed requirement that fails becomes ``xfail``, and one that passes ``xpass``. Another
    outcome stays as it is, since it neither confirms nor refutes the entry.

    Args:
        results: of one target, after verification.
        entries: for any target; those for another target do not count, and those for this one go first.
        target: its name in the report.
        repro: the command that repeats the run, for results that become failures here.

    Returns:
        The results, and a note for each entry that the run neither confirms nor refutes.
    """
    listed = {e.requirement: e for e in sorted(entries, key=lambda e: e.target) if e.target in ("", target)}
    held = [hold(r, listed[r.id], repro) if r.id in listed else r for r in results]
    outcomes = {r.id: r.outcome for r in held}
    notes = [
        f"{id} was expected to fail ({e.reason}), but {says_nothing(outcomes.get(id))}"
        for id, e in listed.items()
        if outcomes.get(id) not in ("xfail", "xpass")
    ]
    return held, notes


def says_nothing(outcome: str | None) -> str:
    """Return the reason why an entry was neither confirmed nor refuted."""
    return (
        f"is {outcome}" if outcome else "was not checked: no equation of this encoder has it, or the level excludes it"
    )


def hold(result: Result, expected: ExpectedFailure, repro: str) -> Result:
    """Apply an entry to the result of its requirement."""
    known = replace(result, reason=expected.reason, link=expected.link)
    if result.outcome == "fail":
        return replace(known, outcome="xfail")
    if result.outcome == "pass":
        message = f"passes, but was expected to fail ({expected.reason}): remove it from the expected failures"
        return replace(known, outcome="xpass", message=message, repro=repro)
    return result

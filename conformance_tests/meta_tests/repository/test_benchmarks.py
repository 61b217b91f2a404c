"""The benchmarks: turns, ratios of made-up samples, the guard, and what is on file. Nothing here asserts a time."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
if not (ROOT / "benchmarks").is_dir():
    pytest.skip("the benchmarks come with the repository, not with a source distribution", allow_module_level=True)

import pyperf  # noqa: E402
import torch  # noqa: E402

from benchmarks import allclose, counts, encoders, guard, history  # noqa: E402
from benchmarks.catalogue import FIGURES, PROCESSES, chosen  # noqa: E402
from benchmarks.figures import Change, Figure, Quantity, Ratio, changes, not_measured, ratios, table  # noqa: E402
from benchmarks.measuring import (  # noqa: E402
    CPU,
    PEAK,
    QUICK,
    WALL,
    NotMeasuredError,
    Process,
    Samples,
    Version,
    rounds,
)

HERE, THERE = Version("here", ROOT), Version("there", ROOT)
UNIT, WORK = Process(("-c", "import torch"), QUICK, of_version=False), Process(("-c", "check"), QUICK)
SLOW = Figure("work / unit", Quantity("work", CPU), Quantity("unit", CPU), target=2.0)


def sampled(**values: list[float]) -> Samples:
    """Make samples of processor time, twice as long on the clock."""
    return Samples(
        {(process, CPU): taken for process, taken in values.items()}
        | {(process, WALL): [2 * one for one in taken] for process, taken in values.items()}
    )


# Ratios ------------------------------------------------------------------------------------


def test_a_ratio_is_the_median_of_the_rounds() -> None:
    """6/2, 9/3 and 4/1 are 3, 3 and 4, although medians of each side would give 6/2 only by chance."""
    (one,) = ratios([SLOW], sampled(work=[6, 9, 4], unit=[2, 3, 1])).values()
    assert (one.ratio, one.low, one.high, one.target) == (3, 3, 4, 2.0)


def test_the_clock_stands_beside_processor_time() -> None:
    """Work of 6 that waits until 20 have gone by, over a unit of 2 that waits until 4 have: 3, and 5 on the clock."""
    samples = Samples({("work", CPU): [6], ("work", WALL): [20], ("unit", CPU): [2], ("unit", WALL): [4]})
    (one,) = ratios([SLOW], samples).values()
    assert (one.ratio, one.wall) == (3, 5)


def test_a_round_in_which_something_is_missing_has_no_ratio() -> None:
    """Two samples of the work and one of the unit are one round."""
    assert SLOW.values(sampled(work=[6, 9], unit=[2])) == [3]
    assert ratios([SLOW], sampled(work=[6])) == {}


def test_one_more_is_the_difference_shared_by_all_that_are_more() -> None:
    """Five take 13, one takes 5: each of the four others takes 2, which is half of 4."""
    more = Figure("one more", Quantity("five", CPU), Quantity("unit", CPU), less=Quantity("one", CPU), times=4)
    assert more.values(sampled(five=[13], one=[5], unit=[4])) == [0.5]


def test_peak_memory_is_counted_in_weights() -> None:
    """2.5 GB, half a GB taken off, are twice the weights of 1 GB; memory has no clock."""
    peak = Figure("peak", Quantity("check", PEAK), Quantity("floor", "parameters"), less=0.5e9)
    samples = Samples({("check", PEAK): [2.5e9], ("floor", "parameters"): [1e9]})
    (one,) = ratios([peak], samples).values()
    assert (one.ratio, one.wall) == (2, None)


def test_a_missed_target_is_marked() -> None:
    """3 where 2 is the target, and 2.5 before; the line of a ratio without a target marks nothing."""
    measured = {"slow": Ratio(3, 2.9, 3.2, 3.1, target=2.0), "free": Ratio(9, 9, 9)}
    _, slow, free = table(measured, {"slow": Ratio(2.5, 2.5, 2.5)}).splitlines()
    assert slow.split() == ["slow", "3.00", "2.90–3.20", "3.10", "2.00", "2.50", "missed"]
    assert free.split() == ["free", "9.00", "9.00–9.00"]


# Turns -------------------------------------------------------------------------------------


def test_versions_are_measured_in_turns_and_what_they_share_once() -> None:
    """The version that comes first changes from round to round."""
    order = []

    def measure(process: Process, version: Version) -> dict[str, float]:
        order.append((process.arguments[-1], version.name))
        return {CPU: len(order)}

    found = rounds({"unit": UNIT, "work": WORK}, [HERE, THERE], 2, measure)
    first, second = order[:3], order[3:]
    assert [what for what, _ in order] == ["import torch", "check", "check"] * 2
    assert [version for _, version in first[1:]] == [version for _, version in second[1:]][::-1]
    assert found["here"].values["unit", CPU] == found["there"].values["unit", CPU] == [1, 4]
    assert sorted(found["here"].values["work", CPU] + found["there"].values["work", CPU]) == [2, 3, 5, 6]


def test_a_process_that_cannot_run_is_left_out_with_its_reason() -> None:
    """It is asked once, in the version that cannot; the other has its ratio."""
    asked = []

    def measure(process: Process, version: Version) -> dict[str, float]:
        asked.append((process, version))
        if process is WORK and version is THERE:
            raise NotMeasuredError("no such option: --jobs")
        return {CPU: 1.0, WALL: 1.0}

    found = rounds({"unit": UNIT, "work": WORK}, [HERE, THERE], 3, measure)
    assert asked.count((WORK, THERE)) == 1
    assert list(ratios([SLOW], found["here"])) == ["work / unit"]
    assert not_measured([SLOW], found["here"]) == {}
    assert not_measured([SLOW], found["there"]) == {"work / unit": "no such option: --jobs"}


def test_large_processes_run_in_fewer_rounds() -> None:
    """Five rounds of what takes seconds, three of what takes more, two of what takes minutes."""
    processes = {str(effort): Process(("-c", ""), effort) for effort in range(3)}
    found = rounds(processes, [HERE], measure=lambda *_: {CPU: 1.0})
    assert [len(found["here"].values[name, CPU]) for name in processes] == [5, 3, 2]


MEASURE = """
import json
from benchmarks.measuring import ROOT, NotMeasuredError, Process, Version, measured

here = Version("here", ROOT)
taken = [
    measured(Process(("-c", f"import json; x = bytearray({size}); print(json.dumps(dict(entries=7)))"), 0), here)
    for size in (100_000_000, 300_000_000)
]
try:
    measured(Process(("-c", "import sys; sys.exit('out of order')"), 0, status=2), here)
except NotMeasuredError as reason:
    taken.append(str(reason))
print(json.dumps(taken))
"""


def test_memory_and_status_come_from_the_operating_system() -> None:
    """200 MB more are 200 MB more at the peak, give or take one; what it prints is kept; status 1 is not 2."""
    done = subprocess.run([sys.executable, "-c", MEASURE], cwd=ROOT, capture_output=True, text=True, check=True)
    some, more, reason = json.loads(done.stdout)
    assert more[PEAK] - some[PEAK] == pytest.approx(200e6, abs=2e6)
    assert more["entries"] == 7
    assert set(more) == {CPU, WALL, PEAK, "entries"}
    assert reason == "exit status 1 where 2 is due: out of order"


def test_samples_are_files_of_pyperf(tmp_path: Path) -> None:
    """Pyperf reads them and finds the median."""
    file = tmp_path / "samples.json"
    sampled(work=[6, 9, 4]).suite().dump(str(file))
    suite = pyperf.BenchmarkSuite.load(str(file))
    assert suite.get_benchmark_names() == ["work · cpu", "work · wall"]
    assert suite.get_benchmark("work · cpu").median() == 6


# The guard ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("now", "too_large"), [(4.0, False), (4.1, True), (2.0, False)])
def test_a_ratio_may_grow_by_a_third(now: float, too_large: bool) -> None:
    """From 3 to 4 is a third; to 4.1 is more."""
    assert Change("work / unit", 3.0, now).too_large is too_large


def test_both_versions_are_divided_by_the_same_unit() -> None:
    """6/2 on file and 8/2 now: 3 and 4. A figure that is a difference, or is new, has nothing to be compared with."""
    difference = Figure("more", Quantity("work", CPU), Quantity("unit", CPU), less=Quantity("unit", CPU))
    new = Figure("new", Quantity("new", CPU), Quantity("unit", CPU))
    before, now = sampled(work=[6.0], unit=[2.0]), sampled(work=[8.0], unit=[2.0], new=[1.0])
    assert changes([SLOW, difference, new], before, now) == [Change("work / unit", 3, 4)]


def measured_as(*growths: float) -> tuple[guard.Measured, list[tuple[set[str], int]]]:
    """Return what measures the work that many times as large as on file, and a list of what it was asked for."""
    asked: list[tuple[set[str], int]] = []

    def measure(processes: Mapping[str, Process], number: int) -> Mapping[str, Samples]:
        growth = growths[len(asked)]
        asked.append((set(processes), number))
        steady = {name: [1.0] for name in ("unit", "other") if name in processes}
        return {
            guard.ON_FILE: sampled(work=[1.0], **steady),
            guard.NOW: sampled(work=[growth], **steady),
        }

    return measure, asked


OTHER = Figure("other / unit", Quantity("other", CPU), Quantity("unit", CPU))
THREE = {"unit": UNIT, "work": WORK, "other": WORK}


def test_what_seems_to_have_grown_is_measured_again() -> None:
    """Twice as large at first, and a tenth larger in more rounds: the second counts, and only it is measured."""
    measure, asked = measured_as(2.0, 1.1)
    found = {change.name: change.growth for change in guard.compared(measure, THREE, [SLOW, OTHER])}
    assert found == {"work / unit": 1.1, "other / unit": 1.0}
    assert asked == [({"unit", "work", "other"}, guard.ROUNDS), ({"unit", "work"}, guard.AGAIN)]


def test_what_has_grown_twice_is_named() -> None:
    measure, _ = measured_as(2.0, 1.9)
    _, work, other = guard.told(guard.compared(measure, THREE, [SLOW, OTHER])).splitlines()
    assert work.split() == ["work", "/", "unit", "1.000", "1.900", "+90%", "more", "than", "33%", "larger"]
    assert other.split() == ["other", "/", "unit", "1.000", "1.000", "+0%"]


# The history -------------------------------------------------------------------------------


def an_entry(commit: str, ratio: float) -> dict[str, Any]:
    """Make an entry with one ratio."""
    return history.entry(commit, {"work / unit": Ratio(ratio, ratio, ratio)}, {"small": {"passes": 3}}, {})


def test_an_entry_replaces_that_of_the_same_commit_and_versions(tmp_path: Path) -> None:
    """What was written last is read last, and ratios come back as they were."""
    file = tmp_path / "benchmarks.jsonl"
    for commit, ratio in (("abc", 1.0), ("def", 2.0), ("abc", 3.0)):
        history.put(an_entry(commit, ratio), file)
    assert [entry["commit"] for entry in history.entries(file)] == ["def", "abc"]
    assert history.ratios_of(history.entries(file)[-1]) == {"work / unit": Ratio(3.0, 3.0, 3.0)}


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit, in which the history looks."""
    monkeypatch.setattr(history, "ROOT", tmp_path)
    for variable in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"):
        monkeypatch.delenv(variable, raising=False)
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "somebody")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "somebody")
    history.git("init", "--quiet")
    history.git("commit", "--quiet", "--allow-empty", "--message", "The first")
    return tmp_path


def committed(file: Path, *measured: str) -> str:
    """Put entries of some commits on file, commit the file, and return the name of that commit."""
    for commit in measured:
        history.put(an_entry(commit, 1.0), file)
    history.git("add", str(file))
    history.git("commit", "--quiet", "--message", "Benchmarks")
    return history.commit_of()


def test_the_version_on_file_is_the_commit_that_was_measured(repository: Path) -> None:
    """Of the last entry; changes that were not committed then are gone."""
    first = history.commit_of()
    file = repository / "benchmarks.jsonl"
    committed(file, "0123456789ab", f"{first}-dirty")
    assert history.commit_on_file(file) == first


def test_a_commit_that_was_rewritten_is_replaced_by_the_one_that_filed_it(repository: Path) -> None:
    """A later commit that leaves the entry as it is does not count."""
    file = repository / "benchmarks.jsonl"
    filed = committed(file, "0123456789ab")
    history.git("commit", "--quiet", "--allow-empty", "--message", "Later")
    assert history.commit_on_file(file) == filed


def test_a_version_that_is_not_here_is_said_in_one_line(repository: Path) -> None:
    file = repository / "benchmarks.jsonl"
    with pytest.raises(LookupError, match="run `make bench`"):
        history.commit_on_file(file)
    history.put(an_entry("0123456789ab", 1.0), file)
    with pytest.raises(LookupError, match="0123456789ab, which is on file, is not in this clone"):
        history.commit_on_file(file)


def test_entries_on_file_say_what_was_measured_and_not_when() -> None:
    """A commit, two versions, and ratios between their least and greatest."""
    entries = history.entries()
    assert entries
    for entry in entries:
        assert list(entry)[:4] == ["commit", "python", "torch", "figures"]
        assert re.fullmatch(r"[0-9a-f]{7,40}(-dirty)?", entry["commit"])
        assert all(one.low <= one.ratio <= one.high for one in history.ratios_of(entry).values())


# What is measured --------------------------------------------------------------------------


def test_every_ratio_divides_processes_of_the_catalogue() -> None:
    """Each name stands once, each process is of use, and some ratios take seconds, for the guard."""
    names = [figure.name for figure in FIGURES]
    used = {quantity.process for figure in FIGURES for quantity in figure.quantities()}
    assert len(names) == len(set(names))
    assert used == set(PROCESSES)
    assert any(used & set(chosen(QUICK)))


def test_every_encoder_that_is_named_exists() -> None:
    """Those of checks, and those of floors."""
    named = {
        a.partition(":")[2] for p in PROCESSES.values() for a in p.arguments if a.startswith("benchmarks.encoders:")
    }
    floors = {p.arguments[-1] for p in PROCESSES.values() if "benchmarks.floor" in p.arguments}
    assert len(named) > 10
    assert [name for name in sorted(named | floors) if not callable(getattr(encoders, name, None))] == []


def test_an_encoder_written_by_hand_computes_what_torch_computes() -> None:
    """And not what a broken one computes."""
    x = torch.randn(3, 7, 24, dtype=torch.float64)
    right, wrong = (make().double().eval() for make in (encoders.small, encoders.small_wrong_scale))
    assert torch.allclose(right(x), allclose.by_hand(right, x))
    assert not torch.allclose(wrong(x), allclose.by_hand(wrong, x))


def test_draws_and_casts_are_counted() -> None:
    """Six numbers are drawn, four of them cast; a cast to what an array is already, and a copy, are none."""
    operations = counts.Operations(seen := counts.Counter())
    with operations:
        drawn = torch.randn(2, 3, dtype=torch.float64)
        drawn[:, :2].to(torch.float32)
        drawn.to(torch.float64)
        drawn.clone()
    assert seen == {counts.DRAWS: 1, counts.DRAWN: 6, counts.CASTS: 1, counts.CAST: 4}


def test_contents_are_compared_bit_by_bit() -> None:
    """Zero and minus zero are equal and differ in a bit; a transposed array has the same bytes, read differently."""
    zeros = torch.zeros(2, 3)
    assert counts.content(zeros) == counts.content(torch.zeros(2, 3))
    assert counts.content(zeros) != counts.content(-zeros)
    assert counts.content(zeros) != counts.content(torch.zeros(3, 2).mT)

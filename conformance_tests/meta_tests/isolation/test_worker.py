"""A worker: it takes over its parent's folder and environment, limits memory, judges one target, and ends."""

import errno
import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest

from conformance_tests.engine import judging
from conformance_tests.harness.question import Question
from conformance_tests.isolation import worker
from conformance_tests.isolation.signing import Signing, new_key
from conformance_tests.isolation.worker import (
    CHANNEL_LOST,
    STANDARD,
    Channel,
    free_memory,
    limit_memory,
    memory_in_use,
)
from conformance_tests.reports.report import Result, TargetReport


def test_the_standard_library_is_known_by_its_folders() -> None:
    assert (str(Path(os.__file__).parent), str(Path(os.__file__).parent / "lib-dynload")) == STANDARD


def told(monkeypatch: pytest.MonkeyPatch, text: str | None) -> None:
    """Have the system tell this of its memory, or nothing."""

    def read_text(self: Path) -> str:
        if text is None:
            raise FileNotFoundError(self)
        return f"{text}\nof {self}:    1 kB\n"

    monkeypatch.setattr(worker.Path, "read_text", read_text)


@pytest.mark.parametrize(
    ("text", "used", "free"),
    [
        ("VmPeak:\t 7 kB\nVmData:\t    11 kB\nMemFree: 13 kB\nMemAvailable:   17 kB", 11 * 1024, 17 * 1024),
        ("VmPeak:\t 7 kB\nMemTotal: 13 kB", 0, 0),
        (None, 0, 0),
    ],
)
def test_memory_is_read_in_kibibytes(text: str | None, used: int, free: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """0 where the system does not tell."""
    told(monkeypatch, text)
    assert (memory_in_use(), free_memory()) == (used, free)


def test_memory_in_use_is_that_of_this_process_and_free_memory_that_of_the_system() -> None:
    """Linux tells both; a process that runs torch uses at least 16 MiB."""
    if Path("/proc/self/status").exists():
        assert memory_in_use() > 2**24
        assert free_memory() > 0


MANY = 2**60


@pytest.mark.parametrize(
    ("allowed", "most", "limit"),
    [
        (700, resource.RLIM_INFINITY, 1024 + 700),
        (700, MANY, 1024 + 700),
        (700, 1500, 1500),
        (None, resource.RLIM_INFINITY, resource.RLIM_INFINITY),
    ],
)
def test_what_is_allowed_is_added_to_what_is_in_use(
    allowed: int | None, most: int, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As far as the hard limit goes, which stays."""
    said: list[Any] = []
    monkeypatch.setattr(worker, "memory_in_use", lambda: 1024)
    monkeypatch.setattr(resource, "getrlimit", lambda which: (5, most))
    monkeypatch.setattr(resource, "setrlimit", lambda which, limits: said.append((which, limits)))
    limit_memory(allowed)
    assert said == [(resource.RLIMIT_DATA, (limit, most))]


def test_no_limit_is_set_where_the_system_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "memory_in_use", lambda: 0)
    monkeypatch.setattr(resource, "setrlimit", lambda *_: pytest.fail("a limit was set"))
    limit_memory(700)
    limit_memory(None)


# Serving -------------------------------------------------------------------------------


class Sent:
    """A channel that hands out these requests, and keeps what is sent; without a request it ends the loop."""

    def __init__(self, *requests: dict[str, Any]) -> None:
        self.requests = list(requests)
        self.answers: list[dict[str, Any]] = []
        self.key = ""

    def sign_with(self, key: str) -> None:
        self.key = key

    def receive(self) -> dict[str, Any]:
        if not self.requests:
            raise EOFError
        return self.requests.pop(0)

    def send(self, **answer: Any) -> None:
        self.answers.append(json.loads(json.dumps(answer)))


def request(target: str, decided: tuple[Result, ...] = (), **question: Any) -> dict[str, Any]:
    asked = Question(**{"level": "static"} | question).in_words()
    return {"target": target, "question": asked, "decided": [asdict(r) for r in decided]}


def answered(asked: dict[str, Any], sent: Sent | None = None) -> dict[str, Any]:
    return worker.judged(asked, sent or Sent(), 3 * 2**29)  # type: ignore[arg-type]


def test_a_target_is_judged_and_each_result_sent_once() -> None:
    """The steps, the results as they are decided, and the whole report at the end, all as JSON can hold them."""
    sent = Sent()
    report = json.loads(json.dumps(answered(request("torch-post-ln"), sent)["report"]))
    assert (report["target"], report["verdict"]) == ("torch-post-ln", "conformant")
    told = [result["id"] for answer in sent.answers for result in answer.get("results", ())]
    assert told == [result["id"] for result in report["requirements"]]
    assert sent.answers[0] == {"doing": "torch-post-ln: importing", "done": 0, "of": 1}
    assert sent.answers[-1] == {"doing": "torch-post-ln: explaining", "done": 1, "of": 1}
    open_at_first = next(answer["undecided"] for answer in sent.answers if "undecided" in answer)
    assert [r["id"] for r in open_at_first] == told


def test_what_the_parent_has_already_is_not_sent_again() -> None:
    """Results of an earlier worker are in the report, and the news are those after them."""
    known = [Result(**r) for r in answered(request("torch-post-ln"))["report"]["requirements"]]
    sent = Sent()
    report = answered(request("torch-post-ln", decided=tuple(known[:-1])), sent)["report"]
    assert [r["id"] for r in report["requirements"]] == [r.id for r in known]
    assert [r["id"] for answer in sent.answers for r in answer.get("results", ())] == [known[-1].id]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (request("nobody"), "Unknown target 'nobody'"),
        (request("torch-post-ln", profile="nobody"), "there is no profile 'nobody'"),
    ],
)
def test_a_question_that_cannot_be_asked_is_answered_with_the_reason(asked: dict[str, Any], said: str) -> None:
    assert said in answered(asked)["unusable"]


@pytest.mark.parametrize(
    ("raised", "kind", "said"),
    [
        (ZeroDivisionError("by 0"), "fault", "ZeroDivisionError: by 0"),
        (KeyboardInterrupt(), "raised", "KeyboardInterrupt"),
        (SystemExit(3), "raised", "SystemExit: 3"),
        (OSError(errno.EMFILE, "Too many open files"), "raised", "OSError: [Errno 24] Too many open files"),
    ],
)
def test_what_escapes_a_judgement_is_the_suites_fault_unless_it_ends_programs(
    raised: BaseException, kind: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault comes with its traceback; what ends a program, or leaves no file to open, is the subject's."""

    def check_one(*_: Any) -> TargetReport:
        raise raised

    monkeypatch.setattr(judging, "check_one", check_one)
    answer = answered(request("torch-post-ln"))
    assert list(answer) == [kind]
    assert answer[kind].rstrip().endswith(said)
    assert ("Traceback" in answer[kind]) == (kind == "fault")


@pytest.mark.parametrize(
    ("message", "told"),
    [("raised MemoryError", True), ("DefaultCPUAllocator: can't allocate memory", True), ("by 0", False)],
)
def test_a_check_without_memory_is_told_how_much_there_was(
    message: str, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = Result("ATT-3", "attention.scores", "test_attention::test", "trace", "error", message)
    report = TargetReport("theirs", "nonconformant", requirements=[result])
    monkeypatch.setattr(judging, "check_one", lambda *_: report)
    notes = answered(request("torch-post-ln"))["report"]["notes"]
    assert notes == (["a target may allocate 1.5 GiB here (--memory)"] if told else [])


@pytest.mark.parametrize("is_ours", [False, True])
def test_memory_that_runs_out_is_nobodys_fault(is_ours: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may run out in a call of the encoder, or in the suite's own work."""
    said = "MemoryError: no room"

    def check_one(*_: Any) -> TargetReport:
        if is_ours:
            raise MemoryError("no room")
        return TargetReport("theirs", notes=[said])

    monkeypatch.setattr(judging, "check_one", check_one)
    assert answered(request("torch-post-ln")) == {"short_of_memory": said, "allowed": "1.5 GiB"}


class Ended(Exception):
    """In the place of the end of this process."""


@pytest.fixture
def serving(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Sent, list[Any]]]:
    """Serve a request in this process: return what was sent, and what else was done, in order."""
    done: list[Any] = []

    def serve(memory: float | None, **start: Any) -> tuple[Sent, list[Any]]:
        usual = {
            "key": "ab",
            "path": [],
            "folder": str(Path.cwd()),
            "environment": dict(os.environ),
            "memory": memory,
            "share": 1,
        }
        sent = Sent(usual | start, {"target": "a"})
        monkeypatch.setattr(worker, "Channel", lambda: sent)
        with pytest.raises(Ended):
            worker.main()
        return sent, done

    def judged(asked: dict[str, Any], channel: Sent, allowed: int) -> dict[str, Any]:
        done.append((asked["target"], allowed))
        return {"report": asked["target"]}

    def end(status: int) -> None:
        done.append(status)
        raise Ended

    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(worker, "faulthandler", SimpleNamespace(enable=lambda *_, **__: None))
    monkeypatch.setattr(worker, "judged", judged)
    monkeypatch.setattr(worker, "limit_memory", done.append)
    monkeypatch.setattr(worker, "free_memory", lambda: 4000)
    monkeypatch.setattr(os, "_exit", end)
    return serve


def test_a_worker_says_that_it_is_ready_judges_one_target_and_ends(
    serving: Callable[..., tuple[Sent, list[Any]]],
) -> None:
    """Memory is limited while the target is judged."""
    sent, done = serving(0.5)
    assert sent.answers == [{"ready": True}, {"report": "a"}]
    assert done == [2**29, ("a", 2**29), None, 0]


def test_three_quarters_of_the_free_memory_are_allowed_where_nobody_says_how_much(
    serving: Callable[..., tuple[Sent, list[Any]]],
) -> None:
    """Targets that are judged at the same time share it."""
    _, done = serving(None)
    assert done[0] == 3000
    _, done = serving(None, share=3)
    assert done[4] == 1000


def test_the_parents_path_is_searched_behind_the_standard_library(
    serving: Callable[..., tuple[Sent, list[Any]]],
) -> None:
    """A target's folder must not hide what the suite imports."""
    serving(1, path=["/theirs", STANDARD[1], "/site-packages", STANDARD[0]])
    assert sys.path == [STANDARD[1], STANDARD[0], "/theirs", "/site-packages"]


def test_a_worker_stands_where_its_parent_stands(
    serving: Callable[..., tuple[Sent, list[Any]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the same folder, with the same environment and no other: the process that forks it is older than both."""
    monkeypatch.chdir(Path.cwd())
    monkeypatch.setenv("FORGOTTEN", "by the parent")
    environment = {name: value for name, value in os.environ.items() if name != "FORGOTTEN"} | {"SET": "later"}
    with monkeypatch.context() as patch:
        patch.setattr(os, "environ", os.environ.copy())
        serving(1, folder=str(tmp_path), environment=environment)
        assert dict(os.environ) == environment
    assert Path.cwd() == tmp_path


# The channel ---------------------------------------------------------------------------


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The ways in which this process would have ended itself."""
    ways: list[Any] = []
    monkeypatch.setattr(os, "_exit", ways.append)
    monkeypatch.setattr(os, "killpg", lambda *group: ways.append(group))
    return ways


@pytest.mark.parametrize("groups", [True, False])
def test_requests_are_lines_and_behind_the_last_one_everything_ends(
    groups: bool, ended: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parent is gone then: where there are groups of processes, so is what the target has started."""
    if not groups:
        monkeypatch.delattr(os, "killpg")
    channel, (reading, writing) = Channel.__new__(Channel), os.pipe()
    channel._requests = SimpleQueue()
    os.write(writing, b'{"target": "a"}\n{"target": "b"}\n')
    os.close(writing)
    channel._listen(reading)
    assert [channel.receive()["target"] for _ in range(2)] == ["a", "b"]
    assert ended == [*([(os.getpid(), signal.SIGKILL)] if groups else []), CHANNEL_LOST]


def test_an_answer_is_a_line_however_many_pieces_it_takes(ended: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe takes as much as it has room for; one that is closed ends the process."""
    written: list[bytes] = []

    def write(descriptor: int, data: memoryview) -> int:
        if descriptor == 8:
            raise OSError(descriptor)
        written.append(bytes(data[:5]))
        return len(written[-1])

    monkeypatch.setattr(worker.os, "write", write)
    channel = Channel.__new__(Channel)
    channel._answers = 7
    channel.sign_with(key := new_key())
    channel.send(doing="é", done=1)
    assert Signing(key).read(b"".join(written)) == {"doing": "é", "done": 1}
    assert b"".join(written).endswith(b"\n")
    channel._answers = 8
    channel.send(done=2)
    assert ended == [CHANNEL_LOST]

"""A worker as its parent sees it: its last words, its stack and its end; no process here imports torch."""

import io
import json
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest

import encoder_spec
from conformance_tests.errors import Lost
from conformance_tests.isolation import forking, process
from conformance_tests.isolation.process import COMPUTING, FRAME, STARTING, Worker, is_our_own_work
from conformance_tests.isolation.signing import Signing, new_key
from conformance_tests.isolation.worker import CHANNEL_LOST, STANDARD

SPEC = str(Path(encoder_spec.__file__).parent / "attention.py")
TORCH = "/venv/lib/site-packages/torch/functional.py"
THEIRS = "/home/somebody/model.py"


@pytest.mark.parametrize(
    ("files", "computing"),
    [
        ([SPEC], True),
        ([TORCH, SPEC], True),
        (["/venv/site-packages/numpy/x.py", "/venv/site-packages/jaxtyping/x.py", SPEC, THEIRS], True),
        ([f"{STANDARD[0]}/functools.py", "<frozen importlib>", "/venv/site-packages/beartype/x.py", SPEC], True),
        ([THEIRS, SPEC], False),
        (["/venv/site-packages/transformers/x.py", SPEC], False),
        (["/venv/site-packages/torchvision/x.py", SPEC], False),
        ([TORCH], False),
        ([], False),
        ([str(Path(encoder_spec.__file__).parents[1] / "encoder_spec_of_mine.py")], False),
    ],
)
def test_the_suite_is_at_work_where_its_frame_is_the_innermost_outside_of_libraries(
    files: list[str], computing: bool
) -> None:
    """Those are the standard library, torch, NumPy and the two that check shapes; others belong to the subject."""
    assert is_our_own_work(files) is computing


@pytest.mark.parametrize("package", ["torch", "numpy", "jaxtyping", "beartype"])
def test_the_libraries_of_the_equations_are_told_by_their_folder(package: str) -> None:
    assert COMPUTING.search(f"/venv/site-packages/{package}/x.py")
    assert not COMPUTING.search("/venv/site-packages/torch/nn/modules/linear.py")
    assert not COMPUTING.search(f"/venv/site-packages/my_{package}/x.py")
    assert not COMPUTING.search(f"/home/{package}/x.py")


@pytest.mark.parametrize(
    ("line", "frame"),
    [
        ('  File "/a b/m.py", line 12 in forward', ("/a b/m.py", "12", "forward")),
        ('  File "<string>", line 1 in <module>', ("<string>", "1", "<module>")),
        ('  File "/a/m.py", line 12, in forward', None),
        ("Current thread 0x00007f (most recent call first):", None),
    ],
)
def test_a_frame_of_the_fault_handler_is_read(line: str, frame: tuple[str, str, str] | None) -> None:
    """A traceback of Python's own has a comma before ``in``: what a subject printed is no stack."""
    found = FRAME.search(line)
    assert (found and (found["file"], found["line"], found["function"])) == frame


KEY = new_key()


def signed(*answers: dict[str, Any]) -> list[bytes]:
    """The lines in which a worker sends these answers."""
    signing = Signing(KEY)
    return [signing.signed(answer) for answer in answers]


class Ended(Worker):
    """A worker without a process: what it said, the lines that it answered, and its exit status."""

    def __init__(self, *said: str, status: int = 0, answers: Iterable[bytes | None] = ()) -> None:
        self._said = deque(said, maxlen=64)
        self._signing = Signing(KEY)
        self._answers = SimpleQueue()
        for answer in answers:
            self._answers.put(answer)
        self._process: Any = SimpleNamespace(returncode=status, pid=0)
        self._ready = False
        self.killed = 0
        self.written: list[dict[str, Any]] = []
        self.stack: tuple[str, ...] = ()

    def kill(self) -> None:
        self.killed += 1

    def _interrupt(self) -> None:
        self._said.clear()
        self._said.extend(self.stack)

    def _write(self, message: dict[str, Any]) -> None:
        self.written.append(message)


def frames(*files: str) -> tuple[str, ...]:
    """A stack as the fault handler writes it, the innermost frame first."""
    head = ("Current thread 0x00007f (most recent call first):",)
    return head + tuple(f'  File "{file}", line {n} in f{n}' for n, file in enumerate(files, start=3))


@pytest.mark.parametrize(
    ("said", "place"),
    [
        ((), ""),
        (("printed",), ""),
        (frames(THEIRS), ", at model.py:3 in f3"),
        (frames(TORCH, THEIRS, SPEC), ", at model.py:4 in f4"),
        (frames(f"{STANDARD[0]}/threading.py", "<frozen os>", THEIRS), ", at model.py:5 in f5"),
        (frames(TORCH, f"{STANDARD[0]}/threading.py"), ", at functional.py:3 in f3"),
    ],
)
def test_the_place_is_the_innermost_frame_outside_of_libraries(said: tuple[str, ...], place: str) -> None:
    """Where all are inside of libraries, the innermost of all."""
    assert Ended(*said)._place() == place


SEGV = f"{signal.Signals.SIGSEGV.name} ({signal.strsignal(signal.SIGSEGV)})"
KILL = f"{signal.Signals.SIGKILL.name} ({signal.strsignal(signal.SIGKILL)})"


@pytest.mark.parametrize(
    ("status", "said", "end"),
    [
        (0, (), "ended its process with exit status 0"),
        (3, ("one", "two  ", "  "), 'ended its process with exit status 3; it last printed "two"'),
        (CHANNEL_LOST, ("one",), "closed the suite's own file descriptors"),
        (-signal.SIGSEGV, (), f"ended its process: killed by {SEGV}"),
        (
            -signal.SIGSEGV,
            ("said", "Fatal Python error: Segmentation fault", *frames(THEIRS)),
            f'ended its process: killed by {SEGV}, at model.py:3 in f3; it last printed "said"',
        ),
        (-signal.SIGKILL, (), f"ended its process: killed by {KILL}; the machine may be out of memory"),
        (1, ("x" * 300,), f'ended its process with exit status 1; it last printed "{"x" * 200}"'),
        (1, ("Fatal Python error: here", "said later"), "ended its process with exit status 1"),
    ],
)
def test_the_end_of_a_process_is_said_with_its_last_words(status: int, said: tuple[str, ...], end: str) -> None:
    """The status or the signal, where it was, and the last line before the fault handler spoke, cut at 200."""
    assert Ended(*said, status=status)._end() == end


def test_an_answer_is_a_signed_line() -> None:
    worker = Ended(answers=signed({"doing": "ATT-1"}, {"clean": True}))
    assert worker.answer(1) == {"doing": "ATT-1"}
    assert worker.answer(1) == {"clean": True}
    assert worker.killed == 0


@pytest.mark.parametrize(
    ("worker", "said", "killed"),
    [
        (Ended(status=3, answers=(None,)), "ended its process with exit status 3", 0),
        (Ended(answers=(b"no json\n",)), "wrote into the suite's own file descriptors", 1),
        (Ended(answers=(b'{"report": {}}\n',)), "wrote into the suite's own file descriptors", 1),
        (Ended(answers=signed({"raised": "SystemExit: 3"})), "raised SystemExit: 3", 0),
    ],
)
def test_what_is_no_answer_loses_the_worker(worker: Ended, said: str, killed: int) -> None:
    """Its end, a line that is not of the suite, and what ended its loop; one that speaks nonsense is ended."""
    with pytest.raises(Lost) as caught:
        worker.answer(1)
    assert (str(caught.value), worker.killed) == (said, killed)


@pytest.mark.parametrize(
    ("stack", "said"),
    [
        (frames(THEIRS), "hung: nothing came back within 0.01 s (--timeout), at model.py:3 in f3"),
        ((), "hung: nothing came back within 0.01 s (--timeout)"),
        (
            frames(TORCH, SPEC),
            "was not judged within 0.01 s: the suite was still at work (allow more with --timeout)",
        ),
    ],
)
def test_a_worker_that_does_not_answer_is_interrupted_ended_and_its_place_said(
    stack: tuple[str, ...], said: str
) -> None:
    """Where it computes equations, that is not the subject's fault; what was printed before is no stack."""
    worker = Ended(*frames("/printed/before.py"))
    worker.stack = stack
    with pytest.raises(Lost) as caught:
        worker.answer(0.01)
    assert (str(caught.value), worker.killed) == (said, 1)


def test_a_request_waits_for_the_worker_to_be_ready_once() -> None:
    """The first answer says so, and is nobody's."""
    worker = Ended(answers=signed({"ready": True}, {"clean": True}))
    worker.ask(target="a")
    worker.ask(target="b")
    assert worker.written == [{"target": "a"}, {"target": "b"}]
    assert worker.answer(1) == {"clean": True}
    assert STARTING >= 60


class Pipe(io.BytesIO):
    """Standard input of a worker, which may be gone."""

    gone = False

    def flush(self) -> None:
        if self.gone:
            raise BrokenPipeError


@pytest.mark.parametrize("gone", [False, True])
def test_a_request_is_one_line_of_json_and_lost_with_the_worker(gone: bool) -> None:
    """That the worker is gone is found out, and said, by whoever waits for its answer."""
    worker, pipe = Ended(), Pipe()
    pipe.gone = gone
    worker._process.stdin = pipe
    Worker._write(worker, {"target": "a\nb"})
    pipe.gone = False
    lines = pipe.getvalue().splitlines()
    assert [json.loads(line) for line in lines] == [{"target": "a\nb"}]


def test_what_a_subject_prints_is_kept_in_lines_of_500() -> None:
    """Without empty ones, and the last without its end; what is no UTF-8 is marked."""
    worker = Ended()
    worker._process.stderr = io.BytesIO(b"one\n \n" + b"x" * 600 + b"\n\xff\nlast" + b"y" * 600)
    worker._drain()
    assert list(worker._said) == ["one", "x" * 500, "\ufffd", "y" * 500]


def test_a_line_that_comes_in_pieces_is_put_together() -> None:
    class Slow(io.BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            return super().read1(3)

    worker = Ended()
    worker._process.stderr = Slow(b"one\ntwo, and more\nlast")
    worker._drain()
    assert list(worker._said) == ["one", "two, and more", "last"]


def test_answers_are_the_lines_that_a_worker_writes() -> None:
    worker = Ended()
    worker._process.stdout = io.BytesIO(b"".join(signed({"a": 1}, {"b": "é"})))
    worker._listen()
    assert [worker.answer(1), worker.answer(1)] == [{"a": 1}, {"b": "é"}]


@pytest.mark.parametrize("fault", [None, ProcessLookupError, PermissionError])
def test_a_process_is_ended_with_all_that_it_started(
    fault: type[Exception] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole group; one that has ended already is none."""
    ended: list[tuple[int, int]] = []

    def killpg(group: int, number: int) -> None:
        ended.append((group, number))
        if fault is not None:
            raise fault

    monkeypatch.setattr(os, "killpg", killpg)
    worker = Ended()
    worker._process.pid = 2**22 + 5
    Worker.kill(worker)
    assert ended == [(2**22 + 5, signal.SIGKILL)]


# A process of Python alone -------------------------------------------------------------

SENDING = """
import json, sys
sys.path.insert(0, sys.argv[1])
from conformance_tests.isolation.signing import Signing
told = sys.stdin.readline()
signing = Signing(json.loads(told)["key"])
def send(line):
    sys.stdout.buffer.write(signing.signed(json.loads(line)))
    sys.stdout.flush()
"""
"""The beginning of a worker that signs what it sends."""

ECHO = f"""{SENDING}
send('{{"ready": true}}')
send(told)
for line in sys.stdin:
    send(line)
"""
"""A worker that is ready and answers each request with itself."""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Worker]]:
    """Start processes that run this program in the place of a worker's, and end them after the test."""
    workers: list[Worker] = []

    def start(program: str, memory: float | None = None, share: int = 1) -> Worker:
        monkeypatch.setattr(forking, "AVAILABLE", False)
        monkeypatch.setattr(process, "BOOT", program)
        workers.append(Worker(memory, share))
        return workers[-1]

    yield start
    for worker in workers:
        worker.end()


def test_a_worker_is_told_the_path_and_its_memory_and_then_asked(
    started: Callable[..., Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The current folder has its name on the path, and is told as well: a worker may stand elsewhere."""
    monkeypatch.setattr(sys, "path", ["", "/theirs"])
    worker = started(ECHO, 2.5, 3)
    worker.ask(target="a", decided=[])
    told = worker.answer(10)
    assert told.pop("environment") == dict(os.environ)
    assert len(told.pop("key")) == len(KEY)
    assert told == {"path": [str(Path.cwd()), "/theirs"], "folder": str(Path.cwd()), "memory": 2.5, "share": 3}
    assert worker.answer(10) == {"target": "a", "decided": []}


def test_a_worker_that_is_ended_is_gone_and_says_so(started: Callable[..., Worker]) -> None:
    worker = started(ECHO)
    worker.end()
    assert worker._process.returncode == -signal.SIGKILL
    with pytest.raises(Lost, match="killed by SIGKILL"):
        [worker.answer(10) for _ in range(3)]


def test_last_words_are_complete_however_slowly_they_are_read(
    started: Callable[..., Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """That the process has ended is told behind everything that it had said and sent."""
    drain = Worker._drain

    def slowly(self: Worker) -> None:
        time.sleep(0.2)
        drain(self)

    monkeypatch.setattr(Worker, "_drain", slowly)
    worker = started(f"""{SENDING}\nsend('{{"a": 1}}')\nsys.exit("no weights")""")
    assert worker.answer(10) == {"a": 1}
    with pytest.raises(Lost, match='exit status 1; it last printed "no weights"'):
        worker.answer(10)


def test_what_a_worker_leaves_running_is_ended_with_it(started: Callable[..., Worker]) -> None:
    """A process that it has started holds its pipes, and would keep the parent waiting for them to close."""
    program = f"""{SENDING}
import subprocess
left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
send('{{"left": %d}}' % left.pid)
"""
    worker = started(program)
    left = worker.answer(10)["left"]
    with pytest.raises(Lost, match="exit status 0"):
        worker.answer(4)
    deadline = time.monotonic() + 4
    while is_running(left) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_running(left)


def is_running(number: int) -> bool:
    """Whether a process runs, as Linux shows it: one that has ended has no command any more."""
    command = Path(f"/proc/{number}/cmdline")
    return command.exists() and command.read_bytes() != b""

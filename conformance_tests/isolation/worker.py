"""The process in which one subject runs; ``process`` starts it and speaks with it.

The request comes in on what was standard input, answers go out on what was standard output,
one line of JSON each; those of the answers are signed. Both are moved away before the
subject is loaded: a subject reads nothing, and what it prints goes where standard error
goes, to the parent's drain.

A request names a target; the answers are what is being done, then every result as it is
decided, then the whole report. The memory limit counts private writable memory
(``RLIMIT_DATA``), not addresses, of which CUDA reserves more than any machine has. It
needs Linux; elsewhere, and on Windows in any case, there is none.
"""

import errno
import faulthandler
import json
import os
import pickle
import signal
import sys
import threading
import traceback
from base64 import b64decode, b64encode
from dataclasses import asdict
from pathlib import Path
from pkgutil import resolve_name
from queue import SimpleQueue
from typing import Any, NoReturn

from conformance_tests.errors import TargetError, one_line, tells_of_memory
from conformance_tests.harness.question import Question
from conformance_tests.isolation.jax_flags import compile_quickly
from conformance_tests.isolation.signing import Signing
from conformance_tests.reports.report import Result, TargetReport
from conformance_tests.reports.watching import Watcher

NO_MORE_FILES = (errno.EMFILE, errno.ENFILE)
"""Errors of a process that has opened as many files as it may."""

CHANNEL_LOST = 97
"""The exit status of a worker that can no longer speak: the subject closed its file descriptors."""

STANDARD = (str(Path(os.__file__).parent), str(Path(os.__file__).parent / "lib-dynload"))
"""Where the standard library is."""


class Channel:
    """The private connection to the parent."""

    def __init__(self) -> None:
        self._answers = os.dup(1)
        self._requests: SimpleQueue[dict[str, Any]] = SimpleQueue()
        requests = os.dup(0)
        with Path(os.devnull).open("rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        os.dup2(2, 1)
        # The objects of Python remember what the descriptors once were: whether one can seek in them, for instance.
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 -- as long as the process
        sys.stdout, sys.stderr = (
            open(place, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
            for place in (1, 2)
        )
        threading.Thread(target=self._listen, args=(requests,), daemon=True).start()

    def _listen(self, requests: int) -> None:
        """Receive requests; when the parent is gone, so is everything here."""
        with open(requests, encoding="utf-8") as lines:
            for line in lines:
                self._requests.put(json.loads(line))
        if hasattr(os, "killpg"):
            os.killpg(os.getpid(), signal.SIGKILL)
        os._exit(CHANNEL_LOST)

    def receive(self) -> dict[str, Any]:
        """Wait for the next request."""
        return self._requests.get()

    def sign_with(self, key: str) -> None:
        """Sign all answers with this key of the parent's."""
        self._signing = Signing(key)

    def send(self, **answer: Any) -> None:
        """Send an answer to the parent."""
        line = memoryview(self._signing.signed(answer))
        try:
            while line:
                line = line[os.write(self._answers, line) :]
        except OSError:
            os._exit(CHANNEL_LOST)


def main() -> NoReturn:
    """Judge one target, and end this process; or serve calls of the suite's own functions until the parent ends it."""
    channel = Channel()
    last_words = os.dup(2)
    faulthandler.enable(last_words, all_threads=False)
    if hasattr(faulthandler, "register"):
        faulthandler.register(signal.SIGUSR1, last_words, all_threads=False)
    start = channel.receive()
    channel.sign_with(start.pop("key"))
    # One that was forked stands where its parent stood, and as that was.
    if start["folder"]:
        os.chdir(start["folder"])
    os.environ.clear()
    os.environ.update(start["environment"])
    compile_quickly(os.environ)
    sys.path[:] = sorted(start["path"], key=lambda folder: folder not in STANDARD)

    from conformance_tests.harness.checks import registry

    registry()
    import torch

    # Large encoders are judged on several threads: those that are judged at the same time share the cores, too.
    torch.set_num_threads(max(1, torch.get_num_threads() // start["share"]))
    allowed = int(start["memory"] * 2**30) if start["memory"] else free_memory() * 3 // 4 // start["share"]
    channel.send(ready=True)
    request = channel.receive()
    if "call" in request:
        serve(request, channel)
    limit_memory(allowed)
    answer = judged(request, channel, allowed)
    limit_memory(None)
    channel.send(**answer)
    os._exit(0)


def serve(request: dict[str, Any], channel: Channel) -> NoReturn:
    """Apply a function of the suite to the item of each request, and return what it returns, or the traceback."""
    while True:
        try:
            answer = {"returned": packed(resolve_name(request["call"])(unpacked(request["item"])))}
        except Exception:
            answer = {"fault": traceback.format_exc()}
        channel.send(**answer)
        request = channel.receive()


def packed(value: Any) -> str:
    """Return a value as text, for a process of the suite's own."""
    return b64encode(pickle.dumps(value)).decode()


def unpacked(text: str) -> Any:
    """Return the value of a text; it must come from a process that runs no target."""
    return pickle.loads(b64decode(text))


def judged(request: dict[str, Any], channel: Channel, allowed: int) -> dict[str, Any]:
    """Judge one target, report each decision to the parent, and return the last answer."""
    from conformance_tests.engine.judging import Target, check_one
    from encoder_spec.notation import SpecificationError

    try:
        question = Question(**request["question"])
        question.demand_usable()
        decided = [Result(**r) for r in request["decided"]]
        target = Target.of(request["target"], question)
        report = check_one(target, question, Reporting(channel, len(decided)), decided)
    except (TargetError, SpecificationError) as reason:
        return {"unusable": str(reason)}
    except Exception as fault:
        trace, said = traceback.format_exc(), one_line(fault)
        if isinstance(fault, OSError) and fault.errno in NO_MORE_FILES:
            return {"raised": said}  # the suite opens few, and met what the target left
        return short_of_memory(said, allowed) if tells_of_memory(said) else {"fault": trace}
    except BaseException as fault:
        return {"raised": one_line(fault).rstrip(": ")}
    told = [note for note in report.notes if tells_of_memory(note)]
    if told and report.verdict == "error":
        return short_of_memory(told[0], allowed)
    if any(tells_of_memory(r.message) for r in report.requirements):
        report.notes.append(f"a target may allocate {in_gibibytes(allowed)} here (--memory)")
    return {"report": asdict(report)}


def short_of_memory(said: str, allowed: int) -> dict[str, Any]:
    """Return the answer that the memory was not enough, for a call of the encoder or for what the suite keeps."""
    return {"short_of_memory": said, "allowed": in_gibibytes(allowed)}


def in_gibibytes(size: int) -> str:
    """Return a number of bytes as people say it."""
    return f"{size / 2**30:.3g} GiB"


class Reporting(Watcher):
    """Reports to the parent what is done and decided.

    Args:
        channel: the connection to the parent.
        sent: the number of results that the parent has already.
    """

    def __init__(self, channel: Channel, sent: int) -> None:
        self.channel = channel
        self.sent = sent

    def doing(self, what: str, done: int, of: int) -> None:
        """See ``Watcher``."""
        self.channel.send(doing=what, done=done, of=of)

    def decided(self, report: TargetReport, undecided: list[Result]) -> None:
        """See ``Watcher``."""
        news = [asdict(r) for r in report.requirements[self.sent :]]
        self.channel.send(profile=report.profile, results=news, undecided=[asdict(r) for r in undecided])
        self.sent = len(report.requirements)

    def judged(self, report: TargetReport) -> None:
        """See ``Watcher``."""
        self.channel.send(judged=asdict(report))


def memory_in_use() -> int:
    """Return the bytes of private writable memory; 0 where the system does not show them."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmData")), 0)


def free_memory() -> int:
    """Return the bytes that the system can still give; 0 where it does not show them."""
    try:
        system = Path("/proc/meminfo").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in system.splitlines() if line.startswith("MemAvailable")), 0)


def limit_memory(allowed: int | None) -> None:
    """Let this process allocate so many bytes more, or as many as it wants."""
    used = memory_in_use()
    if not used:
        return
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    limit = resource.RLIM_INFINITY if allowed is None else used + allowed
    resource.setrlimit(resource.RLIMIT_DATA, (limit if most == resource.RLIM_INFINITY else min(limit, most), most))

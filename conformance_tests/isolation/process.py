"""A worker as its parent sees it: started, asked, listened to, and ended when it hangs."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import encoder_spec
from conformance_tests.errors import Lost
from conformance_tests.isolation import forking
from conformance_tests.isolation.forking import ForkServer
from conformance_tests.isolation.signing import Signing, new_key
from conformance_tests.isolation.worker import CHANNEL_LOST, STANDARD

STARTING = 600.0
"""Seconds within which a worker must have imported torch; a slow disk needs many."""

BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from conformance_tests.isolation.worker import main; main()"

FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<function>.+)')

COMPUTING = re.compile(r"site-packages/(?:torch/(?!nn/modules/)|numpy/|jaxtyping/|beartype/)")
"""The libraries that the suite computes with; modules of torch run in encoders alone."""

OURS = (Path(encoder_spec.__file__).parent, Path(__file__).parents[1])
"""The folders of the specification and of the suite."""

SUBJECTS = OURS[1] / "meta_tests"
"""Encoders of the suite's tests do not belong to it."""


def warm() -> None:
    """Begin to import what workers need, so that the first one waits less."""
    if forking.AVAILABLE:
        ForkServer.running()


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def working_directory() -> str:
    """Return the folder in which this process stands; nothing if it has been deleted."""
    with suppress(FileNotFoundError):
        return str(Path.cwd())
    return ""


def fresh() -> subprocess.Popen[bytes]:
    """Return a new interpreter, which must import torch first: where no process can be forked."""
    return subprocess.Popen(
        [sys.executable, "-P", "-c", BOOT, str(Path(__file__).resolve().parents[2])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=forking.QUIET | os.environ,
        start_new_session=True,
    )


class Worker:
    """A child process that judges a target.

    Args:
        memory: GiB that the target may allocate; None for its share in three quarters of what is free.
        share: the number of targets that share this memory.
    """

    def __init__(self, memory: float | None, share: int = 1) -> None:
        self._said: deque[str] = deque(maxlen=64)
        self._answers: SimpleQueue[bytes | None] = SimpleQueue()
        self._process = ForkServer.running().fork() if forking.AVAILABLE else fresh()
        readers = [
            threading.Thread(target=read, args=arguments, daemon=True)
            for read, arguments in ((self._listen, ()), (self._drain, ()))
        ]
        for reader in readers:
            reader.start()
        self._waiter = threading.Thread(target=self._wait, args=(readers,), daemon=True)
        self._waiter.start()
        here = working_directory()
        path = [here if folder == "" else folder for folder in sys.path]
        self._ready = False
        key = new_key()
        self._signing = Signing(key)
        start = {"path": path, "folder": here, "environment": dict(os.environ), "memory": memory, "share": share}
        self._write({"key": key, **start})

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._answers.put(line)

    def _drain(self) -> None:
        """Take whatever the subject prints, in pieces, so that it never waits and is never long here."""
        assert self._process.stderr is not None
        rest = ""
        with self._process.stderr as pieces:
            while piece := pieces.read1(65536):  # type: ignore[attr-defined]
                *lines, rest = (rest + piece.decode("utf-8", "replace")).split("\n")
                self._said.extend(line[:500] for line in lines if line.strip())
                rest = rest[-500:]
        self._said.append(rest)

    def _wait(self, readers: list[threading.Thread]) -> None:
        """Announce that the process has ended, after everything that it had sent."""
        self._process.wait()
        self.kill()
        for reader in readers:
            reader.join(5)
        self._close()
        self._answers.put(None)

    def _close(self) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()

    def _write(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError, ValueError):  # closed there, or here
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()

    def ask(self, **request: Any) -> None:
        """Send a request, when the worker is ready."""
        if not self._ready:
            self.answer(STARTING)
            self._ready = True
        self._write(request)

    def answer(self, seconds: float | None) -> dict[str, Any]:
        """Wait for the next answer, so many seconds or as long as it takes.

        Raises:
            Lost: if it does not come in time, or never will.
        """
        try:
            line = self._answers.get(timeout=seconds)
        except Empty:
            self._interrupt()
            self.kill()
            if is_our_own_work(frame["file"] for frame in self._frames()):
                raise Lost(f"was not judged within {seconds:g} s: the suite was still at work ({MORE_TIME})") from None
            raise Lost(f"hung: nothing came back within {seconds:g} s (--timeout){self._place()}") from None
        if line is None:
            raise Lost(self._end())
        try:
            answer = self._signing.read(line)
        except ValueError:
            self.kill()
            raise Lost("wrote into the suite's own file descriptors") from None
        if "raised" in answer:
            raise Lost(f"raised {answer['raised']}")
        if "short_of_memory" in answer:
            raise Lost(
                f"was not judged within {answer['allowed']} of memory ({MORE_MEMORY}): {answer['short_of_memory']}"
            )
        return answer

    def _interrupt(self) -> None:
        """Let the worker's fault handler write where it is now."""
        if not hasattr(signal, "SIGUSR1"):
            return
        self._said.clear()
        with suppress(ProcessLookupError):
            if self._process.pid is not None:
                os.kill(self._process.pid, signal.SIGUSR1)
        time.sleep(0.2)

    def _frames(self) -> list[re.Match[str]]:
        """Read the stack that the fault handler wrote, the innermost frame first."""
        return [frame for line in list(self._said) if (frame := FRAME.search(line))]

    def _place(self) -> str:
        """Name the innermost frame, outside of libraries, of the stack that the fault handler wrote."""
        frames = self._frames()
        own = [f for f in frames if not f["file"].startswith((STANDARD[0], "<")) and "site-packages" not in f["file"]]
        for f in (own or frames)[:1]:
            return f", at {Path(f['file']).name}:{f['line']} in {f['function']}"
        return ""

    def _end(self) -> str:
        """Describe how the process ended."""
        status = self._process.returncode or 0
        if status == CHANNEL_LOST:
            return "closed the suite's own file descriptors"
        if status < 0:
            name = f"{signal.Signals(-status).name} ({signal.strsignal(-status)})"
            out_of_memory = "; the machine may be out of memory" if -status == getattr(signal, "SIGKILL", 0) else ""
            return f"ended its process: killed by {name}{self._place()}{out_of_memory}{self._last_words()}"
        return f"ended its process with exit status {status}{self._last_words()}"

    def _last_words(self) -> str:
        """Quote the last line that the subject printed before the fault handler wrote."""
        lines = list(self._said)
        fault = next((i for i, line in enumerate(lines) if line.startswith("Fatal Python error")), len(lines))
        lines = [line.strip() for line in lines[:fault] if line.strip()]
        return f'; it last printed "{lines[-1][:200]}"' if lines else ""

    def end(self) -> None:
        """End the process and whatever it started, and wait until it has ended."""
        self.kill()
        self._waiter.join(10)

    def kill(self) -> None:
        """End the process and its group; one that has not been forked yet ends when it finds nobody to listen to."""
        if self._process.pid is None:
            self._close()
            return
        with suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                os.kill(self._process.pid, signal.SIGTERM)


MORE_TIME, MORE_MEMORY = "allow more with --timeout", "allow more with --memory"


def is_our_own_work(files: Iterable[str]) -> bool:
    """Return whether the innermost frame, outside of libraries, is one of ours: then no call of a subject takes long.

    Args:
        files: the files of the frames, the innermost first.
    """
    inner = (f for f in files if not f.startswith((STANDARD[0], "<")) and not COMPUTING.search(f))
    file = Path(next(inner, ""))
    return any(map(file.is_relative_to, OURS)) and not file.is_relative_to(SUBJECTS)

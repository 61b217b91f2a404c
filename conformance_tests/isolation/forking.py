"""Processes that are forked from a warm one: torch and the suite are imported once, and every target starts clean.

The server imports what judging needs, computes nothing in several threads, and runs no target: whatever a target does
to its process, the next one is forked from a process that has never seen it. Between the server and the process of a
target stands a keeper. It adopts what the target starts, in process groups and sessions of any kind, and ends it when
the target has ended.

A keeper needs Linux, which lets a process adopt orphans (``PR_SET_CHILD_SUBREAPER``) and lists processes in ``/proc``.
Elsewhere ``process`` starts a fresh interpreter for each target.
"""

import atexit
import ctypes
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import IO, ClassVar

from conformance_tests.isolation.worker import main

BOOT = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from conformance_tests.isolation.forking import serve; serve(int(sys.argv[2]))"
)

SUBREAPER = 36
"""``PR_SET_CHILD_SUBREAPER`` of ``prctl``: orphans below this process become its children."""

QUIET = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "1000"}
"""Variables of the environment with which threads that wait for work leave their cores to other processes.

They look for it a thousand times before they sleep, since to be woken for each product takes a tenth of the time of a
large encoder. Where two processes share two cores this costs a tenth, and looking ten times as often doubles the time.
"""

AVAILABLE = sys.platform == "linux"


class ForkServer:
    """The warm process, as its parent sees it; one serves all targets of a program."""

    _running: ClassVar["ForkServer | None"] = None
    _starting: ClassVar[Lock] = Lock()

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        root = str(Path(__file__).resolve().parents[2])
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", BOOT, root, str(theirs.fileno())],
                cwd=root,  # a folder that will be there; each process goes to where its parent stands
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=QUIET | os.environ,
                start_new_session=True,
            )
        atexit.register(self.end)

    def end(self) -> None:
        """End the server, whatever it is importing; the processes that it has forked go on."""
        self._socket.close()
        self._process.terminate()
        self._process.wait()

    @classmethod
    def running(cls) -> "ForkServer":
        """Return the server; start it if there is none, or if it has ended."""
        with cls._starting:
            if cls._running is not None and cls._running._process.poll() is not None:
                cls._running.end()
                cls._running = None
            cls._running = cls._running or cls()
            return cls._running

    def fork(self) -> "Forked":
        """Return a new process of a target."""
        return Forked(self._socket)


class Forked:
    """A process that the server has forked or will fork, with the pipes and the end of a ``subprocess.Popen``.

    Attributes:
        pid: its number, which is that of its process group too; None until it has been forked.
        returncode: its exit status, or the negative number of the signal that ended it; None until it has ended.
    """

    def __init__(self, server: socket.socket) -> None:
        self.pid: int | None = None
        self.returncode: int | None = None
        pipes = [os.pipe() for _ in range(4)]
        ours = [w if place == 0 else r for place, (r, w) in enumerate(pipes)]
        theirs = [r if place == 0 else w for place, (r, w) in enumerate(pipes)]
        # A server that has just ended leaves pipes that are closed, and these say so.
        with suppress(OSError):
            socket.send_fds(server, [b"fork"], theirs)
        for descriptor in theirs:
            os.close(descriptor)
        self.stdin: IO[bytes] = os.fdopen(ours[0], "wb")
        self.stdout: IO[bytes] = os.fdopen(ours[1], "rb")
        self.stderr: IO[bytes] = os.fdopen(ours[2], "rb")
        self._fate = os.fdopen(ours[3], "rb")

    def wait(self) -> int:
        """Wait until the process and all that it started have ended; return its exit status."""
        with self._fate as said:
            self.pid = int(said.readline() or 0) or None
            self.returncode = int(said.readline() or -signal.SIGKILL)
        return self.returncode


# In the server -------------------------------------------------------------------------


def serve(descriptor: int) -> None:
    """Fork a keeper for each request, until the parent is gone."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # keepers are not waited for
    with suppress(Exception):  # the process of a target says what is missing or broken, where it is heard
        warm_up()
    server = socket.socket(fileno=descriptor)
    while True:
        message, descriptors, _, _ = socket.recv_fds(server, 16, 4)
        if not message:
            os._exit(0)
        if os.fork() == 0:
            server.close()
            keep(*descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def warm_up() -> None:
    """Import what judging needs."""
    from conformance_tests.engine import judging  # noqa: F401
    from conformance_tests.harness.checks import registry

    registry()


def keep(stdin: int, stdout: int, stderr: int, fate: int) -> None:
    """Fork the process of a target, wait for its end, end what it started, and tell the parent how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    worker = os.fork()
    if worker == 0:
        os.setpgid(0, 0)
        os.write(fate, b"%d\n" % os.getpid())  # before any target runs; from here on the group can be ended
        os.close(fate)
        for place, descriptor in enumerate((stdin, stdout, stderr)):
            os.dup2(descriptor, place)
            os.close(descriptor)
        main()
    for descriptor in (stdin, stdout, stderr):
        os.close(descriptor)
    _, status = os.waitpid(worker, 0)
    end_children()
    os.write(fate, b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def end_children() -> None:
    """End the children of this process, and theirs, which become its own."""
    while children := list_children():
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.wait()


def list_children() -> list[int]:
    """Return the numbers of the children of this process, as the system lists them."""
    children = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # one that has ended meanwhile
            # The second field, the name in brackets, may hold anything; the state and the parent follow.
            _, parent, *_ = file.read_text(errors="replace").rpartition(")")[2].split()
            if int(parent) == os.getpid():
                children.append(int(file.parent.name))
    return children

"""Processes that are forked from a warm one: their pipes, their end, and the end of whatever they have started."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conformance_tests.isolation import forking
from conformance_tests.isolation.forking import Forked, ForkServer, list_children

pytestmark = pytest.mark.skipif(not forking.AVAILABLE, reason="only Linux has keepers")

ROOT = str(Path(__file__).resolve().parents[3])

SERVER = """
import os, sys
sys.path.insert(0, sys.argv[1])
from conformance_tests.isolation import forking
forking.warm_up = lambda: None
def main():
    {worker}
    os._exit(0)
forking.main = main
forking.serve(int(sys.argv[2]))
"""
"""A server without torch, whose workers run a few lines of a test."""


@pytest.fixture
def forked() -> Iterator[Callable[[str], Forked]]:
    """Fork a process that runs these lines from a server; the servers end after the test."""
    servers: list[tuple[subprocess.Popen[bytes], socket.socket]] = []
    processes: list[Forked] = []

    def fork(worker: str) -> Forked:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        program = SERVER.format(worker="\n    ".join(worker.strip().splitlines()))
        command = [sys.executable, "-c", program, ROOT, str(theirs.fileno())]
        with theirs:
            servers.append((subprocess.Popen(command, pass_fds=[theirs.fileno()]), ours))
        processes.append(Forked(ours))
        return processes[-1]

    yield fork
    for process in processes:
        close(process)
    for server, ours in servers:
        ours.close()
        assert server.wait(10) == 0  # it ends when its parent is gone


def close(process: Forked) -> None:
    """Close what a worker reads to its end."""
    for pipe in (process.stdin, process.stdout, process.stderr):
        pipe.close()


def is_running(number: int) -> bool:
    """Return whether a process is running; the command line of a zombie is empty."""
    command = Path(f"/proc/{number}/cmdline")
    return command.exists() and command.read_bytes() != b""


def test_a_forked_process_reads_and_writes_its_pipes(forked: Callable[[str], Forked]) -> None:
    """Its number is that of its group as well."""
    process = forked("""
line = os.read(0, 100)
os.write(1, line.upper())
os.write(2, f'{os.getpid()} {os.getpgid(0)}'.encode())
""")
    process.stdin.write(b"hello")
    process.stdin.close()
    assert (process.stdout.read(), process.wait()) == (b"HELLO", 0)
    assert process.stderr.read().split() == [b"%d" % process.pid] * 2


@pytest.mark.parametrize(
    ("lines", "status"),
    [("os._exit(3)", 3), ("os.kill(os.getpid(), 9)", -9), ("os.abort()", -6), ("raise SystemExit(5)", 5)],
)
def test_the_end_of_a_forked_process_is_told(lines: str, status: int, forked: Callable[[str], Forked]) -> None:
    assert forked(lines).wait() == status


def test_a_process_starts_as_the_server_is_whatever_the_one_before_did(forked: Callable[[str], Forked]) -> None:
    """Neither a variable nor a module of the first is in the second."""
    first = forked("sys.modules['planted'] = forking.PLANTED = 1")
    assert first.wait() == 0
    second = forked("os.write(1, repr([hasattr(forking, 'PLANTED'), 'planted' in sys.modules]).encode())")
    assert (second.stdout.read(), second.wait()) == (b"[False, False]", 0)


def test_what_a_target_starts_ends_with_it_wherever_it_went(forked: Callable[[str], Forked]) -> None:
    """Children in other sessions and process groups, and an orphan whose parent has ended already."""
    process = forked("""
import subprocess
def start(**how):
    return subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(100)'], **how).pid
left = [start(), start(start_new_session=True), start(process_group=0)]
hear, say = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(say, b'%d' % start(start_new_session=True))
    os._exit(0)
left.append(int(os.read(hear, 10)))
os.write(1, ' '.join(map(str, left)).encode())
""")
    assert process.wait() == 0
    left = [int(number) for number in process.stdout.read().split()]
    assert len(left) == 4
    assert [number for number in left if is_running(number)] == []


def test_a_keeper_that_a_target_ends_is_no_success(forked: Callable[[str], Forked]) -> None:
    """Nobody can tell how the target ends then."""
    process = forked("os.kill(os.getppid(), 9); import time; time.sleep(100)")
    assert process.wait() == -signal.SIGKILL
    assert process.pid is not None
    os.killpg(process.pid, signal.SIGKILL)


def test_a_process_of_a_server_that_is_gone_was_never_there() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.close()
    with ours:
        process = Forked(ours)
        assert (process.wait(), process.pid, process.stdout.read()) == (-signal.SIGKILL, None, b"")
        close(process)


def test_children_are_listed_by_their_parent() -> None:
    """Whatever they call themselves."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"]) as child:
        assert child.pid in list_children()
        child.kill()
    assert child.pid not in list_children()


def test_one_server_serves_a_program_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forking, "BOOT", "import sys; open(int(sys.argv[2]), 'rb').read()")
    monkeypatch.setattr(ForkServer, "_running", None)
    first = ForkServer.running()
    assert ForkServer.running() is first
    first._process.kill()
    first._process.wait()
    second = ForkServer.running()
    assert second is not first
    second.end()
    assert second._process.returncode is not None

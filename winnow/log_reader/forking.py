"""Forks a process per question from one that has loaded the libraries: loading them takes most of a question's CPU.

The caller holds the other end of a socket. Each message on it, JSON with the limits ``seconds`` and ``memory_bytes``,
brings two more: one for question and answer, and one by which the caller hears the exit code, or asks for the end of
the process by closing it. Only this process reaps its children, so none of its signals reaches a process that has got
the number of one that has ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
from collections.abc import Callable, Mapping
from typing import Final, NoReturn

_MESSAGE_BYTES: Final = 1_024
_SOCKETS: Final = 2
_NUMBER_BYTES: Final = 16

Answer = Callable[[socket.socket, int, int], int]
"""Answers one question within so many seconds and bytes; returns the exit code."""


class ForkingProcess:
    """Forks a process for each message on ``control``, which ``answer`` keeps busy."""

    def __init__(self, control: socket.socket, answer: Answer) -> None:
        self._control, self._answer = control, answer
        self._children: dict[int, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        self._ended, self._ending = socket.socketpair()

    def serve(self) -> None:
        """Fork until the other end of the socket is closed; then end what is still at work."""
        for end in (self._ended, self._ending):
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._ending.fileno(), warn_on_full_buffer=False)
        self._selector.register(self._control, selectors.EVENT_READ)
        self._selector.register(self._ended, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._ended:
                    self._reap()
                elif key.fileobj is not self._control:
                    self._kill(*key.data)
                elif not self._accept():
                    for pid, watch in self._children.items():
                        self._kill(pid, watch)
                    return

    def _accept(self) -> bool:
        """Fork for one message; return whether more may come. One that cannot be served has its sockets closed."""
        message, numbers, *_ = socket.recv_fds(self._control, _MESSAGE_BYTES, _SOCKETS)
        with contextlib.ExitStack() as stack:
            sockets = [stack.enter_context(socket.socket(fileno=number)) for number in numbers]
            if len(sockets) != _SOCKETS:
                return bool(message)
            talk, watch = sockets
            try:
                pid = os.fork()
            except OSError:
                return True
            if not pid:
                self._become_child(talk, watch, json.loads(message))
            stack.pop_all()
        talk.close()
        self._children[pid] = watch
        self._selector.register(watch, selectors.EVENT_READ, (pid, watch))
        return True

    def _become_child(self, talk: socket.socket, watch: socket.socket, limits: Mapping[str, int]) -> NoReturn:
        code = os.EX_SOFTWARE
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            self._selector.close()
            for own in (self._control, self._ended, self._ending, watch, *self._children.values()):
                own.close()
            code = self._answer(talk, limits["seconds"], limits["memory_bytes"])
        finally:
            # Without Python's own end, which takes a third of a second with these libraries.
            os._exit(code)

    def _kill(self, pid: int, watch: socket.socket) -> None:
        if self._children.get(pid) is not watch:
            return  # it has ended
        self._forget(watch)
        for kill in (os.killpg, os.kill):  # it may not have got a group of its own yet
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(pid, signal.SIGKILL)

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._ended.recv(_NUMBER_BYTES):
                continue
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                self._end(pid, os.waitstatus_to_exitcode(status))

    def _end(self, pid: int, code: int) -> None:
        watch = self._children.pop(pid)
        self._forget(watch)
        with watch, contextlib.suppress(OSError):  # nobody may be left who wants to know
            watch.sendall(str(code).encode())

    def _forget(self, watch: socket.socket) -> None:
        with contextlib.suppress(KeyError):
            self._selector.unregister(watch)

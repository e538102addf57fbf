"""Server that runs ``winnow`` and ``winnow airflow`` commands in forked children, to save import time.

    python prompt.py PROGRAM SOCKET        serve, until standard input ends

Dozens of commands stand in the docs, and each would load PyIceberg and Great Expectations, or Airflow, anew. A command
is the real one, in a process of its own, with the caller's environment, folder and streams; only Spark's part of a
compaction runs in that process instead of a JVM, and Airflow's command line instead of in a further one.
"""

from __future__ import annotations

import array
import json
import os
import select
import socket
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

CLIENT = """#!{python} -IS
import array, json, os, socket, sys
asked = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
with socket.socket(socket.AF_UNIX) as line:
    line.connect({address!r})
    streams = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))
    line.sendmsg([len(asked).to_bytes(4, "big")], [streams])
    line.sendall(asked)
    sys.exit(int(line.recv(4) or b"70"))
"""
"""What stands on PATH: hands over its streams, and ends as the command ended."""


def serve_commands(program: str, address: str) -> None:
    """Answer commands, one after another, until standard input ends."""
    main = {"winnow": load_winnow, "winnow airflow": load_winnow_airflow}[program]()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            ready, _, _ = select.select([listener, sys.stdin], [], [])
            if sys.stdin in ready:
                return
            line, _ = listener.accept()
            with line, suppress(OSError):
                run_in_child(line, program, main)


def load_winnow() -> Callable[[], None]:
    """Import what commands import, and leave the JVM out."""
    import great_expectations  # noqa: F401 - loaded once for all

    from tests.support.in_process_spark import submit
    from winnow.cli import main
    from winnow.pipeline.compaction import driver
    from winnow.pipeline.monitor import metrics  # noqa: F401

    vars(driver)["submit_plans"] = submit
    return main


def load_winnow_airflow() -> Callable[[], None]:
    """Import Airflow, whose home the environment of this process names, and run it in the process of the command."""
    from airflow.__main__ import main as run_airflow
    from airflow.cli import cli_parser
    from airflow.models import dagrun, serialized_dag  # noqa: F401
    from sqlalchemy.orm import configure_mappers

    from winnow.cli import main
    from winnow.embedded import airflow_home

    def run(command: Sequence[str], env: Mapping[str, str]) -> int:
        os.environ.clear()
        os.environ.update(env)
        sys.argv = ["airflow", *command[3:]]
        try:
            run_airflow()  # type: ignore[no-untyped-call]
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else int(end.code is not None)
        return 0

    vars(airflow_home)["_run_in_foreground"] = run
    cli_parser.get_parser()
    configure_mappers()
    return main


def run_in_child(line: socket.socket, program: str, main: Callable[[], None]) -> None:
    """Run one command in a child and send its exit code."""
    size, ancillary, _, _ = line.recvmsg(4, socket.CMSG_SPACE(3 * array.array("i").itemsize))
    streams = array.array("i", ancillary[0][2]).tolist()
    text = b""
    while len(text) < int.from_bytes(size, "big"):
        text += line.recv(1 << 20)
    child = os.fork()
    if child == 0:
        os._exit(run_command(streams, program, main, *json.loads(text)))
    for stream in streams:
        os.close(stream)
    _, status = os.waitpid(child, 0)
    line.sendall(str(os.waitstatus_to_exitcode(status)).encode())


def run_command(
    streams: list[int], program: str, main: Callable[[], None], arguments: list[str], folder: str, env: dict[str, str]
) -> int:
    """Be ``program`` with these arguments; the exit code."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = [program, *arguments]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 70
    finally:
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    serve_commands(*sys.argv[1:])

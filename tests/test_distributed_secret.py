"""The file of a job's secret is trusted only if nobody else can have written it, or can read it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from adjoint.distributed.errors import DistNetworkError
from adjoint.distributed.store.secret import VARIABLE, job_secret
from adjoint.engine.backends.disk import private


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("ADJOINT_CACHE_DIR", str(tmp_path / "caches"))
    return tmp_path / "caches" / "job-secret"


def test_it_is_made_once_for_this_user(path: Path) -> None:
    made = job_secret()
    assert len(made) == 64
    assert job_secret() == made == path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize(
    ("mode", "said"),
    [(0o620, "written"), (0o602, "written"), (0o640, "read"), (0o604, "read"), (0o666, "written")],
)
def test_modes_that_let_others_in(path: Path, mode: int, said: str) -> None:
    job_secret()
    path.chmod(mode)
    with pytest.raises(DistNetworkError, match=f"can be {said} .*remove it"):
        job_secret()


def test_a_folder_that_others_write_to(path: Path) -> None:
    job_secret()
    path.parent.chmod(0o777)
    with pytest.raises(DistNetworkError, match="can be written by other users"):
        job_secret()


def test_a_file_of_another_user(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job_secret()
    theirs, ours = path.stat().st_ino, private._ours
    monkeypatch.setattr(private, "_ours", lambda about: about.st_ino != theirs and ours(about))
    with pytest.raises(DistNetworkError, match="belongs to another user"):
        job_secret()


def test_links_pipes_and_empty_files(path: Path, tmp_path: Path) -> None:
    job_secret()
    path.unlink()
    (tmp_path / "other").write_bytes(b"known to another")
    path.symlink_to(tmp_path / "other")
    with pytest.raises(DistNetworkError, match="no file of its own"):
        job_secret()
    path.unlink()
    os.mkfifo(path, 0o600)
    with pytest.raises(DistNetworkError, match="no plain file"):
        job_secret()
    path.unlink()
    path.touch(0o600)
    with pytest.raises(DistNetworkError, match="empty"):
        job_secret()


def test_the_variable_comes_first(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "given")
    assert job_secret() == b"given"
    assert not path.exists()

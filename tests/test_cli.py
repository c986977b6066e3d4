"""The command refuses what it cannot do in one line, without a traceback."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import adjoint as ad
from adjoint import cli

# Arguments, and what the one line says.
REFUSED = {
    "": "arguments are required: command",
    "nothing": "invalid choice: 'nothing'. There is: run, train",
    "tran digits": "invalid choice: 'tran'. Did you mean 'train'?",
    "--bogus": "required: command",
    "info --bogus": "unrecognized arguments: --bogus",
    "run": "required: script",
    "run --bogus": "required: script",
    "run none.py": "there is no file 'none.py'",
    "run {tmp}": "there is no file",
    "run -m no_such_module": "there is no module 'no_such_module'",
    "run -m no_such_package.part": "there is no module 'no_such_package.part'",
    "train nothing": "no recipe 'nothing'; there is: csv, digits, gpt, images",
    "train none.py": "there is no file 'none.py'",
    "train {tmp}": "no recipe",
    "train digits --bogus": "unrecognized arguments: --bogus",
    "train images pets --image-size 64": "--image-size 64. Did you mean '--size'?",
    "train digits --epochs 0": "--epochs: expected a whole number from 1 on, received '0'",
    "train digits --epochs -1": "--epochs: expected a whole number",
    "train digits --epochs 1.5": "--epochs: expected a whole number",
    "train digits --epochs x": "--epochs: expected a whole number",
    "train digits --epochs": "--epochs: expected one argument",
    "train digits --batch-size 0": "--batch-size: expected a whole number from 1 on",
    "train digits --lr -1": "--lr: expected a number above 0",
    "train digits --lr 0": "--lr: expected a number above 0",
    "train digits --lr nan": "--lr: expected a number above 0",
    "train digits --lr inf": "--lr: expected a number above 0",
    "train digits --lr x": "--lr: expected a number above 0",
    "train digits --seed x": "--seed: expected a whole number of at most 64 bits",
    "train digits --seed 99999999999999999999999": "--seed: expected a whole number",
    "train digits --resume {tmp}/none.pt": "--resume: there is no file",
    "train digits --resume {tmp}": "--resume: there is no file",
    "train digits --resume {tmp}/text.pt": "text.pt: opcode",
    "train digits --resume {tmp}/empty.pt": "empty",
    "train digits --resume {tmp}/other.pt": "no checkpoint of training",
    "train digits --resume {tmp}/list.pt": "no checkpoint of training",
    "train digits --folder {tmp}/text.pt/sub": "text.pt",
    "train digits --folder {tmp}/text.pt": "text.pt",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ADJOINT_DEBUG", raising=False)
    (tmp_path / "text.pt").write_text("no checkpoint")
    (tmp_path / "empty.pt").write_bytes(b"")
    ad.save({"model": {}}, tmp_path / "other.pt")
    ad.save([1, 2], tmp_path / "list.pt")
    return tmp_path


@pytest.mark.parametrize("line", REFUSED)
def test_refused_in_one_line(
    line: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr("adjoint.cli.torch_alias.install", lambda: None)
    try:
        status: Any = cli.main(line.format(tmp=folder).split())
    except SystemExit as error:
        status = error.code
    said = capsys.readouterr().err
    assert status == 2, said
    assert len(said.splitlines()) == 1, said
    assert said.startswith("adjoint")
    assert REFUSED[line] in said


def test_debugging_shows_the_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJOINT_DEBUG", "1")
    with pytest.raises(ValueError, match="no recipe"):
        cli.main(["train", "nothing"])


def test_faults_of_our_own_are_not_hidden(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(chosen: Any) -> int:
        raise AssertionError("ours")

    monkeypatch.setattr(cli, "dispatch", broken)
    with pytest.raises(AssertionError, match="ours"):
        cli.main(["info"])


def test_interrupts(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(chosen: Any) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "dispatch", interrupted)
    assert cli.main(["train", "digits"]) == 130
    assert capsys.readouterr().err == "adjoint train: interrupted\n"


def test_an_interrupted_run_of_a_script(folder: Path) -> None:
    (folder / "wait.py").write_text("import time\nprint('on', flush=True)\ntime.sleep(60)\n")
    command = [sys.executable, "-m", "adjoint.cli", "run", "wait.py"]
    root = Path(importlib.util.find_spec("adjoint").origin or "").parent.parent  # type: ignore[union-attr]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "on\n"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert (process.returncode, said) == (130, "adjoint run: interrupted\n")

"""Recipes learn from data of the user's own, and refuse what cannot work in one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import adjoint as ad
from adjoint.cli import main
from adjoint.data import DataLoader
from adjoint.training import Trainer


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def flowers(path: str, rows: int = 120) -> None:
    rng = np.random.default_rng(0)
    with open(path, "w", encoding="utf-8") as file:
        file.write("width,height,kind\n")
        for k in range(rows):
            kind = k % 3
            a, b = rng.normal(kind, 0.2), rng.normal(-kind, 0.2)
            file.write(f"{a:.3f},{b:.3f},{('rose', 'lily', 'iris')[kind]}\n")


def test_a_table_of_classes(capsys: pytest.CaptureFixture[str]) -> None:
    flowers("flowers.csv")
    assert main(["train", "csv", "flowers.csv", "--epochs", "8", "--lr", "1e-2"]) == 0
    said = capsys.readouterr().out
    assert "kind: accuracy" in said
    assert "next:" in said
    assert Path("runs/csv/last.pt").is_file()


def test_a_table_of_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    rows = ["a,b,y", *(f"{a},{b},{2 * a - b + 0.5}" for a, b in rng.normal(size=(200, 2)))]
    Path("t.csv").write_text("\n".join(rows))
    assert main(["train", "csv", "t.csv", "--epochs", "15", "--lr", "1e-2"]) == 0
    said = capsys.readouterr().out
    error, usual = (
        float(said.split(word)[1].split()[0].rstrip(")")) for word in ("mean error ", "the mean: ")
    )
    assert error < 0.4 * usual


def test_a_folder_of_pictures(capsys: pytest.CaptureFixture[str]) -> None:
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    for k, name in enumerate(("dark", "light")):
        Path("pets", name).mkdir(parents=True)
        for n in range(10):
            pixels = rng.integers(0, 60, (12, 12, 3)) + 180 * k
            image.fromarray(pixels.astype(np.uint8)).save(f"pets/{name}/{n}.png")
    command = ["train", "images", "pets", "--epochs", "4", "--size", "16", "--batch-size", "8"]
    assert main(command) == 0
    assert "20 pictures of 2 classes: dark, light" in capsys.readouterr().out


def test_a_text(capsys: pytest.CaptureFixture[str]) -> None:
    Path("song.txt").write_text("la la li lo, " * 60)
    command = ["train", "gpt", "song.txt", "--epochs", "1", "--length", "8", "--blocks", "64"]
    assert main([*command, "--lr", "1e-2"]) == 0
    assert "on text it has not seen" in capsys.readouterr().out


def test_gaps_in_a_table_are_refused_and_labels_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = ["name,age,bought", *(f"P{k},{k if k != 3 else ''},{k % 2}" for k in range(30))]
    Path("people.csv").write_text("\n".join(rows))
    assert main(["train", "csv", "people.csv", "--epochs", "1"]) == 2
    assert "the column 'age' has empty cells" in capsys.readouterr().err
    Path("people.csv").write_text("\n".join(r.replace(",,", ",7,") for r in rows))
    assert main(["train", "csv", "people.csv", "--epochs", "1"]) == 0
    assert "left out, since every row has another: name" in capsys.readouterr().out


REFUSED = [
    (["train", "csv", "absent.csv"], "there is no file 'absent.csv'"),
    (["train", "csv", "flowers.csv", "--target", "kin"], "Did you mean 'kind'?"),
    (["train", "images", "nowhere"], "there is no folder 'nowhere'"),
    (["train", "gpt", "nowhere.txt"], "there is no file 'nowhere.txt'"),
    (["train", "regresion"], "Did you mean 'regression'?"),
]


@pytest.mark.parametrize(("command", "told"), REFUSED)
def test_what_cannot_work_is_one_line(
    command: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    flowers("flowers.csv", 9)
    assert main(command) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


def test_an_interrupt_says_where_the_checkpoint_is(tmp_path: Path) -> None:
    model = ad.nn.Linear(2, 1)
    data: DataLoader[object] = DataLoader([(ad.ones(2), ad.zeros(1))] * 4)
    trainer = Trainer(
        model,
        ad.optim.SGD(model.parameters(), 0.1),
        ad.nn.MSELoss(),
        folder=tmp_path,
        progress=False,
    )
    with pytest.raises(KeyboardInterrupt) as early:
        trainer.fit(Interrupted(data, 1), epochs=3)
    assert "no checkpoint was written yet" in early.value.__notes__[0]
    trainer = Trainer(
        model,
        ad.optim.SGD(model.parameters(), 0.1),
        ad.nn.MSELoss(),
        folder=tmp_path,
        progress=False,
    )
    with pytest.raises(KeyboardInterrupt) as late:
        trainer.fit(Interrupted(data, 6), epochs=3)
    assert "last.pt" in late.value.__notes__[0]


class Interrupted:
    """Data during which somebody presses Ctrl-C."""

    def __init__(self, data: object, after: int) -> None:
        self.data, self.left = data, after

    def __iter__(self) -> object:
        for batch in self.data:  # type: ignore[attr-defined]
            if not self.left:
                raise KeyboardInterrupt
            self.left -= 1
            yield batch


def test_version_doctor_and_bare_module(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(["--version"])
    assert leaving.value.code == 0
    assert capsys.readouterr().out.startswith("adjoint 0.")
    assert main(["doctor"]) == 0
    assert "all is well" in capsys.readouterr().out

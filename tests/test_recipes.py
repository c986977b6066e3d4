"""Recipes learn from data of the user's own, and refuse what cannot work in one line."""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from datetime import date
from pathlib import Path

import numpy as np
import pytest

import adjoint as ad
from adjoint.cli import main
from adjoint.data import DataLoader
from adjoint.data.readers import CharacterDataset
from adjoint.data.readers.images import rgb
from adjoint.training import Trainer, curves, pictures
from adjoint.training.recipes import _cells, _common, _table, csv, gpt


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def drawn() -> None:
    """Of a test in which pictures are drawn: in others, where nobody looks, files stand for them."""


@pytest.fixture(autouse=True)
def quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "drawn" not in request.fixturenames:
        for module in (curves, pictures):
            monkeypatch.setattr(module, "save_figure", lambda figure, path: Path(path).touch())


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network of characters that is quickly trained and asked: what it learns is not looked at."""
    monkeypatch.setattr(gpt, "SIZES", {"width": 16, "heads": 2, "layers": 1})
    monkeypatch.setattr(gpt, "WRITTEN", 1)


def flowers(path: str, rows: int = 120) -> None:
    rng = np.random.default_rng(0)
    with open(path, "w", encoding="utf-8") as file:
        file.write("width,height,kind\n")
        for k in range(rows):
            kind = k % 3
            a, b = rng.normal(kind, 0.2), rng.normal(-kind, 0.2)
            file.write(f"{a:.3f},{b:.3f},{('rose', 'lily', 'iris')[kind]}\n")


@pytest.mark.usefixtures("drawn")
def test_a_table_of_classes(capsys: pytest.CaptureFixture[str]) -> None:
    flowers("flowers.csv")
    assert main(["train", "csv", "flowers.csv", "--epochs", "8", "--lr", "1e-2"]) == 0
    said = capsys.readouterr().out
    assert "kind: accuracy" in said
    assert "next:" in said
    assert Path("runs/csv/last.pt").is_file()
    assert Path("runs/csv/loss.png").read_bytes()[:4] == b"\x89PNG"


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


@pytest.mark.usefixtures("drawn")
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
    assert "20 pictures of 2 classes: dark 10, light 10" in capsys.readouterr().out


def test_a_text(capsys: pytest.CaptureFixture[str]) -> None:
    Path("song.txt").write_text("la la li lo, " * 60)
    command = ["train", "gpt", "song.txt", "--epochs", "1", "--length", "8", "--blocks", "64"]
    assert main([*command, "--lr", "1e-2"]) == 0
    assert "on text it has not seen" in capsys.readouterr().out


@pytest.mark.usefixtures("small")
def test_without_libraries_of_extras_a_line_says_what_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for library in ("matplotlib", "tensorboard"):
        monkeypatch.setitem(sys.modules, library, None)
    Path("song.txt").write_text("la la li lu " * 30)
    command = ["train", "gpt", "song.txt", "--epochs", "1", "--length", "8", "--blocks", "8"]
    assert main(command) == 0
    out, err = capsys.readouterr()
    for extra in ("plot", "tensorboard"):
        assert out.count(f"`pip install adjoint[{extra}]`. Training goes on.") == 1
    assert "Warning" not in err
    assert "loss.png" not in out


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
    (["train", "images", "flowers.csv"], "flowers.csv is a file; give the folder"),
    (["train", "images", "flat"], "Put the pictures of each class into a folder of its own"),
    (["train", "gpt", "nowhere.txt"], "there is no file 'nowhere.txt'"),
    (["train", "regresion"], "Did you mean 'regression'?"),
]


@pytest.mark.parametrize(("command", "told"), REFUSED)
def test_what_cannot_work_is_one_line(
    command: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    flowers("flowers.csv", 9)
    Path("flat").mkdir()
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
    assert f"resume={str(tmp_path / 'last.pt')!r}) goes on" in late.value.__notes__[0]


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


def flats(path: str, separator: str = ",", gap: bool = False) -> None:
    lines = ["", "date;city;rooms;price;area;balcony".replace(";", separator)]
    for k in range(40):
        area = "" if gap and k == 5 else 20.5 + k
        cells = [f"2024-0{1 + k % 9}-1{k % 7}", ("Köln", "Bonn")[k % 2], 1 + k % 3,
                 1000.5 * (k + 20), area, ("yes", "no")[k < 20]]  # fmt: skip
        lines.append(separator.join(str(cell) for cell in cells))
    Path(path).write_text("\n".join(lines), encoding="utf-8")


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_separators_are_found_and_columns_told(
    separator: str, capsys: pytest.CaptureFixture[str]
) -> None:
    flats("f.csv", separator)
    chosen = Namespace(
        file="f.csv", target="price", without=[], encoding="utf-8", decimal=".", missing="no",
        exact=False, days="",
    )  # fmt: skip
    columns, features, target, cells = csv.table(chosen)
    assert [c.holds for c in columns] == ["date", "choice", "number", "number", "choice"]
    assert (features.shape, target.name, len(cells)) == ((40, 7), "price", 40)
    assert features[:2, 1:3].tolist() == [[0, 1], [1, 0]]  # Bonn, Köln
    assert features[9, 0] == date(2024, 1, 12).toordinal()
    assert capsys.readouterr().out == ""


def test_predictions_of_new_rows_are_the_networks(capsys: pytest.CaptureFixture[str]) -> None:
    flats("f f.csv")
    command = ["train", "csv", "f f.csv", "--epochs", "1", "--no-compile"]
    assert main([*command, "--target", "price"]) == 0
    said = capsys.readouterr().out
    assert "price (a number) from date, city, rooms, area, balcony" in said
    assert "adjoint train csv 'f f.csv' --epochs 2 --resume runs/csv   # go on" in said
    new = "balcony;area;rooms;city;date\nyes;33.5;2;Bonn;2024-03-04\nno;21;1;Köln;2024-05-06\n"
    Path("new.csv").write_text(new, encoding="utf-8")
    assert main(["predict", "runs/csv", "new.csv"]) == 0
    name, *told = capsys.readouterr().out.split()
    kept = ad.load("runs/csv/model.pt")["settings"]
    days = [date(2024, 3, 4).toordinal(), date(2024, 5, 6).toordinal()]
    raw = np.array([[days[0], 1, 0, 2, 33.5, 0, 1], [days[1], 0, 1, 1, 21, 1, 0]])
    scaled = (raw - np.array(kept["mean"])) / np.array(kept["spread"])
    scores = csv.restored("runs/csv")(ad.tensor(scaled, dtype=ad.float32))
    wanted = scores.detach().numpy()[:, 0] * kept["target_spread"] + kept["target_mean"]
    assert name == "price"
    assert np.allclose([float(t) for t in told], wanted, rtol=1e-4)
    for bad, told_of in [("Bonn", "'Paris' in the column 'city'"), ("33.5", "column 'area'")]:
        Path("bad.csv").write_text(new.replace(bad, {"Bonn": "Paris"}.get(bad, "")))
        assert main(["predict", "runs/csv", "bad.csv"]) == 2
        shown = capsys.readouterr()
        assert told_of in shown.err
        assert shown.out == ""


def test_whole_numbers_that_do_not_come_again_are_numbers() -> None:
    def asked(cells: list[str], kind: str | None = None) -> list[str] | None:
        chosen = Namespace(file="t.csv", decimal=".", kind=kind)
        return csv.classes_of(_table.Column("y", "number"), cells, chosen)

    assert asked([str(1000 * k) for k in range(20)]) is None
    assert asked(["3", "1"] * 10) == ["1", "3"]
    assert asked(["3", "1"] * 10, "number") is None
    assert asked(["0.5", "1"] * 10, "classes") == ["0.5", "1"]


def test_rows_with_gaps_are_left_out_when_told(capsys: pytest.CaptureFixture[str]) -> None:
    flats("f.csv", gap=True)
    chosen = Namespace(
        file="f.csv", target=None, without=[], encoding="utf-8", decimal=".", missing="drop",
        exact=False, days="",
    )  # fmt: skip
    assert len(csv.table(chosen)[3]) == 39
    assert "left out 1 of 40 rows: the column 'area' has empty cells" in capsys.readouterr().out


def test_rows_with_gaps_are_learned_from_when_told(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{k},{'ab'[k % 2]},{k % 5},{2 * k + 0.5}" for k in range(40)]
    rows[3], rows[8], rows[9], rows[20] = "na,b,3,6.5", "8,,3,16.5", "9,,4,", "20,rare,0,40.5"
    Path("t.csv").write_text("\n".join(["x,kind,five,y", *rows]), encoding="utf-8")
    command = ["train", "csv", "t.csv", "--epochs", "1", "--no-compile"]
    assert main(command) == 2
    told = capsys.readouterr().err
    assert "'x' has cells that are no number, such as 'na' (row 5); gaps also in kind" in told
    assert "--missing fill to learn from what is there, or --missing drop" in told
    assert main([*command, "--missing", "fill", "--folder", "runs/t"]) == 0
    said = capsys.readouterr().out
    assert "left out 1 of 40 rows: the column 'y' has empty cells" in said
    assert "39 rows; y (a number) from x, kind, five" in said
    assert "adjoint train csv t.csv --epochs 2 --resume runs/t   # go on" in said
    Path("new.csv").write_text("x,kind,five\n,a,2\n7,,\n", encoding="utf-8")
    assert main(["predict", "runs/t", "new.csv"]) == 0
    got = [float(line) for line in capsys.readouterr().out.splitlines()[1:]]
    kept = ad.load("runs/t/model.pt")["settings"]
    mean = kept["mean"]  # of x, x is absent, a, b, rare, kind is absent, five
    plain = np.array([[mean[0], 1, 1, 0, 0, 0, 2], [7, 0, 0, 0, 0, 1, mean[6]]])
    scaled = (plain - np.array(mean)) / np.array(kept["spread"])
    scores = csv.restored("runs/t")(ad.tensor(scaled, dtype=ad.float32))[:, 0].detach().numpy()
    np.testing.assert_allclose(got, scores * kept["target_spread"] + kept["target_mean"], 1e-4)
    Path("other.csv").write_text("x,kind,five\n7,c,\n", encoding="utf-8")
    assert main(["predict", "runs/t", "other.csv"]) == 0
    shown = capsys.readouterr()
    assert "row 2: 'c' in the column 'kind' was not there when it learned" in shown.err
    assert float(shown.out.split()[1]) == pytest.approx(got[1], rel=1e-4)
    Path("bad.csv").write_text("x,kind,five\nseven,a,2\n", encoding="utf-8")
    assert main(["predict", "runs/t", "bad.csv"]) == 2
    assert "row 2: 'seven' in the column 'x'" in capsys.readouterr().err


def test_scales_ignore_what_is_absent_and_leave_one_value_as_it_is() -> None:
    numbers = np.array([[1.0, 2021.1, 0.0], [np.nan, 2021.1, 0.0], [3.0, 2021.1, 0.0]])
    mean, spread = _table.scale(numbers)
    np.testing.assert_allclose(mean, [2, 2021.1, 0])
    np.testing.assert_allclose(spread, [1, 1, 1])
    np.testing.assert_allclose(_table.scaled(numbers, mean, spread)[:, 0], [-1, 0, 1])


THOUSANDS: list[tuple[str, list[str], list[float | None]]] = [
    (",", ["496.425,55", "1.250", "99,5", "7"], [496425.55, 1250, 99.5, 7]),
    (",", ["1.250", "950", "-12.000"], [1250, 950, -12000]),
    (",", ["1.250", "98.5", "7"], [1.25, 98.5, 7]),
    (",", ["0.125", "7,5", "1.000"], [0.125, 7.5, 1]),
    (",", ["1.250,5", "7,5", "1.25,5"], [1250.5, 7.5, None]),
    (".", ["1,250.50", "1,250", "99.5"], [1250.5, 1250, 99.5]),
    (".", ["1,250,000", "2.5", "7,5"], [1250000, 2.5, None]),
]


@pytest.mark.parametrize(("decimal", "cells", "numbers"), THOUSANDS)
def test_thousands_set_apart(decimal: str, cells: list[str], numbers: list[float | None]) -> None:
    column = _table.column("t.csv", "price", cells, decimal)
    assert [column.number(cell, decimal) for cell in cells] == numbers


MESSY = [
    ("a;y\n1,5;2\n2,5;3\n", ["csv"], "Pass --decimal ,"),
    ("a;y\n1.250,5;2\n2.300,5;3\n", ["csv"], "Pass --decimal ,"),
    (
        "a,y\n1,2\nx,3\n4,5\n",
        ["csv", "--missing", "fill"],
        "are no number, such as 'x' (row 3). Mend",
    ),
    ("a,a\n1,2\n2,3\n", ["csv"], "more than one column is called 'a'"),
    ("a, a\n1,2\n2,3\n", ["csv"], "more than one column is called 'a'"),
    ("a , y\n1,2\n2,2\n", ["csv", "--target", "y"], "every row has the same y"),
    ("y\n1\n2\n", ["csv"], "the only column is 'y'"),
    ("a,d\n1,2024-01-02\n2,2024-01-03\n", ["csv"], "holds dates"),
    ("a,b\n1,ö\n", ["csv", "--encoding", "ascii"], "such as --encoding cp1252"),
    ("a,b\n1,2\n", ["csv", "--encoding", "utf-9"], "no encoding 'utf-9'"),
    ("", ["gpt"], "0 characters are too few"),
    ("Hallo", ["gpt"], "Give more text or --length 1"),
    ("ö" * 300, ["gpt", "--encoding", "ascii"], "such as --encoding cp1252"),
]


@pytest.mark.parametrize(("text", "command", "told"), MESSY)
def test_messy_files_are_refused_with_what_helps(
    text: str, command: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("messy").write_text(text, encoding="utf-8")
    assert main(["train", command[0], "messy", *command[1:]]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(("characters", "length"), [(3, 1), (110, 36), (141, 64), (5000, 64)])
def test_no_piece_reaches_into_the_test(characters: int, length: int) -> None:
    text = "ab" * characters
    parts = gpt.divided(text[:characters], Namespace(file=None, length=length, before=None))
    for count in (None, 200):
        epochs = [list(gpt.TextPieces(parts["train"], length, count)) for _ in range(20)]
        test = gpt.tested(parts["test"], length, count)
        train = [start for epoch in epochs for start in epoch]
        assert {len(epoch) for epoch in epochs} == {
            len(gpt.TextPieces(parts["train"], length, count))
        }
        assert max(*train, *test) < len(CharacterDataset(text[:characters], length))
        assert max(train) + length < min(test) + 1  # its last target before the test's first


def test_an_epoch_goes_through_all_of_the_text_from_another_place_each_time() -> None:
    ad.manual_seed(0)
    epochs = [sorted(gpt.TextPieces([[0, 1000], [3000, 3010]], 16, None)) for _ in range(4)]
    assert len({tuple(epoch) for epoch in epochs}) == 4
    for *first, last in epochs:  # the second part has room for one piece alone
        assert 3000 <= last < 3010
        assert set(np.diff(first)) == {16}
        assert len(first) == 62
        assert first[0] + 62 * 16 <= 1015


def test_pictures_that_cannot_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("dark", "light"):
        Path("pets", name).mkdir(parents=True)
        for n in range(3):
            pixels = np.full((4 + n, 5, 3), 200 * (name == "light"), np.uint8)
            np.save(f"pets/{name}/{n}.npy", pixels)
    Path("pets/dark/bad.png").write_bytes(b"no picture")
    command = ["train", "images", "pets", "--epochs", "1", "--size", "8", "--no-compile"]
    assert main(command) == 2
    error = capsys.readouterr().err
    assert "bad.png" in error
    assert "--skip-broken" in error
    assert "0x" not in error
    assert error.endswith("Remove it, or pass --skip-broken.\n")
    for n in range(6):
        Path(f"pets/light/bad{n}.png").write_bytes(b"no picture")
    assert main(command) == 2
    error = capsys.readouterr().err
    assert "nor can pets/light/bad0.png, pets/light/bad1.png" in error
    assert error.endswith("(and 2 more). Remove them, or pass --skip-broken.\n")
    Path("pets/dark/._0.png").write_bytes(b"what another system keeps beside a file")
    assert main([*command, "--skip-broken"]) == 0
    said = capsys.readouterr().out
    assert "left out, since it cannot be read: pets/dark/bad.png" in said
    assert "._0.png" not in said
    assert main(["predict", "runs/images", "pets/light"]) == 2
    answers, refusal = capsys.readouterr()
    assert answers.count("\n") == 3
    assert "pets/light/bad0.png: damaged" in refusal
    assert "; nor can pets/light/bad1.png, " in refusal
    assert main(["predict", "runs/images", "pets/light/0.npy"]) == 0
    assert re.fullmatch(r"pets/light/0.npy: (dark|light) \(\d+\.\d%\)\n", capsys.readouterr().out)


def test_inks_become_light() -> None:
    image = pytest.importorskip("PIL.Image")
    image.new("CMYK", (4, 4), (0, 255, 255, 0)).save("red.jpg", quality=100)
    red = rgb("red.jpg").astype(int)
    assert red.shape == (4, 4, 3)
    assert np.abs(red - np.array([255, 0, 0])).max() < 8


@pytest.mark.usefixtures("small")
def test_a_text_goes_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpt, "WRITTEN", 30)
    Path("song.txt").write_text("Über la li lo, " * 9, encoding="utf-8")
    command = ["train", "gpt", "song.txt", "--epochs", "1", "--length", "4", "--blocks", "8"]
    assert main([*command, "--no-compile"]) == 0
    capsys.readouterr()
    assert main(["predict", "runs/gpt", "Über"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Über")
    assert len(said) == 4 + gpt.WRITTEN + 1
    assert main(["predict", "runs/gpt", "la", "--length", "7", "--temperature", "0.01"]) == 0
    assert len(capsys.readouterr().out) == 2 + 7 + 1
    with pytest.raises(SystemExit):
        main(["predict", "runs/gpt", "la", "--length", "0"])
    with pytest.raises(SystemExit):
        main(["predict", "runs/gpt", "la", "--temperature", "0"])
    assert main(["predict", "runs/gpt", "XYZ"]) == 2
    assert main(["predict", "nowhere", "x"]) == 2
    assert "there is no nowhere/model.pt" in capsys.readouterr().err.replace("\\", "/")


@pytest.mark.usefixtures("small")
def test_a_finished_run_learns_on(capsys: pytest.CaptureFixture[str]) -> None:
    Path("song.txt").write_text("la li lo, " * 9, encoding="utf-8")
    command = ["train", "gpt", "song.txt", "--length", "4", "--blocks", "8", "--no-compile"]
    assert main([*command, "--epochs", "1"]) == 0
    said = capsys.readouterr().out
    assert "adjoint train gpt song.txt --epochs 2 --resume runs/gpt   # train on" in said
    before = ad.load("runs/gpt/model.pt")["weights"]
    Path("runs/gpt/model.pt").unlink()
    assert main(["predict", "runs/gpt", "la"]) == 2
    assert "--resume runs/gpt goes on" in capsys.readouterr().err
    again = [*command, "--resume", "runs/gpt/last.pt", "--epochs"]
    assert main([*again, "1"]) == 0
    assert "Give --epochs 2 to go on" in capsys.readouterr().out
    same = ad.load("runs/gpt/model.pt")["weights"]
    assert all(ad.equal(same[name], before[name]) for name in before)
    assert main([*again, "2"]) == 0
    last = ad.load("runs/gpt/last.pt")
    assert last["epoch"] == 2
    assert not ad.equal(last["model"]["head.weight"], before["head.weight"])


@pytest.mark.usefixtures("small")
def test_a_run_goes_on_at_another_rate() -> None:
    Path("song.txt").write_text("la li lo, " * 9, encoding="utf-8")
    command = ["train", "gpt", "song.txt", "--length", "4", "--blocks", "8", "--no-compile"]
    assert main([*command, "--epochs", "2", "--lr", "0.01"]) == 0
    learnt = {}
    for rate in (None, "0.01", "0.0001"):
        asked = [] if rate is None else ["--lr", rate]
        again = [*command, "--resume", "runs/gpt/last.pt", "--epochs", "4", "--folder", f"to{rate}"]
        assert main([*again, *asked]) == 0
        learnt[rate] = ad.load(f"to{rate}/last.pt")["model"]["head.weight"]
    assert ad.equal(learnt[None], learnt["0.01"])  # the rate it began with
    assert not ad.equal(learnt[None], learnt["0.0001"])


def resumed_refused(before: str, after: str, data: list[str]) -> bool:
    """Whether a run on one file's text may not go on with another's."""
    Path(data[1]).write_text(before, encoding="utf-8")
    command = ["train", *data, "--no-compile"]
    assert main([*command, "--epochs", "1"]) == 0
    Path(data[1]).write_text(after, encoding="utf-8")
    return main([*command, "--epochs", "2", "--resume", f"runs/{data[0]}/last.pt"]) == 2


FLATS = "rooms,town,price\n" + "1,Ulm,1.5\n2,Bonn,2.5\n3,Ulm,3.5\n" * 5
TOWNS = "rooms,area,town\n" + "1,20,Ulm\n2,41,Bonn\n3,59,Ulm\n" * 5
SONG = ["gpt", "song.txt", "--length", "4", "--blocks", "8"]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("text", "old", "new", "data", "said"),
    [
        ("la li lo, " * 9, "l", "x", SONG, "other characters"),
        pytest.param(
            FLATS, "Bonn", "Bern", ["csv", "flats.csv"], "other columns", marks=pytest.mark.slow
        ),
        (TOWNS, "Bonn", "Bern", ["csv", "towns.csv"], "other classes"),
    ],
)
def test_a_run_does_not_go_on_with_data_of_another_meaning(
    capsys: pytest.CaptureFixture[str], text: str, old: str, new: str, data: list[str], said: str
) -> None:
    assert resumed_refused(text, text.replace(old, new), data)
    assert said in capsys.readouterr().err
    assert not resumed_refused(text, text + text.split("\n", 1)[-1], data)


@pytest.mark.usefixtures("small")
def test_a_checkpoint_that_does_not_fit_leaves_the_model() -> None:
    Path("song.txt").write_text("la li lo, " * 9, encoding="utf-8")
    command = ["train", "gpt", "song.txt", "--length", "4", "--blocks", "8", "--no-compile"]
    assert main([*command, "--epochs", "1"]) == 0
    assert main([*command, "--epochs", "2", "--resume", "runs/gpt/model.pt"]) == 2
    assert Path("runs/gpt/model.pt").is_file()


def test_one_class_is_nothing_to_tell_apart(capsys: pytest.CaptureFixture[str]) -> None:
    Path("pets/cat").mkdir(parents=True)
    np.save("pets/cat/1.npy", np.zeros((4, 4, 3), np.uint8))
    assert main(["train", "images", "pets"]) == 2
    assert "the only class is 'cat'" in capsys.readouterr().err


def test_an_earlier_model_does_not_answer_for_an_interrupted_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*_args: object, **_options: object) -> None:
        raise KeyboardInterrupt

    flowers("flowers.csv")
    Path("runs/csv").mkdir(parents=True)
    Path("runs/csv/model.pt").write_bytes(b"of before")
    monkeypatch.setattr(Trainer, "fit", interrupted)
    assert main(["train", "csv", "flowers.csv"]) == 130
    assert not Path("runs/csv/model.pt").exists()
    assert main(["predict", "runs/csv", "flowers.csv"]) == 2


def test_the_checkpoint_of_another_recipe_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    flowers("flowers.csv")
    command = ["train", "csv", "flowers.csv", "--epochs", "1", "--no-compile"]
    assert main(command) == 0
    capsys.readouterr()
    assert main(["train", "regression", "--resume", "runs/csv/last.pt", "--no-compile"]) == 2
    (said,) = capsys.readouterr().err.strip().splitlines()
    assert "of another network: of `adjoint train csv`" in said
    assert "without --resume" in said


@pytest.mark.parametrize("value", ["yes", "1", "2.5"])
def test_a_column_that_is_always_the_same_is_not_learnt(
    value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = ["a,y", *(f"{k / 7},{value}" for k in range(40))]
    Path("same.csv").write_text("\n".join(rows))
    assert main(["train", "csv", "same.csv", "--epochs", "1"]) == 2
    (said,) = capsys.readouterr().err.strip().splitlines()
    assert f"same y ({value})" in said
    assert "--target" in said


def test_a_column_is_left_out_where_asked(capsys: pytest.CaptureFixture[str]) -> None:
    rows = ["customer,age,plan", *(f"{100 + k},{k % 9},{'ab'[k % 2]}" for k in range(60))]
    Path("t.csv").write_text("\n".join(rows))
    command = ["train", "csv", "t.csv", "--epochs", "1", "--no-compile"]
    assert main(command) == 0
    assert "customer counts the rows" in capsys.readouterr().out
    assert main([*command, "--without", "customer"]) == 0
    said = capsys.readouterr().out
    assert "plan (2 classes) from age\n" in said
    assert "counts the rows" not in said
    assert "adjoint train csv t.csv --epochs 2 --resume runs/csv" in said
    Path("new.csv").write_text("age\n3\n4\n")
    assert main(["predict", "runs/csv", "new.csv"]) == 0
    for without, words in (("costumer", "'customer'"), ("plan", "--target")):
        assert main([*command, "--without", without]) == 2
        assert words in capsys.readouterr().err


def test_parts_of_the_data_are_no_classes(capsys: pytest.CaptureFixture[str]) -> None:
    for part in ("train", "val"):
        for name, brightness in (("cat", 40), ("dog", 200)):
            folder = Path("pets") / part / name
            folder.mkdir(parents=True)
            for k in range(6):
                np.save(folder / f"{k}.npy", np.full((8, 8, 3), brightness + k, np.uint8))
    assert main(["train", "images", "pets"]) == 2
    said = capsys.readouterr().err
    assert "train, val are taken for parts of the data" in said
    assert "pets/train" in said
    (Path("pets") / "train" / "dog" / "far.HEIC").write_bytes(b"")
    assert main(["train", "images", "pets/train", "--epochs", "1", "--size", "8"]) == 0
    assert "left out, since .HEIC is not read: pets/train/dog/far.HEIC\n" in capsys.readouterr().out
    assert main(["train", "gpt", "pets"]) == 2
    assert "pets is a folder; give one file" in capsys.readouterr().err


SEEN: list[tuple[list[str], bool, list[float | str | None]]] = [
    (["$72.40", "$5", "-$1,250.50", ""], False, [72.4, 5, -1250.5, None]),
    (["5 €", "7.5€", "free"], False, [5, 7.5, None]),
    (["65 m²", "7.5 m²", "na"], False, [65, 7.5, None]),
    (["3 am", "4 pm", "3 am"], False, ["3 am", "4 pm", "3 am"]),
    (["A1", "A2", "A1"], False, ["A1", "A2", "A1"]),
    (["1,250", "7", "10,000"], True, [1250, 7, 10000]),
    (["12/31/2024", "1/2/2024", "x"], False, ["2024-12-31", "2024-01-02", None]),
    (["31/12/24", "1/2/2024 08:30"], False, ["2024-12-31", "2024-02-01"]),
    (["2024/02/01", "1 Feb 2024", "Feb 1, 2024", "1.2.24"], False, ["2024-02-01"] * 4),
    (["2024-02-01", "2/1/2024", "2024-02-03"], False, ["2024-02-01", None, "2024-02-03"]),
]


@pytest.mark.parametrize(("cells", "said", "wanted"), SEEN)
def test_cells_as_people_write_them(
    cells: list[str], said: bool, wanted: list[float | str | None]
) -> None:
    column = _table.column("t.csv", "x", cells, ".", said)
    for cell, want in zip(cells, wanted, strict=True):
        got = column.number(cell, ".")
        if column.holds == "date" and got is not None:
            assert str(date.fromordinal(int(got))) == want
        else:
            assert got == (column.kinds.index(str(want)) if column.holds == "choice" else want)


def test_what_cannot_be_told_apart_is_refused() -> None:
    with pytest.raises(ValueError, match="the second number may be the month.*--without 'the day'"):
        _table.column("t.csv", "the day", ["1/2/2024", "3/4/2024"], ".")
    with pytest.raises(ValueError, match=r"--decimal \. if it sets thousands apart"):
        _table.column("t.csv", "units", ["1,250", "7,500"], ".")


def test_other_encodings_other_files_and_rare_classes(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{'äö'[k % 2]},{k},{'no' if k % 9 else 'yes'}" for k in range(60)]
    Path("t.csv").write_text("\n".join(["größe,k,y", *rows]), encoding="cp1252")
    command = ["train", "csv", "t.csv", "--epochs", "1", "--no-compile"]
    assert main([*command, "--encoding", "cp1252", "--decimal", "."]) == 0
    said = capsys.readouterr().out
    assert "recognized  no: " in said
    assert "adjoint train csv t.csv --epochs 2 --resume runs/csv" in said
    for encoding in ("utf-8", "cp1252"):
        Path("new.csv").write_text("größe,k\nä,3\n", encoding=encoding)
        assert main(["predict", "runs/csv", "new.csv"]) == 0
    capsys.readouterr()
    Path("book.csv").write_bytes(b"PK\x03\x04rest")
    assert main(["train", "csv", "book.csv"]) == 2
    assert "Save the sheet as CSV" in capsys.readouterr().err
    Path("wide.txt").write_text("Dear Anna" * 50, encoding="utf-16")
    assert main(["train", "gpt", "wide.txt"]) == 2
    assert "Pass --encoding utf-16." in capsys.readouterr().err


def test_percent_and_moments_are_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    percent = _table.column("t.csv", "share", ["12 %", "7%", "3,5 %"], ",")
    assert [percent.number(cell, ",") for cell in ("12 %", "3,5 %", "0,5")] == [12.0, 3.5, None]
    moments = ["05.01.2024 12:00", "2024-01-05 12:00", "05.01.2024 12:00:00"]
    assert len({_cells.day(moment) for moment in moments}) == 1
    assert _cells.day(moments[0]) == (_cells.day("05.01.2024") or 0) + 0.5


# -- what people stumbled over -------------------------------------------------------------------


def test_texts_that_differ_in_case_or_spaces_are_one_kind(
    capsys: pytest.CaptureFixture[str],
) -> None:
    kinds = ["Adelie", "adelie", "ADELIE", "Adelie ", "Gentoo", "gentoo"]
    rows = [f"{k % 6},{'Male' if k % 2 else 'male'},{kinds[k % 6]}" for k in range(60)]
    Path("t.csv").write_text("\n".join(["x,sex,kind", *rows]), encoding="utf-8")
    command = ["train", "csv", "t.csv", "--epochs", "1", "--no-compile"]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert "kind: 'ADELIE', 'Adelie', 'Adelie ', 'adelie' differ in case or spaces alone" in said
    assert "and 1 more such (--exact keeps them apart)" in said
    assert "kind (2 classes)" in said
    assert "on 12 rows it has not seen, too few to tell much" in said
    Path("new.csv").write_text("x,sex\n1, MALE\n", encoding="utf-8")
    assert main(["predict", "runs/csv", "new.csv"]) == 0
    assert main([*command, "--exact"]) == 0
    assert "kind (6 classes)" in capsys.readouterr().out


def test_a_prediction_that_is_worth_nothing_is_called_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    draw = np.random.RandomState(0)
    rows = [f"{a:.3f},{b:.3f}" for a, b in draw.normal(size=(60, 2))]
    rows[7] = "0.5,99999999"
    Path("t.csv").write_text("\n".join(["a,b", *rows]), encoding="utf-8")
    assert main(["train", "csv", "t.csv", "--epochs", "1", "--no-compile"]) == 0
    said = capsys.readouterr().out
    assert "b: 99999999 is far from all else" in said
    assert ("no better than always saying the mean" in said) == (
        errors_of(said)[0] >= errors_of(said)[1]
    )


def errors_of(said: str) -> list[float]:
    """The two errors that a run of numbers ends with."""
    return [float(x) for x in re.findall(r"(?:mean error|always the mean:) ([\d.e+-]+)", said)]


def test_the_end_suggests_what_helps(capsys: pytest.CaptureFixture[str]) -> None:
    trainer = Namespace(history=[{"validation_loss": loss} for loss in (4, 3, 2, 1)])
    assert _common.still_learns(trainer)  # type: ignore[arg-type]
    trainer.history = [{"validation_loss": loss} for loss in (4, 1, 1, 1)]
    assert not _common.still_learns(trainer)  # type: ignore[arg-type]
    flats("f.csv")
    options = ["--seed", "3", "--batch-size", "8", "--epochs", "1", "--no-compile"]
    assert main(["train", "csv", "f.csv", *options]) == 0
    again = "adjoint train csv f.csv --epochs 2 --resume runs/csv"
    assert again in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["train", "t.csv"], "Did you mean `adjoint train csv t.csv`?"),
        (["train", "t.txt", "--epochs", "2"], "Did you mean `adjoint train gpt t.txt --epochs 2`?"),
        (["train", "runs"], "Did you mean `adjoint train images runs`?"),
        (["predict", "t.csv"], "as in `adjoint predict runs/csv t.csv`"),
        (["predict", "runs/cvs", "t.csv"], "writes it; there is: runs/csv"),
        (["train", "csv", "t.csv", "--target", "Y"], "Did you mean 'y'?"),
        (["predict", "runs/csv", "gone.csv"], "there is no file 'gone.csv'"),
        (["predict", "runs/csv", "other.csv"], "lacks the column 'share'"),
        (["predict", "runs/csv", "percent.csv"], "Write 84%, if that is what it means"),
        (["predict", "runs/csv", "grouped.csv"], "Write 1493, if that is what it means"),
    ],
)
def test_what_was_meant_is_said(
    command: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"{k}%,{k},{3 * k + 0.5}" for k in range(1, 41)]
    Path("t.csv").write_text("\n".join(["share,amount,y", *rows]), encoding="utf-8")
    Path("other.csv").write_text("Share,amount\n1%,2\n")
    Path("percent.csv").write_text("share,amount\n84,2\n")
    Path("grouped.csv").write_text('share,amount\n84%,"1,493"\n')
    kept = {"name": "", "holds": "number", "kinds": []}
    columns = [kept | {"name": "share", "mark": "%"}, kept | {"name": "amount"}]
    settings = {"target": "y", "columns": columns, "mean": [0, 0], "spread": [1, 1],
                "decimal": ".", "encoding": "utf-8", "classes": None, "target_mean": 0,
                "target_spread": 1}  # fmt: skip
    Path("runs/csv").mkdir(parents=True)
    _common.keep("runs/csv", "csv", settings, csv.network(2, 1).state_dict())
    assert main(command) == 2
    assert said in capsys.readouterr().err


def test_unknown_options_are_refused_by_their_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["predict", "runs/csv", "t.csv", "--out", "p.csv"])
    assert "adjoint predict: unrecognized arguments: --out p.csv" in capsys.readouterr().err


def test_predictions_in_a_program_and_beside_their_rows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [f"{k},{k % 7},{'ab'[k % 2]}" for k in range(40)]
    Path("t.csv").write_text("\n".join(["id,x,y", *rows]), encoding="utf-8")
    command = ["train", "csv", "t.csv", "--without", "id", "--epochs", "1", "--no-compile"]
    assert main(command) == 0
    found = csv.predictions("runs/csv", "t.csv")
    assert len(found) == 40
    assert {answer["y"] for answer in found} <= {"a", "b"}
    capsys.readouterr()
    assert main(["predict", "runs/csv/model.pt", "t.csv", "--with-rows"]) == 0
    title, first, *_ = capsys.readouterr().out.splitlines()
    assert title == "id,x,y,predicted y,probability"
    assert first == f"0,0,a,{found[0]['y']},{found[0]['probability']:.3f}"


def test_days_with_slashes_as_one_says() -> None:
    cells = ["3/4/2024", "5/6/2024"]
    with pytest.raises(ValueError, match="--days day/month or --days month/day"):
        _table.column("t.csv", "day", cells, ".")
    for order, month in (("day/month", 4), ("month/day", 3)):
        column = _table.column("t.csv", "day", cells, ".", days=order)
        value = column.number("3/4/2024", ".")
        assert value is not None
        assert date.fromordinal(int(value)).month == month


def test_a_file_to_go_on_from_is_looked_at_first(capsys: pytest.CaptureFixture[str]) -> None:
    Path("no.pt").write_text("x = 1\n")
    assert main(["train", "digits", "--resume", "no.pt"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "--resume: no.pt is no checkpoint of training" in said.err

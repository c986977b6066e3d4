"""Recipes that go on: what was tested on stays unseen, settings stay those of the weights."""

from __future__ import annotations

import itertools
import re
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint as ad
from adjoint.cli import main
from adjoint.training import Trainer
from adjoint.training.recipes import _pictures, _results, csv, gpt, images
from adjoint.training.recipes._division import Samples, divided


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder, in which nothing is drawn nor logged: nobody looks."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(images, "images_picture", lambda path, *_: str(path))
    monkeypatch.setattr(csv, "prediction_picture", lambda path, *_: str(path))
    monkeypatch.setattr(Trainer, "_optional", lambda *_: None)


CHANGES = st.lists(
    st.tuples(st.sampled_from(["add", "copy", "edit", "rename", "remove"]), st.integers(0, 99)),
    max_size=8,
)


@given(count=st.integers(2, 25), rounds=st.lists(CHANGES, min_size=1, max_size=3))
@settings(deadline=None, max_examples=40)
def test_what_was_learned_from_is_never_tested_on(
    count: int, rounds: list[list[tuple[str, int]]]
) -> None:
    fresh = itertools.count(1000)
    files = {f"{k}.png": k for k in range(count)}  # names and contents
    learned: set[int] = set()
    tested: set[int] = set()
    record = None
    for changes in [[], *rounds]:
        for change, where in changes:
            name = sorted(files)[where % len(files)]
            if change in ("add", "copy"):
                files[f"{next(fresh)}.png"] = next(fresh) if change == "add" else files[name]
            elif change == "edit":
                files[name] = next(fresh)
            elif change == "rename":
                files[f"{next(fresh)}.png"] = files.pop(name)
            elif len(files) > 2:
                del files[name]
        names = sorted(files)
        samples = Samples([files[name] for name in names], names)
        try:
            division = divided(samples, record)
        except ValueError:
            assert (
                record is None or not {*files.values()} & tested or not {*files.values()} & learned
            )
            return
        assert sorted(division.train + division.test) == list(range(len(names)))
        train, test = (
            {samples.digests[i] for i in side} for side in (division.train, division.test)
        )
        assert not train & test
        assert not learned & test
        assert tested & {*files.values()} <= test | learned
        learned, tested, record = learned | train, tested | test, division.record
        again = divided(samples, record)
        assert (again.train, again.test, again.said) == (division.train, division.test, "")


def test_as_many_are_kept_for_the_test_as_there_were() -> None:
    ad.manual_seed(0)
    first = divided(Samples(range(100)))
    assert (len(first.train), len(first.test), first.said) == (80, 20, "")
    second = divided(Samples(range(10, 160)), first.record)
    assert len(second.test) == 30
    assert second.said.startswith("60 new (")
    assert second.said.endswith(" and 10 no longer there")
    rows = Samples.of_rows([b"a", b"a", b"b", b"a"])
    assert len(set(rows.digests)) == 4
    assert rows == Samples.of_rows([b"a", b"a", b"b", b"a"])
    with pytest.raises(ValueError, match="all 3 samples are copies of one"):
        divided(Samples([7, 7, 7]))


@pytest.mark.parametrize("added", [0, 3, 60, 500])
def test_more_text_is_divided_like_the_first(added: int) -> None:
    text = "".join(chr(97 + k % 23) for k in range(900))
    chosen = Namespace(file="a.txt", length=16, blocks=400, before=None, resume="last.pt")
    first = gpt.divided(text, chosen)
    chosen.before = {"record": {"division": first}}
    longer = text + "z" * added
    second = gpt.divided(longer, chosen)
    train, test = gpt.pieces(second, chosen)
    learned = {k for start in train for k in range(start, start + chosen.length)}
    tested = {k for start in test for k in range(start, start + chosen.length + 1)}
    assert not learned & tested
    assert {*range(*first["test"][0])} <= {k for part in second["test"] for k in range(*part)}
    assert not learned & set(range(first["test"][0][0], len(text)))
    assert max(*train, *test) + chosen.length < len(longer)
    for other in (text[:-1], "z" + text):
        with pytest.raises(ValueError, match="does not begin with the text that the checkpoint"):
            gpt.divided(other, chosen)


def noise(folder: str, counts: dict[str, int], seed: int = 0) -> None:
    """Pictures with nothing to learn in them."""
    draw = np.random.default_rng(seed)
    for name, count in counts.items():
        Path(folder, name).mkdir(parents=True, exist_ok=True)
        for k in range(count):
            np.save(
                Path(folder, name, f"{seed}-{k}.npy"), draw.integers(0, 256, (9, 9, 3), np.uint8)
            )


def record(folder: str) -> Any:
    return ad.load(f"{folder}/last.pt")["record"]


def test_pictures_that_were_added_and_settings_of_the_weights(
    capsys: pytest.CaptureFixture[str],
) -> None:
    noise("pets", {"cat": 18, "dog": 3})
    train = ["train", "images", "pets", "--no-compile", "--epochs"]
    assert main([*train, "1", "--size", "9"]) == 0
    said = capsys.readouterr().out
    assert "21 pictures of 2 classes: cat 18, dog 3" in said
    assert "recognized  cat: " in said
    assert "it has not seen, too few to tell much" in said
    division = record("runs/images")["division"]
    held = division["test names"]
    assert len(held) == 4
    model = Path("runs/images/model.pt").read_bytes()
    resume = ["--resume", "runs/images"]
    for options, told in (
        (["--size", "12"], "trained with --size 9, and goes on so. Leave --size out"),
        (["--seed", "1"], "trained with --seed 0"),
    ):
        assert main([*train, "2", *resume, *options]) == 2
        assert told in capsys.readouterr().err
    assert main([*train, "1", *resume]) == 0
    assert "nothing to train" in capsys.readouterr().out
    assert Path("runs/images/model.pt").read_bytes() == model
    noise("pets", {"dog": 9}, seed=1)
    (Path("pets") / held[0]).rename("pets/dog/renamed.npy")
    assert main([*train, "2", *resume, "--balance", "--folder", "runs/more"]) == 0
    said = capsys.readouterr().out
    assert "pictures other than those of runs/images/last.pt: 9 new (7 to learn from, 2" in said
    after = record("runs/more")["division"]
    assert {*held[1:], "dog/renamed.npy"} <= {*after["test names"]}
    assert {*division["train names"]} <= {*after["train names"]}
    assert ad.load("runs/more/model.pt")["settings"]["size"] == 9
    assert Path("runs/images/model.pt").read_bytes() == model
    Path("pets/dog").rename("pets/cow")
    assert main([*train, "2", *resume]) == 2
    assert "with other classes, which its numbers stand for ('dog' there, 'cow' here)" in (
        capsys.readouterr().err
    )


def test_rows_that_were_added(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{k},{k % 7},{3.5 * k}" for k in range(40)]
    Path("t.csv").write_text("\n".join(["a,b,y", *rows, *rows[:5]]))
    train = ["train", "csv", "t.csv", "--no-compile", "--epochs"]
    assert main([*train, "1", "--without", "b"]) == 0
    first, model = record("runs/csv"), ad.load("runs/csv/model.pt")["settings"]
    assert len(first["division"]["test"]) == 9
    Path("t.csv").write_text("\n".join(["a,b,y", *(f"{900 + k},1,7.5" for k in range(10)), *rows]))
    resume = ["--resume", "runs/csv", "--folder", "runs/more"]
    for options, told in (
        (["--target", "b"], "trained without --target, and goes on so"),
        (["--without", "a"], "trained with --without b"),
        (["--decimal", ","], "trained without --decimal"),
        (["--missing", "fill"], "trained with --missing refuse"),
    ):
        assert main([*train, "2", *resume, *options]) == 2
        assert told in capsys.readouterr().err
    assert main([*train, "2", *resume]) == 0
    assert "10 new (8 to learn from, 2 to test on) and 5 no longer" in capsys.readouterr().out
    second, more = record("runs/more"), ad.load("runs/more/model.pt")["settings"]
    sides = [
        {*part["division"][side].tolist()} for part in (first, second) for side in ("train", "test")
    ]
    assert not sides[0] & sides[3]
    assert not sides[1] & sides[2]
    for name in ("mean", "spread", "target_mean", "target_spread"):  # what its weights are for
        assert more[name] == model[name]


def test_what_is_there_is_not_written_over(capsys: pytest.CaptureFixture[str]) -> None:
    noise(".", {"cat": 4, "dog": 4})
    assert main(["train", "images", "nowhere"]) == 2
    assert not Path("runs").exists()
    train = ["train", "images", ".", "--no-compile", "--epochs", "1", "--size", "8"]
    assert main(train) == 0
    model = Path("runs/images/model.pt").read_bytes()
    Path("runs/images/images.png").write_bytes(b"a picture that training wrote")
    capsys.readouterr()
    assert main([*train, "--seed", "1"]) == 0
    said = capsys.readouterr().out
    assert "8 pictures of 2 classes: cat 4, dog 4" in said
    assert f"model in it, which is in {Path('runs/images/earlier-1')} now" in said
    assert Path("runs/images/earlier-1/model.pt").read_bytes() == model
    assert main(["predict", "runs/images/earlier-1", "cat"]) == 0
    assert capsys.readouterr().out.count("\n") == 4
    (one, *_) = images.predictions("runs/images", ["cat"])
    assert one["probability"] == max(one["probabilities"].values())
    assert sum(one["probabilities"].values()) == pytest.approx(1, abs=1e-5)


LEVELS: list[tuple[dict[str, int], bool, str]] = [
    ({"a/x": 3, "a/y": 3, "b/x": 3, "b/y": 3}, False, "If x, y are the classes, give up/a"),
    ({"a/x": 3, "a/y": 3, "b": 3}, False, ""),
    ({"a/x": 3, "b/x": 3}, False, ""),
    ({"train/x": 3, "train/y": 3, "val/x": 3, "val/y": 3}, True, "Give one, up/train"),
    ({"a/x": 3, "a/y": 3}, True, "If its folders (x, y) are, give up/a"),
    ({"a": 3, "b": 3, "c": 0}, True, "up/c has no pictures in it, so that it is no class."),
    ({"a": 0, "b": 0}, True, "no pictures in its folders (a, b)"),
]


@pytest.mark.parametrize(("counts", "refused", "told"), LEVELS)
def test_folders_one_level_too_high(
    counts: dict[str, int], refused: bool, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def look() -> None:
        data = _pictures.Pictures("up", images.prepare(8))
        _pictures.look_at_levels(Path("up"), data.classes)

    noise("up", counts)
    if refused:
        with pytest.raises((ValueError, OSError), match=re.escape(told)):
            look()
        return
    look()
    said = capsys.readouterr().out
    assert told in said
    assert bool(told) == bool(said)


def test_the_end_names_what_is_rare() -> None:
    counts = np.array([[18, 0, 0], [0, 18, 0], [1, 1, 0]])
    names = ["long", "round", "lobed"]
    assert images.rare(names, np.array([72, 77, 10]), counts) == ["lobed (10)"]
    assert images.rare(names, np.array([72, 77, 60]), counts) == []
    chosen = Namespace(folder="runs/images", images="leaves", size=64, epochs=15, seed=0, batch_size=32,
                       usual_batch=32, compile=True, skip_broken=True, balance=False)  # fmt: skip
    trainer: Any = Namespace(history=[{"validation_loss": x} for x in (4, 1, 1, 1)], epoch=15)
    steps = images.next_steps(trainer, chosen, ["lobed (10)"])
    assert "more pictures of lobed (10): so few are learned from" in steps
    assert "adjoint train images leaves --balance --epochs 15 --skip-broken " in steps[2]
    assert "--size 128 --epochs 15 --skip-broken" in images.next_steps(trainer, chosen, [])[1]
    trainer.history[-1] = {"validation_loss": 0.5}
    assert "--epochs 30 --resume runs/images/last.pt" in images.next_steps(trainer, chosen, [])[1]
    many = np.diag([0, *range(1, 13)])
    many[0, 1] = 5
    assert "recognized least  k0: 0 of 5, " in _results.recognized(
        many, [f"k{k}" for k in range(13)], ""
    )


def test_sizes_and_options_that_cannot_be(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "images", "pets", "--size", "5"])
    assert "--size: expected a whole number from 8 on, received '5'" in capsys.readouterr().err

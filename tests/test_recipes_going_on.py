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
from adjoint.training.recipes import _pictures, _results, csv, gpt, images, regression, sentences
from adjoint.training.recipes._division import Samples, divided


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder, in which nothing is drawn nor logged: nobody looks."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(images, "images_picture", lambda path, *_: str(path))
    monkeypatch.setattr(csv, "prediction_picture", lambda path, *_: str(path))
    monkeypatch.setattr(csv, "confusion_picture", lambda path, *_: str(path))
    monkeypatch.setattr(sentences, "confusion_picture", lambda path, *_: str(path))
    monkeypatch.setattr(regression, "curve_picture", lambda path, *_: str(path))
    monkeypatch.setattr(gpt, "SIZES", {"width": 16, "heads": 2, "layers": 1})
    monkeypatch.setattr(gpt, "WRITTEN", 1)
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
    chosen = Namespace(file="a.txt", length=16, before=None, resume="last.pt")
    first = gpt.divided(text, chosen)
    chosen.before = {"record": {"division": first}}
    longer = text + "z" * added
    second = gpt.divided(longer, chosen)
    train = list(gpt.TextPieces(second["train"], chosen.length, 400))
    test = gpt.tested(second["test"], chosen.length, None)
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


def write_data() -> None:
    """A table of noise, a text, and pictures."""
    draw = np.random.default_rng(0)
    rows = [f"{a:.3f},{b:.3f},{'ab'[k % 2]}" for k, (a, b) in enumerate(draw.normal(size=(60, 2)))]
    Path("noise.csv").write_text("\n".join(["x,z,y", *rows]), encoding="utf-8")
    Path("song.txt").write_text("la li lo lu, " * 20, encoding="utf-8")
    noise("pets", {"cat": 6, "dog": 6})
    reviews("reviews.csv")


def reviews(path: str, rows: int = 60) -> None:
    """Sentences whose label depends on pairs of words; the longest column comes last."""
    said = [
        ("good", "was fine"),
        ("bad", "was dull"),
        ("bad", "was not fine"),
        ("good", "was not dull"),
    ]
    lines = [f'{k},{said[k % 4][0]},"The film, no {k}, {said[k % 4][1]}!"' for k in range(rows)]
    Path(path).write_text("\n".join(["id,label,text", *lines]), encoding="utf-8")


KEPT: list[tuple[list[str], list[str], dict[str, Any]]] = [
    (["regression"], ["--batch-size", "800"], {"batch_size": 800}),
    (["csv", "noise.csv"], ["--without", "z", "--batch-size", "7"], {"batch_size": 7}),
    (["images", "pets"], ["--size", "8", "--balance", "--skip-broken"], {"balance": True}),
    (["gpt", "song.txt"], ["--length", "4", "--blocks", "9", "--layers", "2"], {"blocks": 9}),
    (["sentences", "reviews.csv"], ["--exact", "--batch-size", "9"], {"batch_size": 9}),
]


@pytest.mark.parametrize(("data", "options", "some"), KEPT)
def test_a_run_that_goes_on_keeps_every_option_and_its_folder(
    data: list[str], options: list[str], some: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    write_data()
    common = ["--lr", "0.004", "--seed", "5", "--no-compile", "--epochs", "1"]
    assert main(["train", *data, *common, *options, "--folder", "runs/mine"]) == 0
    first = record("runs/mine")
    assert first["options"] | some | {"lr": 0.004, "compile": False} == first["options"]
    capsys.readouterr()
    assert main(["train", *data, "--epochs", "2", "--resume", "runs/mine"]) == 0
    assert "goes on with --epochs 2; so far with --epochs 1\n" in capsys.readouterr().out
    second = record("runs/mine")
    assert second["settings"] == first["settings"]
    assert second["options"] == first["options"] | {"epochs": 2}
    assert [path.name for path in Path("runs").iterdir()] == ["mine"]
    lr = ["--lr", "0.001", "--batch-size", "500"]
    assert main(["train", *data, "--epochs", "3", "--resume", "runs/mine", *lr]) == 0
    said = capsys.readouterr().out
    assert "goes on with --lr 0.001; so far with --lr 0.004\n" in said
    size = first["options"]["batch_size"]
    assert f"goes on with --batch-size 500; so far with --batch-size {size}\n" in said
    assert record("runs/mine")["options"]["lr"] == 0.001


def test_the_best_model_is_kept_and_learning_by_heart_is_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_data()
    train = ["train", "csv", "noise.csv", "--no-compile", "--lr", "0.01", "--epochs"]
    assert main([*train, "12"]) == 0
    said = capsys.readouterr().out
    last, kept = ad.load("runs/csv/last.pt"), ad.load("runs/csv/model.pt")["weights"]
    losses = [entry["validation_loss"] for entry in last["history"]]
    best = 1 + losses.index(min(losses))
    assert last["best"]["epoch"] == best < 12
    assert f"the model after epoch {best} of 12, the best, which is kept. Since then it " in said
    assert "learned by heart: the loss fell to " in said
    assert "--resume" not in said
    for name, value in last["best"]["weights"].items():
        assert ad.equal(kept[name], value)
    assert not ad.equal(kept["0.weight"], last["model"]["0.weight"])
    Path("runs/csv/model.pt").unlink()
    assert main([*train, "13", "--resume", "runs/csv"]) == 0
    again = ad.load("runs/csv/last.pt")["best"]
    assert (again["epoch"], ad.load("runs/csv/model.pt")["recipe"]) == (best, "csv")
    assert again["loss"] == pytest.approx(min(losses), rel=1e-6)


def test_an_interrupted_run_can_be_asked_and_is_set_aside(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_data()
    step = Trainer._train_batch

    def interrupted(trainer: Trainer, *batch: Any) -> Any:
        if trainer.epoch == 1:
            raise KeyboardInterrupt
        return step(trainer, *batch)

    train = ["train", "gpt", "song.txt", "--length", "4", "--no-compile", "--epochs", "2"]
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_train_batch", interrupted)
        assert main([*train, "--folder", "runs/a b"]) == 130
    said = capsys.readouterr().err
    assert "`adjoint train gpt song.txt --resume 'runs/a b'` goes on after epoch 1" in said
    assert main(["predict", "runs/a b", "la"]) == 0
    Path("runs/a b/model.pt").unlink()
    first = Path("runs/a b/last.pt").read_bytes()
    Path("t.csv").write_text("x,y\n" + "1,2\n3,4\n5,7\n" * 4, encoding="utf-8")
    assert main(["train", "csv", "t.csv", "--epochs", "1", "--folder", "runs/a b"]) == 0
    assert "had a checkpoint in it, which is in runs/a b/earlier-1 now" in capsys.readouterr().out
    assert Path("runs/a b/earlier-1/last.pt").read_bytes() == first


def test_a_model_of_one_text_learns_another(capsys: pytest.CaptureFixture[str]) -> None:
    Path("one.txt").write_text("la li lo lu, " * 20, encoding="utf-8")
    Path("two.txt").write_text("ba li bo bu! " * 20, encoding="utf-8")
    train = ["train", "gpt", "--no-compile", "--epochs", "1"]
    assert main([*train, "one.txt", "--length", "4", "--width", "8"]) == 0
    more = [*train, "two.txt", "--from", "runs/gpt", "--folder", "runs/two"]
    assert main([*more, "--lr", "1e-9"]) == 0
    assert "begins with the model in runs/gpt; 2 characters are new to it" in (
        capsys.readouterr().out
    )
    one, two = (ad.load(f"runs/{name}/model.pt") for name in ("gpt", "two"))
    assert two["settings"]["vocabulary"] == one["settings"]["vocabulary"] + "!b"
    assert two["settings"]["width"] == 8
    for name, value in one["weights"].items():
        np.testing.assert_allclose(two["weights"][name][: len(value)], value, atol=1e-6)
    assert main([*more, "--width", "12"]) == 2
    assert "--width: runs/gpt has 8, which its weights are for" in capsys.readouterr().err
    assert main([*train, "two.txt", "--resume", "runs/two", "--epochs", "2"]) == 0
    ad.manual_seed(0)
    (answer,) = gpt.predictions("runs/two", ["bo b"], length=7)
    assert (answer["text"], len(answer["continuation"])) == ("bo b", 7)


def test_sentences_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    reviews("reviews.csv", 120)
    assert main(["train", "csv", "reviews.csv", "--target", "label", "--without", "id"]) == 2
    remedy = "adjoint train sentences reviews.csv --text text --target label"
    assert f"'text' holds texts, from which `{remedy}` learns" in capsys.readouterr().err
    assert main([*remedy.split()[1:], "--no-compile", "--epochs", "12"]) == 0
    said = capsys.readouterr().out
    assert "120 rows; label (bad 60, good 60) from text; " in said
    assert "label: accuracy 100.0% on 24 texts it has not seen (always the commonest" in said
    assert re.search(r"for good speak .*was fine", said)
    asked = ["The book was not dull", "the book was dull", "nothing known here"]
    found = sentences.predictions("runs/sentences", asked)
    assert [answer["label"] for answer in found[:2]] == ["good", "bad"]
    assert all(sum(a["probabilities"].values()) == pytest.approx(1, abs=1e-5) for a in found)
    assert main(["predict", "runs/sentences", *asked[:2]]) == 0
    title, *lines = capsys.readouterr().out.splitlines()
    assert title == "label,probability"
    assert [line.split(",")[0] for line in lines] == ["good", "bad"]
    Path("new.csv").write_text("text\nIt was fine\nIt was dull\n", encoding="utf-8")
    assert main(["predict", "runs/sentences", "new.csv", "--with-rows"]) == 0
    assert capsys.readouterr().out.startswith("text,label,probability\nIt was fine,good,")
    for asked_for, told in (("gone.csv", "there is no file"), ("t.csv", "lacks the column 'text'")):
        Path("t.csv").write_text("Text,x\na,b\n", encoding="utf-8")
        assert main(["predict", "runs/sentences", asked_for]) == 2
        assert told in capsys.readouterr().err
    with pytest.raises(TypeError, match="wants a list of texts"):
        sentences.predictions("runs/sentences", "one")


TEXTS: list[tuple[str, list[str]]] = [
    ("Don\u2019t panic", ["don't", "panic", "don't panic"]),
    ("\u4e0d\u597d ok", ["\u4e0d", "\u597d", "ok", "\u4e0d \u597d", "\u597d ok"]),
    ("", []),
]


@pytest.mark.parametrize(("text", "found"), TEXTS)
def test_words_of_a_text(text: str, found: list[str]) -> None:
    assert sentences.words(text) == found


def test_a_bag_of_words_is_the_mean_of_what_stands_for_them() -> None:
    texts = ["b a b", "zzz", "c"]
    known = ["a", "b", "c", "b a"]
    numbers = sentences.numbered(texts, known)
    assert numbers.tolist() == [[2, 1, 2, 4], [0, 0, 0, 0], [3, 0, 0, 0]]
    model: Any = sentences.network(4, 3).eval()
    weight = model[0].weight.detach().numpy()
    means = np.stack([weight[[2, 1, 2, 4]].mean(0), np.zeros(sentences.WIDTH), weight[3]])
    wanted = means @ model[2].weight.detach().numpy().T + model[2].bias.detach().numpy()
    np.testing.assert_allclose(model(numbers).detach().numpy(), wanted, rtol=1e-4, atol=1e-5)


UNLABELLED: list[tuple[str, list[str], str]] = [
    ("text\nhallo\nyou\n", [], "the only column is 'text'"),
    ("a,b\nx y,1\nz w,1\n", [], "has 1 kinds of label"),
    ("a,b\nx y,1\nz w,2\n", ["--target", "c"], "--target: t.csv has no column 'c'"),
    ("a,b\nx y,1\nz w,2\n", ["--target", "a", "--text", "a"], "are both 'a'"),
    ("a,b\nx y,1\nz w,2\nq r,1\n", [], "no word of 'a' is in two texts"),
]


@pytest.mark.parametrize(("content", "options", "told"), UNLABELLED)
def test_tables_without_sentences_and_labels(
    content: str, options: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("t.csv").write_text(content, encoding="utf-8")
    assert main(["train", "sentences", "t.csv", *options]) == 2
    assert told in capsys.readouterr().err


UNFIT: list[tuple[bytes, list[str], str]] = [
    (b"\0" * 500, [], "no text: it has zero bytes in it"),
    (b"\x89PNG\0\0" * 90, [], "no text: it has zero bytes in it"),
    (b"a" * 500, [], "every character is 'a': there is nothing to learn"),
    (b"ab" * 500, ["--width", "30", "--heads", "4"], "4 cannot share --width 30 evenly"),
    (b"ab" * 500, ["--resume", "song.txt"], "--resume: song.txt is no checkpoint of training"),
    (b"ab" * 500, ["--folder", "song.txt/x"], "--folder: song.txt is a file"),
    (b"ab" * 500, ["--from", "nowhere"], "there is no nowhere/model.pt"),
]


@pytest.mark.parametrize(("content", "options", "told"), UNFIT)
def test_texts_and_options_that_cannot_be_learned_from(
    content: bytes, options: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("song.txt").write_bytes(content)
    assert main(["train", "text", "song.txt", *options]) == 2
    assert told in capsys.readouterr().err
    assert not Path("runs").exists()


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
    chosen = Namespace(folder="runs/images", images="leaves", size=64, skip_broken=True,
                       balance=False, command=["train", "images", "leaves"])  # fmt: skip
    trainer: Any = Namespace(history=[{"validation_loss": x} for x in (4, 1, 1, 1)], epoch=15)
    steps = images.next_steps(trainer, chosen, ["lobed (10)"])
    assert "more pictures of lobed (10): so few are learned from" in steps
    assert "adjoint train images leaves --balance --epochs 15 --skip-broken " in steps[2]
    assert "--size 128 --epochs 15 --skip-broken" in images.next_steps(trainer, chosen, [])[1]
    trainer.history[-1] = {"validation_loss": 0.5}
    assert "--epochs 30 --resume runs/images   " in images.next_steps(trainer, chosen, [])[1]
    many = np.diag([0, *range(1, 13)])
    many[0, 1] = 5
    assert "recognized least  k0: 0 of 5, " in _results.recognized(
        many, [f"k{k}" for k in range(13)], ""
    )


def test_sizes_and_options_that_cannot_be(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "images", "pets", "--size", "5"])
    assert "--size: expected a whole number from 8 on, received '5'" in capsys.readouterr().err

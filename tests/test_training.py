"""The Trainer: learning, exact resume, stopping, NaN, curves, event files, summaries."""

from __future__ import annotations

import functools
import io
import math
import re
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn
from adjoint.data import Dataset
from adjoint.metrics import F1, Accuracy
from adjoint.training import EarlyStopping, NonFiniteLoss, Trainer, save_plot, summary
from adjoint.training.state import size_of
from adjoint.training.writer import SummaryWriter
from adjoint.utils.data import DataLoader, TensorDataset
from adjoint.utils.tensorboard.summary import hparams


def problem() -> TensorDataset:
    generator = ad.Generator().manual_seed(7)
    x = ad.randn(60, 4, generator=generator)
    return TensorDataset(x, (x[:, 0] * x[:, 1] > 0).long())


def trainer_and_loader(folder: Path | None = None, **options: Any) -> tuple[Trainer, Any]:
    ad.manual_seed(3)
    model = nn.Sequential(
        nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 2)
    )
    optimizer = ad.optim.Adam(model.parameters(), lr=0.02)
    options.setdefault("scheduler", ad.optim.lr_scheduler.StepLR(optimizer, 2, 0.5))
    options.setdefault("metrics", [Accuracy()])
    trainer = Trainer(
        model,
        optimizer,
        nn.CrossEntropyLoss(),
        folder=folder,
        progress=False,
        **options,
    )
    return trainer, DataLoader(problem(), batch_size=8, shuffle=True)


def bits(trainer: Trainer) -> list[bytes]:
    return [v.numpy().tobytes() for v in trainer.model.state_dict().values()]


class Interrupted(Exception):
    """Stands for whatever ends a run."""


@pytest.mark.parametrize(
    "options",
    [
        {"clip_norm": 1.0},
        {"accumulate": 3, "clip_value": 0.1},
        {"precision": "bfloat16"},
        {"precision": "float16"},
    ],
    ids=lambda options: "-".join(str(v) for v in options.values()),
)
def test_compiled_equals_eager(options: dict[str, Any]) -> None:
    runs = []
    for compile in (False, True):
        trainer, loader = trainer_and_loader(compile=compile, **options)
        trainer.fit(loader, loader, epochs=3)  # the last batch of an epoch is smaller
        runs.append((trainer.history, trainer.predict(loader)))
    # A bias before a batch norm has no gradient but rounding, which Adam makes a step of: the
    # running means, and so evaluation, differ a little while training itself does not.
    tolerances = {"loss": 2e-2 if "precision" in options else 1e-5, "validation_loss": 2e-2}
    for name, tolerance in tolerances.items():
        eager, compiled = ([h[name] for h in history] for history, _ in runs)
        np.testing.assert_allclose(compiled, eager, rtol=tolerance)
    assert runs[0][1].shape == runs[1][1].shape


def test_compiled_run_resumes_in_the_middle(tmp_path: Path) -> None:
    whole, loader = trainer_and_loader(compile=True)
    whole.fit(loader, epochs=4)
    first, loader = trainer_and_loader(tmp_path, compile=True)
    first.fit(loader, epochs=2)
    ad.manual_seed(99)
    second, loader = trainer_and_loader(tmp_path, compile=True)
    second.fit(loader, epochs=4, resume=tmp_path / "last.pt")
    assert bits(whole) == bits(second)


def test_compiled_run_stops_before_an_update_that_is_not_finite() -> None:
    trainer, _ = trainer_and_loader(compile=True)
    before = [p.detach().clone() for p in trainer.model.parameters()]
    with pytest.raises(NonFiniteLoss, match="parameters are those of step 0"):
        trainer.fit([(ad.full((8, 4), math.nan), ad.zeros(8, dtype=ad.int64))])
    for p, kept in zip(trainer.model.parameters(), before, strict=True):
        assert p.grad is None
        assert p.equal(kept)


@functools.cache
def uninterrupted(accumulate: int) -> tuple[list[bytes], Any]:
    """The bits and the history of four epochs."""
    whole, loader = trainer_and_loader(accumulate=accumulate, clip_norm=1.0)
    whole.fit(loader, DataLoader(problem(), batch_size=30), epochs=4)
    return bits(whole), whole.history


@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("stop_at", [1, 5, 11, 17])
def test_resumed_equals_uninterrupted(tmp_path: Path, stop_at: int, accumulate: int) -> None:
    first, loader = trainer_and_loader(tmp_path, accumulate=accumulate, clip_norm=1.0, save_every=1)
    save = first.save

    def save_and_stop(path: Any, train: Any = None) -> None:
        save(path, train)
        if first.step == min(stop_at, 9 if accumulate == 3 else 99):
            raise Interrupted

    first.save = save_and_stop  # type: ignore[method-assign]
    first.draw_curves = lambda: None  # type: ignore[method-assign]  # nobody looks
    with pytest.raises(Interrupted):
        first.fit(loader, DataLoader(problem(), batch_size=30), epochs=4)

    again, loader = trainer_and_loader(accumulate=accumulate, clip_norm=1.0)
    ad.manual_seed(99)
    again.fit(loader, DataLoader(problem(), batch_size=30), epochs=4, resume=tmp_path / "last.pt")
    assert (bits(again), again.history) == uninterrupted(accumulate)


def test_it_learns_evaluates_and_predicts(tmp_path: Path) -> None:
    trainer, loader = trainer_and_loader(tmp_path, scheduler=None)
    history = trainer.fit(loader, loader, epochs=25)
    assert history[-1]["validation_accuracy"] > 0.8
    test: Any = DataLoader(problem(), batch_size=13)
    found = trainer.evaluate(test)
    predicted = trainer.predict(test)
    assert predicted.shape == (60, 2)
    labels = problem().tensors[1]
    assert found["accuracy"] == pytest.approx((predicted.argmax(1) == labels).float().mean().item())
    assert trainer.model.training
    for name in ("loss.png", "accuracy.png", "last.pt"):
        assert (tmp_path / name).stat().st_size > 500


def test_accumulated_batches_are_one_large_batch() -> None:
    x, y = problem().tensors
    results = []
    for size, accumulate in ((20, 1), (5, 4)):
        ad.manual_seed(0)
        model = nn.Linear(4, 2)
        optimizer = ad.optim.SGD(model.parameters(), lr=0.1)
        trainer = Trainer(
            model, optimizer, nn.CrossEntropyLoss(), accumulate=accumulate, progress=False
        )
        trainer.fit(DataLoader(TensorDataset(x, y), batch_size=size), epochs=2)
        assert trainer.step == 6
        results.append(model.weight.detach())
    assert ad.allclose(results[0], results[1], atol=1e-6)


def test_clipping_bounds_the_step() -> None:
    model = nn.Linear(2, 1)
    before = model.weight.detach().clone()
    optimizer = ad.optim.SGD(model.parameters(), lr=1.0)
    trainer = Trainer(model, optimizer, nn.MSELoss(), clip_norm=0.1, progress=False)
    trainer.fit([(100 * ad.ones(3, 2), ad.zeros(3, 1))])
    assert 0 < (model.weight.detach() - before).norm().item() <= 0.1 + 1e-5


def test_early_stopping() -> None:
    stop = EarlyStopping("validation_loss", patience=2)
    trainer, loader = trainer_and_loader(early_stopping=stop, scheduler=None)
    for group in trainer.optimizer.param_groups:
        group["lr"] = 0.0
    validation: Any = DataLoader(problem(), batch_size=60)
    trainer.model[1].momentum = 0.0
    trainer.fit(loader, validation, epochs=50)
    assert trainer.stopped
    assert trainer.epoch == 4
    with pytest.raises(KeyError, match="no value 'speed'"):
        EarlyStopping("speed").update({"loss": 1.0})


class Explodes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 1)

    def forward(self, x: Any) -> Any:
        return (self.layer(x) * 0 - x).log()


def test_nan_loss_names_step_and_operation() -> None:
    model = Explodes()
    optimizer = ad.optim.SGD(model.parameters(), lr=0.1)
    data = [(-ad.ones(2, 1), ad.ones(2, 1)), (ad.ones(2, 1), ad.ones(2, 1))]
    with pytest.raises(NonFiniteLoss, match=r"nan at step 2 \(epoch 1, batch 2\)"):
        Trainer(model, optimizer, nn.MSELoss(), progress=False).fit(data)
    with pytest.raises(NonFiniteLoss, match=r"First made by: log \(\(2, 1\)\) from finite"):
        Trainer(model, optimizer, nn.MSELoss(), progress=False, find_nan=True).fit(data)


def test_mixed_precision_learns() -> None:
    for precision in ("bfloat16", "float16"):
        trainer, loader = trainer_and_loader(precision=precision, scheduler=None)
        history = trainer.fit(loader, epochs=10)
        assert history[-1]["loss"] < 0.75 * history[0]["loss"]


def test_bad_input() -> None:
    trainer, _ = trainer_and_loader()
    with pytest.raises(TypeError, match="pair"):
        trainer.fit([ad.ones(3)])
    with pytest.raises(ValueError, match="empty"):
        trainer.fit([])
    with pytest.raises(ValueError, match="precision"):
        trainer_and_loader(precision="int8")


class Squares(Dataset[Any]):
    """Samples, each a number and its square."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, i: int) -> Any:
        return ad.tensor([float(i)]), ad.tensor(float(i * i))


def test_samples_are_no_batches() -> None:
    model = ad.nn.Linear(1, 3)
    optimizer = ad.optim.SGD(model.parameters(), 0.1)
    trainer = Trainer(model, optimizer, ad.nn.MSELoss(), progress=False)
    for verb in (trainer.fit, trainer.evaluate, trainer.predict):
        with pytest.raises(TypeError, match="wants batches, received Squares"):
            verb(Squares())
    with pytest.raises(TypeError, match="a sample, not a batch"):
        trainer.fit([(ad.ones(1), ad.tensor(1.0))])
    x = ad.randn(5, 1)
    assert trainer.predict(x).equal(trainer.predict([x]))  # a tensor is one batch
    for wrong, said in ((Accuracy, "the class 'Accuracy'"), ("accuracy", "'accuracy'")):
        with pytest.raises(TypeError, match=said):
            Trainer(model, optimizer, ad.nn.MSELoss(), metrics=[wrong])  # type: ignore[list-item]
    with pytest.raises(TypeError, match=r"Pass model\.parameters\(\)"):
        ad.optim.Adam(ad.nn.Sequential(model))
    checkpoint = {"model": model.state_dict(), "epoch": 3}
    with pytest.raises(RuntimeError, match="in its entry 'model'"):
        model.load_state_dict(checkpoint)


def test_progress_off_a_terminal_is_a_line_an_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    trainer, loader = trainer_and_loader()
    trainer.progress = True
    trainer.fit(loader, loader, epochs=2)
    shown = capsys.readouterr()
    assert not shown.err
    lines = shown.out.splitlines()
    assert [line.startswith("epoch") for line in lines] == [True, False, True, False]
    assert re.fullmatch(
        r"epoch 1/2  \d+:\d\d  [\d.]+[kM]? samples/s  loss \S+  accuracy \S+", lines[0]
    )
    assert lines[1].startswith("  validation_loss")


def test_progress_on_a_terminal_is_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    trainer, loader = trainer_and_loader()
    trainer.progress = True
    trainer.fit(loader, epochs=1)
    assert "epoch 1/1:   0%|" in stream.getvalue()
    assert "0/8" in stream.getvalue()


@pytest.mark.parametrize(
    ("library", "extra"), [("matplotlib", "plot"), ("tensorboard", "tensorboard")]
)
def test_training_finishes_without_libraries_of_extras(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    trainer, loader = trainer_and_loader(tmp_path)
    with pytest.warns(UserWarning, match=rf"pip install adjoint\[{extra}\]") as seen:
        history = trainer.fit(loader, epochs=2)
    assert len(history) == 2
    assert len(seen) == 1  # once, and training went on
    assert (tmp_path / "last.pt").is_file()
    assert (tmp_path / "loss.png").is_file() == (library != "matplotlib")
    assert bool(list(tmp_path.glob("events*"))) == (library != "tensorboard")
    ask = (lambda: save_plot(tmp_path / "x.png", {}, "t")) if extra == "plot" else SummaryWriter
    with pytest.raises(ModuleNotFoundError, match=rf"adjoint\[{extra}\]"):
        ask()


def records(path: Path) -> list[bytes]:
    data, at, found = path.read_bytes(), 0, []
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        payload = data[at + 12 : at + 12 + length]
        found.append(payload)
        at += 16 + length
    return found


def test_event_files(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("loss", ad.tensor(0.5), 300)
    version, scalar = records(next(tmp_path.glob("events.out.tfevents.*")))
    assert fields(version)[3] == [b"brain.Event:2"]
    assert fields(scalar)[2] == [300]
    value = fields(fields(fields(scalar)[5][0])[1][0])
    assert (value[1], value[2]) == ([b"loss"], [0.5])


def test_number_as_tensor_and_continued_runs(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path, purge_step=7) as writer:
        writer.add_scalar("third", 1 / 3, 8, new_style=True, double_precision=True)
        with pytest.raises(ValueError, match="new_style"):
            writer.add_scalar("third", 1 / 3, 8, double_precision=True)
    _, start, number = map(fields, records(next(tmp_path.glob("events*"))))
    assert (start[2], fields(start[7][0])) == ([7], {1: [1]})
    value = fields(fields(number[5][0])[1][0])
    tensor = fields(value[8][0])
    assert struct.unpack("<d", tensor[6][0])[0] == 1 / 3


def fields(message: bytes) -> dict[int, list[Any]]:
    """A protocol buffer message: values by field number."""

    def varint(at: int) -> tuple[int, int]:
        value, shift = 0, 0
        while True:
            byte = message[at]
            value |= (byte & 127) << shift
            at, shift = at + 1, shift + 7
            if byte < 128:
                return value, at

    at = 0
    found: dict[int, list[Any]] = {}
    while at < len(message):
        key, at = varint(at)
        kind = key & 7
        value: Any
        if kind == 0:
            value, at = varint(at)
        elif kind == 1:
            (value,), at = struct.unpack_from("<d", message, at), at + 8
        elif kind == 5:
            (value,), at = struct.unpack_from("<f", message, at), at + 4
        else:
            length, at = varint(at)
            value, at = message[at : at + length], at + length
        found.setdefault(key >> 3, []).append(value)
    return found


def shown(folder: Path) -> list[dict[int, list[Any]]]:
    """The values of the events in a folder's file."""
    events = [fields(r) for r in records(next(folder.glob("events.out.tfevents.*")))[1:]]
    return [fields(fields(e[5][0])[1][0]) for e in events if 5 in e]


def test_histograms_images_and_texts(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path, filename_suffix=".end") as writer:
        writer.add_histogram("h", ad.tensor([-1.0, 0.0, 0.0, 2.0]), 1)
        writer.add_image("i", ad.rand(3, 4, 5), 2)
        writer.add_images("n", np.zeros((10, 4, 5, 1), np.uint8), 2, dataformats="NHWC")
        writer.add_text("t", "**bold**", 3)
        with pytest.raises(ValueError, match="does not fit dataformats='CHW'"):
            writer.add_image("i", ad.rand(4, 5))
        with pytest.raises(ValueError, match="not all finite"):
            writer.add_histogram("h", [math.nan])
    histogram, image, images, text = shown(tmp_path)
    body = fields(histogram[5][0])
    assert [body[i][0] for i in range(1, 6)] == [-1.0, 2.0, 4.0, 1.0, 5.0]
    limits = struct.unpack(f"<{len(body[6][0]) // 8}d", body[6][0])
    counts = struct.unpack(f"<{len(body[7][0]) // 8}d", body[7][0])
    assert len(limits) == len(counts)
    assert sum(counts) == 4
    assert limits[-1] > 2.0 >= limits[-2]
    assert list(limits) == sorted(limits)
    picture = fields(image[4][0])
    assert [picture[i][0] for i in (1, 2, 3)] == [4, 5, 3]
    assert picture[4][0][:4] == b"\x89PNG"
    grid = fields(images[4][0])
    assert [grid[i][0] for i in (1, 2, 3)] == [8, 40, 1]
    assert text[1] == [b"t/text_summary"]
    assert fields(text[8][0])[8] == [b"**bold**"]
    assert next(tmp_path.iterdir()).name.endswith(".end")


def test_graphs_hyperparameters_and_groups_of_numbers(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_graph(nn.Sequential(nn.Linear(2, 3), nn.ReLU()), ad.ones(1, 2))
        writer.add_scalars("loss/all", {"train": 1.0, "test": 2.0}, 5)
        writer.add_hparams(
            {"lr": 0.1, "name": "a", "flag": True}, {"accuracy": 0.5}, run_name="run"
        )
        with pytest.raises(ValueError, match="received list"):
            writer.add_hparams({"x": [1]}, {}, run_name="other")
    graph = fields(fields(records(next(tmp_path.glob("events*")))[1])[4][0])
    operations = [fields(node)[2][0] for node in graph[1]]
    assert b"input" in operations
    assert b"relu" in operations
    (test,) = shown(tmp_path / "loss_all_test")
    assert (test[1], test[2]) == ([b"loss/all"], [2.0])
    experiment, start, end, metric = shown(tmp_path / "run")
    assert experiment[1] == [b"_hparams_/experiment"]
    content = fields(fields(fields(start[9][0])[1][0])[2][0])
    settings = {fields(s)[1][0]: fields(fields(s)[2][0]) for s in fields(content[3][0])[1]}
    assert settings == {b"lr": {2: [0.1]}, b"name": {3: [b"a"]}, b"flag": {4: [1]}}
    assert (end[1], metric[2]) == ([b"_hparams_/session_end_info"], [0.5])


def test_curves_are_valid_png(tmp_path: Path) -> None:
    save_plot(tmp_path / "x.png", {"a": [(0, 1.0), (1, math.nan), (2, 3.0)], "b": []}, "title")
    data = (tmp_path / "x.png").read_bytes()
    width, height = struct.unpack_from(">II", data, 16)
    at, pixels = 8, b""
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack_from(">I", data, at + 8 + length)[0] == zlib.crc32(kind + body)
        pixels += zlib.decompress(body) if kind == b"IDAT" else b""
        at += 12 + length
    assert len(pixels) == height * (1 + 4 * width)


def test_summary_counts() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.Flatten(), nn.Linear(128, 5)
    )
    table = summary(model, ad.zeros(2, 3, 4, 4))
    conv, linear = 2 * (2 * 8 * 16) * 27, 2 * (2 * 5) * 128 + 10
    assert [row.flops for row in table.rows] == [conv + linear, conv, 0, linear]
    assert table.parameters == 8 * 27 + 128 * 5 + 5
    assert table.rows[1].shape == "(2, 8, 4, 4)"
    assert "Conv2d" in str(table)
    assert model.training
    assert not model[0]._forward_hooks


def test_a_second_fit_that_asks_for_no_more_epochs_says_so() -> None:
    trainer, loader = trainer_and_loader()
    trainer.fit(loader, epochs=2)
    before = bits(trainer)
    with pytest.warns(UserWarning, match=r"2 epochs are done .* Pass epochs=4 for 2 more"):
        trainer.fit(loader, epochs=2)
    assert bits(trainer) == before
    assert len(trainer.fit(loader, epochs=3)) == 3


def test_summaries_that_a_library_made_are_written(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        file = writer._get_file_writer()
        for part in hparams({"lr": 0.1}, {"loss": 1.0}):
            file.add_summary(part, 3)
    writer.flush()  # after its end there is nothing to bring to disk
    writer.close()
    names = ("experiment", "session_start_info", "session_end_info")
    assert [part[1] for part in shown(tmp_path)] == [
        [f"_hparams_/{name}".encode()] for name in names
    ]


@pytest.mark.parametrize("name", ["clip_norm", "clip_value"])
@pytest.mark.parametrize("bound", [0, -1.0, math.nan])
def test_bounds_of_gradients_are_more_than_zero(name: str, bound: float) -> None:
    """Zero teaches nothing, and less than zero the contrary."""
    with pytest.raises(ValueError, match=f"{name} must be more than 0, got"):
        trainer_and_loader(**{name: bound})


def test_what_cannot_be_fitted() -> None:
    batch = ad.ones(2, 4), ad.tensor([0, 1])
    trainer, loader = trainer_and_loader()
    with pytest.raises(ValueError, match="epochs must be 0 or more, got -1"):
        trainer.fit(loader, epochs=-1)
    with pytest.raises(TypeError, match="a generator is used up after one pass"):
        trainer.fit((batch for _ in range(3)), epochs=2)
    assert trainer.step == 0
    with pytest.raises(TypeError, match="pair, got tuple of 3"):
        trainer.fit([(*batch, 1)])
    assert len(trainer.fit((batch for _ in range(3)), epochs=1)) == 1
    with pytest.raises(ValueError, match="empty in epoch 2: it is used up"):
        trainer.fit(iter([]), epochs=2)
    trainer.loss = trainer._steps.loss = lambda output, target: 0.5
    with pytest.raises(TypeError, match="must return a tensor, received float"):
        trainer.fit(loader, epochs=9)


class Failing(Accuracy):
    """Raises in its first batches."""

    failures = 1

    def add(self, prediction: Any, target: Any) -> None:
        if self.failures:
            self.failures -= 1
            raise Interrupted
        super().add(prediction, target)


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("again", ["fit", "resume", "train_step"])
def test_nothing_of_an_interrupted_batch_is_part_of_the_next_step(
    tmp_path: Path, accumulate: int, again: str
) -> None:
    runs = []
    for interrupted in (False, True):
        metric = Failing()
        metric.failures = int(interrupted)
        trainer, _ = trainer_and_loader(accumulate=accumulate, metrics=[metric])
        batches = list(DataLoader(problem(), batch_size=8))[:4]
        trainer.save(tmp_path / "start.pt")
        if interrupted:
            with pytest.raises(Interrupted):
                trainer.fit(batches, epochs=1)
        if again == "train_step":
            ad.manual_seed(3)
            for batch in batches:
                trainer.train_step(batch)
        elif again == "resume":
            trainer.fit(batches, epochs=1, resume=tmp_path / "start.pt")
        else:
            ad.manual_seed(3)
            trainer.fit(batches, epochs=1)
        assert trainer.step == 4 // accumulate
        runs.append([p.detach().clone() for p in trainer.model.parameters()])
    assert all(a.equal(b) for a, b in zip(*runs, strict=True))


def test_a_list_of_batches_is_continued_where_it_stood(tmp_path: Path) -> None:
    batches = list(DataLoader(problem(), batch_size=8))
    whole, _ = trainer_and_loader()
    whole.fit(batches, epochs=2)
    first, _ = trainer_and_loader(tmp_path, save_every=1)
    save = first.save

    def save_and_stop(path: Any, train: Any = None) -> None:
        save(path, train)
        if first.step == len(batches) + 2:
            raise Interrupted

    first.save = save_and_stop  # type: ignore[method-assign]
    first.draw_curves = lambda: None  # type: ignore[method-assign]
    with pytest.raises(Interrupted):
        first.fit(batches, epochs=2)
    again, loader = trainer_and_loader()
    with pytest.raises(TypeError, match="cannot continue there"):
        again.fit(loader, epochs=2, resume=tmp_path / "last.pt")
    again.fit(batches, epochs=2, resume=tmp_path / "last.pt")
    assert (bits(again), again.history) == (bits(whole), whole.history)
    with pytest.raises(TypeError, match="save_every saves inside epochs"):
        trainer_and_loader(tmp_path, save_every=1)[0].fit(iter(batches))


def test_metrics_of_one_name_and_of_another_run(tmp_path: Path) -> None:
    model = nn.Linear(4, 3)
    parts = model, ad.optim.SGD(model.parameters(), lr=0.1), nn.CrossEntropyLoss()
    with pytest.raises(ValueError, match="two values would be called 'f1'"):
        Trainer(*parts, metrics=[F1(3, "micro"), F1(3, "macro")])
    trainer = Trainer(*parts, metrics=[F1(3)], progress=False)
    trainer.train_step((ad.ones(2, 4), ad.tensor([0, 1])))
    trainer._batches = 1
    other = Trainer(*parts, metrics=[Accuracy()], progress=False)
    before = model.weight.detach().clone()
    state = trainer.state_dict()
    state["model"] = {k: v + 1 for k, v in state["model"].items()}
    with pytest.raises(ValueError, match="gathered for other metrics"):
        other.load_state_dict(state)
    assert model.weight.equal(before)  # nothing is taken over of a state that does not fit


def test_a_run_that_stopped_early_says_so() -> None:
    trainer, loader = trainer_and_loader(early_stopping=EarlyStopping("loss", patience=0))
    trainer.stopped = True
    with pytest.warns(UserWarning, match="early stopping ended this run"):
        trainer.fit(loader, epochs=2)


def test_samples_of_nested_targets_are_counted() -> None:
    assert size_of(ad.ones(5, 2)) == size_of({"a": ad.ones(5, 2), "b": 3}) == 5
    assert size_of((ad.tensor(1.0), [ad.ones(4)])) == 4
    assert size_of([1, 2, 3]) == 3

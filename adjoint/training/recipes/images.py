"""Pictures of your own: a folder for each class, `FOLDER/cat/1.png`, `FOLDER/dog/2.png`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import adjoint as ad
from adjoint import nn, no_grad
from adjoint.data import Subset
from adjoint.data.readers.images import rgb
from adjoint.data.transforms import Compose, Resize, ToTensor
from adjoint.engine.core.arguments import at_least
from adjoint.metrics import Accuracy
from adjoint.training.pictures import images_picture
from adjoint.training.recipes import _common, _pictures, _resuming
from adjoint.training.recipes._results import confusion, recognized, unseen

SHOWN = 18
SMALLEST = 8  # pixels of a side: the network halves it three times
RARE = 4  # a class is rare that has so many times fewer pictures than another


def network(classes: int) -> nn.Module:
    """Convolutions with batch norm, then one mean a channel: for images of any size."""

    def block(inside: int, outside: int) -> list[nn.Module]:
        return [
            nn.Conv2d(inside, outside, 3, padding=1, bias=False),
            nn.BatchNorm2d(outside),
            nn.ReLU(),
            nn.MaxPool2d(2),
        ]

    return nn.Sequential(
        *block(3, 32), *block(32, 64), *block(64, 128),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(128, classes),
    )  # fmt: skip


def prepare(size: int) -> Compose:
    """From pixels (H, W, 3) to what the network takes: (3, size, size), from 0 to 1."""
    return Compose([ToTensor(), Resize((size, size), antialias=True)])


def main(arguments: Sequence[str] = ()) -> int:
    """Train on four fifths of the pictures, test on the rest."""
    parser = _common.options("images", __doc__, epochs=15, batch=32, lr=3e-3)
    parser.add_argument("images", help="the folder with a folder for each class")
    parser.add_argument(
        "--size",
        type=at_least(SMALLEST),
        default=64,
        help=f"pixels of a side, from {SMALLEST} on (64)",
    )
    parser.add_argument(
        "--balance",
        action="store_true",
        help="weigh pictures so that rare classes count as much as common ones",
    )
    parser.add_argument("--skip-broken", action="store_true", help="leave out unreadable files")
    chosen = _common.begin(parser, arguments, "images", ["size"])
    folder = Path(chosen.images)
    _pictures.refuse_other_layouts(folder)
    data = _pictures.Pictures(chosen.images, prepare(chosen.size), chosen.folder)
    _pictures.look_at_levels(folder, data.classes)
    _pictures.tell_of_others(data)
    _resuming.check_meaning(chosen, classes=data.classes)
    items = _pictures.ReadOnce(data, skip_broken=chosen.skip_broken)
    print(_pictures.counted(data.classes, items.labels))
    division = _resuming.split(chosen, items.samples, "pictures")
    train: Subset[Any] = Subset(items, division.train)
    held = [items[k] for k in division.test]
    model = network(len(data.classes))
    learned = np.bincount([items.labels[k] for k in division.train], minlength=len(data.classes))
    loss = nn.CrossEntropyLoss(weight=balance(learned) if chosen.balance else None)
    settings = {"classes": data.classes, "size": chosen.size}
    trainer = _common.fit(model, loss, train, held, chosen, [Accuracy()], settings=settings)
    actual = [label for _, label in held]
    guesses = trainer.predict([x.unsqueeze(0) for x, _ in held]).argmax(dim=1).tolist()
    counts = confusion(actual, guesses, len(data.classes))
    picture = images_picture(
        Path(chosen.folder) / "images.png", trainer.history, *shown(held, guesses, data.classes)
    )
    reached, what = np.trace(counts) / counts.sum(), unseen(len(held), "picture", "pictures")
    remedy = "It has to learn longer, or from more pictures."
    result = f"accuracy {reached:.1%} on {what}{recognized(counts, data.classes, remedy)}"
    _common.finish(
        result + _common.which_epoch(trainer, "more pictures do"),
        chosen.folder,
        picture,
        next_steps(trainer, chosen, rare(data.classes, learned, counts)),
    )
    return 0


def balance(counts: Any) -> Any:
    """A weight for each class, so that all have the same sum: all 1 where all are as common.

    >>> balance(np.array([30, 10])).tolist()
    [0.6666666865348816, 2.0]
    """
    present = np.maximum(counts, 1)
    return ad.tensor(present.sum() / (len(present) * present), dtype=ad.float32)


def shown(test: Sequence[Any], guesses: list[int], classes: list[str]) -> tuple[Any, Any]:
    """Some pictures, and what they were taken for, and whether rightly."""
    some = [test[k] for k in range(min(SHOWN, len(test)))]
    names = [name[:12] for name in classes]
    captions = [
        (names[g] if g == label else f"{names[g]}?\nno: {names[label]}", g == label)
        for g, (_, label) in zip(guesses, some, strict=False)
    ]
    return np.stack([x.permute(1, 2, 0).clamp(0, 1).numpy() for x, _ in some]), captions


def rare(classes: list[str], learned: Any, counts: Any) -> list[str]:
    """The rare classes that are worse recognized than most, and how many were learned from."""
    each = np.diagonal(counts) / np.maximum(counts.sum(1), 1)
    return [
        f"{classes[k]} ({learned[k]})"
        for k in np.argsort(learned, kind="stable")
        if learned[k] * RARE <= learned.max() and each[k] <= np.trace(counts) / counts.sum()
    ]


def next_steps(
    trainer: _common.RecipeTrainer, chosen: argparse.Namespace, few: list[str]
) -> list[str]:
    """What to do with the model, and what may make it better."""
    asked = ["predict", chosen.folder, "NEW.png"]
    steps = [_common.command(*asked) + "   # new pictures, or a folder of them"]
    train = ["train", "images", chosen.images]
    same = ["--skip-broken"] if chosen.skip_broken else []
    if few:
        again = ["--size", str(chosen.size)] if chosen.size != 64 else []
        again += ["--epochs", str(trainer.epoch), *same, *_common.place(chosen, "images")]
        steps.append(f"more pictures of {_pictures.shortened(few)}: so few are learned from")
        if not chosen.balance:
            steps.append(_common.command(*train, "--balance", *again) + "   # they count for more")
    same += ["--balance"] if chosen.balance else []
    if _common.still_learns(trainer):
        steps.append(_common.longer(trainer, chosen) + "   # go on")
    elif not few:
        finer = ["--size", str(2 * chosen.size), "--epochs", str(trainer.epoch)]
        command = _common.command(*train, *finer, *same, *_common.place(chosen, "images"))
        steps.append(f"{command}   # finer pictures, in about 4 times the time")
    steps += _common.guide("docs/howto/own_data.md", "pictures in a program that you can change")
    return steps


def restored(folder: str) -> nn.Module:
    """The network that was trained into a folder; it takes (B, 3, size, size) from 0 to 1."""
    settings, weights = _common.kept_settings(folder, "images")
    model = network(len(settings["classes"])).eval()
    model.load_state_dict(weights)
    return model


def asker(folder: str) -> Callable[[str], dict[str, Any]]:
    """What a trained model says of a picture's file, as a function."""
    settings, _ = _common.kept_settings(folder, "images")
    model, classes, prepared = restored(folder), settings["classes"], prepare(settings["size"])

    def ask(path: str) -> dict[str, Any]:
        with no_grad():
            likely = model(prepared(rgb(path)).unsqueeze(0)).softmax(-1)[0].tolist()
        best = max(range(len(classes)), key=likely.__getitem__)
        each = dict(zip(classes, likely, strict=True))
        return {"picture": path, "class": classes[best], "probability": likely[best],
                "probabilities": each}  # fmt: skip

    return ask


def predictions(folder: str, pictures: Sequence[str]) -> list[dict[str, Any]]:
    """What a trained model says of pictures.

    Args:
        folder: where it was trained into.
        pictures: files, or folders of them.

    Returns:
        For each `picture` the likeliest `class`, its `probability`, and `probabilities`, by class.
    """
    ask = asker(folder)
    return [ask(path) for path in files([str(path) for path in pictures])]


def predict(folder: str, inputs: Sequence[str]) -> None:
    """Print the likeliest class of each picture; what cannot be read is told at the end."""
    ask = asker(folder)
    broken, reasons = [], []
    for path in files(inputs):
        try:
            answer = ask(path)
        except (OSError, RuntimeError) as error:
            absent = isinstance(error, FileNotFoundError)
            reasons.append(f"there is no file {path!r}" if absent else str(error))
            broken.append(path)
            continue
        print(f"{path}: {answer['class']} ({answer['probability']:.1%})")
    if broken:
        raise ValueError(reasons[0] + _pictures.shortened(broken[1:], "; nor can {} be read"))


def files(inputs: Sequence[str]) -> list[str]:
    """The pictures that are meant; a folder stands for those in it."""
    paths: list[str] = []
    for path in inputs:
        inside = _pictures.pictures_in(Path(path)) if Path(path).is_dir() else [path]
        if not inside:
            raise FileNotFoundError(f"{path} has no pictures in it: {', '.join(_pictures.READ)}")
        paths += inside
    return paths

"""A small convolutional network on handwritten digits, past 97% in seconds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import adjoint as ad
from adjoint import nn
from adjoint.data import TensorDataset
from adjoint.datasets import digits
from adjoint.metrics import Accuracy
from adjoint.training.pictures import images_picture
from adjoint.training.recipes import _common
from adjoint.training.summary import summary

ENOUGH = 0.97
EPOCHS = 15
MISTAKES = 6  # that the picture begins with


def network() -> nn.Module:
    """Two convolutions and a linear layer, for images of 8 by 8."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),  # (B, 32, 8, 8)
        nn.ReLU(),
        nn.MaxPool2d(2),  # (B, 32, 4, 4)
        nn.Conv2d(32, 64, 3, padding=1),  # (B, 64, 4, 4)
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(1024, 10),
    )


def data() -> tuple[Any, Any]:
    """1,400 digits to learn from and 397 to test on."""
    images, labels = digits()
    order = ad.randperm(len(labels))
    images, labels = (images / 16).unsqueeze(1)[order], labels[order]
    return (
        TensorDataset(images[:1400], labels[:1400]),
        TensorDataset(images[1400:], labels[1400:]),
    )


def main(arguments: Sequence[str] = ()) -> int:
    """Train, report, and say by the exit status whether the accuracy was reached."""
    parser = _common.options("digits", __doc__, epochs=EPOCHS, batch=50, lr=4e-3)
    chosen = _common.begin(parser, arguments, "digits")
    train, test = data()
    model = network()
    print(summary(model, train[0][0].unsqueeze(0)))
    start = time.perf_counter()
    trainer = _common.fit(model, nn.CrossEntropyLoss(), train, test, chosen, [Accuracy()])
    reached = trainer.history[-1]["validation_accuracy"]
    spent = time.perf_counter() - start
    images, labels = test.tensors
    guesses = trainer.predict([images]).argmax(dim=1)
    right = (guesses == labels).tolist()
    wrong = [k for k, is_right in enumerate(right) if not is_right][:MISTAKES]
    order = wrong + [k for k, is_right in enumerate(right) if is_right]
    captions = [
        (f"{guess}" if guess == label else f"took {label} for {guess}", guess == label)
        for guess, label in zip(guesses[order].tolist(), labels[order].tolist(), strict=True)
    ]
    missed = right.count(False)
    picture = images_picture(
        Path(chosen.folder) / "digits.png", trainer.history, images[order, 0].numpy(), captions,
        f"{missed} of {len(right)} mistaken: {len(wrong)} of these first, then some it knew",
    )  # fmt: skip
    _common.finish(
        f"test accuracy {reached:.1%} after {trainer.epoch} epochs, {spent:.1f} s",
        chosen.folder,
        picture,
        [
            "adjoint train csv, images, sentences or gpt FILE: the same with data of your own",
            _common.longer(trainer, chosen) + "   # go on",
            *_common.guide("docs/quickstart.md", "such a program in ten minutes"),
        ],
    )
    if chosen.epochs >= EPOCHS and reached < ENOUGH:
        print(f"expected at least {ENOUGH:.0%}")
        return 1
    return 0

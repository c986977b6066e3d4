"""Pictures of your own: a folder for each class, `FOLDER/cat/1.png`, `FOLDER/dog/2.png`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from adjoint import nn, no_grad
from adjoint.data import Dataset
from adjoint.data.readers import ImageFolder
from adjoint.data.readers.images import EXTENSIONS, rgb
from adjoint.data.transforms import Compose, Resize, ToTensor
from adjoint.engine.core.arguments import positive
from adjoint.metrics import Accuracy
from adjoint.training.pictures import images_picture
from adjoint.training.recipes import _common

SHOWN = 18
PARTS = ("train", "training", "val", "valid", "validation", "dev", "test", "testing")
OTHERS = (".heic", ".heif", ".avif", ".svg", ".raw", ".cr2", ".nef", ".jp2", ".psd")
NAMED = 4  # further broken files that an error names


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


def is_picture(path: str) -> bool:
    """Whether a file is one of the user's: by its extension, and not hidden."""
    return path.lower().endswith((*EXTENSIONS, ".gif")) and not Path(path).name.startswith(".")


def refuse_other_layouts(folder: Path) -> None:
    """Refuse what is no folder of folders, with what it should be."""
    if folder.is_file():
        raise NotADirectoryError(
            f"{folder} is a file; give the folder with a folder for each class"
        )
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {str(folder)!r}")
    if not any(path.is_dir() for path in folder.iterdir()):
        raise FileNotFoundError(
            f"{folder} has no folders in it. Put the pictures of each class into a folder of its "
            f"own, as {folder}/cat/1.png and {folder}/dog/2.png."
        )


def refuse_parts(folder: Path, classes: Sequence[str]) -> None:
    """Refuse folders called `train` and `test`: they are parts of the data, not its classes."""
    if not all(name.lower() in PARTS for name in classes):
        return
    inside = [path.name for path in (folder / classes[0]).iterdir() if path.is_dir()]
    if len(inside) > 1:
        raise ValueError(
            f"{folder}: {', '.join(classes)} are taken for parts of the data, since they hold "
            f"folders ({', '.join(sorted(inside)[:NAMED])}). Give one, {folder / classes[0]}: "
            "a fifth of it is kept for the test."
        )


def tell_of_others(data: ImageFolder) -> None:
    """Say which pictures are in a format that is not read."""
    others = [
        path
        for name in data.classes
        for path in sorted((Path(data.root) / name).rglob("*"))
        if path.suffix.lower() in OTHERS
    ]
    if others:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        print(f"left out, since {others[0].suffix} is not read: {others[0]}{more}")


class ReadOnce(Dataset[Any]):
    """A dataset whose items are read once."""

    def __init__(self, data: ImageFolder, *, skip_broken: bool = False) -> None:
        self.items, broken = [], []
        for k, (path, _) in enumerate(data.samples):
            try:
                self.items.append(data[k])
            except RuntimeError as error:
                broken.append((path, error))
        if broken and not skip_broken:
            others = [path for path, _ in broken[1:]]
            named = f"; nor can {', '.join(others[:NAMED])} be read" if others else ""
            more = f" (and {len(others) - NAMED} more)" if len(others) > NAMED else ""
            which = "them" if others else "it"
            raise ValueError(f"{broken[0][1]}{named}{more}. Remove {which}, or pass --skip-broken.")
        for path, _ in broken:
            print(f"left out, since it cannot be read: {path}")

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        return self.items[index]


def main(arguments: Sequence[str] = ()) -> int:
    """Train on four fifths of the pictures, test on the rest."""
    parser = _common.options("images", __doc__, epochs=15, batch=32, lr=3e-3)
    parser.add_argument("images", help="the folder with a folder for each class")
    parser.add_argument("--size", type=positive, default=64, help="pixels of a side (64)")
    parser.add_argument("--skip-broken", action="store_true", help="leave out unreadable files")
    chosen = _common.begin(parser, arguments)
    refuse_other_layouts(Path(chosen.images))
    side = (chosen.size, chosen.size)
    prepare = Compose([ToTensor(), Resize(side, antialias=True)])
    data = ImageFolder(chosen.images, prepare, is_valid_file=is_picture)
    if len(data.classes) < 2:
        raise ValueError(
            f"{chosen.images}: the only class is {data.classes[0]!r}. Make a folder for each class."
        )
    refuse_parts(Path(chosen.images), data.classes)
    tell_of_others(data)
    items = ReadOnce(data, skip_broken=chosen.skip_broken)
    print(f"{len(items)} pictures of {len(data.classes)} classes: {', '.join(data.classes[:10])}")
    train, test = _common.divided(items)
    model = network(len(data.classes))
    meaning = {"classes": data.classes}
    trainer = _common.fit(model, nn.CrossEntropyLoss(), train, test, chosen, [Accuracy()], meaning)
    some = [test[k] for k in range(min(SHOWN, len(test)))]
    guesses = trainer.predict([x.unsqueeze(0) for x, _ in some]).argmax(dim=1).tolist()
    names = [name[:12] for name in data.classes]
    captions = [
        (names[g] if g == label else f"{names[g]},\nis {names[label]}", g == label)
        for g, (_, label) in zip(guesses, some, strict=True)
    ]
    shown = np.stack([x.permute(1, 2, 0).clamp(0, 1).numpy() for x, _ in some])
    picture = images_picture(Path(chosen.folder) / "images.png", trainer.history, shown, captions)
    reached = trainer.history[-1]["validation_accuracy"]
    settings = {"classes": data.classes, "size": chosen.size}
    _common.keep(chosen.folder, "images", model, settings)
    _common.finish(
        f"accuracy {reached:.1%} on pictures it has not seen",
        chosen.folder,
        picture,
        [
            _common.command("predict", chosen.folder, "NEW.png") + "   # a new picture",
            _common.command(
                "train",
                "images",
                chosen.images,
                "--size",
                str(2 * chosen.size),
                "--epochs",
                "30",
                *(["--skip-broken"] if chosen.skip_broken else []),
                *_common.place(chosen, "images"),
            ),
            "docs/howto/own_data.md: pictures in a program that you can change",
        ],
    )
    return 0


def restored(folder: str) -> nn.Module:
    """The network that was trained into a folder; it takes (B, 3, size, size) from 0 to 1."""
    settings, weights = _common.kept_settings(folder, "images")
    model = network(len(settings["classes"])).eval()
    model.load_state_dict(weights)
    return model


def predict(folder: str, inputs: Sequence[str]) -> None:
    """Print the likeliest class of each picture."""
    settings, _ = _common.kept_settings(folder, "images")
    model, classes = restored(folder), settings["classes"]
    side = (settings["size"], settings["size"])
    prepare = Compose([ToTensor(), Resize(side, antialias=True)])
    for path in inputs:
        if Path(path).is_dir():
            raise IsADirectoryError(f"{path} is a folder; name its pictures, as {path}/*.png does")
        with no_grad():
            likely = model(prepare(rgb(path)).unsqueeze(0)).softmax(-1)[0]
        best = int(likely.argmax())
        print(f"{path}: {classes[best]} ({float(likely[best]):.1%})")

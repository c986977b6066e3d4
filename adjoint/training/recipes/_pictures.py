"""A folder of pictures as people have it: what is read, what is told, what is refused."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from adjoint.data import Dataset
from adjoint.data.readers import ImageFolder
from adjoint.data.readers.images import EXTENSIONS
from adjoint.training.recipes._division import Samples, digest

PARTS = ("train", "training", "val", "valid", "validation", "dev", "test", "testing")
OTHERS = (".heic", ".heif", ".avif", ".svg", ".raw", ".cr2", ".nef", ".jp2", ".psd")
READ = (*EXTENSIONS, ".gif")
NAMED = 4  # names that a message has, of many
COUNTED = 10  # classes whose pictures are counted one by one


def is_picture(path: str) -> bool:
    """Whether a file is one of the user's: by its extension, and not hidden."""
    return path.lower().endswith(READ) and not Path(path).name.startswith(".")


def pictures_in(folder: Path) -> list[str]:
    """The pictures in a folder and the folders within, in order."""
    files = (os.path.join(at, name) for at, _, names in os.walk(folder) for name in names)
    return sorted(path for path in files if is_picture(path))


class Pictures(ImageFolder):
    """A folder for each class, but for hidden ones and for what training writes.

    Args:
        root: the folder of the class folders.
        transform: applied to each picture.
        written: the folder that training writes into, which may be within.
    """

    def __init__(
        self, root: str, transform: Callable[[Any], Any], written: str | None = None
    ) -> None:
        self.written = None if written is None else Path(written).resolve()
        super().__init__(root, transform, is_valid_file=is_picture)

    def find_classes(self, directory: str) -> tuple[list[str], dict[str, int]]:
        """The class folders' names in order, and their numbers; empty ones are refused."""
        here = Path(directory)
        names = sorted(
            path.name
            for path in here.iterdir()
            if path.is_dir()
            and not path.name.startswith(".")
            and not (self.written is not None and self.written.is_relative_to(path.resolve()))
        )
        empty = [name for name in names if not pictures_in(here / name)]
        if names and len(empty) == len(names):
            raise FileNotFoundError(
                f"{here}: no pictures in its folders ({shortened(names)}); {', '.join(READ)} are "
                "read"
            )
        if empty:
            raise FileNotFoundError(
                f"{here / empty[0]} has no pictures in it, so that it is no class"
                f"{shortened(empty[1:], ' (nor do {} have any)')}. Remove it, or put some there: "
                f"{', '.join(READ)} are read."
            )
        return names, {name: k for k, name in enumerate(names)}


def shortened(names: Sequence[str], form: str = "{}") -> str:
    """Some names, the first ones of many, in a sentence; nothing of none.

    >>> shortened(["a", "b", "c", "d", "e", "f"]), shortened([], "nor {}")
    ('a, b, c, d and 2 more', '')
    """
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return form.format(", ".join(names[:NAMED]) + more) if names else ""


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


def folders_in(folder: Path) -> list[str]:
    """The names of the folders in a folder, if all its pictures are in these."""
    if any(is_picture(path.name) for path in folder.iterdir() if path.is_file()):
        return []
    within = (path for path in folder.iterdir() if path.is_dir())
    return sorted(path.name for path in within if pictures_in(path))


def look_at_levels(folder: Path, classes: Sequence[str]) -> None:
    """Refuse one class, and parts such as `train` and `test`; say when classes hold only folders.

    These may be the classes, and the folder that was given one level too high.
    """
    within = {name: folders_in(folder / name) for name in classes}
    deeper = next((name for name in classes if len(within[name]) > 1), None)
    if len(classes) < 2:
        remedy = "Make a folder for each class."
        if deeper is not None:
            remedy = f"If its folders ({shortened(within[deeper])}) are, give {folder / deeper}."
        raise ValueError(f"{folder}: the only class is {classes[0]!r}. {remedy}")
    if deeper is None:
        return
    if all(name.lower() in PARTS for name in classes):
        raise ValueError(
            f"{folder}: {', '.join(classes)} are taken for parts of the data, since they hold "
            f"folders ({shortened(within[deeper])}). Give one, {folder / deeper}: a fifth of it is "
            "kept for the test."
        )
    if all(within.values()):
        print(
            f"{folder}: {shortened(classes)} hold only folders: all pictures in each are taken for "
            f"one class. If {shortened(within[deeper])} are the classes, give "
            f"{folder / deeper}"
        )


def tell_of_others(data: ImageFolder) -> None:
    """Say which files are not read: pictures in other formats, and those without an ending."""
    others = [
        path
        for name in data.classes
        for path in sorted((Path(data.root) / name).rglob("*"))
        if path.suffix.lower() in (*OTHERS, "") and path.is_file() and path.name[0] != "."
    ]
    if others:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        kind = f"{others[0].suffix} is not read" if others[0].suffix else "it has no ending"
        print(f"left out, since {kind}: {others[0]}{more}")


def counted(classes: Sequence[str], labels: Iterable[int]) -> str:
    """How many pictures each class has; of many classes, how many the fewest and the most have.

    >>> counted(["cat", "dog"], [0, 1, 1])
    '3 pictures of 2 classes: cat 1, dog 2'
    """
    counts = [0] * len(classes)
    for label in labels:
        counts[label] += 1
    pairs = list(zip(classes, counts, strict=True))
    said = ", ".join(f"{name} {count}" for name, count in pairs[:COUNTED])
    if len(classes) > COUNTED:
        least, most = min(pairs, key=lambda p: p[1]), max(pairs, key=lambda p: p[1])
        said = f"from {least[1]} ({least[0]}) to {most[1]} ({most[0]}) in each"
    return f"{sum(counts)} pictures of {len(classes)} classes: {said}"


class ReadOnce(Dataset[Any]):
    """A dataset whose items are read once; `samples` says which they are."""

    def __init__(self, data: ImageFolder, *, skip_broken: bool = False) -> None:
        self.items, self.labels, broken = [], [], []
        digests, names = [], []
        for k, (path, label) in enumerate(data.samples):
            try:
                self.items.append(data[k])
            except RuntimeError as error:
                broken.append((path, error))
                continue
            self.labels.append(label)
            digests.append(digest(Path(path).read_bytes()))
            names.append(Path(path).relative_to(data.root).as_posix())
        self.samples = Samples(digests, names)
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

"""Text: by lines, as a stream of lines, by characters."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from adjoint.data.dataset import Dataset, IterableDataset
from adjoint.data.worker_info import get_worker_info
from adjoint.engine.backends.array.interop import tensor
from adjoint.engine.tensor.tensor import Tensor

Path = str | os.PathLike[str]


class LineDataset(Dataset[Any]):
    """The lines of a text file, without their ends.

    Args:
        path: the file.
        transform: applied to each line.
        encoding: of the file.
    """

    def __init__(
        self, path: Path, transform: Callable[[str], Any] | None = None, encoding: str = "utf-8"
    ) -> None:
        with open(path, encoding=encoding) as file:
            # Not `splitlines`, which also divides at form feeds and other marks inside of lines.
            self.lines = [line.rstrip("\n") for line in file]
        self.transform = transform

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, index: int) -> Any:
        line = self.lines[index]
        return line if self.transform is None else self.transform(line)


class LineStream(IterableDataset[Any]):
    """The lines of text files one after another, never all in memory; workers share them.

    Args:
        paths: a file or several.
        transform: applied to each line.
        encoding: of the files.
    """

    def __init__(
        self,
        paths: Path | Sequence[Path],
        transform: Callable[[str], Any] | None = None,
        encoding: str = "utf-8",
    ) -> None:
        self.paths = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
        self.transform = transform
        self.encoding = encoding

    def _lines(self) -> Iterator[str]:
        for path in self.paths:
            with open(path, encoding=self.encoding) as file:
                for line in file:
                    yield line.rstrip("\r\n")

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        for line in islice(self._lines(), first, None, step):
            yield line if self.transform is None else self.transform(line)


class CharacterDataset(Dataset[tuple[Tensor, Tensor]]):
    """Blocks of a text by characters, each with the block one character later as its target.

    Args:
        text: the text itself.
        block_size: characters per item.
        vocabulary: the characters in order; those of the text, sorted, unless given.

    Example:
        >>> data = CharacterDataset("abcab", block_size=2)
        >>> data[0], data.decode(data[1][0])
        ((tensor([0, 1]), tensor([1, 2])), 'bc')
    """

    def __init__(self, text: str, block_size: int, vocabulary: str | None = None) -> None:
        if len(text) <= block_size:
            raise ValueError(
                f"CharacterDataset: {len(text)} characters are too few for blocks of {block_size}"
            )
        self.vocabulary = "".join(sorted(set(text))) if vocabulary is None else vocabulary
        self.block_size = block_size
        self._place = {character: i for i, character in enumerate(self.vocabulary)}
        self.data = self.encode(text)

    @classmethod
    def from_file(cls, path: Path, block_size: int, encoding: str = "utf-8") -> CharacterDataset:
        """The characters of a text file."""
        with open(path, encoding=encoding) as file:
            return cls(file.read(), block_size)

    @property
    def vocabulary_size(self) -> int:
        """How many characters there are."""
        return len(self.vocabulary)

    def encode(self, text: str) -> Tensor:
        """Numbers for characters."""
        unknown = sorted(set(text) - set(self._place))
        if unknown:
            raise ValueError(
                f"encode: characters {unknown} are not in the vocabulary, which is that of the "
                "text trained on. Leave them out, or train on a text that has them."
            )
        return tensor([self._place[character] for character in text])

    def decode(self, numbers: Any) -> str:
        """Characters for numbers."""
        listed = numbers.tolist() if isinstance(numbers, Tensor) else list(numbers)
        return "".join(self.vocabulary[i] for i in listed)

    def __len__(self) -> int:
        return len(self.data) - self.block_size

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        index = range(len(self))[index]
        block = self.data[index : index + self.block_size + 1]
        return block[:-1], block[1:]

"""Sequences of different lengths: padded to one tensor, or packed without the padding."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from numpy import ndarray

from adjoint.engine.backends.array.interop import tensor
from adjoint.engine.core.device import CPU
from adjoint.engine.core.dtype import int64
from adjoint.engine.core.errors import ShapeError
from adjoint.engine.core.operations.overrides import OVERRIDES, PASS, dispatch
from adjoint.engine.ops.create.creation import full
from adjoint.engine.ops.shape.join import cat, stack
from adjoint.engine.tensor.reading.item import elements
from adjoint.engine.tensor.tensor import Tensor
from adjoint.engine.tensor.writing.mutation import constants

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


def _indices(values: Sequence[int], device: Any = CPU) -> Tensor:
    """Integers as a tensor."""
    return tensor(list(values), dtype=int64, device=device)


def integers_of(indices: Tensor, name: str) -> list[int]:
    """The batch sizes or lengths in a tensor: they decide how many steps there are."""
    remedy = "Pack inside the captured function, with the lengths as a list of integers."
    return [int(n) for n in elements(indices, name, remedy)]


class _Fields(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


def _conversion(name: str) -> Any:
    def convert(self: PackedSequence) -> PackedSequence:
        return self._with(getattr(self.data, name)())

    convert.__name__ = name
    convert.__doc__ = f"The same sequences with data converted by `Tensor.{name}`."
    return convert


class PackedSequence(_Fields):
    """Sequences in order of length, step by step: all first elements, all second, ...

    Made by `pack_padded_sequence` and `pack_sequence`; recurrent layers accept it.

    Args:
        data: (total length, ...), the elements.
        batch_sizes: how many sequences have an element at each step; int64 on the CPU.
        sorted_indices: which sequence each place of the batch holds.
        unsorted_indices: its inverse.
    """

    __slots__ = ()

    def __new__(
        cls,
        data: Tensor,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        if batch_sizes is None:
            raise ValueError(
                "PackedSequence: batch_sizes is required. Make one with pack_padded_sequence or "
                "pack_sequence."
            )
        if batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be "
                "created manually. They should be instantiated by functions like pack_sequence "
                f"and pack_padded_sequence in nn.utils.rnn. Received {batch_sizes.device}."
            )
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def _with(self, data: Tensor) -> PackedSequence:
        def follow(x: Tensor | None) -> Tensor | None:
            return None if x is None else x.to(data.device)

        return type(self)(
            data, self.batch_sizes, follow(self.sorted_indices), follow(self.unsorted_indices)
        )

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same sequences with data converted by `Tensor.to`."""
        data = self.data.to(*args, **kwargs)
        return self if data is self.data else self._with(data)

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same sequences on a GPU."""
        return self._with(self.data.cuda(*args, **kwargs))

    def pin_memory(self) -> PackedSequence:
        """The same sequences in pinned memory."""
        return self._with(self.data.pin_memory())

    @property
    def is_cuda(self) -> bool:
        """Whether the data is on a GPU."""
        return self.data.device.type == "cuda"

    def is_pinned(self) -> bool:
        """Whether the data is in pinned memory."""
        return self.data.is_pinned()

    cpu = _conversion("cpu")
    double = _conversion("double")
    float = _conversion("float")
    half = _conversion("half")
    long = _conversion("long")
    int = _conversion("int")
    short = _conversion("short")
    char = _conversion("char")
    byte = _conversion("byte")


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes one.

    >>> import adjoint as ad
    >>> ad.nn.utils.rnn.invert_permutation(ad.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    return None if permutation is None else permutation.argsort()


def _steps(lengths: Sequence[int]) -> list[int]:
    """How many sequences have an element at each step."""
    return [sum(n > t for n in lengths) for t in range(max(lengths, default=0))]


def _check_lengths(lengths: list[int], batch: int) -> None:
    if len(lengths) != batch:
        raise ShapeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(lengths)} "
            f"(batch_size={batch})"
        )
    if any(n <= 0 for n in lengths):
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' "
            f"that is <= 0: {lengths}"
        )


def _pack_sorted(input: Tensor, lengths: list[int], batch_first: bool) -> tuple[Tensor, Tensor]:
    steps, batch = (input.shape[1], input.shape[0]) if batch_first else input.shape[:2]
    _check_lengths(lengths, batch)
    if any(a < b for a, b in pairwise(lengths)):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You "
            "can pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to "
            "sidestep this requirement if you do not need ONNX exportability."
        )
    if lengths and lengths[0] > steps:
        raise RuntimeError(
            f"pack_padded_sequence: expected lengths up to the input's {steps} steps, received "
            f"{lengths[0]}"
        )
    sizes = _steps(lengths)
    places = [
        b * steps + t if batch_first else t * batch + b
        for t, size in enumerate(sizes)
        for b in range(size)
    ]
    flat = input.reshape((steps * batch, *input.shape[2:]))
    return flat.index_select(0, _indices(places, input.device)), _indices(sizes)


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Padded sequences without their padding.

    Args:
        input: (T, B, ...), or (B, T, ...) if `batch_first`.
        lengths: the length of each sequence, a list or a tensor on the CPU.
        batch_first: which of the two dimensions is first.
        enforce_sorted: whether the sequences must come in decreasing length; else they are sorted.

    Example:
        >>> import adjoint as ad
        >>> from adjoint.nn.utils.rnn import pack_padded_sequence
        >>> packed = pack_padded_sequence(ad.tensor([[1, 2], [3, 0]]), [2, 1], batch_first=True)
        >>> packed.data, packed.batch_sizes
        (tensor([1, 3, 2]), tensor([2, 1]))
    """
    if isinstance(lengths, Tensor):
        if lengths.device.type != "cpu" or lengths.ndim != 1:
            raise RuntimeError(
                "'lengths' argument should be a 1D CPU int64 tensor, but got "
                f"{lengths.ndim}D {lengths.device} {lengths.dtype} tensor"
            )
        lengths = integers_of(lengths, "pack_padded_sequence")
    lengths = [int(n) for n in lengths]
    if enforce_sorted:
        return PackedSequence(*_pack_sorted(input, lengths, batch_first))
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    inverse = sorted(range(len(order)), key=order.__getitem__)
    chosen = _indices(order, input.device)
    dim = 0 if batch_first else 1
    _check_lengths(lengths, input.shape[dim])
    data, sizes = _pack_sorted(
        input.index_select(dim, chosen), [lengths[i] for i in order], batch_first
    )
    return PackedSequence(data, sizes, chosen, _indices(inverse, input.device))


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Packed sequences as one padded tensor, and their lengths.

    Args:
        sequence: what `pack_padded_sequence` gave, or a recurrent layer's output.
        batch_first: whether the result is (B, T, ...) rather than (T, B, ...).
        padding_value: what fills the ends.
        total_length: T, by default the longest length.

    Example:
        >>> import adjoint as ad
        >>> from adjoint.nn.utils.rnn import pack_sequence, pad_packed_sequence
        >>> packed = pack_sequence([ad.tensor([1, 2]), ad.tensor([3])])
        >>> pad_packed_sequence(packed, batch_first=True)
        (tensor([[1, 2],
                [3, 0]]), tensor([2, 1]))
    """
    sizes = integers_of(sequence.batch_sizes, "pad_packed_sequence")
    longest = len(sizes)
    if total_length is not None and total_length < longest:
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, but "
            f"got total_length={total_length} and max sequence length being {longest}"
        )
    batch = sizes[0] if sizes else 0
    data = sequence.data
    starts = [sum(sizes[:t]) for t in range(longest)]
    filler = data.shape[0]  # the place of the padding, appended to the data

    def place(t: int, b: int) -> int:
        return starts[t] + b if t < longest and b < sizes[t] else filler

    width = longest if total_length is None else total_length
    if batch_first:
        places = [place(t, b) for b in range(batch) for t in range(width)]
    else:
        places = [place(t, b) for t in range(width) for b in range(batch)]
    padding = full((1, *data.shape[1:]), padding_value, dtype=data.dtype, device=data.device)
    flat = cat([data, padding], 0).index_select(0, _indices(places, data.device))
    shape = (batch, width) if batch_first else (width, batch)
    padded = flat.reshape((*shape, *data.shape[1:]))
    lengths = _indices([sum(size > b for size in sizes) for b in range(batch)])
    back = sequence.unsorted_indices
    if back is None:
        return padded, lengths
    return padded.index_select(0 if batch_first else 1, back), lengths[back.cpu()]


def _padded(x: Tensor, length: int, value: float, side: str) -> Tensor:
    missing = length - x.shape[0]
    if not missing:
        return x
    rest = full((missing, *x.shape[1:]), value, dtype=x.dtype, device=x.device)
    return cat([x, rest] if side == "right" else [rest, x], 0)


def _copied(
    rows: list[Tensor], longest: int, batch_first: bool, value: float, side: str
) -> Tensor | None:
    """Rows copied one by one into what was filled before; None where somebody follows them."""
    first = rows[0]
    if not constants(*rows) or first._array.__class__ is not ndarray:
        return None
    rest = first.shape[1:]
    if any(x.dtype is not first.dtype or x.shape[1:] != rest for x in rows):
        return None
    sizes = (len(rows), longest) if batch_first else (longest, len(rows))
    out = full((*sizes, *rest), value, dtype=first.dtype, device=first.device)
    by_row = out._array if batch_first else out._array.swapaxes(0, 1)
    for row, x in zip(by_row, rows, strict=True):
        array = x._array
        row[longest - len(array) if side == "left" else 0 :][: len(array)] = array
    return out


def pad_sequence(
    sequences: Tensor | Iterable[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Tensors of different lengths stacked, the shorter ones padded.

    Args:
        sequences: tensors (T_i, ...).
        batch_first: whether the result is (B, T, ...) rather than (T, B, ...).
        padding_value: what fills the ends.
        padding_side: "right" or "left".

    Example:
        >>> import adjoint as ad
        >>> ad.nn.utils.rnn.pad_sequence([ad.ones(3), ad.ones(1)], batch_first=True)
        tensor([[1., 1., 1.],
                [1., 0., 0.]])
    """
    if padding_side not in ("left", "right"):
        raise RuntimeError(
            f"pad_sequence: padding_side should be either 'right' or 'left', received "
            f"{padding_side!r}"
        )
    if isinstance(sequences, Tensor):
        sequences = sequences.unbind(0)
    elif not isinstance(sequences, Iterable):
        raise RuntimeError(
            "pad_sequence: Expected iterable for input sequences, but got arg of type: "
            f"{type(sequences).__name__}"
        )
    rows = list(sequences)
    if not rows:
        raise RuntimeError("pad_sequence: received an empty list of sequences")
    if OVERRIDES.active:
        given = (rows, batch_first, padding_value, padding_side)
        taken: Any = dispatch(pad_sequence, given, {})
        if taken is not PASS:
            return taken
    longest = max(x.shape[0] for x in rows)
    copied = _copied(rows, longest, batch_first, padding_value, padding_side)
    if copied is not None:
        return copied
    padded = [_padded(x, longest, padding_value, padding_side) for x in rows]
    return stack(padded, 0 if batch_first else 1)


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False
) -> list[Tensor]:
    """The sequences that `pad_sequence` padded, each of its own length.

    >>> import adjoint as ad
    >>> ad.nn.utils.rnn.unpad_sequence(ad.ones(2, 2), ad.tensor([2, 1]))
    [tensor([1., 1.]), tensor([1.])]
    """
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    sizes = lengths.tolist() if isinstance(lengths, Tensor) else list(lengths)
    return [rows[i, :n] for i, n in enumerate(sizes)]


def pack_sequence(sequences: list[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """A list of tensors (T_i, ...) packed.

    >>> import adjoint as ad
    >>> ad.nn.utils.rnn.pack_sequence([ad.tensor([1, 2]), ad.tensor([3])]).data
    tensor([1, 3, 2])
    """
    lengths = [x.shape[0] for x in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences that `pack_sequence` packed.

    >>> import adjoint as ad
    >>> packed = ad.nn.utils.rnn.pack_sequence([ad.ones(2), ad.zeros(1)])
    >>> ad.nn.utils.rnn.unpack_sequence(packed)
    [tensor([1., 1.]), tensor([0.])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)

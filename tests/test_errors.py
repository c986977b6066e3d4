"""Bad input: the exception PyTorch raises, with a message that names the operation."""

from __future__ import annotations

import io
import sys
import warnings
from pickle import UnpicklingError
from types import FrameType
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.data.transforms import Normalize
from adjoint.engine.core.errors import place_of, users_instruction, users_place
from adjoint.training import Trainer


def bags(offsets: list[int]) -> Any:
    """Sums of two rows, by where bags begin."""
    return ad.nn.functional.embedding_bag(ad.tensor([0, 1]), ad.ones(3, 2), ad.tensor(offsets))


CASES: dict[str, tuple[Any, type[Exception], str]] = {
    "shapes": (lambda: ad.ones(2, 3) + ad.ones(4), RuntimeError, r"add.*size.*3.*4"),
    "matmul": (lambda: ad.ones(2, 3) @ ad.ones(2, 3), RuntimeError, r"matmul.*\(2, 3\)"),
    "matmul dtypes": (lambda: ad.ones(2, 2) @ ad.ones(2, 2).double(), RuntimeError, "dtype"),
    "view": (lambda: ad.ones(2, 3).t().view(6), RuntimeError, "reshape"),
    "reshape": (lambda: ad.ones(6).reshape(4), RuntimeError, "invalid for input of size 6"),
    "dim": (lambda: ad.ones(2).sum(3), IndexError, r"sum.*range"),
    "dim of a number": (lambda: ad.tensor(1.0).flip(5), IndexError, r"flip.*range"),
    "index": (lambda: ad.ones(2)[5], IndexError, "out of bounds"),
    "too many": (lambda: ad.ones(2)[0, 0], IndexError, "too many"),
    "cat": (lambda: ad.cat([ad.ones(2, 3), ad.ones(2, 4)]), RuntimeError, "cat"),
    "leaf in place": (
        lambda: ad.ones(2, requires_grad=True).add_(1),
        RuntimeError,
        "leaf Variable",
    ),
    "integer gradient": (lambda: ad.arange(3).requires_grad_(), RuntimeError, "floating point"),
    "no grad_fn": (lambda: ad.ones(()).backward(), RuntimeError, "does not require grad"),
    "vector backward": (
        lambda: (ad.ones(2, requires_grad=True) * 2).backward(),
        RuntimeError,
        "scalar outputs",
    ),
    "in place dtype": (lambda: ad.ones(2, dtype=ad.int64).add_(0.5), RuntimeError, "can't be cast"),
    "in place shape": (lambda: ad.ones(2).add_(ad.ones(3, 2)), RuntimeError, "broadcast shape"),
    "expanded write": (lambda: ad.ones(1).expand(3).add_(1), RuntimeError, "clone"),
    "ragged": (lambda: ad.tensor([[1, 2], [3]]), ValueError, "length"),
    "attribute": (lambda: ad.no_such_name, AttributeError, "no_such_name"),
    "device": (lambda: ad.ones(2, device="quantum"), RuntimeError, "quantum"),
    "gather": (lambda: ad.ones(2).gather(0, ad.tensor([2])), RuntimeError, "gather: index 2"),
    "index_select": (
        lambda: ad.ones(2).index_select(0, ad.tensor([7])),
        IndexError,
        "index: index 7 is out of bounds",
    ),
    "bincount": (lambda: ad.bincount(ad.tensor([-1])), RuntimeError, "non-negative"),
    "bincount of fractions": (lambda: ad.bincount(ad.ones(2)), NotImplementedError, "integral"),
    "memory of a number": (lambda: ad.ones(2).set_(3), TypeError, "tensor or a storage"),
    "no file of ours": (
        lambda: ad.load(io.BytesIO(b"xx")),
        UnpicklingError,
        "not a file that save",
    ),
    "fill with a word": (lambda: ad.full((2,), "a"), TypeError, "must be Number, not str"),
    "fill with nothing": (lambda: ad.full((2,), None), TypeError, "must be Number, not NoneType"),
    "no tensor": (lambda: ad.nonzero(1), TypeError, "must be Tensor, not int"),
    "tensors in a list": (lambda: ad.tensor([ad.ones(2)]), ValueError, "only one element"),
    "words": (lambda: ad.tensor([["a"]]), ValueError, "too many dimensions 'str'"),
    "a word": (lambda: ad.tensor("a"), TypeError, "invalid data type 'str'"),
    "bags from elsewhere": (lambda: bags([1, 2]), RuntimeError, r"offsets\[0\] has to be 0"),
    "bags beyond": (lambda: bags([0, 3]), RuntimeError, r"offsets\[-1\] can not be greater.*2"),
    "overflow": (lambda: ad.tensor([300], dtype=ad.uint8), RuntimeError, "uint8 without overflow"),
    "not a number": (lambda: ad.tensor([float("nan")], dtype=ad.int32), RuntimeError, "overflow"),
    "complex to real": (lambda: ad.tensor([1j], dtype=ad.float32), TypeError, "complex"),
    "fill overflow": (lambda: ad.ones(1).half().fill_(1e6), RuntimeError, "fill.*overflow"),
    "sum of a number": (lambda: ad.sum(3), TypeError, r"sum\(\): argument 'input' must be Tensor"),
    "outer with a number": (lambda: ad.outer(ad.ones(2), 3), TypeError, "must be Tensor, not int"),
    "polar": (lambda: ad.polar(ad.ones(1), ad.ones(1).double()), RuntimeError, "polar.*one dtype"),
    "quantised": (lambda: ad.ones(2).qscheme(), NotImplementedError, "qscheme.*quantised"),
    "nested": (lambda: ad.ones(2).to_padded_tensor(0.0), NotImplementedError, "nested"),
    "sparse": (lambda: ad.eye(2).smm(ad.eye(2)), RuntimeError, "smm.*sparse.*Use mm"),
    "sparse sum": (lambda: ad.eye(2).sspaddmm(ad.eye(2), ad.eye(2)), RuntimeError, "Use addmm"),
    "a picture's name": (
        lambda: ad.nn.Conv2d(3, 4, 3)("leaf.JPG"),
        TypeError,
        r"Conv2d: input must be Tensor, not str\n.*read the file first, transforms.ToTensor\(\)",
    ),
    "an array": (lambda: ad.nn.Linear(2, 1)(np.ones(2)), TypeError, "adjoint.from_numpy makes a"),
    "no batch": (
        lambda: ad.nn.BatchNorm2d(3)(ad.ones(3, 4, 4)),
        ValueError,
        r"BatchNorm2d: expected 4D input \(got 3D input.*unsqueeze\(0\)",
    ),
    "four channels": (
        lambda: Normalize([0.5] * 3, [0.5] * 3)(ad.ones(4, 2, 2)),
        RuntimeError,
        r"4 channels.*image.convert\('RGB'\)",
    ),
    "one channel": (
        lambda: Normalize([0.5] * 3, [0.5] * 3)(ad.ones(1, 2, 2)),
        RuntimeError,
        r"`Grayscale\(3\)` before it",
    ),
    "loss for optimizer": (
        lambda: Trainer(*(ad.nn.Linear(2, 1), ad.nn.MSELoss(), ad.optim.SGD([ad.ones(1)]))),
        TypeError,
        "received the optimizer MSELoss and the loss SGD: they are swapped",
    ),
    "promote": (lambda: ad.promote_types(1, ad.int8), TypeError, "promote_types.*int"),
}


class Net(ad.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = ad.nn.Linear(10, 3)


def loaded(change: Any) -> Any:
    state = Net().state_dict()
    return Net().load_state_dict({change(key): value for key, value in state.items()})


# What people get wrong, and the remedy that the message has to have.
F, nn = ad.nn.functional, ad.nn
MISTAKES: dict[str, tuple[Any, type[Exception], str]] = {
    "labels as floats": (
        lambda: F.cross_entropy(ad.ones(2, 3), ad.ones(2)), RuntimeError, r"\.long\(\)",
    ),
    "one-hot integers": (
        lambda: F.cross_entropy(ad.ones(2, 3), ad.ones(2, 3).long()), RuntimeError, "floating dtype",
    ),
    "labels in a column": (
        lambda: F.cross_entropy(ad.ones(2, 3), ad.ones(2, 1).long()), RuntimeError, r"squeeze\(\)",
    ),
    "labels of another shape": (
        lambda: F.cross_entropy(ad.ones(2, 3), ad.ones(2, 4).long()), RuntimeError, "number of a",
    ),
    "swapped": (
        lambda: F.cross_entropy(ad.tensor([0, 1]), ad.ones(2, 3)), NotImplementedError, "swapped",
    ),
    "scores as probabilities": (
        lambda: F.binary_cross_entropy(ad.ones(2) * 3, ad.ones(2)), RuntimeError, "with_logits",
    ),
    "a loss's class called": (
        lambda: nn.MSELoss(ad.ones(2), ad.ones(2)), TypeError, r"MSELoss\(\)\(input, target\)",
    ),
    "a typing error": (lambda: ad.ones(2, device="cdua"), RuntimeError, "mean 'cuda'"),
    "a gpu": (lambda: ad.device("gpu:0"), RuntimeError, "mean 'cuda'"),
    "a dtype's name": (lambda: ad.ones(2, dtype="float32"), TypeError, "the text 'float32'"),  # type: ignore[call-overload]
    "many as one": (lambda: ad.ones(2).item(), RuntimeError, "tolist"),
    "no way back": (lambda: ad.ones(2).sum().backward(), RuntimeError, "argmax"),
    "a network to optimize": (lambda: ad.optim.SGD(Net(), lr=0.1), TypeError, r"its parameters\(\)"),  # type: ignore[arg-type]
    "a network to clip": (lambda: nn.utils.clip_grad_norm_(Net(), 1.0), TypeError, "its parameters"),  # type: ignore[arg-type]
    "a network to load": (lambda: Net().load_state_dict(Net()), TypeError, r"its state_dict\(\)"),  # type: ignore[arg-type]
    "a key's typing error": (
        lambda: loaded(lambda key: key.replace("weight", "wieght")), RuntimeError,
        "Is 'head.wieght' meant to be 'head.weight'",
    ),
    "keys of a wrapper": (lambda: loaded("module.{}".format), RuntimeError, "Every key begins with"),
    "a model's keys for one layer": (
        lambda: nn.Linear(2, 2).load_state_dict(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)).state_dict()),
        RuntimeError, "Is '0.weight' meant to be 'weight'",  # no word of a prefix: there are two
    ),
    "a class as a layer": (lambda: nn.Sequential(nn.ReLU), TypeError, r"ReLU\(\.\.\.\)"),  # type: ignore[arg-type]
    "a list of layers": (lambda: nn.Sequential([nn.ReLU()]), TypeError, r"Sequential\(\*layers\)"),  # type: ignore[arg-type]
    "a list called": (lambda: nn.ModuleList()(1), NotImplementedError, "use Sequential"),
    "channels last": (
        lambda: nn.Conv2d(3, 4, 3)(ad.ones(2, 8, 8, 3)), RuntimeError, r"movedim\(-1, -3\)",
    ),
    "one sample": (lambda: nn.BatchNorm1d(3)(ad.ones(1, 3)), ValueError, "drop_last=True"),
    "heads of other widths": (
        lambda: F.scaled_dot_product_attention(ad.ones(1, 2, 3, 8), ad.ones(1, 2, 3, 7), ad.ones(1, 2, 3, 8)),
        RuntimeError, "scaled_dot_product_attention: .* 8 .* 7",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_with_its_remedy(name: str) -> None:
    wrong, kind, remedy = MISTAKES[name]
    with pytest.raises(kind, match=remedy):
        wrong()


@pytest.mark.parametrize("name", CASES)
def test_error(name: str) -> None:
    run, kind, message = CASES[name]
    with pytest.raises(kind, match=message):
        run()


@pytest.mark.skipif(ad.cuda.is_available(), reason="there is a GPU")
def test_cuda_without_a_gpu_says_what_is_missing() -> None:
    with pytest.raises(RuntimeError, match="CuPy is not installed|driver|no GPU"):
        ad.ones(2, device="cuda")


def test_failed_in_place_leaves_the_target_unchanged() -> None:
    x = ad.arange(3.0)
    version = x._version
    with pytest.raises(RuntimeError):
        x.add_(ad.ones(2))
    assert x.numpy().tolist() == [0, 1, 2]
    assert x._version == version


WARNED: dict[str, Any] = {
    "var": lambda: ad.ones(1).var(),
    "std_mean": lambda: ad.std_mean(ad.ones(1)),
    "cov": lambda: ad.cov(ad.ones(1)),
    "kl_div": lambda: ad.nn.functional.kl_div(ad.ones(2), ad.ones(2)),
    "size_average": lambda: ad.nn.functional.mse_loss(ad.ones(2), ad.ones(2), size_average=True),
    "a layer": lambda: ad.nn.Softmax()(ad.ones(2, 2)),
    "softmax": lambda: ad.nn.functional.softmax(ad.ones(2, 2)),
    "dropout2d": lambda: ad.nn.functional.dropout2d(ad.ones(2, 3, 4)),
    "meshgrid": lambda: ad.meshgrid(ad.ones(2), ad.ones(2)),
    "T": lambda: ad.ones(2, 2, 2).T,
    "mT": lambda: ad.ones(()).mH,
    "complex to real": lambda: ad.ones(2, dtype=ad.complex64).to(ad.float32),
    "range": lambda: ad.range(1, 2),
}


@pytest.mark.parametrize("name", WARNED)
def test_warnings_name_the_line_of_the_program(name: str) -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        WARNED[name]()
    assert [w.filename for w in seen] == [__file__]


def test_a_stale_saved_tensor_names_the_operation() -> None:
    x = ad.ones(2, requires_grad=True)
    y = x * 2
    z = y.exp()
    z.mul_(3)
    with pytest.raises(RuntimeError, match=r"Exp.*version|inplace operation.*Exp"):
        z.sum().backward()


def test_second_backward_without_retain_graph() -> None:
    x = ad.ones(2, requires_grad=True)
    y = (x.exp() * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_the_line_of_an_instruction_is_that_of_the_frame() -> None:
    """Of all that is under way, and of calls that take several lines."""
    found, place = [
        users_instruction(),
        users_place(),
    ]
    assert found is not None
    assert place is not None
    first = sys._getframe().f_code.co_firstlineno
    assert place_of(*found) == (__file__, first + 3)
    assert place == (__file__, first + 4)
    assert place_of(__file__, 3) == (__file__, 3)
    frame: FrameType | None = sys._getframe(1)
    count = 0
    while frame is not None:
        assert place_of(frame.f_code, frame.f_lasti) == (frame.f_code.co_filename, frame.f_lineno)
        frame, count = frame.f_back, count + 1
    assert count > 5

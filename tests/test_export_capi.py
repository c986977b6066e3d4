"""The C library of tensors, used by the rules of another language: through ctypes."""

from __future__ import annotations

import contextlib
import ctypes
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint as ad
from adjoint import nn
from adjoint.export import ExportError, c_api, save_program
from adjoint.export.capi.kernels import BINARY, DTYPES, UNARY, elementwise
from adjoint.export.output.linking import compiler
from adjoint.export.output.machines import native
from adjoint.nn import functional as F

CC = compiler(native())
pytestmark = pytest.mark.skipif(CC is None, reason="there is no C compiler here")
CODES = {np.dtype(d.name): k for k, d in enumerate(DTYPES)}
NUMPY = {k: d for d, k in CODES.items()}
Pointer = ctypes.c_void_p


class Library:
    """The library's functions on NumPy arrays."""

    def __init__(self, path: Path) -> None:
        self.held = ctypes.CDLL(str(path))
        self.held.adj_message.restype = ctypes.c_char_p
        for name in ("adj_count", "adj_size"):
            getattr(self.held, name).restype = ctypes.c_int64
        self.held.adj_destroy.argtypes = [Pointer]
        self.held.adj_program_destroy.argtypes = [Pointer]

    def checked(self, code: int) -> None:
        if code:
            raise RuntimeError(f"{code}: {self.held.adj_message().decode()}")

    def tensor(self, array: Any) -> Pointer:
        array, out = np.ascontiguousarray(array).reshape(np.shape(array)), Pointer()
        data = ctypes.c_void_p(array.ctypes.data)
        shape, nbytes = whole(array.shape), ctypes.c_size_t(array.nbytes)
        given_ = (CODES[array.dtype], array.ndim, shape, data, nbytes, ctypes.byref(out))
        self.checked(self.held.adj_from_memory(*given_))
        return out

    def array(self, x: Pointer) -> Any:
        shape = [self.held.adj_size(x, d) for d in range(self.held.adj_rank(x))]
        made = np.empty(shape, NUMPY[self.held.adj_dtype_of(x)])
        data = ctypes.c_void_p(made.ctypes.data)
        self.checked(self.held.adj_to_memory(x, data, ctypes.c_size_t(made.nbytes)))
        return made

    def call(self, name: str, *given_: Any) -> Any:
        """A function of tensors and other arguments; its result as an array."""
        made, passed = [], []
        for each in given_:
            if isinstance(each, (np.ndarray, np.generic)):
                made.append(self.tensor(each))
                passed.append(made[-1])
            else:
                passed.append(each.encode() if isinstance(each, str) else each)
        out = Pointer()
        try:
            self.checked(getattr(self.held, name)(*passed, ctypes.byref(out)))
            return self.array(out)
        finally:
            for each in (*made, out):
                self.held.adj_destroy(each)

    def run(self, path: Path, *arrays: Any) -> list[Any]:
        """The outputs of a saved program."""
        program = Pointer()
        self.checked(self.held.adj_program_load(str(path).encode(), ctypes.byref(program)))
        given_ = [self.tensor(a) for a in arrays]
        inputs = (Pointer * len(given_))(*[x.value for x in given_])
        outputs = (Pointer * self.held.adj_program_outputs(program))()
        try:
            self.checked(self.held.adj_program_run(program, inputs, outputs))
            return [self.array(Pointer(x)) for x in outputs]
        finally:
            for each in (*given_, *[Pointer(x) for x in outputs]):
                self.held.adj_destroy(each)
            self.held.adj_program_destroy(program)


def whole(numbers: Any) -> Any:
    return (ctypes.c_int64 * max(len(numbers), 1))(*numbers)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    folder = tmp_path_factory.mktemp("capi")
    return Library(next(p for p in c_api(folder) if p.suffix == ".so"))


def test_every_operation_has_a_kernel() -> None:
    """All names have a kernel, of floats at least or of truth values."""
    assert {k.name for k in elementwise(native())} == {*UNARY, *BINARY}


def close(ours: Any, theirs: Any) -> None:
    theirs = theirs.detach().numpy() if isinstance(theirs, ad.Tensor) else theirs
    assert ours.dtype == theirs.dtype
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, rtol=3e-5, atol=1e-5)


def test_elementwise(library: Library) -> None:
    """Every kernel of every dtype does what the operation of its name does."""
    rng = np.random.default_rng(0)
    for kernel in elementwise(native()):
        dtype = np.dtype(kernel.dtype.name)
        given_ = [(rng.standard_normal((3, 7)) * 3).astype(dtype) for _ in range(kernel.operands)]
        if kernel.name in ("fmod", "remainder", "div") and dtype.kind == "i":
            given_[1][given_[1] == 0] = 1
        fn = getattr(ad, kernel.name, None) or getattr(F, kernel.name)
        want = fn(*[ad.tensor(x) for x in given_])
        call = "adj_unary" if kernel.operands == 1 else "adj_binary"
        close(library.call(call, kernel.name, *given_), want)


def test_broadcasting_and_choices(library: Library) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((4, 1, 5)), rng.standard_normal((3, 1))
    close(library.call("adj_binary", "mul", x, y), x * y)
    mask = x > 0
    close(library.call("adj_where", mask, x, y), np.where(mask, x, y))
    close(library.call("adj_cast", x, 2), x.astype(np.int64))
    close(library.call("adj_softmax", x, ctypes.c_int(-1)), ad.tensor(x).softmax(-1))
    close(library.call("adj_argmax", x, 2, 0), x.argmax(2))


@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin", "mean"])
def test_reductions(name: str, library: Library) -> None:
    x = np.random.default_rng(2).standard_normal((3, 4, 5))
    numpy = {"amax": np.max, "amin": np.min, "mean": np.mean}.get(name) or getattr(np, name)
    for dims in ((0,), (1, 2), (2, 0), ()):
        for keep in (0, 1):
            want = np.asarray(numpy(x, axis=dims or None, keepdims=bool(keep)))
            close(library.call("adj_reduce", name, x, whole(dims), len(dims), keep), want)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_products(library: Library, data: st.DataObject) -> None:
    size = st.sampled_from([0, 1, 2, 3, 5, 8, 17, 33, 70, 130])
    m, k, n = (data.draw(size) for _ in range(3))
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    batches = data.draw(st.sampled_from([((), ()), ((2,), ()), ((2, 1), (3,)), ((1,), (4,))]))
    rng = np.random.default_rng(3)
    x = rng.standard_normal((*batches[0], m, k)).astype(dtype)
    y = rng.standard_normal((*batches[1], k, n)).astype(dtype)
    found = library.call("adj_matmul", x, y)
    np.testing.assert_allclose(found, x @ y, rtol=1e-3, atol=1e-3)


def test_a_deep_product(library: Library) -> None:
    rng = np.random.default_rng(4)
    x, y = (rng.standard_normal(s).astype(np.float32) for s in ((37, 3000), (3000, 300)))
    np.testing.assert_allclose(library.call("adj_matmul", x, y), x @ y, rtol=1e-2, atol=1e-2)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_convolutions(library: Library, data: st.DataObject) -> None:
    draw = data.draw
    space = draw(st.integers(1, 3))
    groups = draw(st.sampled_from([1, 2]))
    kernel, stride, dilation, pad = (
        [draw(st.integers(low, 2 + low)) for _ in range(space)] for low in (1, 1, 1, 0)
    )
    sizes = [
        d * (k - 1) + 1 + draw(st.integers(0, 4)) for d, k in zip(dilation, kernel, strict=True)
    ]
    rng = np.random.default_rng(5)
    x = rng.standard_normal((2, 2 * groups, *sizes)).astype(np.float32)
    w = rng.standard_normal((3 * groups, 2, *kernel)).astype(np.float32)
    conv = (F.conv1d, F.conv2d, F.conv3d)[space - 1]
    want = conv(ad.tensor(x), ad.tensor(w), None, stride, pad, dilation, groups)
    padding = [n for p in pad for n in (p, p)]
    found = library.call(
        "adj_convolution", x, w, whole(stride), whole(padding), whole(dilation),
        ctypes.c_int64(groups),
    )  # fmt: skip
    close(found, want)


def test_views(library: Library) -> None:
    x = np.arange(24, dtype=np.int64).reshape(2, 3, 4)
    close(library.call("adj_reshape", x, 2, whole((6, 4))), x.reshape(6, 4))
    close(library.call("adj_permute", x, whole((2, 0, 1))), x.transpose(2, 0, 1))
    close(library.call("adj_slice", x, whole((0, 2, 1, 1, 3, 1, 0, 4, 2))), x[:, 1:3, ::2])
    close(
        library.call("adj_expand", x[:, :1], 4, whole((5, 2, 3, 4))),
        np.broadcast_to(x[:, :1], (5, 2, 3, 4)),
    )
    close(library.call("adj_rows", x, np.array([[1, 0, -1]])), x[[[1, 0, -1]]])


# -- programs -------------------------------------------------------------------------------------


class Sentence(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation="gelu")
        self.last = nn.Linear(16, 5)

    def forward(self, words: Any) -> Any:
        return self.last(self.layer(self.words(words))).log_softmax(-1)


NETWORKS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "digits": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2, padding=1),
            nn.Flatten(), nn.Linear(200, 10), nn.Softmax(-1),
        ),
        lambda: ad.randn(3, 1, 8, 8),
    ),
    "sentence": (Sentence, lambda: ad.randint(0, 20, (2, 6))),
}  # fmt: skip


@pytest.mark.parametrize("name", NETWORKS)
def test_saved_programs(name: str, library: Library, tmp_path: Path) -> None:
    make, example = NETWORKS[name]
    net = make().eval()
    save_program(net, example(), tmp_path / "net.adj")
    for _ in range(3):
        x = example()
        close(library.run(tmp_path / "net.adj", x.numpy())[0], net(x))


def test_threads_share_a_program(library: Library, tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(6, 30), nn.Tanh(), nn.Linear(30, 3))
    save_program(net, ad.zeros(2, 6), tmp_path / "net.adj")
    inputs = [ad.randn(2, 6) for _ in range(24)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda x: library.run(tmp_path / "net.adj", x.numpy())[0], inputs))
    for x, y in zip(inputs, found, strict=True):
        close(y, net(x))


def test_what_the_library_has_not(tmp_path: Path) -> None:
    def fn(x: Any) -> Any:
        return ad.sort(x)[0] + ad.cumsum(x, 0)

    with pytest.raises(ExportError) as told:
        save_program(fn, ad.ones(3, 3), tmp_path / "net.adj")
    assert "sort" in str(told.value)
    assert "cumsum" in str(told.value)
    assert not list(tmp_path.iterdir())


def test_hostile_files(library: Library, tmp_path: Path) -> None:
    """A file that is cut off anywhere, or changed anywhere, is refused or runs; nothing worse."""
    save_program(nn.Linear(3, 2), ad.zeros(4, 3), tmp_path / "net.adj")
    data, path = (tmp_path / "net.adj").read_bytes(), tmp_path / "bad.adj"
    x = np.ones((4, 3), np.float32)
    for end in range(0, len(data), 7):
        path.write_bytes(data[:end])
        with pytest.raises(RuntimeError, match="no program of Adjoint's"):
            library.run(path, x)
    for at in range(8, len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x5B]) + data[at + 1 :])
        with contextlib.suppress(RuntimeError):
            library.run(path, x)
    with pytest.raises(RuntimeError, match="no file"):
        library.run(tmp_path / "none.adj", x)


WRONG: dict[str, tuple[Callable[[Library], Any], str]] = {
    "a name": (lambda c: c.call("adj_unary", "expo", np.ones(2)), "no expo of float64"),
    "shapes": (lambda c: c.call("adj_binary", "add", np.ones(2), np.ones(3)), "do not broadcast"),
    "dtypes": (lambda c: c.call("adj_binary", "add", np.ones(2), np.ones(2, bool)), "cast one"),
    "contraction": (lambda c: c.call("adj_matmul", np.ones((2, 3)), np.ones((2, 3))), "contract"),
    "elements": (lambda c: c.call("adj_reshape", np.ones(6), 1, whole((7,))), "6 elements into 7"),
    "a dimension": (lambda c: c.call("adj_softmax", np.ones(6), 3), "dimension 3 of 1"),
    "no tensor": (lambda c: c.checked(c.held.adj_unary(b"exp", None, ctypes.byref(Pointer()))),
                  "x is NULL"),
    "no result": (lambda c: c.checked(c.held.adj_unary(b"exp", c.tensor(np.ones(2)), None)),
                  "out is NULL"),
    "an index": (lambda c: c.call("adj_rows", np.ones((3, 2)), np.array([3])), "index 3 of a size 3"),
    "too much": (lambda c: c.checked(c.held.adj_zeros(0, 2, whole((2**62, 2**62)),
                                                      ctypes.byref(Pointer()))), "too large"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_errors(name: str, library: Library) -> None:
    call, told = WRONG[name]
    with pytest.raises(RuntimeError, match=told):
        call(library)


# -- from C itself --------------------------------------------------------------------------------

USE = """
#include <stdio.h>
#include "adjoint_c.h"
int main(int argc, char **argv) {
    adj_program *program = NULL;
    if (argc < 2 || adj_program_load(argv[1], &program)) { puts(adj_message()); return 1; }
    float x[12];
    for (int k = 0; k < 12; k++) x[k] = (float)k / 4;
    int64_t shape[2] = {4, 3};
    adj_tensor *in = NULL, *out = NULL;
    if (adj_from_memory(ADJ_FLOAT32, 2, shape, x, sizeof x, &in)) return 2;
    const adj_tensor *inputs[1] = {in};
    for (int k = 0; k < 100; k++) {
        adj_destroy(out);
        if (adj_program_run(program, inputs, &out)) { puts(adj_message()); return 3; }
    }
    for (int k = 0; k < adj_count(out); k++) printf("%.6f ", ((const float *)adj_data(out))[k]);
    adj_destroy(in);
    adj_destroy(out);
    adj_program_destroy(program);
    return 0;
}
"""


@pytest.mark.slow
def test_from_c_under_sanitizers(tmp_path: Path) -> None:
    """No leak, no access out of bounds, no undefined behaviour; no complaint of the compiler."""
    assert CC is not None
    net = nn.Sequential(nn.Linear(3, 8), nn.GELU(), nn.Linear(8, 2), nn.Softmax(-1))
    save_program(net, ad.zeros(4, 3), tmp_path / "net.adj")
    c_api(tmp_path, "source")
    (tmp_path / "use.c").write_text(USE)
    inputs = [str(tmp_path / name) for name in ("use.c", "adjoint_c.c", "adjoint_c_kernels.o")]
    strict = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{tmp_path}"]
    sanitized = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    made = [*CC, *strict, *inputs, "-lm", "-o", str(tmp_path / "use")]
    done = subprocess.run([*made, *sanitized], capture_output=True, text=True, check=False)
    if done.returncode:
        subprocess.run(made, check=True)  # a compiler without sanitizers
    ran = subprocess.run(
        [str(tmp_path / "use"), str(tmp_path / "net.adj")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    x = ad.arange(12).float().reshape(4, 3) / 4
    np.testing.assert_allclose(
        np.array(ran.stdout.split(), np.float32), net(x).detach().numpy().ravel(), atol=1e-5
    )

"""View copies, older top-level functions and typed storages, beside PyTorch's."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.compare

import adjoint as ad  # noqa: E402

A = np.cos(np.arange(24, dtype=np.float32) ** 2).reshape(2, 3, 4)
# Of a tensor x of shape (2, 3, 4) and the module m.
COPIES = """
m.alias_copy(x)
m.as_strided_copy(x, (2, 2), (1, 2), 3)
m.diagonal_copy(x, 1, 1, 2)
m.expand_copy(x, (3, 2, 3, 4))
m.expand_copy(x[:1], (2, -1, 4), implicit=False)
m.permute_copy(x, (2, 0, 1))
m.select_copy(x, -1, 2)
m.slice_copy(x, 2, 1, None, 2)
m.slice_copy(x, 1, -2)
m.split_copy(x, 2, 2)
m.split_copy(x, split_size=3, dim=-1)
m.split_with_sizes_copy(x, [1, 3], 2)
m.squeeze_copy(x[:1])
m.squeeze_copy(x[:1], 0)
m.squeeze_copy(x[:1], (0, 1))
m.t_copy(x[0])
m.transpose_copy(x, 0, 2)
m.unbind_copy(x, 1)
m.unfold_copy(x, 2, 2, 1)
m.unsqueeze_copy(x, -1)
m.view_copy(x, (4, 6))
m.view_copy(x.transpose(0, 2), (4, -1))
m.view_copy(x, dtype=m.int32)
m.view_as_real_copy(m.complex(x, x + 1))
m.view_as_complex_copy(x.detach()[..., :2].contiguous())
m.narrow_copy(x, 1, 0, 2)
""".strip().splitlines()
REDUCTIONS = """
m.frobenius_norm(x, 1)
m.frobenius_norm(x, (0, 2), True)
m.nuclear_norm(x[0])
m.nuclear_norm(x[0], True)
m.nuclear_norm(x, (0, 2))
m.norm_except_dim(x)
m.norm_except_dim(x, 1, 2)
m.norm_except_dim(x, 3, -1)
m.affine_grid_generator(x[:, :2, :3], (2, 1, 2, 3), False)
""".strip().splitlines()


def given(m: Any, x: Any, text: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return eval(text, {"m": m, "x": x})


def parts(out: Any) -> list[Any]:
    return list(out) if isinstance(out, (tuple, list)) else [out]


@pytest.mark.parametrize("text", [*COPIES, *REDUCTIONS])
def test_results_and_gradients(text: str) -> None:
    x, y = ad.tensor(A, requires_grad=True), torch.tensor(A, requires_grad=True)
    ours, theirs = parts(given(ad, x, text)), parts(given(torch, y, text))
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(
            mine.detach().numpy(), other.detach().numpy(), rtol=1e-5, atol=1e-6
        )
        assert mine.stride() == other.stride()
        assert mine.requires_grad == other.requires_grad
    if theirs[0].requires_grad:
        for m, results in ((ad, ours), (torch, theirs)):
            total = 0.0
            for out in results:
                real = m.view_as_real(out) if out.is_complex() else out
                weight = m.arange(real.numel(), dtype=m.float32).reshape(real.shape).cos()
                total = total + (real * weight).sum()
            total.backward()
        np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("text", [t for t in COPIES if "split" not in t and "unbind" not in t])
def test_copies_into_given_tensors(text: str) -> None:
    plain = given(ad, ad.tensor(A), text)
    out = ad.empty(0, dtype=plain.dtype)
    assert eval(f"{text[:-1]}, out=out)", {"m": ad, "x": ad.tensor(A), "out": out}) is out
    assert ad.equal(out, plain)


def test_copies_have_memory_of_their_own() -> None:
    x = ad.tensor(A, requires_grad=True)
    assert not ad.detach_copy(x).requires_grad  # PyTorch's has a derivative that only raises
    for text in [*COPIES, "m.detach_copy(x)"]:
        for out in parts(given(ad, x, text)):
            assert out.untyped_storage() != x.untyped_storage(), text


SEGMENTS: list[tuple[dict[str, Any], tuple[int, ...]]] = [
    ({"lengths": [2, 0, 3]}, (5,)),
    ({"lengths": [1, 4]}, (5, 3)),
    ({"lengths": [[1, 2], [3, 0]], "axis": 1}, (2, 3, 2)),
    ({"offsets": [0, 2, 2, 5]}, (5, 2)),
    ({"lengths": [2, 0, 3], "initial": 0.5}, (5,)),
    ({"lengths": [2, 1], "unsafe": True}, (3,)),
]


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize(("options", "shape"), SEGMENTS)
def test_reductions_of_runs(reduce: str, options: dict[str, Any], shape: tuple[int, ...]) -> None:
    values = np.cos(np.arange(np.prod(shape), dtype=np.float64) * 1.3).reshape(shape)
    values.flat[:2] = values.flat[0]  # a tie
    results = []
    for m in (ad, torch):
        x = m.tensor(values, requires_grad=True)
        sizes = {k: m.tensor(v) if isinstance(v, list) else v for k, v in options.items()}
        out = m.segment_reduce(x, reduce, **sizes)
        m.where(m.isfinite(out), out, m.zeros_like(out)).mul(
            m.arange(out.numel(), dtype=m.float64).reshape(out.shape).add(1)
        ).sum().backward()
        results.append((out.detach().numpy(), x.grad.numpy()))
    for mine, other in zip(*results, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-12)


def test_bad_runs_are_refused() -> None:
    for m in (ad, torch):
        x = m.ones(3)
        for lengths in ([1, 1], [-1, 4]):
            with pytest.raises(RuntimeError):
                m.segment_reduce(x, "sum", lengths=m.tensor(lengths))
        with pytest.raises(RuntimeError):
            m.segment_reduce(x, "sum")


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("padding", [None, 1])
def test_bags(mode: int, last: bool, padding: int | None) -> None:
    table = np.cos(np.arange(20, dtype=np.float32)).reshape(5, 4)
    results = []
    for m in (ad, torch):
        offsets = m.tensor([0, 2, 2, 5] if last else [0, 2, 2])
        out = m.embedding_bag(
            m.tensor(table), m.tensor([1, 0, 4, 1, 2]), offsets, False, mode, False, None, last,
            padding,
        )  # fmt: skip
        results.append([part.numpy() for part in out])
    (ours, bag, size, largest), theirs = results
    np.testing.assert_allclose(ours, theirs[0], rtol=1e-5)
    assert bag.tolist() == [0, 0, 2, 2, 2]
    count = (2, 0, 3) if padding is None else (1, 0, 2)
    assert size.tolist() == list(count)
    if mode == 2:
        kept = np.array(count) > 0
        np.testing.assert_array_equal(largest[kept], theirs[3][: len(kept)][kept])


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
def test_sparse_products() -> None:
    at, values = [[0, 2], [1, 0]], [3.0, 4.0]
    dense = np.arange(6, dtype=np.float32).reshape(2, 3)
    results = []
    for m in (ad, torch):
        s = m.sparse_coo_tensor(m.tensor(at), m.tensor(values), (3, 2))
        to = m.tensor(dense)
        start = m.tensor(np.eye(3, dtype=np.float32)).to_sparse()
        outs = (m.smm(s, to), m.hspmm(s, to), m.sspaddmm(start, s, to, beta=2, alpha=3))
        assert all(out.is_sparse for out in outs)
        assert outs[1].dense_dim() == 1
        results.append([out.to_dense().numpy() for out in outs])
    for mine, other in zip(*results, strict=True):
        np.testing.assert_allclose(mine, other)


@pytest.mark.parametrize("name", "solve lstsq eig symeig matrix_rank".split())
def test_removed_functions_say_so(name: str) -> None:
    for m in (ad, torch):
        x = m.ones(2, 2)
        with pytest.raises(RuntimeError, match="removed"):
            getattr(m, name)(*((x, x) if name in ("solve", "lstsq") else (x,)))


STORAGES = "Float Double Half BFloat16 Byte Char Short Int Long Bool ComplexFloat".split()


@pytest.mark.parametrize("kind", STORAGES)
@pytest.mark.parametrize("order", ["little", "big", "native"])
def test_storages_of_bytes(kind: str, order: str) -> None:
    data = bytes(range(1, 33))
    results = []
    for m in (ad, torch):
        cls = getattr(m, f"{kind}Storage")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            whole, part = cls.from_buffer(data, order), cls.from_buffer(data, order, 1, 8)
            results.append((whole.tolist(), part.tolist(), len(whole), whole.element_size()))
            assert isinstance(whole, cls)
            assert whole.dtype == cls.dtype
    assert repr(results[0]) == repr(results[1])


def test_storages_of_elements(tmp_path: Any) -> None:
    results = []
    for m in (ad, torch):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            s = m.LongStorage([3, 1, 2])
            s[1] = 7
            s[2:] = 5
            halves = s.half()
            file = m.IntStorage.from_file(str(tmp_path / m.__name__), shared=True, size=4)
            file.fill_(6)
            results.append(
                [
                    s.tolist(), s[-1], halves.tolist(), s.nbytes(), s.untyped().tolist(),
                    m.LongStorage().tolist(), m.LongStorage(2).size(), m.LongTensor(s).tolist(),
                    isinstance(m.ones(2).storage(), m.FloatStorage),
                    isinstance(m.ones(2).storage(), m.LongStorage), s.clone().fill_(1).tolist(),
                    m.BoolStorage.from_buffer(b"\x00\x02", "native").tolist(),
                    m.TypedStorage([1, 2], dtype=m.int8).tolist(),
                    (tmp_path / m.__name__).read_bytes(),
                ]
            )  # fmt: skip
            for wrong in (lambda: s[3], lambda: m.LongStorage("a"), lambda: m.LongStorage(1, 2)):  # noqa: B023
                with pytest.raises((IndexError, TypeError, RuntimeError)):
                    wrong()
            for bad in ({"offset": 9}, {"count": 9}, {"byte_order": "odd"}):
                with pytest.raises(ValueError, match=r"offset|elements|order"):
                    m.LongStorage.from_buffer(b"\x00" * 8, **{"byte_order": "little", **bad})
            with pytest.raises(RuntimeError, match="byte_order"):
                m.LongStorage.from_buffer(b"\x00" * 8)
    assert results[0] == results[1]

"""`out=`: which tensors are taken, resized with a warning or refused, as in PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import adjoint as ad

torch: Any = pytest.importorskip("torch")
pytestmark = [pytest.mark.compare]

DTYPES = "float32 float64 float16 int64 int32 uint8 bool complex64".split()
ONE_OPERAND = """
    abs acos angle bitwise_not ceil cos digamma erf exp exp2 expm1 floor frac isneginf lgamma log
    log1p logical_not logit nan_to_num neg reciprocal round rsqrt sgn sigmoid sign signbit sin sinc
    sqrt square tan tanh trunc special.entr special.i0e special.ndtr
""".split()
TWO_OPERANDS = """
    add sub mul div floor_divide remainder fmod pow atan2 hypot copysign maximum fmin eq lt
    logical_and bitwise_and bitwise_left_shift heaviside xlogy logaddexp gcd ldexp float_power
""".split()
# x y: floats of (2, 3); p: between 0 and 1; i j: whole numbers; v: three; m s: matrices; k: indices
OTHERS = """
    sum(x,1) sum(i,1) sum(x,1,dtype=fw.float64) mean(x,1) mean(i,1,dtype=fw.float32) prod(i,1)
    nansum(x,1,dtype=fw.float64) amax(x,1) amin(i,1) argmax(x,1) all(b,1) any(x,1) norm(x,2,1)
    linalg.norm(x,2,1) linalg.vector_norm(x,2,1) linalg.matrix_norm(m) logsumexp(x,1) cumsum(i,1)
    logcumsumexp(x,1) diff(x) matmul(m,s) mm(m,s) mv(x,v) dot(v,v) inner(x,y) outer(v,v)
    bmm(m[None],s[None]) addmm(m,m,s) addmv(v[:2],x,v) addr(m,v[:2],v[:2]) kron(m,s)
    baddbmm(m[None],m[None],s[None]) addbmm(m,m[None],s[None]) linalg.cross(x,y) tensordot(m,s,1)
    linalg.multi_dot([m,s,m]) linalg.matrix_power(m,2) cat([x,y]) cat([x,j]) stack([i,j])
    hstack([x,y]) column_stack([v,v]) gather(x,1,k) index_select(x,1,k[0]) take(x,k)
    take_along_dim(x,k,1) masked_select(x,b) nonzero(x) where(b,x,y) scatter(x,1,k,x)
    scatter_add(x,1,k,x) index_add(x,1,k[0],x[:,:2]) index_copy(x,1,k[0],x[:,:2]) bucketize(x,v)
    searchsorted(v,x) isin(x,v) tril(x) diag(m) clamp(x,1,2) clamp(i,1,2) lerp(x,y,.5)
    addcmul(x,y,y) polygamma(1,x) renorm(x,2,0,1.) softmax(x,1) quantile(x,.5,1) histc(x,3)
    msort(x) linalg.inv(m) linalg.det(m) linalg.cholesky(s) linalg.solve(s,m) linalg.eigvalsh(s)
    linalg.svdvals(m) linalg.pinv(m) linalg.solve_triangular(s,m,upper=True) fft.fft(x) fft.rfft(x)
    complex(x,y) polar(x,y) abs(z) sgn(z) add(z,z) add(x,i) div(i,j) linalg.vecdot(x,y) zeros(2,3)
    full((2,3),2.) arange(4) linspace(0,1,4) eye(2,3) rand(2,3) randperm(4) multinomial(p,1)
    max(x,y)
""".split()
SEVERAL = {
    "max(x,1)": ("float32", "int64"), "sort(x,1)": ("float32", "int64"),
    "topk(x,2,1)": ("float32", "int64"), "median(x,1)": ("float32", "int64"),
    "mode(x,1)": ("float32", "int64"), "cummax(x,1)": ("float32", "int64"),
    "aminmax(x,dim=1)": ("float32", "float32"), "frexp(x)": ("float32", "int32"),
    "linalg.qr(m)": ("float32", "float32"), "linalg.svd(m)": ("float32",) * 3,
    "linalg.slogdet(m)": ("float32", "float32"), "linalg.inv_ex(m)": ("float32", "int32"),
}  # fmt: skip
CALLS = [
    *(f"{name}({x})" for name in ONE_OPERAND for x in "pi"),
    *(f"{name}({xy})" for name in TWO_OPERANDS for xy in ("x,y", "i,j", "x,2")),
    *OTHERS,
    *SEVERAL,
]
# PyTorch has no kernel for complex numbers or truths where these would hold the right ones.
ALLOWED = {("cumsum(i,1)", "bool"), ("nansum(x,1)", "complex64")}


def operands(fw: Any) -> dict[str, Any]:
    """What calls are of."""
    return {
        "fw": fw, "x": fw.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),
        "y": fw.tensor([[2.0, 1.0, 4.0], [3.0, 7.0, 5.0]]), "v": fw.tensor([1.0, 2.0, 3.0]),
        "i": fw.tensor([[1, 2, 3], [4, 5, 6]]), "j": fw.tensor([[2, 1, 4], [3, 7, 5]]),
        "b": fw.tensor([[True, False, True], [False, True, True]]),
        "m": fw.tensor([[1.0, 2.0], [3.0, 5.0]]), "s": fw.tensor([[4.0, 1.0], [1.0, 3.0]]),
        "z": fw.tensor([[1 + 2j, 2, 3], [4, 5, 6]]), "k": fw.tensor([[0, 1], [1, 0]]),
        "p": fw.tensor([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]]),
    }  # fmt: skip


def outcome(fw: Any, call: str, out: Any) -> tuple[Any, ...]:
    """What becomes of a call: refused, or warned of or not, with the layouts of the results."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            eval(f"fw.{call[:-1]},out=out)", {"out": out, **operands(fw)})
        except (RuntimeError, TypeError):
            return ("refused",)
    resized = any("resized" in str(warning.message) for warning in told)
    outs = out if isinstance(out, tuple) else (out,)
    return resized, *[(tuple(o.shape), str(o.dtype).rpartition(".")[2]) for o in outs]


def made(fw: Any, kinds: tuple[str, ...], shapes: list[Any], several: bool) -> Any:
    """Tensors to write to."""
    tensors = tuple(
        fw.zeros(shape, dtype=getattr(fw, kind)) for shape, kind in zip(shapes, kinds, strict=True)
    )
    return tensors if several else tensors[0]


def attempts(call: str) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
    """Dtypes and shapes of what a call is to write to."""
    several = call in SEVERAL
    right = SEVERAL.get(call)
    if right is None:  # the first dtype that PyTorch takes
        taken = [
            d for d in DTYPES if outcome(torch, call, made(torch, (d,), [0], False)) != REFUSED
        ]
        if not taken:
            return  # PyTorch has no such operation at all
        right = (taken[0],)
    out = made(torch, right, [0] * len(right), several)
    outcome(torch, call, out)
    shapes = [tuple(o.shape) for o in (out if several else (out,))]
    for place in range(len(right)):
        for dtype in DTYPES:
            yield (*right[:place], dtype, *right[place + 1 :]), shapes
        larger = (7, *shapes[place])
        for shape in ((0,), larger):
            yield right, [*shapes[:place], shape, *shapes[place + 1 :]]


REFUSED = ("refused",)


@pytest.mark.parametrize("call", CALLS)
def test_what_is_taken_and_refused(call: str) -> None:
    for kinds, shapes in attempts(call):
        if (call, kinds[0]) in ALLOWED:
            continue
        got, want = (
            outcome(fw, call, made(fw, kinds, shapes, call in SEVERAL)) for fw in (ad, torch)
        )
        assert got == want, (kinds, shapes)


# `out` shares memory with an operand: refused where PyTorch refuses it.
SHARED = """
    add(v,x,out=v) mul(x,v,out=v) where(b,v,x,out=v) clamp(v[:,None],v,None,out=v[:,None])
    cat([v,v],out=v) stack([v,v],out=v) index_select(v,0,k[0],out=v) gather(v,0,k[0],out=v)
    exp(x.view(6)[:3],out=x.view(6)[1:4]) add(v[:2],v[1:],out=v[1:]) cat([v[:1],v[:1]],out=v[:2])
    exp(m.t(),out=m) outer(v,v,out=v) take(v,k,out=v) cumsum(v[:2],0,out=v[1:])
    exp(x,out=x.view(6)) masked_select(x,b,out=x) nonzero(i,out=i) lerp(v[:,None],v,.5,out=v[:,None])
""".split()
# The operand itself, of the right shape: taken.
ITSELF = """
    add(x,y,out=x) mul(y,x,out=x) exp(x,out=x) exp(v[1:],out=v[1:]) exp(m.t(),out=m.t())
    cumsum(x,1,out=x) where(b,x,y,out=x) clamp(i,2,3,out=i) tril(x,out=x) softmax(x,1,out=x)
    exp(v[:1],out=v[1:2]) add(x[0],x[1],out=x[0]) pow(2,x,out=x)
""".split()


@pytest.mark.parametrize("call", [*SHARED, *ITSELF])
def test_memory_shared_with_operands(call: str) -> None:
    results: list[Any] = []
    for fw in (torch, ad):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                results.append(eval(f"fw.{call}", operands(fw)).tolist())
            except RuntimeError:
                results.append("refused")
    theirs, ours = results
    assert (theirs == "refused") == (call in SHARED)
    assert (ours == "refused") == (theirs == "refused")
    assert theirs == "refused" or close(ours, theirs)


def close(ours: Any, theirs: Any) -> bool:
    """Whether nested lists hold about the same numbers."""
    return bool(torch.allclose(torch.tensor(ours), torch.tensor(theirs)))

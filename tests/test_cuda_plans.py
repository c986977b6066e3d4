"""What plans of cuFFT's are asked for: beside one that does what its arguments say, by NumPy."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from adjoint.engine.backends.array.kernels.signal import plans
from tests.cuda_on_threads import Gpu
from tests.cupy_stand_in import on_device

rng = np.random.default_rng(6)
made: list[Any] = []


class PlanNd:
    """cuFFT's batched transforms: elements of a batch are `dist` apart, those of a row `stride`."""

    def __init__(
        self, shape: Any, inembed: Any, istride: int, idist: int, onembed: Any, ostride: int,
        odist: int, fft_type: str, batch: int, order: str, last_axis: int, last_size: Any,
    ) -> None:  # fmt: skip
        made.append(self)
        self.lengths, self.kind, self.batch = shape, fft_type, batch
        self.layouts = (inembed, istride, idist), (onembed, ostride, odist)

    def view(self, x: Any, shape: tuple[int, ...], side: int) -> Any:
        embed, stride, dist = self.layouts[side]
        flat = np.asarray(x).reshape(-1)
        if embed is None:
            return flat.reshape(self.batch, *shape)
        assert len(shape) == 1
        assert embed == shape
        size = flat.itemsize
        return np.lib.stride_tricks.as_strided(
            flat, (self.batch, *shape), (dist * size, stride * size)
        )

    def fft(self, x: Any, out: Any, direction: int) -> None:
        half = (*self.lengths[:-1], self.lengths[-1] // 2 + 1)
        real, back = self.kind in ("R2C", "D2Z"), self.kind in ("C2R", "Z2D")
        given = self.view(x, half if back else self.lengths, 0)
        into = self.view(out, half if real else self.lengths, 1)
        axes = tuple(range(1, len(self.lengths) + 1))
        if real:
            into[...] = np.fft.rfftn(given, axes=axes)
        elif back:
            into[...] = np.fft.irfftn(given, self.lengths, axes, norm="forward")
            given[...] = np.nan  # as cuFFT may
        else:
            inverse = np.fft.ifftn(given, axes=axes, norm="forward")
            into[...] = inverse if direction == 1 else np.fft.fftn(given, axes=axes)


@pytest.fixture(autouse=True)
def cufft(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {name: name[6:] for name, _ in plans.TYPES.values()}
    module = SimpleNamespace(cufft=SimpleNamespace(PlanNd=PlanNd, **names))
    monkeypatch.setattr(plans, "beside_cupy", lambda xp, name: module)
    monkeypatch.setattr(plans, "_PLANS", plans.KeptTransforms())
    made.clear()


CASES = [
    ("whole", (5, 12), (1,)), ("whole", (12, 5, 2), (0,)), ("whole", (12, 1), (0,)), ("whole", (7,), (0,)),
    ("whole", (3, 4, 6), (2, 1)), ("whole", (3, 4, 6), (0, 1, 2)), ("half", (5, 12), (1,)),
    ("half", (5, 12), (0,)), ("half", (2, 5, 9), (1, 2)), ("half", (4, 5, 9), (0, 1, 2)),
    ("back", (5, 7), (1,)), ("back", (7, 5), (0,)), ("back", (1, 7), (1,)),
]  # fmt: skip


@pytest.mark.parametrize("norm", ["backward", "forward", "ortho"])
@pytest.mark.parametrize(("way", "shape", "dims"), CASES)
@pytest.mark.parametrize("single", [True, False])
def test_as_numpy(way: str, shape: Any, dims: Any, norm: Any, single: bool) -> None:
    x = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    x = x.real if way == "half" else x
    x = x.astype(("f" if way == "half" else "F") if single else x.dtype.char)
    there = on_device(x)
    lasts = (12, 13) if way == "back" else (0,)
    for last in lasts:
        for inverse in (False, True) if way == "whole" else (False,):
            found: Any = plans.transformed(
                Gpu(np), there, way, dims, last=last, inverse=inverse, norm=norm
            )
            if way == "whole":
                want = (np.fft.ifftn if inverse else np.fft.fftn)(x, axes=dims, norm=norm)
            elif way == "half":
                want = np.fft.rfftn(x, axes=dims, norm=norm)
            else:
                want = np.fft.irfft(x, last, dims[0], norm)
            want = want.astype(
                {"whole": x.dtype.char, "half": x.dtype.char.upper(), "back": x.dtype.char.lower()}[
                    way
                ]
            )
            assert found.dtype == want.dtype
            assert found.flags.c_contiguous
            np.testing.assert_allclose(np.asarray(found), want, 1e-5, 1e-5)
            np.testing.assert_array_equal(np.asarray(there), x)


def test_plans_are_kept_by_what_they_are_for() -> None:
    xp: Any = Gpu(np)
    for _ in range(3):
        plans.transformed(xp, on_device(np.ones((4, 6), "F")), "whole", (1,))
        plans.transformed(xp, on_device(np.ones((2, 2, 6), "F")), "whole", (2,), inverse=True)
    assert len(made) == 1
    for n in range(1, plans.KEPT + 9):
        plans.transformed(xp, on_device(np.ones((4, n), "F")), "whole", (1,))
    assert len(plans._PLANS.kept) == plans.KEPT


@pytest.mark.parametrize(
    ("way", "shape", "dims"),
    [("whole", (2, 3, 4), (1,)), ("whole", (2, 3, 4), (0, 2)), ("half", (3, 4), (1, 0)), ("whole", (2,) * 4, (0, 1, 2, 3)), ("whole", (0, 3), (1,))],
)  # fmt: skip
def test_what_no_plan_does(way: str, shape: Any, dims: Any) -> None:
    x = on_device(np.ones(shape, "f" if way == "half" else "F"))
    assert plans.transformed(Gpu(np), x, way, dims) is None
    assert plans.transformed(Gpu(np), on_device(np.ones(3, np.int64)), "whole", (0,)) is None

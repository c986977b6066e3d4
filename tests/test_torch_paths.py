"""Names at PyTorch's paths that libraries import: what they answer, do or refuse."""

from __future__ import annotations

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn
from adjoint._jit_internal import boolean_dispatch
from adjoint.backends import cuda
from adjoint.cli import addresses
from adjoint.nn.parallel import comm, replicate
from adjoint.torch_version import TorchVersion


def test_one_function_of_two() -> None:
    pool = boolean_dispatch(
        "return_indices",
        2,
        False,
        lambda x, k, return_indices=False: ("both", x, k),
        lambda x, k, return_indices=False: ("one", x, k),
        "here",
        "pool",
    )
    assert pool(1, 2) == ("one", 1, 2)
    assert pool(1, 2, True) == pool(1, 2, return_indices=True) == ("both", 1, 2)
    assert (pool.__name__, pool.__module__) == ("pool", "here")
    assert nn.functional.boolean_dispatch is boolean_dispatch
    assert not nn.functional.has_torch_function_variadic(ad.ones(1), 2)
    assert nn.functional.GRID_SAMPLE_PADDING_MODES["border"] == 1


def test_attention_is_asked_what_could_take_it() -> None:
    q = ad.ones(1, 1, 2, 4)
    params = cuda.SDPAParams(q, q, q, None, 0.0, False, False)
    assert not cuda.can_use_flash_attention(params)
    with pytest.warns(UserWarning, match="one implementation"):
        assert not cuda.can_use_efficient_attention(params, debug=True)
    assert nn.attention.list_flash_attention_impls() == []
    assert nn.attention.current_flash_attention_impl() is None


def test_libraries_of_a_gpu() -> None:
    assert cuda.preferred_linalg_library().name == "Default"
    assert cuda.preferred_linalg_library("cusolver").name == "Default"
    assert cuda.preferred_blas_library(cuda.BlasBackend.Cublas).name == "Default"
    with pytest.raises(RuntimeError, match="not there"):
        cuda.preferred_linalg_library("magma")
    with pytest.raises(RuntimeError, match="unknown"):
        cuda.preferred_blas_library("atlas")


def test_versions_compare_by_number() -> None:
    version = TorchVersion("2.13.0")
    assert version >= (2, 9)
    assert version > "2.9.1"
    assert not version < "2.13"


@pytest.mark.parametrize("name", ["nn.quantized", "nn.qat", "nn.intrinsic"])
def test_paths_of_old_lead_to_the_new_ones(name: str) -> None:
    module = addresses.module(f"adjoint.{name}")
    assert module is not None
    assert module.Linear if name != "nn.intrinsic" else module.ConvReLU2d
    assert module.__path__ == []  # `import torch.nn.quantized.dynamic` looks below it


def test_tensors_of_several_devices() -> None:
    x = ad.arange(10.0).reshape(5, 2)
    first, second = comm.broadcast(x, ["cpu", "cpu"])
    assert first is x
    assert ad.equal(second, x)
    assert second.data_ptr() != x.data_ptr()
    assert len(comm.broadcast_coalesced([x, x + 1], ["cpu", "cpu", "cpu"])) == 3
    assert ad.equal(comm.reduce_add([x, x, x]), 3 * x)
    assert ad.equal(comm.reduce_add_coalesced([[x, x], [x, -x]])[1], 0 * x)
    parts = comm.scatter(x, ["cpu", "cpu"], [1, 4])
    assert [len(part) for part in parts] == [1, 4]
    assert ad.equal(comm.gather(parts), x)
    assert ad.equal(comm.gather(parts, destination=-1), x)
    written = [ad.zeros(2, 2), ad.zeros(3, 2)]
    comm.scatter(x, out=written)
    np.testing.assert_array_equal(written[1].numpy(), x.numpy()[2:])
    with pytest.raises(RuntimeError, match="exactly one"):
        comm.scatter(x)
    with pytest.raises(ValueError, match="one shape"):
        comm.reduce_add([x, x[:1]])


@pytest.mark.parametrize("detach", [False, True])
def test_replicas_pass_gradients_on(detach: bool) -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    net.append(net[0].__class__(1, 1))
    copies = replicate(net, ["cpu", "cpu"], detach)
    x = ad.arange(8.0).reshape(4, 2).sin()
    assert not list(copies[0].parameters())
    total = copies[0](x).sum() + copies[1](2 * x).sum()
    if detach:
        assert not total.requires_grad
        return
    total.backward()
    got = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    (net(x).sum() + net(2 * x).sum()).backward()
    for mine, want in zip(got, net.parameters(), strict=True):
        ad.testing.assert_close(mine, want.grad)

"""Small functions at PyTorch's paths that libraries call."""

from __future__ import annotations

import pytest

import adjoint as ad
from adjoint import nn
from adjoint.utils import checkpoint


def test_modules_are_applied_to_parts() -> None:
    x = ad.arange(6.0).reshape(3, 2)
    parts = nn.parallel.scatter(x, ["cpu", "cpu"])
    assert [len(part) for part in parts] == [2, 1]
    out = nn.parallel.parallel_apply([nn.ReLU(), nn.Identity()], [(part,) for part in parts])
    assert ad.equal(nn.parallel.gather(out, "cpu"), x)
    with pytest.raises(ValueError, match="2 modules"):
        nn.parallel.parallel_apply([nn.ReLU(), nn.ReLU()], [x])


def test_arguments_of_checkpoints() -> None:
    x = ad.ones(2, requires_grad=True) * 2
    detached, other = checkpoint.detach_variable((x, "name"))
    assert (detached.is_leaf, detached.requires_grad, other) == (True, True, "name")
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad"):
        checkpoint.check_backward_validity([ad.ones(2)])
    checkpoint.check_backward_validity([x])
    with checkpoint.set_checkpoint_early_stop(False):
        y = checkpoint.checkpoint(lambda z: z.sin().sin(), x, use_reentrant=False)
    y.sum().backward()


def test_an_accelerator_that_may_not_be_there() -> None:
    with ad.accelerator.device_index(None):
        pass
    if not ad.accelerator.is_available():
        assert ad.accelerator.memory_allocated() == 0
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        ad.accelerator.nothing  # noqa: B018

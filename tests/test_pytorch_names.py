"""Names of PyTorch outside the operations: scripting, hub, tensor types, second addresses."""

from __future__ import annotations

import hashlib
import importlib
import warnings
from pathlib import Path
from typing import Any

import pytest

import adjoint as ad
from adjoint import functional, hub, jit
from adjoint.distributions import utils as distribution_utils
from adjoint.nn.modules import transformer
from adjoint.utils import checkpoint


def test_scripted_modules_are_the_same_module() -> None:
    net = ad.nn.Sequential(ad.nn.Linear(2, 3), ad.nn.ReLU())
    scripted = jit.script(net)
    x = ad.randn(4, 2)
    assert isinstance(scripted, jit.ScriptModule)
    assert isinstance(scripted, ad.nn.Sequential)
    assert scripted(x).tolist() == net(x).tolist()
    assert list(scripted.state_dict()) == list(net.state_dict())
    assert scripted[0].weight is net[0].weight
    scripted.eval()
    assert not net.training
    assert jit.script(scripted) is scripted
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that nothing is frozen: see test_switches
        assert jit.freeze(scripted) is scripted
    with pytest.raises(NotImplementedError, match="no TorchScript programs"):
        scripted.save("net.pt")
    with pytest.raises(FileNotFoundError):
        jit.load("no such net.pt")


def test_scripted_and_traced_functions_run() -> None:
    @jit.script
    def twice(x: Any, times: int = 2) -> Any:
        for _ in range(times):
            x = x * 2
        return x

    assert twice(ad.ones(1)).item() == 4
    assert twice.__name__ == "twice"
    traced = jit.trace(lambda x: x + 1, (ad.zeros(1),))
    assert traced(ad.ones(1)).item() == 2
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        jit.trace(lambda a, b: a @ b, (ad.ones(2, 3), ad.ones(2, 3)))
    with pytest.raises(TypeError, match="received int"):
        jit.script(3)

    class Holder:
        factor = 3

        @jit.script
        def scale(self, x: Any) -> Any:
            return x * self.factor

    assert Holder().scale(ad.ones(1)).item() == 3


def test_weights_come_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "_dir", str(tmp_path))
    (tmp_path / "checkpoints").mkdir()
    ad.save({"w": ad.ones(2)}, tmp_path / "checkpoints" / "net-1.pth")
    found = hub.load_state_dict_from_url("https://example.invalid/net-1.pth")
    assert found["w"].tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="Put the file at .*net-2.pth"):
        hub.load_state_dict_from_url("https://example.invalid/net-2.pth")


def test_a_download_is_whole_and_checked(tmp_path: Path) -> None:
    source, target = tmp_path / "a.bin", tmp_path / "b.bin"
    source.write_bytes(b"weights")
    digest = hashlib.sha256(b"weights").hexdigest()
    hub.download_url_to_file(source.as_uri(), str(target), digest[:8])
    assert target.read_bytes() == b"weights"
    target.unlink()
    with pytest.raises(RuntimeError, match="invalid hash value"):
        hub.download_url_to_file(source.as_uri(), str(target), "00000000")
    assert [p.name for p in tmp_path.iterdir()] == ["a.bin"]


def test_local_repositories(tmp_path: Path) -> None:
    (tmp_path / "hubconf.py").write_text("def double(x):\n    'Twice.'\n    return 2 * x\n")
    folder = str(tmp_path)
    assert hub.list(folder, source="local") == ["double"]
    assert hub.help(folder, "double", source="local") == "Twice."
    assert hub.load(folder, "double", 4, source="local") == 8
    assert isinstance(hub.load("pytorch/vision:v0.10.0", "resnet18"), ad.models.ResNet)
    with pytest.raises(RuntimeError, match="cannot find callable nothing"):
        hub.load(folder, "nothing", source="local")


def test_progress_counts(capsys: pytest.CaptureFixture[str]) -> None:
    with hub.tqdm(total=3, disable=False) as bar:
        bar.set_postfix(loss=1)
        bar.update(2)
    shown = capsys.readouterr().err
    assert "2/3" in shown
    assert "loss=1" in shown


def test_tensor_types() -> None:
    x = ad.FloatTensor([1, 2])
    assert isinstance(x, ad.FloatTensor)
    assert not isinstance(x, ad.LongTensor)
    assert x.type(ad.LongTensor).dtype is ad.int64
    assert ad.LongTensor(2, 3).shape == (2, 3)
    assert not isinstance(x, ad.cuda.FloatTensor)
    try:
        ad.set_default_tensor_type(ad.DoubleTensor)
        assert ad.zeros(1).dtype is ad.float64
        ad.set_default_tensor_type("torch.FloatTensor")
        assert ad.zeros(1).dtype is ad.float32
        with pytest.raises(TypeError, match="floating-point tensor type"):
            ad.set_default_tensor_type(ad.LongTensor)
    finally:
        ad.set_default_dtype(ad.float32)


def test_ranges_and_powers() -> None:
    with pytest.warns(UserWarning, match="range is deprecated"):
        assert ad.range(1, 4).tolist() == [1, 2, 3, 4]
    with pytest.warns(UserWarning, match="range"), pytest.raises(RuntimeError, match="step sign"):
        ad.range(4, 1)
    assert ad.vander(ad.tensor([1, 2, 3]), increasing=True).tolist() == [
        [1, 1, 1],
        [1, 2, 4],
        [1, 3, 9],
    ]
    assert ad.vander(ad.tensor([2.0]), 0).shape == (1, 0)


def test_second_addresses() -> None:
    assert ad.functional.einsum is ad.einsum
    assert ad.GradScaler is ad.amp.GradScaler
    assert ad.nn.functional.grad is ad.nn.grad
    assert ad.utils.data.distributed.DistributedSampler is ad.utils.data.DistributedSampler
    assert isinstance(
        ad.ones(1).requires_grad_().register_hook(print), ad.utils.hooks.RemovableHandle
    )
    assert ad.is_storage(ad.ones(1).untyped_storage())
    assert isinstance(ad.strided, ad.layout)
    assert isinstance(ad.channels_last, ad.memory_format)


def test_convolution_gradients_as_functions() -> None:
    x, w = ad.randn(1, 2, 5, 5).requires_grad_(), ad.randn(3, 2, 3, 3).requires_grad_()
    out = ad.nn.functional.conv2d(x, w, padding=1)
    g = ad.randn_like(out)
    gx, gw = ad.autograd.grad(out, (x, w), g)
    ad.testing.assert_close(ad.nn.grad.conv2d_input(x.shape, w, g, padding=1), gx)
    ad.testing.assert_close(ad.nn.grad.conv2d_weight(x, w.shape, g, padding=1), gw)


def test_timing() -> None:
    from adjoint.utils import benchmark

    calls: list[int] = []
    timer = benchmark.Timer(
        "f()", globals={"f": lambda: calls.append(1)}, label="append", sub_label="one"
    )
    once = timer.timeit(50)
    assert len(calls) >= 50
    assert once.number_per_run == 50
    assert len(once.times) == 1
    assert "append: one" in repr(once)
    block = timer.blocked_autorange(min_run_time=0.01)
    assert sum(block.raw_times) >= 0.01
    assert min(block.times) <= block.median <= max(block.times)
    assert block.iqr >= 0
    table = str(benchmark.Compare([once, block]))
    assert "append: one" in table
    assert "Times are in" in table
    with pytest.raises(NotImplementedError, match="only Python"):
        benchmark.Timer("x", language="c++")


def test_the_configuration_in_words() -> None:
    assert "NumPy" in ad.__config__.show()
    assert "threads" in ad.__config__.parallel_info()


def test_variables_are_tensors() -> None:
    Variable: Any = ad.autograd.Variable

    x = ad.ones(2, requires_grad=True)
    v = Variable(x, requires_grad=True)
    assert type(v) is ad.Tensor
    assert v.is_leaf
    assert v is not x
    assert isinstance(x, Variable)
    assert not isinstance(3, Variable)
    with pytest.warns(UserWarning, match="volatile was removed"):
        Variable(x, volatile=True)


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("utils.data.dataloader", "Dataset IterableDataset Sampler BatchSampler RandomSampler"),
        ("nn.modules.activation", "MultiheadAttention"),
        ("nn.modules.rnn", "RNNCellBase RNNCell LSTMCell GRUCell"),
        ("nn.modules.transformer", "_get_clones _get_activation_fn"),
        ("cuda.amp", "autocast_mode grad_scaler"),
        ("utils.tensorboard.writer", "SummaryWriter"),
        ("serialization", "MAP_LOCATION FileLike"),
        ("_C", "_log_api_usage_once"),
        ("distributed.nn", "all_reduce all_gather gather reduce broadcast functional"),
        ("vision.models.resnet", "ResNet BasicBlock Bottleneck resnet18 ResNet18_Weights"),
        ("vision.models.vgg", "VGG vgg16"),
        ("vision.models.mobilenetv2", "MobileNetV2 mobilenet_v2"),
        ("vision.models.vision_transformer", "VisionTransformer vit_b_16"),
    ],
)
def test_names_at_other_paths(path: str, names: str) -> None:
    module = importlib.import_module(f"adjoint.{path}")
    assert all(hasattr(module, name) for name in names.split())
    with pytest.raises(AttributeError):
        _ = module.no_such_name


def test_names_that_other_libraries_import() -> None:
    ad.manual_seed(0)
    drawn = distribution_utils._standard_normal((3,), ad.float64, "cpu")
    assert (drawn.shape, drawn.dtype) == ((3,), ad.float64)
    assert distribution_utils._sum_rightmost(ad.ones(2, 3), 1).tolist() == [3, 3]
    copies = transformer._get_clones(ad.nn.Linear(2, 2), 3)
    assert len({id(layer.weight) for layer in copies}) == 3
    assert transformer._get_activation_fn("relu")(ad.tensor([-1.0])).item() == 0
    assert checkpoint.get_device_states(ad.ones(2), {"a": [ad.ones(1)]}) == ([], [])
    checkpoint.set_device_states([], [])
    assert ad.cuda._initialized == ad.cuda.is_available()
    with pytest.raises(ValueError, match="zip"):
        checkpoint.set_device_states([0], [])


def test_parameters_of_ones_own() -> None:
    class Bounded(ad.nn.Parameter):
        def __new__(cls, data: Any, limit: float) -> Any:
            made = ad.Tensor._make_subclass(cls, data, True)
            made.limit = limit
            return made

    source = ad.tensor([1.0, -3.0])
    layer = ad.nn.Module()
    layer.weight = Bounded(source, limit=2.0)
    assert isinstance(layer.weight, Bounded)
    assert [name for name, _ in layer.named_parameters()] == ["weight"]
    (layer.weight * 2).sum().backward()
    assert layer.weight.grad.tolist() == [2, 2]
    with ad.no_grad():
        layer.weight.clamp_(-layer.weight.limit, layer.weight.limit)
    assert source.tolist() == [1, -2]  # the same memory
    assert not source.requires_grad


def test_residual_blocks_alone() -> None:
    block = ad.models.resnet.BasicBlock(4, 4)
    assert block(ad.ones(1, 4, 5, 5)).shape == (1, 4, 5, 5)


@pytest.mark.parametrize(
    "make",
    [lambda: ad.Tensor([1.0, 2.0]), lambda: ad.Tensor(2), lambda: ad.FloatTensor([1.0, 2.0])],
)
def test_the_old_constructor_does_not_ask_the_default_device(make: Any) -> None:
    """Modules that are made on `meta` compute with such tensors: rates of dropout by depth."""
    with ad.device("meta"):
        assert ad.tensor([1.0]).device.type == "meta"
        made = make()
    assert made.device.type == "cpu"
    assert len(made.tolist()) == 2


def test_handles_of_tables_of_ones_own() -> None:
    noted: dict[int, Any] = {}
    layer = ad.nn.Linear(2, 2)
    handle = ad.utils.hooks.RemovableHandle(layer._forward_pre_hooks, extra_dict=[noted])
    assert handle.id not in layer._forward_pre_hooks
    layer._forward_pre_hooks[handle.id] = lambda module, args: (args[0] * 0,)
    noted[handle.id] = True
    assert layer(ad.ones(1, 2)).tolist() == [layer.bias.tolist()]
    with handle:
        pass  # removed at the end of the block
    assert not layer._forward_pre_hooks
    assert not noted
    assert layer(ad.ones(1, 2)).tolist() != [layer.bias.tolist()]


def test_steps_of_ones_own_are_hooked_once() -> None:
    seen = []

    class Plain(ad.optim.Optimizer):
        def __init__(self, params: Any) -> None:
            super().__init__(params, {})

        @ad.optim.Optimizer.profile_hook_step
        def step(self, closure: Any = None) -> None:
            seen.append("step")

    optimizer = Plain([ad.nn.Parameter(ad.ones(1))])
    optimizer.register_step_pre_hook(lambda *_: seen.append("before"))
    optimizer.step()
    assert seen == ["before", "step"]
    assert ad.optim.optimizer._dispatch_sqrt(4.0) == 2


def test_star_brings_what_loads_on_first_use() -> None:
    names: dict[str, Any] = {}
    exec("from adjoint import *", names)
    assert names["save"] is ad.save
    assert names["vmap"] is ad.vmap
    assert names["randn"] is ad.randn
    assert names["float32"] is ad.float32
    assert names["compile"] is ad.compile
    assert not {"nn", "optim", "annotations", "Any"} & names.keys()  # as in PyTorch
    assert "einsum" in functional.__all__
    assert all(callable(getattr(functional, name)) for name in functional.__all__)


def test_the_switch_of_scripting_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    assert jit._state._enabled.enabled
    jit._state.disable()
    assert not jit._state._enabled
    jit._state.enable()
    assert jit._state._enabled
    assert jit._state._get_script_class(int) is None
    assert jit._state._get_python_class("int") is None
    jit._state._clear_class_state()
    monkeypatch.setenv("PYTORCH_JIT", "0")
    assert not jit._state.EnabledProxy()
    monkeypatch.setenv("PYTORCH_JIT", "off")
    with pytest.raises(ValueError, match="Try using 0 or 1"):
        jit._state.EnabledProxy()
    assert not isinstance(ad.nn.Linear(1, 1).forward, ad._C.ScriptMethod)


@pytest.mark.parametrize(
    ("layer", "name", "size"),
    [
        (ad.nn.Conv1d(2, 2, 3), "conv1d", 1),
        (ad.nn.Conv2d(2, 2, 3), "conv2d", 2),
        (ad.nn.ConvTranspose2d(2, 2, 3), "conv_transpose2d", 2),
        (ad.nn.MaxPool1d(2), "max_pool1d", 1),
        (ad.nn.AvgPool2d(2), "avg_pool2d", 2),
        (ad.nn.LPPool2d(2, 2), "lp_pool2d", 2),
        (ad.nn.AdaptiveAvgPool2d(1), "adaptive_avg_pool2d", 2),
        (ad.nn.AdaptiveMaxPool3d(1), "adaptive_max_pool3d", 3),
        (ad.nn.FractionalMaxPool2d(2, 2), "fractional_max_pool2d", 2),
    ],
)
def test_layers_call_what_a_program_puts_in_a_functions_place(
    layer: ad.nn.Module, name: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counters of operations do so."""
    compiled = ad.compile(lambda x: layer(x))
    x = ad.randn(1, 2, *[8] * size)
    layer(x), compiled(x)
    function, seen = getattr(ad.nn.functional, name), []

    def counting(*args: Any, **kwargs: Any) -> Any:
        seen.append(args)
        return function(*args, **kwargs) * 0

    monkeypatch.setattr(ad.nn.functional, name, counting)
    assert not layer(x).any()
    assert len(seen) == 1
    if not name.startswith("fractional"):
        assert not compiled(x).any()

"""What classes are called under `adjoint run`: `<class 'torch.Tensor'>`, `torch.nn.modules.linear`.

Programs print types, libraries write classes' paths into their files and tell PyTorch's layers by
the module they are of. A class goes by the path at which a program finds it; the framework itself
asks `module_of`, which knows where it is written.
"""

from __future__ import annotations

from types import ModuleType

from adjoint.engine.core.ownership import know_as

# Classes that PyTorch has in other modules: where they are written, the module they go by, their
# names. A name of our own has the one it goes by behind it.
TABLE = """
data.dataset torch.utils.data.dataset ChainDataset ConcatDataset Dataset IterableDataset
data.dataset torch.utils.data.dataset StackDataset Subset TensorDataset
data.loader torch.utils.data.dataloader DataLoader
data.sampler torch.utils.data.distributed DistributedSampler
data.sampler torch.utils.data.sampler BatchSampler RandomSampler Sampler SequentialSampler
data.sampler torch.utils.data.sampler SubsetRandomSampler WeightedRandomSampler
distributed.data_parallel.module torch.nn.parallel.distributed DistributedDataParallel
distributions.transform torch.distributions.transforms Transform
distributions.transforms_combined torch.distributions.transforms CatTransform ComposeTransform
distributions.transforms_combined torch.distributions.transforms IndependentTransform
distributions.transforms_combined torch.distributions.transforms ReshapeTransform StackTransform
distributions.transforms_vector torch.distributions.transforms CorrCholeskyTransform
distributions.transforms_vector torch.distributions.transforms LowerCholeskyTransform
distributions.transforms_vector torch.distributions.transforms PositiveDefiniteTransform
distributions.transforms_vector torch.distributions.transforms SoftmaxTransform
distributions.transforms_vector torch.distributions.transforms StickBreakingTransform
engine.autodiff.levels.function torch.autograd.function Function FunctionCtx
engine.autodiff.tape.anomaly torch.autograd.anomaly_mode detect_anomaly set_detect_anomaly
engine.autodiff.tape.checkpoint torch.utils.checkpoint CheckpointError CheckpointFunction
engine.autodiff.tape.graph_tools torch.autograd.graph save_on_cpu
engine.autodiff.tape.hooks torch.utils.hooks Handle=RemovableHandle
engine.autodiff.tape.modes torch.autograd.grad_mode enable_grad inference_mode no_grad
engine.autodiff.tape.modes torch.autograd.grad_mode set_grad_enabled
engine.autodiff.tape.saved torch.autograd.graph saved_tensors_hooks
engine.backends.array.gpu.streams torch.cuda.streams Event Stream ExternalStream
engine.core.device torch Device=device
engine.core.dtype torch DType=dtype
engine.core.layout torch Layout=layout MemoryFormat=memory_format
engine.core.numeric_limits torch finfo iinfo
engine.core.spec torch Size
engine.core.state.rng torch._C Generator
engine.tensor.memory torch.storage TypedStorage UntypedStorage
engine.tensor.tensor torch Tensor
nn.modules.attention torch.nn.modules.activation MultiheadAttention
nn.modules.class_losses torch.nn.modules.adaptive AdaptiveLogSoftmaxWithLoss
nn.modules.embedding torch.nn.modules.sparse Embedding EmbeddingBag
nn.modules.local_response torch.nn.modules.normalization CrossMapLRN2d LocalResponseNorm
nn.modules.margin_losses torch.nn.modules.loss CosineEmbeddingLoss HingeEmbeddingLoss
nn.modules.margin_losses torch.nn.modules.loss MarginRankingLoss MultiLabelMarginLoss
nn.modules.margin_losses torch.nn.modules.loss MultiLabelSoftMarginLoss MultiMarginLoss
nn.modules.margin_losses torch.nn.modules.loss SoftMarginLoss TripletMarginLoss
nn.modules.margin_losses torch.nn.modules.loss TripletMarginWithDistanceLoss
nn.modules.parameter_container torch.nn.modules.container ParameterDict ParameterList
nn.modules.rnn_cells torch.nn.modules.rnn GRUCell LSTMCell RNNCell RNNCellBase
nn.modules.shrinkage torch.nn.modules.activation Hardshrink Softshrink Tanhshrink Threshold
nn.modules.softmax torch.nn.modules.activation LogSoftmax Softmax Softmax2d Softmin
nn.modules.transformer_layers torch.nn.modules.transformer TransformerDecoderLayer
nn.modules.transformer_layers torch.nn.modules.transformer TransformerEncoderLayer
optim.lr_scheduler.base torch.optim.lr_scheduler LRScheduler
optim.lr_scheduler.combine torch.optim.lr_scheduler ChainedScheduler SequentialLR
optim.lr_scheduler.cosine torch.optim.lr_scheduler CosineAnnealingLR CosineAnnealingWarmRestarts
optim.lr_scheduler.cycles torch.optim.lr_scheduler CyclicLR OneCycleLR
optim.lr_scheduler.decay torch.optim.lr_scheduler ConstantLR ExponentialLR LinearLR MultiStepLR
optim.lr_scheduler.decay torch.optim.lr_scheduler PolynomialLR StepLR
optim.lr_scheduler.functions torch.optim.lr_scheduler LambdaLR MultiplicativeLR
optim.lr_scheduler.plateau torch.optim.lr_scheduler ReduceLROnPlateau
"""
MOVED: dict[str, list[tuple[str, str]]] = {}  # module, name of each class; by where it is written
for _home, _path, *_names in map(str.split, TABLE.strip().splitlines()):
    MOVED.setdefault(_home, []).extend((_path, _name) for _name in _names)
# Packages whose files lie as PyTorch's do.
ALIKE = tuple(
    f"adjoint.{name}."
    for name in ("amp", "distributions", "fx", "jit", "nn", "optim", "profiler", "utils", "vision")
)


def is_named(module: str) -> bool:
    """Whether classes of a module of ours go by another's name."""
    return module.startswith(ALIKE) or module.removeprefix("adjoint.") in MOVED


def name_classes(module: ModuleType, path: str) -> None:
    """Have the classes that a module defines go by the paths at which PyTorch has them.

    Args:
        module: was just loaded.
        path: what the module itself is called.
    """
    home = module.__name__
    for known_as, named in MOVED.get(home.removeprefix("adjoint."), ()):
        name, _, other = named.partition("=")
        know_as(getattr(module, name), known_as, other or name)
    if not home.startswith(ALIKE):
        return
    for name, value in list(vars(module).items()):
        if isinstance(value, type) and value.__module__ == home and value.__qualname__ == name:
            know_as(value, path)

import tempfile

import torch
from common import fill, picture, say
from tensordict import (
    LazyStackedTensorDict,
    MemoryMappedTensor,
    TensorDict,
    TensorDictParams,
    tensorclass,
)
from tensordict.nn import (
    NormalParamExtractor,
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
    TensorDictSequential,
)

found = []
table = TensorDict(
    {"seen": picture(4, 3), "inner": {"deep": torch.arange(8.0).reshape(4, 2)}}, batch_size=[4]
)
found += [
    table["inner", "deep"].sum(),
    *table[1:3].batch_size,
    table.reshape(2, 2)["seen"].shape[-1],
]
found += [
    table.apply(lambda t: t * 2)["seen"].sum(),
    (table + 1)["inner", "deep"].sum(),
    table.sum(dim=0)["seen"].sum(),
]
found += [
    len(list(table.keys(True, True))),
    torch.stack([table, table]).shape[0],
    torch.cat([table, table]).shape[0],
]
table["new"] = table["seen"].cos()
found += [
    table.select("new")["new"].sum(),
    table.exclude("new").is_empty(),
    len(table.split(2)),
    table.flatten_keys(".")["inner.deep"].sum(),
]
table[0] = table[1].clone()
found += [
    table["seen"][0].sum(),
    table.to(torch.float64)["seen"].dtype == torch.float64,
    table.unsqueeze(0).shape[0],
]
lazy = LazyStackedTensorDict(
    TensorDict({"a": torch.ones(2)}, []), TensorDict({"a": torch.zeros(2)}, [])
)
found += [lazy["a"].sum(), lazy.contiguous().batch_size[0]]


@tensorclass
class Row:
    """A row with a name."""

    x: torch.Tensor
    y: torch.Tensor


row = Row(x=picture(4, 2), y=torch.arange(4), batch_size=[4])
found += [row[2].y, row.x.sum(), torch.stack([row, row]).x.sum()]
step = TensorDictSequential(
    TensorDictModule(fill(torch.nn.Linear(3, 4)), ["seen"], ["hidden"]),
    TensorDictModule(NormalParamExtractor(), ["hidden"], ["loc", "scale"]),
)
found += [step(table)["loc"].sum(), table["scale"].sum()]
policy = ProbabilisticTensorDictSequential(
    step,
    ProbabilisticTensorDictModule(
        ["loc", "scale"],
        ["action"],
        distribution_class=torch.distributions.Normal,
        default_interaction_type="mean",
    ),
)
found += [policy(table)["action"].sum(), policy.get_dist(table).log_prob(table["action"]).sum()]
net = fill(torch.nn.Linear(3, 2))
weights = TensorDict.from_module(net)
found += [weights["weight"].sum(), TensorDictParams(weights).sum()["bias"]]
with (weights * 2).to_module(net):
    found.append(net(picture(1, 3)).sum())
loss = (weights.apply(lambda w: w.square().sum(), batch_size=[])).sum(reduce=True)
loss.backward()
found += [loss, net.weight.grad.sum()]
with tempfile.TemporaryDirectory() as folder:
    table.select("seen", "inner").memmap(folder)
    again = TensorDict.load_memmap(folder)
    found += [again["inner", "deep"].sum(), isinstance(again["seen"], MemoryMappedTensor)]
    torch.save(table, folder + "/kept.pt")
    found.append(torch.load(folder + "/kept.pt", weights_only=False)["new"].sum())
found += [table.to_tensordict()["seen"].sum(), torch.vmap(lambda t: t.sum())(table["seen"]).sum()]
say(*found)

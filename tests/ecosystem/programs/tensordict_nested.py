import torch
from common import fill, picture, say
from tensordict import TensorDict, stack
from tensordict.nn import TensorDictModule, TensorDictSequential

data = TensorDict({"a": picture(4, 3), "deep": {"b": picture(4, 2)}}, batch_size=[4])
data["c"] = data["a"].sum(-1)
both = stack([data, data * 2], 0)
first = TensorDictModule(fill(torch.nn.Linear(3, 2)), in_keys=["a"], out_keys=["h"])
second = TensorDictModule(fill(torch.nn.Linear(2, 1)), in_keys=["h"], out_keys=["out"])
net = TensorDictSequential(first, second)
net(data)["out"].sum().backward()
part = data[1:3].clone().apply(lambda x: x + 1)
flat = data.flatten_keys(".")
say(
    both["deep", "b"].sum(),
    both.shape[0],
    data["out"].sum(),
    first.module.weight.grad.sum(),
    part["a"].sum(),
    flat["deep.b"].sum(),
    data.reshape(2, 2)["a"].shape[1],
    *(len(each.keys()) for each in data.split(2)),
)

"""torch.func: per-sample gradients, Hessians, Jacobian products."""

import torch
from torch.func import functional_call, grad, hessian, jacrev, jvp, vjp, vmap

model = torch.nn.Linear(3, 1)
torch.nn.init.constant_(model.weight, 0.5)
torch.nn.init.constant_(model.bias, -0.25)
params = {k: v.detach() for k, v in model.named_parameters()}
x = torch.arange(12.0).reshape(4, 3) / 10
y = x.sum(1, keepdim=True).cos()


def loss(params, x, y):
    return ((functional_call(model, params, (x.unsqueeze(0),)) - y) ** 2).mean()


per_sample = vmap(grad(loss), in_dims=(None, 0, 0))(params, x, y)
print({k: v.shape for k, v in per_sample.items()})
print(per_sample["weight"].squeeze(1))
f = lambda v: (v.sin() * v.prod()).sum()
v = torch.tensor([1.0, 2.0, 0.5])
print(hessian(f)(v))
print(jacrev(lambda v: torch.outer(v, v))(v).shape)
print(jvp(f, (v,), (torch.ones(3),)))
out, pull = vjp(torch.cumsum, v, 0) if False else vjp(lambda t: torch.cumsum(t, 0), v)
print(pull(torch.ones(3))[0])

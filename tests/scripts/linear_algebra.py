"""torch.linalg, einsum, fft and printing."""

import torch

torch.set_printoptions(precision=3, sci_mode=False)
a = torch.arange(9, dtype=torch.float64).reshape(3, 3) + 4 * torch.eye(3, dtype=torch.float64)
print(torch.linalg.det(a).round(), torch.linalg.inv(a))
b = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
print(torch.linalg.solve(a, b))
s = a @ a.T
print(torch.linalg.cholesky(s))
print(torch.linalg.eigvalsh(s))
print(torch.linalg.svdvals(a))
print(torch.einsum("ij,kj->ik", a, a).equal(s))
print(torch.fft.rfft(torch.arange(8.0)).abs())
a.requires_grad_()
torch.logdet(a @ a.T).backward()
print(a.grad)
print(torch.arange(24).reshape(2, 3, 4))
print(repr(torch.float16), torch.tensor([True, False]), torch.tensor(2.5), torch.empty(0))

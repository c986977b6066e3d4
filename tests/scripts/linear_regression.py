"""Fit a line by hand-written gradient descent."""

import torch

x = torch.arange(10, dtype=torch.float32).unsqueeze(1) / 10
y = 3 * x + 0.5
w = torch.zeros(1, 1, requires_grad=True)
b = torch.zeros(1, requires_grad=True)

for step in range(50):
    loss = ((x @ w + b - y) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        w -= 0.5 * w.grad
        b -= 0.5 * b.grad
    w.grad.zero_()
    b.grad.zero_()
    if step % 10 == 0:
        print(f"step {step} loss {loss.item():.5f}")
print(f"{w.item():.4f} {b.item():.4f}")

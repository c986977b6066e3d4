"""LBFGS with a closure on float64, as the time-sequence example does."""

import torch
import torch.nn as nn
import torch.optim as optim

torch.set_default_dtype(torch.float64)


class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm1 = nn.LSTMCell(1, 5)
        self.linear = nn.Linear(5, 1)

    def forward(self, input, future=0):
        outputs = []
        h_t = torch.zeros(input.size(0), 5, dtype=torch.double)
        c_t = torch.zeros(input.size(0), 5, dtype=torch.double)
        for input_t in input.split(1, dim=1):
            h_t, c_t = self.lstm1(input_t, (h_t, c_t))
            output = self.linear(h_t)
            outputs += [output]
        for _ in range(future):
            h_t, c_t = self.lstm1(output, (h_t, c_t))
            output = self.linear(h_t)
            outputs += [output]
        return torch.cat(outputs, dim=1)


data = torch.sin(torch.arange(12.0) * 0.5).unsqueeze(0) * torch.tensor([[1.0], [0.5]])
seq = Sequence()
for i, p in enumerate(seq.parameters()):
    p.data = torch.cos(torch.arange(p.numel()) * 0.9 + i).reshape(p.shape) * 0.4
criterion = nn.MSELoss()
optimizer = optim.LBFGS(seq.parameters(), lr=0.2, max_iter=4)
for i in range(4):

    def closure():
        optimizer.zero_grad()
        loss = criterion(seq(data[:, :-1]), data[:, 1:])
        loss.backward()
        return loss

    loss = optimizer.step(closure)
    print(i, f"{loss.item():.5f}")
with torch.no_grad():
    print(seq(data, future=3).shape)

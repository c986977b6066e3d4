"""An embedding, an LSTM and a GRU, and saving through a buffer."""

import io

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, vocabulary, size):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, size)
        self.lstm = nn.LSTM(size, size, num_layers=2, batch_first=True)
        self.gru = nn.GRU(size, size, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * size, vocabulary)

    def forward(self, tokens, state=None):
        hidden, state = self.lstm(self.embed(tokens), state)
        hidden, _ = self.gru(hidden)
        return self.out(hidden), state


text = "the quick brown fox jumps over the lazy dog " * 4
chars = sorted(set(text))
stoi = {c: i for i, c in enumerate(chars)}
data = torch.tensor([stoi[c] for c in text])
model = Model(len(chars), 12)
for i, p in enumerate(model.parameters()):
    p.data.copy_(torch.sin(torch.arange(p.numel()) * 0.37 + i).view(p.shape) * 0.3)
optimizer = torch.optim.RMSprop(model.parameters(), lr=0.01)
state = None
for step in range(8):
    start = step * 20
    x, y = data[start : start + 20].view(2, 10), data[start + 1 : start + 21].view(2, 10)
    logits, state = model(x, state)
    state = tuple(s.detach() for s in state)
    loss = nn.functional.cross_entropy(logits.transpose(1, 2), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{step} {loss.item():.4f}")
buffer = io.BytesIO()
torch.save(model.state_dict(), buffer)
buffer.seek(0)
again = Model(len(chars), 12)
print(again.load_state_dict(torch.load(buffer)))
print(torch.equal(model(x)[0], again(x)[0]))

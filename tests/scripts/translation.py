# A Transformer learns to reverse sequences (padding and causal masks), then decodes with a beam.
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn import Transformer
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

PAD, BOS, EOS = 1, 2, 3


class PositionalEncoding(nn.Module):
    def __init__(self, size, longest=50):
        super().__init__()
        den = torch.exp(-torch.arange(0, size, 2) * math.log(10000) / size)
        pos = torch.arange(0, longest).reshape(longest, 1)
        table = torch.zeros((longest, size))
        table[:, 0::2] = torch.sin(pos * den)
        table[:, 1::2] = torch.cos(pos * den)
        self.register_buffer("table", table.unsqueeze(-2))

    def forward(self, x):
        return x + self.table[: x.size(0), :]


class Translator(nn.Module):
    def __init__(self, vocabulary, size):
        super().__init__()
        self.transformer = Transformer(size, 4, 1, 1, 2 * size, dropout=0.0)
        self.generator = nn.Linear(size, vocabulary)
        self.embedding = nn.Embedding(vocabulary, size)
        self.position = PositionalEncoding(size)
        self.scale = math.sqrt(size)

    def embed(self, ids):
        return self.position(self.embedding(ids.long()) * self.scale)

    def forward(self, src, tgt):
        causal = Transformer.generate_square_subsequent_mask(tgt.size(0)).type(torch.bool)
        hidden, ahead = (src == PAD).transpose(0, 1), (tgt == PAD).transpose(0, 1)
        out = self.transformer(
            self.embed(src), self.embed(tgt), None, causal, None, hidden, ahead, hidden
        )
        return self.generator(out)


class Reversed(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, i):
        ids = torch.from_numpy(np.random.RandomState(i).randint(4, 12, size=3 + i % 4))
        return ids, torch.flip(ids, [0])


def framed(ids):
    return torch.cat((torch.tensor([BOS]), ids, torch.tensor([EOS])))


def collate(batch):
    columns = ([framed(x) for x in column] for column in zip(*batch))
    return tuple(pad_sequence(column, padding_value=PAD) for column in columns)


@torch.no_grad()
def beam_search(model, src, width=3, longest=7):
    memory = model.transformer.encoder(model.embed(src))
    beams = [(torch.full((1, 1), BOS, dtype=torch.long), 0.0)]
    for _ in range(longest):
        candidates = []
        for ids, score in beams:
            if ids[-1].item() == EOS:
                candidates.append((ids, score))
                continue
            mask = (torch.triu(torch.ones(len(ids), len(ids))) == 1).transpose(0, 1)
            mask = mask.float().masked_fill(mask == 0, float("-inf")).masked_fill(mask == 1, 0.0)
            out = model.transformer.decoder(model.embed(ids), memory, mask)
            best = torch.topk(F.log_softmax(model.generator(out[-1]), -1).squeeze(0), width)
            for value, index in zip(best.values.tolist(), best.indices):
                candidates.append((torch.cat([ids, index.view(1, 1)]), score + value))
        beams = sorted(candidates, key=lambda beam: beam[1] / len(beam[0]), reverse=True)[:width]
    return beams


rng = np.random.RandomState(0)
model = Translator(12, 16)
with torch.no_grad():
    for name, p in model.named_parameters():
        noise = rng.randn(*p.shape) * (0.05 if p.dim() == 1 else p.shape[-1] ** -0.5)
        p.copy_(torch.from_numpy(noise + ("norm" in name and "weight" in name)))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, betas=(0.9, 0.98), eps=1e-9)
loss_fn = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.05)
for epoch in range(4):
    losses = 0
    for src, tgt in DataLoader(Reversed(), batch_size=8, collate_fn=collate):
        logits = model(src, tgt[:-1, :])
        loss = loss_fn(logits.reshape(-1, logits.shape[-1]), tgt[1:, :].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses += loss.item()
    print(f"epoch {epoch}, loss {losses / 3:.3f}")
model.eval()
for ids, score in beam_search(model, framed(torch.tensor([4, 5, 6, 7])).view(-1, 1)):
    print(ids.flatten().tolist(), round(score, 2))

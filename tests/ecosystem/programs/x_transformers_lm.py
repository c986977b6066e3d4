import torch
from common import fill, say, train
from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

net = fill(
    AutoregressiveWrapper(
        TransformerWrapper(
            num_tokens=30,
            max_seq_len=16,
            attn_layers=Decoder(dim=16, depth=2, heads=2, rotary_pos_emb=True),
        )
    )
)
ids = torch.arange(20).reshape(2, 10) % 30
say(*train(net, lambda: net(ids)))

import torch
from common import fill, say, train
from transformers import T5Config, T5ForConditionalGeneration

model = fill(
    T5ForConditionalGeneration(
        T5Config(
            vocab_size=40,
            d_model=16,
            d_kv=8,
            d_ff=32,
            num_layers=2,
            num_heads=2,
            dropout_rate=0.0,
            decoder_start_token_id=0,
        )
    )
)
ids = torch.arange(16).reshape(2, 8) * 3 % 40
say(*train(model, lambda: model(input_ids=ids, labels=ids).loss))

import torch
from common import fill, say, train
from transformers import LlamaConfig, LlamaForCausalLM

model = fill(
    LlamaForCausalLM(
        LlamaConfig(
            vocab_size=40,
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
        )
    )
)
ids = torch.arange(16).reshape(2, 8) * 3 % 40
losses = train(model, lambda: model(input_ids=ids, labels=ids).loss)
made = model.eval().generate(ids[:1], max_new_tokens=5, do_sample=False, pad_token_id=0)
say(*losses, *made[0].tolist())

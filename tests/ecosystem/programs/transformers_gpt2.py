import torch
from common import fill, say, train
from transformers import GPT2Config, GPT2LMHeadModel

model = fill(
    GPT2LMHeadModel(
        GPT2Config(
            vocab_size=40,
            n_positions=32,
            n_embd=16,
            n_layer=2,
            n_head=2,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=0,
            eos_token_id=39,
        )
    )
)
ids = torch.arange(16).reshape(2, 8) * 3 % 40
losses = train(model, lambda: model(input_ids=ids, labels=ids).loss)
made = model.eval().generate(ids[:1], max_new_tokens=5, do_sample=False, pad_token_id=0)
say(*losses, *made[0].tolist())

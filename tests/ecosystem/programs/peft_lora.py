import torch
from common import fill, say, train
from peft import LoraConfig, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel

base = GPT2LMHeadModel(
    GPT2Config(
        vocab_size=40,
        n_positions=32,
        n_embd=16,
        n_layer=2,
        n_head=2,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
)
model = get_peft_model(
    base, LoraConfig(r=2, target_modules=["c_attn"], lora_dropout=0.0, fan_in_fan_out=True)
)
fill(model)
ids = torch.arange(16).reshape(2, 8) * 3 % 40
say(*train(model, lambda: model(input_ids=ids, labels=ids).loss))

import tempfile

import torch
from common import fill, say
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

config = BertConfig(
    vocab_size=50,
    hidden_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=32,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)
model = fill(BertForSequenceClassification(config))
data = [{"input_ids": torch.arange(8) + i, "labels": torch.tensor(i % 2)} for i in range(8)]
with tempfile.TemporaryDirectory() as folder:
    args = TrainingArguments(
        folder,
        num_train_epochs=1,
        per_device_train_batch_size=4,
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        use_cpu=True,
        seed=1,
        data_seed=1,
        disable_tqdm=True,
    )
    Trainer(model=model, args=args, train_dataset=data).train()
say(model(input_ids=data[0]["input_ids"][None]).logits.sum())

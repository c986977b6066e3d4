import tempfile

import torch
from common import fill, say
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    EarlyStoppingCallback,
    Trainer,
    TrainingArguments,
)

config = BertConfig(
    vocab_size=50,
    hidden_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=32,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)
data = [{"input_ids": (torch.arange(8) + i) % 50, "labels": torch.tensor(i % 2)} for i in range(12)]


class InOrder(Trainer):
    """Takes the examples in their order, so that no draw decides."""

    def _get_train_sampler(self, *args, **kwargs):
        return torch.utils.data.SequentialSampler(self.train_dataset)


def score(predicted):
    """Share of right answers."""
    return {"right": float((predicted.predictions.argmax(-1) == predicted.label_ids).mean())}


found = []
with tempfile.TemporaryDirectory() as folder:

    def made(steps):
        """A trainer that goes to a step, saving on its way."""
        return InOrder(
            model=fill(BertForSequenceClassification(config)),
            args=TrainingArguments(
                folder,
                max_steps=steps,
                per_device_train_batch_size=4,
                gradient_accumulation_steps=2,
                learning_rate=1e-2,
                warmup_steps=1,
                lr_scheduler_type="cosine",
                weight_decay=0.01,
                eval_strategy="steps",
                eval_steps=2,
                save_steps=2,
                save_total_limit=2,
                load_best_model_at_end=True,
                logging_steps=1,
                report_to=[],
                use_cpu=True,
                disable_tqdm=True,
                seed=1,
            ),
            train_dataset=data,
            eval_dataset=data[:6],
            compute_metrics=score,
            callbacks=[EarlyStoppingCallback(3)],
        )

    first = made(4)
    found.append(first.train().training_loss)
    second = made(6)
    second.train(resume_from_checkpoint=True)
    told = second.evaluate()
    found += [told["eval_loss"], told["eval_right"]]
    found += second.predict(data[:3]).predictions.flatten().tolist()
    second.save_model(folder + "/last")
    again = BertForSequenceClassification.from_pretrained(folder + "/last").eval()
    found.append(again(input_ids=data[5]["input_ids"][None]).logits.sum())
    found += [each["loss"] for each in second.state.log_history if "loss" in each]
say(*found)

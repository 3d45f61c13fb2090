#!/usr/bin/env python3
"""Hugging Face transformers on the CPU, under the lines of engine/examples/chapter_speed.rs.

usage: transformers_driver.py --model DIRECTORY [--dtype f32|bf16] [--threads N]

Its defaults throughout (scaled dot product attention, its growing cache), with a loop of our own
around `model.forward` that asks for the last position's logits alone. The rows of a request must be
of one length. Needs benches/requirements-peers.txt.
"""

import argparse
import os
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch  # noqa: E402  (after the environment)
import transformers  # noqa: E402

import protocol  # noqa: E402

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


class Driver:
    def __init__(self, model, dtype):
        self.model = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=DTYPES[dtype])
        self.model.eval()
        self.cache = None

    def prepare(self, prompts, new_tokens):
        if len({len(prompt) for prompt in prompts}) != 1:
            raise SystemExit("the rows of a request must be of one length")
        self.cache = None

    def forward(self, ids):
        """`ids`: a list a row; gives logits `[rows, 1, vocab]`."""
        made = self.model(torch.tensor(ids), past_key_values=self.cache, use_cache=True, logits_to_keep=1)
        self.cache = made.past_key_values
        return made.logits

    @staticmethod
    def greedy(logits):
        return logits[:, -1].argmax(-1).tolist()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--dtype", choices=list(DTYPES), default="f32")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    transformers.utils.logging.set_verbosity_error()
    started = time.monotonic()
    driver = Driver(options.model, options.dtype)
    with torch.inference_mode():
        protocol.serve(started, driver.prepare, driver.forward, driver.greedy)


if __name__ == "__main__":
    main()

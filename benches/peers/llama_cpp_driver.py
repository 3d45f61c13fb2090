#!/usr/bin/env python3
"""llama.cpp by the C functions of llama-cpp-python, under the lines of engine/examples/chapter_speed.rs.

usage: llama_cpp_driver.py --model FILE.gguf [--threads N]

Its defaults throughout: flash attention where it likes, f16 keys and values, a mapped file. All rows
of a request are sequences of one batch; a context is made as large as they need and kept, outside
the times. Needs benches/requirements-peers.txt.
"""

import argparse
import ctypes
import time

import llama_cpp
import numpy

import protocol

# llama.cpp rounds a sequence's cells up to this many itself.
CELLS = 256


class Driver:
    def __init__(self, model, threads):
        # What it says while loading goes to stderr: stdout is ours.
        llama_cpp.llama_backend_init()
        params = llama_cpp.llama_model_default_params()
        self.model = llama_cpp.llama_model_load_from_file(str(model).encode(), params)
        if not self.model:
            raise SystemExit(f"{model}: llama.cpp cannot load it")
        self.threads = threads
        self.vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))
        # By shape, each with its batch: a context that is made anew would fault its pages in again.
        self.contexts = {}
        self.context, self.batch, self.positions = None, None, []

    def prepare(self, prompts, new_tokens):
        """An empty context for these rows."""
        rows, batch_tokens = len(prompts), sum(map(len, prompts))
        cells = -(-(max(map(len, prompts)) + new_tokens) // CELLS) * CELLS
        shape = (rows, cells, batch_tokens)
        if shape not in self.contexts:
            self.contexts[shape] = self.make(*shape)
        self.context, self.batch = self.contexts[shape]
        self.positions = [0] * rows
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)

    def make(self, rows, cells, batch_tokens):
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = rows * cells
        params.n_seq_max = rows
        params.n_batch = max(batch_tokens, params.n_batch)
        params.n_threads = params.n_threads_batch = self.threads
        context = llama_cpp.llama_init_from_model(self.model, params)
        if not context:
            raise SystemExit(f"llama.cpp makes no context of {rows} x {cells} cells")
        return context, llama_cpp.llama_batch_init(batch_tokens, 0, 1)

    def forward(self, ids):
        """One `llama_decode`; gives the places of the rows' logits."""
        at, places = 0, []
        for row, piece in enumerate(ids):
            for token in piece:
                self.batch.token[at] = token
                self.batch.pos[at] = self.positions[row]
                self.batch.n_seq_id[at] = 1
                self.batch.seq_id[at][0] = row
                self.batch.logits[at] = False
                self.positions[row] += 1
                at += 1
            self.batch.logits[at - 1] = True
            places.append(at - 1)
        self.batch.n_tokens = at
        code = llama_cpp.llama_decode(self.context, self.batch)
        if code != 0:
            raise SystemExit(f"llama_decode: {code}")
        return places

    def greedy(self, places):
        rows = (llama_cpp.llama_get_logits_ith(self.context, place) for place in places)
        return [int(numpy.argmax(numpy.ctypeslib.as_array(row, shape=(self.vocab,)))) for row in rows]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    # Kept for the life of the process: llama.cpp calls it.
    quiet = llama_cpp.llama_log_callback(lambda level, text, data: None)
    llama_cpp.llama_log_set(quiet, ctypes.c_void_p(0))
    started = time.monotonic()
    driver = Driver(options.model, options.threads)
    protocol.serve(started, driver.prepare, driver.forward, driver.greedy)


if __name__ == "__main__":
    main()

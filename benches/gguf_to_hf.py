#!/usr/bin/env python3
"""Writes a Llama GGUF file as a Hugging Face directory in f32, so that one set of weights can be
benched in both forms.

usage: gguf_to_hf.py MODEL.gguf DIRECTORY

The tokenizer is written for `gpt2` vocabularies whose pre-tokenizer is `smollm` (single digits,
then byte-level BPE); others are refused. Needs benches/requirements.txt.
"""

import json
import pathlib
import sys

import numpy
from gguf import GGUFReader
from gguf.quants import dequantize
from safetensors.numpy import save_file

LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
TOP_NAMES = {
    "token_embd": "model.embed_tokens.weight",
    "output_norm": "model.norm.weight",
    "output": "lm_head.weight",
}


def half_split_rows(weight, heads):
    """llama.cpp stores each head's q and k rows in interleaved pairs for its own RoPE; Hugging
    Face wants the first halves of all pairs, then the second halves."""
    rows, columns = weight.shape
    pairs = weight.reshape(heads, rows // heads // 2, 2, columns)
    return pairs.swapaxes(1, 2).reshape(rows, columns)


def main(source, target):
    reader = GGUFReader(source)
    meta = {name: field.contents() for name, field in reader.fields.items()}
    if meta["general.architecture"] != "llama" or meta.get("tokenizer.ggml.pre") != "smollm":
        sys.exit(f"{source}: only llama models with the smollm tokenizer can be converted")
    heads = int(meta["llama.attention.head_count"])
    kv_heads = int(meta["llama.attention.head_count_kv"])

    tensors = {}
    for tensor in reader.tensors:
        name = tensor.name.removesuffix(".weight")
        weight = dequantize(tensor.data, tensor.tensor_type).astype(numpy.float32)
        if name in TOP_NAMES:
            tensors[TOP_NAMES[name]] = numpy.ascontiguousarray(weight)
            continue
        _, layer, part = name.split(".", 2)
        if part in ("attn_q", "attn_k"):
            weight = half_split_rows(weight, heads if part == "attn_q" else kv_heads)
        tensors[f"model.layers.{layer}.{LAYER_NAMES[part]}.weight"] = numpy.ascontiguousarray(weight)

    directory = pathlib.Path(target)
    directory.mkdir(parents=True, exist_ok=True)
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    tokens = meta["tokenizer.ggml.tokens"]
    eos = int(meta["tokenizer.ggml.eos_token_id"])
    bos = int(meta["tokenizer.ggml.bos_token_id"])

    def write(name, document):
        (directory / name).write_text(json.dumps(document, ensure_ascii=False, indent=1))

    write("config.json", {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": int(meta["llama.embedding_length"]),
        "intermediate_size": int(meta["llama.feed_forward_length"]),
        "num_hidden_layers": int(meta["llama.block_count"]),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "max_position_embeddings": int(meta["llama.context_length"]),
        "rms_norm_eps": float(meta["llama.attention.layer_norm_rms_epsilon"]),
        "rope_theta": float(meta["llama.rope.freq_base"]),
        "tie_word_embeddings": "lm_head.weight" not in tensors,
        "vocab_size": len(tokens),
        "bos_token_id": bos,
        "eos_token_id": eos,
        "torch_dtype": "float32",
    })
    write("tokenizer_config.json", {
        "chat_template": meta.get("tokenizer.chat_template"),
        "bos_token": tokens[bos],
        "eos_token": tokens[eos],
    })
    control = [i for i, kind in enumerate(meta["tokenizer.ggml.token_type"]) if int(kind) == 3]
    write("tokenizer.json", {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": i, "content": tokens[i], "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False, "special": True}
            for i in control
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": True},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        ]},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
            "vocab": {token: i for i, token in enumerate(tokens)},
            "merges": [merge.split(" ", 1) for merge in meta["tokenizer.ggml.merges"]],
        },
    })
    print(directory)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])

"""Makes the vectors of models that differ from the first three by their config.

Each folder holds a model and `expected.json`, the answers of Hugging Face transformers: greedy ids, text
and logits. `rope.json` holds the inverse frequencies, attention factors and some cosines and sines of
rotary embeddings. The weights are those of tiny-llama, tiny-qwen2 and tiny-qwen3, linked to where they
are, and a few small tensors made here.

Run it from any place, after `pip install torch transformers`:

    python engine/tests/vectors/make.py

It first answers for the three that it starts from, and stops if it does not get what their
`expected.json` says.
"""

import json
import os
import pathlib

import tokenizers
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

HERE = pathlib.Path(__file__).resolve().parent
MADE_WITH = {"transformers": transformers.__version__, "torch": torch.__version__}
MAX_NEW_TOKENS = 48
STOP = 2
# Below this gap between the two best logits, rounding could decide which is taken.
GAP_MIN = 1e-3

LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}


def folders():
    """Name, base, and a function from the base's config to the new one."""

    def linear(config):
        config["rope_parameters"] = {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}

    def llama3(config):
        old_form(config, {"rope_type": "llama3", "original_max_position_embeddings": 64} | LLAMA3)

    def yarn_old(config):
        scaling = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
        old_form(config, scaling)

    def yarn_new(config):
        config["rope_parameters"] = {
            "rope_type": "yarn",
            "rope_theta": 1e4,
            "factor": 6.0,
            "original_max_position_embeddings": 32,
            "beta_fast": 4.0,
            "beta_slow": 0.5,
            "truncate": False,
        }

    def mistral(config):
        config["model_type"] = "mistral"
        config["architectures"] = ["MistralForCausalLM"]
        config["sliding_window"] = None
        for name in ("attention_bias", "mlp_bias", "pretraining_tp"):
            del config[name]

    def bias(config):
        config["attention_bias"] = True

    def head_dim(config):
        # Qwen3's tensors without its norms are those of a Llama whose heads are wider than its share.
        config["model_type"] = "llama"
        config["architectures"] = ["LlamaForCausalLM"]
        config["num_hidden_layers"] = 1
        for name in ("layer_types", "max_window_layers", "sliding_window", "use_sliding_window"):
            del config[name]

    return [
        ("tiny-llama-bias", "tiny-llama", bias),
        ("tiny-llama-head-dim", "tiny-qwen3", head_dim),
        ("tiny-llama-linear", "tiny-llama", linear),
        ("tiny-llama-llama3", "tiny-llama", llama3),
        ("tiny-mistral", "tiny-llama", mistral),
        ("tiny-qwen2-yarn", "tiny-qwen2", yarn_old),
        ("tiny-qwen3-bias", "tiny-qwen3", bias),
        ("tiny-qwen3-yarn", "tiny-qwen3", yarn_new),
    ]


def old_form(config, scaling):
    """The spelling of transformers 4."""
    config["rope_theta"] = config.pop("rope_parameters")["rope_theta"]
    config["rope_scaling"] = scaling
    config["torch_dtype"] = config.pop("dtype")
    config.pop("layer_types", None)


def write_model(name, base, edit):
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    config = json.loads((HERE / base / "config.json").read_text())
    edit(config)
    write_json(folder / "config.json", config, indent=2)
    link(folder / "tokenizer.json", f"../{base}/tokenizer.json")
    weights = load_file(HERE / base / "model.safetensors")
    if name.endswith("-bias"):
        write_biases(folder, base, weights)
    elif name.endswith("-head-dim"):
        kept = {key: value for key, value in weights.items() if is_kept(key)}
        save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    else:
        link(folder / "model.safetensors", f"../{base}/model.safetensors")
    return folder


def is_kept(key):
    return "layers.1." not in key and "q_norm" not in key and "k_norm" not in key


def write_biases(folder, base, weights):
    """The base's weights as a first file, biases for all of its attention as a second one."""
    biases = {}
    for key in sorted(weights):
        if "self_attn" in key and "proj" in key:
            count = weights[key].shape[0]
            steps = (torch.arange(count) * 37 + 11 * len(biases)) % 17 - 8
            biases[key.replace("weight", "bias")] = steps.float() / 16
    first, second = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
    link(folder / first, f"../{base}/model.safetensors")
    save_file(biases, folder / second, metadata={"format": "pt"})
    names = {key: first for key in weights} | {key: second for key in biases}
    index = {"metadata": {}, "weight_map": names}
    write_json(folder / "model.safetensors.index.json", index, indent=2)


def link(path, target):
    path.unlink(missing_ok=True)
    os.symlink(target, path)


def write_json(path, value, indent=None):
    path.write_text(json.dumps(value, indent=indent) + "\n")


@torch.no_grad()
def answers(folder, prompts):
    model, loading = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, output_loading_info=True
    )
    assert not loading["missing_keys"] and not loading["unexpected_keys"], loading
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    logits_after = lambda ids: model(torch.tensor([ids])).logits[0, -1]
    cases = []
    for prompt in prompts:
        input_ids = tokenizer.encode(prompt).ids
        ids, gaps = [], []
        first = logits = logits_after(input_ids)
        while len(ids) < MAX_NEW_TOKENS and STOP not in ids:
            best = torch.topk(logits, 2)
            gaps.append((best.values[0] - best.values[1]).item())
            ids.append(best.indices[0].item())
            logits = logits_after(input_ids + ids)
        stopped = ids[-1] == STOP
        cases.append(
            {
                "prompt": prompt,
                "input_ids": input_ids,
                "greedy_ids": ids,
                "greedy_text": tokenizer.decode(ids[:-1] if stopped else ids),
                "finish_reason": "stop" if stopped else "length",
                "logits_after_prompt": rounded(first),
                "logits_at_end": rounded(logits),
                "smallest_top2_gap": round(min(gaps), 6),
            }
        )
    return cases


def rounded(values):
    return [round(value, 6) for value in values.tolist()]


def check_base(base):
    """Whether transformers still answers for a base as its file says; returns its prompts."""
    expected = json.loads((HERE / base / "expected.json").read_text())
    prompts = [case["prompt"] for case in expected["cases"]]
    for case, now in zip(expected["cases"], answers(HERE / base, prompts)):
        for key in ("input_ids", "greedy_ids", "greedy_text", "finish_reason"):
            assert case[key] == now[key], (base, case["prompt"], key, case[key], now[key])
        for key in ("logits_after_prompt", "logits_at_end"):
            pairs = zip(case[key], now[key])
            assert max(abs(one - two) for one, two in pairs) < 1e-4, (base, case["prompt"], key)
    return expected, prompts


def difference(case, others):
    """By how much the logits after a prompt differ from the base's."""
    other = next(other for other in others if other["prompt"] == case["prompt"])
    pairs = zip(case["logits_after_prompt"], other["logits_after_prompt"])
    return max(abs(one - two) for one, two in pairs)


def write_models():
    bases = {base: check_base(base) for base in ("tiny-llama", "tiny-qwen2", "tiny-qwen3")}
    for name, base, edit in folders():
        expected, prompts = bases[base]
        cases = answers(write_model(name, base, edit), prompts)
        # A case whose answer hangs on rounding would prove nothing.
        cases = [case for case in cases if case["smallest_top2_gap"] >= GAP_MIN]
        gaps = [case["smallest_top2_gap"] for case in cases]
        moved = max(difference(case, expected["cases"]) for case in cases)
        assert (moved > 0.01) == (name != "tiny-mistral"), (name, moved)
        print(f"{name}: {len(cases)} cases, smallest gap {min(gaps)}, moved by {moved:.3f}")
        write_json(
            HERE / name / "expected.json",
            {key: value for key, value in expected.items() if key != "cases"}
            | {"made_with": MADE_WITH, "cases": cases},
        )


def ropes():
    """Name, family, head size, context, and the config's rotary fields."""
    linear = {"rope_type": "linear", "factor": 2.5}
    llama31 = {"rope_type": "llama3", "original_max_position_embeddings": 8192} | LLAMA3
    qwen_yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    fine_yarn = {
        "rope_type": "yarn",
        "factor": 16.0,
        "original_max_position_embeddings": 4096,
        "beta_fast": 24,
        "beta_slow": 1.5,
        "truncate": False,
    }
    mscales = {"mscale": 1.0, "mscale_all_dim": 0.707}

    def new(theta, fields):
        return {"rope_parameters": {"rope_theta": theta} | fields}

    def old(theta, fields, key="rope_type"):
        kind = {key: fields["rope_type"]} | {k: v for k, v in fields.items() if k != "rope_type"}
        return {"rope_theta": theta, "rope_scaling": kind}

    for family in ("llama", "mistral", "qwen2", "qwen3"):
        yield f"{family} default", family, 128, 4096, new(1e6, {"rope_type": "default"})
        yield f"{family} default, old", family, 64, 4096, {"rope_theta": 1e5}
        yield f"{family} linear", family, 64, 4096, new(1e4, linear)
        yield f"{family} linear, old", family, 64, 4096, old(1e4, linear, "type")
        yield f"{family} llama3", family, 128, 131072, new(5e5, llama31)
        yield f"{family} llama3, old", family, 64, 131072, old(5e5, llama31)
        yield f"{family} yarn", family, 128, 131072, new(1e6, qwen_yarn)
        yield f"{family} yarn, old", family, 128, 131072, old(1e6, qwen_yarn, "type")
    yield "odd head", "llama", 80, 4096, new(1e6, {"rope_type": "default"})
    yield "odd head, llama3", "llama", 96, 131072, new(5e5, llama31)
    yield "no base", "llama", 64, 4096, {}
    yield "llama3 without its context", "llama", 64, 2048, new(
        5e5, {k: v for k, v in llama31.items() if k != "original_max_position_embeddings"}
    )
    yield "yarn without its context", "qwen2", 128, 32768, new(1e6, {"rope_type": "yarn", "factor": 4.0})
    yield "yarn, factor of contexts", "qwen3", 128, 131072, new(1e6, qwen_yarn | {"factor": None})
    yield "yarn, fine", "llama", 80, 65536, new(1e4, fine_yarn)
    yield "yarn, mscales", "llama", 64, 65536, new(1e4, fine_yarn | mscales)
    yield "yarn, one mscale", "llama", 64, 65536, new(1e4, fine_yarn | {"mscale": 2.0})
    yield "yarn, mscale of 0", "llama", 64, 65536, new(1e4, fine_yarn | mscales | {"mscale": 0})
    yield "yarn, attention", "qwen3", 64, 65536, new(1e4, fine_yarn | {"attention_factor": 1.25})
    yield "yarn, factor below 1", "qwen3", 64, 4096, new(1e4, qwen_yarn | {"factor": 0.5})
    yield "yarn, short context", "qwen3", 64, 64, new(
        1e4, {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4}
    )


def rope_cases():
    for name, family, head_dim, context, fields in ropes():
        config = {
            "model_type": family,
            "hidden_size": 512,
            "intermediate_size": 512,
            "vocab_size": 512,
            "num_hidden_layers": 1,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": head_dim,
            "rms_norm_eps": 1e-5,
            "max_position_embeddings": context,
            "sliding_window": None,
        } | fields
        # transformers writes into what it is given.
        given = json.loads(json.dumps(config)) | {"pad_token_id": None}
        del given["model_type"]
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **given))
        rotary = model.model.rotary_emb
        case = {
            "name": name,
            "config": config,
            "inverse_frequencies": rotary.inv_freq.tolist(),
            "attention_factor": float(rotary.attention_scaling),
        }
        if name in ("llama default", "llama llama3", "qwen2 yarn", "yarn, mscales"):
            positions = torch.tensor([[0, 1, 100, 3000]])
            cos, sin = rotary(torch.zeros(1), positions)
            half = head_dim // 2
            case["positions"] = positions[0].tolist()
            case["cos"] = [rounded(row[:half]) for row in cos[0]]
            case["sin"] = [rounded(row[:half]) for row in sin[0]]
        yield case


def main():
    transformers.logging.set_verbosity_error()
    write_models()
    value = {"made_with": MADE_WITH, "cases": list(rope_cases())}
    lines = ",\n".join(json.dumps(case) for case in value["cases"])
    made_with = json.dumps(value["made_with"])
    (HERE / "rope.json").write_text(f'{{"made_with": {made_with}, "cases": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()

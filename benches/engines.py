#!/usr/bin/env python3
"""Measures what our chapters reach beside each other and beside llama.cpp and transformers.

usage: engines.py --model DIR [--gguf FILE] [--llama-python P] [--hf-python P] [--threads N]
                  [--pairs N] [--new-tokens N] [--user-tokens N] [--profile debug|release] [--no-build]
                  [--markdown] [--json FILE] [PART ...]

Set-up, once (f32 weights of one model in both forms, and the peers):
  python3 -m venv W; W/bin/pip install -r benches/requirements.txt
  W/bin/python benches/gguf_to_hf.py  SmolLM2-135M-Instruct.Q4_1.gguf smollm2-f32
  W/bin/python benches/gguf_to_f32.py SmolLM2-135M-Instruct.Q4_1.gguf smollm2-f32.gguf
  python3 -m venv P; P/bin/pip install -r benches/requirements-peers.txt
  benches/engines.py --model smollm2-f32 --gguf smollm2-f32.gguf --llama-python P/bin/python --hf-python P/bin/python

parts (all by default; without a peer's interpreter the parts that need it are left out):
  loop          ch02 over ch01, decode
  forward       ch03 over ch01, decode
  llama         ch04 over llama.cpp, decode after 32 and after 512 tokens
  context       ch04's decode after 512 tokens over after 32
  prefill       llama.cpp's TTFT of 512 tokens over ch04's
  batch         ch05 and ch09: 8 rows over one, tokens of all rows
  batch-llama   ch09's 8 rows over llama.cpp's
  bf16          ch03 with bf16 weights over f32 ones, decode
  transformers  ch04 over transformers, decode after 32 and after 512 tokens
  users         32 users at once over HTTP: ch09 over ch02, tokens per second and TTFT p95
  online        ch04's tokens per second over HTTP over those without

Both sides of a pair have the same weights, token ids and threads, and the pair's order turns each
time. Every engine is a process that stays loaded and sleeps while another is measured. Before each
measurement the machine must be quiet (others below 5 % of it, waited for at most --quiet-wait); a pair
during which others took more is made again, at most twice, and marked with ! if it still was so. What
the times mean is said in engine/examples/chapter_speed.rs. Rows of a batch have different prompts of
one length. The parts `users` and `online` are `controller run`, whose own validity marks noise.
Prints each pair, then medians (min-max) of the pairs' ratios; exit code 1 if a least was missed or a
part failed.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import sys
import tempfile
import time

from driven import CORES, FOREIGN_MAX, ROOT, Driver, Failed, build, run, wait_for_quiet

# A text that stays the same from commit to commit, and as much of it as prompts need.
TEXT, TEXT_CHARACTERS = ROOT / "LICENSE", 4000
RETRIES = 2
USERS = 32
# Long enough for the warm-up to touch all memory, short enough to be cheap.
WARMUP_TOKENS = 4
PARTS = ["loop", "forward", "llama", "context", "prefill", "batch", "batch-llama", "bf16", "transformers",
         "users", "online"]
NEEDS = {"llama": "llama.cpp", "prefill": "llama.cpp", "batch-llama": "llama.cpp", "transformers": "transformers"}


class Side:
    """What one side of a pair is asked."""

    def __init__(self, who, prompt_tokens, rows=1):
        self.who, self.prompt_tokens, self.rows = who, prompt_tokens, rows

    def __str__(self):
        return f"{self.who} p{self.prompt_tokens}" + (f" x{self.rows}" if self.rows > 1 else "")


class Row:
    """A line of the table: ratios of pairs, more is better for ours."""

    def __init__(self, part, what, least, aim, pairs):
        self.part, self.what, self.least, self.aim, self.pairs = part, what, least, aim, pairs
        self.ratios = [pair["ratio"] for pair in pairs]
        self.met = statistics.median(self.ratios) >= least

    def spread(self, key=None, form=".2f"):
        values = [pair[key] for pair in self.pairs] if key else self.ratios
        return f"{statistics.median(values):{form}} ({min(values):{form}}–{max(values):{form}})"

    def disturbed(self):
        return sum(pair["disturbed"] for pair in self.pairs)

    def text(self):
        held = "holds" if self.met else "MISSES"
        return (f"{self.part}: {self.what}: {self.spread()}, n {len(self.ratios)}, {self.disturbed()} disturbed; "
                f"{held} {self.least:g}, aim {self.aim:g}")

    def markdown(self):
        noise = f", {self.disturbed()} disturbed" if self.disturbed() else ""
        return (f"| {self.what} | {self.least:g} | {self.aim:g} | {self.spread()} | {len(self.ratios)}{noise} | "
                f"{self.spread('ours', '.4g')} | {self.spread('other', '.4g')} |")


class Bench:
    def __init__(self, options):
        self.options = options
        self.home = tempfile.TemporaryDirectory()
        if options.no_build:
            target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
            self.programs = target / options.profile
        else:
            self.programs = build(options.profile, "--bins", "--examples")
        self.env = dict(os.environ, CHAPTERBENCH_DB=f"{self.home.name}/bench.db", XDG_STATE_HOME=self.home.name,
                        XDG_CONFIG_HOME=self.home.name, CHAPTERBENCH_LOCK_DIR=f"{self.home.name}/locks")
        self.drivers, self.rows = {}, []
        said = run([self.programs / "engine", "generate", TEXT.read_text()[:TEXT_CHARACTERS], "--raw", "--chapter", "2",
                    "--model", options.model, "--max-tokens", "1", "--format", "json"])
        self.ids = json.loads(said)["input_ids"]

    # -- pairs of drivers --------------------------------------------------------------------------

    def command(self, who):
        options = self.options
        threads = ["--threads", str(options.threads)]
        if who == "llama.cpp":
            return [options.llama_python, ROOT / "benches/peers/llama_cpp_driver.py", "--model", options.gguf, *threads]
        if who == "transformers":
            return [options.hf_python, ROOT / "benches/peers/transformers_driver.py", "--model", options.model, *threads]
        chapter, _, dtype = who.partition("-")
        return [self.programs / "examples/chapter_speed", "--chapter", chapter, "--model", options.model,
                "--dtype", dtype or "f32", *threads]

    def driver(self, who):
        if who not in self.drivers:
            self.drivers[who] = Driver(who, self.command(who), self.home.name)
        return self.drivers[who]

    def measure(self, side, new_tokens):
        """One request on a quiet machine; the first of its shape is preceded by a short one."""
        prompts = self.prompts(side)
        driver = self.driver(side.who)
        if str(side) not in driver.warm:
            driver.ask(prompts, min(WARMUP_TOKENS, new_tokens))
            driver.warm.add(str(side))
        wait_for_quiet(self.options.quiet_wait)
        return driver.ask(prompts, new_tokens)

    def prompts(self, side):
        """The text cut into rows, each with other tokens."""
        rows = [self.ids[row * side.prompt_tokens:][:side.prompt_tokens] for row in range(side.rows)]
        if len(rows[-1]) < side.prompt_tokens:
            sys.exit(f"{TEXT}: too short for {side.rows} prompts of {side.prompt_tokens} tokens")
        return rows

    def pair(self, number, ours, other, figure, new_tokens):
        """Both sides, the other one first in every second pair."""
        for attempt in range(RETRIES + 1):
            sides = [(True, ours), (False, other)]
            made = {mine: self.measure(side, new_tokens) for mine, side in sides[:: -1 if number % 2 else 1]}
            if max(answer["foreign"] for answer in made.values()) <= FOREIGN_MAX:
                break
        a, b = made[True][figure], made[False][figure]
        foreign = max(answer["foreign"] for answer in made.values())
        agree = ""
        if self.prompts(ours) == self.prompts(other):
            agree = agreement(made[True]["output_ids"], made[False]["output_ids"])
        return dict(ours=a, other=b, ratio=b / a if figure == "ttft_ms" else a / b, foreign=foreign,
                    disturbed=foreign > FOREIGN_MAX, agree=agree, attempts=attempt + 1)

    def compare(self, part, what, ours, other, least, aim, figure="decode_tok_per_s"):
        """A row of the table; TTFT is turned round, so that more is better for ours."""
        new_tokens = 1 if figure == "ttft_ms" else self.options.new_tokens
        pairs = []
        for number in range(self.options.pairs):
            pair = self.pair(number, ours, other, figure, new_tokens)
            pairs.append(pair)
            unit = "ms" if figure == "ttft_ms" else "tok/s"
            print(f"  {number + 1:2}: {ours} {pair['ours']:.4g} {unit}, {other} {pair['other']:.4g} {unit}, "
                  f"ratio {pair['ratio']:.3f}, others {pair['foreign']:.1%}{' !' if pair['disturbed'] else ''}"
                  f"{pair['agree'] and ', ' + pair['agree']}", flush=True)
        self.add(part, what, least, aim, pairs)

    def add(self, *row):
        self.rows.append(Row(*row))
        print(self.rows[-1].text(), flush=True)

    # -- parts -------------------------------------------------------------------------------------

    def loop(self):
        self.compare("loop", "ch02 over ch01, decode", Side("ch02", 32), Side("ch01", 32), 0.98, 1.0)

    def forward(self):
        self.compare("forward", "ch03 over ch01, decode", Side("ch03", 32), Side("ch01", 32), 2.5, 3.5)

    def llama(self):
        for prompt_tokens, least, aim in ((32, 1.0, 1.3), (512, 1.2, 1.5)):
            self.compare("llama", f"ch04 over llama.cpp, decode after {prompt_tokens} tokens",
                         Side("ch04", prompt_tokens), Side("llama.cpp", prompt_tokens), least, aim)

    def context(self):
        self.compare("context", "ch04, decode after 512 tokens over after 32", Side("ch04", 512), Side("ch04", 32),
                     0.9, 0.97)

    def prefill(self):
        self.compare("prefill", "llama.cpp over ch04, TTFT of 512 tokens", Side("ch04", 512), Side("llama.cpp", 512),
                     1.0, 1.5, "ttft_ms")

    def batch(self):
        for who in ("ch05", "ch09"):
            self.compare("batch", f"{who}, 8 rows over one", Side(who, 32, 8), Side(who, 32), 3.5, 5)

    def batch_llama(self):
        self.compare("batch-llama", "ch09 over llama.cpp, 8 rows", Side("ch09", 32, 8), Side("llama.cpp", 32, 8),
                     1.0, 1.25)

    def bf16(self):
        self.compare("bf16", "ch03, bf16 weights over f32, decode", Side("ch03-bf16", 32), Side("ch03", 32), 1.2, 1.5)

    def transformers(self):
        for prompt_tokens in (32, 512):
            self.compare("transformers", f"ch04 over transformers, decode after {prompt_tokens} tokens",
                         Side("ch04", prompt_tokens), Side("transformers", prompt_tokens), 1.0, 1.5)

    # -- parts over the whole product --------------------------------------------------------------

    def session(self, label, *words):
        """One session of `controller run`; gives its runs by block and arm."""
        wait_for_quiet(self.options.quiet_wait)
        controller = self.programs / "controller"
        run([controller, "run", "--label", label, "--model", self.options.model, "--dtype", "f32", "--ignore-eos",
             "--threads", str(self.options.threads), "--repeat", str(self.options.pairs), "--input-len", "32",
             "--endpoint", "completions", *words], self.env)
        runs = json.loads(run([controller, "runs", "export", f"label:{label}"], self.env))["runs"]
        found = {}
        for entry in runs:
            side = (entry["run"]["engine"], entry["run"]["status"]["spec"]["arm"]["mode"])
            found[entry["run"]["block"], *side] = entry
        return found

    def report(self, part, what, least, aim, runs, ours, other, figure, better):
        pairs = []
        for block in sorted({block for block, *_ in runs}):
            entries = [runs[block, *side] for side in (ours, other)]
            a, b = (figure(entry) for entry in entries)
            ratio = a / b if better == "more" else b / a
            disturbed = any(entry["run"]["status"]["validity"]["verdict"] != "sound" for entry in entries)
            pairs.append(dict(ours=a, other=b, ratio=ratio, disturbed=disturbed))
            print(f"  {block + 1:2}: {' '.join(ours)} {a:.4g}, {' '.join(other)} {b:.4g}, ratio {ratio:.3f}"
                  f"{' !' if disturbed else ''}", flush=True)
        self.add(part, what, least, aim, pairs)

    def users(self):
        runs = self.session("users", "--chapter", "2,9", "--mode", "online", "--concurrency", str(USERS),
                            "--n-runs", str(2 * USERS), "--output-len", str(self.options.user_tokens))
        sides = (("ch09", "online"), ("ch02", "online"))
        self.report("users", f"ch09 over ch02, {USERS} users, tokens per second", 4, 8, runs, *sides, tok_per_s, "more")
        self.report("users", f"ch02 over ch09, {USERS} users, TTFT p95", 1, 1, runs, *sides, ttft_p95_ms, "less")

    def online(self):
        runs = self.session("online", "--chapter", "4", "--mode", "both", "--n-runs", "5", "--warmup", "1",
                            "--output-len", str(self.options.new_tokens))
        self.report("online", "ch04, over HTTP over without, tokens per second", 0.95, 1, runs, ("ch04", "online"),
                    ("ch04", "offline"), tok_per_s, "more")


def tok_per_s(entry):
    return entry["run"]["stats"]["tok_per_s"]


def ttft_p95_ms(entry):
    values = sorted(s["ttft_ms"] for s in entry["samples"] if not s["warmup"] and not s.get("error"))
    at = 0.95 * (len(values) - 1)
    low, high = values[int(at)], values[min(int(at) + 1, len(values) - 1)]
    return low + (high - low) * (at - int(at))


def agreement(ours, other):
    """Whether all rows have the same ids, and where the first parts."""
    parted = [next((at for at, (a, b) in enumerate(zip(*rows)) if a != b), None) for rows in zip(ours, other)]
    parted = [at for at in parted if at is not None]
    return f"ids part in {len(parted)} of {len(ours)} rows, first at {min(parted)}" if parted else "same ids"


def machine(options):
    """What the figures were made on and with, a line each."""
    cpu = next((line.split(":", 1)[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                if line.startswith("model name")), platform.machine())
    flags = pathlib.Path("/proc/cpuinfo").read_text()
    vectors = [name for name in ("avx512f", "avx512_bf16", "amx_tile", "avx2", "fma") if f" {name}" in flags]
    memory = int(pathlib.Path("/proc/meminfo").read_text().split()[1]) / 2**20
    huge = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")
    huge = huge.read_text().split("[")[1].split("]")[0] if huge.exists() else "unknown"
    commit = run(["git", "rev-parse", "--short", "HEAD"]).strip()
    lines = [f"{time.strftime('%F')}, commit {commit}, profile {options.profile}, {options.threads} threads",
             f"{cpu}, {CORES} cores, {memory:.0f} GiB, {' '.join(vectors)}; huge pages: {huge}"]
    for python, packages in ((options.llama_python, ["llama_cpp_python"]), (options.hf_python, ["transformers", "torch"])):
        if python:
            asked = f"import importlib.metadata as m; print(', '.join(p + ' ' + m.version(p) for p in {packages}))"
            lines.append(run([python, "-c", asked]).strip())
    return lines


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="f32 weights in Hugging Face layout")
    parser.add_argument("--gguf", help="the same as .gguf, for llama.cpp")
    parser.add_argument("--llama-python", default=os.environ.get("LLAMA_PYTHON"))
    parser.add_argument("--hf-python", default=os.environ.get("HF_PYTHON"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--user-tokens", type=int, default=8, help="of an answer in `users`")
    parser.add_argument("--quiet-wait", type=float, default=20, help="seconds before a measurement, at most")
    parser.add_argument("--profile", choices=["debug", "release"], default="debug")
    parser.add_argument("--no-build", action="store_true", help="measure what lies in the target folder")
    parser.add_argument("--markdown", action="store_true", help="print the rows of docs/performance.md at the end")
    parser.add_argument("--json", type=pathlib.Path, help="where to keep every figure")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)} [default: all]")
    options = parser.parse_args()
    options.model = str(pathlib.Path(options.model).resolve())
    for part in options.parts:
        if part not in PARTS:
            parser.error(f"no part {part}; there are {', '.join(PARTS)}")
    there = {"llama.cpp": options.llama_python and options.gguf, "transformers": options.hf_python}
    flags = {"llama.cpp": "--llama-python and --gguf", "transformers": "--hf-python"}
    for part in [part for part in PARTS if NEEDS.get(part) and not there[NEEDS[part]]]:
        if part in options.parts:
            parser.error(f"{part} needs {flags[NEEDS[part]]}")
        if not options.parts:
            print(f"{part}: left out, it needs {flags[NEEDS[part]]}")
            PARTS.remove(part)
    return options


def main():
    options = arguments()
    bench = Bench(options)
    lines = machine(options)
    print("\n".join(lines), flush=True)
    began, whole = time.monotonic(), True
    for part in options.parts or PARTS:
        print(f"-- {part}", flush=True)
        try:
            getattr(bench, part.replace("-", "_"))()
        except Failed as failed:
            whole = False
            print(f"{part}: FAILED: {failed}", flush=True)
    for driver in bench.drivers.values():
        driver.close()
    print(f"{time.monotonic() - began:.0f} s")
    if options.json:
        rows = [dict(part=row.part, what=row.what, least=row.least, aim=row.aim, pairs=row.pairs) for row in bench.rows]
        options.json.write_text(json.dumps(dict(machine=lines, rows=rows), indent=1))
    if options.markdown:
        print("\n" + "\n".join(f"* {line}" for line in lines))
        print("\n| what | at least | aim | reached | pairs | ours | the other |\n|---|---|---|---|---|---|---|")
        print("\n".join(row.markdown() for row in bench.rows))
    sys.exit(0 if whole and all(row.met for row in bench.rows) else 1)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Measures what the spine of the bench claims, as ratios of interleaved pairs.

usage: spine.py [--profile debug|release] [--pairs N] [--model M] [--model-dir DIR] [PART ...]

parts (all by default):
  loop      ch02 over ch01, median offline wall of a run: at most 3 % apart
  server    client's wall minus the server's own metrics.wall_ms on loopback: median under 1 ms;
            beside it online minus offline
  bare      ch01 and ch02 over a bare loop on candle-transformers' Llama: at least 0.97
            (needs --model-dir: a Llama in Hugging Face layout, see benches/gguf_to_hf.py)
  overhead  the controller's time per run beyond model load and requests: under 200 ms;
            start of `controller --help`: under 50 ms

Everything is built by cargo in the profile that README's command uses (`debug` there has optimised
dependencies); --profile release builds that instead. Prints every pair, then medians with ranges.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def run(command, env=None):
    done = subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def spread(values):
    return f"median {statistics.median(values):.4g} (min {min(values):.4g}, max {max(values):.4g}, n {len(values)})"


class Bench:
    def __init__(self, options):
        self.options = options
        flags = ["--release"] if options.profile == "release" else []
        run(["cargo", "build", "--quiet", "--bin", "controller", "--bin", "engine", *flags])
        run(["cargo", "build", "--quiet", "--example", "bare_loop", *flags])
        self.folder = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / options.profile
        self.home = tempfile.TemporaryDirectory()
        self.env = dict(os.environ, CHAPTERBENCH_DB=f"{self.home.name}/bench.db", XDG_STATE_HOME=self.home.name)

    def controller(self, *words):
        return run([self.folder / "controller", *words], self.env)

    def runs(self, label, *words):
        """One session; gives its runs in order, each with its measured samples."""
        self.controller("run", "--model", self.options.model, "--label", label, *words)
        runs = json.loads(self.controller("runs", "export", f"label:{label}"))["runs"]
        runs.sort(key=lambda entry: entry["run"]["position"])
        for entry in runs:
            entry["samples"] = [s for s in entry["samples"] if not s["warmup"] and not s.get("error")]
        return runs

    def loop(self):
        pairs = self.options.pairs
        runs = self.runs("loop", "--chapter", "1,2", "--mode", "offline", "--repeat", str(pairs), "--n-runs", "12")
        medians = {}
        for entry in runs:
            walls = [sample["wall_ms"] for sample in entry["samples"]]
            medians[entry["run"]["block"], entry["run"]["engine"]] = statistics.median(walls)
        ratios = []
        for block in range(pairs):
            first, second = medians[block, "ch01"], medians[block, "ch02"]
            ratios.append(second / first)
            print(f"  block {block}: ch01 {first:.1f} ms, ch02 {second:.1f} ms, ratio {second / first:.4f}")
        print(f"loop: ch02 over ch01, median offline wall: {spread(ratios)}; goal 0.97 to 1.03")

    def server(self):
        words = ["--chapter", "2", "--n-runs", "30", "--repeat", str(self.options.pairs), "--mode", "both"]
        layer, online, offline = [], [], []
        for entry in self.runs("server", *words):
            walls = [sample["wall_ms"] for sample in entry["samples"]]
            if entry["run"]["status"]["spec"]["arm"]["mode"] == "online":
                layer += [sample["wall_ms"] - sample["engine_wall_ms"] for sample in entry["samples"]]
                online.append(statistics.median(walls))
            else:
                offline.append(statistics.median(walls))
        layer.sort()
        p5, p95 = layer[len(layer) // 20], layer[-1 - len(layer) // 20]
        print(f"server: client's wall minus metrics.wall_ms: {spread(layer)} ms, 5..95 %: {p5:.3f}..{p95:.3f} ms; goal under 1")
        differences = [a - b for a, b in zip(online, offline)]
        print(f"server: online minus offline, medians of runs in a block: {spread(differences)} ms")

    def bare(self):
        if not self.options.model_dir:
            print("bare: skipped, no --model-dir")
            return
        count = 32
        directory = str(pathlib.Path(self.options.model_dir).resolve())

        def chapter(number):
            # Two requests in one process would need a server: the worker's first pass is its warm-up.
            self.controller(
                "run", "--chapter", str(number), "--mode", "offline", "--model", directory, "--warmup", "1",
                "--n-runs", "2", "--max-tokens", str(count), "--ignore-eos", "--endpoint", "completions",
                "--prompt", prompt, "--label", f"bare{number}")
            runs = json.loads(self.controller("runs", "export", f"label:bare{number}"))["runs"]
            newest = max(runs, key=lambda entry: entry["run"]["run_id"])
            return statistics.median(s["wall_ms"] for s in newest["samples"] if not s["warmup"])

        prompt = "The capital of France is a city that many people know for its light, its river and its long history."
        answer = run([self.folder / "engine", "generate", prompt, "--raw", "--chapter", "2", "--model", directory,
                      "--max-tokens", str(count), "--ignore-eos", "--format", "json"])
        answer = json.loads(answer)
        ids = json.dumps(answer["input_ids"])
        ratios = {1: [], 2: []}
        for pair in range(self.options.pairs):
            for number in (1, 2):
                bare = json.loads(run([self.folder / "examples" / "bare_loop", directory, ids, str(count)]))
                if bare["output_ids"] != answer["output_ids"]:
                    sys.exit("bare: the bare loop made other tokens than ch02")
                ours = chapter(number)
                ratios[number].append(bare["wall_ms"] / ours)
                print(f"  pair {pair}: bare {bare['wall_ms']:.0f} ms, ch0{number} {ours:.0f} ms, speed {bare['wall_ms'] / ours:.3f}")
        for number, values in ratios.items():
            print(f"bare: speed of ch0{number} over a bare candle loop: {spread(values)}; goal at least 0.97")

    def overhead(self):
        extra = []
        for _ in range(self.options.pairs):
            started = time.monotonic()
            self.controller("run", "--chapter", "fake", "--mode", "online", "--n-runs", "1", "--warmup", "0",
                            "--label", "overhead")
            whole = (time.monotonic() - started) * 1000
            runs = json.loads(self.controller("runs", "export", "label:overhead"))["runs"]
            newest = max(runs, key=lambda entry: entry["run"]["run_id"])
            life = newest["run"]["status"]["lifecycle"]
            requests = sum(sample["wall_ms"] for sample in newest["samples"])
            extra.append(whole - life["ready_ms"] - life["stop_ms"] - requests)
        print(f"overhead: a whole `controller run` less ready, requests, stop: {spread(extra)} ms; goal under 200")
        starts = []
        for _ in range(max(self.options.pairs, 20)):
            started = time.monotonic()
            self.controller("--help")
            starts.append((time.monotonic() - started) * 1000)
        print(f"overhead: controller --help: {spread(starts)} ms; goal under 50")


def main():
    parts = ["loop", "server", "bare", "overhead"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", choices=["debug", "release"], default="debug")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--model", default="dummy:tiny-llm")
    parser.add_argument("--model-dir")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(parts)} [default: all]")
    options = parser.parse_args()
    for part in options.parts:
        if part not in parts:
            parser.error(f"no part {part}; there are {', '.join(parts)}")
    bench = Bench(options)
    for part in options.parts or parts:
        print(f"-- {part}", flush=True)
        getattr(bench, part)()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Measures memory: that it does not grow over many requests, and what a loaded model takes.

usage: soak.py [--chapters 4,9] [--model M] [--model-dir DIR] [--requests N] [--users N] [--threads N]
               [--profile debug|release] [--no-build] [PART ...]

parts (all by default):
  offline  N requests (default 10,000), 8 submitted together, by engine/examples/chapter_speed.rs
  server   N requests to `engine serve` by so many users at once; some streams are left in the
           middle
           both: resident memory after all requests at most 2 % and 4 MiB above that after a tenth
  memory   resident memory of f32 weights in ch04 (--model-dir: a Llama in Hugging Face layout): after
           loading under 1.15 of the weights, at its peak, after a prompt of 512 tokens and an answer of
           64, under 1.3 of weights, keys and values. Nothing is counted that those tokens do not need,
           such as room for longer contexts

--model is what `offline` and `server` run, dummy:tiny-llm if none is named; a larger one needs fewer
--requests. Prints a line each tenth of the way; exit code 1 if a bound was missed.
"""

import argparse
import http.client
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

from driven import ROOT, Driver, Failed, build, memory_bytes

PARTS = ["offline", "server", "memory"]
ROWS = 8
LOOKS = 10
GROWTH_SHARE, GROWTH_BYTES = 0.02, 4 << 20
LOADED_MAX, PEAK_MAX = 1.15, 1.3
PROMPT_TOKENS, NEW_TOKENS = 512, 64
# Ids that every model has and that no text needs.
ID_MIN, ID_MAX = 10, 250
REQUEST_LIMIT_S = 120
STOP_LIMIT_S = 30
READY_LIMIT_S = 60
# One in so many streams is left after its first piece.
LEAVE_EVERY = 10


def mib(size):
    return f"{size / 2**20:.1f} MiB"


class Growth:
    """Resident memory at each tenth of the way."""

    def __init__(self, name, requests):
        self.name, self.requests, self.looks = name, requests, []

    def look(self, made, pid):
        if made >= (len(self.looks) + 1) * self.requests // LOOKS:
            self.looks.append(memory_bytes(pid, "VmRSS"))
            print(f"  {self.name}: {made} requests, {mib(self.looks[-1])}", flush=True)

    def holds(self):
        first, last = self.looks[0], self.looks[-1]
        bound = first * (1 + GROWTH_SHARE) + GROWTH_BYTES
        word = "holds" if last <= bound else "MISSES"
        print(f"{self.name}: {mib(first)} after a tenth, {mib(last)} after {self.requests} requests; "
              f"{word} at most {mib(bound)}")
        return last <= bound


class Soak:
    def __init__(self, options):
        self.options = options
        self.home = tempfile.TemporaryDirectory()
        target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
        self.programs = target / options.profile if options.no_build else build(options.profile, "--bins", "--examples")

    def words(self, chapter, model):
        return ["--chapter", chapter, "--model", model, "--dtype", "f32", "--threads", str(self.options.threads)]

    # -- offline -----------------------------------------------------------------------------------

    def offline(self):
        return all([self.offline_chapter(chapter) for chapter in self.options.chapters])

    def offline_chapter(self, chapter):
        draw = random.Random(0)
        command = [self.programs / "examples/chapter_speed", *self.words(chapter, self.options.model)]
        driver = Driver(f"offline-{chapter}", command, self.home.name)
        growth = Growth(f"offline ch{chapter:0>2}", self.options.requests)
        made = 0
        while made < self.options.requests:
            prompts = [[draw.randint(ID_MIN, ID_MAX) for _ in range(draw.randint(1, 48))] for _ in range(ROWS)]
            driver.ask(prompts, draw.randint(1, 8))
            made += ROWS
            growth.look(made, driver.process.pid)
        driver.close()
        return growth.holds()

    # -- server ------------------------------------------------------------------------------------

    def server(self):
        return all([self.server_chapter(chapter) for chapter in self.options.chapters])

    def server_chapter(self, chapter):
        command = [self.programs / "engine", "serve", "--port", "0", *self.words(chapter, self.options.model)]
        log = pathlib.Path(self.home.name) / f"serve-{chapter}.log"
        with log.open("wb") as said:
            process = subprocess.Popen([str(word) for word in command], stdout=said, stderr=subprocess.PIPE)
        try:
            line = process.stderr.readline().decode()
            if "http://" not in line:
                raise Failed(f"the server did not start: {line.strip()}")
            # What else it says must not fill the pipe.
            threading.Thread(target=process.stderr.read, daemon=True).start()
            host = urllib.parse.urlsplit("http://" + line.split("http://")[1].split()[0]).netloc
            wait_until_ready(host)
            return Users(host, process.pid, Growth(f"server ch{chapter:0>2}", self.options.requests),
                         self.options).drive()
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    # -- memory ------------------------------------------------------------------------------------

    def memory(self):
        if not self.options.model_dir:
            print("memory: left out, no --model-dir")
            return True
        directory = pathlib.Path(self.options.model_dir).resolve()
        weights, position = sizes(directory)
        command = [self.programs / "examples/chapter_speed", *self.words("4", str(directory))]
        driver = Driver("memory", command, self.home.name)
        pid = driver.process.pid
        loaded = driver.ready["rss_bytes"]
        driver.ask([[ID_MIN + at % (ID_MAX - ID_MIN) for at in range(PROMPT_TOKENS)]], NEW_TOKENS)
        after, peak = memory_bytes(pid, "VmRSS"), memory_bytes(pid, "VmHWM")
        driver.close()
        positions = PROMPT_TOKENS + NEW_TOKENS
        needed = weights + positions * position
        print(f"  ch04: weights {mib(weights)}, keys and values of {positions} positions {mib(positions * position)}; "
              f"loaded {mib(loaded)} (its peak {mib(driver.ready['rss_peak_bytes'])}), after a request {mib(after)}, "
              f"peak {mib(peak)}")
        held = loaded < LOADED_MAX * weights and peak < PEAK_MAX * needed
        print(f"memory: after loading {loaded / weights:.3f} of the weights, goal under {LOADED_MAX}; after a request "
              f"{after / needed:.3f} and at its peak {peak / needed:.3f} of weights, keys and values, goal under "
              f"{PEAK_MAX}: {'holds' if held else 'MISSES'}")
        return held


class Users:
    """A closed loop of users at one server, until all requests are made."""

    def __init__(self, host, pid, growth, options):
        self.host, self.pid, self.growth, self.options = host, pid, growth, options
        self.lock = threading.Lock()
        self.sent, self.made, self.failures = 0, 0, []

    def drive(self):
        threads = [threading.Thread(target=self.user, args=(number,)) for number in range(self.options.users)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.failures:
            raise Failed(f"{len(self.failures)} requests failed; the first: {self.failures[0]}")
        return self.growth.holds()

    def user(self, number):
        draw = random.Random(number)
        connection = http.client.HTTPConnection(self.host, timeout=REQUEST_LIMIT_S)
        while not self.failures:
            with self.lock:
                if self.sent >= self.options.requests:
                    return
                self.sent += 1
                turn = self.sent
            try:
                self.request(connection, draw, turn)
            except (OSError, http.client.HTTPException, ValueError) as error:
                self.failures.append(repr(error))
            with self.lock:
                self.made += 1
                self.growth.look(self.made, self.pid)

    def request(self, connection, draw, turn):
        """A stream for every second one; some are left, as a client that goes away leaves them."""
        words = " ".join(draw.choice("once upon a time there was an engine".split()) for _ in range(draw.randint(1, 24)))
        stream = turn % 2 == 0
        body = {"model": "default", "prompt": words, "max_tokens": draw.randint(2, 8), "ignore_eos": True,
                "stream": stream}
        connection.request("POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"})
        answer = connection.getresponse()
        if answer.status != 200:
            raise ValueError(f"{answer.status}: {answer.read()[:200]}")
        if stream and turn % LEAVE_EVERY == 0:
            answer.readline()
            connection.close()
            return
        said = answer.read()
        if stream and b"[DONE]" not in said:
            raise ValueError(f"a stream that did not end: {said[-200:]}")


def wait_until_ready(host):
    """Returns when /health answers 200."""
    until = time.monotonic() + READY_LIMIT_S
    while time.monotonic() < until:
        connection = http.client.HTTPConnection(host, timeout=READY_LIMIT_S)
        connection.request("GET", "/health")
        answer = connection.getresponse()
        said = answer.read()
        connection.close()
        if answer.status == 200:
            return
        if b"failed" in said:
            break
        time.sleep(0.1)
    raise Failed(f"the server is not ready: {said.decode(errors='replace')}")


def sizes(directory):
    """Bytes of all weights as f32, and of one position's keys and values."""
    weights = 0
    for file in directory.glob("*.safetensors"):
        with file.open("rb") as opened:
            head = json.loads(opened.read(int.from_bytes(opened.read(8), "little")))
        for name, tensor in head.items():
            if name == "__metadata__":
                continue
            count = 1
            for size in tensor["shape"]:
                count *= size
            weights += 4 * count
    config = json.loads((directory / "config.json").read_text())
    heads = config["num_attention_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    return weights, 2 * 4 * config["num_hidden_layers"] * config.get("num_key_value_heads", heads) * head_dim


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chapters", type=lambda words: words.split(","), default=["4", "9"])
    parser.add_argument("--model", default="dummy:tiny-llm")
    parser.add_argument("--model-dir")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--users", type=int, default=16)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--profile", choices=["debug", "release"], default="debug")
    parser.add_argument("--no-build", action="store_true", help="measure what lies in the target folder")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)} [default: all]")
    options = parser.parse_args()
    for part in options.parts:
        if part not in PARTS:
            parser.error(f"no part {part}; there are {', '.join(PARTS)}")
    soak = Soak(options)
    held = True
    for part in options.parts or PARTS:
        print(f"-- {part}", flush=True)
        try:
            held &= getattr(soak, part)()
        except Failed as failed:
            held = False
            print(f"{part}: FAILED: {failed}", flush=True)
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()

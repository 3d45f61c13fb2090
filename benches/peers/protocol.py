"""The lines that a peer's driver speaks: those of engine/examples/chapter_speed.rs, which says what
each figure means."""

import json
import pathlib
import sys
import time


def memory(field):
    """A size of this process in bytes, as the kernel counts it."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return None


def say(**line):
    print(json.dumps(line), flush=True)


def serve(load_started, prepare, forward, greedy):
    """Answers the lines on stdin.

    load_started: the monotonic time at which loading began
    prepare(prompts, new_tokens): makes room and empties the cache, outside the times
    forward(ids): runs a list of ids for each row; `greedy` makes token ids, one a row, of what it gives
    """
    say(load_ms=(time.monotonic() - load_started) * 1e3, rss_bytes=memory("VmRSS"), rss_peak_bytes=memory("VmHWM"))
    for line in sys.stdin:
        ask = json.loads(line)
        prompts, new_tokens = ask["prompts"], ask["new_tokens"]
        prepare(prompts, new_tokens)
        started = time.perf_counter()
        tokens = greedy(forward(prompts))
        first = time.perf_counter()
        made = [tokens]
        for _ in range(new_tokens - 1):
            tokens = greedy(forward([[token] for token in tokens]))
            made.append(tokens)
        ended = time.perf_counter()
        after_first = len(prompts) * (new_tokens - 1)
        say(ttft_ms=(first - started) * 1e3, decode_tok_per_s=after_first / (ended - first) if after_first else None,
            wall_ms=(ended - started) * 1e3, output_ids=[list(row) for row in zip(*made)])

#!/usr/bin/env python3
"""Measures what the load generator claims about itself: truth, cost, memory; peers beside it.

usage: client.py [--profile debug|release] [--reps N] [--peers DIR --tokenizer DIR] [--other CMD]
                 [--loads a,b,c] [--clients load,floor,...] [truth] [memory]

truth (default)
    Each client puts the same load on a fresh metronome (`agent engine metronome`: a server on a
    known schedule, TTFT 50 ms, ITL 10 ms, 100 tokens, which logs the kernel's receipt of each
    request and each write), interleaved, on the same cores.
    loads   a: 1 stream x 30 requests   b: 64 x 640   c: 1000 x 2000
    clients load      our load generator (agent/examples/load.rs)
            run       the whole product: `controller run --url`, its built-in agent, store and all
            floor     the least a client can do (agent/examples/floor.rs): the machine's own floor
            guidellm, aiperf   from virtual environments DIR/guidellm and DIR/aiperf
            other     any command; {url} {host} {streams} {requests} {tokens} {rows} are put in. It may
                      write rows (NDJSON: id, sent_ns, first_ns, gaps_ns) to {rows}
    Error of TTFT: what the client says less (first content's write - kernel's receipt), per request
    where the client knows the id that the answer carries (median, and 99th percentile of its size),
    else quantile less quantile (marked ~). Error of gaps: median less median.
    CPU: user + system of the client's process tree between first receipt and last write, per 1000
    tokens. In flight: mean over that window, of what was asked.
memory
    1000 streams x 100,000 short answers by the agent and by the controller: peak resident memory.
"""

import argparse
import json
import os
import pathlib
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOADS = {"a": (1, 30), "b": (64, 640), "c": (1000, 2000)}
TOKENS = 100
OURS = ("load", "run", "floor")
PROMPT = " ".join(["word"] * 32)
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
# A client that has not ended by then is ended: guidellm needs 40 s for load c.
CLIENT_LIMIT_S = 300
# Goals by load: TTFT error (median, p99), gap error in ms; in flight; CPU ms per 1000 tokens; MB.
GOALS = {
    "a": {"ttft_p50": 0.5, "ttft_p99": 3.0, "gap": 0.1},
    "b": {"ttft_p50": 0.5, "ttft_p99": 3.0, "gap": 0.1, "in_flight": 0.975, "cpu": 13.0},
    "c": {"ttft_p50": 0.5, "ttft_p99": 3.0, "gap": 0.1, "in_flight": 0.975, "cpu": 8.5, "rss": 60.0},
}


def quantile(values, q):
    """Linear between neighbours, as numpy does it."""
    values = sorted(values)
    if not values:
        return None
    at = q * (len(values) - 1)
    low, high = values[int(at)], values[min(int(at) + 1, len(values) - 1)]
    return low + (high - low) * (at - int(at))


class Tree:
    """A process and its descendants, looked at until it ends: CPU time and memory over time."""

    def __init__(self, process, every_s):
        self.process, self.every_s = process, every_s
        self.cpu_s, self.points, self.rss_bytes = {}, [], 0
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()

    def watch(self):
        while self.process.poll() is None:
            self.look()
            time.sleep(self.every_s)

    def look(self):
        rss, open_pids = 0, [self.process.pid]
        while open_pids:
            pid = open_pids.pop()
            try:
                stat = pathlib.Path(f"/proc/{pid}/stat").read_bytes().rsplit(b")", 1)[1].split()
                tasks = os.listdir(f"/proc/{pid}/task")
                for task in tasks:
                    children = pathlib.Path(f"/proc/{pid}/task/{task}/children").read_text()
                    open_pids.extend(map(int, children.split()))
            except (OSError, IndexError):
                continue
            # What has ended keeps what it used; what it reaped is seen on its own.
            self.cpu_s[pid] = (int(stat[11]) + int(stat[12])) / TICKS_PER_S
            rss += int(stat[21]) * PAGE
        self.rss_bytes = max(self.rss_bytes, rss)
        self.points.append((time.monotonic(), sum(self.cpu_s.values())))

    def cpu_at(self, at_s):
        """CPU time used until then; linear between two looks."""
        before = (0.0, 0.0)
        for point in self.points:
            if point[0] >= at_s:
                span = point[0] - before[0]
                share = (at_s - before[0]) / span if before[0] and span else 1.0
                return before[1] + (point[1] - before[1]) * share
            before = point
        return before[1]


class Metronome:
    """A fresh server and, after `stop`, its log."""

    def __init__(self, bench, *flags):
        self.file = bench.folder / "metronome.ndjson"
        command = [bench.bin / "agent", "engine", "metronome", "--log", self.file, *map(str, flags)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        line = self.process.stderr.readline()
        if "http://" not in line:
            sys.exit(f"the metronome did not start: {line}")
        self.url = "http://" + line.split("http://")[1].strip()
        asked = time.monotonic()
        with urllib.request.urlopen(self.url + "/health") as answer:
            now_ns = json.load(answer)["now_ns"]
        # Between our clock and the log's: half the time of the question.
        self.offset_s = (asked + time.monotonic()) / 2 - now_ns / 1e9

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)
        self.process.stderr.close()
        return [json.loads(line) for line in self.file.open()]


class Bench:
    def __init__(self, options):
        self.options = options
        flags = ["--release"] if options.profile == "release" else []
        if not options.no_build:
            subprocess.run(["cargo", "build", "--quiet", "--workspace", "--bins", "--examples", *flags], cwd=ROOT, check=True)
        self.bin = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / options.profile
        self.home = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.home.name)
        self.env = dict(os.environ, CHAPTERBENCH_DB=f"{self.folder}/bench.db", XDG_STATE_HOME=str(self.folder),
                        XDG_CONFIG_HOME=str(self.folder), CHAPTERBENCH_LOCK_DIR=f"{self.folder}/locks")

    # -- clients: the command of one load, then its rows -------------------------------------------

    def command(self, client, url, streams, requests):
        host, rows = url.removeprefix("http://"), self.folder / "rows.ndjson"
        words = [str(word) for word in (streams, requests, TOKENS, rows)]
        peer = self.options.peers and pathlib.Path(self.options.peers) / client / "bin" / client
        env = dict(self.env)
        if client == "load":
            command = [self.bin / "examples/load", url, *words]
        elif client == "floor":
            command = [self.bin / "examples/floor", host, *words]
        elif client == "run":
            # The warm-up is as large as the concurrency, and a part of the load.
            command = [self.bin / "controller", "run", "--url", url, "--endpoint", "chat",
                       "--concurrency", str(streams), "--warmup", str(streams), "--n-runs", str(requests - streams),
                       "--max-tokens", str(TOKENS), "--prompt", PROMPT, "--label", "client"]
        elif client == "guidellm":
            env.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1")
            command = [peer, "run", "--backend",
                       f"kind=openai_http,target={url},model=metronome,request_format=/v1/chat/completions",
                       "--tokenizer", f"kind=huggingface_auto,model={self.options.tokenizer}",
                       "--data", f"kind=synthetic_text,prompt_tokens=32,output_tokens={TOKENS}",
                       "--profile", f"kind=concurrent,streams={streams}",
                       "--constraint", f"kind=max_requests,count={requests}", "--seed", "kind=static,value=7",
                       "--output", f"kind=json,path={self.folder}/guidellm.json", "--disable-console-interactive"]
        elif client == "aiperf":
            shutil.rmtree(self.folder / "aiperf", ignore_errors=True)
            command = [peer, "profile", "--model", "metronome", "--url", url, "--endpoint-type", "chat", "--streaming",
                       "--tokenizer", self.options.tokenizer, "--concurrency", streams, "--request-count", requests,
                       "--isl", 32, "--isl-stddev", 0, "--osl", TOKENS, "--osl-stddev", 0,
                       "--extra-inputs", "ignore_eos:true", "--random-seed", 7, "--use-server-token-count",
                       "--ui", "none", "--no-gpu-telemetry", "--no-server-metrics",
                       "--artifact-dir", self.folder / "aiperf"]
        else:
            values = dict(url=url, host=host, streams=streams, requests=requests, tokens=TOKENS, rows=rows)
            command = shlex.split(self.options.other.format(**values))
        return [str(word) for word in command], env

    def rows(self, client):
        """What the client says: a list of {id or None, ttft (ms), gaps (ms) or itl (ms)}."""
        if client == "run":
            exported = json.loads(subprocess.run([self.bin / "controller", "runs", "export", "label:client"],
                                                 env=self.env, stdout=subprocess.PIPE, check=True).stdout)
            newest = max(exported["runs"], key=lambda entry: entry["run"]["run_id"])
            return [exported_row(sample) for sample in newest["samples"] if not sample.get("error")]
        if client == "guidellm":
            report = json.load(open(self.folder / "guidellm.json"))
            requests = report["benchmarks"][0]["requests"]["successful"]
            return [dict(id=None, ttft=r["time_to_first_token_ms"], itl=r["inter_token_latency_ms"]) for r in requests]
        if client == "aiperf":
            lines = [json.loads(line) for line in open(self.folder / "aiperf/profile_export.jsonl")]
            metrics = [line["metrics"] for line in lines if line.get("metrics")]
            return [dict(id=None, ttft=m["time_to_first_token"]["value"], gaps=m["inter_chunk_latency"]["value"])
                    for m in metrics if "time_to_first_token" in m]
        file = self.folder / "rows.ndjson"
        rows = [json.loads(line) for line in file.open()] if file.exists() else []
        return [dict(id=row.get("id"), ttft=(row["first_ns"] - row["sent_ns"]) / 1e6,
                     gaps=[gap / 1e6 for gap in row["gaps_ns"]])
                for row in rows if not row.get("error") and row["first_ns"]]

    # -- one client, one load, once ----------------------------------------------------------------

    def measure(self, client, load):
        streams, requests = LOADS[load]
        server = Metronome(self)
        command, env = self.command(client, server.url, streams, requests)
        (self.folder / "rows.ndjson").unlink(missing_ok=True)
        said = open(self.folder / "client.log", "w+")
        process = subprocess.Popen(command, cwd=self.folder, env=env, stdout=said, stderr=said)
        tree = Tree(process, 0.02 if client in OURS else 0.1)
        try:
            code = process.wait(CLIENT_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            code = f"over {CLIENT_LIMIT_S} s"
        tree.thread.join()
        log = server.stop()
        if code != 0 or not log:
            said.seek(0)
            print(f"  {client} {load}: failed ({code}): {said.read()[-400:].strip()}")
            return None
        return figures(self.rows(client), log, tree, server.offset_s, streams, requests)

    def truth(self):
        clients = self.options.clients or ["load", "run", "floor"]
        if not self.options.clients:
            clients += ["guidellm", "aiperf"] * bool(self.options.peers) + ["other"] * bool(self.options.other)
        found = {}
        for rep in range(self.options.reps):
            for load in self.options.loads:
                # Another order each time, so that nobody always comes after the same one.
                for place in range(len(clients)):
                    client = clients[(place + rep) % len(clients)]
                    if client not in OURS and rep >= self.options.peer_reps:
                        continue
                    one = self.measure(client, load)
                    if one:
                        found.setdefault((load, client), []).append(one)
                        if self.options.verbose:
                            print(f"  {rep} {load} {line(client, [one], None)}", flush=True)
        for load in self.options.loads:
            show(load, {client: found[load, client] for client in clients if (load, client) in found})

    def memory(self):
        streams, requests = 1000, 100_000
        flags = ["--ttft", "5", "--itl", "1", "--tokens", "5"]
        for what in ("agent", "controller"):
            server = Metronome(self, *flags)
            words = ["run", "--url", server.url, "--endpoint", "chat", "--concurrency", streams,
                     "--n-runs", requests, "--max-tokens", 5, "--prompt", PROMPT, "--label", "memory"]
            agent = None
            if what == "agent":
                agent = subprocess.Popen([self.bin / "agent", "--listen", "127.0.0.1:0"], env=self.env,
                                         stderr=subprocess.PIPE, text=True)
                url = agent.stderr.readline().split("listens on ")[1].strip()
                subprocess.run([self.bin / "controller", "agents", "add", "bench", url], env=self.env, check=True,
                               stdout=subprocess.DEVNULL)
                words += ["--agent", "bench"]
            begun = time.monotonic()
            done = subprocess.Popen([str(word) for word in [self.bin / "controller", *words]], env=self.env,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            watched = Tree(agent or done, 0.05)
            errors = done.communicate()[1]
            if agent:
                agent.send_signal(signal.SIGTERM)
                agent.wait(30)
            watched.thread.join()
            served = len(server.stop())
            print(f"memory: {what}: {streams} streams x {requests} requests in {time.monotonic() - begun:.0f} s, "
                  f"{served} answered, exit {done.returncode}: peak {watched.rss_bytes / 1e6:.0f} MB; goal under 300")
            if done.returncode:
                print(f"  {errors[-400:].strip()}")


def exported_row(sample):
    """A sample of `runs export`: instants, and the id in its text. Its gaps are compressed; their mean is not."""
    words = (sample.get("text") or "").split()
    gaps = max((sample.get("output_tokens") or 1) - 1, 1)
    return dict(id=int(words[0]) if words else None, ttft=sample["ttft_ms"],
                itl=(sample["last_content_ns"] - sample["first_content_ns"]) / 1e6 / gaps)


def figures(rows, log, tree, offset_s, streams, requests):
    """One run of one client against the log of its server."""
    known = {row["id"] for row in rows} - {None}
    if known:
        # What else came, such as a look at the server before the load, is no part of it.
        log = [entry for entry in log if entry["id"] in known]
    truth = {entry["id"]: (entry["first_ns"] - entry["received_ns"]) / 1e6 for entry in log}
    rows = [row for row in rows if row["ttft"] is not None]
    matched = [row["ttft"] - truth[row["id"]] for row in rows if row["id"] in truth]
    if matched:
        ttft_p50 = quantile(matched, 0.5)
        ttft_p99 = quantile([abs(error) for error in matched], 0.99)
    elif rows:
        said = [row["ttft"] for row in rows]
        ttft_p50, ttft_p99 = (quantile(said, q) - quantile(truth.values(), q) for q in (0.5, 0.99))
    else:
        ttft_p50 = ttft_p99 = None
    if rows and rows[0].get("gaps") is not None:
        gaps = quantile([gap for row in rows for gap in row["gaps"]], 0.5)
        gap = gaps - quantile([gap / 1e6 for entry in log for gap in entry["gaps_ns"]], 0.5)
    elif rows:
        means = [statistics.fmean(entry["gaps_ns"]) / 1e6 for entry in log if entry["gaps_ns"]]
        gap = quantile([row["itl"] for row in rows if row["itl"] is not None], 0.5) - quantile(means, 0.5)
    else:
        gap = None
    received = sorted(entry["received_ns"] for entry in log)
    first_ns, last_ns = received[0], max(entry["end_ns"] for entry in log)
    tokens = sum(len(entry["gaps_ns"]) + 1 for entry in log)
    cpu_s = tree.cpu_at(last_ns / 1e9 + offset_s) - tree.cpu_at(first_ns / 1e9 + offset_s)
    in_flight_ns = sum(entry["end_ns"] - entry["received_ns"] for entry in log)
    return dict(
        ttft_p50=ttft_p50, ttft_p99=ttft_p99, gap=gap, matched=bool(matched),
        true_p50=quantile(truth.values(), 0.5), true_p99=quantile(truth.values(), 0.99),
        wave=(received[min(streams, len(received)) - 1] - first_ns) / 1e6,
        in_flight=in_flight_ns / (last_ns - first_ns) / streams,
        cpu=cpu_s * 1e6 / tokens, cpu_all=sum(tree.cpu_s.values()) * 1e6 / tokens,
        rss=tree.rss_bytes / 1e6, lost=requests - (len(rows) if rows else len(log)))


def median(runs, key):
    values = [run[key] for run in runs if run[key] is not None]
    return statistics.median(values) if values else None


def line(client, runs, floor):
    def cell(key, form):
        value = median(runs, key)
        return "-" if value is None else format(value, form)

    mark = "" if runs[0]["matched"] else "~"
    cpu = median(runs, "cpu")
    ratio = f"{cpu / floor:.2f}" if floor else "-"
    low, high = min(run["cpu"] for run in runs), max(run["cpu"] for run in runs)
    return (f"{client:9} {mark + cell('ttft_p50', '.2f'):>9} {mark + cell('ttft_p99', '.2f'):>9} {cell('gap', '+.3f'):>8} "
            f"{cell('wave', '.1f'):>8} {100 * median(runs, 'in_flight'):>7.1f}% {cpu:>7.2f} [{low:.2f}..{high:.2f}] "
            f"{ratio:>6} {cell('cpu_all', '.1f'):>7} {cell('rss', '.0f'):>6} {sum(run['lost'] for run in runs):>5} {len(runs):>4}")


def show(load, found):
    streams, requests = LOADS[load]
    if not found:
        return
    true = next(iter(found.values()))
    print(f"\n{load}: {streams} streams x {requests} requests; the server's own TTFT in the first client's runs: "
          f"{median(true, 'true_p50'):.1f} / {median(true, 'true_p99'):.1f} ms (p50 / p99)")
    print(f"{'client':9} {'TTFT p50':>9} {'err p99':>9} {'gap err':>8} {'wave ms':>8} {'flight':>8} "
          f"{'CPU ms / 1000 tokens':>22} {'/floor':>6} {'all in':>7} {'MB':>6} {'lost':>5} {'runs':>4}")
    floor = median(found["floor"], "cpu") if "floor" in found else None
    for client, runs in found.items():
        print(line(client, runs, floor))
    for client in ("load", "run"):
        if client in found:
            print(f"{client}: " + ", ".join(goals(load, found[client])))


def goals(load, runs):
    for key, goal in GOALS[load].items():
        value = median(runs, key)
        held = value is not None and (value >= goal if key == "in_flight" else abs(value) <= goal)
        yield f"{key} {value:.3g} {'holds' if held else 'MISSES'} {goal:g}" if value is not None else f"{key} unknown"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", choices=["debug", "release"], default="debug")
    parser.add_argument("--no-build", action="store_true", help="measure what lies in the target folder")
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--peer-reps", type=int, default=2)
    parser.add_argument("--peers")
    parser.add_argument("--tokenizer", help="folder with tokenizer.json, for the peers")
    parser.add_argument("--other")
    parser.add_argument("--loads", type=lambda text: text.split(","), default=list(LOADS))
    parser.add_argument("--clients", type=lambda text: text.split(","))
    parser.add_argument("--verbose", action="store_true", help="a line for each run")
    parser.add_argument("parts", nargs="*", choices=["truth", "memory", []])
    options = parser.parse_args()
    if options.peers and not options.tokenizer:
        parser.error("--peers needs --tokenizer DIR")
    bench = Bench(options)
    print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}, profile {options.profile}, {time.strftime('%F %H:%M')}")
    for part in options.parts or ["truth"]:
        getattr(bench, part)()


if __name__ == "__main__":
    main()

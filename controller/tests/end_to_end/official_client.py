"""Asks llama-cpp-python's server by the official client, streamed and whole.

Arguments: a python with llama-cpp-python, a model, a prompt, a number of tokens. Prints the SHA-256 of
each answer's text, the texts themselves to stderr.
"""

import hashlib
import socket
import subprocess
import sys
import time

import openai

PATIENCE_S = 120


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait(client, server):
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return client.models.list().data[0].id
        except openai.APIConnectionError:
            if server.poll() is not None or time.monotonic() > deadline:
                sys.exit("the server did not come up")
            time.sleep(0.2)


def main():
    python, model, prompt, max_tokens = sys.argv[1:]
    port = free_port()
    command = [python, "-m", "llama_cpp.server", "--model", model, "--port", str(port)]
    command += ["--n_threads", "2", "--n_threads_batch", "2", "--n_ctx", "4096"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0)
        asked = {
            "model": wait(client, server),
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": int(max_tokens),
            "temperature": 0,
        }
        chunks = client.chat.completions.create(**asked, stream=True)
        streamed = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        whole = client.chat.completions.create(**asked).choices[0].message.content
        for text in (streamed, whole):
            print(hashlib.sha256(text.encode()).hexdigest())
            print(repr(text), file=sys.stderr)
    finally:
        server.terminate()
        server.wait(timeout=PATIENCE_S)


main()

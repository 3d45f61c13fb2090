"""Drives a server (argument: its base URL) with the official `openai` client; fails by an assertion."""

import math
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key="none", max_retries=0, timeout=60)
MESSAGES = [{"role": "user", "content": "Hello"}]


def chat():
    answer = client.chat.completions.create(model="default", messages=MESSAGES, max_tokens=8)
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.completion_tokens == 8
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 8
    return answer.choices[0].message.content


def chat_streamed():
    stream = client.chat.completions.create(
        model="default", messages=MESSAGES, max_tokens=8, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == 8
    assert chunks[-2].choices[0].finish_reason == "length"
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def completion():
    answer = client.completions.create(model="default", prompt="Hello", max_tokens=8)
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.completion_tokens == 8
    return answer.choices[0].text


def completion_streamed():
    stream = client.completions.create(
        model="default", prompt="Hello", max_tokens=8, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == 8
    return "".join(chunk.choices[0].text for chunk in chunks if chunk.choices)


def chat_logprobs():
    request = dict(model="default", messages=MESSAGES, max_tokens=8, logprobs=True, top_logprobs=3)
    answer = client.chat.completions.create(**request)
    content = answer.choices[0].logprobs.content
    assert len(content) == answer.usage.completion_tokens == 8
    for token in content:
        assert token.logprob <= 0 and len(token.top_logprobs) == 3
        tops = [top.logprob for top in token.top_logprobs]
        assert tops == sorted(tops, reverse=True) and sum(math.exp(top) for top in tops) <= 1.000001
        assert token.logprob == tops[0], "greedy takes the best"
    assert b"".join(bytes(token.bytes) for token in content).decode() == answer.choices[0].message.content
    chunks = list(client.chat.completions.create(**request, stream=True))
    streamed = []
    for chunk in chunks:
        choice = chunk.choices[0]
        if choice.logprobs is not None:
            streamed += choice.logprobs.content
    assert streamed == content


def completion_logprobs():
    request = dict(model="default", prompt="Hello", max_tokens=8, logprobs=2)
    answer = client.completions.create(**request)
    logprobs, text = answer.choices[0].logprobs, answer.choices[0].text
    assert "".join(logprobs.tokens) == text and len(logprobs.tokens) == 8
    for token, logprob, top, offset in zip(
        logprobs.tokens, logprobs.token_logprobs, logprobs.top_logprobs, logprobs.text_offset, strict=True
    ):
        assert top[token] == logprob == max(top.values()) and len(top) == 2
        assert text[offset:].startswith(token)
    streamed = [chunk.choices[0].logprobs for chunk in client.completions.create(**request, stream=True)]
    for field in ["tokens", "token_logprobs", "top_logprobs", "text_offset"]:
        assert sum((getattr(part, field) for part in streamed if part), []) == getattr(logprobs, field), field


def stop_string():
    whole = completion()
    stop = whole[3:6]
    request = dict(model="default", prompt="Hello", max_tokens=8, stop=["never in there", stop])
    answer = client.completions.create(**request)
    assert answer.choices[0].text == whole[: whole.index(stop)]
    assert answer.choices[0].finish_reason == "stop"
    chunks = list(client.completions.create(**request, stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == answer.choices[0].text
    assert chunks[-1].choices[0].finish_reason == "stop"


def penalties_and_bias():
    def ids(**request):
        extra = {"return_token_ids": True, **request.pop("extra", {})}
        answer = client.completions.create(
            model="default", prompt="Hello", max_tokens=40, extra_body=extra, **request
        )
        return answer.token_ids

    plain = ids()
    assert ids(logit_bias={"1000": 100}) == [1000] * 40
    assert plain[0] not in ids(logit_bias={str(plain[0]): -100})
    assert ids(presence_penalty=-2) != plain
    assert ids(frequency_penalty=-2) != plain
    assert ids(temperature=1.5, seed=5, extra={"min_p": 1.0}) == plain
    assert ids(extra={"repetition_penalty": 5.0}) != plain


def raises(kind, param, **request):
    try:
        client.chat.completions.create(**{"model": "default", "messages": MESSAGES, **request})
    except kind as error:
        assert error.param == param, (error.param, param)
        assert error.message
        return
    raise AssertionError(f"{request} was taken")


assert chat() == chat_streamed() != ""
assert completion() == completion_streamed() != ""
chat_logprobs()
completion_logprobs()
stop_string()
penalties_and_bias()
raises(openai.BadRequestError, "max_tokens", max_tokens=-1)
raises(openai.BadRequestError, "max_tokens", max_tokens=10_000_000)
raises(openai.BadRequestError, "n", n=2)
raises(openai.BadRequestError, "stop", stop=[""], stream=True)
raises(openai.BadRequestError, "top_logprobs", logprobs=True, top_logprobs=21)
raises(openai.NotFoundError, "model", model="gpt-4")
assert [model.id for model in client.models.list()] == ["dummy:tiny-llm"]
assert client.models.retrieve("dummy:tiny-llm").id == "dummy:tiny-llm"
print("all well")

"""Drives a server (argument: its base URL) with the official `openai` client; fails by an assertion."""

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
raises(openai.BadRequestError, "max_tokens", max_tokens=-1)
raises(openai.BadRequestError, "max_tokens", max_tokens=10_000_000)
raises(openai.BadRequestError, "n", n=2)
raises(openai.BadRequestError, "stop", stop=["\n"], stream=True)
raises(openai.NotFoundError, "model", model="gpt-4")
assert [model.id for model in client.models.list()] == ["dummy:tiny-llm"]
assert client.models.retrieve("dummy:tiny-llm").id == "dummy:tiny-llm"
print("all well")

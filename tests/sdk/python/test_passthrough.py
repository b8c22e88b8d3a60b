"""What one base URL serves beside responses: models, chat completions, embeddings."""

import openai
import pytest


def test_models(client):
    ids = [model.id for model in client.models.list()]
    assert "scripted" in ids and "vendor/model:7b" in ids
    # The SDK encodes the slash.
    model = client.models.retrieve("vendor/model:7b")
    assert (model.id, model.object, model.owned_by) == ("vendor/model:7b", "model", "mock")
    with pytest.raises(openai.NotFoundError) as missing:
        client.models.retrieve("none")
    assert missing.value.code == "model_not_found"


def test_chat_completion(client):
    messages = [{"role": "user", "content": "hello"}]
    completion = client.chat.completions.create(model="scripted", messages=messages)
    assert completion.choices[0].message.content == "You said: hello"
    assert completion._request_id.startswith("req_")
    with client.chat.completions.create(
        model="scripted", messages=messages, stream=True, stream_options={"include_usage": True}
    ) as stream:
        chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == "You said: hello" and chunks[-1].usage.total_tokens > 0


def test_failures_of_chat_completions(client):
    messages = [{"role": "user", "content": "hello"}]
    with pytest.raises(openai.RateLimitError) as limited:
        client.chat.completions.create(model="err-429", messages=messages)
    assert limited.value.response.headers["retry-after"] == "1"
    with pytest.raises(openai.InternalServerError) as failed:
        client.chat.completions.create(model="err-401", messages=messages)
    assert "sk-of-the-gateway" not in str(failed.value)


def test_embeddings(client):
    # The SDK asks for base64 and decodes it.
    result = client.embeddings.create(model="scripted", input=["a", "four"])
    assert [row.embedding for row in result.data] == [[1.0, 0.5], [4.0, 0.5]]

"""Images and files."""

import base64

import openai
import pytest
from helpers import reached

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
IMAGE = f"data:image/png;base64,{PIXEL}"
PDF = "data:application/pdf;base64," + base64.b64encode(b"%PDF-1.4\n%%EOF\n").decode()


def ask(client, part):
    message = {"role": "user", "content": [{"type": "input_text", "text": "what is this?"}, part]}
    response = client.responses.create(model="mirror", input=[message])
    [seen] = reached(response)["messages"]
    assert seen["content"][0] == {"type": "text", "text": "what is this?"}
    return seen["content"][1], response


def test_image(client):
    seen, _ = ask(client, {"type": "input_image", "image_url": IMAGE, "detail": "low"})
    assert seen == {"type": "image_url", "image_url": {"url": IMAGE, "detail": "low"}}


def test_file(client):
    seen, _ = ask(client, {"type": "input_file", "filename": "a.pdf", "file_data": PDF})
    assert seen == {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}}


def test_images_are_kept(client):
    _, response = ask(client, {"type": "input_image", "image_url": IMAGE, "detail": "auto"})
    [item] = client.responses.input_items.list(response.id).data
    assert (item.content[1].type, item.content[1].image_url) == ("input_image", IMAGE)


@pytest.mark.parametrize("part", [
    {"type": "input_file", "file_id": "file-1"},
    {"type": "input_image", "file_id": "file-1", "detail": "auto"},
])  # fmt: skip
def test_uploaded_files_are_refused_by_name(client, part):
    with pytest.raises(openai.BadRequestError) as refused:
        ask(client, part)
    assert refused.value.param == "input[0].content[1].file_id"
    assert refused.value.code == "unsupported_parameter"

"""Notices of the end of background responses, as the gateway delivers them, checked and read by `webhooks.unwrap`."""

import os
import queue
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import openai
import pytest
from openai.types import webhooks

SECRET = os.environ["SDK_HOOK_SECRET"]


@pytest.fixture
def notices():
    """What the gateway sends, in order: headers and body."""
    taken, url = queue.Queue(), urlsplit(os.environ["SDK_HOOK_URL"])

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            self.send_response(204 if self.path == f"{url.path}?{url.query}" else 404)
            self.end_headers()
            taken.put((dict(self.headers), body))

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer((url.hostname, url.port), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield taken
        server.shutdown()


@pytest.fixture
def hooked(with_key):
    return with_key(os.environ["SDK_KEY_HOOKED"])


ENDS = [
    ("scripted", "response.completed", webhooks.ResponseCompletedWebhookEvent),
    ("filtered", "response.incomplete", webhooks.ResponseIncompleteWebhookEvent),
    ("err-400", "response.failed", webhooks.ResponseFailedWebhookEvent),
    ("slow", "response.cancelled", webhooks.ResponseCancelledWebhookEvent),
]


@pytest.mark.parametrize(("model", "kind", "event_type"), ENDS, ids=[end[1] for end in ENDS])
def test_the_end_of_a_background_response_is_told(hooked, notices, model, kind, event_type):
    response = hooked.responses.create(model=model, input="hi", background=True)
    if kind == "response.cancelled":
        hooked.responses.cancel(response.id)
    headers, body = notices.get(timeout=20)
    event = hooked.webhooks.unwrap(body, headers, secret=SECRET)
    assert isinstance(event, event_type)
    event_type.model_validate_json(body)
    assert (event.object, event.type, event.data.id) == ("event", kind, response.id)
    assert event.id == headers["webhook-id"] and event.id.startswith("evt_")
    assert event.created_at >= response.created_at
    # It is stored before it is told.
    assert f"response.{hooked.responses.retrieve(event.data.id).status}" == kind


def test_a_notice_that_was_changed_is_refused(hooked, notices):
    response = hooked.responses.create(model="scripted", input="hi", background=True)
    headers, body = notices.get(timeout=20)
    # As text, and with the secret of the client.
    client = hooked.with_options(webhook_secret=SECRET)
    assert client.webhooks.unwrap(body.decode(), headers).data.id == response.id
    other = response.id[:-1] + ("0" if response.id[-1] != "0" else "1")
    changed = [
        (body.replace(response.id.encode(), other.encode()), headers),
        (body + b" ", headers),
        (body, {**headers, "webhook-id": "evt_0"}),
        (body, {**headers, "webhook-timestamp": str(int(headers["webhook-timestamp"]) + 1)}),
        (body, {**headers, "webhook-timestamp": str(int(headers["webhook-timestamp"]) - 600)}),
    ]
    for changed_body, changed_headers in changed:
        with pytest.raises(openai.InvalidWebhookSignatureError):
            client.webhooks.unwrap(changed_body, changed_headers)
    with pytest.raises(openai.InvalidWebhookSignatureError):
        client.webhooks.unwrap(body, headers, secret="whsec_" + "A" * 44)


def test_nothing_is_told_of_other_responses(hooked, with_key, notices):
    other = with_key(os.environ["SDK_KEY_FULL"])
    other.responses.create(model="scripted", input="another tenant's", background=True)
    hooked.responses.create(model="scripted", input="in the foreground")
    response = hooked.responses.create(model="scripted", input="hi", background=True)
    headers, body = notices.get(timeout=20)
    assert hooked.webhooks.unwrap(body, headers, secret=SECRET).data.id == response.id
    assert notices.empty()

"""Clients of the two gateways that `scripts/test-sdk` starts: an open one, and one that asks for keys."""

import os

import openai
import pytest


def pytest_configure():
    if "SDK_OPEN_URL" not in os.environ:
        pytest.exit("run this by scripts/test-sdk, which starts the gateways", returncode=4)


@pytest.fixture
def client():
    """Nobody needs a key here; the SDK insists on having one. It does not retry unless a test says so."""
    with openai.OpenAI(base_url=os.environ["SDK_OPEN_URL"], api_key="unused", max_retries=0, timeout=30) as client:
        yield client


@pytest.fixture
def with_key():
    """Makes clients of the gateway that asks for keys."""
    clients = []

    def make(key):
        clients.append(openai.OpenAI(base_url=os.environ["SDK_KEYED_URL"], api_key=key, max_retries=0, timeout=30))
        return clients[-1]

    yield make
    for client in clients:
        client.close()

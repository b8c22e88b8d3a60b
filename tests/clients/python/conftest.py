"""Where the gateway is that `scripts/test-clients` starts."""

import os

import pytest


def pytest_configure():
    if "SDK_OPEN_URL" not in os.environ:
        pytest.exit("run this by scripts/test-clients, which starts the gateway", returncode=4)


@pytest.fixture
def url():
    return os.environ["SDK_OPEN_URL"]

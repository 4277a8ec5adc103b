"""What research registers is known in its own tests alone."""

import pytest

from tests.conftest import REGISTRIES, forgetting_registrations

with forgetting_registrations():
    import research.feature_tagging  # noqa: F401

    _WITH_RESEARCH = [list(registry) for registry in REGISTRIES]


@pytest.fixture(scope="module", autouse=True)
def _registered():
    with forgetting_registrations():
        for registry, content in zip(REGISTRIES, _WITH_RESEARCH, strict=True):
            registry[:] = content
        yield

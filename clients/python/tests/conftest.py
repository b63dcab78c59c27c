from importlib.util import find_spec

import pytest


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    if find_spec(request.param) is None:
        pytest.skip(f"needs {request.param}")
    return str(request.param)

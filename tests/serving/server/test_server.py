"""A server listens at its ports, and follows a folder that changes."""

import asyncio
import logging
import os
import shutil

import pytest

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

from keras_bert.serving.server.server import Server, ServerSettings  # noqa: E402


def test_a_port_of_grpc_that_is_in_use(running, toys, server):
    with (
        pytest.raises(OSError, match=f"cannot listen at 127.0.0.1:{server.grpc_port} for gRPC"),
        running(toys, grpc_port=server.grpc_port),
    ):
        pass


def test_a_port_of_rest_that_is_in_use(running, toys, server):
    with (
        pytest.raises(OSError, match=f"cannot listen at 127.0.0.1:{server.port} for REST: Address already in use"),
        running(toys, port=server.port),
    ):
        pass


def test_models_added_after_the_start(running, tmp_path, drop, until):
    with running(tmp_path, ready=False, grpc_port=None) as server:
        assert server.grpc_port is None
        assert server.send("GET", "/healthz") == (503, "no model is loaded yet\n")
        (tmp_path / os.fsdecode(b"caf\xe9") / "1").mkdir(parents=True)
        (tmp_path / "text" / str(2**63)).mkdir(parents=True)  # No 64-bit integer.
        drop("text/1", tmp_path / "text" / "1")
        until(lambda: server.send("GET", "/healthz") == (200, "ok\n"))
        assert server.send("GET", "/v1/models") == (200, {"models": ["caf?", "text"]})
        (version,) = server.send("GET", "/v1/models/text")[1]["model_version_status"]
        assert version["version"] == "1"
        assert version["state"] == "AVAILABLE"
        status, answer = server.predict("text", {"instances": ["a"]})
        assert status == 200
        assert answer["predictions"][0]["vector"][2] == 1


def test_a_folder_that_disappears_is_logged_once(running, tmp_path, until, caplog):
    """The disk may become available again."""
    folder = tmp_path / "models"
    folder.mkdir()
    with caplog.at_level(logging.ERROR, "keras_bert.serving"), running(folder, ready=False, grpc_port=None) as server:
        polls = []
        poll = server.shelf.poll
        with pytest.MonkeyPatch.context() as patch:

            def counted():
                polls.append(None)
                poll()

            patch.setattr(server.shelf, "poll", counted)
            shutil.rmtree(folder)
            until(lambda: len(polls) > 3)
        assert server.send("GET", "/healthz")[0] == 503
    assert caplog.messages == ["cannot read the model folder"]


def test_a_server_that_is_stopped_does_not_answer(tmp_path):
    async def main():
        server = Server(tmp_path, ServerSettings(port=0, grpc_port=0, poll_seconds=0.01))
        await server.start()
        await asyncio.open_connection("127.0.0.1", server.port)
        has_finished = await server.stop()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", server.port)
        return has_finished

    assert asyncio.run(main()) is True

"""TensorFlow Serving's REST API, plus `/healthz`, `/metrics` and a web page, on aiohttp."""

import json
import logging
import re

from aiohttp import web
from aiohttp.http import HttpProcessingError
from google.protobuf import json_format

from keras_bert.serving.errors import RequestError, bad, one_line
from keras_bert.serving.server import examples, tensors
from keras_bert.serving.server.saved_model import CLASSIFY, REGRESS
from keras_bert.serving.server.web_page import page

_PATH = re.compile(
    r"models/(?P<name>[^/:]+)(/versions/(?P<version>[0-9]{1,19}))?(?P<api>:predict|:classify|:regress|/metadata)?"
)
_EXPECTED = (
    "expected GET /v1/models/NAME[/versions/NUMBER][/metadata] "
    "or POST /v1/models/NAME[/versions/NUMBER]:predict, :classify or :regress"
)


class _Log(logging.LoggerAdapter):
    """aiohttp's log: malformed HTTP, which is an error of the client, is one line instead of a traceback."""

    def exception(self, message, *arguments, exc_info):
        if isinstance(exc_info, HttpProcessingError | web.RequestPayloadError):
            self.info("malformed HTTP: %s", one_line(exc_info))
        else:
            super().exception(message, *arguments, exc_info=exc_info)


class Rest:
    """REST handlers of a `Service`."""

    def __init__(self, service, shutdown_seconds):
        self._service, self._shutdown_seconds = service, shutdown_seconds

    def runner(self):
        """Returns an aiohttp runner; the caller sets it up and adds sites."""
        app = web.Application(middlewares=[_errors], client_max_size=self._service.max_body_bytes)
        app.router.add_get("/", self._index)
        app.router.add_get("/healthz", self._health)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/about/{name}", self._about)
        # As in TensorFlow Serving, other paths below /v1/ are malformed (400), and all remaining ones not found (404).
        app.router.add_route("*", "/v1/{path:.*}", self._model)
        return web.AppRunner(
            app,
            logger=_Log(logging.getLogger("keras_bert.serving")),
            access_log=None,
            handler_cancellation=True,  # Cancels waiting requests of clients that disconnect.
            shutdown_timeout=self._shutdown_seconds,
        )

    async def _index(self, request):
        document, headers = page()
        return web.Response(text=document, content_type="text/html", headers=headers)

    async def _health(self, request):
        ready = self._service.shelf.ready
        return web.Response(status=200 if ready else 503, text="ok\n" if ready else "no model is loaded yet\n")

    async def _metrics(self, request):
        text = self._service.counters.text()
        return web.Response(text=text, headers={"Content-Type": "text/plain; version=0.0.4"})

    async def _models(self, request):
        """Lists the models for the web page; TensorFlow Serving has no such endpoint."""
        return _json({"models": self._service.shelf.models()})

    async def _about(self, request):
        """Returns the metadata of a model for the web page; TensorFlow Serving has no such endpoint."""
        name = request.match_info["name"]
        with self._service.observed("rest:about") as call:
            return _json(self._service.version(call, name).model.facts)

    async def _model(self, request):
        match = _PATH.fullmatch(request.match_info["path"])
        api = (match["api"] or "/status")[1:] if match else "other"
        with self._service.observed(f"rest:{api}") as call:
            if not match or request.method != ("GET" if api in ("status", "metadata") else "POST"):
                raise bad(f"Malformed request: {request.method} {request.path}: {_EXPECTED}")
            target = match["name"], match["version"] and int(match["version"])
            if target[1] and target[1] >= 2**63:
                raise bad(f"Malformed request: the version {target[1]} is not a 64-bit integer")
            if api == "status":
                return _json(_to_dict(self._service.status(call, *target)))
            if api == "metadata":
                answer = _to_dict(self._service.metadata(call, *target))
                answer["metadata"]["signature_def"].pop("@type", None)  # TensorFlow Serving omits it.
                return _json(answer)
            return await self._answer(call, request, api, target)

    async def _answer(self, call, request, api, target):
        version, body = self._service.version(call, *target), await _read(request)
        signature = version.model.signature(body.get("signature_name", ""))
        if api == "predict":
            inputs, rows = tensors.from_json(body, signature)
            return _json(tensors.to_json(await self._service.run(call, version, signature, inputs), rows))
        method = CLASSIFY if api == "classify" else REGRESS
        inputs = examples.to_inputs(signature, method, examples.from_json(body))
        outputs = await self._service.run(call, version, signature, inputs)
        return _json({"results": examples.answer(method, outputs, call.rows)})


async def _read(request):
    """Reads the JSON object of a request."""
    try:
        body = json.loads((await request.read()).decode())
    except web.HTTPRequestEntityTooLarge as error:
        message = f"the body is longer than {request.client_max_size} bytes"
        raise RequestError("RESOURCE_EXHAUSTED", message, status=413) from error
    except web.RequestPayloadError as error:
        raise bad(f"the body cannot be read: {one_line(error)}") from error
    except (ValueError, RecursionError) as error:
        raise bad(f"the body is not JSON: {one_line(error)}") from error
    if not isinstance(body, dict):
        raise bad(f"the body must be a JSON object. Received: {type(body).__name__}")
    if not isinstance(body.get("signature_name", ""), str):
        raise bad('"signature_name" must be a string')
    return body


def _to_dict(message):
    return json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )


def _json(value, status=200):
    # NaN and infinities are written unquoted, as in TensorFlow Serving.
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    body = text.encode("utf-8", "replace")  # Names of folders may be no Unicode text.
    return web.Response(body=body, status=status, content_type="application/json", charset="utf-8")


@web.middleware
async def _errors(request, handler):
    try:
        return await handler(request)
    except RequestError as error:
        response = _json({"error": one_line(error)}, error.status)
    except web.HTTPException as error:
        response = _json({"error": f"{error.status} {error.reason}: {request.method} {request.path}"}, error.status)
    if not request.content.at_eof():
        response.force_close()  # The rest of a rejected body is not read.
    return response

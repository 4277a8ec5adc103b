"""TensorFlow Serving's REST API, and beside it `/healthz`, `/metrics` and a page. On aiohttp."""

import asyncio
import base64
import hashlib
import json
import pathlib
import re

from aiohttp import web
from google.protobuf import json_format
from tensorflow_serving.apis import get_model_metadata_pb2

from keras_bert.serving.errors import RequestError, bad, one_line
from keras_bert.serving.server import examples, tensors
from keras_bert.serving.server.saved_model import CLASSIFY, REGRESS

# A client that sends nothing for so long is cut off; so is one whose request takes longer to arrive.
_IDLE_SECONDS = 60
_BODY_SECONDS = 30
_PAGE = pathlib.Path(__file__).parent / "page.html"
_PATH = re.compile(
    r"models/(?P<name>[^/:]+)(/versions/(?P<version>[0-9]{1,19})|/labels/(?P<label>[^/:]+))?(:(?P<method>\w+)|(?P<metadata>/metadata))?"
)
_EXPECTED = (
    "expected GET /v1/models/NAME[/versions/NUMBER|/labels/LABEL][/metadata] "
    "or POST /v1/models/NAME[/versions/NUMBER|/labels/LABEL]:predict, :classify or :regress"
)
_METHODS = {"status": "GET", "metadata": "GET", "predict": "POST", "classify": "POST", "regress": "POST"}


class Rest:
    """The handlers of a `Service`.

    Args:
        service: the `Service`.
        body_seconds: how long the body of a request may take to arrive.
    """

    def __init__(self, service, body_seconds=_BODY_SECONDS):
        self._service, self.body_seconds = service, body_seconds

    def runner(self, shutdown_seconds):
        """An aiohttp runner, to be set up and given addresses."""
        app = web.Application(middlewares=[_errors], client_max_size=self._service.limits.body_bytes)
        app.router.add_get("/", self._index)
        app.router.add_get("/healthz", self._health)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/v1/models", self._models)
        # As in TensorFlow Serving, whatever begins so and is no request is malformed (400); no other path is (404).
        app.router.add_route("*", "/v1/{path:.*}", self._model)
        return web.AppRunner(
            app,
            access_log=None,
            # A client that goes away takes its waiting request along.
            handler_cancellation=True,
            keepalive_timeout=_IDLE_SECONDS,
            shutdown_timeout=shutdown_seconds,
        )

    async def _index(self, request):
        if _PAGE.is_file():
            page = _PAGE.read_text(encoding="utf-8")
            return web.Response(text=page, content_type="text/html", headers=_page_headers(page))
        return web.Response(text=f"Models: {', '.join(self._service.shelf.models()) or 'none'}\n")

    async def _health(self, request):
        ready = self._service.shelf.ready
        return web.Response(status=200 if ready else 503, text="ok\n" if ready else "no model is loaded yet\n")

    async def _metrics(self, request):
        return web.Response(text=self._service.counters.text(), headers={"Content-Type": "text/plain; version=0.0.4"})

    async def _models(self, request):
        """Not in TensorFlow Serving, which cannot say what it has."""
        return _json({"models": self._service.shelf.models()})

    async def _model(self, request):
        found = _PATH.fullmatch(request.match_info["path"])
        api = _api(found)
        with self._service.observed(f"rest:{api}") as call:
            if request.method != _METHODS.get(api):
                raise bad(f"Malformed request: {request.method} {request.path}: {_EXPECTED}")
            target = (found["name"], _version(found["version"]), found["label"])
            if api == "status":
                return self._status(call, *target)
            if api == "metadata":
                return self._metadata(call, *target)
            return await self._ask(call, request, api, target)

    async def _ask(self, call, request, api, target):
        with self._service.lease(call, *target) as version:
            asked = await self._read(request)
            signature = version.model.signature(asked.get("signature_name", ""))
            if api != "predict":
                method = CLASSIFY if api == "classify" else REGRESS
                given = examples.from_json(asked)
                return _json({"results": await self._service.run_examples(call, version, signature, method, given)})
            inputs, rows = tensors.from_json(asked, signature)
            outputs = await self._service.run(call, version, signature, inputs)
            return _json(tensors.to_json(outputs, rows))

    async def _read(self, request):
        """The object of a request's JSON."""
        limit = self._service.limits.body_bytes
        try:
            if (request.content_length or 0) > limit:
                raise web.HTTPRequestEntityTooLarge(limit, request.content_length)
            async with asyncio.timeout(self.body_seconds):
                body = await request.read()
        except web.HTTPRequestEntityTooLarge as error:
            raise RequestError("RESOURCE_EXHAUSTED", f"the body is longer than {limit} bytes", status=413) from error
        except TimeoutError as error:
            message = f"the body did not arrive within {self.body_seconds} seconds"
            raise RequestError("DEADLINE_EXCEEDED", message, status=408) from error
        except web.RequestPayloadError as error:
            raise bad(f"the body cannot be read: {one_line(error)}") from error
        return _object(body)

    def _status(self, call, *target):
        statuses = self._service.shelf.status(*target)
        call.model = target[0]
        listed = [
            {
                "version": str(status.version),
                "state": status.state,
                "status": {"error_code": status.code, "error_message": status.message},
            }
            for status in statuses
        ]
        return _json({"model_version_status": listed})

    def _metadata(self, call, *target):
        with self._service.lease(call, *target) as version:
            signatures = get_model_metadata_pb2.SignatureDefMap(signature_def=version.model.definitions)
        shown = json_format.MessageToDict(
            signatures, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )
        spec = {"name": call.model, "signature_name": "", "version": call.version}
        return _json({"model_spec": spec, "metadata": {"signature_def": shown}})


def _page_headers(page):
    """Nothing runs but what stands in the page, and it talks to this server alone."""
    script, style = (_hash(re.search(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)[1]) for tag in ("script", "style"))
    policy = (
        f"default-src 'none'; script-src '{script}'; style-src '{style}'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    )
    return {
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
    }


def _hash(text):
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _api(found):
    """What a path asks for, by its match; `other` is what there is not."""
    if not found or (found["method"] and found["method"] not in ("predict", "classify", "regress")):
        return "other"
    return found["method"] or ("metadata" if found["metadata"] else "status")


def _version(digits):
    """The number of a version, an int64, or `None` where the path has none."""
    if digits and int(digits) >= 1 << 63:
        raise bad(f"a version must be below 2**63. Received: {digits}")
    return int(digits) if digits else None


def _object(body):
    try:
        asked = json.loads(body.decode())
    except UnicodeDecodeError as error:
        raise bad(f"the body is not UTF-8: byte {error.start}: {error.reason}") from error
    except RecursionError as error:
        raise bad("the body is nested too deeply") from error
    except ValueError as error:
        raise bad(f"the body is not JSON: {one_line(error)}") from error
    if not isinstance(asked, dict):
        raise bad(f"the body must be a JSON object. Received: {type(asked).__name__}")
    if not isinstance(asked.get("signature_name", ""), str):
        raise bad('"signature_name" must be a string')
    return asked


def _json(value, status=200):
    # NaN and infinities are written bare, as TensorFlow Serving writes them.
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return web.Response(text=text, status=status, content_type="application/json")


@web.middleware
async def _errors(request, handler):
    try:
        return await handler(request)
    except RequestError as error:
        response = _json({"error": one_line(error)}, error.status)
    except web.HTTPException as error:
        response = _json({"error": f"{error.status} {error.reason}: {request.method} {request.path}"}, error.status)
    if not request.content.at_eof():
        response.force_close()  # The rest of a refused body is not waited for.
    return response

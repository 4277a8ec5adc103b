"""TensorFlow Serving's REST API, plus `/healthz`, `/metrics` and a web page, on aiohttp."""

import asyncio
import base64
import functools
import hashlib
import ipaddress
import json
import logging
import pathlib
import re
import string
import urllib.parse

from aiohttp import web
from aiohttp.http import HttpProcessingError

from keras_bert.serving.errors import RequestError, bad, one_line
from keras_bert.serving.rpc_client import to_dict
from keras_bert.serving.server import tensors
from keras_bert.serving.server.saved_model import CLASSIFY, REGRESS

_PATH = re.compile(
    r"models/(?P<name>[^/:]+)(/versions/(?P<version>[0-9]{1,19}))?(?P<api>:predict|:classify|:regress|/metadata)?"
)
_EXPECTED = (
    "expected GET /v1/models/NAME[/versions/NUMBER][/metadata] "
    "or POST /v1/models/NAME[/versions/NUMBER]:predict, :classify or :regress"
)
_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_FEW = 64  # Answers with more rows are encoded in a thread.
# Of the web page.
_FOLDER = pathlib.Path(__file__).parent / "page"
_SCRIPTS = ("server.js", "form.js", "answers.js", "explain.js", "csv.js", "table.js", "events.js")


class _Log(logging.LoggerAdapter):
    """aiohttp's log: malformed HTTP, which is an error of the client, is one line instead of a traceback."""

    def exception(self, message, *arguments, exc_info):
        if isinstance(exc_info, HttpProcessingError | web.RequestPayloadError):
            self.info("malformed HTTP: %s", one_line(exc_info))
        else:
            super().exception(message, *arguments, exc_info=exc_info)


class Rest:
    """REST handlers of a `Service`."""

    def __init__(self, service):
        self._service = service
        self._settings = service.settings

    def runner(self):
        """Returns an aiohttp runner; the caller sets it up and adds sites."""
        app = web.Application(middlewares=[_errors, self._hosts], client_max_size=self._settings.max_body_bytes)
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
            shutdown_timeout=self._settings.shutdown_seconds,
            keepalive_timeout=self._settings.read_seconds,  # From the connection to the end of the first headers, too.
        )

    @web.middleware
    async def _hosts(self, request, handler):
        """Refuses pages of other sites, also if their name leads to this server (DNS rebinding)."""
        allowed = {name.lower() for name in self._settings.allowed_hosts}
        if "*" in allowed:
            return await handler(request)
        host = request.headers.get("Host", "").lower()
        origin = request.headers.get("Origin", "").lower()
        fix = "Name it with --allowed_hosts, or allow all with --allowed_hosts=*"
        if not _is_local(host, {"", "localhost", self._settings.host.lower(), *allowed}):
            raise RequestError("PERMISSION_DENIED", f"the host {host} is not that of this server. {fix}")
        is_own_page = not origin or origin.partition("://")[2] == host
        if not is_own_page and _host_name(origin) not in allowed:
            raise RequestError("PERMISSION_DENIED", f"the request is from a page of another host, {origin}. {fix}")
        return await handler(request)

    async def _index(self, request):
        document, headers = _page()
        return web.Response(text=document, content_type="text/html", headers=headers)

    async def _health(self, request):
        if self._service.shelf.ready:
            return web.Response(text="ok\n")
        return web.Response(status=503, text="no model is loaded yet\n")

    async def _metrics(self, request):
        text = self._service.counters.text()
        return web.Response(text=text, headers={"Content-Type": "text/plain; version=0.0.4"})

    async def _models(self, request):
        """Lists the models for the web page; TensorFlow Serving has no such endpoint."""
        return _json({"models": self._service.shelf.models()})

    async def _about(self, request):
        """Returns the facts that a model stores; TensorFlow Serving has no such endpoint."""
        name = request.match_info["name"]
        with self._service.observed("rest:about") as call:
            return _json(self._service.version(call, name).model.facts)

    async def _model(self, request):
        match = _PATH.fullmatch(request.match_info["path"])
        if not match:
            api = "other"
        elif match["api"]:
            api = match["api"][1:]  # Without the colon or the slash.
        else:
            api = "status"
        with self._service.observed(f"rest:{api}") as call:
            method = "GET" if api in ("status", "metadata") else "POST"
            if not match or request.method != method:
                raise bad(f"Malformed request: {request.method} {request.path}: {_EXPECTED}")
            name = match["name"]
            number = _version_number(match["version"])
            if api == "status":
                return _json(to_dict(self._service.status(call, name, number)))
            if api == "metadata":
                answer = to_dict(self._service.metadata(call, name, number))
                answer["metadata"]["signature_def"].pop("@type", None)  # TensorFlow Serving omits it.
                return _json(answer)
            version = self._service.version(call, name, number)
            return await self._answer(call, request, api, version)

    async def _answer(self, call, request, api, version):
        """Answers a request to predict, classify or regress by a `Version`."""
        body = await _json_object(request, self._settings.read_seconds)
        self._service.check_rows(_most_rows(body))
        signature = version.model.signature(body.get("signature_name", ""))
        if api == "predict":
            inputs, rows = tensors.from_json(body, signature)
            outputs = await self._service.run(call, version, signature, inputs)
            if call.rows <= _FEW:
                return _json(tensors.to_json(outputs, rows))
            return await asyncio.to_thread(lambda: _json(tensors.to_json(outputs, rows)))
        method = CLASSIFY if api == "classify" else REGRESS
        inputs = tensors.example_inputs(signature, method, body)
        outputs = await self._service.run(call, version, signature, inputs)
        return _json({"results": tensors.labels_or_numbers(method, outputs, call.rows)})


def _version_number(text):
    """Returns the number of a path's version, `None` without one."""
    if text is None:
        return None
    number = int(text)
    if number >= 2**63:
        raise bad(f"Malformed request: the version {number} is not a 64-bit integer")
    return number


def _is_local(host, names):
    """Whether a `Host` is one of the names, or an IP address, which no other site can have as its name."""
    name = _host_name(f"//{host}")
    try:
        return name in names or bool(ipaddress.ip_address(name))
    except ValueError:
        return False


def _host_name(url):
    """Returns the name of the host of a URL without its port, "?" if it has none."""
    try:
        return urllib.parse.urlsplit(url).hostname or ""
    except ValueError:
        return "?"


def _most_rows(body):
    """Returns the largest number of rows of a request's values."""
    columns = [body.get("instances"), body.get("examples")]
    inputs = body.get("inputs")
    if isinstance(inputs, dict):
        columns.extend(inputs.values())
    else:
        columns.append(inputs)
    return max((len(column) for column in columns if isinstance(column, list)), default=0)


async def _json_object(request, seconds):
    """Reads the JSON object of a request."""
    too_long = RequestError(
        "RESOURCE_EXHAUSTED", f"the body is longer than {request.client_max_size} bytes (--max_body_bytes)", status=413
    )
    if (request.content_length or 0) > request.client_max_size:
        raise too_long
    try:
        async with asyncio.timeout(seconds):
            content = await request.read()
        body = json.loads(content.decode())
    except TimeoutError as error:
        message = f"the body did not arrive within {seconds:g} seconds"
        raise RequestError("DEADLINE_EXCEEDED", message, status=408) from error
    except web.HTTPRequestEntityTooLarge as error:
        raise too_long from error
    except web.RequestPayloadError as error:
        raise bad(f"the body cannot be read: {one_line(error)}") from error
    except (ValueError, RecursionError) as error:
        raise bad(f"the body is not JSON: {one_line(error)}") from error
    if not isinstance(body, dict):
        raise bad(f"the body must be a JSON object. Received: {type(body).__name__}")
    if not isinstance(body.get("signature_name", ""), str):
        raise bad('"signature_name" must be a string')
    return body


def _text(value, levels=3):
    """Encodes rows one by one, since no other thread runs while the encoder does."""
    if levels and isinstance(value, dict):
        fields = []
        for name, field in value.items():
            fields.append(f"{_ENCODE(name)}:{_text(field, levels - 1)}")
        return "{" + ",".join(fields) + "}"
    if levels and isinstance(value, list):
        return "[" + ",".join(map(_ENCODE, value)) + "]"
    return _ENCODE(value)


def _json(value, status=200):
    # NaN and infinities are written unquoted, as in TensorFlow Serving.
    body = _text(value).encode("utf-8", "replace")  # Names of folders may be no Unicode text.
    return web.Response(body=body, status=status, content_type="application/json", charset="utf-8")


@web.middleware
async def _errors(request, handler):
    try:
        return await handler(request)
    except RequestError as error:
        response = _json({"error": one_line(error)}, error.status)
    except web.HTTPException as error:
        message = f"{error.status} {error.reason}: {request.method} {request.path}"
        response = _json({"error": message}, error.status)
    if not request.content.at_eof():
        response.force_close()  # The rest of a rejected body is not read.
    return response


@functools.cache
def _page():
    """Returns the web page, one HTML document with its style and script, and its HTTP headers."""
    style = _source("style.css")
    script = "\n".join(map(_source, _SCRIPTS))
    document = string.Template(_source("page.html")).substitute(style=style, script=script)
    # The elements of the page start with a line break.
    return document, _headers(style=_hash(f"\n{style}"), script=_hash(f"\n{script}"))


def _source(name):
    return (_FOLDER / name).read_text(encoding="utf-8")


def _headers(style, script):
    """Restricts the page to its own script, which may connect to this server only."""
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
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"

# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
"""A FastAPI application whose requests Weir decides. Needs fastapi, httpx and uvicorn.

WEIR_URL=http://weir.weir-system.svc:8080 FAIL_MODE=open PORT=8000 python3 fastapi_app.py
"""
import logging
import os

import httpx
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

log = logging.getLogger("weir")
RESPONSE_HEADERS = ("RateLimit", "RateLimit-Policy", "Retry-After")


class Weir:
    """Asks Weir. A check is never repeated, because it would spend twice.

    fail_mode decides when Weir does not: "open" allows, "closed" denies.
    """

    def __init__(self, url: str, fail_mode: str, timeout: float = 0.5):
        if fail_mode not in ("open", "closed"):
            raise ValueError(f"fail_mode {fail_mode!r}: choose open or closed")
        self.fail_mode = fail_mode
        self.client = httpx.AsyncClient(base_url=url, timeout=timeout)

    async def __call__(self, request: Request, call_next):
        status, headers, denial = await self.check(self.describe(request))
        if status == 200 or (status is None and self.fail_mode == "open"):
            response = await call_next(request)
        else:
            status = status or 503
            response = JSONResponse(denial or {"status": status, "detail": "The rate limiter did not answer."}, status)
        for name in RESPONSE_HEADERS:
            if name in headers:
                response.headers[name] = headers[name]
        return response

    @staticmethod
    def describe(request: Request) -> dict:
        """The facts of the request. The address is that of the peer: behind a proxy, the proxy's."""
        return {
            "method": request.method,
            "host": request.headers.get("host", ""),
            "path": request.scope["raw_path"].decode("latin-1").split("?")[0],
            "headers": {name: request.headers.getlist(name) for name in request.headers.keys()},
            "remoteAddress": request.client.host,
        }

    async def check(self, attributes: dict):
        """Returns status, headers and denial; no status if Weir makes no decision."""
        try:
            answer = await self.client.post("/v1/check", json={"attributes": attributes})
            body = answer.json()
            problem = {name: body[name] for name in ("status", "code", "detail", "retryAfter") if name in body}
            if body.get("allowed") is True and answer.status_code == 200:
                return 200, answer.headers, None
            if body.get("allowed") is False and answer.status_code == body.get("status"):
                return answer.status_code, answer.headers, problem
            # Clients choose paths and headers: what Weir cannot read must not pass.
            if answer.status_code in (400, 413) and "code" in body:
                return 400, {}, {**problem, "status": 400}
            log.warning("no decision: %s", problem)
        except (httpx.HTTPError, ValueError, AttributeError) as error:
            log.warning("no decision: %r", error)
        return None, {}, None


app = FastAPI()
timeout = int(os.environ.get("TIMEOUT_MS", "500")) / 1000
app.middleware("http")(Weir(os.environ["WEIR_URL"], os.environ["FAIL_MODE"], timeout))


@app.get("/cart")
async def cart():
    return "cart"


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(os.environ["PORT"]))

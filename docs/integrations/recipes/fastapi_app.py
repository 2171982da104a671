# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
"""A FastAPI application whose requests Weir decides. Needs fastapi, httpx and uvicorn.

WEIR_URL=http://weir.weir-system.svc:8080 FAIL_MODE=open PORT=8000 python3 fastapi_app.py
"""
import asyncio
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

    fail_mode decides when Weir does not: "open" allows, "closed" denies. A check of the paths in
    count_outcome reserves, and the status of the response decides what it costs.
    """

    def __init__(self, url: str, fail_mode: str, timeout: float = 0.5, count_outcome: tuple[str, ...] = ()):
        if fail_mode not in ("open", "closed"):
            raise ValueError(f"fail_mode {fail_mode!r}: choose open or closed")
        self.fail_mode = fail_mode
        self.client = httpx.AsyncClient(base_url=url, timeout=timeout)
        self.count_outcome = count_outcome
        self.commits = set()  # asyncio keeps only weak references

    async def __call__(self, request: Request, call_next):
        attributes = self.describe(request)
        path = "/v1/reserve" if attributes["path"] in self.count_outcome else "/v1/check"
        status, headers, denial, reservation = await self.check(path, attributes)
        if status == 200 or (status is None and self.fail_mode == "open"):
            response = await self.respond(request, call_next, reservation)
        else:
            status = status or 503
            response = JSONResponse(denial or {"status": status, "detail": "The rate limiter did not answer."}, status)
        for name in RESPONSE_HEADERS:
            if name in headers:
                response.headers[name] = headers[name]
        return response

    async def respond(self, request: Request, call_next, reservation: str | None):
        """Returns the response of the application, and commits its status."""
        code = 0  # a client that hangs up before the response began has no outcome
        try:
            response = await call_next(request)
            code = response.status_code
            return response
        except Exception:
            code = 500
            raise
        finally:
            if reservation:
                task = asyncio.create_task(self.commit(reservation, code))
                self.commits.add(task)
                task.add_done_callback(self.commits.discard)

    async def commit(self, reservation: str, code: int):
        """Ends a reservation. A repetition spends nothing more; a reservation without a commit is spent at its end."""
        for _ in range(3):
            try:
                answer = await self.client.post("/v1/commit", json={"reservation": reservation, "response": {"code": code}})
                if answer.status_code < 500:
                    return
                log.warning("no commit: status %d", answer.status_code)
            except httpx.HTTPError as error:
                log.warning("no commit: %r", error)

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

    async def check(self, path: str, attributes: dict):
        """Returns status, headers, denial and reservation; no status if Weir makes no decision."""
        try:
            answer = await self.client.post(path, json={"attributes": attributes})
            body = answer.json()
            problem = {name: body[name] for name in ("status", "code", "detail", "retryAfter") if name in body}
            if body.get("allowed") is True and answer.status_code == 200:
                return 200, answer.headers, None, body.get("reservation")
            if body.get("allowed") is False and answer.status_code == body.get("status"):
                return answer.status_code, answer.headers, problem, None
            # Clients choose paths and headers: what Weir cannot read must not pass.
            if answer.status_code in (400, 413) and "code" in body:
                return 400, {}, {**problem, "status": 400}, None
            log.warning("no decision: %s", problem)
        except (httpx.HTTPError, ValueError, AttributeError) as error:
            log.warning("no decision: %r", error)
        return None, {}, None, None


app = FastAPI()
timeout = int(os.environ.get("TIMEOUT_MS", "500")) / 1000
app.middleware("http")(Weir(os.environ["WEIR_URL"], os.environ["FAIL_MODE"], timeout, count_outcome=("/login",)))


@app.get("/cart")
async def cart():
    return "cart"


@app.get("/login")
async def login(request: Request):
    password = request.headers.get("x-password")
    if password == "none":
        raise RuntimeError("the login fails")
    return JSONResponse({}, 200 if password == "correct" else 401)


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(os.environ["PORT"]))

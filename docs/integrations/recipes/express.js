// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// An Express application whose requests Weir decides. Needs express; Node 18 or later.
//
//   WEIR_URL=http://weir.weir-system.svc:8080 FAIL_MODE=open PORT=8000 node express.js

const express = require("express");

const responseHeaders = ["RateLimit", "RateLimit-Policy", "Retry-After"];

// Returns a middleware. failMode decides when Weir does not: "open" allows, "closed" denies.
// A check is never repeated, because it would spend twice. With countOutcome the check reserves,
// and the status of the response decides what it costs.
function weir({ url, failMode, timeout = 500, countOutcome = false }) {
  if (!["open", "closed"].includes(failMode)) throw new Error(`failMode ${failMode}: choose open or closed`);
  return async (request, response, next) => {
    const closed = new Promise((resolve) => response.once("close", resolve));
    const { status, headers, denial, reservation } = await check(url, timeout, describe(request), countOutcome);
    if (reservation) {
      // A client that hangs up before the response began has no outcome: 0.
      closed.then(() => commit(url, timeout, reservation, response.headersSent ? response.statusCode : 0));
    }
    for (const name of responseHeaders) {
      if (headers?.has(name)) response.set(name, headers.get(name));
    }
    if (status === 200 || (status === undefined && failMode === "open")) return next();
    response.status(status ?? 503).json(denial ?? { status: status ?? 503, detail: "The rate limiter did not answer." });
  };
}

// The facts of the request. request.ip is the peer, unless the setting "trust proxy" is on.
function describe(request) {
  return {
    method: request.method,
    host: request.headers.host,
    path: request.originalUrl.split("?")[0],
    headers: request.headersDistinct,
    remoteAddress: request.ip,
  };
}

function post(url, timeout, body) {
  return fetch(url, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    redirect: "manual",
    signal: AbortSignal.timeout(timeout),
  });
}

// Asks Weir. Returns no status if Weir makes no decision.
async function check(url, timeout, attributes, countOutcome) {
  try {
    const answer = await post(url + (countOutcome ? "/v1/reserve" : "/v1/check"), timeout, { attributes });
    const { allowed, status, code, detail, retryAfter, reservation } = await answer.json();
    if (allowed === true && answer.status === 200) return { status: 200, headers: answer.headers, reservation };
    if (allowed === false && answer.status === status) {
      return { status, headers: answer.headers, denial: { status, code, detail, retryAfter } };
    }
    // Clients choose paths and headers: what Weir cannot read must not pass.
    if ([400, 413].includes(answer.status) && code) return { status: 400, denial: { status: 400, code, detail } };
    console.error(`weir: no decision: status ${answer.status}, ${code}: ${detail}`);
  } catch (error) {
    console.error(`weir: no decision: ${error}`);
  }
  return {};
}

// Ends a reservation. A repetition spends nothing more; a reservation without a commit is spent at its end.
async function commit(url, timeout, reservation, code) {
  for (let attempt = 1; attempt <= 3; attempt++) {
    try {
      const answer = await post(url + "/v1/commit", timeout, { reservation, response: { code } });
      await answer.arrayBuffer(); // to reuse the connection
      if (answer.status < 500) return;
      console.error(`weir: no commit: status ${answer.status}`);
    } catch (error) {
      console.error(`weir: no commit: ${error}`);
    }
  }
}

const app = express();
const options = {
  url: process.env.WEIR_URL,
  failMode: process.env.FAIL_MODE,
  timeout: Number(process.env.TIMEOUT_MS ?? 500),
};
app.get("/cart", weir(options), (request, response) => response.send("cart"));
app.get("/login", weir({ ...options, countOutcome: true }), (request, response) => {
  const password = request.headers["x-password"];
  if (password === "none") throw new Error("the login fails");
  response.sendStatus(password === "correct" ? 200 : 401);
});
app.listen(process.env.PORT, "127.0.0.1");

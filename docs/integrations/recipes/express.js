// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// An Express application whose requests Weir decides. Needs express; Node 18 or later.
//
//   WEIR_URL=http://weir.weir-system.svc:8080 FAIL_MODE=open PORT=8000 node express.js

const express = require("express");

const responseHeaders = ["RateLimit", "RateLimit-Policy", "Retry-After"];

// Returns a middleware. failMode decides when Weir does not: "open" allows, "closed" denies.
// A check is never repeated, because it would spend twice.
function weir({ url, failMode, timeout = 500 }) {
  if (!["open", "closed"].includes(failMode)) throw new Error(`failMode ${failMode}: choose open or closed`);
  return async (request, response, next) => {
    const { status, headers, denial } = await check(url, timeout, describe(request));
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

// Asks Weir. Returns no status if Weir makes no decision.
async function check(url, timeout, attributes) {
  try {
    const answer = await fetch(url + "/v1/check", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ attributes }),
      redirect: "manual",
      signal: AbortSignal.timeout(timeout),
    });
    const { allowed, status, code, detail, retryAfter } = await answer.json();
    if (allowed === true && answer.status === 200) return { status: 200, headers: answer.headers };
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

const app = express();
app.use(weir({ url: process.env.WEIR_URL, failMode: process.env.FAIL_MODE, timeout: Number(process.env.TIMEOUT_MS ?? 500) }));
app.get("/cart", (request, response) => response.send("cart"));
app.listen(process.env.PORT, "127.0.0.1");

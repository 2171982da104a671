// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

import com.sun.net.httpserver.Filter;
import com.sun.net.httpserver.Headers;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/**
 * A filter that asks Weir with java.net.http.HttpClient, and a small server with it. Needs Java 17
 * or later and no library.
 *
 * WEIR_URL=http://weir.weir-system.svc:8080 FAIL_MODE=open PORT=8000 java Weir.java
 */
public final class Weir extends Filter {
    /** What decides when Weir does not: OPEN allows, CLOSED denies. */
    enum FailMode { OPEN, CLOSED }

    /** The status to answer with, 200 to go on; 0 if Weir made no decision. */
    record Decision(int status, HttpResponse<String> answer) {}

    private static final List<String> RESPONSE_HEADERS = List.of("RateLimit", "RateLimit-Policy", "Retry-After");
    private static final Pattern ALLOWED = Pattern.compile("\"allowed\":(true|false)");
    private static final Pattern CODE = Pattern.compile("\"code\":\"");

    private final HttpClient client = HttpClient.newHttpClient(); // follows no redirects
    private final URI check;
    private final FailMode failMode;
    private final long timeoutMillis;

    Weir(String url, FailMode failMode, long timeoutMillis) {
        this.check = URI.create(url + "/v1/check");
        this.failMode = failMode;
        this.timeoutMillis = timeoutMillis;
    }

    @Override
    public String description() {
        return "asks Weir";
    }

    @Override
    public void doFilter(HttpExchange exchange, Chain chain) throws IOException {
        Decision decision = decide(exchange);
        Headers headers = exchange.getResponseHeaders();
        String denial = "{\"status\":503,\"detail\":\"The rate limiter did not answer.\"}";
        if (decision.answer() != null) {
            RESPONSE_HEADERS.forEach(name -> decision.answer().headers().firstValue(name).ifPresent(value -> headers.set(name, value)));
            denial = decision.answer().body();
        }
        if (decision.status() == 200 || decision.status() == 0 && failMode == FailMode.OPEN) {
            chain.doFilter(exchange);
            return;
        }
        headers.set("Content-Type", "application/problem+json");
        answer(exchange, decision.status() == 0 ? 503 : decision.status(), denial);
    }

    /** Asks Weir once: a repeated check would spend twice. */
    private Decision decide(HttpExchange exchange) {
        HttpRequest request = HttpRequest.newBuilder(check).header("Content-Type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofString(describe(exchange))).build();
        var pending = client.sendAsync(request, HttpResponse.BodyHandlers.ofString());
        try {
            HttpResponse<String> answer = pending.get(timeoutMillis, TimeUnit.MILLISECONDS);
            var allowed = ALLOWED.matcher(answer.body());
            if (allowed.find() && Boolean.parseBoolean(allowed.group(1)) == (answer.statusCode() == 200)) {
                return new Decision(answer.statusCode(), answer);
            }
            // Clients choose paths and headers: what Weir cannot read must not pass.
            if ((answer.statusCode() == 400 || answer.statusCode() == 413) && CODE.matcher(answer.body()).find()) {
                return new Decision(400, answer);
            }
            System.err.println("weir: no decision: " + answer.statusCode() + " " + answer.body());
        } catch (ExecutionException | TimeoutException e) {
            System.err.println("weir: no decision: " + e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return new Decision(503, null);
        } finally {
            pending.cancel(true);
        }
        return new Decision(0, null);
    }

    /** The facts of the request. The address is that of the peer: behind a proxy, the proxy's. */
    private static String describe(HttpExchange exchange) {
        Headers headers = exchange.getRequestHeaders();
        String list = headers.entrySet().stream()
            .map(h -> quote(h.getKey()) + ":[" + h.getValue().stream().map(Weir::quote).collect(Collectors.joining(",")) + "]")
            .collect(Collectors.joining(","));
        return "{\"attributes\":{\"method\":" + quote(exchange.getRequestMethod())
            + ",\"host\":" + quote(headers.getFirst("Host")) + ",\"path\":" + quote(exchange.getRequestURI().getRawPath())
            + ",\"remoteAddress\":" + quote(exchange.getRemoteAddress().getAddress().getHostAddress())
            + ",\"headers\":{" + list + "}}}";
    }

    /** Returns the text as a JSON string. */
    private static String quote(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char c : (text == null ? "" : text).toCharArray()) {
            quoted.append(c < ' ' || c == '"' || c == '\\' ? String.format("\\u%04x", (int) c) : String.valueOf(c));
        }
        return quoted.append('"').toString();
    }

    private static void answer(HttpExchange exchange, int status, String body) throws IOException {
        byte[] bytes = body.getBytes(java.nio.charset.StandardCharsets.UTF_8);
        exchange.sendResponseHeaders(status, bytes.length);
        try (var out = exchange.getResponseBody()) {
            out.write(bytes);
        }
    }

    public static void main(String[] args) throws IOException {
        FailMode failMode = FailMode.valueOf(System.getenv("FAIL_MODE").toUpperCase());
        long timeoutMillis = Long.parseLong(System.getenv().getOrDefault("TIMEOUT_MS", "500"));
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(System.getenv("PORT"))), 0);
        server.setExecutor(Executors.newFixedThreadPool(16));
        server.createContext("/cart", exchange -> answer(exchange, 200, "cart"))
            .getFilters().add(new Weir(System.getenv("WEIR_URL"), failMode, timeoutMillis));
        server.start();
    }
}

/** Upstreams with a scripted behavior, one origin each because breakers and egress count by origin, and an OTLP collector. */
import { createServer } from 'node:http';

/** Keeps what reached it: `{ method, path, headers, body }`. */
async function listen(answer) {
  const requests = [];
  const server = createServer((request, response) => {
    const chunks = [];
    request.on('data', (chunk) => chunks.push(chunk));
    request.on('end', () => {
      const text = Buffer.concat(chunks).toString('utf8');
      const seen = { method: request.method, path: request.url, headers: request.headers, text, closed: false };
      requests.push(seen);
      response.on('close', () => (seen.closed = !response.writableEnded));
      answer(seen, response, requests);
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    origin: `http://127.0.0.1:${server.address().port}`,
    requests,
    stop: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function send(response, status, body, headers = {}) {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
}

/** `text` as JSON, or undefined. */
function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Starts all upstreams on free loopback ports. */
export async function startUpstreams() {
  const spans = [];
  const upstreams = {
    /** Echoes each request: `{ path, method, headers, body }`. */
    echo: await listen(({ method, path, headers, text }, response) =>
      send(response, 200, { method, path, headers, body: parse(text) ?? text }),
    ),
    /** Fails with 500, except that every third request of a path succeeds. */
    flaky: await listen(({ path }, response, requests) => {
      const count = requests.filter((request) => request.path === path).length;
      if (count % 3 === 0) send(response, 200, { attempt: count });
      else send(response, 503, { error: 'busy' });
    }),
    /** Fails every request with 500. */
    failing: await listen((_request, response) => send(response, 500, { error: 'broken "quote" \\ and more' })),
    /** Refuses every request with 429. */
    limited: await listen((_request, response) => send(response, 429, { error: 'slow down' }, { 'retry-after': '1' })),
    /** Refuses every request with 404. */
    missing: await listen((_request, response) => send(response, 404, { error: 'no such thing' })),
    /** Answers after five seconds. */
    slow: await listen((_request, response) => setTimeout(() => send(response, 200, { slow: true }), 5_000)),
    /** Answers once, then fails. */
    once: await listen((_request, response, requests) =>
      requests.length === 1 ? send(response, 200, { fresh: true }) : send(response, 503, { error: 'gone' }),
    ),
    collector: await listen(({ text }, response) => {
      for (const { resource, scopeSpans } of parse(text)?.resourceSpans ?? []) {
        const { 'service.name': service } = plain(resource.attributes);
        for (const span of scopeSpans.flatMap((scope) => scope.spans)) {
          spans.push({
            service,
            name: span.name,
            traceId: span.traceId,
            spanId: span.spanId,
            parentSpanId: span.parentSpanId,
            attributes: plain(span.attributes),
          });
        }
      }
      send(response, 200, {});
    }),
  };
  return { ...upstreams, spans, stop: () => Promise.all(Object.values(upstreams).map((one) => one.stop())) };
}

function plain(attributes = []) {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));
}

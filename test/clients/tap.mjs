/** A proxy between a client and the gateway that records requests, answers and abandoned requests. */
import { createServer, request as sendRequest } from 'node:http';

const MAX_NOTED = 2_000_000;

/**
 * @typedef {{method: string, message: any, status?: number, answer: string, closedEarly: boolean}} Exchange
 * @param {string} origin of the gateway
 * @returns {Promise<{url: string, exchanges: Exchange[], stop(): Promise<void>}>}
 */
export async function startTap(origin) {
  const exchanges = [];
  const server = createServer((request, response) => {
    const chunks = [];
    request.on('data', (chunk) => chunks.push(chunk));
    request.on('end', () => {
      const body = Buffer.concat(chunks);
      const exchange = { method: request.method, message: readJson(body), answer: '', closedEarly: false };
      exchanges.push(exchange);
      const { host: _host, ...headers } = request.headers;
      const upstream = sendRequest(`${origin}${request.url}`, { method: request.method, headers }, (answer) => {
        exchange.status = answer.statusCode;
        response.writeHead(answer.statusCode, answer.headers);
        answer.on('data', (chunk) => {
          if (exchange.answer.length < MAX_NOTED) exchange.answer += chunk;
          response.write(chunk);
        });
        answer.on('end', () => response.end());
        answer.on('error', () => response.destroy());
      });
      upstream.on('error', () => response.destroy());
      response.on('close', () => {
        if (response.writableFinished) return;
        exchange.closedEarly = true;
        upstream.destroy();
      });
      upstream.end(body);
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    exchanges,
    stop: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}

function readJson(body) {
  try {
    return JSON.parse(body.toString());
  } catch {
    return undefined;
  }
}

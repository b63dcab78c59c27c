/**
 * Sample OpenAPI service of the tour: parcels that can be listed, sent and cancelled, with its own description at
 * `/openapi.json`. `PORT` and `HOST` by environment, or the port as first argument.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { parcelsOpenApi } from './parcels-openapi.js';
import { Parcels, type Answer } from './parcels.js';

const MAX_BODY_BYTES = 1024 * 1024;
const parcels = new Parcels();
const description = JSON.stringify(parcelsOpenApi);
const etag = `"${Buffer.from(description).length}-1"`;

async function route(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? '/', 'http://sample');
  const [, collection, id, part] = url.pathname.split('/').map(decodeURIComponent);
  const method = request.method ?? 'GET';
  if (url.pathname === '/health') return send(response, { status: 200, body: { status: 'ok' } });
  if (url.pathname === '/openapi.json') return describe(request, response);
  // Prices hold for a minute.
  if (collection === 'quotes' && method === 'GET')
    return send(response, quote(url, request), { 'cache-control': 'max-age=60' });
  if (collection !== 'parcels') return send(response, { status: 404, body: { error: 'not found' } });
  if (id === undefined && method === 'GET') {
    const status = (url.searchParams.get('status') ?? '').split(',').filter(Boolean);
    return send(response, parcels.list(status, Number(url.searchParams.get('limit') ?? 20)));
  }
  if (id === undefined && method === 'POST') return send(response, parcels.create(await readJson(request)));
  if (id !== undefined && part === undefined && method === 'GET') return send(response, parcels.get(id));
  if (id !== undefined && part === undefined && method === 'DELETE') return send(response, parcels.cancel(id));
  if (id !== undefined && part === 'address' && method === 'PUT') {
    return send(response, parcels.move(id, await readJson(request)));
  }
  if (id !== undefined && part === 'label' && method === 'GET') return label(response, id);
  if (id !== undefined && part === 'photos' && method === 'POST') {
    const body = await readBody(request);
    const { status, body: known } = parcels.get(id);
    return send(
      response,
      status === 200 ? { status: 201, body: { parcel_id: id, bytes: body.length } } : { status, body: known },
    );
  }
  return send(response, { status: 405, body: { error: `${method} is not possible here` } });
}

function describe(request: IncomingMessage, response: ServerResponse): void {
  if (request.headers['if-none-match'] === etag) return void response.writeHead(304, { etag }).end();
  response.writeHead(200, { 'content-type': 'application/json', etag }).end(description);
}

function quote(url: URL, request: IncomingMessage): Answer {
  const edges = ['length', 'width', 'height'].map((edge) => Number(url.searchParams.get(`size[${edge}]`)));
  const size = edges.every((edge) => edge > 0) ? edges : [];
  return parcels.quote(Number(url.searchParams.get('weight_kg')), size, String(request.headers['x-currency'] ?? 'EUR'));
}

function label(response: ServerResponse, id: string): void {
  const { status, body } = parcels.get(id);
  if (status !== 200) return send(response, { status, body });
  const text = id.replace(/[^A-Z0-9-]/g, '');
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="200" height="40"><text x="10" y="28">${text}</text></svg>`;
  response.writeHead(200, { 'content-type': 'image/svg+xml' }).end(svg);
}

function send(response: ServerResponse, { status, body }: Answer, headers: Record<string, string> = {}): void {
  if (body === undefined) return void response.writeHead(status).end();
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
}

async function readBody(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.byteLength;
    if (bytes > MAX_BODY_BYTES) throw new RangeError('the body is too large');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

async function readJson<T>(request: IncomingMessage): Promise<T | undefined> {
  try {
    return JSON.parse((await readBody(request)).toString('utf8')) as T;
  } catch {
    return undefined;
  }
}

const server = createServer((request, response) => {
  route(request, response).catch((error: Error) => send(response, { status: 400, body: { error: error.message } }));
});
server.listen(
  Number(process.env['SAMPLE_API_PORT'] ?? process.argv[2] ?? process.env['PORT'] ?? 0),
  process.env['HOST'] ?? '127.0.0.1',
  () => {
    console.log(`sample API on port ${(server.address() as AddressInfo).port}`);
  },
);
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => process.exit(0));

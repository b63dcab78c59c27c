/**
 * The floor of a call: the least a server does that checks a key and passes the call on to an MCP server over HTTP. No sessions,
 * validation, limits, journal or accounting.
 *
 *   node floor.mjs <port> <origin of the upstream> <key>     sends 'ready' to its parent
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { createServer } from 'node:http';
import { Pool } from 'undici';

const [port, upstream, key] = process.argv.slice(2);
const digestOf = (text) => createHash('sha256').update(text).digest();
const wanted = digestOf(`Bearer ${key}`);
const pool = new Pool(upstream, { connections: 64, pipelining: 1 });
const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };

const server = createServer(async (request, response) => {
  if (!timingSafeEqual(digestOf(request.headers.authorization ?? ''), wanted)) return response.writeHead(401).end();
  const parts = [];
  for await (const part of request) parts.push(part);
  const { id, params } = JSON.parse(Buffer.concat(parts).toString());
  const body = JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params });
  const answer = await pool.request({ method: 'POST', path: '/mcp', headers, body });
  const { result } = JSON.parse(await answer.body.text());
  const text = JSON.stringify({ jsonrpc: '2.0', id, result });
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }).end(text);
});
server.listen(Number(port), '127.0.0.1', () => process.send?.('ready'));

import { createServer } from 'node:http';
import { EgressClient } from '@toolfleet/egress';

const server = createServer((_, response) => response.end('hello'));
await new Promise((done) => server.listen(0, '127.0.0.1', done));
const origin = `http://127.0.0.1:${server.address().port}`;

const client = new EgressClient({
  allowlist: ['api.example.com', '*.internal.example.com'],
  // Exact origins that skip the checks of addresses, such as a server on this machine.
  allowedEndpoints: [origin],
  limits: { maxBytes: 1024 * 1024, totalMs: 10_000 },
});

const { status, body } = await client.request({ url: `${origin}/greeting` });
console.log(status, await body.text());

for (const url of [
  'https://evil.example/',
  'https://169.254.169.254/latest/meta-data/',
  'https://user@api.example.com/',
]) {
  const { code, details } = await client.request({ url }).catch((error) => error);
  console.log(code, details.reason);
}

await client.close();
server.close();

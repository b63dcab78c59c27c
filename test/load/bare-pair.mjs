/**
 * The yardstick: the least a gateway could do. `gateway` is a bare Fastify server that sends each body as a stock NATS request;
 * `responder` answers it. No authentication, validation, limits or accounting.
 */
import { connect } from 'nats';

const [role, natsUrl, port] = process.argv.slice(2);
const nats = await connect({ servers: natsUrl });
const encoder = new TextEncoder();
const decoder = new TextDecoder();

if (role === 'responder') {
  nats.subscribe('bare.call', {
    queue: 'bare',
    callback: (_error, message) => {
      const { arguments: args } = JSON.parse(decoder.decode(message.data));
      message.respond(
        encoder.encode(JSON.stringify({ success: true, output: args.expression.length, text: 'ok', error: null })),
      );
    },
  });
  await nats.flush();
} else {
  const { default: fastify } = await import('fastify');
  const app = fastify();
  app.post('/call', async (request) => {
    const reply = await nats.request('bare.call', encoder.encode(JSON.stringify(request.body)), { timeout: 5_000 });
    return JSON.parse(decoder.decode(reply.data));
  });
  await app.listen({ port: Number(port), host: '127.0.0.1' });
}
process.send?.('ready');

import type { FastifyReply } from 'fastify';

/** One server-sent event. */
export interface ServerEvent {
  id: string;
  type: string;
  data: unknown;
}

/** Takes an answer over as a stream of server-sent events; proxies are told not to gather them. */
export function openEventStream(reply: FastifyReply): FastifyReply['raw'] {
  reply.hijack();
  reply.raw.writeHead(200, {
    ...(reply.getHeaders() as Record<string, string>),
    'Content-Type': 'text/event-stream; charset=utf-8',
    'Cache-Control': 'no-store',
    'X-Accel-Buffering': 'no',
  });
  return reply.raw;
}

/** The text of an event. */
export function eventFrame({ id, type, data }: ServerEvent): string {
  return `id: ${id}\nevent: ${type}\ndata: ${JSON.stringify(data)}\n\n`;
}

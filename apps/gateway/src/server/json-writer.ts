import { toExactJson } from '@toolfleet/contracts/json-text';
import type { FastifyInstance, FastifyRequest } from 'fastify';

const DIGITS = /(?:^|[,;\s])large-integers=digits(?:$|[,;\s])/i;

/** Writes the JSON of an answer. Large integers are strings, and digits for a client that sends `Prefer: large-integers=digits`. */
export function jsonWriter({ headers }: Pick<FastifyRequest, 'headers'>): (value: unknown) => string {
  return headers.prefer !== undefined && DIGITS.test(String(headers.prefer)) ? toExactJson : JSON.stringify;
}

/** Writes all JSON of an instance so. */
export function writeAsPreferred(fastify: FastifyInstance): void {
  fastify.addHook('onRequest', (request, reply, done) => {
    if (request.headers.prefer !== undefined) reply.serializer(jsonWriter(request));
    done();
  });
}

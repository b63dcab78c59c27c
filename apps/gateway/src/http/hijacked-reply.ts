import type { ServerResponse } from 'node:http';
import { ToolError } from '@toolfleet/contracts';
import { errorBody } from '@toolfleet/contracts/wire';
import type { FastifyReply } from 'fastify';
import { closeWhenStalled } from './unread-answers.js';

const FAULT = JSON.stringify(errorBody(new ToolError('INTERNAL')));

/**
 * Takes a reply over from Fastify, whose own error handling ends there. When `work` is over the reply has ended, whatever
 * was thrown: with 500 if nothing was sent yet, else by closing the connection, so that no client takes half an answer for
 * a whole one. No other code may call `hijack()`.
 */
export async function takeOverReply(
  reply: FastifyReply,
  work: (raw: ServerResponse) => Promise<void> | void,
  onFault?: (error: unknown) => void,
): Promise<void> {
  reply.hijack();
  const { raw } = reply;
  try {
    await work(raw);
  } catch (error) {
    onFault?.(error);
    if (!raw.headersSent && !raw.destroyed)
      raw.writeHead(500, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(FAULT) }).end(FAULT);
  } finally {
    if (!raw.writableEnded) raw.destroy();
    else closeWhenStalled(raw);
  }
}

import { Catch, HttpException, type ArgumentsHost, type ExceptionFilter } from '@nestjs/common';
import { CATALOGUE, isToolError, ToolError, toToolError } from '@toolfleet/contracts';
import { errorBody } from '@toolfleet/contracts/wire';
import { Clock } from '@toolfleet/resilience';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { challenge } from '@toolfleet/access';
import { discardBody } from './request-body.js';

/** The whole body of a call of a dangerous tool. */
const DANGEROUS_BODY = { error: 'Tool not available via direct execution' } as const;

/** A request with the id of its call, if a controller has assigned one. */
export interface CallIdCarrier {
  callId?: string;
}

/** Renders every error over HTTP: the status of the catalogue, body `{error, code, …}`. */
@Catch()
export class ErrorFilter implements ExceptionFilter {
  constructor(private readonly clock: Clock) {}

  catch(thrown: unknown, host: ArgumentsHost): Promise<void> {
    const http = host.switchToHttp();
    return this.render(thrown, http.getRequest<FastifyRequest & CallIdCarrier>(), http.getResponse<FastifyReply>());
  }

  async render(thrown: unknown, request: FastifyRequest & CallIdCarrier, reply: FastifyReply): Promise<void> {
    if (reply.sent || reply.raw.destroyed) return;
    const error = lacksToolName(request.url)
      ? new ToolError('REQUEST_INVALID', { message: NO_TOOL_NAME })
      : toRequestError(thrown);
    try {
      if (error.code === 'PAYLOAD_TOO_LARGE') await discardBody(request, this.clock);
      sendError(reply, request.url, error, request.callId);
    } catch {
      // Nest does not await this method, so a rejection would end the process.
      reply.raw.destroy();
    }
  }
}

/** Turns any error, also of Nest and Fastify, into a ToolError. */
export function toRequestError(thrown: unknown): ToolError {
  if (isToolError(thrown)) return thrown;
  const status =
    thrown instanceof HttpException ? thrown.getStatus() : Number((thrown as { statusCode?: number }).statusCode);
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  if (status === 404) return new ToolError('NOT_FOUND', { message: withoutQuery(message) });
  if (status === 414) return new ToolError('REQUEST_INVALID', { message: 'A part of the path is too long' });
  if (status === 413) return new ToolError('PAYLOAD_TOO_LARGE', { message: 'The request body is too large' });
  if (status >= 400 && status < 500) return new ToolError('REQUEST_INVALID', { message });
  return toToolError(thrown);
}

const NO_TOOL_NAME = 'The path has no tool name';

/** Whether a path has an empty segment in the place of a tool's name. No route matches it. */
const lacksToolName = (url: string): boolean => /^\/(?:api\/v1\/)?tools\/\/\w/.test(url);

/** Nest's message is `Cannot PUT /path?query`; the query may contain secrets. */
const withoutQuery = (message: string): string => message.split('?', 1)[0]!;

/** Sends an error; answers of the Shannon-compatible paths (`/tools/…`) also have its text as `detail`. */
export function sendError(reply: FastifyReply, url: string, error: ToolError, callId?: string): void {
  if (error.code === 'UNAUTHENTICATED') void reply.header('WWW-Authenticate', challenge());
  if (error.retryAfterMs !== undefined)
    void reply.header('Retry-After', String(Math.max(1, Math.ceil(error.retryAfterMs / 1000))));
  void reply.status(CATALOGUE[error.code].http).send(toErrorBody(url, error, callId));
}

function toErrorBody(url: string, error: ToolError, callId?: string): object {
  const body: { error: string } = error.code === 'TOOL_DANGEROUS' ? DANGEROUS_BODY : errorBody(error, callId);
  if (error.code === 'RATE_LIMITED' && typeof error.details?.window === 'string') {
    // Clients of Shannon read these two fields.
    return { ...body, message: error.message, window: error.details.window };
  }
  return url.startsWith('/tools/') ? { ...body, detail: body.error } : body;
}

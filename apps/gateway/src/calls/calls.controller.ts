import { Controller, Delete, Get, Headers, Param, Res } from '@nestjs/common';
import { ToolError, type JsonObject, type Principal } from '@toolfleet/contracts';
import { Clock } from '@toolfleet/resilience';
import type { FastifyReply } from 'fastify';
import { Caller } from '../auth/auth.guard.js';
import { eventFrame, openEventStream } from '../doors/http/event-stream.js';
import { Readiness } from '../doors/http/health.controller.js';
import { AsyncCalls, isFinal } from './async-calls.js';
import type { CallEvent, StoredCall } from './call-store.js';

/** How often an open event stream looks for news; progress is for people. */
const POLL_MS = 200;
/** How often it looks whether a call without news has ended. */
const LOOK_MS = 1_000;
/** Open streams of one gateway. */
const MOST_STREAMS = 500;
/** A comment keeps idle connections through proxies alive. */
const KEEP_ALIVE_MS = 15_000;
/** Longest stream; clients resume with `Last-Event-ID`. */
const MAX_STREAM_MS = 3_600_000;

/** Calls the caller has access to: their state, their result, their events. */
@Controller('api/v1/calls')
export class CallsController {
  #open = 0;

  constructor(
    private readonly calls: AsyncCalls,
    private readonly clock: Clock,
    private readonly readiness: Readiness,
  ) {}

  @Get(':id')
  async one(@Caller() caller: Principal, @Param('id') id: string) {
    return shown(await this.calls.get(caller, id));
  }

  /** 200 with the state the call is in for good; 202 when it has been told to stop and has not ended yet. */
  @Delete(':id')
  async cancel(@Caller() caller: Principal, @Param('id') id: string, @Res({ passthrough: true }) reply: FastifyReply) {
    const status = await this.calls.cancel(caller, id);
    if (!isFinal(status)) reply.status(202);
    return { call_id: id, status };
  }

  /** Server-sent events: accepted, started, progress…, done. Resumable by `Last-Event-ID`; 204 after the last one. */
  @Get(':id/events')
  async events(
    @Caller() caller: Principal,
    @Param('id') id: string,
    @Headers('last-event-id') lastId: string | undefined,
    @Res() reply: FastifyReply,
  ) {
    const from = /^\d{1,19}-\d{1,19}$/.test(lastId ?? '') ? lastId : undefined;
    const call = await this.calls.get(caller, id);
    const known = await this.calls.events(id, from);
    // The status that tells browsers to stop asking (HTML, server-sent events).
    if (from !== undefined && known.length === 0 && isFinal(call.state)) return reply.status(204).send();
    if (this.#open >= MOST_STREAMS)
      throw new ToolError('QUEUE_FULL', { message: `${MOST_STREAMS} event streams are open`, retryAfterMs: 5_000 });
    this.#open += 1;
    try {
      await this.stream(openEventStream(reply), caller, call, from);
    } finally {
      this.#open -= 1;
    }
  }

  private async stream(raw: FastifyReply['raw'], caller: Principal, call: StoredCall, from: string | undefined) {
    const id = call.callId;
    const until = this.clock.monotonic() + MAX_STREAM_MS;
    let after = from;
    let wroteAt = this.clock.monotonic();
    let lookedAt = isFinal(call.state) ? Number.NEGATIVE_INFINITY : wroteAt;
    while (!raw.destroyed && !this.readiness.draining.aborted && this.clock.monotonic() < until) {
      const events = await this.calls.events(id, after).catch(() => []);
      for (const event of events) {
        raw.write(frameOf(event));
        after = event.id;
        wroteAt = this.clock.monotonic();
      }
      if (events.at(-1)?.type === 'done') break;
      if (events.length === 0 && this.clock.monotonic() - lookedAt > LOOK_MS) {
        // Ends a call whose worker was lost; a call that went through no queue has no events but this one.
        const now = await this.calls.get(caller, id).catch(() => undefined);
        if (now && isFinal(now.state) && (await this.calls.events(id, after).catch(() => [])).length === 0) {
          raw.write(frameOf(doneOf(now)));
          break;
        }
        lookedAt = this.clock.monotonic();
      }
      if (this.clock.monotonic() - wroteAt > KEEP_ALIVE_MS) {
        raw.write(': still running\n\n');
        wroteAt = this.clock.monotonic();
      }
      await this.clock.sleep(POLL_MS);
    }
    raw.end();
  }
}

function doneOf({ state, result, finishedAt, acceptedAt }: StoredCall): CallEvent {
  return { id: `${finishedAt ?? acceptedAt}-0`, type: 'done', state, ...(result ? { result } : {}) };
}

function frameOf({ id, type, ...data }: CallEvent): string {
  return eventFrame({ id, type, data });
}

function shown(call: StoredCall): JsonObject {
  return {
    call_id: call.callId,
    tool: call.tool,
    status: call.state,
    accepted_at: new Date(call.acceptedAt).toISOString(),
    ...(call.finishedAt === undefined ? {} : { finished_at: new Date(call.finishedAt).toISOString() }),
    ...(call.result === undefined ? {} : { result: { ...call.result } as unknown as JsonObject }),
  };
}

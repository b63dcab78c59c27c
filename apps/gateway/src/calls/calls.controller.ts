import { Controller, Delete, Get, Headers, Param, Res } from '@nestjs/common';
import type { JsonObject, Principal } from '@toolfleet/contracts';
import { Clock } from '@toolfleet/resilience';
import type { FastifyReply } from 'fastify';
import { Caller } from '../auth/auth.guard.js';
import { Readiness } from '../doors/http/health.controller.js';
import { AsyncCalls, isFinal } from './async-calls.js';
import type { CallEvent, StoredCall } from './call-store.js';

/** How often an open event stream looks for news; progress is for people. */
const POLL_MS = 200;
/** A comment keeps idle connections through proxies alive. */
const KEEP_ALIVE_MS = 15_000;
/** Longest stream; clients resume with `Last-Event-ID`. */
const MAX_STREAM_MS = 3_600_000;

/** Asynchronous calls of the caller's tenant. */
@Controller('api/v1/calls')
export class CallsController {
  constructor(
    private readonly calls: AsyncCalls,
    private readonly clock: Clock,
    private readonly readiness: Readiness,
  ) {}

  @Get(':id')
  async one(@Caller() caller: Principal, @Param('id') id: string) {
    return shown(await this.calls.get(caller, id));
  }

  @Delete(':id')
  async cancel(@Caller() caller: Principal, @Param('id') id: string) {
    return { call_id: id, status: await this.calls.cancel(caller, id) };
  }

  /** Server-sent events: accepted, started, progress…, done. Resumable by `Last-Event-ID`. */
  @Get(':id/events')
  async events(
    @Caller() caller: Principal,
    @Param('id') id: string,
    @Headers('last-event-id') lastId: string | undefined,
    @Res() reply: FastifyReply,
  ) {
    await this.calls.get(caller, id);
    reply.hijack();
    const { raw } = reply;
    raw.writeHead(200, {
      'Content-Type': 'text/event-stream; charset=utf-8',
      'Cache-Control': 'no-store',
      'X-Accel-Buffering': 'no',
    });
    const until = this.clock.monotonic() + MAX_STREAM_MS;
    let after = /^\d+-\d+$/.test(lastId ?? '') ? lastId : undefined;
    let quietSince = this.clock.monotonic();
    while (!raw.destroyed && !this.readiness.draining.aborted && this.clock.monotonic() < until) {
      const events = await this.calls.events(id, after).catch(() => []);
      for (const event of events) {
        raw.write(frameOf(event));
        after = event.id;
        quietSince = this.clock.monotonic();
      }
      if (events.at(-1)?.type === 'done') break;
      if (this.clock.monotonic() - quietSince > KEEP_ALIVE_MS) {
        // A call whose worker was lost ends when someone asks for it.
        if (isFinal((await this.calls.get(caller, id)).state) === false) raw.write(': still running\n\n');
        quietSince = this.clock.monotonic();
      }
      await this.clock.sleep(POLL_MS);
    }
    raw.end();
  }
}

function frameOf({ id, type, ...data }: CallEvent): string {
  return `id: ${id}\nevent: ${type}\ndata: ${JSON.stringify(data)}\n\n`;
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

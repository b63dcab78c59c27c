import { Controller, Headers, Param, Res } from '@nestjs/common';
import { ToolError, type Principal } from '@toolfleet/contracts';
import { requirePlainId } from '@toolfleet/contracts/text';
import { Clock } from '@toolfleet/resilience';
import type { RouteInput } from '@toolfleet/contracts/resources';
import type { FastifyReply } from 'fastify';
import { Caller } from '../server/guards.js';
import { type StoredRecentCall, RecentCallsFeed } from '@toolfleet/records';
import { isOperator } from '@toolfleet/access';
import { LogLinks } from './log-links.js';
import { Input, Serves } from '../server/routes.js';
import { eventFrame, EventStreams } from '../server/event-streams.js';
import { Readiness } from './health.controller.js';

const DEFAULT_LIMIT = 100;
const CURSOR = /^\d+-\d+$/;
/** Interval of comments, which keep idle connections through proxies alive. */
const KEEP_ALIVE_MS = 15_000;

/** Finished calls of the caller's tenant, of the fleet for operators. */
@Controller()
export class RecentCallsController {
  constructor(
    private readonly feed: RecentCallsFeed,
    private readonly links: LogLinks,
    private readonly streams: EventStreams,
    private readonly readiness: Readiness,
    private readonly clock: Clock,
  ) {}

  /** Oldest first; `enabled: false` if no recent calls are recorded. */
  @Serves('GET /api/v1/recent-calls')
  async list(@Caller() caller: Principal, @Input() { query }: RouteInput<'GET /api/v1/recent-calls'>) {
    const calls = await this.feed.read(caller, query.limit ?? DEFAULT_LIMIT, query.after);
    return { enabled: this.feed.enabled, calls: calls.map(shown) };
  }

  /** One call, the calls that its tool made, and for operators where its log lines are. @throws ToolError NOT_FOUND when it is not recorded, or not any more */
  @Serves('GET /api/v1/recent-calls/{id}')
  async one(@Caller() caller: Principal, @Param('id') id: string) {
    requirePlainId('call_id', id);
    const found = await this.feed.find(caller, id);
    const call = found.find(({ call_id: callId }) => callId === id);
    if (!call) throw new ToolError('NOT_FOUND', { message: `No recent call '${id}'` });
    const made = found.filter((other) => other !== call).map(shown);
    // The logs are those of the whole fleet.
    return { call: shown(call), made, logs: isOperator(caller) ? this.links.find(call) : undefined };
  }

  /** Server-sent events `call` after `Last-Event-ID`, else from the oldest call kept. */
  @Serves('GET /api/v1/recent-calls/events')
  async events(
    @Caller() caller: Principal,
    @Headers('last-event-id') lastId: string | undefined,
    @Res() reply: FastifyReply,
  ) {
    const updates = this.feed.follow(caller, {
      cursor: CURSOR.test(lastId ?? '') ? lastId : undefined,
      ends: () => reply.raw.destroyed || this.readiness.draining.aborted,
    });
    // The first read happens before the answer begins, so that an error still gets its status.
    let next = await updates.next();
    await this.streams.serve(caller, reply, async (stream) => {
      await stream.send(': following\n\n');
      let wroteAt = this.clock.monotonic();
      while (!next.done && !stream.closed) {
        const calls = next.value === 'quiet' ? [] : next.value;
        for (const call of calls) await stream.send(eventFrame({ id: call.cursor, type: 'call', data: shown(call) }));
        const now = this.clock.monotonic();
        if (calls.length > 0) wroteAt = now;
        else if (now - wroteAt > KEEP_ALIVE_MS) {
          await stream.send(': quiet\n\n');
          wroteAt = now;
        }
        next = await updates.next().catch(() => ({ done: true as const, value: undefined }));
      }
      await updates.return(undefined);
    });
  }
}

const shown = ({ ended_at: endedAt, ...call }: StoredRecentCall) => ({
  ...call,
  ended_at: new Date(endedAt).toISOString(),
});

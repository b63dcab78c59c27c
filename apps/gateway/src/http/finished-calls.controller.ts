import { Controller, Headers, Param, Res } from '@nestjs/common';
import { parseInstant, toUsd, type Principal } from '@toolfleet/contracts';
import type { CallGroups, CallSum, RecordsList, StoredCall } from '@toolfleet/contracts/records';
import { requirePlainId } from '@toolfleet/contracts/text';
import { Clock } from '@toolfleet/resilience';
import type { RouteInput } from '@toolfleet/contracts/resources';
import type { FastifyReply } from 'fastify';
import { Caller } from '../server/guards.js';
import { CallBodyReader, CallFeed } from '@toolfleet/records';
import { hasRight } from '@toolfleet/access';
import { LogLinks } from './log-links.js';
import { Input, Serves } from '../server/routes.js';
import { eventFrame, EventStreams } from '../server/event-streams.js';
import { Readiness } from './health.controller.js';

const DEFAULT_LIMIT = 100;
const CURSOR = /^\d{1,16}$/;
/** Interval of comments that keep idle connections through proxies alive. */
const KEEP_ALIVE_MS = 15_000;

/** Finished calls that the caller sees (`CallSight`), and with rights over the fleet all tenants'. */
@Controller()
export class FinishedCallsController {
  constructor(
    private readonly feed: CallFeed,
    private readonly bodies: CallBodyReader,
    private readonly links: LogLinks,
    private readonly streams: EventStreams,
    private readonly readiness: Readiness,
    private readonly clock: Clock,
  ) {}

  /** Oldest first; `enabled: false` if no calls are recorded. */
  @Serves('GET /api/v1/calls')
  async list(@Caller() caller: Principal, @Input() { query }: RouteInput<'GET /api/v1/calls'>) {
    const { calls, next, groups } = await this.feed.read(caller, toRecordsList(query));
    return { enabled: this.feed.enabled, calls: calls.map(shown), next, groups: groups && shownGroups(groups) };
  }

  /** One call, the calls that its tool made, and for operators where its log lines are. @throws ToolError NOT_FOUND when it is not recorded, or not any more */
  @Serves('GET /api/v1/calls/{id}/record')
  async one(@Caller() caller: Principal, @Param('id') id: string) {
    requirePlainId('call_id', id);
    const { call, made } = await this.feed.withMade(caller, id);
    return {
      call: shown(call),
      body: await this.bodies.access(caller, call),
      made: made.map(shown),
      // The logs belong to the whole fleet.
      logs: hasRight(caller, 'operate_fleet') ? this.links.find(call) : undefined,
    };
  }

  /** Arguments, result, upstream answer and errors of a call. @throws ToolError as `CallBodyReader` */
  @Serves('GET /api/v1/calls/{id}/body')
  async body(@Caller() caller: Principal, @Param('id') id: string) {
    requirePlainId('call_id', id);
    const { body, readings } = await this.bodies.read(caller, await this.feed.one(caller, id));
    const shownReadings = readings.map((reading) => ({ ...reading, at: new Date(reading.at).toISOString() }));
    return { call_id: id, body, readings: shownReadings };
  }

  /** Server-sent events `call` after `Last-Event-ID`, else from the last calls. */
  @Serves('GET /api/v1/calls/events')
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

const shown = ({ ended_at: endedAt, micro_usd: microUsd, ...call }: StoredCall) => ({
  ...call,
  ended_at: new Date(endedAt).toISOString(),
  cost_usd: toUsd(microUsd),
});

const shownSum = ({ micro_usd: microUsd, ...sum }: CallSum) => ({ ...sum, cost_usd: toUsd(microUsd) });

const shownGroups = ({ rows, total, since }: CallGroups) => ({
  rows: rows.map(shownSum),
  total: shownSum(total),
  since: since === undefined ? undefined : new Date(since).toISOString(),
});

type CallListQuery = RouteInput<'GET /api/v1/calls'>['query'];

const FAILURES = ['tool_error', 'refused', 'cancelled', 'system_error'] as const;

/** The filters of a request as the service `records` reads them. */
function toRecordsList({
  id,
  parent_id,
  from,
  to,
  status,
  slower_than_ms,
  dearer_than_usd,
  group_by,
  ...same
}: CallListQuery): RecordsList {
  const statuses = status?.split(',').flatMap((one) => (one === 'failure' ? FAILURES : [one])) as RecordsList['status'];
  return {
    ...same,
    limit: same.limit ?? DEFAULT_LIMIT,
    call_id: id,
    parent_call_id: parent_id,
    from: from === undefined ? undefined : parseInstant(from),
    to: to === undefined ? undefined : parseInstant(to),
    status: statuses,
    group_by: group_by?.split(',') as RecordsList['group_by'],
    min_duration_ms: slower_than_ms,
    min_micro_usd: dearer_than_usd === undefined ? undefined : Math.round(Number(dearer_than_usd) * 1_000_000),
  };
}

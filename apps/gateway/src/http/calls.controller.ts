import { Controller, Headers, Param, Res } from '@nestjs/common';
import { payloadOmitted, ToolError, type CallBody, type CallEvent, type Principal } from '@toolfleet/contracts';
import type { RouteInput } from '@toolfleet/contracts/resources';
import { toContentFile, toOutputFile } from '@toolfleet/contracts/result-files';
import { contentRefusal, resultOmitted, type Sight } from '@toolfleet/access';
import { Clock } from '@toolfleet/resilience';
import type { FastifyReply } from 'fastify';
import { Caller } from '../server/guards.js';
import { eventFrame, EventStreams, type EventStream } from '../server/event-streams.js';
import { Readiness } from './health.controller.js';
import { AsyncCalls, isFinal, type AcceptedCall } from '@toolfleet/results';
import { jsonWriter } from '../server/json-writer.js';
import { Input, Serves } from '../server/routes.js';
import { sendFile } from '../server/send-file.js';

/** Interval in which an open stream looks for new events. */
const POLL_MS = 200;
/** Interval in which it checks whether a call without new events has ended. */
const CHECK_MS = 1_000;
/** Interval of comments that keep idle connections through proxies alive. */
const KEEP_ALIVE_MS = 15_000;
/** Longest stream; clients resume with `Last-Event-ID`. */
const MAX_STREAM_MS = 3_600_000;

/** State, result and events of calls, as far as the caller sees them (`Sight`). */
@Controller()
export class CallsController {
  constructor(
    private readonly calls: AsyncCalls,
    private readonly streams: EventStreams,
    private readonly clock: Clock,
    private readonly readiness: Readiness,
  ) {}

  @Serves('GET /api/v1/calls/{id}')
  async one(
    @Caller() caller: Principal,
    @Input() { path: { id }, query }: RouteInput<'GET /api/v1/calls/{id}'>,
    @Res({ passthrough: true }) reply: FastifyReply,
  ) {
    const { resultText, ...call } = await this.calls.getText(caller, id, { ownOnly: query.content === 'own' });
    const body = toCallBody(call);
    if (!resultText) return body;
    reply.header('Content-Type', 'application/json; charset=utf-8');
    return withResult(body, resultText) as unknown as typeof body;
  }

  /** The output of an ended call as a file to download. */
  @Serves('GET /api/v1/calls/{id}/result')
  async output(@Caller() caller: Principal, @Param('id') id: string, @Res() reply: FastifyReply) {
    const { tool, result } = await this.ended(caller, id);
    return sendFile(reply, toOutputFile(result, tool));
  }

  /** One block of `content` as a file to download. */
  @Serves('GET /api/v1/calls/{id}/content/{index}')
  async content(
    @Caller() caller: Principal,
    @Param('id') id: string,
    @Param('index') index: string,
    @Res() reply: FastifyReply,
  ) {
    const { tool, result } = await this.ended(caller, id);
    const { content = [], metadata } = result;
    const block = /^\d{1,4}$/.test(index) ? content[Number(index)] : undefined;
    if (!block) {
      const omitted = metadata['content_omitted'];
      const message = omitted
        ? `The content of call '${id}' was too large to keep: ${JSON.stringify(omitted)}`
        : `Call '${id}' has no content block ${index}; it has ${content.length}, counted from 0`;
      throw new ToolError('NOT_FOUND', { message });
    }
    const file = toContentFile(block, content.length > 1 ? `${tool}-${Number(index) + 1}` : tool);
    if (file) return sendFile(reply, file);
    const message = `Content block ${index} of call '${id}' is a ${String(block['type'])}, which holds no bytes`;
    throw new ToolError('NOT_FOUND', { message });
  }

  /**
   * An ended call with its result.
   * @throws ToolError PERMISSION_DENIED; NOT_FOUND if it has not ended, has no result or its result was omitted
   */
  private async ended(caller: Principal, id: string): Promise<{ tool: string; result: CallBody }> {
    const { tool, state, result, isWithheld } = await this.calls.get(caller, id);
    if (isWithheld) throw contentRefusal();
    const omitted = result && payloadOmitted(result);
    if (result && !omitted) return { tool, result };
    const reason = isFinal(state) ? 'has no result' : 'has not ended yet';
    const message = omitted
      ? `The result of call '${id}' is not available: ${JSON.stringify(omitted)}`
      : `Call '${id}' ${reason} (${state})`;
    throw new ToolError('NOT_FOUND', { message });
  }

  /** 200 with the final state of the call; 202 if it is still stopping. */
  @Serves('DELETE /api/v1/calls/{id}')
  async cancel(@Caller() caller: Principal, @Param('id') id: string, @Res({ passthrough: true }) reply: FastifyReply) {
    const status = await this.calls.cancel(caller, id);
    if (!isFinal(status)) reply.status(202);
    return { call_id: id, status };
  }

  /** Server-sent events: accepted, started, progress…, done. Resumable by `Last-Event-ID`; 204 after the last one. */
  @Serves('GET /api/v1/calls/{id}/events')
  async events(
    @Caller() caller: Principal,
    @Input() { path: { id }, query }: RouteInput<'GET /api/v1/calls/{id}/events'>,
    @Headers('last-event-id') lastId: string | undefined,
    @Res() reply: FastifyReply,
  ) {
    const from = /^\d{1,19}-\d{1,19}$/.test(lastId ?? '') ? lastId : undefined;
    const call = await this.calls.getState(caller, id);
    // 204 makes browsers stop reconnecting (HTML, section 9.2 Server-sent events).
    const isResumed = from !== undefined && isFinal(call.state);
    if (isResumed && (await this.calls.events(id, from)).length === 0) return reply.status(204).send();
    const isWithheld = await this.calls.isWithheld(caller, call, { ownOnly: query.content === 'own' });
    const write = jsonWriter(reply.request);
    await this.streams.serve(caller, reply, (stream) =>
      this.follow(stream, caller, { ...call, isWithheld }, from, write),
    );
  }

  private async follow(
    stream: EventStream,
    caller: Principal,
    call: AcceptedCall,
    from: string | undefined,
    write: (data: unknown) => string,
  ) {
    const { callId: id, sight = 'none', isWithheld } = call;
    const toFrame = (event: CallEvent) => eventFrame(toServerEvent(isWithheld ? stateOf(event, sight) : event), write);
    const until = this.clock.monotonic() + MAX_STREAM_MS;
    let after = from;
    let wroteAt = this.clock.monotonic();
    let lookedAt = isFinal(call.state) ? Number.NEGATIVE_INFINITY : wroteAt;
    while (!stream.closed && !this.readiness.draining.aborted && this.clock.monotonic() < until) {
      const events = await this.calls.events(id, after).catch(() => []);
      for (const event of events) {
        await stream.send(toFrame(event));
        after = event.id;
        wroteAt = this.clock.monotonic();
      }
      if (events.at(-1)?.type === 'done') break;
      if (events.length === 0 && this.clock.monotonic() - lookedAt > CHECK_MS) {
        // `get` ends a call with a lost worker. A call that did not go through the queue has only this event.
        const now = await this.calls.get(caller, id, { ownOnly: isWithheld }).catch(() => undefined);
        if (now && isFinal(now.state) && (await this.calls.events(id, after).catch(() => [])).length === 0) {
          await stream.send(toFrame(toDoneEvent(now)));
          break;
        }
        lookedAt = this.clock.monotonic();
      }
      if (this.clock.monotonic() - wroteAt > KEEP_ALIVE_MS) {
        await stream.send(': still running\n\n');
        wroteAt = this.clock.monotonic();
      }
      await this.clock.sleep(POLL_MS);
    }
  }
}

/** The JSON of a body with a result that is JSON already. */
function withResult(body: object, result: Buffer): Buffer {
  const head = JSON.stringify(body).slice(0, -1);
  return Buffer.concat([Buffer.from(`${head},"result":`), result, Buffer.from('}')]);
}

function toDoneEvent({ state, result, finishedAt, acceptedAt }: AcceptedCall): CallEvent {
  return { id: `${finishedAt ?? acceptedAt}-0`, type: 'done', state, result };
}

const toServerEvent = ({ id, type, ...data }: CallEvent) => ({ id, type, data });

/** That something happened, without the report of the tool. */
function stateOf(event: CallEvent, sight: Sight): CallEvent {
  const { id, type } = event;
  return type === 'done' ? { id, type, state: event.state, result_omitted: resultOmitted(sight) } : { id, type };
}

function toCallBody(call: AcceptedCall) {
  return {
    call_id: call.callId,
    tool: call.tool,
    status: call.state,
    arguments: call.arguments,
    accepted_at: new Date(call.acceptedAt).toISOString(),
    finished_at: call.finishedAt === undefined ? undefined : new Date(call.finishedAt).toISOString(),
    result: call.result,
    result_omitted: call.isWithheld ? resultOmitted(call.sight ?? 'none') : undefined,
  };
}

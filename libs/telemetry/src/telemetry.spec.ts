import '@toolfleet/base/json-text'; // writes large integers as strings, in each service
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import fc from 'fast-check';
import { FakeClock } from '@toolfleet/testing';
import { describe, expect, it } from 'vitest';
import { BufferedDestination } from './log-destinations.js';
import { createLogger, isoTime } from './logger.js';
import { METRICS } from './metric-catalogue.js';
import { BoundedLabel, createMetrics } from './metrics.js';
import { readSpanContext, traceHeaders, traceparent } from './propagation.js';
import { holdsSecret, redact, registerSecret } from './redact.js';
import { inSpan, beginTrace, inTrace, startTracing } from './tracing.js';

const carrier = (headers: Record<string, string>) => ({ get: (name: string) => headers[name] });
const PARENT = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';

describe('redaction by value', () => {
  const secret = 'pa$$w0rd/+?=&"ü-canary';
  registerSecret(secret);
  const forms = {
    plain: secret,
    base64: Buffer.from(secret).toString('base64'),
    base64url: Buffer.from(secret).toString('base64url'),
    'URL-encoded': encodeURIComponent(secret),
    'form-encoded': new URLSearchParams({ key: secret }).toString(),
    JSON: JSON.stringify({ key: secret }),
    hex: Buffer.from(secret).toString('hex'),
    'hex in capitals': Buffer.from(secret).toString('hex').toUpperCase(),
    reversed: [...secret].toReversed().join(''),
    'URL-encoded in small letters': encodeURIComponent(secret).replaceAll(/%../g, (escape) => escape.toLowerCase()),
    'URL-encoded as a whole': Buffer.from(secret).toString('hex').replaceAll(/../g, '%$&'),
    'JSON in JSON': JSON.stringify(JSON.stringify({ key: secret })),
    'JSON with escaped slashes': JSON.stringify(secret).replaceAll('/', '\\/'),
    'JSON with escapes only': secret.replaceAll(
      /[^]/g,
      (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
    ),
    'base64 of a Basic credential': Buffer.from(`user:${secret}`).toString('base64'),
    'base64 of JSON': Buffer.from(JSON.stringify([1, secret])).toString('base64'),
  };
  for (const [form, text] of Object.entries(forms)) {
    it(`removes the ${form} form`, () => {
      const out = redact(`before ${text} after`);
      expect(out).toMatch(/^before .*\[redacted\].* after$/);
      expect(holdsSecret(out)).toBe(false);
    });
  }
  it('leaves other text unchanged', () => expect(redact('nothing to see')).toBe('nothing to see'));
  it('does not treat short words as secrets', () => {
    registerSecret('on');
    expect(redact('on and on')).toBe('on and on');
  });

  it('removes each secret of many, wherever it begins and whatever is around it', () => {
    // Letters that no other spec writes: what is registered stays so.
    const secrets = ['ǀǀǀǀǀǁ', 'ǀǀǀǁǀǀǀǁ', 'ǁǀǀǀǀǀ', 'ǀǁǀǁǀǁǀǁ', 'ǁǁǀǁǁǀ-canary', 'ǀǁ-canary'];
    secrets.forEach(registerSecret);
    const reversed = secrets.map((each) => [...each].toReversed().join(''));
    const anySecret = new RegExp([...secrets, ...reversed].join('|'));
    const piece = fc.oneof(
      fc.constantFrom(...secrets),
      fc.string({ unit: fc.constantFrom('ǀ', 'ǁ', '-'), maxLength: 9 }),
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 8 }), (pieces) => {
        const text = pieces.join('');
        const outside = redact(text).split('[redacted]');
        expect(outside.filter((part) => anySecret.test(part))).toEqual([]);
        expect(holdsSecret(text)).toBe(anySecret.test(text));
      }),
      { numRuns: 1_000 },
    );
  });
});

describe('the log', () => {
  const lines: string[] = [];
  const logger = createLogger({
    service: 'spec',
    level: 'info',
    destination: { write: (line) => void lines.push(line) },
  });

  it('removes secrets by field name and by value, also in errors and their stacks', () => {
    registerSecret('top-secret-value');
    logger.info({ headers: { authorization: 'Bearer abc', 'x-api-key': 'k' }, args: { password: 'p' } }, 'a');
    logger.info(
      { error: Object.assign(new Error('x'), { headers: { Cookie: 'crumbs' } }), list: [{ Client_Secret: 'cs1' }] },
      'c',
    );
    logger.error({ error: new Error('refused: top-secret-value') }, 'b top-secret-value');
    const text = lines.join('');
    expect(text).not.toMatch(/Bearer abc|"k"|"p"|top-secret-value|crumbs|cs1/);
    expect(JSON.parse(lines[2] as string)).toMatchObject({ level: 'error', service: 'spec', message: 'b [redacted]' });
  });

  it('adds the trace of a call to each line, recorded or not', async () => {
    lines.splice(0);
    const inExecutor = (headers: Record<string, string>) =>
      inTrace('executor', carrier(headers), async () => {
        await new Promise((resolve) => setImmediate(resolve));
        logger.info('in the executor');
        return headers;
      });
    const passedOn = () => inExecutor(traceHeaders() ?? {});
    const { traceparent: begun = '' } = await beginTrace('call', carrier({}), passedOn);
    await beginTrace('call', carrier({ traceparent: PARENT }), passedOn);
    logger.info('in no call');
    expect(begun).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/);
    const ids = lines.map((line) => (JSON.parse(line) as { trace_id?: string }).trace_id);
    expect(ids).toEqual([begun.split('-')[1], PARENT.split('-')[1], undefined]);
  });

  it('formats the time as Date does', () => {
    const some = fc.integer({ min: 0, max: 4_102_444_800_000 });
    // Two of one minute and one of another: what is kept of the minute is used and replaced.
    fc.assert(
      fc.property(some, fc.integer({ min: 0, max: 59_999 }), (at, later) => {
        for (const ms of [at, at + later]) expect(isoTime(ms)).toBe(new Date(ms).toISOString());
      }),
    );
  });

  it('writes many lines at once, in order and without a long delay', () => {
    const clock = new FakeClock();
    const written: string[] = [];
    const gathered = new BufferedDestination((bytes) => void written.push(Buffer.from(bytes).toString()), clock);
    const line = `${'x'.repeat(99)}\n`;
    gathered.write('first\n');
    clock.advance(99);
    gathered.write('second\n');
    expect(written).toEqual([]);
    clock.advance(1);
    expect(written).toEqual(['first\nsecond\n']);
    for (let count = 0; count < 400; count += 1) gathered.write(line);
    expect(written).toHaveLength(2);
    gathered.flushSync();
    expect(written.slice(1).join('')).toBe(line.repeat(400));
  });

  it('keeps lines of any length and alphabet in order, and writes a fatal one at once', () => {
    let written = '';
    const gathered = new BufferedDestination(
      (bytes) => void (written += Buffer.from(bytes).toString()),
      new FakeClock(),
    );
    const texts = [1, 10, 9_000, 21_000, 22_000, 70_000, 5].flatMap((length) =>
      ['x', 'é', '€', '𝄞'].map((c) => c.repeat(length)),
    );
    const own = createLogger({ service: 'spec', destination: gathered });
    for (const text of texts) own.info(text);
    own.fatal('the end');
    const messages = written
      .trimEnd()
      .split('\n')
      .map((line) => (JSON.parse(line) as { message: string }).message);
    expect(messages).toEqual([...texts, 'the end']);
  });

  it('writes any fields as JSON', () => {
    const secret = /pass|pwd|pin|otp|cv[cv]|csc|ssn|jwt|token|secret|cookie|bearer/i;
    const values = fc.jsonValue().filter((value) => !secret.test(JSON.stringify(value)));
    const key = fc
      .string()
      .filter((name) => !secret.test(name))
      .map((name) => `.${name}`); // no field of the logger itself, and no secret
    fc.assert(
      fc.property(fc.dictionary(key, values, { noNullPrototype: true }), fc.string(), (fields, message) => {
        lines.splice(0);
        logger.info(fields, '%s', message);
        expect(lines[0]).toMatch(/^[^\n]*\n$/);
        const { level, time, ...shown } = JSON.parse(lines[0] as string) as Record<string, unknown>;
        expect([level, typeof time]).toEqual(['info', 'string']);
        expect(shown).toEqual({ ...(JSON.parse(JSON.stringify(fields)) as object), service: 'spec', message });
      }),
    );
  });

  it('writes what JSON cannot express', () => {
    lines.splice(0);
    const cycle: Record<string, unknown> = { big: 1n };
    cycle['self'] = cycle;
    logger.info({ cycle, big: 2n }, 'odd');
    logger.info({});
    const [odd, empty] = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(odd).toMatchObject({ big: '2', message: 'odd', service: 'spec' });
    expect(empty).toMatchObject({ level: 'info', service: 'spec' });
  });
});

describe('metrics', () => {
  it('have the published names', () => {
    // Literals on purpose: a rename must fail here.
    expect(
      Object.values(METRICS)
        .map((metric) => metric.name)
        .toSorted(),
    ).toEqual(
      [
        'shannon_tool_executions_total',
        'shannon_tool_execution_duration_seconds',
        'shannon_tool_errors_total',
        'shannon_tool_cost_usd',
        'shannon_circuit_breaker_state',
        'shannon_circuit_breaker_failures_total',
        'shannon_rate_limit_exceeded_total',
        'shannon_rate_limit_tokens_available',
        'toolfleet_queue_jobs',
        'toolfleet_queue_oldest_job_age_seconds',
        'toolfleet_queue_wait_seconds',
        'toolfleet_queue_stalled_total',
        'toolfleet_worker_slots',
        'toolfleet_tools',
        'toolfleet_webhook_delay_seconds',
        'toolfleet_webhook_deliveries_total',
        'toolfleet_webhook_overdue_seconds',
        'toolfleet_webhook_pending',
        'toolfleet_call_spool_age_seconds',
        'toolfleet_call_bodies_unrecorded_total',
        'toolfleet_calls_unrecorded_total',
        'toolfleet_component_ready',
        'toolfleet_event_streams',
        'toolfleet_events_refused_total',
        'toolfleet_gateway_overhead_seconds',
        'toolfleet_sandbox_boot_seconds',
        'toolfleet_sandbox_killed_total',
        'toolfleet_budget_reserved_micro_usd',
        'toolfleet_budget_spent_micro_usd_total',
        'toolfleet_budget_lease_expired_total',
        'toolfleet_budget_unavailable_total',
        'toolfleet_budget_settlement_refused_total',
        'toolfleet_outcome_unknown_total',
        'toolfleet_ledger_outbox_entries',
        'toolfleet_limiter_fallback',
        'toolfleet_redis_memory_used_bytes',
        'toolfleet_redis_memory_max_bytes',
        'toolfleet_redis_replicas',
        'toolfleet_redis_replica_lag_seconds',
        'toolfleet_nats_no_responders_total',
        'toolfleet_nats_ack_missed_total',
        'toolfleet_policy_denied_total',
        'toolfleet_tool_quarantined',
        'toolfleet_egress_blocked_total',
        'toolfleet_result_store_failures_total',
        'toolfleet_cache_lookups_total',
        'toolfleet_executor_duration_seconds',
        'toolfleet_expiry_days',
        'toolfleet_faults',
        'toolfleet_purge_age_seconds',
        'toolfleet_requests_rejected_total',
        'toolfleet_store_clock_offset_seconds',
        'toolfleet_fallbacks_total',
        'toolfleet_retries_total',
        'toolfleet_shed_total',
        'toolfleet_output_mismatch_total',
        'toolfleet_interceptions_total',
        'gen_ai_execute_tool_duration_seconds',
        'mcp_server_operation_duration_seconds',
        'mcp_client_operation_duration_seconds',
        'mcp_client_session_duration_seconds',
        'toolfleet_build_info',
      ].toSorted(),
    );
  });

  it('appear at their first use, in the process that measures them', async () => {
    const metrics = createMetrics({ version: '1.2.3', revision: 'abc' });
    metrics.toolExecutions.inc({ tool_name: 'calculator', status: 'success' });
    const text = await metrics.registry.metrics();
    expect(text).toContain('shannon_tool_executions_total{tool_name="calculator",status="success"} 1');
    expect(text).toContain('toolfleet_build_info{version="1.2.3",revision="abc"} 1');
    expect(text).not.toContain('toolfleet_sandbox_boot_seconds');
  });

  it('limit the values of a label', () => {
    const label = new BoundedLabel(2);
    expect(['a', 'b', 'c', 'a'].map((value) => label.of(value))).toEqual(['a', 'b', 'other', 'a']);
  });
});

describe('trace context', () => {
  it.each([
    ['', undefined],
    [PARENT, '0af7651916cd43dd8448eb211c80319c'],
    [`${PARENT}-more`, undefined],
    [`01${PARENT.slice(2)}-more`, '0af7651916cd43dd8448eb211c80319c'],
    [`ff${PARENT.slice(2)}`, undefined],
    ['00-00000000000000000000000000000000-b7ad6b7169203331-01', undefined],
    ['00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01', undefined],
    [PARENT.toUpperCase(), undefined],
  ])('reads %j as %j', (header, traceId) => {
    expect(readSpanContext(carrier({ traceparent: header }))?.traceId).toBe(traceId);
  });

  it('is propagated without a collector, across awaits, with its state', async () => {
    expect(traceHeaders()).toBeUndefined();
    const inside = await inTrace('spec', carrier({ traceparent: PARENT, tracestate: 'a=1,b=2' }), async () => {
      await new Promise((resolve) => setImmediate(resolve));
      return traceHeaders();
    });
    expect(inside).toEqual({ traceparent: PARENT, tracestate: 'a=1,b=2' });
    expect(traceparent()).toBeUndefined();
  });

  it('is recorded and exported as OTLP, without secrets', async () => {
    const bodies: string[] = [];
    const collector = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        bodies.push(`${request.url} ${Buffer.concat(chunks).toString('utf8')}`);
        response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
      });
    });
    await new Promise<void>((resolve) => collector.listen(0, '127.0.0.1', resolve));
    registerSecret('span-secret-value');
    const stop = await startTracing({
      service: 'spec',
      version: '1',
      environment: 'test',
      endpoint: `http://127.0.0.1:${(collector.address() as AddressInfo).port}`,
    });
    const headers = await inTrace('serve', carrier({ traceparent: PARENT }), () =>
      inSpan('step', { note: 'x span-secret-value' }, async (span) => {
        span?.addEvent('span-secret-value');
        return traceHeaders();
      }),
    );
    await expect(
      beginTrace('broken', carrier({}), async () => {
        throw new Error('because span-secret-value');
      }),
    ).rejects.toThrow();
    // Nothing begins inside the fleet, and what is not sampled is passed on without a span.
    const unsampled = PARENT.replace(/01$/, '00');
    inTrace('inside', carrier({}), () => inSpan('unseen step', {}, () => expect(traceHeaders()).toBeUndefined()));
    beginTrace('unsampled', carrier({ traceparent: unsampled }), () =>
      inSpan('unseen step', {}, () => expect(traceHeaders()).toEqual({ traceparent: unsampled })),
    );
    await stop();
    collector.close();
    const sent = bodies.join('\n');
    expect(headers?.traceparent).toMatch(/^00-0af7651916cd43dd8448eb211c80319c-(?!b7ad6b7169203331)[0-9a-f]{16}-01$/);
    expect(sent).toContain('/v1/traces');
    expect(sent).toContain('0af7651916cd43dd8448eb211c80319c');
    expect(sent).toContain('toolfleet-spec');
    expect(sent).toContain('because [redacted]');
    expect(sent).not.toContain('span-secret-value');
    expect(sent).not.toMatch(/inside|unsampled|unseen step/);
  });
});

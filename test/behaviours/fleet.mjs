/** The fleet that is probed: started for it, or a running one; and the ways to use it. */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect, headers as natsHeaders } from 'nats';
import { freePort } from '../../tools/local/child-process.mjs';
import { startFleet } from '../../tools/local/fleet.mjs';
import { startUpstreams } from './upstream.mjs';

const TOOLS = [
  'calculator',
  'execute_python',
  'parcels_getParcel',
  'sample_add',
  'echo_function',
  'probe_effect',
  'up_echo',
];
const REQUEST_TIMEOUT_MS = 60_000;
const POLL_MS = 100;

/**
 * A fleet of its own with plugins, scripted upstreams and a trace collector; `onStop` receives at once the way to stop what runs.
 * @returns {Promise<FleetUnderTest>}
 */
export async function startFleetUnderTest(root, { say, step, onStop }) {
  const stateDir = mkdtempSync(join(tmpdir(), 'toolfleet-behaviours-'));
  const upstreams = await startUpstreams();
  const cleanUp = async () => {
    await upstreams.stop();
    rmSync(stateDir, { recursive: true, force: true, maxRetries: 3 });
  };
  onStop(cleanUp);
  const plugins = join(stateDir, 'plugins');
  mkdirSync(plugins, { mode: 0o700 });
  cpSync(join(root, 'test/behaviours/plugins'), plugins, { recursive: true });
  const config = join(stateDir, 'behaviours.yaml');
  const [apiPort, mcpPort] = [await freePort(), await freePort()];
  const samples = { api: `http://127.0.0.1:${apiPort}`, mcp: `http://127.0.0.1:${mcpPort}` };
  writeFileSync(config, configuration(upstreams, samples));
  const upstreamOrigins = Object.values(upstreams).flatMap((one) => one.origin ?? []);
  Object.assign(process.env, {
    GATEWAY_PORT: String(await freePort()),
    TOOLFLEET_CONFIG: config,
    SAMPLE_API_PORT: String(apiPort),
    SAMPLE_MCP_PORT: String(mcpPort),
    BUILTIN_PLUGINS_DIR: plugins,
    EGRESS_ALLOWED_ENDPOINTS: [...upstreamOrigins, 'http://127.0.0.1:1'].join(','),
    OTEL_EXPORTER_OTLP_ENDPOINT: upstreams.collector.origin,
  });
  const { fleet, stop } = await startFleet({
    root,
    stateDir,
    say,
    step,
    onGivenUp: (error) => say(error.message),
    onStop: (stopFleet) =>
      onStop(async () => {
        await stopFleet();
        await cleanUp();
      }),
  });
  const probed = new FleetUnderTest({ ...fleet, stateDir, upstreams, root });
  await probed.until('its tools are listed', async () => {
    const { body } = await probed.http('/tools/list');
    return Array.isArray(body) && TOOLS.every((tool) => body.includes(tool));
  });
  return { probed, stop: async () => (await probed.close(), await stop(), await cleanUp()) };
}

/** The fleet at `FLEET_URL`, with the administrator's key `FLEET_KEY` and, for probes over NATS, `FLEET_NATS_URL`. */
export function connectRunningFleet(root, { FLEET_URL: url, FLEET_KEY: key, FLEET_NATS_URL: natsUrl }) {
  const probed = new FleetUnderTest({ url: url.replace(/\/$/, ''), api_key: key, nats_url: natsUrl, root });
  return { probed, stop: () => probed.close() };
}

function configuration(upstreams, { api, mcp }) {
  const entry = (name, { origin }, extra = {}) => [
    name,
    { url: `${origin}/${name}`, func_name: name, description: `Calls the scripted upstream for ${name}`, ...extra },
  ];
  // Parameters as an object: without them the tool takes one object `args`.
  const text = [{ name: 'text', type: 'string', required: false, description: 'Any text' }];
  const tools = Object.fromEntries([
    entry('up_echo', upstreams.echo, { parameters: text, headers: { 'x-api-key': 'upstream-secret-value' } }),
    entry('up_failing', upstreams.failing, { parameters: text }),
    entry('up_limited', upstreams.limited, { parameters: text }),
    entry('up_missing', upstreams.missing, { parameters: text }),
    entry('up_slow', upstreams.slow, { parameters: text, timeout_seconds: 1 }),
    entry('up_unreachable', { origin: 'http://127.0.0.1:1' }, { parameters: text }),
  ]);
  // JSON is YAML.
  return JSON.stringify({
    openapi_tools: {
      parcels: {
        enabled: true,
        spec_url: `${api}/openapi.json`,
        base_url: api,
        category: 'logistics',
        name_prefix: 'parcels_',
        auth_type: 'none',
      },
    },
    mcp_servers: { sample: { url: `${mcp}/mcp` } },
    mcp_tools: {
      echo_function: {
        url: `${mcp}/functions`,
        func_name: 'echo',
        description: 'Answers what it was sent',
        parameters: [{ name: 'text', type: 'string', required: true, description: 'What to echo' }],
      },
      ...tools,
    },
    code_execution: {
      default_strictness: 'standard',
      extra_allowed_modules: { strict: ['bisect'] },
    },
    sub_agent: { max_iterations: 3, max_concurrency: 3 },
  });
}

let unique = 0;

/** A fleet and the requests that probes make. Bodies are parsed when they are JSON. */
export class FleetUnderTest {
  #nats;
  #keys = new Map();

  constructor(facts) {
    Object.assign(this, facts);
    /** True for a fleet that was started for the probes. */
    this.isOwn = facts.stateDir !== undefined;
  }

  /** A text that no other call used, so that no cached result is returned. */
  fresh(prefix = 'p') {
    return `${prefix}-${process.pid}-${(unique += 1)}`;
  }

  /** One HTTP request as the administrator, or with `key` (null: without a credential). */
  async http(path, { method, body, key = this.api_key, headers = {}, signal } = {}) {
    const response = await fetch(`${this.url}${path}`, {
      method: method ?? (body === undefined ? 'GET' : 'POST'),
      headers: {
        ...(key && { authorization: `Bearer ${key}` }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      body: body === undefined || typeof body === 'string' ? body : JSON.stringify(body),
      signal: signal ?? AbortSignal.timeout(REQUEST_TIMEOUT_MS),
    });
    const text = await response.text();
    return { status: response.status, headers: Object.fromEntries(response.headers), text, body: parsed(text) };
  }

  /** Calls a tool over the native HTTP API; `fields` go next to `arguments`. */
  call(tool, args, { fields, ...options } = {}) {
    return this.http(`/api/v1/tools/${tool}/execute`, { body: { arguments: args, ...fields }, ...options });
  }

  /** Calls a tool that cannot be reached as a new tenant: breakers count by tenant, so the next probe finds it closed. */
  async callUnreachable(times = 1) {
    const key = await this.key('unreachable', { tenant_id: this.fresh('unreachable') });
    let last;
    for (let call = 0; call < times; call += 1)
      last = await this.call('up_unreachable', { text: this.fresh() }, { key });
    return last;
  }

  python(code, args = {}) {
    return this.call('execute_python', { code, ...args });
  }

  /** One JSON-RPC request to /mcp: `{ result, error, status, headers }`. */
  async mcp(method, params, headers = {}) {
    const answer = await this.http('/mcp', {
      body: { jsonrpc: '2.0', id: 1, method, params },
      headers: { accept: 'application/json, text/event-stream', ...headers },
    });
    const data =
      answer.text
        .match(/^data: (\{.*\})$/gm)
        ?.at(-1)
        ?.slice('data: '.length) ?? answer.text;
    return { status: answer.status, headers: answer.headers, ...parsed(data) };
  }

  /** One NATS request: `{ body, code }`; `code` is the status of a refusal. `key` null: without a credential. */
  async nats(subject, body, { key = this.api_key, headers = {} } = {}) {
    this.#nats ??= await connect({ servers: this.nats_url });
    const sent = natsHeaders();
    if (key) sent.set('Authorization', `Bearer ${key}`);
    for (const [name, value] of Object.entries(headers)) sent.set(name, value);
    const payload = typeof body === 'string' ? body : JSON.stringify(body);
    const reply = await this.#nats.request(subject, payload, { timeout: REQUEST_TIMEOUT_MS, headers: sent });
    return { body: parsed(reply.string()), code: reply.headers?.get('Nats-Service-Error-Code') ?? '' };
  }

  /** A key of a plain caller: no role, a tenant of its own unless named. */
  async key(client, spec = {}) {
    const id = `${client} ${JSON.stringify(spec)}`;
    if (!this.#keys.has(id)) {
      const { status, body, text } = await this.http('/api/v1/keys', {
        body: { client, tenant_id: 'probes', tier: 'enterprise', ...spec },
      });
      if (status !== 201) throw new Error(`no key: ${text}`);
      this.#keys.set(id, body);
    }
    return this.#keys.get(id).token;
  }

  /** Metrics of a service as text. */
  async metrics(service) {
    const { admin_url: admin } = this.services.find(({ name }) => name === service);
    return (await fetch(`${admin}/metrics`)).text();
  }

  /** The sum of all samples of a metric with these labels; 0 when there are none. */
  async metric(service, name, labels = {}) {
    const lines = (await this.metrics(service))
      .split('\n')
      .filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `));
    const wanted = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
    return lines
      .filter((line) => wanted.every((label) => line.includes(label)))
      .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
  }

  /** How much a metric of the gateway grows by `work`. */
  async growth(name, labels, work) {
    const before = await this.metric('gateway', name, labels);
    await work();
    let after = await this.metric('gateway', name, labels);
    for (let look = 0; look < 10 && after === before; look += 1) {
      await sleep(POLL_MS);
      after = await this.metric('gateway', name, labels);
    }
    return Math.round((after - before) * 1e6) / 1e6;
  }

  /** Rows of the usage ledger of one call, once there is one; none after `withinMs`. */
  async ledger(callId, withinMs = 3_000) {
    const database = new DatabaseSync(join(this.stateDir, 'data/budget.db'), { readOnly: true });
    try {
      const endAt = performance.now() + withinMs;
      for (;;) {
        const rows = database.prepare('SELECT * FROM token_usage WHERE call_id = ?').all(callId);
        if (rows.length > 0 || performance.now() > endAt) return rows.map((row) => ({ ...row }));
        await sleep(POLL_MS);
      }
    } finally {
      database.close();
    }
  }

  /** The log lines of a service, parsed. */
  log(service) {
    const text = readFileSync(join(this.stateDir, 'logs', `${service}.log`), 'utf8');
    return text.split('\n').flatMap((line) => parsed(line) ?? []);
  }

  /** The line that ends a call in the audit log. */
  async callLine(callId) {
    let line;
    const isThere = () =>
      (line = this.log('gateway').find((one) => one.call_id === callId && one.message === 'call finished'));
    await this.until('the call is logged', async () => isThere() !== undefined);
    return line;
  }

  /** The span of a call, once it was exported. */
  async span(callId) {
    const find = () =>
      this.upstreams.spans.find(
        ({ name, attributes }) => name.startsWith('execute_tool ') && attributes['call.id'] === callId,
      );
    await this.until('the span is exported', async () => find() !== undefined);
    return find();
  }

  /** Waits until a condition holds. */
  async until(what, holds, withinMs = 20_000) {
    const endAt = performance.now() + withinMs;
    while (!(await holds())) {
      if (performance.now() > endAt) throw new Error(`${what}: not within ${withinMs / 1_000} s`);
      await sleep(POLL_MS);
    }
  }

  /** The end of an asynchronous call: its record. */
  async ended(callId) {
    let record;
    await this.until(`call ${callId} has ended`, async () => {
      record = (await this.http(`/api/v1/calls/${callId}`)).body;
      return record?.status !== undefined && !['accepted', 'claimed'].includes(record.status);
    });
    return record;
  }

  /** Ends the connection and, on a fleet that goes on, revokes the keys that the probes made. */
  async close() {
    await this.#nats?.close();
    const made = this.isOwn ? [] : [...this.#keys.values()];
    await Promise.all(made.map(({ id }) => this.http(`/api/v1/keys/${id}`, { method: 'DELETE' })));
  }
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

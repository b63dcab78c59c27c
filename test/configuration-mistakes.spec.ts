/**
 * A mistake in the configuration ends every service at once with exit code 78 and a line that names variable, value, rule
 * and remedy, wherever in the start it is found; only a dependency that cannot be reached is waited for.
 */
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  eventually,
  freePort,
  startNats,
  startRedis,
  startServiceProcess,
  type NatsServer,
  type RedisServer,
  type ServiceProcess,
} from '@toolfleet/testing';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { makeWheel, type WheelPlan } from '../libs/kits/wasi-python/spec/wheel.js';
import { SERVICES, type ServiceName as Service } from '../apps/standalone/src/standalone.config.js';
import { programOf } from './fleet/service-programs.js';

const WITHOUT_REDIS: readonly Service[] = ['records', 'identity'];

let nats: NatsServer;
let redis: RedisServer;
let folder: string;
const running: ServiceProcess[] = [];

const root = fileURLToPath(new URL('..', import.meta.url));
const file = (name: string, text: string): string => {
  writeFileSync(join(folder, name), text);
  return join(folder, name);
};

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'toolfleet-mistakes-'));
  [nats, redis] = await Promise.all([startNats({ tenants: ['acme'] }), startRedis()]);
});
afterEach(async () => {
  await Promise.all(running.splice(0).map((service) => service.kill()));
});
afterAll(async () => {
  await Promise.all([nats?.stop(), redis?.stop()]);
  rmSync(folder, { recursive: true, force: true });
});

function start(service: Service, env: Record<string, string>): ServiceProcess {
  const process = startServiceProcess({
    entry: programOf(service),
    env: {
      NATS_URL: nats.url,
      REDIS_URL: redis.url,
      DATABASE_DIR: join(folder, 'data'),
      IDENTITY_SECRET_KEYS: 'k1:an-identity-key-for-tests-0123456789abcdef',
      WORKSPACES_DIR: folder,
      POLICY_DIR: join(root, 'deploy/policies'),
      ENVIRONMENT: 'test',
      TOOLFLEET_LOCAL: '1',
      GATEWAY_PORT: '0',
      GATEWAY_TOKEN_SECRET: 'a token secret of forty characters, all told',
      API_KEY_PEPPER: 'a pepper of forty characters, all counted',
      ...env,
    },
  });
  running.push(process);
  return process;
}

/** Exit code and what was said, once the process has ended. */
async function outcome(service: Service, env: Record<string, string>): Promise<{ code: number | null; said: string }> {
  const process = start(service, env);
  const code = await process.ended;
  const fatal = process
    .log()
    .split('\n')
    .filter((line) => line.includes('cannot start'))
    .map((line) => (JSON.parse(line) as { message: string }).message);
  expect(process.log()).not.toContain('waiting for');
  return { code, said: [process.errors(), ...fatal].join('\n') };
}

/** A configuration file with one package; its folder has the wheel of version 1.0. */
function packagesFile(
  name: string,
  {
    version = '1.0',
    sha256,
    ...plan
  }: Pick<WheelPlan, 'name' | 'requires' | 'tag'> & { version?: string; sha256?: string },
): string {
  const { file: wheelFile, wheel } = makeWheel({ ...plan, version: '1.0', files: { 'm.py': '' } });
  const wheels = mkdtempSync(join(folder, 'wheels-'));
  writeFileSync(join(wheels, wheelFile), wheel);
  const digest = sha256 ?? createHash('sha256').update(wheel).digest('hex');
  const entry = { version, sha256: digest, folder: wheels };
  return file(`${name}.json`, JSON.stringify({ python_packages: { [plan.name]: entry } }));
}

const production = { ENVIRONMENT: 'production', TOOLFLEET_LOCAL: '0' };
const ANY_HOST = ['permits every host', '"*"', 'EGRESS_ALLOW_ANY_HOST=true', 'list the hosts'];

const UNKNOWN_KEYS = [
  ['openapi_toolz: {}', 'openapi_toolz is an unknown key; did you mean openapi_tools?; check TOOLFLEET_CONFIG="'],
  ['rate_limits: {nonsense}', 'rate_limits.nonsense is an unknown key; known: tiers'],
  ['mcp_servers: { crm: { ulr: x } }', 'mcp_servers.crm.ulr is an unknown key; did you mean url?'],
] as const;

describe('a mistake is named with variable, value, rule and remedy', () => {
  it.each<[Service, string, () => Record<string, string>, string[]]>([
    ['mcp-executor', 'any host', () => ({ MCP_ALLOWED_DOMAINS: '*' }), ['MCP_ALLOWED_DOMAINS', ...ANY_HOST]],
    [
      'openapi-executor',
      'any host',
      () => ({ OPENAPI_ALLOWED_DOMAINS: '*' }),
      ['OPENAPI_ALLOWED_DOMAINS', ...ANY_HOST],
    ],
    ['registry', 'any host', () => ({ OPENAPI_ALLOWED_DOMAINS: '*' }), ['OPENAPI_ALLOWED_DOMAINS', ...ANY_HOST]],
    [
      'identity',
      'a short key',
      () => ({ IDENTITY_SECRET_KEYS: 'k1:hunter22' }),
      ['IDENTITY_SECRET_KEYS', 'the key "k1" must have at least 32 characters', 'write <id>:<key>'],
    ],
    ['builtin-executor', 'any host', () => ({ WEB_ALLOWED_DOMAINS: '*' }), ['WEB_ALLOWED_DOMAINS', ...ANY_HOST]],
    [
      'mcp-executor',
      'a flag of development',
      () => ({ ...production, EGRESS_ALLOW_ANY_HOST: 'yes' }),
      ['EGRESS_ALLOW_ANY_HOST is for ENVIRONMENT=development', '"yes"', 'unset it'],
    ],
    [
      'registry',
      'no origin, no range',
      () => ({ EGRESS_ALLOWED_ENDPOINTS: 'localhost', EGRESS_DENIED_CIDRS: '10.0.0.0/8,10/8' }),
      ['EGRESS_ALLOWED_ENDPOINTS', 'scheme://host:port', '"localhost"', 'EGRESS_DENIED_CIDRS', 'address range "10/8"'],
    ],
    [
      'openapi-executor',
      'no host',
      () => ({ OPENAPI_ALLOWED_DOMAINS: 'a.example,not a host' }),
      ['OPENAPI_ALLOWED_DOMAINS', '"not a host"', '*.host'],
    ],
    [
      'gateway',
      'a key file that cannot be read',
      () => ({ JWT_ISSUER: 'https://i.example', JWT_AUDIENCE: 'a', JWT_JWKS_URL: 'file:///nowhere/jwks.json' }),
      ['JWT_JWKS_URL: ENOENT', 'jwks.json'],
    ],
    [
      'gateway',
      'a section of the file, found while the parts are built',
      () => ({ TOOLFLEET_CONFIG: file('tiers.yaml', 'rate_limits: { tiers: { free: { requests_per_minute: 0 } } }') }),
      ['rate_limits.tiers.free.requests_per_minute', 'must be a positive integer', 'TOOLFLEET_CONFIG="', 'tiers.yaml"'],
    ],
    [
      'gateway',
      'a policy that does not parse, found at its start',
      () => {
        file('broken.rego', 'package tools\ndeny contains');
        return { POLICY_DIR: folder };
      },
      ['policy', 'broken.rego', `POLICY_DIR="`],
    ],
    [
      'gateway',
      'an address of another machine, found when it listens',
      () => ({ GATEWAY_HOST: '203.0.113.1', POLICY_DIR: join(root, 'deploy/policies') }),
      ['EADDRNOTAVAIL', 'GATEWAY_HOST="203.0.113.1"'],
    ],
    [
      'budget',
      'a folder of the ledger that is a file, found when it is opened',
      () => ({ DATABASE_DIR: file('no-folder', '') }),
      ['ledger: ', 'DATABASE_DIR="'],
    ],
    [
      'budget',
      'an unknown limit',
      () => ({ TOOLFLEET_CONFIG: file('budget.yaml', 'budget: { defaults: { max_cost: 1 } }') }),
      ['budget.defaults.max_cost is an unknown key', 'known: max_cost_per_request', 'TOOLFLEET_CONFIG="'],
    ],
    [
      'python-sandbox',
      'a file that is not an interpreter, found when it boots',
      () => ({ PYTHON_WASI_WASM_PATH: file('python.wasm', 'no wasm') }),
      ['PYTHON_WASI_WASM_PATH="'],
    ],
    [
      'python-sandbox',
      'a file that is not there',
      () => ({ PYTHON_WASI_WASM_PATH: join(folder, 'none.wasm') }),
      ['PYTHON_WASI_WASM_PATH must name a file this process can read (ENOENT)', 'none.wasm'],
    ],
    [
      'registry',
      'a file that is not there',
      () => ({ TOOLFLEET_CONFIG: join(folder, 'none.yaml') }),
      ['cannot be read: ENOENT', 'check TOOLFLEET_CONFIG="', 'none.yaml'],
    ],
    [
      'builtin-executor',
      'a section of the file',
      () => ({ TOOLFLEET_CONFIG: file('agents.yaml', 'sub_agent: { max_iterations: 100 }') }),
      ['sub_agent.max_iterations', 'from 1 to 20', 'TOOLFLEET_CONFIG="'],
    ],
    [
      'gateway',
      'a drain that cuts calls',
      () => ({ ...production, DRAIN_TIMEOUT_MS: '30s' }),
      ['DRAIN_TIMEOUT_MS must be at least 120000 ms', 'GATEWAY_CALL_TIMEOUT_MS', '"30s"', 'grace period'],
    ],
    [
      'python-sandbox',
      'a drain that cuts runs',
      () => ({ ...production, DRAIN_TIMEOUT_MS: '30s' }),
      ['DRAIN_TIMEOUT_MS must be at least 60000 ms', 'WASI_TIMEOUT_SECONDS'],
    ],
    [
      'python-sandbox',
      'a package with another digest',
      () => ({ TOOLFLEET_CONFIG: packagesFile('digest', { name: 'six', sha256: '0'.repeat(64) }) }),
      ['six 1.0 has SHA-256 ', `python_packages has ${'0'.repeat(64)}`, 'TOOLFLEET_CONFIG="'],
    ],
    [
      'python-sandbox',
      'a package with native code',
      () => ({ TOOLFLEET_CONFIG: packagesFile('native', { name: 'markupsafe', tag: 'cp312-cp312-linux_x86_64' }) }),
      ['markupsafe 1.0 has native code (cp312-cp312-linux_x86_64)', 'TOOLFLEET_CONFIG="'],
    ],
    [
      'python-sandbox',
      'a package without a wheel',
      () => ({ TOOLFLEET_CONFIG: packagesFile('none', { name: 'six', version: '2.0' }) }),
      ['six 2.0 has no wheel in ', 'TOOLFLEET_CONFIG="'],
    ],
    [
      'python-sandbox',
      'a package whose requirement is missing, found when the interpreter is known',
      () => ({ TOOLFLEET_CONFIG: packagesFile('lacks', { name: 'jinja2', requires: ['MarkupSafe>=2.0'] }) }),
      ['jinja2 1.0 requires markupsafe >=2.0, which python_packages lacks', 'TOOLFLEET_CONFIG="'],
    ],
    ['registry', 'a price', () => ({ MCP_COST_ADD: 'cheap' }), ['MCP_COST_ADD="cheap"', 'a number from 0 to 1000']],
  ])('%s: %s', async (service, _what, env, words) => {
    const { code, said } = await outcome(service, env());
    for (const word of words) expect(said).toContain(word);
    expect(code).toBe(78);
  });

  it.each(SERVICES)('%s: local mode in production', async (service) => {
    const { code, said } = await outcome(service, { ENVIRONMENT: 'production' });
    expect([code, said]).toEqual([78, expect.stringContaining('TOOLFLEET_LOCAL is for ENVIRONMENT=development')]);
  });

  it.each(['registry', 'gateway', 'budget', 'builtin-executor'] as const)(
    '%s: an unknown key at any level of the configuration file',
    async (service) => {
      for (const [text, message] of UNKNOWN_KEYS) {
        const { code, said } = await outcome(service, { TOOLFLEET_CONFIG: file('unknown.yaml', text) });
        expect([code, said]).toEqual([78, expect.stringContaining(message)]);
      }
    },
    300_000,
  );

  it.each(SERVICES)('%s: a login that a broker refuses', async (service) => {
    const wrong = redis.url.replace('redis://', 'redis://nobody:hunter22@');
    const [redisFault, natsFault] = await Promise.all([
      WITHOUT_REDIS.includes(service) ? undefined : outcome(service, { REDIS_URL: wrong }),
      service === 'python-sandbox'
        ? undefined
        : outcome(service, {
            NATS_URL: nats.url.replace(/\/\/[^@]*@/, '//'),
            NATS_USER: 'fleet',
            NATS_PASSWORD: 'hunter22',
          }),
    ]);
    if (redisFault) {
      expect(redisFault).toMatchObject({ code: 78 });
      expect(redisFault.said).toMatch(/WRONGPASS.*check REDIS_URL="redis:\/\/nobody:\[redacted\]@.*REDIS_PASSWORD/);
    }
    if (natsFault) {
      expect(natsFault).toMatchObject({ code: 78 });
      expect(natsFault.said).toMatch(
        /check NATS_URL=".*NATS_USER="fleet", NATS_PASSWORD="\(secret from environment\)"/,
      );
    }
    expect(JSON.stringify([redisFault, natsFault])).not.toContain('hunter22');
  });
});

it.each(SERVICES)('%s waits for a broker that cannot be reached', { timeout: 150_000 }, async (service) => {
  const url = `127.0.0.1:${await freePort()}`;
  const waiting = start(service, { REDIS_URL: `redis://${url}`, NATS_URL: `nats://${url}` });
  const tries = () => waiting.log().split('waiting for').length - 1;
  // A start and two tries take seconds, but minutes on a starved machine.
  await eventually('it tried twice', () => tries() >= 2);
  expect(await waiting.terminate()).toBe(0);
});

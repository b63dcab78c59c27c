import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { load } from 'js-yaml';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { main } from '../../tools/fleetctl/src/main.js';
import { terminalOn } from '../../tools/fleetctl/src/terminal.js';
import type { TestFleet } from '../fleet/test-fleet.js';

const EXAMPLE = fileURLToPath(new URL('../../examples/declared-fleet', import.meta.url));
const PROGRAM = fileURLToPath(new URL('../../tools/fleetctl/bin/fleetctl.mjs', import.meta.url));
interface Workflow {
  jobs: { fleet: { steps: { if?: string; run: string }[] } };
}
const SECRET = 'desk-token-canary';

/** The example of a declared fleet, applied to a fleet that has an MCP server. */
export function describeDeclaredFleet({
  fleet,
  server,
  hook,
}: {
  fleet: () => TestFleet;
  server: () => string;
  hook: () => string;
}): void {
  describe('a declared fleet', () => {
    const folder = mkdtempSync(join(tmpdir(), 'toolfleet-declared-'));
    const example = join(folder, 'example');
    let secret = SECRET;
    const fleetctl = (...argv: string[]) => run(fleet().adminKey, argv);
    const run = async (key: string, argv: string[]) => {
      let [out, error] = ['', ''];
      const terminal = terminalOn({
        out: (text) => void (out += String(text)),
        error: (text) => void (error += text),
        readInput: () => Promise.resolve(''),
      });
      return {
        code: await main(argv, terminal, { env: { ...environment(), TOOLFLEET_API_KEY: key }, cwd: folder }),
        out,
        error,
      };
    };
    const environment = (): Record<string, string> => ({
      TOOLFLEET_URL: fleet().url(),
      TOOLFLEET_API_KEY: fleet().adminKey,
      HOME: folder,
      DESK_HOST: new URL(server()).host,
      SHOP_URL: server(),
      ...(secret && { DESK_TOKEN: secret }),
      ON_CALL_URL: `${hook()}/hook-canary`,
    });
    /** Runs a step of the CI job as GitHub does. */
    const runStep = async (event: string) => {
      const job = load(readFileSync(join(EXAMPLE, '.github/workflows/fleet.yml'), 'utf8')) as Workflow;
      const step = job.jobs.fleet.steps.find((one) => one.if?.includes(`'${event}'`))!;
      mkdirSync(join(folder, 'bin'), { recursive: true });
      writeFileSync(join(folder, 'bin/fleetctl'), `#!/bin/sh\nexec "${process.execPath}" "${PROGRAM}" "$@"\n`, {
        mode: 0o755,
      });
      const path = `${join(folder, 'bin')}:${process.env['PATH']}`;
      const env = { ...environment(), PATH: path, GITHUB_STEP_SUMMARY: join(folder, 'summary') };
      return promisify(execFile)('bash', ['-eo', 'pipefail', '-c', step.run], { cwd: example, env });
    };
    const apply = (...argv: string[]) => fleetctl('apply', '-f', example, ...argv);
    const edit = (file: string, change: (text: string) => string) => {
      const path = join(example, file);
      writeFileSync(path, change(readFileSync(path, 'utf8')));
    };
    const get = async (path: string) => (await fleet().ask({ path })).body;
    const owned = async () => {
      const all: { name: string; owned: object }[] = await get('/api/v1/declarations');
      return Object.keys(all.find(({ name }) => name === 'support-team')!.owned);
    };

    beforeAll(() => {
      cpSync(EXAMPLE, example, { recursive: true });
      edit('sources.yaml', (text) => text.replace('https://${DESK_HOST}', 'http://${DESK_HOST}'));
    });
    afterAll(() => rmSync(folder, { recursive: true }));

    it('is shown, applied, and then needs no change', async () => {
      const shown = await apply('--diff');
      expect(shown).toMatchObject({ code: 1, error: '' });
      expect(shown.out).toBe(
        `+ openapi_tools.shop\n+ mcp_servers.desk\n+ toolsets.support\n+ webhooks.on-call\n+ budgets of user service:support-bot month\n+ keys.support-bot\n    support-bot has no valid key; make one: fleetctl keys create support-bot --service support-bot\n6 to change of 6 declared or owned; 1 policy checked\n`,
      );
      expect(await get('/api/v1/declarations')).toEqual([]);
      await fleet().ask({
        path: '/api/v1/keys',
        body: { client: 'support-bot', service_account: 'support-bot', roles: [] },
      });
      const applied = await apply();
      expect(applied).toMatchObject({ code: 0, error: '' });
      expect(applied.out).toContain(
        '~ keys.support-bot\n    note: none → "Answers tickets of the support desk"\n    tools: ["*"] → ["desk_*","calculator"]\n    toolset: none → "support"\n',
      );
      for (const again of [await apply(), await apply('--diff', '--prune')])
        expect(again).toEqual({ code: 0, out: 'No changes: 6 declared or owned; 1 policy checked\n', error: '' });
      expect(await owned()).toHaveLength(6);
      expect(await get('/api/v1/tools/shop_getOrder')).toMatchObject({ name: 'shop_getOrder' });
      expect((await get('/api/v1/toolsets/support')).spec).toMatchObject({
        include: { tools: ['desk_*', 'calculator'] },
      });
    });

    it('is what the CI job shows in a pull request and applies on main', async () => {
      edit('fleet.yaml', (text) => text.replace('limit_usd: 50', 'limit_usd: 55'));
      await runStep('pull_request');
      expect(readFileSync(join(folder, 'summary'), 'utf8')).toContain(
        '~ budgets of user service:support-bot month\n    limit_usd: 50 → 55\n',
      );
      expect((await runStep('push')).stdout).toContain('limit_usd: 50 → 55');
      edit('fleet.yaml', (text) => text.replace('limit_usd: 55', 'limit_usd: 50'));
      await runStep('push');
    });

    it('shows what changed elsewhere, secrets without their values, and repairs it', async () => {
      await fleet().ask({ method: 'PUT', path: '/api/v1/toolsets/support', body: { include: { tools: ['*'] } } });
      const budget = { subject: 'user', id: 'service:support-bot', limit_usd: 5000 };
      await fleet().ask({ method: 'PUT', path: '/api/v1/budgets', body: budget });
      secret = 'desk-token-rotated';
      edit('sources.yaml', (text) => text.replace('category: support', 'category: desk'));
      const shown = await apply('--diff', '--json');
      expect(shown.code).toBe(1);
      expect(JSON.parse(shown.out).changes.map((one: { differences: string[] }) => one.differences)).toEqual([
        ['category: "support" → "desk"', 'secrets: changed'],
        [
          'description: none → "What agents of the support team may use"',
          'include.tools: ["*"] → ["desk_*","calculator"]',
        ],
        ['limit_usd: 5000 → 50'],
      ]);
      secret = '';
      expect((await apply('--diff')).out).not.toContain('secrets');
      expect(await apply()).toMatchObject({
        code: 1,
        error: expect.stringContaining('set DESK_TOKEN in the environment'),
      });
      secret = 'desk-token-rotated';
      expect((await apply()).code).toBe(0);
      expect((await apply('--diff')).code).toBe(0);
    });

    it('is exported without secrets, and the export changes nothing', async () => {
      const exported = await fleetctl('export', '--declaration', 'support-team');
      expect(exported).toMatchObject({ code: 0, error: expect.stringContaining('secrets that only the fleet has') });
      expect(exported.out).toContain('Authorization: ${kept}\n');
      expect(exported.out + exported.error + JSON.stringify(await get('/api/v1/declarations'))).not.toMatch(
        /canary|rotated/,
      );
      const copy = join(folder, 'copy');
      cpSync(join(example, 'documents'), copy, { recursive: true });
      writeFileSync(join(copy, 'fleet.yaml'), exported.out);
      const diff = await fleetctl('apply', '-f', copy, '--diff');
      expect(diff.out, diff.error).toMatch(/^No changes/);
      writeFileSync(join(copy, 'fleet.yaml'), exported.out.replace('category: desk', 'category: other'));
      expect((await fleetctl('apply', '-f', copy, '--diff')).out).toContain('write ${VARIABLE} in its place');
    });

    it('prunes only what it owned, and takes nothing from another declaration', async () => {
      const other = join(folder, 'other.yaml');
      writeFileSync(other, 'declaration: other\ntoolsets:\n  support: {}\n  extra: { read_only: true }\n');
      const refused = await fleetctl('apply', '-f', other);
      expect(refused).toMatchObject({
        code: 1,
        error: expect.stringContaining('owned by the declaration support-team'),
      });
      await fleet().ask({ method: 'PUT', path: '/api/v1/toolsets/by-hand', body: {} });
      edit('fleet.yaml', (text) => text.replace(/^keys:[^]*(?=budgets:)/m, ''));
      rmSync(join(example, 'webhooks.yaml'));
      edit('sources.yaml', (text) => text.replace(/^openapi_tools:[^]*/m, ''));
      expect(await apply()).toMatchObject({ code: 0, error: expect.stringContaining('--prune removes it') });
      expect(await owned()).toHaveLength(6);
      const pruned = await apply('--prune');
      expect(pruned.out).toMatch(
        /^- keys\/support-bot \(no longer owned.*\n- webhooks\/on-call\n- openapi\/shop@acme\n/,
      );
      expect(pruned.code).toBe(0);
      const toolsets: { name: string }[] = await get('/api/v1/toolsets');
      expect(toolsets.map(({ name }) => name).toSorted()).toEqual(['by-hand', 'extra', 'support']);
      expect(await get('/api/v1/webhooks')).toEqual([]);
      const keys: { client: string; toolset: string }[] = await get('/api/v1/keys');
      expect(keys.find(({ client }) => client === 'support-bot')).toMatchObject({ toolset: 'support' });
    });

    it('shares what an operator declares for all tenants, whose variables are those of the fleet', async () => {
      const shared = join(folder, 'shared.yaml');
      const entry = `{ url: "${server()}/mcp", headers: { X-Key: "\${UNKNOWN_HERE}" }, pin: refuse }`;
      writeFileSync(
        shared,
        `declaration: shared\nvisibility: fleet\nmcp_servers: { all: ${entry} }\ntoolsets: { all: {} }\n`,
      );
      const operator = (...argv: string[]) => run(fleet().operatorKey, argv);
      const refused = await fleetctl('apply', '-f', shared);
      expect(refused).toMatchObject({ code: 1, error: expect.stringContaining('operate_fleet') });
      expect((await get('/api/v1/declarations')).map(({ name }: { name: string }) => name)).not.toContain('shared');
      const made = await operator('apply', '-f', shared);
      // The executor expands the variable that the fleet lacks.
      expect(made).toMatchObject({ code: 1, error: expect.stringContaining('UNKNOWN_HERE') });
      expect(made.out).toContain('+ toolsets.all\n');
      writeFileSync(shared, readFileSync(shared, 'utf8').replace('${UNKNOWN_HERE}', 'plain'));
      expect((await operator('apply', '-f', shared)).out).toContain('+ mcp_servers.all\n');
      expect((await operator('apply', '-f', shared, '--diff', '--prune')).code).toBe(0);
      expect((await operator('export', '--visibility', 'fleet')).out).toMatch(
        /^visibility: fleet\n[^]*X-Key: \$\{kept\}/m,
      );
      writeFileSync(shared, 'declaration: shared\nvisibility: fleet\n');
      expect((await operator('apply', '-f', shared, '--prune')).out).toMatch(/^- toolsets\/all\n- mcp\/all\n/);
      expect((await fleet().ask({ path: '/api/v1/declarations', key: fleet().operatorKey })).body).toEqual([]);
    });

    it('lets one of several applies at once begin', async () => {
      edit('fleet.yaml', (text) => text.replace('limit_usd: 50', 'limit_usd: 60'));
      const all = await Promise.all([apply(), apply(), apply()]);
      expect(all.filter(({ code }) => code === 0).length).toBeGreaterThan(0);
      for (const { code, error } of all)
        if (code !== 0) expect(error).toMatch(/changed meanwhile|being applied by another client/);
      expect((await apply('--diff', '--prune')).code).toBe(0);
    });

    it('refuses files with faults, each with its place, and changes nothing', async () => {
      edit('fleet.yaml', (text) => `${text}toolset: {}\nroles: { support: [] }\n`);
      edit('sources.yaml', (text) => text.replace('url: http:', 'command: desk\n    url: http:'));
      edit('policies/tools.rego', (text) => text.replace('not "support"', 'not not "support"'));
      const { code, error } = await apply();
      expect(code).toBe(2);
      expect(error).toContain('fleet.yaml: toolset is an unknown key; did you mean toolsets?');
      expect(error).toContain('fleet.yaml: roles belongs into the configuration file');
      expect(error).toMatch(/policies: tools\.rego:\d+:\d+/);
      edit('fleet.yaml', (text) => text.replace(/toolset: \{\}[^]*/, ''));
      expect((await apply()).error).toContain('sources.yaml: mcp_servers.desk.command is for the configuration file');
    });

    it('is one of 20 of at most 256 KiB', async () => {
      const put = (name: string, revision: number, claimed: Record<string, string>) =>
        fleet().ask({
          method: 'PUT',
          path: `/api/v1/declarations/${name}`,
          body: { revision, owned: claimed, applying: false },
        });
      const known = (await get('/api/v1/declarations')) as object[];
      const names = Array.from({ length: 20 - known.length }, (_, i) => `filler-${i}`);
      for (const name of names) expect((await put(name, 0, { [`toolsets/${name}`]: '' })).status).toBe(200);
      expect(await put('more', 0, { 'toolsets/more': '' })).toMatchObject({
        status: 429,
        body: { code: 'QUOTA_EXCEEDED', error: expect.stringContaining('declarations is used up: 20 per tenant') },
      });
      const another = join(folder, 'another.yaml');
      writeFileSync(another, 'declaration: another\ntoolsets: { another: {} }\n');
      const refused = await fleetctl('apply', '-f', another);
      expect(refused).toMatchObject({
        code: 1,
        error: expect.stringContaining('declarations is used up: 20 per tenant'),
      });
      expect((await fleet().ask({ path: '/api/v1/toolsets/another' })).status).toBe(404);
      const large = Object.fromEntries(Array.from({ length: 1_500 }, (_, i) => [`mcp/${i}`.padEnd(200, 'x'), '']));
      const [own] = names as [string];
      expect(await put(own, 1, large)).toMatchObject({ status: 429, body: { code: 'QUOTA_EXCEEDED' } });
      expect((await put(own, 1, { 'toolsets/changed': '' })).body).toMatchObject({ revision: 2 });
      for (const name of names) expect((await put(name, name === own ? 2 : 1, {})).status).toBe(200);
      expect(await get('/api/v1/declarations')).toEqual(known);
    });

    it('keeps rights that a caller does not have out of its reach', async () => {
      const put = (key: string, body: object) =>
        fleet().ask({ method: 'PUT', path: '/api/v1/declarations/mine', key, body });
      const body = { revision: 0, owned: { 'toolsets/x@acme': '' }, applying: false };
      expect((await put(fleet().keys['acme']!, body)).status).toBe(403);
      expect((await put(fleet().adminKey, { ...body, owned: { 'secrets/x': '' } })).status).toBe(400);
      expect((await put(fleet().adminKey, { ...body, revision: 7 })).body).toMatchObject({ code: 'STATE_CONFLICT' });
      expect((await put(fleet().adminKey, { ...body, applying: true })).body).toMatchObject({ revision: 1 });
      const second = { ...body, revision: 1, applying: true };
      expect((await put(fleet().adminKey, second)).body.error).toContain('being applied by another client');
      const end = { revision: 1, owned: {}, applying: false };
      expect((await put(fleet().adminKey, end)).status).toBe(200);
      const keys: { id: string; client: string }[] = await get('/api/v1/keys');
      const { id } = keys.find(({ client }) => client === 'support-bot')!;
      const change = (key: string, rights: object) =>
        fleet().ask({ method: 'PUT', path: `/api/v1/keys/${id}`, key, body: rights });
      expect((await change(fleet().adminKey, { roles: ['operator'] })).body).toMatchObject({
        code: 'PERMISSION_DENIED',
      });
      expect((await change(fleet().keys['acme']!, {})).status).toBe(404);
    });
  });
}

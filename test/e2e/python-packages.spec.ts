/** Packages that the configuration file names, and modules that it allows at `strict`. */
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { makeWheel, type WheelPlan } from '../../libs/kits/wasi-python/spec/wheel.js';
import { TestFleet } from '../fleet/test-fleet.js';

const MCP = { accept: 'application/json, text/event-stream' };
const WHEELS: WheelPlan[] = [
  { name: 'shared', version: '1.2', files: { 'shared.py': 'def double(n): return 2 * n' } },
  {
    name: 'acme-tax',
    version: '3.0',
    files: { 'acme_tax/__init__.py': 'from shared import double\nRATE = double(21)' },
    requires: ['shared>=1'],
  },
];

let folder: string;
let fleet: TestFleet;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'toolfleet-wheels-'));
  const entries = WHEELS.map((plan) => {
    const { file, wheel } = makeWheel(plan);
    writeFileSync(join(folder, file), wheel);
    const sha256 = createHash('sha256').update(wheel).digest('hex');
    return [plan.name, { version: plan.version, sha256, folder }] as const;
  });
  const packages = Object.fromEntries(entries);
  fleet = await TestFleet.start({
    together: true,
    services: { gateway: 1, registry: 1, budget: 1, 'python-sandbox': 1 },
    tools: ['execute_python', 'run_program'],
    config: {
      python_packages: { ...packages, 'acme-tax': { ...packages['acme-tax'], tenants: ['acme'] } },
      code_execution: { extra_allowed_modules: { strict: ['zlib', 'shared'] } },
    },
    env: { PYTHON_EXECUTOR_RATE_LIMIT: '0' },
  });
});
afterAll(async () => {
  await fleet?.stop();
  rmSync(folder, { recursive: true, force: true });
});

const IMPORT = 'import acme_tax\nresult = acme_tax.RATE';
const as = (tenant: string) => ({ key: fleet.keys[tenant]! });

it.each(['execute_python', 'run_program'])('%s imports the packages of its tenant, and of no other', async (tool) => {
  const { body } = await fleet.call(tool, { code: IMPORT }, as('acme'));
  expect(body.success, body.error).toBe(true);
  expect(JSON.stringify(body.output)).toContain('42');
  const refused = (await fleet.call(tool, { code: IMPORT }, as('globex'))).body;
  expect(refused.error).toContain("module 'acme_tax' is not available in this sandbox");
  expect(refused.error).toContain('and the package shared can be imported');
  const { body: shared } = await fleet.call(tool, { code: 'import shared\nresult = shared.double(4)' }, as('globex'));
  expect(JSON.stringify(shared.output)).toContain('8');
});

it('tools describe the packages of the tenant that lists them', async () => {
  const described = async (tenant: string) => {
    const body = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} };
    const { text } = await fleet.ask({ path: '/mcp', body, headers: MCP, ...as(tenant) });
    const { tools } = JSON.parse(text.slice(text.indexOf('{'))).result;
    return tools.flatMap(
      ({ description }: { description: string }) => /Installed packages: .*$/.exec(description) ?? [],
    );
  };
  const all = 'Installed packages: shared 1.2.';
  expect(await described('globex')).toEqual([all, all]);
  const own = 'Installed packages: shared 1.2, acme-tax 3.0.';
  expect(await described('acme')).toEqual([own, own]);
  const { body } = await fleet.ask({ path: '/api/v1/tools/execute_python', ...as('globex') });
  expect(body.description).toContain(all);
});

it('strict allows the modules of the file in addition', async () => {
  for (const [module, isAllowed] of [
    ['zlib', true],
    ['shared', true],
    ['bz2', false],
  ] as const) {
    const args = { code: `import ${module}`, strictness: 'strict' };
    expect((await fleet.call('execute_python', args, as('globex'))).body.success, module).toBe(isAllowed);
  }
});

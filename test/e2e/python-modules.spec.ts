/** Modules of Python runs at `strict` that an operator adds while the fleet runs. */
import { eventually } from '@toolfleet/testing';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { TestFleet } from '../fleet/test-fleet.js';

const PATH = '/api/v1/python/modules';
let fleet: TestFleet;
let runs = 0;
beforeAll(async () => {
  fleet = await TestFleet.start({
    together: true,
    services: { gateway: 2, registry: 1, budget: 1, 'python-sandbox': 1 },
    tools: ['execute_python', 'run_program'],
    config: { code_execution: { extra_allowed_modules: { strict: ['zlib', 'numpy', 'pandas.core'] } } },
    env: { PYTHON_EXECUTOR_RATE_LIMIT: '0' },
  });
});
afterAll(() => fleet?.stop());

const put = (level: string, modules: unknown, key = fleet.operatorKey, gateway = 0) =>
  fleet.ask({ path: `${PATH}/${level}`, method: 'PUT', body: { modules }, key, gateway });
async function imports(module: string, gateway = 0): Promise<boolean> {
  const code = `import ${module}  # ${(runs += 1)}`;
  return (await fleet.call('execute_python', { code, strictness: 'strict' }, { gateway })).body.success;
}

it('a module that an operator adds may be imported from the next call on, over every gateway, until it is removed', async () => {
  expect([await imports('os'), await imports('os', 1)]).toEqual([false, false]);
  const added = await put('strict', ['os']);
  expect(added, added.text).toMatchObject({ status: 200, body: { added: { strict: ['os'] } } });
  expect([await imports('os'), await imports('os', 1)]).toEqual([true, true]);
  await put('strict', [], fleet.operatorKey, 1);
  expect([await imports('os'), await imports('os', 1)]).toEqual([false, false]);
});

it('strict has the modules of the file, and everything else needs none', async () => {
  expect([await imports('zlib'), await imports('bz2')]).toEqual([true, false]);
  for (const [tool, code] of [
    ['execute_python', 'import bz2, os, sqlite3'],
    ['run_program', 'import bz2, os, sqlite3'],
  ] as const)
    expect((await fleet.call(tool, { code })).body.success, tool).toBe(true);
});

it('modules that the interpreter lacks are refused, in the file and at run time, with those that it has', async () => {
  const { body } = await fleet.ask({ path: PATH });
  expect(body.available).toEqual(expect.arrayContaining(['json', 'sqlite3', 'sys', 'zlib']));
  expect(body.available).not.toContain('numpy');
  const refused = await put('strict', ['os', 'numpy.linalg', 'scipy']);
  expect(refused).toMatchObject({ status: 400, body: { code: 'REQUEST_INVALID', details: { fields: ['modules'] } } });
  expect(refused.body.error).toContain(
    `the interpreter lacks numpy.linalg, scipy; it has ${body.available.slice(0, 5).join(', ')}`,
  );
  expect((await fleet.ask({ path: PATH })).body.added.strict).toEqual([]);
  const faults = async () => (await fleet.process('gateway').admin('/health/ready')).body;
  await expect
    .poll(faults)
    .toContain('code_execution.extra_allowed_modules: the interpreter lacks numpy, pandas.core; it has ');
  const answer = await fleet.call('execute_python', { code: 'import numpy' });
  expect(answer.body.error).toContain("module 'numpy' is not available in this sandbox");
});

it('only operators change the modules, administrators see them, and the audit log names who changed what', async () => {
  expect(await put('strict', ['os'], fleet.adminKey)).toMatchObject({ status: 403 });
  expect(await fleet.ask({ path: PATH, key: fleet.keys['acme']! })).toMatchObject({ status: 403 });
  expect(await fleet.ask({ path: PATH })).toMatchObject({ status: 200, body: { added: { strict: [] } } });
  await eventually('the audit log has a line', () =>
    fleet
      .process('gateway')
      .log()
      .split('\n')
      .some((line) => line.includes('"operation":"setPythonModules"') && line.includes('"modules":["os"]')),
  );
});

it.each([
  ['standard', ['os'], 'level must be strict: standard allows every module'],
  ['strict', ['os; import sys'], 'is not a module name'],
])('level %s with %j is refused', async (level, modules, message) => {
  const answer = await put(level, modules);
  expect(answer).toMatchObject({ status: 400, body: { code: 'REQUEST_INVALID' } });
  expect(answer.text).toContain(message);
});

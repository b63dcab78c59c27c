/**
 * The Python client as a wheel: its own tests, generated models and the examples in Python, against a running fleet. Skipped where `npm test`
 * found no Python with its packages; the workflow names one.
 */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { endChild } from '@toolfleet/testing';
import { afterAll, beforeAll, expect, it, type TestContext } from 'vitest';
import { fleetctl } from '../fleet/fleetctl.js';
import { startScriptedModel } from '../fleet/scripted-model.js';
import { TestFleet } from '../fleet/test-fleet.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const CLIENT = join(ROOT, 'clients/python');
/** As the set-up of `npm test` found them: tools/local/python-packages.mjs. */
const {
  TEST_PYTHON: python,
  TEST_PYTHON_PACKAGES: packages = '',
  TEST_PYTHON_MISSING: missing = 'needs the set-up of npm test',
} = process.env;
const run = promisify(execFile);

/** `step` reports its progress, and which run it is. */
const STEP = `let runs = 0;
export default ({ defineTool, ok }) => defineTool({
  name: 'step', description: 'Takes a step', category: 'data', rateLimit: 0, idempotent: true, cacheTtlSeconds: 0,
  inputSchema: { type: 'object', properties: { label: { type: 'string' } } },
  handler: ({ label }, run) => {
    runs += 1;
    run.progress({ message: 'half', progress: 1, total: 2 });
    return ok({ label, started: runs }, 'done');
  },
});`;

let folder: string;
let fleet: TestFleet | undefined;
let model: Awaited<ReturnType<typeof startScriptedModel>> | undefined;
let wheel: string[];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'toolfleet-python-'));
  if (python === undefined) return;
  await mkdir(join(folder, 'plugins'), { mode: 0o700 });
  await writeFile(join(folder, 'plugins/step.tool.mjs'), STEP);
  [fleet, model] = await Promise.all([
    TestFleet.start({
      together: true,
      services: { gateway: 1, registry: 1, budget: 1, 'builtin-executor': 1 },
      tools: ['step', 'calculator'],
      env: { BUILTIN_PLUGINS_DIR: join(folder, 'plugins') },
    }),
    startScriptedModel(),
    installWheel(),
  ]);
  const { out } = await fleetctl(fleet, ['tools', 'types', '--python']);
  await writeFile(join(folder, 'fleet_tools.py'), out);
});
afterAll(async () => {
  if (model) await endChild(model.process);
  await fleet?.stop();
  await rm(folder, { recursive: true, force: true });
});

/** Builds the wheel as pip does, and unpacks it. */
async function installWheel() {
  const pip = ['pip', 'wheel', '--quiet', '--no-deps', '--no-build-isolation', '--no-index', '-w', folder, CLIENT];
  await runPython(['-m', ...pip]);
  const [archive] = (await readdir(folder)).filter((name) => name.endsWith('.whl'));
  expect(archive).toMatch(/^toolfleet-\d+\.\d+\.\d+-py3-none-any\.whl$/);
  await runPython(['-m', 'zipfile', '-e', archive!, 'packages']);
  wheel = (await readdir(join(folder, 'packages'), { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(join(folder, 'packages/').length));
}

async function runPython(argv: string[], env: Record<string, string> = {}) {
  return run(python!, argv, {
    cwd: folder,
    env: {
      PATH: process.env['PATH'],
      HOME: folder,
      PYTHONPATH: [join(folder, 'packages'), folder, packages].join(delimiter),
      PYTHONDONTWRITEBYTECODE: '1',
      PYTHONWARNINGS: 'error::DeprecationWarning:toolfleet',
      ...env,
    },
  }).catch((error: { stdout: string; stderr: string }) => {
    throw new Error(`python ${argv.join(' ')} failed:\n${error.stdout}\n${error.stderr}`);
  });
}

const fleetEnv = () => ({ TOOLFLEET_URL: fleet!.url(), TOOLFLEET_API_KEY: fleet!.adminKey });
function needPython({ skip }: TestContext) {
  if (python === undefined) skip(missing);
}

it('the wheel has the package, its types and its licence', (context) => {
  needPython(context);
  for (const file of ['__init__.py', 'client.py', 'models.py', 'errors.py', 'events.py', 'py.typed'])
    expect(wheel).toContain(`toolfleet/${file}`);
  expect(wheel.filter((file) => file.endsWith('/LICENSE'))).toHaveLength(1);
  expect(wheel.filter((file) => !/^toolfleet(-[\d.]+\.dist-info)?\//.test(file))).toEqual([]);
});

it('the tests of the client pass, with generated models and on a fleet', async (context) => {
  needPython(context);
  const { stdout } = await runPython(
    ['-m', 'pytest', '-q', '--rootdir', CLIENT, '-c', join(CLIENT, 'pyproject.toml'), join(CLIENT, 'tests')],
    fleetEnv(),
  );
  expect(stdout).toMatch(/\d+ passed in /);
});

/** Output of an example's agent for a script of the model. */
async function answerOf(example: string): Promise<string> {
  const { stdout } = await runPython(
    [join(ROOT, 'examples', example, 'agent.py'), 'CALL calculator {"expression": "6 * 7"}\nSAY It is {results}.'],
    { ...fleetEnv(), OPENAI_BASE_URL: model!.baseUrl, OPENAI_API_KEY: 'none', OPENAI_MODEL: 'scripted' },
  );
  return stdout.trim();
}

it('the agent in plain Python answers with the tools of the fleet', async (context) => {
  needPython(context);
  expect(await answerOf('plain-python')).toMatch(/^It is .*42.*\.$/);
});

it('the agent of LangGraph answers with the tools of the fleet', async (context) => {
  needPython(context);
  const installed = await runPython(['-c', 'import langgraph.graph, langchain_openai']).catch(() => undefined);
  if (!installed) context.skip('needs langgraph and langchain-openai: examples/langgraph/requirements.txt');
  expect(await answerOf('langgraph')).toMatch(/^It is .*42.*\.$/);
});

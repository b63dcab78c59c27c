/**
 * What others install: `@toolfleet/client` and `@toolfleet/fleetctl` as `npm pack` makes them, in an empty folder outside the
 * repository, against a running fleet, under every Node they promise to run on. A Node that is not on this machine is a
 * skip that shows; `TEST_NODES` names further ones (paths, separated by commas), as the workflow does.
 */
import { execFile, execFileSync, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { TestFleet } from '../fleet/test-fleet.js';

interface Packed {
  name: string;
  version: string;
  archive: string;
  files: string[];
}
const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const { makePackages } = (await import(pathToFileURL(join(ROOT, 'tools/release/packages.mjs')).href)) as {
  makePackages(options: { into: string }): Promise<Packed[]>;
};
const run = promisify(execFile);

/** Node programs by major version: this one, on PATH, and in TEST_NODES. */
function nodesHere(): Map<number, string> {
  const named = (process.env['TEST_NODES'] ?? '').split(',').filter(Boolean);
  const onPath = (process.env['PATH'] ?? '').split(delimiter).map((folder) => join(folder, 'node'));
  const found = new Map<number, string>();
  for (const program of [process.execPath, ...named, ...onPath]) {
    if (!existsSync(program)) continue;
    const major = Number(/^v(\d+)/.exec(spawnSync(program, ['--version'], { encoding: 'utf8' }).stdout ?? '')?.[1]);
    if (!found.has(major)) found.set(major, program);
  }
  return found;
}
const nodes = nodesHere();

let fleet: TestFleet;
let folder: string;
let packed: Packed[];
let env: Record<string, string>;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'toolfleet-packages-'));
  const install = async () => {
    packed = await makePackages({ into: folder });
    writeFileSync(join(folder, 'package.json'), '{"private":true,"type":"module"}');
    const archives = packed.map(({ archive }) => archive);
    // Offline: no installed package may need a registry.
    await run('npm', ['install', '--offline', '--no-audit', '--no-fund', '--ignore-scripts', ...archives], {
      cwd: folder,
    });
    // The optional peer, from our own installation.
    for (const name of ['nats', 'nkeys.js', 'tweetnacl'])
      cpSync(join(ROOT, 'node_modules', name), join(folder, 'node_modules', name), { recursive: true });
  };
  [fleet] = await Promise.all([
    TestFleet.start({
      together: true,
      services: { gateway: 1, registry: 1, budget: 1, 'builtin-executor': 1 },
      tools: ['calculator'],
      natsTenants: ['globex'],
      env: { BUILTIN_TOOLSETS: 'compute', GATEWAY_TRUST_TENANT_SUBJECTS: 'true' },
    }),
    install(),
  ]);
  env = {
    PATH: process.env['PATH'] ?? '',
    HOME: folder,
    TOOLFLEET_URL: fleet.url(),
    TOOLFLEET_API_KEY: fleet.keys['globex']!,
    NATS_URL: fleet.nats.tenantUrl('globex'),
  };
});
afterAll(async () => {
  await fleet?.stop();
  rmSync(folder, { recursive: true, force: true });
});

const PROGRAM = `import { ToolCallError, ToolfleetClient } from '@toolfleet/client';
import { ToolfleetNatsClient } from '@toolfleet/client/nats';

const { TOOLFLEET_URL: url, TOOLFLEET_API_KEY: apiKey, NATS_URL } = process.env;
const fleet = new ToolfleetClient({ url, apiKey });
const tools = await fleet.list();
const { output } = await fleet.call('calculator', { expression: '2 * (3 + 4)' });
const refused = await fleet.call('no_such_tool', {}).catch((error) => error);
const { username, password, host } = new URL(NATS_URL);
const nats = await ToolfleetNatsClient.connect({ url: 'nats://' + host, user: username, password, tenant: 'globex' });
const overNats = await nats.call('calculator', { expression: '6 * 7' });
await nats.close();
console.log(JSON.stringify({
  node: Number(process.versions.node.split('.')[0]),
  listed: tools.some(({ name }) => name === 'calculator'),
  result: output.result,
  refused: refused instanceof ToolCallError && refused.code,
  overNats: overNats.output.result,
}));
`;

/** Promises of the packages, and the Node these tests run on. */
const MAJORS = [...new Set([20, 22, 24, Number(process.versions.node.split('.')[0])])];

describe.each(MAJORS)('under Node %i', (major) => {
  const node = nodes.get(major);
  const it_ = node ? it : it.skip;

  it_('the client lists, calls and is refused over HTTP, and calls over NATS', async () => {
    writeFileSync(join(folder, 'program.mjs'), PROGRAM);
    const { stdout } = await run(node!, ['program.mjs'], { cwd: folder, env });
    expect(JSON.parse(stdout)).toEqual({
      node: major,
      listed: true,
      result: 14,
      refused: 'TOOL_NOT_FOUND',
      overNats: 42,
    });
  });

  it_('fleetctl takes at most 0.3 s of CPU besides what Node takes', async () => {
    const bin = join(folder, 'node_modules/@toolfleet/fleetctl/bin/fleetctl.mjs');
    const print = 'process.on("exit", () => process._rawDebug(Object.values(process.cpuUsage()).join()))';
    const secondsOf = async (...args: string[]) => {
      const { stderr } = await run(node!, ['--import', `data:text/javascript,${print}`, ...args], { cwd: folder, env });
      return stderr.split(',').reduce((sum, micros) => sum + Number(micros), 0) / 1e6;
    };
    // The least of several: a busy machine takes more for the same.
    const least = async (...args: string[]) => {
      const seen: number[] = [];
      for (let run_ = 0; run_ < 5; run_ += 1) seen.push(await secondsOf(...args));
      return Math.min(...seen);
    };
    const bare = await least('-e', '0');
    for (const line of ['--help', 'completion bash', 'call calculator --expression 1 --json'])
      expect((await least(bin, ...line.split(' '))) - bare, line).toBeLessThan(0.3);
  });

  it_('fleetctl calls a tool, refuses wrong arguments and inspects a document', async () => {
    const bin = join(folder, 'node_modules/@toolfleet/fleetctl/bin/fleetctl.mjs');
    const fleetctl = (...args: string[]) => run(node!, [bin, ...args], { cwd: folder, env });
    expect(JSON.parse((await fleetctl('call', 'calculator', '--expression', '6 * 7', '--json')).stdout)).toMatchObject({
      success: true,
      output: { result: 42 },
    });
    await expect(fleetctl('call', 'calculator', '--expresion', '1')).rejects.toMatchObject({
      stderr: expect.stringContaining('expression'),
    });
    writeFileSync(
      join(folder, 'api.yaml'),
      'openapi: 3.1.0\ninfo: { title: t, version: "1" }\npaths: { /a: { get: { operationId: readA, parameters: [{ name: q, in: query, schema: { type: string, pattern: "^a+$" } }] } } }\n',
    );
    expect((await fleetctl('openapi', 'inspect', 'api.yaml')).stdout).toContain('readA');
  });
});

it('packs everything that is needed, and no reference to the workspace', () => {
  expect(packed.map(({ name }) => name)).toEqual(['@toolfleet/client', '@toolfleet/fleetctl']);
  for (const { name, files } of packed) {
    for (const file of ['LICENSE', 'README.md', 'package.json', 'dist/index.js', 'dist/index.d.ts'])
      expect(files, name).toContain(file);
    const manifest = JSON.parse(readFileSync(join(folder, 'node_modules', name, 'package.json'), 'utf8')) as object;
    expect(manifest).toMatchObject({ type: 'module', engines: { node: '>=20' }, license: 'Apache-2.0' });
    expect(Object.keys(manifest)).not.toEqual(expect.arrayContaining(['private', 'dependencies', 'scripts']));
  }
});

it('has types that a strict compiler accepts', () => {
  writeFileSync(
    join(folder, 'use.mts'),
    `import { ToolfleetClient, type ListedTool } from '@toolfleet/client';
import { main } from '@toolfleet/fleetctl';
const client = new ToolfleetClient({ url: 'http://127.0.0.1' });
export const tools: Promise<ListedTool[]> = client.list({ category: 'search' });
export const text: Promise<string> = client.call('a', { b: 1 }).then(({ text }) => text);
export const code: Promise<number> = main(['help']);
// @ts-expect-error a URL is a string
new ToolfleetClient({ url: 1 });
`,
  );
  const options = ['--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2023', '--types', 'node'];
  const roots = ['--typeRoots', join(ROOT, 'node_modules/@types')];
  execFileSync(process.execPath, [join(ROOT, 'node_modules/typescript/bin/tsc'), ...options, ...roots, 'use.mts'], {
    cwd: folder,
  });
});

describe('npm run release', () => {
  const release = (root: string, ...args: string[]) =>
    spawnSync(process.execPath, [join(root, 'tools/release/release.mjs'), ...args], { encoding: 'utf8', cwd: folder });

  it('shows versions, changelog section, tag and packed files in a dry run, and changes nothing', () => {
    const clone = join(folder, 'clone');
    const git = (...args: string[]) =>
      execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@example.com', ...args], {
        cwd: clone,
        encoding: 'utf8',
      });
    execFileSync('git', ['clone', '-q', '--shared', ROOT, clone]);
    for (const built of [
      'node_modules',
      'libs/client/dist',
      'libs/contracts/dist',
      'libs/kits/base/dist',
      'tools/fleetctl/dist',
      'tools/release',
    ])
      if (!existsSync(join(clone, built))) symlinkSync(join(ROOT, built), join(clone, built));
    writeFileSync(join(clone, 'CHANGELOG.md'), '# Changelog\n\n## 99.0.0 (unreleased)\n\n- **New**: everything.\n');
    git('commit', '-qam', 'Write the section');
    const before = [git('rev-parse', 'HEAD'), git('tag', '--list')];
    const { status, stdout, stderr } = release(clone, '99.0.0', '--dry-run');
    expect([status, stderr]).toEqual([0, '']);
    for (const line of [
      /^version \S+ -> 99\.0\.0, tag v99\.0\.0 \(dry run/m,
      /^ {2}edit CHANGELOG\.md$/m,
      /^ {2}edit libs\/client\/package\.json$/m,
      /^ {2}edit package-lock\.json$/m,
      /^- \*\*New\*\*: everything\.$/m,
      /^packed @toolfleet\/client 99\.0\.0: build\/packages\/toolfleet-client-99\.0\.0\.tgz$/m,
      /^packed @toolfleet\/fleetctl 99\.0\.0:/m,
      /^ {2}dist\/index\.d\.ts$/m,
    ])
      expect(stdout).toMatch(line);
    expect([git('rev-parse', 'HEAD'), git('tag', '--list')]).toEqual(before);
    expect(git('diff', '--stat')).toBe('');
  });

  it('refuses what cannot be released, and says why', () => {
    expect(release(ROOT).stderr).toContain('usage: npm run release -- <version> [--dry-run]');
    expect(release(ROOT, '99.0.0', '--dry-run')).toMatchObject({
      status: 1,
      stderr: expect.stringContaining('no section "## 99.0.0 (unreleased)"'),
    });
  });
});

/** Runbooks: each says what its alert means and what to do, and names the test that rehearses it. */
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createLogger } from '@toolfleet/telemetry';
import { describe, expect, it } from 'vitest';
import { manifests } from './doubles/manifests.js';
import { documentedLines } from './fleet/documented-commands.js';
import { SERVICE_NAMES } from './fleet/test-fleet.js';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const SECTIONS = ['## Meaning', '## First look', '## Action', '## Drill'];

/** What is missing in a page. */
function faultsOf(text: string, exists: (path: string) => boolean): string[] {
  const missing = SECTIONS.filter((section) => !text.includes(`\n${section}\n`));
  const drill = text.slice(text.indexOf('## Drill'));
  const named = [...drill.matchAll(/`([\w./-]+\.(?:spec\.ts|mjs))`/g)].map(([, path]) => path!);
  return [
    ...missing.map((section) => `no section ${section}`),
    ...(named.length > 0 ? [] : ['names no test']),
    ...named.filter((path) => !exists(path)).map((path) => `names ${path}, which does not exist`),
  ];
}

describe('runbooks', () => {
  const pages = readdirSync(`${ROOT}docs/runbooks`);
  it.each(pages)('%s is complete and names a test that exists', (page) => {
    const text = readFileSync(`${ROOT}docs/runbooks/${page}`, 'utf8');
    expect(faultsOf(text, (path) => existsSync(ROOT + path))).toEqual([]);
  });

  it('look for errors as the log writes them, and at workloads that are deployed', () => {
    let line = '';
    createLogger({ service: 'spec', destination: { write: (text) => void (line = text) } }).error('broken');
    const texts = pages.map((page) => readFileSync(`${ROOT}docs/runbooks/${page}`, 'utf8')).join('\n');
    const patterns = [...texts.matchAll(/grep -E '([^']*"level"[^']*)'/g)].map(([, pattern]) => pattern!);
    expect(patterns.length).toBeGreaterThan(3);
    for (const pattern of patterns) expect(line).toMatch(new RegExp(pattern));
    const workloads = [...texts.matchAll(/^kubectl -n toolfleet [^\n]*? deploy\/([a-z-]+)/gm)].map(([, name]) => name!);
    expect([...new Set(workloads)].filter((name) => !existsSync(`${ROOT}deploy/k8s/base/${name}`))).toEqual([]);
  });

  it('that are not would be found', () => {
    const page = (drill: string) => `# X\n\n## Meaning\n\na\n\n## First look\n\n## Drill\n\n${drill}\n`;
    expect(faultsOf(page('Try it.'), () => true)).toEqual(['no section ## Action', 'names no test']);
    expect(faultsOf(page('`test/none.spec.ts`'), () => false)).toEqual([
      'no section ## Action',
      'names test/none.spec.ts, which does not exist',
    ]);
  });
});

describe('the upgrade of docs/runbooks/upgrade-and-rollback.md', () => {
  const lines = ['gate', 'rollback', 'upgrade'].flatMap((name) =>
    documentedLines(name, 'runbooks/upgrade-and-rollback.md'),
  );
  const classes = /^CLASSES="(.*)"$/m.exec(lines.join('\n'))![1]!.split(' ');

  /** Runs the blocks; a page fires once `failing` is upgraded. @returns the commands that were run, and the exit code */
  function upgrade(failing = 'none') {
    const folder = mkdtempSync(join(tmpdir(), 'toolfleet-upgrade-'));
    const record = `#!/bin/sh\necho "$(basename "$0") $*" >> "${folder}/commands"\n`;
    const programs = {
      kubectl: `case "$*" in *name=${failing}*) touch "${folder}/fires" ;; esac`,
      npx: '',
      promtool: `if [ -e "${folder}/fires" ]; then echo 'ALERTS{alertname="ExecutorGone"} => 1'; fi`,
    };
    try {
      for (const [name, body] of Object.entries(programs)) {
        writeFileSync(join(folder, name), `${record}${body}\n`);
        chmodSync(join(folder, name), 0o755);
      }
      const env = { PATH: `${folder}:${process.env['PATH']}`, OVERLAY: 'mine', PROMETHEUS_URL: 'http://p', SOAK: '0' };
      const { status } = spawnSync('sh', ['-eu', '-c', lines.join('\n')], { cwd: folder, env, encoding: 'utf8' });
      return { status, commands: readFileSync(join(folder, 'commands'), 'utf8').trimEnd().split('\n') };
    } finally {
      rmSync(folder, { recursive: true });
    }
  }

  it('names every class that is deployed, in the order in which services ask each other', () => {
    const deployed = readdirSync(`${ROOT}deploy/k8s/base`, { withFileTypes: true })
      .filter((entry) => entry.isDirectory() && entry.name !== 'shared')
      .map(({ name }) => name);
    expect(classes.toSorted()).toEqual(deployed.toSorted());
    const services = classes.map((name) => (name.startsWith('builtin-') ? 'builtin-executor' : name));
    expect([...new Set(services)]).toEqual(SERVICE_NAMES);
    // The label by which the page selects them is that of Deployments only.
    const labelled = manifests().filter(({ metadata }) => metadata.labels?.['app.kubernetes.io/name'] !== undefined);
    expect(labelled.map(({ kind }) => kind)).toEqual(classes.map(() => 'Deployment'));
    expect(labelled.map(({ metadata }) => metadata.labels!['app.kubernetes.io/name']!).toSorted()).toEqual(
      classes.toSorted(),
    );
  });

  it('replaces one class after the other, each behind its gate', () => {
    const { status, commands } = upgrade();
    expect(status).toBe(0);
    expect(commands.slice(0, 2)).toEqual([
      'kubectl kustomize mine',
      'kubectl apply -f release.yaml -l !app.kubernetes.io/name',
    ]);
    const gateOf = (name: string) => [
      `kubectl apply -f release.yaml -l app.kubernetes.io/name=${name}`,
      `kubectl -n toolfleet rollout status deploy/${name} --timeout=30m`,
      'npx fleetctl health',
      'npx fleetctl call calculator --arguments {"expression": "6 * 7"}',
      'npx fleetctl call execute_python --arguments {"code": "6 * 7"}',
      'promtool query instant http://p ALERTS{alertstate="firing", severity="page"}',
    ];
    expect(commands.slice(2)).toEqual(classes.flatMap(gateOf));
  });

  it.each(['budget', 'mcp-executor', 'gateway'])('rolls back what was upgraded when %s fails its gate', (failing) => {
    const { status, commands } = upgrade(failing);
    expect(status).toBe(1);
    const upgraded = classes.slice(0, classes.indexOf(failing) + 1).toReversed();
    expect(commands.slice(-2 * upgraded.length)).toEqual(
      upgraded.flatMap((name) => [
        `kubectl -n toolfleet rollout undo deploy/${name}`,
        `kubectl -n toolfleet rollout status deploy/${name} --timeout=30m`,
      ]),
    );
    expect(commands.filter((command) => command.includes('apply'))).toHaveLength(upgraded.length + 1);
  });
});

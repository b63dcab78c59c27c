/** Runbooks: each says what its alert means and what to do, and names the test that rehearses it. */
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  globSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createLogger } from '@toolfleet/telemetry';
import yaml from 'js-yaml';
import { describe, expect, it } from 'vitest';
import { manifests, type Objects } from './doubles/manifests.js';
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

  it('look for errors as the log writes them', () => {
    let line = '';
    createLogger({ service: 'spec', destination: { write: (text) => void (line = text) } }).error('broken');
    const texts = pages.map((page) => readFileSync(`${ROOT}docs/runbooks/${page}`, 'utf8')).join('\n');
    const patterns = [...texts.matchAll(/grep -E '([^']*"level"[^']*)'/g)].map(([, pattern]) => pattern!);
    expect(patterns.length).toBeGreaterThan(3);
    for (const pattern of patterns) expect(line).toMatch(new RegExp(pattern));
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

describe('commands of the documentation', () => {
  const pages = [
    'console.md',
    'security.md',
    ...readdirSync(`${ROOT}docs/operations`).map((page) => `operations/${page}`),
  ];
  const texts = [...readdirSync(`${ROOT}docs/runbooks`).map((page) => `runbooks/${page}`), ...pages].map(
    (page): [string, string] => [page, readFileSync(`${ROOT}docs/${page}`, 'utf8').replaceAll('\\|', '|')],
  );
  const objects = deployedObjects();

  it.each(texts)('select objects that are deployed: %s', (_page, text) => {
    expect(commandsIn(text).flatMap((command) => selectsNothing(command, objects))).toEqual([]);
  });

  it.each(texts)('look in logs for what the code writes: %s', (_page, text) => {
    expect(commandsIn(text).flatMap(searchesNothing)).toEqual([]);
  });

  it.each([
    [
      'get scaledobject,pods -l app.kubernetes.io/name=gateway',
      ['no scaledobject with app.kubernetes.io/name=gateway'],
    ],
    ['get pods -l app.kubernetes.io/name=gate', ['no pods with app.kubernetes.io/name=gate']],
    ["get pods -l 'app.kubernetes.io/name in (gateway, budget)'", []],
    ['rollout restart deploy/gate', ['no deploy/gate']],
    ['patch hpa mcp-executor --type=merge -p {}', []],
    ['annotate scaledobject gateway a=b', ['no scaledobject/gateway']],
    ['create job --from=cronjob/backup-none now', ['no cronjob/backup-none']],
    ['get gadgets', ['gadgets is not deployed']],
  ])('that do not would be found: %s', (command, faults) => {
    expect(selectsNothing(`kubectl -n toolfleet ${command}`, objects)).toEqual(faults);
  });

  it('that look for other words would be found', () => {
    expect(searchesNothing("kubectl -n toolfleet logs deploy/gateway | grep 'no such words' | tail")).toEqual([
      'no log line has "no such words"',
    ]);
  });
});

describe('the upgrade of docs/runbooks/upgrade-and-rollback.md', () => {
  const lines = ['gate', 'rollback', 'upgrade'].flatMap((name) =>
    documentedLines(name, 'runbooks/upgrade-and-rollback.md'),
  );
  const classes = /^CLASSES="(.*)"$/m.exec(lines.join('\n'))![1]!.split(' ');

  const PREVIOUS = '0.1.0.yaml';
  const RELEASE = '0.2.0.yaml';
  const applied = (file: string, name: string) => `kubectl apply -f ${file} -l app.kubernetes.io/name=${name}`;
  const rest = (file: string) => `kubectl apply -f ${file} -l !app.kubernetes.io/name`;
  const statusOf = (name: string) => `kubectl -n toolfleet rollout status deploy/${name} --timeout=30m`;

  /**
   * Runs the blocks.
   * @param fires a page fires once this class is upgraded
   * @param broken commands of kubectl that fail, by a pattern of the shell
   * @returns the commands that were run, the exit code, and what was said
   */
  function upgrade({ fires = 'none', broken = 'none', previous = 'kind: Deployment' } = {}) {
    const folder = mkdtempSync(join(tmpdir(), 'toolfleet-upgrade-'));
    const record = `#!/bin/sh\necho "$(basename "$0") $*" >> "${folder}/commands"\n`;
    const programs = {
      kubectl: `case "$*" in *${RELEASE}*name=${fires}) touch "${folder}/fires" ;; esac
case "$*" in ${broken}) exit 1 ;; esac`,
      npx: '',
      promtool: `if [ -e "${folder}/fires" ]; then echo 'ALERTS{alertname="ExecutorGone"} => 1'; fi`,
    };
    try {
      writeFileSync(join(folder, PREVIOUS), previous);
      writeFileSync(join(folder, 'commands'), '');
      for (const [name, body] of Object.entries(programs)) {
        writeFileSync(join(folder, name), `${record}${body}\n`);
        chmodSync(join(folder, name), 0o755);
      }
      const env = {
        ...{ PATH: `${folder}:${process.env['PATH']}`, OVERLAY: 'mine', PREVIOUS: '0.1.0', RELEASE: '0.2.0' },
        ...{ PROMETHEUS_URL: 'http://p', SOAK: '0' },
      };
      const { status, stderr } = spawnSync('sh', ['-eu', '-c', lines.join('\n')], {
        cwd: folder,
        env,
        encoding: 'utf8',
      });
      return { status, stderr, commands: readFileSync(join(folder, 'commands'), 'utf8').split('\n').filter(Boolean) };
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
    // The label by which the page selects them belongs to Deployments only.
    const labelled = manifests().filter(({ metadata }) => metadata.labels?.['app.kubernetes.io/name'] !== undefined);
    expect(labelled.map(({ kind }) => kind)).toEqual(classes.map(() => 'Deployment'));
    expect(labelled.map(({ metadata }) => metadata.labels!['app.kubernetes.io/name']!).toSorted()).toEqual(
      classes.toSorted(),
    );
  });

  it('replaces one class after the other, each behind its gate', () => {
    const { status, commands } = upgrade();
    expect(status).toBe(0);
    expect(commands.slice(0, 2)).toEqual(['kubectl kustomize mine', rest(RELEASE)]);
    const gateOf = (name: string) => [
      applied(RELEASE, name),
      statusOf(name),
      'npx fleetctl health',
      'npx fleetctl call calculator --arguments {"expression": "6 * 7"}',
      'npx fleetctl call execute_python --arguments {"code": "6 * 7"}',
      'promtool query instant http://p ALERTS{alertstate="firing", severity="page"}',
    ];
    expect(commands.slice(2)).toEqual(classes.flatMap(gateOf));
  });

  it('does not begin without the manifests to go back to', () => {
    expect(upgrade({ previous: '' })).toMatchObject({ status: 1, commands: [] });
  });

  const rolledBack = (upgraded: readonly string[]) => [
    ...upgraded.flatMap((name) => [applied(PREVIOUS, name), statusOf(name)]),
    rest(PREVIOUS),
  ];
  const upTo = (name: string) => classes.slice(0, classes.indexOf(name) + 1).toReversed();

  it.each(['budget', 'mcp-executor', 'gateway'])('applies what was before when %s fails its gate', (failing) => {
    const { status, commands } = upgrade({ fires: failing });
    expect(status).toBe(1);
    const expected = rolledBack(upTo(failing));
    expect(commands.slice(-expected.length)).toEqual(expected);
    expect(commands.filter((command) => command.includes(RELEASE))).toHaveLength(upTo(failing).length + 1);
    // Only the previous manifests say what was before: a class that the release did not change has older revisions as well.
    expect(commands.filter((command) => command.includes('undo'))).toEqual([]);
  });

  it('rolls back when a class cannot be applied', () => {
    const { status, commands } = upgrade({ broken: `*${RELEASE}*name=registry` });
    expect(status).toBe(1);
    expect(commands.slice(-5)).toEqual(rolledBack(['registry', 'budget']));
  });

  it.each([
    ['a class that is not applied', `*${PREVIOUS}*name=registry`, 'not rolled back: registry'],
    // In the upgrade the gate fails there already.
    ['a class that does not become ready', '*status?deploy/registry*', 'not rolled back: registry'],
    ['the other objects', `*${PREVIOUS}*!app*`, 'not rolled back: configuration'],
  ])('names %s in a rollback, and rolls back the others', (_what, broken, message) => {
    const { status, stderr, commands } = upgrade({ fires: 'registry', broken });
    expect(status).toBe(2);
    expect(stderr).toContain(message);
    expect(commands).toContain(statusOf('budget'));
    expect(commands).toContain(applied(PREVIOUS, 'budget'));
    expect(commands.at(-1)).toBe(rest(PREVIOUS));
  });
});

/** The commands of a page that ask the namespace of the fleet. */
function commandsIn(text: string): string[] {
  return [...text.matchAll(/\bkubectl -n toolfleet [^\n`]*/g)].flatMap(([line]) =>
    line
      .split(/\s&&\s/)
      .map((command) => command.replace(/\s#.*$/, '').trim())
      .filter((command) => command.startsWith('kubectl')),
  );
}

/** Objects of production with each autoscaler, of the stores of overlays/dev, and the backup jobs. */
function deployedObjects(): Objects {
  const plain = [...globSync('deploy/k8s/overlays/dev/*.yaml', { cwd: ROOT }), 'deploy/k8s/backup/jobs.yaml'];
  return [
    ...(['keda', 'hpa', 'keda-redis'] as const).flatMap((scaler) => manifests(scaler)),
    ...plain.flatMap((file) => yaml.loadAll(readFileSync(ROOT + file, 'utf8')) as Objects),
  ].filter((object) => object?.kind !== undefined);
}

/** Kinds by the names that kubectl takes. */
const KINDS: Record<string, string[]> = {
  deploy: ['Deployment'],
  statefulset: ['StatefulSet'],
  hpa: ['HorizontalPodAutoscaler'],
  scaledobject: ['ScaledObject'],
  externalsecret: ['ExternalSecret'],
  cronjob: ['CronJob'],
  cronjobs: ['CronJob'],
  pdb: ['PodDisruptionBudget'],
  pod: ['Deployment', 'StatefulSet', 'CronJob'],
  pods: ['Deployment', 'StatefulSet', 'CronJob'],
};
/** What Kubernetes makes by itself. */
const UNDEPLOYED = new Set(['events', 'job', 'jobs', 'nodes', 'secret', 'pvc']);

/** What a command names or selects that is not deployed. Placeholders (`<pod>`, `$class`) are left out. */
function selectsNothing(command: string, objects: Objects): string[] {
  const [asked = ''] = command.split(' | ');
  const selector = /\s-l (?:'([^']+)'|"([^"]+)"|(\S+))/.exec(asked)?.slice(1).find(Boolean);
  const words = asked.split(/\s+/).slice(3);
  const faults = words.flatMap((word) => {
    const [, kind, name] = /^"?(?:--from=)?([a-z]+)\/([a-z][\w-]*)"?$/.exec(word) ?? [];
    if (kind === undefined) return [];
    return exists(objects, kind, name) ? [] : [`no ${kind}/${name}`];
  });
  const [verb = '', kinds = '', name] = words[0] === 'logs' && selector !== undefined ? ['get', 'pods'] : words;
  if (!VERBS.has(verb) || kinds.includes('/') || /^["<$-]/.test(kinds)) return faults;
  for (const kind of kinds.split(',').filter((one) => !UNDEPLOYED.has(one))) {
    if (KINDS[kind] === undefined) faults.push(`${kind} is not deployed`);
    else if (
      selector !== undefined &&
      !objects.some((object) => KINDS[kind]!.includes(object.kind) && selects(selector, kind, object))
    )
      faults.push(`no ${kind} with ${selector}`);
    else if (name !== undefined && /^[a-z][\w-]*$/.test(name) && !exists(objects, kind, name))
      faults.push(`no ${kind}/${name}`);
  }
  return faults;
}
const VERBS = new Set(['get', 'describe', 'delete', 'annotate', 'patch', 'scale', 'top']);

const exists = (objects: Objects, kind: string, name: string | undefined) =>
  UNDEPLOYED.has(kind) || objects.some((object) => KINDS[kind]?.includes(object.kind) && object.metadata.name === name);

/** Whether a label selector matches an object, or the pods that it makes. */
function selects(selector: string, kind: string, object: Objects[number]): boolean {
  const { spec, metadata } = object as unknown as {
    spec: { template?: Labelled; jobTemplate?: { spec: { template: Labelled } } };
  } & Labelled;
  const labels = kind.startsWith('pod')
    ? (spec.template ?? spec.jobTemplate?.spec.template)?.metadata?.labels
    : metadata?.labels;
  if (/^[\w./-]+$/.test(selector)) return labels?.[selector] !== undefined;
  const [, key, values] = /^(\S+?)(?:=| in \()([^)]+)\)?$/.exec(selector) ?? [];
  return values!.split(/,\s*/).includes(labels?.[key!] ?? '');
}
interface Labelled {
  metadata?: { labels?: Record<string, string> };
}

/** Words that a command looks for in logs and that no source has. Patterns over JSON fields are tested above. */
function searchesNothing(command: string): string[] {
  if (!/\blogs\b/.test(command)) return [];
  const found = [...command.matchAll(/grep (-\w+ )?(?:'([^']+)'|(\w+))/g)];
  return found.flatMap(([, flags = '', quoted, plain]) =>
    (quoted ?? plain!)
      .split('|')
      .filter((words) => !/["<{]/.test(words))
      .filter((words) => !new RegExp(words, flags.includes('i') ? 'i' : '').test(sources()))
      .map((words) => `no log line has "${words}"`),
  );
}

let read: string | undefined;
const sources = () =>
  (read ??= globSync('{apps,libs,libs/kits}/*/src/**/*.ts', { cwd: ROOT })
    .filter((file) => !file.endsWith('.spec.ts'))
    .map((file) => readFileSync(ROOT + file, 'utf8'))
    .join('\n'));

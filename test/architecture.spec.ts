/**
 * The import rules (docs/decisions/0003-import-rules.md), read from the sources and from `nx graph`.
 * Every rule is a function of the files, so that each is also shown to catch a planted fault.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { REQUESTS } from '@toolfleet/contracts/requests';
import { beforeAll, describe, expect, it } from 'vitest';
import { isProduction, packageOf } from '../tools/code-parts.mjs';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

interface SourceFile {
  /** Path from the repository root, with `/`. */
  path: string;
  text: string;
}

/** Layer of each package; imports go down only. Kept as literals: the rule is not derived from what it checks. */
const LAYERS: Record<string, number> = {
  contracts: 0,
  client: 0,
  resilience: 1,
  telemetry: 2,
  policy: 2,
  journal: 2,
  engine: 3,
  oauth: 3,
  'fleet-file': 3,
  'builtin-tools': 3,
  transport: 3,
  queue: 3,
  access: 4,
  service: 4,
  catalog: 5,
  results: 5,
  programs: 5,
  records: 5,
  database: 5,
  'engine-adapters': 5,
  mcp: 6,
  rules: 6,
};
/** Libs that do not know the product (libs/kits), below all layers: what each may import of our own. */
const KITS: Record<string, string[]> = {
  base: [],
  rego: [],
  egress: ['base'],
  'bounded-schema': ['base'],
  'wasi-python': ['base'],
  openapi: ['base', 'bounded-schema'],
};
const APPS = [
  'gateway',
  'registry',
  'mcp-executor',
  'openapi-executor',
  'builtin-executor',
  'python-sandbox',
  'budget',
  'records-service',
  'identity',
  'console',
];
const TOOLS = ['autoscale', 'fleetctl', 'samples'];

/** Specs, and what only they use. */
const isSpec = (path: string) =>
  path.endsWith('.spec.ts') || /^(test|libs\/testing|(apps|libs|libs\/kits)\/[^/]+\/spec)\//.test(path);
/** These run at the caller's side, or are the caller. */
const atCallersSide = (path: string) => /^(libs\/client|apps\/console|tools)\//.test(path);

function importsOf(text: string): string[] {
  const specifiers = [...text.matchAll(/(?:^|\n)\s*(?:import|export)\b[^;'"]*?from\s*['"]([^'"]+)['"]/g)].map(
    (m) => m[1]!,
  );
  const bare = [...text.matchAll(/(?:^|\n)\s*import\s*['"]([^'"]+)['"]/g)].map((m) => m[1]!);
  const dynamic = [...text.matchAll(/\bimport\(\s*['"]([^'"]+)['"]\s*\)/g)].map((m) => m[1]!);
  return [...specifiers, ...bare, ...dynamic];
}

function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/(^|[^:'"`\\])\/\/[^\n]*/g, '$1');
}

const ownPackage = (specifier: string) => /^@toolfleet\/([^/]+)/.exec(specifier)?.[1];
/** The lib that a file belongs to. */
const libOf = (path: string) => /^libs\/(?:kits\/)?([^/]+)\//.exec(path)?.[1];
/** The folder of the project that a file belongs to. */
const projectOf = (path: string) => /^(?:apps|tools|libs\/kits|libs(?!\/kits))\/[^/]+/.exec(path)?.[0];

type Rule = (file: SourceFile) => string[];

/** Imports go down only; same-layer libs never import each other, except that client takes types from contracts. */
const layersGoDown: Rule = ({ path, text }) => {
  const lib = libOf(path);
  if (!lib || lib === 'testing' || isSpec(path) || lib in KITS) return [];
  return importsOf(text).flatMap((specifier) => {
    const target = ownPackage(specifier);
    if (!target || target === lib) return target === lib ? [`${path} imports its own package by name`] : [];
    if (lib === 'client' && target === 'contracts') return [];
    if (target in KITS && (LAYERS[lib] !== 0 || target === 'base')) return [];
    const [from, to] = [LAYERS[lib], LAYERS[target]];
    if (from === undefined || to === undefined) return [`${path} imports ${specifier}, which has no layer`];
    return to < from ? [] : [`${path} (layer ${from}) imports ${specifier} (layer ${to})`];
  });
};

/** A kit imports nothing of the product, and of the kits what `KITS` allows. */
const kitsStandAlone: Rule = ({ path, text }) => {
  const kit = path.startsWith('libs/kits/') ? libOf(path) : undefined;
  if (kit === undefined || isSpec(path)) return [];
  return importsOf(text).flatMap((specifier) => {
    const target = ownPackage(specifier);
    return target === undefined || KITS[kit]?.includes(target) ? [] : [`${path} imports ${specifier}`];
  });
};

/** Parts of the builtin tools that run them, whatever they are. */
const RUNS_TOOLS = ['index', 'manifest', 'plugins', 'tool-runner'];
/** What a plugin is passed. */
const PLUGIN_API = ['bounded', 'builtin-tool', 'tool-run'];

/** Builtin tools are plugins: each folder of tools imports itself and what a plugin is passed. The pack knows contracts, resilience and kits. */
const builtinToolsArePlugins: Rule = ({ path, text }) => {
  const partOf = (file: string) => /^libs\/builtin-tools\/src\/([^/]+?)(?:\.[jt]s)?(?:\/|$)/.exec(file)?.[1];
  const part = partOf(path);
  if (part === undefined || isSpec(path)) return [];
  return importsOf(text)
    .filter((specifier) => {
      const target = ownPackage(specifier);
      if (target !== undefined) return !(target in KITS || target === 'contracts' || target === 'resilience');
      if (!specifier.startsWith('.') || [...RUNS_TOOLS, ...PLUGIN_API].includes(part)) return false;
      return ![part, ...PLUGIN_API].includes(partOf(join(path, '..', specifier))!);
    })
    .map((specifier) => `${path} imports ${specifier}`);
};

/** No app imports an app; nothing imports tools; testing is for specs. */
const appsStandAlone: Rule = ({ path, text }) =>
  importsOf(text).flatMap((specifier) => {
    const target = ownPackage(specifier);
    if (!target) {
      const up = specifier.startsWith('.') ? join(path, '..', specifier) : '';
      const crosses = up && projectOf(`${up}/`) !== projectOf(path);
      return crosses && !isSpec(path) ? [`${path} reaches ${specifier} by path`] : [];
    }
    if (target === 'testing') return isSpec(path) ? [] : [`${path} imports testing`];
    if (APPS.includes(target)) return path.startsWith('apps/standalone/') ? [] : [`${path} imports app ${target}`];
    if (TOOLS.includes(target)) return [`${path} imports tools/${target}`];
    return [];
  });

/** The console runs in a browser: it imports the client, the rows of the API for its forms, React, and TanStack Query to load data. */
const consoleIsACaller: Rule = ({ path, text }) =>
  !path.startsWith('apps/console/src/') || isSpec(path)
    ? []
    : importsOf(text)
        .filter(
          (specifier) =>
            !/^(\.|@toolfleet\/client$|@toolfleet\/contracts\/resources$|@tanstack\/react-query$|react$|react-dom\/client$)/.test(
              specifier,
            ),
        )
        .map((specifier) => `${path} imports ${specifier}`);

/** Rank of each folder of the gateway; `main`, `service` and `gateway.config` are files. */
const GATEWAY_RANKS: Record<string, number> = {
  server: 0,
  calls: 0,
  operator: 0,
  http: 1,
  mcp: 1,
  nats: 1,
  'gateway.config': 1,
  wiring: 2,
  service: 3,
  main: 4,
};

/** Folders of the gateway import folders of a lower rank only, so that entry points know neither each other nor the settings. */
const gatewayFoldersGoDown: Rule = ({ path, text }) => {
  const folderOf = (file: string) => /^apps\/gateway\/src\/([^/]+?)(?:\.[jt]s)?(?:\/|$)/.exec(file)?.[1];
  const folder = folderOf(path);
  if (folder === undefined || isSpec(path)) return [];
  const from = GATEWAY_RANKS[folder];
  if (from === undefined) return [`${path} is in a folder without a rank`];
  return importsOf(text).flatMap((specifier) => {
    const target = specifier.startsWith('.') ? folderOf(join(path, '..', specifier)) : undefined;
    if (target === undefined || target === folder) return [];
    const to = GATEWAY_RANKS[target];
    return to !== undefined && to < from ? [] : [`${path} imports ${specifier}: ${folder} is not above ${target}`];
  });
};

const only =
  (what: string, used: (file: SourceFile) => boolean, allowed: (path: string) => boolean): Rule =>
  (file) =>
    used(file) && !allowed(file.path) && !isSpec(file.path) ? [`${file.path} uses ${what}`] : [];

const importsAny =
  (...names: string[]) =>
  (file: SourceFile) =>
    importsOf(file.text).some((specifier) =>
      names.some((name) => specifier === name || specifier.startsWith(`${name}/`)),
    );
const mentions = (pattern: RegExp) => (file: SourceFile) => pattern.test(withoutComments(file.text));

/** Endpoints without a schema, with the reason. */
const UNCHECKED: Record<string, string> = {
  'libs/service/src/nats-service.ts': 'options of its callers, whose type requires a schema',
};
/** The arguments of every `@Endpoint`, across lines. */
const endpoints = (text: string) => [...text.matchAll(/@Endpoint\(([\s\S]*?)\)\n/g)].map(([, given]) => given!);

/** What writes results and errors for readers, and `multi_agent`: it calls tools from outside as any caller does. */
const RENDERINGS = new Set([
  'libs/contracts/src/call.ts',
  'libs/contracts/src/result-files.ts',
  'libs/kits/openapi/src/inspect.ts',
  'apps/gateway/src/http/calls.controller.ts',
  'libs/engine/src/steps/select.ts',
  'apps/gateway/src/server/error.filter.ts',
  'libs/mcp/src/render-result.ts',
  'libs/builtin-tools/src/agent/sub-agent.ts',
]);

const RULES: Record<string, Rule> = {
  'layers go down': layersGoDown,
  'kits stand alone': kitsStandAlone,
  'builtin tools are plugins': builtinToolsArePlugins,
  'apps stand alone': appsStandAlone,
  'folders of the gateway go down': gatewayFoldersGoDown,
  'the console is a caller': consoleIsACaller,
  'Nest only in apps and thin shells': only(
    '@nestjs',
    importsAny('@nestjs'),
    (path) =>
      /^(apps|libs\/service)\//.test(path) ||
      /^libs\/(transport\/src\/(nats-strategy|endpoint|answers)|queue\/src\/job-worker)\.ts$/.test(path),
  ),
  // Nest is router and transport: what lives as long as the process is built by plain functions.
  'Nest modules only in the wiring': only('@Module or @Inject', mentions(/@(Module|Inject)\(/), (path) =>
    /^(apps\/[^/]+\/src\/wiring(\.ts|\/)|libs\/service\/src\/nats-service\.ts)/.test(path),
  ),
  'process.env only where configuration is loaded': only(
    'process.env',
    mentions(/\bprocess\.env\b/),
    (path) => path === 'libs/service/src/config/load-config.ts' || atCallersSide(path),
  ),
  'the network only through egress': only(
    'an HTTP client',
    (file) =>
      importsAny('undici')(file) || mentions(/(?<![.\w])fetch\(|globalThis\.fetch|\bhttps?\.(request|get)\(/)(file),
    (path) => path.startsWith('libs/kits/egress/') || atCallersSide(path),
  ),
  'time only from the clock': only(
    'Date.now, setTimeout or setInterval',
    mentions(/\bDate\.now\(|(?<![.\w])set(Timeout|Interval)\(|\bnew Date\(\)/),
    (path) => path === 'libs/kits/base/src/clock.ts' || atCallersSide(path),
  ),
  'ioredis only in redis-*.ts and the queue': only(
    'ioredis',
    importsAny('ioredis'),
    (path) => /\/redis-[^/]+\.ts$/.test(path) || path.startsWith('libs/queue/'),
  ),
  'a service loads its configuration first': ({ path, text }) =>
    /^apps\/[^/]+\/src\/(main|service)\.ts$/.test(path) && !path.startsWith('apps/console/')
      ? [...text.matchAll(/(?:^|\n)import\b[^;]*?from\s*'([^']+)'/g)]
          .map(([, specifier]) => specifier!)
          .filter((specifier) => !/^@toolfleet\/service$|^\.\/service\.js$|\.config\.js$/.test(specifier))
          .map((specifier) => `${path} imports ${specifier} before the configuration is checked`)
      : [],
  'ajv only in schema': only('ajv', importsAny('ajv', 'ajv-formats'), (path) =>
    path.startsWith('libs/kits/bounded-schema/'),
  ),
  'nats only in transport and client': only('nats', importsAny('nats'), (path) =>
    /^libs\/(transport|client)\//.test(path),
  ),
  // Fastify ends no hijacked reply: one place does, whatever is thrown.
  'replies are hijacked in one place': only(
    'hijack()',
    mentions(/\.hijack\(/),
    (path) => path === 'apps/gateway/src/server/connections.ts',
  ),
  // A tool writes into both; what the fleet decides by are facts of the failure and fields of the result.
  'details and metadata are shown, not read': only(
    'details or metadata of a result',
    mentions(
      /\.details(\?\.|\.|\[|\?\.\[)|\bmetadata(\?\.)?\['|\b(body|result|outcome)\??\.metadata\.|\} = \S+\.details|\} = (\w+\.)?(body|result|outcome)\.metadata/,
    ),
    (path) => RENDERINGS.has(path) || atCallersSide(path),
  ),
  'every endpoint says the shape of its messages': ({ path, text }) =>
    isSpec(path) || path in UNCHECKED
      ? []
      : endpoints(withoutComments(text))
          .filter((given) => !/\bschema: [A-Z_]+/.test(given) && !((/^'([^']+)'/.exec(given)?.[1] ?? '') in REQUESTS))
          .map((given) => `${path} serves ${given} without a schema`),
  'no export *': (file) => (/(^|\n)\s*export \* /.test(file.text) ? [`${file.path} has export *`] : []),
  // A disable must name its lint rule and say why; a blanket one could hide anything.
  'no blanket disables': (file) =>
    /(eslint|oxlint)-disable(-next-line|-line)?\s*(\*\/|\n|$)/.test(file.text)
      ? [`${file.path} disables every lint rule`]
      : [],
  'no grab-bag names': (file) =>
    /(^|[/.-])(common|utils?|helpers?|shared)(\.|\/|$)/.test(file.path) ? [`${file.path} is named after nothing`] : [],
};

/** Source files of a folder and below. */
function sources(...tops: string[]): SourceFile[] {
  const found: SourceFile[] = [];
  const walk = (dir: string) => {
    for (const name of readdirSync(dir)) {
      if (name === 'node_modules' || name === 'dist' || name.startsWith('.')) continue;
      const path = join(dir, name);
      if (statSync(path).isDirectory()) walk(path);
      else if (/\.(ts|tsx|mts|mjs)$/.test(name) && !/\.d\.m?ts$/.test(name))
        found.push({ path: relative(ROOT, path), text: readFileSync(path, 'utf8') });
    }
  };
  for (const top of tops) walk(join(ROOT, top));
  return found;
}

describe('import rules', () => {
  const files = sources('apps', 'libs', 'tools').filter(({ path }) => !path.endsWith('.mjs'));
  for (const [name, rule] of Object.entries(RULES)) {
    it(name, () => expect(files.flatMap(rule)).toEqual([]));
  }

  it('each rule catches its planted fault', () => {
    const planted: Record<string, SourceFile> = {
      'layers go down': { path: 'libs/policy/src/x.ts', text: "import { a } from '@toolfleet/engine';\n" },
      'kits stand alone': {
        path: 'libs/kits/egress/src/x.ts',
        text: "import { ToolError } from '@toolfleet/contracts';\nimport { Clock } from '@toolfleet/base';\n",
      },
      'builtin tools are plugins': {
        path: 'libs/builtin-tools/src/calculator/x.ts',
        text: "import { Workspaces } from '../files/workspaces.js';\nimport { ok } from '../builtin-tool.js';\n",
      },
      'apps stand alone': { path: 'apps/budget/src/x.ts', text: "import { a } from '@toolfleet/gateway';\n" },
      'folders of the gateway go down': {
        path: 'apps/gateway/src/http/x.ts',
        text: "import { McpEndpoint } from '../mcp/mcp-endpoint.js';\n",
      },
      'the console is a caller': {
        path: 'apps/console/src/x.ts',
        text: "import { SUBJECTS } from '@toolfleet/contracts';\n",
      },
      'Nest only in apps and thin shells': {
        path: 'libs/engine/src/x.ts',
        text: "import { Injectable } from '@nestjs/common';\n",
      },
      'Nest modules only in the wiring': {
        path: 'apps/budget/src/x.ts',
        text: '@Module({})\nexport class BudgetModule {}\n',
      },
      'process.env only where configuration is loaded': {
        path: 'apps/budget/src/x.ts',
        text: 'const a = process.env.A;\n',
      },
      'the network only through egress': {
        path: 'apps/registry/src/x.ts',
        text: "const a = await fetch('http://x');\n",
      },
      'time only from the clock': { path: 'libs/engine/src/x.ts', text: 'const a = Date.now();\n' },
      'ioredis only in redis-*.ts and the queue': {
        path: 'apps/budget/src/x.ts',
        text: "import { Redis } from 'ioredis';\n",
      },
      'a service loads its configuration first': {
        path: 'apps/budget/src/main.ts',
        text: "import { budgetComponents } from './wiring.js';\n",
      },
      'ajv only in schema': { path: 'libs/engine/src/x.ts', text: "import { Ajv } from 'ajv';\n" },
      'nats only in transport and client': { path: 'apps/gateway/src/x.ts', text: "import { connect } from 'nats';\n" },
      'replies are hijacked in one place': { path: 'apps/gateway/src/x.ts', text: 'reply.hijack();\n' },
      'details and metadata are shown, not read': {
        path: 'libs/engine/src/x.ts',
        text: 'if (failure.details?.started === false) charge = 0;\n',
      },
      'every endpoint says the shape of its messages': {
        path: 'apps/budget/src/x.ts',
        text: "@Endpoint('budget.usage')\nusage() {}\n@Endpoint('budget.other')\nlimits() {}\n",
      },
      'no export *': { path: 'libs/engine/src/index.ts', text: "export * from './a.js';\n" },
      'no blanket disables': { path: 'libs/engine/src/x.ts', text: '// oxlint-disable-next-line\n' },
      'no grab-bag names': { path: 'libs/engine/src/utils.ts', text: '' },
    };
    for (const [name, rule] of Object.entries(RULES)) {
      expect(rule(planted[name]!), name).toHaveLength(1);
    }
  });
});

/** The source file that a relative import names, without its ending; built code is its source. */
const resolved = (from: string, specifier: string) =>
  join(from, '..', specifier)
    .replace('/dist/', '/src/')
    .replace(/\.\w+$/, '');
const stem = (path: string) => path.replace(/\.\w+$/, '');

/**
 * Files in circles of imports, types included. Takes away the files that import no other file of the rest, or that no other file
 * imports, until none is left to take.
 */
function circular(files: readonly SourceFile[]): string[] {
  const imports = new Map(
    files
      .filter(({ path }) => !isSpec(path))
      .map(({ path, text }) => [
        stem(path),
        importsOf(text).flatMap((specifier) => (specifier.startsWith('.') ? resolved(path, specifier) : [])),
      ]),
  );
  for (let before = -1; before !== imports.size;) {
    before = imports.size;
    for (const [path, targets] of imports) if (!targets.some((one) => imports.has(one))) imports.delete(path);
    const imported = new Set([...imports.values()].flat());
    for (const path of imports.keys()) if (!imported.has(path)) imports.delete(path);
  }
  return [...imports.keys()];
}

/** What others import from us: users of the client and of kits, and authors of plugins. */
const isPublished = (path: string) => /^libs\/(client|builtin-tools|kits)\//.test(path);
/** The compiler writes these into the types of other packages, so they must have a name there. */
const NAMED_IN_TYPES = new Set([
  'Field',
  'PurgeCounts',
  'ResultPart',
  'Fields',
  'RecordOf',
  'WorkerSlots',
  'Column',
  'TableDefinition',
]);

/** Exported names that no other file imports; of the index of a lib, those that no other package imports. */
function unusedExports(files: readonly SourceFile[], users: readonly SourceFile[]): string[] {
  const imported = new Set<string>();
  for (const { path, text } of users) {
    for (const [, list, specifier] of text.matchAll(
      /\b(?:import|export)\s+(?:type\s+)?(?:\w+,\s*)?(\{[^}]*\}|\* as \w+)\s*from\s*['"]([^'"]+)['"]/g,
    )) {
      const target = specifier!.startsWith('.') ? resolved(path, specifier!) : (ownPackage(specifier!) ?? '');
      const names = list!.startsWith('*')
        ? ['*']
        : [...list!.matchAll(/(?<=[{,]\s*)(?:type\s+)?(\w+)/g)].map((m) => m[1]!);
      for (const name of names) imported.add(`${target} ${name}`);
    }
    for (const [, specifier] of text.matchAll(/\bimport\(\s*['"](\.[^'"]+)['"]/g))
      imported.add(`${resolved(path, specifier!)} *`);
  }
  return files
    .filter(({ path }) => /^(apps|libs)\//.test(path) && !isSpec(path) && !isPublished(path))
    .flatMap(({ path, text }) => {
      const lib = libOf(path);
      const own = [
        ...text.matchAll(/^export (?:async |abstract )*(?:const|let|function\*?|class|interface|type) (\w+)/gm),
      ];
      const passedOn = [...text.matchAll(/^export (?:type )?\{([^}]*)\}/gm)].flatMap(([, list]) => [
        ...list!.matchAll(/(?:\w+ as |type )?(\w+)\s*(?:,|$)/g),
      ]);
      const isUsed = (name: string) =>
        [`${stem(path)} ${name}`, `${stem(path)} *`, `${lib} ${name}`].some((use) => imported.has(use));
      return [...own, ...passedOn].flatMap(([, name]) =>
        isUsed(name!) || NAMED_IN_TYPES.has(name!) ? [] : [`${path} exports ${name}`],
      );
    });
}

/** Types of production code whose name another package declares, too: a reader who looks for one finds the other. */
function typesDeclaredTwice(files: readonly SourceFile[]): string[] {
  const declared = Map.groupBy(
    files
      .filter(({ path }) => isProduction(path))
      .flatMap(({ path, text }) =>
        [...withoutComments(text).matchAll(/^(?:export )?(?:abstract )?(?:type|interface|class) (\w+)/gm)].map(
          ([, name]) => ({ name: name!, path }),
        ),
      ),
    ({ name }) => name,
  );
  return [...declared]
    .filter(([, places]) => new Set(places.map(({ path }) => packageOf(path))).size > 1)
    .map(([name, places]) => `${name} in ${places.map(({ path }) => path).join(' and ')}`);
}

/** Files of one folder whose names differ by a dot, a dash or an s: a reader who looks for one opens the other. */
function nearlyEqualNames(files: readonly SourceFile[]): string[] {
  // The commands of fleetctl have such names: `call` and `calls`.
  const named = files.filter(({ path }) => isProduction(path) && !path.startsWith('tools/fleetctl/src/commands/'));
  const near = (path: string) =>
    join(
      dirname(path),
      basename(path)
        .replace(/\.\w+$/, '')
        .replace(/[.-]|s$/g, ''),
    );
  return [...Map.groupBy(named, ({ path }) => near(path)).values()]
    .filter((alike) => alike.length > 1)
    .map((alike) => alike.map(({ path }) => path).join(' and '));
}

describe('files and their exports', () => {
  const files = sources('apps', 'libs', 'tools', 'test');

  it('no circle of imports, types included', () => {
    expect(circular(files)).toEqual([]);
    const planted = [
      { path: 'libs/a/src/a.ts', text: "import type { B } from './b.js';\n" },
      { path: 'libs/a/src/b.ts', text: "import type { A } from './a.js';\n" },
      { path: 'libs/a/src/c.ts', text: "import { a } from './a.js';\n" },
    ];
    expect(circular(planted)).toEqual(['libs/a/src/a', 'libs/a/src/b']);
  });

  it('no type name in two packages', () => {
    expect(typesDeclaredTwice(files)).toEqual([]);
    const planted = ['libs/a/src/a.ts', 'libs/b/src/b.ts'].map((path) => ({ path, text: 'interface Twice {}\n' }));
    expect(typesDeclaredTwice(planted)).toEqual(['Twice in libs/a/src/a.ts and libs/b/src/b.ts']);
  });

  it('no names of files in a folder that differ by a dot, a dash or an s', () => {
    expect(nearlyEqualNames(files)).toEqual([]);
    const planted = ['a/web-hook.ts', 'a/webhooks.tsx', 'b/webhook.ts'].map((path) => ({
      path: `libs/${path}`,
      text: '',
    }));
    expect(nearlyEqualNames(planted)).toEqual(['libs/a/web-hook.ts and libs/a/webhooks.tsx']);
  });

  it('no export without a user', () => {
    expect(unusedExports(files, files)).toEqual([]);
    const planted = [
      { path: 'libs/a/src/a.ts', text: 'export const used = 1;\nexport interface Unused {}\n' },
      { path: 'libs/a/src/index.ts', text: "export { used, type Unused } from './a.js';\n" },
      { path: 'apps/b/src/b.ts', text: "import { used } from '@toolfleet/a';\n" },
    ];
    expect(unusedExports(planted, planted)).toEqual(['libs/a/src/index.ts exports Unused']);
  });
});

/**
 * What files of a project read by path outside of it, and the inputs of its `test` do not name: these are the sources of the projects that
 * it depends on, and what is listed in nx.json and as `sourcesElsewhere` of the project.
 */
function unnamedInputs(
  files: readonly SourceFile[],
  inputsOf: (project: string) => readonly string[],
  dependsOn: (project: string, on: string) => boolean,
): string[] {
  return files.flatMap(({ path, text }) => {
    const project = projectOf(path);
    if (project === undefined) return [];
    const named = inputsOf(project).flatMap((input) => /^\{workspaceRoot\}\/([^*]+)/.exec(input)?.[1] ?? []);
    return [...text.matchAll(/['"]((?:\.\.\/)+(?:test|tools|deploy|docs|apps|libs)\/[^'"]*)['"]/g)]
      .map(([, specifier]) => join(path, '..', specifier!).replace(/\.js$/, '.ts'))
      .filter((target) => !named.some((start) => `${target}/`.startsWith(start)))
      .filter((target) => !dependsOn(project, projectOf(target) ?? ''))
      .map((target) => `${path} reads ${target}`);
  });
}

describe('what users run on their own Node', () => {
  it('is compiled with the types of the oldest one', () => {
    const own = (name: string) => JSON.parse(readFileSync(join(ROOT, name, 'tsconfig.json'), 'utf8')) as Project;
    interface Project {
      extends: string;
      references?: { path: string }[];
    }
    const published = new Set(['libs/client', 'tools/fleetctl']);
    for (const name of published) for (const { path } of own(name).references ?? []) published.add(join(name, path));
    expect(published.size).toBeGreaterThan(2);
    for (const name of published) expect(own(name).extends, name).toMatch(/^(\.\.\/)+tsconfig\.node20\.json$/);
  });
});

describe('the cache of nx', () => {
  it('knows what the specs of a project read outside of it', () => {
    const { targetDefaults } = JSON.parse(readFileSync(join(ROOT, 'nx.json'), 'utf8')) as {
      targetDefaults: { test: { inputs: string[] } };
    };
    const manifest = (project: string) => readFileSync(join(ROOT, project, 'package.json'), 'utf8');
    const inputsOf = (project: string) => {
      const { nx } = JSON.parse(manifest(project)) as { nx: { namedInputs?: { sourcesElsewhere: string[] } } };
      return [...targetDefaults.test.inputs, ...(nx.namedInputs?.sourcesElsewhere ?? [])];
    };
    const dependsOn = (project: string, on: string) =>
      manifest(project).includes(`"@toolfleet/${on.split('/').at(-1)}"`);
    expect(unnamedInputs(sources('apps', 'libs'), inputsOf, dependsOn)).toEqual([]);
    const planted = [{ path: 'libs/a/src/a.spec.ts', text: "import { b } from '../../../test/doubles/b.js';\n" }];
    expect(
      unnamedInputs(
        planted,
        () => ['default'],
        () => false,
      ),
    ).toEqual(['libs/a/src/a.spec.ts reads test/doubles/b.ts']);
  });
});

interface GraphNode {
  data: { tags?: string[]; root: string };
}
interface Graph {
  graph: { nodes: Record<string, GraphNode>; dependencies: Record<string, { target: string; type: string }[]> };
}

describe('nx graph', () => {
  let graph: Graph['graph'];

  beforeAll(() => {
    const dir = mkdtempSync(join(tmpdir(), 'toolfleet-graph-'));
    const file = join(dir, 'graph.json');
    const env = { ...process.env, NX_DAEMON: 'false', NX_NO_CLOUD: 'true' };
    execFileSync(process.execPath, [join(ROOT, 'node_modules/.bin/nx'), 'graph', `--file=${file}`], {
      cwd: ROOT,
      env,
      stdio: 'pipe',
    });
    graph = (JSON.parse(readFileSync(file, 'utf8')) as Graph).graph;
    rmSync(dir, { recursive: true });
  });

  const tagOf = (name: string) => graph.nodes[name]?.data.tags?.find((tag) => tag.startsWith('layer:'));

  it('every project carries a layer tag that matches its folder', () => {
    for (const [name, node] of Object.entries(graph.nodes)) {
      const [top, ...folders] = node.data.root.split('/') as [string, ...string[]];
      const folder = folders.at(-1)!;
      const expected =
        top === 'apps'
          ? `layer:${folder === 'standalone' ? 8 : 7}`
          : top === 'tools'
            ? 'layer:tools'
            : folder === 'testing'
              ? 'layer:testing'
              : folder in KITS
                ? 'layer:kit'
                : `layer:${LAYERS[folder]}`;
      if (top === 'libs' || top === 'apps' || top === 'tools') expect(tagOf(name), name).toBe(expected);
    }
  });

  it('dependencies go down only', () => {
    const wrong: string[] = [];
    for (const [source, targets] of Object.entries(graph.dependencies)) {
      const from = tagOf(source);
      if (!from || from === 'layer:testing') continue;
      for (const { target } of targets) {
        const to = tagOf(target);
        // A dev dependency on testing is for specs; the source rule above sees any other use.
        // The source rules see what kits import, and who imports them.
        if (!to || to === 'layer:testing' || to === 'layer:kit') continue;
        const allowed = from === 'layer:tools' ? /^layer:[0-6]$/.test(to) : /^layer:\d$/.test(to) && to < from;
        const clientTypes = source.endsWith('/client') && target.endsWith('/contracts');
        if (!allowed && !clientTypes) wrong.push(`${source} → ${target}`);
      }
    }
    expect(wrong).toEqual([]);
  });
});

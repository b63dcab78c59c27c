/**
 * `npm run test:clients [-- client …]`: runs agent frameworks, their agents of `examples/`, MCP clients and NATS clients against a fleet, and
 * writes docs/clients.md from the observations. Words select clients by name; the page is then unchanged. Exits with 1 when a cell failed.
 */
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { RUNS } from '../../test/clients/checks.mjs';
import { runExample } from '../../test/clients/examples.mjs';
import { runClient } from '../../test/clients/matrix.mjs';
import { runNatsSnippets } from '../../test/clients/nats-snippets.mjs';
import { writePage } from '../../test/clients/page.mjs';
import { CLIENTS, isInstalled } from '../../test/clients/recipes.mjs';
import { freePort, onInterrupt } from './child-process.mjs';
import { startFleet } from './fleet.mjs';
import { installLocked } from './install-locked.mjs';
import { complain, say, step } from './steps.mjs';

const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const FOLDER = join(ROOT, 'test/clients');
const LISTED_WITHIN_MS = 60_000;
const POLL_MS = 200;
const print = (line) => process.stdout.write(`${line}\n`);

let stop = async () => {};
let ending;
const end = (code) => (ending ??= stop().finally(() => process.exit(code)));
onInterrupt(() => end(1));

try {
  const words = process.argv.slice(2);
  const selected = Object.keys(CLIENTS).filter((name) => words.length === 0 || words.includes(name));
  if (selected.length < words.length) throw new Error(`no such client; known: ${Object.keys(CLIENTS).join(', ')}`);
  if (selected.some((client) => !CLIENTS[client].python))
    await installLocked(FOLDER, 'installing the clients as locked');
  const fleet = await openFleet();
  const rows = [];
  for (const client of selected)
    if (isInstalled(client)) rows.push(await show(await runClient(client, fleet)));
    else print(`\n${client}: skipped, not installed in its version; its row of the page stays`);
  const examples = [];
  for (const client of selected) {
    const run = await runExample(client, fleet, `http://127.0.0.1:${process.env.SAMPLE_MODEL_PORT}/v1`);
    if (!run) continue;
    examples.push(run);
    print(`\nexamples/${client}: ${run.outcome}, ${run.evidence}`);
  }
  const natsRows = words.length === 0 ? await runNatsSnippets(fleet) : [];
  for (const { client, version, outcome, evidence } of natsRows) print(`${client} ${version}: ${outcome}, ${evidence}`);
  if (words.length === 0) writePage(rows, natsRows);
  const cells = rows.flatMap((row) => Object.values(row.cells));
  const outcomes = [...cells, ...examples, ...natsRows].map(({ outcome }) => outcome);
  const count = (name) => outcomes.filter((outcome) => outcome === name).length;
  const counts = ['passed', 'not offered', 'skipped', 'failed'].map((name) => `${count(name)} ${name}`).join(', ');
  await stop();
  print(`\n${counts}`);
  await end(count('failed') === 0 ? 0 : 1);
} catch (error) {
  complain(error.message);
  await end(1);
}

function show(row) {
  print(`\n${row.client} (${row.revision})`);
  for (const [column, { outcome, evidence }] of Object.entries(row.cells))
    print(`  ${column}: ${outcome}, ${evidence}`);
  return row;
}

/** A fleet with the samples and a tool that draws. */
async function openFleet() {
  const stateDir = mkdtempSync(join(tmpdir(), 'toolfleet-clients-'));
  const plugins = join(stateDir, 'plugins');
  mkdirSync(plugins, { mode: 0o700 });
  cpSync(join(FOLDER, 'plugins'), plugins, { recursive: true });
  const config = join(stateDir, 'clients.yaml');
  const [apiPort, mcpPort, modelPort] = [await freePort(), await freePort(), await freePort()];
  const samples = { api: `http://127.0.0.1:${apiPort}`, mcp: `http://127.0.0.1:${mcpPort}` };
  writeFileSync(config, configuration(samples));
  Object.assign(process.env, {
    GATEWAY_PORT: String(await freePort()),
    TOOLFLEET_CONFIG: config,
    SAMPLE_API_PORT: String(apiPort),
    SAMPLE_MCP_PORT: String(mcpPort),
    SAMPLE_MODEL_PORT: String(modelPort),
    BUILTIN_PLUGINS_DIR: plugins,
  });
  const cleanUp = () => rmSync(stateDir, { recursive: true, force: true, maxRetries: 3 });
  const started = await startFleet({
    root: ROOT,
    stateDir,
    say,
    step,
    onGivenUp: (error) => say(error.message),
    onStop: (stopFleet) => (stop = async () => (await stopFleet(), cleanUp())),
  });
  await step('waiting for the tools', () => untilListed(started.fleet));
  return started.fleet;
}

/** Sources announce their tools after they are ready. */
async function untilListed({ url, api_key: key }) {
  const steps = RUNS.flatMap((run) => run.steps).map(({ name }) => name);
  const until = Date.now() + LISTED_WITHIN_MS;
  for (;;) {
    const response = await fetch(`${url}/tools/list`, { headers: { authorization: `Bearer ${key}` } });
    const listed = await response.json();
    const missing = steps.filter((name) => !listed.includes(name));
    if (missing.length === 0) return;
    if (Date.now() > until) throw new Error(`not listed: ${missing.join(', ')}`);
    await sleep(POLL_MS);
  }
}

/** JSON is YAML. The sample server is trusted, so that a cancelled call of it has a known outcome. */
function configuration({ api, mcp }) {
  return JSON.stringify({
    openapi_tools: {
      parcels: {
        enabled: true,
        spec_url: `${api}/openapi.json`,
        base_url: api,
        category: 'logistics',
        name_prefix: 'parcels_',
        auth_type: 'none',
      },
    },
    mcp_servers: { sample: { url: `${mcp}/mcp`, trusted: true } },
  });
}

import type { FleetDeclaration } from '@toolfleet/client';
import { CliError, EXIT } from '../cli-error.js';
import type { Command, CommandContext } from '../command.js';
import { hasSwitch, optionValue } from '../command-line.js';
import { readKinds } from '../declared/kinds.js';
import { makePlan, toJson, type Step } from '../declared/plan.js';
import { readDeclaredFleet } from '../declared/read-folder.js';
import { Refused, type Gateway } from '../gateway.js';
import { jsonText, paint, plain, type Terminal } from '../terminal.js';

/** A declaration is reserved for 10 minutes; no change begins in the last one. */
const APPLYING_MS = 9 * 60_000;
const RELEASE_MS = 10_000;
const SIGNS = {
  add: ['green', '+'],
  change: ['yellow', '~'],
  remove: ['red', '-'],
  release: ['dim', '-'],
  keep: ['dim', '='],
} as const;

/** `fleetctl apply`: applies a folder of files to the fleet. */
export const apply: Command = {
  usage: 'apply -f <folder|file> [--diff] [--prune]',
  options: [
    ['-f, --file <path>', 'A file, or a folder with its folders: *.yaml, *.yml, *.rego'],
    ['--diff', 'Change nothing: show what would change; exits with 1 when anything would'],
    ['--prune', 'Also remove what the declaration owned before and no longer has'],
  ],
  mostWords: 0,
  known: ['file', 'diff', 'prune'],
  async run(context) {
    const { line, environment, terminal, json } = context;
    const path = optionValue(line, 'file');
    if (path === undefined) throw new CliError(`usage: fleetctl ${apply.usage}`, EXIT.usage);
    const { files, policies } = await readDeclaredFleet(path);
    const gateway = context.gateway();
    const [isDiff, prunes] = [hasSwitch(line, 'diff'), hasSwitch(line, 'prune')];
    const [{ tenant_id: tenant }, all] = await Promise.all([
      gateway.request('GET /api/v1/me'),
      gateway.request('GET /api/v1/declarations'),
    ]);
    const others = all.filter(({ name }) => name !== files.declaration);
    const own = all.find(({ name }) => name === files.declaration) ?? {
      name: files.declaration,
      revision: 0,
      owned: {},
    };
    const remark = (text: string) => terminal.error(`${plain(text)}\n`);
    const kinds = await readKinds({ gateway, remark, env: environment.env, tenant, files, owned: own.owned, isDiff });
    const steps = await makePlan(kinds, own.owned, others);
    const wanted = steps.filter(({ action }) => prunes || (action !== 'remove' && action !== 'release'));
    const changes = wanted.filter(({ action, obstacle }) => action !== 'keep' || obstacle !== undefined);
    const failures = isDiff ? [] : await applySteps(context, gateway, own, wanted, steps);
    if (json)
      terminal.out(`${jsonText({ declaration: own.name, changes: changes.map(toJson), failures, policies }, 2)}\n`);
    else report(terminal, { steps, wanted, changes, isDiff, policies });
    for (const failure of failures) terminal.error(`fleetctl: ${failure}\n`);
    return failures.length > 0 || (isDiff && changes.length > 0) ? EXIT.failed : EXIT.ok;
  },
};

/**
 * Reserves the declaration with everything that it may own from now on, changes resources, and releases it with its actual resources. When this
 * process dies in between, the next apply still knows what there may be.
 * @returns what failed; other steps were done
 */
async function applySteps(
  { terminal, json }: CommandContext,
  gateway: Gateway,
  own: Pick<FleetDeclaration, 'name' | 'revision' | 'owned'>,
  wanted: readonly Step[],
  steps: readonly Step[],
): Promise<string[]> {
  const failures = wanted.flatMap(({ path, obstacle }) => (obstacle === undefined ? [] : [`${path} ${obstacle}`]));
  const possible = wanted.filter(({ obstacle }) => obstacle === undefined);
  const owned = Object.fromEntries(
    steps.filter(({ id }) => Object.hasOwn(own.owned, id)).map(({ id }) => [id, own.owned[id]!]),
  );
  const claimed = { ...Object.fromEntries(possible.map(({ id }) => [id, ''])), ...owned };
  const isSettled =
    possible.every(({ action }) => action === 'keep') &&
    Object.keys(claimed).toSorted().join() === Object.keys(own.owned).toSorted().join();
  if (isSettled) return failures;
  const put = (revision: number, applying: boolean, signal?: AbortSignal) =>
    gateway.request('PUT /api/v1/declarations/{name}', {
      path: { name: own.name },
      body: { revision, owned: claimed, applying },
      ...(signal && { signal }),
    });
  const { revision } = await put(own.revision, true);
  const until = performance.now() + APPLYING_MS;
  try {
    for (const step of possible) {
      if (performance.now() > until)
        throw new CliError(`Applying took more than ${APPLYING_MS / 60_000} minutes; run it again`);
      try {
        const note = await step.run();
        if (note === undefined) delete claimed[step.id];
        else claimed[step.id] = note;
        if (!json && step.action !== 'keep') showStep(terminal, step);
      } catch (error) {
        if (!(error instanceof CliError) || error.exitCode === EXIT.connection || error.exitCode === INTERRUPTED)
          throw error;
        // A refused resource was not made; after any other failure it may be there.
        if (step.action === 'add' && error instanceof Refused && error.status < 500) delete claimed[step.id];
        failures.push(`${step.path}: ${error.message}`);
      }
    }
  } finally {
    // Ctrl-C must not leave it reserved.
    await put(revision, false, AbortSignal.timeout(RELEASE_MS));
  }
  return failures;
}

/** Exit code of Ctrl-C. */
const INTERRUPTED = 130;

function showStep(terminal: Terminal, { action, path, differences }: Step): void {
  const [colour, sign] = SIGNS[action];
  terminal.out(
    `${paint(terminal, colour, `${sign} ${plain(path)}`)}${action === 'release' ? ' (no longer owned; its rights stay)' : ''}\n`,
  );
  if (action === 'change') for (const difference of differences) terminal.out(`    ${plain(difference)}\n`);
}

interface Outcome {
  steps: readonly Step[];
  wanted: readonly Step[];
  changes: readonly Step[];
  isDiff: boolean;
  policies: number;
}

function report(terminal: Terminal, { steps, wanted, changes, isDiff, policies }: Outcome): void {
  if (isDiff)
    for (const step of changes) {
      showStep(terminal, step);
      if (step.obstacle !== undefined) terminal.out(`    ${plain(step.obstacle)}\n`);
    }
  for (const { path } of steps.filter((step) => !wanted.includes(step)))
    terminal.error(`${plain(path)} is no longer declared; --prune removes it from the fleet\n`);
  const checked = policies > 0 ? `; ${policies} ${policies === 1 ? 'policy' : 'policies'} checked` : '';
  const of = `${steps.length} declared or owned`;
  terminal.out(
    changes.length === 0
      ? `No changes: ${of}${checked}\n`
      : `${changes.length} ${isDiff ? 'to change' : 'changed or refused'} of ${of}${checked}\n`,
  );
}

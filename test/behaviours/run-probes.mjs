/** Runs probes against a fleet and prints them as a table. */
import { matches, relevant, show } from './expectation.mjs';

const PROBE_TIMEOUT_MS = 60_000;
const WIDTHS = [22, 52, 40, 40];

/**
 * One promise of the fleet and the way to see whether it is kept.
 * @typedef {object} Probe
 * @property {string} name what is looked at
 * @property {string} reliance what users rely on
 * @property {'own' | 'nats'} [needs] a fleet that was started for the probes, or NATS; absent: only HTTP
 * @property {(fleet: import('./fleet.mjs').FleetUnderTest) => Promise<unknown>} see what the fleet does
 * @property {unknown} expected see `matches`
 *
 * @typedef {{ group: string, probes: readonly Probe[] }} ProbeGroup
 */

/** @returns {Promise<{ passed: number, failed: number, skipped: number }>} */
export async function runProbes(groups, fleet, print) {
  const totals = { passed: 0, failed: 0, skipped: 0 };
  const failures = [];
  print(row(['group', 'probe', 'expected', 'seen'], 'ok'));
  for (const { group, probes } of groups) {
    for (const probe of probes) {
      const lacking = lacks(probe, fleet);
      if (lacking) {
        totals.skipped += 1;
        print(row([group, probe.name, show(probe.expected), lacking], 'skipped'));
        continue;
      }
      const { ok, seen } = await look(probe, fleet);
      totals[ok ? 'passed' : 'failed'] += 1;
      if (!ok) failures.push({ group, probe, seen });
      print(row([group, probe.name, show(probe.expected), seen], ok ? 'yes' : 'NO'));
    }
  }
  for (const { group, probe, seen } of failures) {
    print(`\nFAILED ${group}: ${probe.name}\n  relied on: ${probe.reliance}`);
    print(`  expected:  ${show(probe.expected)}\n  seen:      ${seen}`);
  }
  return totals;
}

function lacks({ needs }, fleet) {
  if (needs === 'own' && !fleet.isOwn) return 'needs its own fleet';
  if (needs === 'nats' && !fleet.nats_url) return 'needs FLEET_NATS_URL';
  return undefined;
}

async function look({ see, expected }, fleet) {
  let timer;
  const timeout = new Promise((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${PROBE_TIMEOUT_MS / 1_000} s`)), PROBE_TIMEOUT_MS);
  });
  try {
    const value = await Promise.race([see(fleet), timeout]);
    return { ok: matches(expected, value), seen: show(relevant(expected, value)) };
  } catch (error) {
    return { ok: false, seen: `error: ${error.message}` };
  } finally {
    clearTimeout(timer);
  }
}

function row(cells, last) {
  return [...cells.map((cell, index) => fit(cell, WIDTHS[index])), last].join('  ');
}

function fit(text, width) {
  const line = text.replace(/\s+/g, ' ');
  return line.length > width ? `${line.slice(0, width - 1)}…` : line.padEnd(width);
}

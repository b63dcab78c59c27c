/**
 * `node tools/deploy/lint.mjs <dev|prod> <rendered.yaml>`: the rules of this repository for what `kubectl kustomize`
 * renders. Ids are stable; docs/operations/install.md lists them. Prints one line per fault and ends with 1 when there is one.
 */
import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import yaml from 'js-yaml';
import { ACCESS_RULES } from './lint/access-rules.mjs';
import { LIFE_RULES } from './lint/life-rules.mjs';
import { modelOf } from './lint/model.mjs';
import { POD_RULES } from './lint/pod-rules.mjs';
import { SCALE_RULES } from './lint/scale-rules.mjs';
import { WATCH_RULES } from './lint/watch-rules.mjs';
import { WIRING_RULES } from './lint/wiring-rules.mjs';

const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
export const RULES = { ...POD_RULES, ...LIFE_RULES, ...WIRING_RULES, ...SCALE_RULES, ...WATCH_RULES, ...ACCESS_RULES };

/**
 * @param {object[]} objects Kubernetes objects
 * @param {{overlay: 'dev' | 'prod', root?: string, only?: string[], without?: string[]}} options
 * @returns {{rule: string, fault: string}[]}
 */
export function lint(objects, { overlay, root = ROOT, without = [] }) {
  const model = modelOf(objects, { root, overlay });
  return Object.entries(RULES)
    .filter(([rule]) => !without.includes(rule))
    .flatMap(([rule, check]) => check(model).map((fault) => ({ rule, fault })))
    .toSorted((a, b) => a.rule.localeCompare(b.rule));
}

/** Objects of a YAML stream. */
export const objectsOf = (text) => yaml.loadAll(text).filter((object) => object !== null && object !== undefined);

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [overlay, file] = process.argv.slice(2);
  if (!['dev', 'prod'].includes(overlay) || !file) {
    console.error('usage: node tools/deploy/lint.mjs <dev|prod> <rendered.yaml>');
    process.exit(2);
  }
  const faults = lint(objectsOf(readFileSync(file, 'utf8')), { overlay });
  for (const { rule, fault } of faults) console.log(`${rule} ${fault}`);
  process.exit(faults.length === 0 ? 0 : 1);
}

/** The settings of an overlay: what differs from one fleet to another, in one file. */
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import yaml from 'js-yaml';

const K8S = join(dirname(dirname(dirname(fileURLToPath(import.meta.url)))), 'deploy/k8s');
/** Names and addresses that are reserved for documentation (RFC 2606, RFC 5737). */
const EXAMPLE = /\bexample\.(com|org|net)\b|\b192\.0\.2\./;

/** The folder of the production overlay of this repository. */
export const PRODUCTION = join(K8S, 'overlays/prod');

/** The settings of the overlay in a folder. */
export const readSettings = (folder) => yaml.load(readFileSync(join(folder, 'settings.yaml'), 'utf8')).spec;

/** The object that an overlay has as settings.yaml. */
export const settingsObject = (spec) => ({
  apiVersion: 'toolfleet.dev/v1',
  kind: 'Settings',
  metadata: { name: 'settings', annotations: { 'config.kubernetes.io/local-config': 'true' } },
  spec,
});

/** JSON Schema of `spec`. */
export const settingsSchema = () => JSON.parse(readFileSync(join(K8S, 'settings.schema.json'), 'utf8'));

/**
 * The settings one by one, as far down as the schema names fields; `classes` (see classes.mjs) is one.
 * @returns {{ path: string[], value: unknown, schema: object }[]}
 */
export function settingsIn(spec, schema = settingsSchema(), path = []) {
  return Object.entries(schema.properties).flatMap(([key, of]) =>
    of.properties && key !== 'classes'
      ? settingsIn(spec[key], of, [...path, key])
      : [{ path: [...path, key], value: spec[key], schema: of }],
  );
}

/** Names of settings that still have the value of an example. */
export function exampleSettings(folder = PRODUCTION) {
  return settingsIn(readSettings(folder))
    .filter(({ value }) => EXAMPLE.test(JSON.stringify(value)))
    .map(({ path }) => path.join('.'));
}

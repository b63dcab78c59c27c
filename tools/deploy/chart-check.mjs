/** Whether the Helm chart renders the objects of the overlays with the same settings: compared object by object, without a cluster. */
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { chartFiles, renderOverlay, valuesOf } from './chart.mjs';
import { renderTemplate } from './chart-template.mjs';
import { objectsOf } from './lint.mjs';
import { PRODUCTION, readSettings, settingsIn, settingsObject } from './settings.mjs';
import { componentsOf, copyOverlay, overlayList, VARIANTS } from './variants.mjs';

const DIGEST = `sha256:${'1'.repeat(64)}`;

/** The objects of a chart. @param {Record<string, string>} files of the chart */
export function renderChart(files, values) {
  const scope = { Values: values, Release: { Namespace: 'toolfleet', Service: 'kustomize' } };
  return Object.entries(files)
    .filter(([path]) => path.startsWith('templates/'))
    .flatMap(([path, text]) => {
      try {
        return objectsOf(renderTemplate(text, scope));
      } catch (error) {
        throw new Error(`${path}: ${error.message}`, { cause: error });
      }
    });
}

/** Every setting with another value of its type, so that each of them is seen to arrive where the overlay has it. */
function otherSettings() {
  const spec = {};
  for (const { path, value } of settingsIn(readSettings(PRODUCTION))) {
    const parent = path.slice(0, -1).reduce((part, key) => (part[key] ??= {}), spec);
    const isMap = typeof value === 'object' && !Array.isArray(value);
    parent[path.at(-1)] = isMap
      ? { ...value, team: 'tools' }
      : Array.isArray(value)
        ? [...value, ...value]
        : `${value}x`;
  }
  return spec;
}

/**
 * Differences between the chart and the overlays, as lines.
 * @param {string} out folder for the renderings
 */
export function chartFaults(out) {
  const files = chartFiles();
  const { images } = overlayList('prod');
  const spec = readSettings(PRODUCTION);
  const cases = [
    ...Object.keys(VARIANTS)
      .filter((name) => VARIANTS[name].overlay === 'prod')
      .map((name) => ({ name, components: componentsOf(name), images, spec })),
    {
      name: 'prod-other-settings',
      components: componentsOf('prod'),
      images: images.map((image) => ({ ...image, digest: DIGEST })),
      spec: otherSettings(),
    },
  ];
  return cases.flatMap(({ name, components, ...rest }) => {
    const folder = copyOverlay('prod', join(out, 'chart', name), components, {
      'settings.yaml': settingsObject(rest.spec),
      'kustomization.yaml': { images: rest.images },
    });
    const values = valuesOf({ components, ...rest });
    values.features.namespace = true;
    return differences(comparable(renderOverlay(folder)), comparable(renderChart(files, values))).map(
      (line) => `${name}: ${line}`,
    );
  });
}

/** Objects by kind and name, without what differs on purpose: hashes in names of ConfigMaps, and the checksum in their place. */
function comparable(objects) {
  let text = JSON.stringify(objects);
  for (const { kind, metadata } of objects) {
    const plain = metadata.name.replace(/-[a-z0-9]{10}$/, '');
    if (kind === 'ConfigMap' && plain !== metadata.name)
      text = text.replaceAll(JSON.stringify(metadata.name), JSON.stringify(plain));
  }
  const found = JSON.parse(text);
  for (const { kind, spec } of found) if (kind === 'Deployment') delete spec.template.metadata.annotations;
  return new Map(found.map((object) => [`${object.kind} ${object.metadata.name}`, object]));
}

function differences(wanted, got) {
  return [...new Set([...wanted.keys(), ...got.keys()])].flatMap((id) => {
    if (!got.has(id)) return [`${id} is missing in the chart`];
    if (!wanted.has(id)) return [`${id} is only in the chart`];
    return firstDifference(wanted.get(id), got.get(id), id) ?? [];
  });
}

function firstDifference(wanted, got, path) {
  if (isDeepStrictEqual(wanted, got)) return undefined;
  if (wanted === null || got === null || typeof wanted !== 'object' || typeof got !== 'object')
    return `${path}: ${JSON.stringify(wanted)} in the overlay, ${JSON.stringify(got)} in the chart`;
  for (const key of new Set([...Object.keys(wanted), ...Object.keys(got)])) {
    const found = firstDifference(wanted[key], got[key], `${path}/${key}`);
    if (found !== undefined) return found;
  }
  return `${path}: another order`;
}

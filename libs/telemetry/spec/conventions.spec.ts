/**
 * Compares the table of names (src/conventions.ts) with the model files of the OpenTelemetry conventions: `npm run check:conventions --
 * FOLDER` gives a folder with checkouts of both repositories. The models are in the formats of the pinned versions: `definition/2` for
 * GenAI and MCP, and groups for most of the other areas.
 */
import { existsSync, globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { load } from 'js-yaml';
import { describe, expect, it } from 'vitest';
import { ATTR, SIGNALS, type AttributeKey, type Signal } from '../src/conventions.js';
import { ATTRIBUTE_TYPES, CONVENTIONS } from './convention-models.js';

const FOLDER = process.env.OTEL_CONVENTIONS ?? '';

interface ModelAttribute {
  /** Of a definition. */
  key?: string;
  id?: string;
  type?: unknown;
  /** Of a use. */
  ref?: string;
  ref_group?: string;
  requirement_level?: string | Record<string, string>;
}
interface ModelSignal {
  id?: string;
  type?: string;
  name?: unknown;
  kind?: string;
  instrument?: string;
  unit?: string;
  attributes?: ModelAttribute[];
}
interface ModelFile {
  attributes?: ModelAttribute[];
  attribute_groups?: ModelSignal[];
  groups?: ModelSignal[];
  spans?: ModelSignal[];
  metrics?: ModelSignal[];
}

const paths = existsSync(FOLDER)
  ? globSync('*/model/**/*.yaml', { cwd: FOLDER }).filter((path) => !path.includes('/deprecated/'))
  : [];
const files = paths.map((path) => load(readFileSync(join(FOLDER, path), 'utf8')) as ModelFile);
const groups = files.flatMap((file) => file.attribute_groups ?? []);
const definitions = new Map(
  files
    .flatMap((file) => [...(file.attributes ?? []), ...(file.groups ?? []).flatMap((group) => group.attributes ?? [])])
    .map((attribute) => [attribute.key ?? attribute.id, attribute.type]),
);
const signals = new Map(
  files.flatMap((file) => [
    ...(file.spans ?? []).map((span) => [span.type, span] as const),
    ...(file.metrics ?? []).map((metric) => [metric.name, metric] as const),
  ]),
);

/** The attributes of a signal with their levels, its groups' first, so that its own override them. */
function levelsOf({ attributes = [] }: ModelSignal): Map<string, string> {
  const levels = new Map<string, string>();
  for (const { ref, ref_group: group, requirement_level: level } of attributes) {
    if (group !== undefined) {
      const found = groups.find(({ id }) => id === group);
      if (!found) throw new Error(`no group ${group}`);
      for (const [name, inherited] of levelsOf(found)) levels.set(name, inherited);
    } else if (ref !== undefined) {
      const own = typeof level === 'object' ? Object.keys(level)[0] : level;
      levels.set(ref, own ?? levels.get(ref) ?? 'recommended');
    }
  }
  return levels;
}

const modelType = (type: unknown): unknown => (typeof type === 'object' ? 'enum' : type);

it('has the models', () => {
  const pinned = Object.keys(CONVENTIONS.files);
  const missing = pinned.filter((name) => !paths.some((path) => path.endsWith(`/${name}`)));
  expect(missing, 'run npm run check:conventions, which sets OTEL_CONVENTIONS').toEqual([]);
});

describe('the table', () => {
  it.each(Object.entries(ATTR))('has %s as the models do', (key, name) => {
    expect(modelType(definitions.get(name))).toBe(ATTRIBUTE_TYPES[key as AttributeKey]);
  });

  it.each(Object.entries<Signal>(SIGNALS))('has %s as the models do', (name, signal) => {
    const model = signals.get(name);
    expect(model).toBeDefined();
    expect(model!.kind ?? model!.instrument).toBe(signal.kind);
    if (signal.kind === 'histogram') expect(model!.unit).toBe('s');
    const levels = levelsOf(model!);
    const listed = Object.entries(signal.attributes).filter(([, level]) => level !== 'additional');
    expect(listed).toEqual(listed.map(([key]) => [key, levels.get(ATTR[key as AttributeKey])]));
    const additional = Object.keys(signal.attributes).filter((key) => !listed.some(([known]) => known === key));
    expect(additional.filter((key) => levels.has(ATTR[key as AttributeKey]))).toEqual([]);
    const required = [...levels].filter(([, level]) => level === 'required').map(([attribute]) => attribute);
    expect(required.filter((attribute) => !listed.some(([key]) => ATTR[key as AttributeKey] === attribute))).toEqual(
      [],
    );
  });
});

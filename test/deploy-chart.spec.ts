/** The Helm chart: its values, and the templates. `npm run check:deploy` compares what it renders with the overlays. */
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { Json, JsonObject } from '@toolfleet/contracts';
import { compileSchema } from '@toolfleet/schema';
import yaml from 'js-yaml';
import { describe, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const load = (path: string) => import(pathToFileURL(join(ROOT, path)).href) as Promise<unknown>;
const { productionValues, valuesSchema } = (await load('tools/deploy/chart.mjs')) as {
  productionValues: () => JsonObject & { features: Record<string, boolean>; images: Record<string, JsonObject> };
  valuesSchema: () => JsonObject;
};
const { renderTemplate, template } = (await load('tools/deploy/chart-template.mjs')) as {
  renderTemplate: (text: string, scope: object) => string;
  template: (object: object, condition: string | undefined, marks: Map<string, string>) => string;
};

describe('values of the chart', () => {
  const schema = compileSchema(valuesSchema());
  const values = productionValues();

  it('are those of the production overlay and keep their schema', () => {
    expect(schema.check(values as Json)).toBe(true);
    expect(values).toMatchObject({
      host: 'tools.example.com',
      autoscaler: 'keda',
      features: { ingress: true, gatewayApi: false, gvisor: false, adminKey: true },
    });
    expect(Object.keys(values.images)).toHaveLength(7);
  });

  it.each<[string, (wrong: Record<string, unknown>) => void]>([
    ['no host', (wrong) => delete wrong['host']],
    ['an unknown autoscaler', (wrong) => (wrong['autoscaler'] = 'vpa')],
    ['an unknown feature', (wrong) => (wrong['features'] = { gvisors: true })],
    ['two ways in', (wrong) => (wrong['features'] = { ingress: true, gatewayApi: true })],
    ['an image without digest', (wrong) => (wrong['images'] = { gateway: { name: 'gateway' } })],
    ['NATS without TLS', (wrong) => ((wrong['stores'] as { nats: JsonObject }).nats['url'] = 'nats://a:4222')],
  ])('with %s do not', (_what, change) => {
    const wrong = structuredClone(values) as Record<string, unknown>;
    change(wrong);
    expect(schema.check(wrong as Json)).toBe(false);
  });
});

describe('a template', () => {
  const object = {
    kind: 'Ingress',
    metadata: { labels: { '__Values.labels__': '', app: 'x' }, note: 'keeps {{ $labels.tool }} and }}' },
    spec: {
      hosts: ['__Values.host__'],
      peers: ['__List.peers__'],
      image: '__Values.name__@__Values.digest__',
      env: [{ name: 'A' }, { name: 'B' }],
      runtime: 'gvisor',
    },
  };
  const marks = new Map([
    ['/spec/env/1', '.Values.extra'],
    ['/spec/runtime', '.Values.extra'],
  ]);
  const base = { labels: { release: 'prom' }, host: 'a', peers: [{ cidr: 'b' }], name: 'n', digest: 'd' };
  const render = (Values: object, text = template(object, 'eq .Values.scaler "keda"', marks)) =>
    yaml.loadAll(renderTemplate(text, { Values })).filter(Boolean);
  const spec = { hosts: ['a'], peers: [{ cidr: 'b' }], image: 'n@d', env: [{ name: 'A' }] };

  it('holds values, conditional parts and text that looks like an action', () => {
    const metadata = { labels: { release: 'prom', app: 'x' }, note: 'keeps {{ $labels.tool }} and }}' };
    expect(render({ ...base, scaler: 'keda', extra: false })).toEqual([{ kind: 'Ingress', metadata, spec }]);
    expect(render({ ...base, scaler: 'keda', extra: true })).toEqual([
      { kind: 'Ingress', metadata, spec: { ...spec, env: [{ name: 'A' }, { name: 'B' }], runtime: 'gvisor' } },
    ]);
    expect(render({ ...base, scaler: 'hpa', extra: true })).toEqual([]);
  });

  it.each([
    ['a: {{ .Values.none }}', '.Values.none has no value'],
    ['a: {{ .Values.host | upper }}', 'the function upper is not one of'],
    ['{{- if .Values.host }}\na: 1', 'an {{ if }} is not closed'],
    ['a: 1\n{{- end }}', '{{ end }} without {{ if }}'],
  ])('%j is refused by the renderer', (text, message) => {
    expect(() => render(base, text)).toThrow(message);
  });

  it('has no list of which every item is conditional', () => {
    const all = new Map([
      ['/spec/env/0', '.Values.a'],
      ['/spec/env/1', '.Values.b'],
    ]);
    expect(() => template(object, undefined, all)).toThrow('/spec/env: every item is conditional');
  });
});

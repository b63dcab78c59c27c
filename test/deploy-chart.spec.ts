/** The Helm chart: its values, and the templates. `npm run check:deploy` renders it by helm and compares the objects with the overlays. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { Json, JsonObject } from '@toolfleet/contracts';
import { compileSchema } from '@toolfleet/bounded-schema';
import yaml from 'js-yaml';
import { describe, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const load = (path: string) => import(pathToFileURL(join(ROOT, path)).href) as Promise<unknown>;
const { productionValues, valuesSchema } = (await load('tools/deploy/chart.mjs')) as {
  productionValues: () => JsonObject & { features: Record<string, boolean>; images: Record<string, JsonObject> };
  valuesSchema: () => JsonObject;
};
const { template } = (await load('tools/deploy/chart-template.mjs')) as {
  template: (object: object, condition: string | undefined, marks: Map<string, string>, scaled?: string) => string;
};

const { classComponent } = (await load('tools/deploy/classes.mjs')) as {
  classComponent: (classes: object, names: string[]) => { patches: { target?: object; patch: string }[] };
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
    expect(Object.keys(values.images)).toHaveLength(9);
  });

  it('of the example in docs/operations/kubernetes.md keep it, too', () => {
    const page = readFileSync(join(ROOT, 'docs/operations/kubernetes.md'), 'utf8');
    const [, example] = /```yaml\n(classes:\n.*?)```/s.exec(page)!;
    expect(schema.check({ ...values, ...(yaml.load(example!) as object) } as Json)).toBe(true);
  });

  it.each<[string, (wrong: Record<string, unknown>) => void]>([
    ['no host', (wrong) => delete wrong['host']],
    ['an unknown autoscaler', (wrong) => (wrong['autoscaler'] = 'vpa')],
    ['an unknown feature', (wrong) => (wrong['features'] = { gvisors: true })],
    ['two ways in', (wrong) => (wrong['features'] = { ingress: true, gatewayApi: true })],
    ['an image without digest', (wrong) => (wrong['images'] = { gateway: { name: 'gateway' } })],
    ['an unknown class', (wrong) => (wrong['classes'] = { gatway: {} })],
    ['an unknown field of a class', (wrong) => (wrong['classes'] = { gateway: { resorces: {} } })],
    [
      'a setting that the service does not know',
      (wrong) => (wrong['classes'] = { gateway: { env: { GATEWAY_PROT: '1' } } }),
    ],
    ['a secret as a variable', (wrong) => (wrong['classes'] = { gateway: { env: { API_KEY_PEPPER: 'x' } } })],
    ['secrets of tools for the gateway', (wrong) => (wrong['classes'] = { gateway: { toolSecrets: [] } })],
    ['NATS without TLS', (wrong) => ((wrong['stores'] as { nats: JsonObject }).nats['url'] = 'nats://a:4222')],
  ])('with %s do not', (_what, change) => {
    const wrong = structuredClone(values) as Record<string, unknown>;
    change(wrong);
    expect(schema.check(wrong as Json)).toBe(false);
  });
});

describe('a template', () => {
  it('holds values, conditional parts and text that looks like an action', () => {
    const object = {
      kind: 'Ingress',
      metadata: { name: '__Fleet__-critical', labels: { '__Values.labels__': '' }, note: 'keeps {{ $labels.tool }}' },
      spec: {
        hosts: ['__Values.host__'],
        peers: ['__List.peers__'],
        minReplicas: '__bound gateway min 2__',
        image: '__Values.name__@__Values.digest__',
        env: [{ name: 'A' }, { name: 'B' }],
      },
    };
    expect(
      template(object, 'eq .Values.scaler "keda"', new Map([['/spec/env/1', '.Values.extra']])).split('\n'),
    ).toEqual([
      '{{- if eq .Values.scaler "keda" }}',
      '---',
      'kind: Ingress',
      'metadata:',
      '  name: {{ include "toolfleet.name" . }}-critical',
      '  labels:',
      '    {{- toYaml .Values.labels | nindent 4 }}',
      '  note: keeps {{ "{{" }} $labels.tool }}',
      'spec:',
      '  hosts:',
      '    - {{ .Values.host | toJson }}',
      '  peers: {{ .Values.peers | toJson }}',
      '  minReplicas: {{ include "toolfleet.bound" (dict "root" . "name" "gateway" "bound" "min" "fallback" 2) }}',
      '  image: {{ .Values.name }}@{{ .Values.digest }}',
      '  env:',
      '    - name: A',
      '    {{- if .Values.extra }}',
      '    - name: B',
      '    {{- end }}',
      '{{- end }}',
      '',
    ]);
  });

  it('passes the Deployment of a class to the helper that sets its values', () => {
    const text = template({ kind: 'Deployment', metadata: { name: 'budget' } }, undefined, new Map(), 'false');
    expect(text).toMatch(/^\{\{- define "toolfleet.deployment.budget" \}\}\nkind: Deployment\n/);
    expect(text).toContain('include "toolfleet.deployment" (dict "root" . "name" "budget" "scaled" false)');
  });

  it('has no list of which every item is conditional', () => {
    const all = new Map([
      ['/spec/env/0', '.Values.a'],
      ['/spec/env/1', '.Values.b'],
    ]);
    const object = { spec: { env: [{ name: 'A' }, { name: 'B' }] } };
    expect(() => template(object, undefined, all)).toThrow('/spec/env: every item is conditional');
  });
});

describe('classes of the settings', () => {
  const names = ['budget', 'gateway', 'mcp-executor'];
  const patches = (classes: object) =>
    classComponent(classes, names).patches.map(({ target, patch }) => ({ target, patch: yaml.load(patch) }));

  it('become patches of the Deployment, and of the autoscaler there is', () => {
    const [deployment, hpa, keda] = patches({
      gateway: { replicas: { min: 3, max: 30 }, nodeSelector: { pool: 'a' } },
    });
    expect(deployment!.patch).toMatchObject({
      metadata: { name: 'gateway' },
      spec: { template: { spec: { nodeSelector: { pool: 'a' } } } },
    });
    expect(hpa).toEqual({
      target: { kind: 'HorizontalPodAutoscaler', name: 'gateway' },
      patch: [
        { op: 'replace', path: '/spec/minReplicas', value: 3 },
        { op: 'replace', path: '/spec/maxReplicas', value: 30 },
      ],
    });
    expect(keda!.patch).toContainEqual({ op: 'replace', path: '/spec/fallback/replicas', value: 3 });
  });

  it('take from default what they do not set', () => {
    const login = [{ name: 'login' }];
    const made = patches({
      default: { imagePullSecrets: login, podAnnotations: { a: 'b' } },
      budget: { podAnnotations: { c: 'd' } },
    });
    expect(made.map(({ patch }) => patch)).toMatchObject([
      {
        metadata: { name: 'budget' },
        spec: { template: { metadata: { annotations: { c: 'd' } }, spec: { imagePullSecrets: login } } },
      },
      { metadata: { name: 'gateway' }, spec: { template: { metadata: { annotations: { a: 'b' } } } } },
      { metadata: { name: 'mcp-executor' } },
    ]);
  });

  it('mount each secret of a tool as a file that its executor reads', () => {
    const [made] = patches({ 'mcp-executor': { toolSecrets: [{ env: 'CRM_SECRET', secret: 'crm', key: 'token' }] } });
    expect(made!.patch).toMatchObject({
      spec: {
        template: {
          spec: {
            containers: [{ env: [{ name: 'CRM_SECRET_FILE', value: '/run/secrets/tools/CRM_SECRET' }] }],
            volumes: [
              {
                projected: {
                  defaultMode: 0o440,
                  sources: [{ secret: { name: 'crm', items: [{ key: 'token', path: 'CRM_SECRET' }] } }],
                },
              },
            ],
          },
        },
      },
    });
  });
});

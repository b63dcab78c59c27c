/**
 * `node tools/deploy/sizes.mjs <rendered.yaml>`: the minimum and maximum requests of a rendering's pods, as the table of
 * docs/operations/kubernetes.md. A test keeps the table equal to the production overlay.
 */
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { objectsOf } from './lint.mjs';
import { bytes } from './lint/model.mjs';

const GIB = 2 ** 30;

/** Cores of a Kubernetes quantity (`250m`). */
const cores = (quantity) => (/m$/.test(quantity) ? parseFloat(quantity) / 1_000 : Number(quantity));
const round = (value) => String(Math.round(value * 100) / 100);

/**
 * Requests of each Deployment with its fewest and most replicas.
 * @param {object[]} objects Kubernetes objects
 * @returns {{ name: string, least: number, most: number, cores: number, gib: number }[]} cores and GiB of one pod
 */
export function sizes(objects) {
  const scalers = new Map(
    objects
      .filter(({ kind }) => kind === 'HorizontalPodAutoscaler' || kind === 'ScaledObject')
      .map(({ spec }) => [spec.scaleTargetRef.name, spec]),
  );
  return objects
    .filter(({ kind }) => kind === 'Deployment')
    .map(({ metadata: { name }, spec }) => {
      const { requests } = spec.template.spec.containers[0].resources;
      const scaler = scalers.get(name);
      return {
        name,
        least: scaler?.minReplicas ?? scaler?.minReplicaCount ?? spec.replicas ?? 1,
        most: scaler?.maxReplicas ?? scaler?.maxReplicaCount ?? spec.replicas ?? 1,
        cores: cores(requests.cpu),
        gib: bytes(requests.memory) / GIB,
      };
    })
    .toSorted((a, b) => a.name.localeCompare(b.name));
}

/** The table of docs/operations/kubernetes.md. */
export function sizeTable(objects) {
  const rows = sizes(objects);
  const sum = (of) => round(rows.reduce((total, row) => total + of(row), 0));
  const lines = rows.map(
    (row) => `| ${row.name} | ${row.least} to ${row.most} | ${round(row.cores)} | ${round(row.gib)} GiB |`,
  );
  return [
    '| Class | Pods | Cores of a pod | Memory of a pod |',
    '|---|---|---|---|',
    ...lines,
    `| **least** | ${sum(({ least }) => least)} | ${sum((row) => row.least * row.cores)} | ${sum((row) => row.least * row.gib)} GiB |`,
    `| **most** | ${sum(({ most }) => most)} | ${sum((row) => row.most * row.cores)} | ${sum((row) => row.most * row.gib)} GiB |`,
  ].join('\n');
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href)
  console.log(sizeTable(objectsOf(readFileSync(process.argv[2], 'utf8'))));

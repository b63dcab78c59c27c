import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';

const SOURCE = '@toolfleet/source';

/**
 * Specs import our own packages from source (by an export condition that no other package has), so that no build is needed to run them.
 * `unit` is next to the code and needs no broker unless a spec starts one. `e2e` and `integration` (faults, abuse, measurements)
 * start real processes. `cluster` (npm run test:cluster) puts them on clustered stores; `corpus` (npm run check:openapi-corpus,
 * check:rego and check:conventions) needs cases of other projects, which those commands get; `abuse` (npm run test:abuse) runs the abuse tests of
 * `integration` at full length.
 */
const shared = {
  resolve: { conditions: [SOURCE] },
  ssr: { resolve: { conditions: [SOURCE], externalConditions: [SOURCE] } },
  // Specs lie outside the packages' tsconfig, from which the decorator mode would be read.
  oxc: { decorator: { legacy: true, emitDecoratorMetadata: true } },
};

/** A condition that is waited for is given time: a busy machine is late, never wrong. */
const patient = { expect: { poll: { timeout: 30_000 } } };

export default defineConfig({
  test: {
    // Most specs wait for brokers, services and deadlines half of their time: a worker for each core would leave cores idle.
    maxWorkers: Math.ceil(availableParallelism() * 1.5),
    projects: [
      {
        ...shared,
        test: {
          ...patient,
          name: 'unit',
          include: [
            'apps/*/src/**/*.spec.ts',
            'libs/*/src/**/*.spec.ts',
            'tools/*/src/**/*.spec.ts',
            'test/*.spec.ts',
            'test/skew/*.spec.ts',
          ],
          testTimeout: 60_000,
          hookTimeout: 60_000,
        },
      },
      {
        ...shared,
        test: {
          ...patient,
          name: 'browser',
          include: ['test/browser/**/*.spec.ts'],
          fileParallelism: false,
          testTimeout: 60_000,
          hookTimeout: 120_000,
        },
      },
      {
        ...shared,
        test: {
          ...patient,
          name: 'e2e',
          include: ['test/e2e/**/*.spec.ts'],
          testTimeout: 300_000,
          hookTimeout: 300_000,
        },
      },
      {
        ...shared,
        test: {
          ...patient,
          name: 'integration',
          include: ['test/failure/**/*.spec.ts', 'test/abuse/**/*.spec.ts', 'test/observability/**/*.spec.ts'],
          testTimeout: 300_000,
          hookTimeout: 300_000,
        },
      },
      {
        ...shared,
        test: {
          ...patient,
          name: 'corpus',
          include: ['apps/*/spec/**/*.spec.ts', 'libs/*/spec/**/*.spec.ts'],
          testTimeout: 240_000,
          hookTimeout: 60_000,
        },
      },
      {
        ...shared,
        test: {
          ...patient,
          name: 'abuse',
          include: ['test/abuse/**/*.spec.ts'],
          fileParallelism: false,
          testTimeout: 600_000,
          hookTimeout: 180_000,
        },
      },
      {
        ...shared,
        test: {
          ...patient,
          name: 'cluster',
          include: ['test/cluster/**/*.spec.ts'],
          fileParallelism: false,
          testTimeout: 240_000,
          hookTimeout: 240_000,
        },
      },
    ],
  },
});

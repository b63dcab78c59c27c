import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { PATIENCE_MS } from './libs/testing/src/patience.js';
import { LONG_SPECS } from './test/long-specs.js';

const SOURCE = '@toolfleet/source';

/** Variables of a shell about a fleet or brokers of its user: specs start their own, and never write into those. */
const OF_A_FLEET = /^(TOOLFLEET_\w+|(NATS|REDIS|DATABASE)_URL|GATEWAY_PORT)$/;
for (const name of Object.keys(process.env)) if (OF_A_FLEET.test(name)) delete process.env[name];

/**
 * Specs of a project share the modules of their worker (`isolate: false`): loading them for each file again took a third of the time.
 * A spec restores its changes of the process, and it needs nothing that another one left: `npm run test:isolated` runs each file with
 * modules of its own.
 *
 * Specs import our own packages from source (by an export condition that no other package has), so that no build is needed to run them.
 * `unit` is next to the code and needs no broker unless a spec starts one. `e2e` and `integration` (faults, abuse, measurements)
 * start real processes. `cluster` (npm run test:cluster) puts them on clustered stores, `containers` (npm run test:containers) into
 * containers; `corpus` (npm run check:openapi-corpus,
 * check:rego and check:conventions) needs cases of other projects, which those commands get; `abuse` (npm run test:abuse) runs the abuse tests of
 * `integration` at full length.
 */
const shared = {
  resolve: { conditions: [SOURCE] },
  ssr: { resolve: { conditions: [SOURCE], externalConditions: [SOURCE] } },
  // Specs lie outside the packages' tsconfig, from which the decorator mode would be read.
  oxc: { decorator: { legacy: true, emitDecoratorMetadata: true } },
};

/**
 * Specs of whole fleets begin when the unit tests have ended (they would starve them), and share their workers, so that none is idle until
 * the last files. They use the processors more than unit tests do: with more workers, ten programs wait for one.
 */
const systems = { isolate: false, sequence: { groupOrder: 1 } };

/** A condition that is waited for is given time: a busy machine is late, never wrong. */
const patient = {
  expect: { poll: { timeout: PATIENCE_MS } },
  testTimeout: 2 * PATIENCE_MS,
  hookTimeout: 2 * PATIENCE_MS,
};

/** Long specs, then the others in the order of vitest. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const places = new Map(LONG_SPECS.map((path, place) => [join(import.meta.dirname, path), place]));
    const placeOf = ({ moduleId }: TestSpecification): number => places.get(moduleId) ?? places.size;
    const sorted = await super.sort(files); // oxlint-disable-line unicorn/no-array-sort -- not an array's
    return sorted.toSorted((a, b) => placeOf(a) - placeOf(b));
  }
}

export default defineConfig({
  test: {
    // Many unit specs wait for brokers and deadlines: a worker for each core would leave cores idle.
    maxWorkers: Math.ceil(availableParallelism() * 1.5),
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        ...shared,
        test: {
          ...patient,
          name: 'unit',
          isolate: false,
          include: [
            'apps/*/src/**/*.spec.ts',
            'libs/{,kits/}*/src/**/*.spec.ts',
            'tools/*/src/**/*.spec.ts',
            'test/*.spec.ts',
            'test/skew/*.spec.ts',
          ],
        },
      },
      {
        ...shared,
        test: {
          ...patient,
          name: 'browser',
          include: ['test/browser/**/*.spec.ts'],
          fileParallelism: false,
        },
      },
      {
        ...shared,
        test: {
          ...patient,
          ...systems,
          name: 'e2e',
          include: ['test/e2e/**/*.spec.ts'],
        },
      },
      {
        ...shared,
        test: {
          ...patient,
          ...systems,
          name: 'integration',
          include: ['test/failure/**/*.spec.ts', 'test/abuse/**/*.spec.ts', 'test/observability/**/*.spec.ts'],
        },
      },
      {
        ...shared,
        test: {
          ...patient,
          name: 'corpus',
          include: ['apps/*/spec/**/*.spec.ts', 'libs/{,kits/}*/spec/**/*.spec.ts'],
        },
      },
      {
        ...shared,
        test: {
          ...patient,
          name: 'abuse',
          include: ['test/abuse/**/*.spec.ts'],
          fileParallelism: false,
        },
      },
      {
        ...shared,
        test: {
          ...patient,
          name: 'cluster',
          include: ['test/cluster/**/*.spec.ts'],
          fileParallelism: false,
        },
      },
      {
        ...shared,
        test: {
          ...patient,
          name: 'containers',
          include: ['test/containers/**/*.spec.ts'],
          fileParallelism: false,
          // All images are built first: 8 minutes on two cores, and 40 on a busy machine.
          hookTimeout: 2 * 3_600_000,
        },
      },
    ],
  },
});

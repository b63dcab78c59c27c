/** How pods of deploy/k8s end, for tests that end processes as a cluster does. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import yaml from 'js-yaml';
import type { ServiceName } from './test-fleet.js';

/** Times of a pod's end, in milliseconds. */
export interface EndOfPod {
  /** `DRAIN_TIMEOUT_MS` of the manifest. */
  drainMs: number;
  /** Time between SIGTERM and SIGKILL: the grace period without `preStop`. */
  afterPreStopMs: number;
}

interface Deployment {
  spec: {
    template: {
      spec: {
        terminationGracePeriodSeconds: number;
        containers: [
          {
            env: { name: string; value?: string }[];
            lifecycle: { preStop: { sleep: { seconds: number } } };
          },
        ];
      };
    };
  };
}

/** Reads the base manifest of a service; builtin tools of all kinds end as the class `builtin-compute` does. */
export function endOfPod(name: ServiceName): EndOfPod {
  const folder = name === 'builtin-executor' ? 'builtin-compute' : name;
  const path = fileURLToPath(new URL(`../../deploy/k8s/base/${folder}/deployment.yaml`, import.meta.url));
  const { spec } = (yaml.load(readFileSync(path, 'utf8')) as Deployment).spec.template;
  const [{ env, lifecycle }] = spec.containers;
  return {
    drainMs: Number(env.find((entry) => entry.name === 'DRAIN_TIMEOUT_MS')?.value),
    afterPreStopMs: (spec.terminationGracePeriodSeconds - lifecycle.preStop.sleep.seconds) * 1_000,
  };
}

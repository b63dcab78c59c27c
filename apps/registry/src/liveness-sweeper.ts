import type { Milliseconds } from '@toolfleet/contracts';
import { Rounds, type Clock } from '@toolfleet/resilience';
import type { Logger } from '@toolfleet/telemetry';
import type { DefinitionService } from './definition-service.js';

/** At its start the registry asks executors to announce their tools; none is marked unavailable before they had time to answer. */
const FIRST_SWEEP_MS = 2_000;

/** Periodically marks executors that stopped announcing. Their tools stay listed as unavailable. */
export function livenessSweeper(
  definitions: Pick<DefinitionService, 'expire'>,
  everyMs: Milliseconds,
  clock: Clock,
  logger: Logger,
): Rounds {
  return new Rounds({
    name: 'presence',
    clock,
    everyMs,
    firstMs: FIRST_SWEEP_MS,
    work: async () => {
      for (const owner of await definitions.expire())
        logger.warn({ source: owner }, 'a source stopped announcing; its tools are unavailable');
    },
    onFailure: (error) => logger.warn({ error }, 'the liveness of executors cannot be checked'),
  });
}

import type { ServerNotifier } from '@modelcontextprotocol/server';
import type { Clock } from '@toolfleet/resilience';
import type { DoorExtras } from '../extras.js';
import { contentFixtures } from './content-fixtures.js';
import { inputFixtures } from './input-fixtures.js';
import { MemoryTasks } from './memory-tasks.js';
import { installSurface } from './surface-fixtures.js';
import { taskFixtures } from './task-fixtures.js';

/** Everything the official conformance suite expects of a server. Loaded under a test flag only, never in production. */
export function conformanceFixtures(clock: Clock): DoorExtras {
  let notifier: ServerNotifier | undefined;
  const tasks = new MemoryTasks(clock);
  return {
    tools: [...contentFixtures(clock, () => notifier), ...inputFixtures(), ...taskFixtures(clock, tasks)],
    tasks,
    capabilities: {
      logging: {},
      completions: {},
      prompts: { listChanged: true },
      resources: { subscribe: true, listChanged: true },
    },
    install: installSurface,
    announce: (notify) => (notifier = notify),
    legacySessions: true,
  };
}

import { setTimeout as sleep } from 'node:timers/promises';
import type { ServiceName, TestFleet } from './test-fleet.js';

/** A process of a fleet: one of a service, or a broker. */
export type Killed = ServiceName | 'nats' | 'redis';

interface RandomKills {
  /** Each kill takes one of these at random; a name that is there twice is taken twice as often. */
  names: readonly Killed[];
  /** How many processes are killed. */
  kills: number;
  /** Milliseconds between the return of a process and the next kill. */
  pauseMs: { least: number; spread: number };
  /** Called after each kill, with their number so far. */
  onKill?: (kills: number) => void;
}

/** Processes that are down at the same time, `FAILURE_KILLERS`; one by default. */
const KILLERS = Number(process.env['FAILURE_KILLERS'] ?? 1);

/**
 * Kills processes of a fleet at random instants, as a crash would, and starts each again. Resolves when the last one is back. A broker has
 * what it had confirmed: a crash of a process keeps the files of its machine.
 */
export async function killAtRandom(fleet: TestFleet, { names, kills, pauseMs, onKill }: RandomKills): Promise<void> {
  let killed = 0;
  const brokersDown = new Set<Killed>();
  const kill = async (name: Killed): Promise<(() => Promise<unknown>) | undefined> => {
    if (name === 'nats' || name === 'redis') {
      if (brokersDown.has(name)) return undefined;
      brokersDown.add(name);
      await fleet[name].kill();
      return () => fleet[name].restart().then(() => brokersDown.delete(name));
    }
    const running = fleet.running.get(name)?.length ?? 0;
    if (running === 0) return undefined;
    await fleet.kill(name, Math.floor(Math.random() * running));
    return () => fleet.launch(name);
  };
  const killer = async (): Promise<void> => {
    while (killed < kills) {
      await sleep(pauseMs.least + Math.random() * pauseMs.spread);
      const name = names[Math.floor(Math.random() * names.length)]!;
      if (killed >= kills) return;
      const start = await kill(name);
      if (!start) continue;
      killed += 1;
      onKill?.(killed);
      await start();
    }
  };
  await Promise.all(Array.from({ length: KILLERS }, killer));
}

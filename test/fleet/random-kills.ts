import { setTimeout as sleep } from 'node:timers/promises';
import type { ServiceName, TestFleet } from './test-fleet.js';

interface RandomKills {
  /** Each kill takes one of these at random; a name that is there twice is taken twice as often. */
  names: readonly ServiceName[];
  /** How many processes are killed. */
  kills: number;
  /** Milliseconds between the return of a process and the next kill. */
  pauseMs: { least: number; spread: number };
  /** Called after each kill, with their number so far. */
  onKill?: (kills: number) => void;
}

/** Processes that are down at the same time, `FAILURE_KILLERS`; one by default. */
const KILLERS = Number(process.env['FAILURE_KILLERS'] ?? 1);

/** Kills processes of a fleet at random instants, as a crash would, and starts each again. Resolves when the last one is back. */
export async function killAtRandom(fleet: TestFleet, { names, kills, pauseMs, onKill }: RandomKills): Promise<void> {
  let killed = 0;
  const killer = async (): Promise<void> => {
    while (killed < kills) {
      await sleep(pauseMs.least + Math.random() * pauseMs.spread);
      const name = names[Math.floor(Math.random() * names.length)]!;
      const running = fleet.running.get(name)?.length ?? 0;
      if (running === 0 || killed >= kills) continue;
      killed += 1;
      await fleet.kill(name, Math.floor(Math.random() * running));
      onKill?.(killed);
      await fleet.launch(name);
    }
  };
  await Promise.all(Array.from({ length: KILLERS }, killer));
}

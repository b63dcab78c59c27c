import { runApart } from './run-apart.js';

const works: (() => void)[] = [];

/**
 * Runs work once this turn of the event loop ends, with all other work of the turn in their order and by one immediate of Node. Work that
 * is added meanwhile runs in the same pass: what collects requests adds its write to a connection, and the connection its write to the
 * socket.
 */
export function atTurnEnd(work: () => void): void {
  if (works.push(work) === 1) setImmediate(endTurn);
}

function endTurn(): void {
  for (const work of works) runApart(work);
  works.length = 0;
}
